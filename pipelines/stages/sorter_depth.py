"""L1 of the CNN sorter at several depths, all else as in its own block (SoDeep, Fig. 4)."""

import json

from pipelines.config.schema import Settings
from pipelines.stages.benchmark_sorters import measure
from pipelines.stages.pretrain import pretrained
from pipelines.stages.runner import run
from rankops.datasets.vectors import score_vectors
from rankops.io.atomic import remove_folder, replaced_file


def main(params: Settings, layers: str) -> None:
    own = params.sorters["cnn"]
    options = own.model_copy(update={"args": own.args | {"layers": int(layers)}})
    sorter, epochs, checkpoint = pretrained(params, options, f"cnn-{layers}_layers")
    test = score_vectors.load("data/score_vectors", "test")
    figures = measure(sorter.eval().cpu(), test, resamples=params.benchmark_sorters.resamples)
    figures["validation"] = [epoch.validation["l1"] for epoch in epochs]
    with replaced_file(f"results/sorter_depth/{layers}.json") as partial:
        partial.write_text(json.dumps(figures, indent=2) + "\n")
    remove_folder(checkpoint)


if __name__ == "__main__":
    run(main)
