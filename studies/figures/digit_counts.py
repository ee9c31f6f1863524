"""Measure ranked accuracy on images with N digits (RLSEP, Fig. 5): `python -m studies.figures.digit_counts 4`."""

import sys
from pathlib import Path

from pipelines.config import Settings, load
from rankgrad.evaluation import interval
from rankgrad.io import results
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import load_model
from rankgrad.io.results import Row
from rankgrad.metrics.label_ranking import label_ranking_scores
from rankgrad.seeding import derived_seed
from rankgrad.tasks.label_ranking import LabelRanking
from rankgrad.training.device import find_device


def main(params: Settings, digits: int) -> None:
    """Test both losses trained on this number of digits, and RLSEP trained on three."""
    task, device = LabelRanking(), find_device(params.compute.device)
    split = task.load(f"data/ranked_mnist-{digits}_digits", "test", threads=params.compute.threads)
    rows = []
    # Use the same resamples for every ranker, so that differences are paired.
    resamples, seed = params.evaluate.resamples, derived_seed(params.evaluate.seed, "digits", str(digits))
    for run in dict.fromkeys([f"rlsep-{digits}_digits", "rlsep-3_digits", f"lsep-{digits}_digits"]):
        network = load_model(f"models/runs/label_ranking-{run}", device=device)
        scores, _ = task.scores(network, split.inputs)
        accuracy = label_ranking_scores(scores, split.truth)["accuracy"].numpy()
        bounded = interval(accuracy, resamples=resamples, seed=seed)
        rows.append(Row(f"label_ranking-{run}", f"accuracy.{digits}_digits", *bounded))
    with replaced_file(Path(f"metrics/measured/digits-{digits}.csv")) as partial:
        results.write(partial, rows)


if __name__ == "__main__":
    main(load(), int(sys.argv[1]))
