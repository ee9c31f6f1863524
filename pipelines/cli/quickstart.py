"""`rankops quickstart`: two small label rankers that differ in their loss alone, side by side within a minute."""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.data import MNIST
from pipelines.cli.shared import errors_in_a_line, table

if TYPE_CHECKING:
    from rankops.datasets.scenes.digits import Digits

__all__ = ["compare", "quickstart"]

SHEET, PICTURE = Path("reports/quickstart.png"), Path("reports/quickstart-picture.png")
LOSSES = ("cross_entropy", "rlsep")
SHOWN = {
    "ranked.exact_match": "ranked 0-1: all labels in their exact order",
    "ranked.accuracy": "ranked accuracy: pairs of labels in their order",
    "ranked.mean_average_precision": "ranked mAP",
    "unranked.f1": "unranked F1: the right labels, in any order",
}
EXAMPLES = 12  # images on the sheet
# Small enough for a minute on two cores.
CANVAS, CHANNELS, EPOCHS = 48, (16, 32, 64), {"scorer": 8, "thresholds": 3}
ROWS = {"train": 4000, "val": 500, "test": 1000, "gate": 2}


def quickstart(seed: Annotated[int, typer.Option(help="Of data, weights and batches.")] = 1) -> None:
    """Train two small label rankers, with RLSEP and with cross-entropy, and compare them: about a minute on two cores.

    Writes reports/quickstart.png, and changes nothing of the pipeline's.
    """
    started = time.monotonic()
    with errors_in_a_line():
        values = compare(_digits(seed), seed=seed, rows=ROWS, epochs=EPOCHS)
        from pipelines.reporting.results import number

        rows = [(title, *(number(*values[loss][name].values()) for loss in LOSSES)) for name, title in SHOWN.items()]
        typer.echo(f"{ROWS['test']:,} test images; 95 % intervals over these; {time.monotonic() - started:.0f} s")
        table("metric", *LOSSES, rows=rows)
    typer.echo(
        f"\n{SHEET}: the first {EXAMPLES} test images with the order that each loss found; wrong places are red\n"
        "Next:\n"
        f"  .venv/bin/rankops predict {PICTURE}   # a picture's labels, by the ranker that ships\n"
        "  make repro                                                   # the whole pipeline\n"
        "  make ui                                                      # its runs and models, in MLflow"
    )


def _digits(seed: int) -> "dict[str, Digits]":
    """Return MNIST's digits in splits if they are on this machine, else scikit-learn's.

    Raises:
        FileNotFoundError, ValueError: MNIST is incomplete or damaged.
    """
    from rankops.datasets.scenes import digits, mnist

    if mnist.is_there(MNIST):
        return digits.splits("mnist", MNIST, seed=seed)
    if root := os.environ.get("RANKOPS_MNIST_ROOT"):
        with TemporaryDirectory() as folder:
            mnist.copy(root, folder)
            return digits.splits("mnist", folder, seed=seed)
    typer.secho(f"no MNIST in {MNIST}: using scikit-learn's small digits; figures are lower", fg="yellow", err=True)
    return digits.splits("bundled", MNIST, seed=seed)


def compare(
    digits: "dict[str, Digits]", *, seed: int, rows: dict[str, int], epochs: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Train a label ranker with each loss, draw what they find in test images, and return their metrics by name.

    Args:
        digits: of each split.
        seed: of scenes, weights and batches.
        rows: scenes of each split.
        epochs: of both phases.
    """
    import torch
    from PIL import Image

    from pipelines.reporting import plots
    from pipelines.reporting.examples import places
    from pipelines.stages.progress import followed
    from rankops.datasets.scenes.ranked_mnist import RankedMnist
    from rankops.io.atomic import replaced_file
    from rankops.io.parquet import matrix
    from rankops.metrics.bootstrap import evaluate
    from rankops.predict import SHIPPED, image_of_ranker
    from rankops.seeding import generator
    from rankops.tasks.label_ranking import LabelRanking
    from rankops.training.loop import train
    from rankops.training.objective import Objective

    def scenes(canvas: int) -> RankedMnist:
        return RankedMnist(rows=rows, canvas=canvas, digits_per_image=(3, 6), scale=(1.0, 4.0), overlap=0.0, seed=seed)

    torch.set_num_threads(2)  # the same bits for the same number only
    data = {
        split: scenes(CANVAS).scenes(some, rows[split], generator(seed, "quickstart", split))
        for split, some in digits.items()
    }
    training: dict[str, dict[str, Any]] = {
        phase: {
            "batch_size": 64,
            "epochs": epochs[phase],
            "patience": epochs[phase],
            "optimizer": {"name": "AdamW", "args": {"lr": rate, "weight_decay": 1e-2}},
            "schedule": {"name": "cosine", "warm_up_epochs": warm_up},
        }
        for phase, rate, warm_up in (("scorer", 8e-3, 1), ("thresholds", 3e-3, 0))
    }
    training["scorer"] |= {"shift": 3, "zoom": 1.1, "rotation": 5.0}
    training["thresholds"] |= {"hidden": 128}
    values, found = {}, {}
    with TemporaryDirectory() as scratch:
        for loss in LOSSES:
            task = LabelRanking(training)
            model = {"name": "label_attention", "args": {"backbone": "convnet", "channels": CHANNELS}}
            network = task.build(model, data["train"], seed=seed)
            objective = Objective({"name": loss, "args": {}})
            steps = train(
                task, network, data["train"], data["val"], training=training, objective=objective, seed=seed,
                device="cpu", name=loss,
            )  # fmt: skip
            for _ in followed(steps, name=loss, total=sum(epochs.values()), history=Path(scratch) / "history.csv"):
                pass
            with torch.no_grad():
                predicted = task.predict(network, data["test"])
            metrics = evaluate({seed: task.statistic(predicted)}, resamples=1000, seed=seed)
            leaves = {name: metrics[kind][rate] for name in SHOWN for kind, rate in [name.split(".")]}
            values[loss] = {name: {key: leaf[key] for key in ("value", "low", "high")} for name, leaf in leaves.items()}
            found[loss] = matrix(predicted[:EXAMPLES], "label_ranks", path=SHEET).numpy()
    images, truth = (part[:EXAMPLES].numpy() for part in data["test"])
    orders = [
        {"true": places(one, one)} | {loss: places(one, ranks[row]) for loss, ranks in found.items()}
        for row, one in enumerate(truth)
    ]
    canvas = image_of_ranker(SHIPPED)["width"]
    picture, _ = scenes(canvas).scenes(digits["test"], 1, generator(seed, "quickstart", "picture"))
    with replaced_file(SHEET) as sheet, replaced_file(PICTURE) as file:
        plots.orders(sheet, list(images), orders, title="Digits by size, the largest first. Red: not in its true place")
        Image.fromarray(picture[0].numpy()).save(file, "PNG")
    return values
