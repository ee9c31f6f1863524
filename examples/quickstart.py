"""Train two small label rankers that differ only in their loss, within a minute: `make quickstart`.

Writes reports/quickstart.png and reports/quickstart/, and changes nothing of the pipeline's.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from examples.demo.server import QUICKSTART
from pipelines.cli.data import SUBSET
from pipelines.cli.shared import table
from pipelines.reporting import plots
from pipelines.reporting.results import cell
from pipelines.running.history import followed
from rankgrad.cli.predict import SHIPPED, image_of_ranker
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes.digits import Digits, splits
from rankgrad.evaluation import evaluate
from rankgrad.inputs.image import of_tensor
from rankgrad.io.atomic import replaced_file
from rankgrad.io.checkpoints import save_model
from rankgrad.io.parquet import matrix
from rankgrad.io.results import Results
from rankgrad.seeding import generator
from rankgrad.tasks.label_ranking import LabelRanking, ScorerOptions, ThresholdOptions, Training, places
from rankgrad.training.loop import train
from rankgrad.training.objective import Objective
from rankgrad.training.options import Component, Optimizer, Schedule

SHEET, PICTURE = Path("reports/quickstart.png"), Path("reports/quickstart-picture.png")
LOSSES = ("multilabel_cross_entropy", "rlsep")
SHOWN = {
    "ranked.exact_match": "ranked 0-1 (exact order)",
    "ranked.accuracy": "ranked accuracy (pairs)",
    "ranked.mean_average_precision": "ranked mAP",
    "unranked.f1": "unranked F1 (any order)",
}
EXAMPLES = 12  # images on the sheet
SEED = 1  # of scenes, weights and batches
# Small enough for a minute on two cores.
CANVAS, CHANNELS, EPOCHS = 48, (16, 32, 64), {"scorer": 8, "thresholds": 3}
ROWS = {"train": 4000, "val": 500, "test": 1000}


def main() -> None:
    """Train both, print a table of their metrics, and draw the orders that they find."""
    started = time.monotonic()
    digits = splits("subset", SUBSET)
    values, images, orders = compare(digits)
    rows = []
    for metric, title in SHOWN.items():
        rows.append((title, *(cell(*values.leaf(loss, metric)) for loss in LOSSES)))
    print(f"{ROWS['test']:,} test images; 95 % intervals over these; {time.monotonic() - started:.0f} s")
    table("metric", *LOSSES, rows=rows)
    _draw(images, orders, digits["test"])
    print(
        f"\n{SHEET}: the first {EXAMPLES} test images with the order that each loss found; wrong places are red\n"
        "Next:\n"
        "  .venv/bin/python -m examples.demo                                     # both on a page: move digits\n"
        f"  .venv/bin/rankgrad predict shipped {PICTURE}   # a picture's labels, by the ranker that ships\n"
        "  make repro                                                           # the whole pipeline\n"
        "  make ui                                                              # its runs and models, in MLflow"
    )


def _scenes(digits: Digits, canvas: int, rows: int, use: str) -> tuple[Tensor, Tensor]:
    """Return images (rows, canvas, canvas) and label ranks (rows, 10)."""
    scenes = RankedMnist(
        rows=dict.fromkeys(("train", "val", "test", "gate"), 2),  # of files, which are not written
        canvas=canvas,
        digits_per_image=(3, 6),
        scale=(1.0, 4.0),
        overlap=0.0,
        seed=SEED,
    )
    return scenes.scenes(digits, rows, generator(SEED, "quickstart", use))


def _phase(name: str, *, rate: float, warm_up: float = 0) -> dict[str, Any]:
    """Return the options that both phases have."""
    return {
        "batch_size": 64,
        "epochs": EPOCHS[name],
        "patience": EPOCHS[name],
        "optimizer": Optimizer("AdamW", {"lr": rate, "weight_decay": 1e-2}),
        "schedule": Schedule("cosine", warm_up_epochs=warm_up),
    }


def compare(digits: dict[str, Digits]) -> tuple[Results, Tensor, list[dict[str, list[tuple[str, bool]]]]]:
    """Train a label ranker with each loss, and keep both for the demo.

    Args:
        digits: of each split.

    Returns:
        The metrics of each loss, with their intervals; the first test images, and the order of their labels by each
        loss, see `rankgrad.tasks.label_ranking.places`.
    """
    torch.set_num_threads(2)  # the same bits for the same number only
    scenes = {split: _scenes(of_split, CANVAS, ROWS[split], split) for split, of_split in digits.items()}
    data = {split: Split(of_tensor(images), label_ranks) for split, (images, label_ranks) in scenes.items()}
    training = Training(
        scorer=ScorerOptions(**_phase("scorer", rate=8e-3, warm_up=1), shift=3, zoom=1.1, rotation=5.0),
        thresholds=ThresholdOptions(**_phase("thresholds", rate=3e-3)),
    )
    rows, predictions = [], {}
    with TemporaryDirectory() as scratch:
        for loss in LOSSES:
            task = LabelRanking(training)
            convnet = {"name": "convnet", "args": {"channels": CHANNELS}}
            model = {"name": "label_attention", "args": {}, "backbone": convnet}
            network = task.build(model, data["train"], seed=SEED)
            objective = Objective(Component(loss))
            steps = train(
                task, network, data["train"], data["val"], objective=objective, seed=SEED,
                device="cpu", name=loss,
            )  # fmt: skip
            history = Path(scratch) / "history.csv"
            for _ in followed(steps, name=loss, total=sum(EPOCHS.values()), history=history, every=0):
                pass
            save_model(QUICKSTART / loss, network)
            with torch.no_grad():
                predicted = task.predict(network, data["test"])
            rows += evaluate(loss, {SEED: task.statistic(predicted)}, resamples=1000, seed=SEED)
            predictions[loss] = matrix(predicted[:EXAMPLES], "label_ranks", path=SHEET).numpy()
    truth = scenes["test"][1][:EXAMPLES].numpy()
    orders = []
    for row, true in enumerate(truth):
        order = {"true": places(true, true)}
        for loss, ranks in predictions.items():
            order[loss] = places(true, ranks[row])
        orders.append(order)
    return Results("quickstart", rows), scenes["test"][0][:EXAMPLES], orders


def _draw(images: Tensor, orders: list[dict[str, list[tuple[str, bool]]]], digits: Digits) -> None:
    """Write the sheet, and a picture for `rankgrad predict`, of the size of the ranker that ships."""
    title = "Digits by size, the largest first. Red: not in its true place"
    picture, _ = _scenes(digits, image_of_ranker(SHIPPED)["width"], 1, "picture")
    with replaced_file(SHEET) as sheet, replaced_file(PICTURE) as file:
        plots.orders(sheet, list(images.numpy()), orders, title=title)
        Image.fromarray(picture[0].numpy()).save(file, "PNG")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
