"""Draw what runs predict of the first test images."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image

from pipelines.config import Run, Settings
from pipelines.config.schema import NONE
from pipelines.reporting import plots
from pipelines.reporting.results import read_run
from rankops.io.parquet import decode_images, matrix, read_table

__all__ = ["draw_examples", "loss_of", "places", "sheet"]

EXAMPLES = 12  # images of a run
SHEET = 6  # images that are shown under every loss


def loss_of(run: Run) -> str:
    """Return the names of a run's loss, sorter and auxiliary loss."""
    return " + ".join([run.loss.name, *(name for name in (run.sorter, run.auxiliary.name) if name != NONE)])


def places(true: np.ndarray, predicted: np.ndarray) -> list[tuple[str, bool]]:
    """Return the predicted order of labels, the most important first, and whether each is in its true place.

    A place that the prediction leaves empty is "" and wrong.

    Args:
        true, predicted: label ranks (K,), 0 = absent.

    >>> places(np.array([0, 3, 2, 1]), np.array([1, 3, 2, 0])), places(np.array([0, 1, 2]), np.array([0, 0, 1]))
    ([('1', True), ('2', True), ('0', False)], [('2', True), ('', False)])
    """
    expected = np.sort(true[true > 0])[::-1].tolist()
    order = [label for label in np.argsort(-predicted, kind="stable").tolist() if predicted[label] > 0]
    right = [place < len(expected) and true[label].item() == expected[place] for place, label in enumerate(order)]
    return [*zip(map(str, order), right, strict=True), *[("", False)] * (len(expected) - len(order))]


def _predictions(name: str, columns: list[str]) -> pa.Table:
    """Return what the seed of a run that is best on validation predicts of the test split."""
    table = read_table(f"predictions/{name}.parquet", ["seed", *columns])
    return table.filter(pa.array(table["seed"].to_numpy() == read_run(f"models/runs/{name}")["best"]))


def _images(params: Settings, dataset: str, count: int) -> list[np.ndarray]:
    path = Path(f"data/{dataset}/test.parquet")
    images = decode_images(read_table(path, ["image"])["image"][:count], path=path, threads=params.compute.threads)
    return [image if image.ndim == 2 else image.transpose(1, 2, 0) for image in images]


def _orders(names: dict[str, str], count: int) -> list[dict[str, list[tuple[str, bool]]]]:
    """Return the true order of labels of each image, and that by each loss; `names` are runs by loss."""
    ranks = {}
    for loss, name in names.items():
        table = _predictions(name, ["true_label_ranks", "label_ranks"])[:count]
        for title, column in {"true": "true_label_ranks", loss: "label_ranks"}.items():
            ranks[title] = matrix(table, column, path=f"predictions/{name}.parquet").numpy()
    rows = range(len(ranks["true"]))
    return [{title: places(ranks["true"][row], some[row]) for title, some in ranks.items()} for row in rows]


def sheet(params: Settings, folder: Path) -> list[tuple[str, dict[str, list[tuple[str, bool]]]]]:
    """Return pictures of the first test images of label ranking, with their order of labels by each loss; draw them.

    Of each loss the first run on the first dataset that is made here.
    """
    ours = {name: run for name, run in params.runs.items() if run.task == "label_ranking"}
    dataset = next((run.dataset for run in ours.values() if params.datasets[run.dataset].is_drawn), None)
    names: dict[str, str] = {}
    for name, run in ours.items():
        if run.dataset == dataset:
            names.setdefault(loss_of(run), name)
    if dataset is None:
        return []
    images, orders = _images(params, dataset, SHEET), _orders(names, SHEET)
    plots.orders(folder / "orders.png", images, orders)
    for row, image in enumerate(images):
        Image.fromarray(image).save(folder / f"image-{row}.png")
    return [(f"image-{row}.png", order) for row, order in enumerate(orders)]


def _captions(name: str) -> list[list[tuple[str, bool]]]:
    """Return the three best captions for each image, and whether they are its own."""
    table = _predictions(name, ["image_embedding", "captions", "text_embeddings"])
    images = np.stack(table["image_embedding"][:EXAMPLES].to_numpy())
    texts = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy().reshape(-1, images.shape[1])
    captions = [(text, image) for image, several in enumerate(table["captions"].to_pylist()) for text in several]
    best = np.argsort(-(images @ texts.T), axis=1, kind="stable")[:, :3]
    return [[(captions[one][0], captions[one][1] == image) for one in row] for image, row in enumerate(best)]


def draw_examples(path: Path, params: Settings, results: pd.DataFrame, name: str) -> bool:
    """Draw what a run predicts of data made here, and return whether there is such a picture of its task.

    Args:
        path: of the picture.
        results: of the run, from `read_runs`.
        name: of the run.
    """
    run = params.runs[name]
    if not params.datasets[run.dataset].is_drawn:  # licenses of real data may forbid showing its images
        return False
    if run.task == "label_ranking":
        plots.orders(path, _images(params, run.dataset, EXAMPLES), _orders({loss_of(run): name}, EXAMPLES))
    elif run.task == "score_ranking":
        table = _predictions(name, ["score", "target"])
        plots.predicted(path, table["score"].to_numpy(), table["target"].to_numpy())
    elif run.task == "multilabel":
        rows = results[results["metric"].str.startswith("average_precision.") & results["seed"].isna()]
        rows = rows.set_index(rows["metric"].str.removeprefix("average_precision.").astype(int))
        plots.average_precisions(path, rows, np.stack(_predictions(name, ["labels"])["labels"].to_numpy()).sum(0))
    elif run.task == "retrieval":
        plots.found_captions(path, _images(params, run.dataset, EXAMPLES), _captions(name))
    else:
        return False
    return True
