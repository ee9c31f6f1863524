"""Draw what runs predict of the first test examples: pictures, text or rows of numbers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipelines.config import Run, Settings
from pipelines.config.schema import NONE
from pipelines.reporting import plots
from pipelines.reporting.results import read_run
from rankops.io.parquet import IMAGE, decode_images, matrix, read_table, said

__all__ = ["draw_examples", "loss_of", "places", "sheet"]

EXAMPLES = 12  # of a run
SHEET = 6  # examples that are shown under every loss
FEATURES, DOCUMENTS = 6, 10  # of a row, and of a query, that are shown
KINDS = ("image", "frames", "features", "text")  # of inputs


def loss_of(run: Run) -> str:
    """Return the names of a run's loss, sorter and auxiliary loss."""
    return " + ".join([run.loss.name, *(name for name in (run.sorter, run.auxiliary.name) if name != NONE)])


def places(true: np.ndarray, predicted: np.ndarray, names: Sequence[str] | None = None) -> list[tuple[str, bool]]:
    """Return the predicted order of labels, the most important first, and whether each is in its true place.

    A place that the prediction leaves empty is "" and wrong.

    Args:
        true, predicted: label ranks (K,), 0 = absent.
        names: of the labels; None for their numbers.

    >>> places(np.array([0, 3, 2, 1]), np.array([1, 3, 2, 0])), places(np.array([0, 1, 2]), np.array([0, 0, 1]))
    ([('1', True), ('2', True), ('0', False)], [('2', True), ('', False)])
    """
    expected = np.sort(true[true > 0])[::-1].tolist()
    order = [label for label in np.argsort(-predicted, kind="stable").tolist() if predicted[label] > 0]
    right = [place < len(expected) and true[label].item() == expected[place] for place, label in enumerate(order)]
    shown = [names[label] if names else str(label) for label in order]
    return [*zip(shown, right, strict=True), *[("", False)] * (len(expected) - len(order))]


def _predictions(name: str, columns: list[str]) -> pa.Table:
    """Return what the seed of a run that is best on validation predicts of the test split."""
    table = read_table(f"predictions/{name}.parquet", ["seed", *columns])
    return table.filter(pa.array(table["seed"].to_numpy() == read_run(f"models/runs/{name}")["best"]))


def _may_be_shown(params: Settings, dataset: str) -> bool:
    """Whether the report shows examples: of data made here and of a person's own; licenses of others may forbid it."""
    block = params.datasets[dataset]
    return block.is_drawn or block.name == "table"


def _test(dataset: str) -> Path:
    return Path(f"data/{dataset}/test.parquet")


def _inputs(params: Settings, name: str, count: int) -> list[np.ndarray | str]:
    """Return the first test examples of a run's predictions as people see them.

    They are a picture, the first of a clip, text, or numbers by name.
    """
    dataset = params.runs[name].dataset
    path = _test(dataset)
    names = pq.read_schema(path).names
    kind = next(kind for kind in KINDS if kind in names)
    rows = _predictions(name, ["id"])["id"][:count]  # of folds the first ones are any
    column = read_table(path, [kind])[kind].take(rows.combine_chunks())
    if kind == "text":
        return column.to_pylist()
    if kind == "features":
        features = said(path, "features")
        return [_numbers(row, features) for row in column.to_pylist()]
    if kind == "frames":
        column = pa.chunked_array([pa.array([clip[0] for clip in column.to_pylist()], IMAGE)])
    images = decode_images(column, path=path, threads=params.compute.threads)
    return [image if image.ndim == 2 else image.transpose(1, 2, 0) for image in images]


def _numbers(row: list[float], names: list[str] | None) -> str:
    """Return the first numbers of a row of features, a line each.

    >>> print(_numbers([0.5, 12.25], ["age", "price"]))
    age 0.5
    price 12.2
    """
    called = names or list(map(str, range(len(row))))
    lines = [f"{name} {value:.3g}" for name, value in zip(called[:FEATURES], row, strict=False)]
    return "\n".join([*lines, *([f"and {len(row) - FEATURES} more"] if len(row) > FEATURES else [])])


def _orders(dataset: str, names: dict[str, str], count: int) -> list[dict[str, list[tuple[str, bool]]]]:
    """Return the true order of labels of each example, and that by each loss; `names` are runs by loss."""
    ranks, classes = {}, said(_test(dataset), "classes")
    for loss, name in names.items():
        table = _predictions(name, ["true_label_ranks", "label_ranks"])[:count]
        for title, column in {"true": "true_label_ranks", loss: "label_ranks"}.items():
            ranks[title] = matrix(table, column, path=f"predictions/{name}.parquet").numpy()
    rows = range(len(ranks["true"]))
    return [{title: places(ranks["true"][row], some[row], classes) for title, some in ranks.items()} for row in rows]


def sheet(params: Settings, folder: Path) -> list[tuple[str, str, dict[str, list[tuple[str, bool]]]]]:
    """Return the first test examples of label ranking, with their order of labels by each loss; draw them.

    Of each loss the first run on the first dataset that may be shown. An example is the name of a picture, or text.
    """
    ours = {name: run for name, run in params.runs.items() if run.task == "label_ranking"}
    dataset = next((run.dataset for run in ours.values() if _may_be_shown(params, run.dataset)), None)
    names: dict[str, str] = {}
    for name, run in ours.items():
        if run.dataset == dataset:
            names.setdefault(loss_of(run), name)
    if dataset is None:
        return []
    inputs, orders = _inputs(params, next(iter(names.values())), SHEET), _orders(dataset, names, SHEET)
    plots.orders(folder / "orders.png", inputs, orders)
    shown = []
    for row, (one, order) in enumerate(zip(inputs, orders, strict=True)):
        if isinstance(one, np.ndarray):
            Image.fromarray(one).save(folder / f"image-{row}.png")
        shown.append(("", one, order) if isinstance(one, str) else (f"image-{row}.png", "", order))
    return shown


def _captions(name: str) -> list[list[tuple[str, bool]]]:
    """Return the three best captions for each image, and whether they are its own."""
    table = _predictions(name, ["image_embedding", "captions", "text_embeddings"])
    images = np.stack(table["image_embedding"][:EXAMPLES].to_numpy())
    texts = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy().reshape(-1, images.shape[1])
    captions = [(text, image) for image, several in enumerate(table["captions"].to_pylist()) for text in several]
    best = np.argsort(-(images @ texts.T), axis=1, kind="stable")[:, :3]
    return [[(captions[one][0], captions[one][1] == image) for one in row] for image, row in enumerate(best)]


def _ranked(name: str) -> list[tuple[str, dict[str, list[tuple[str, bool]]]]]:
    """Return the first queries, with the relevance of the first documents in their true and in the predicted order."""
    found = []
    for row in _predictions(name, ["scores", "relevance"])[:EXAMPLES].to_pylist():
        relevance = np.array(row["relevance"])
        true = np.sort(relevance)[::-1][:DOCUMENTS]
        ours = relevance[np.argsort(-np.array(row["scores"]), kind="stable")][:DOCUMENTS]
        orders = {"true": [(f"{one:g}", True) for one in true]}
        orders["predicted"] = [(f"{one:g}", bool(one == best)) for one, best in zip(ours, true, strict=True)]
        found.append((f"query {len(found) + 1}:\nrelevance of\n{len(relevance)} documents", orders))
    return found


def draw_examples(path: Path, params: Settings, results: pd.DataFrame, name: str) -> bool:
    """Draw what a run predicts, and return whether it may be shown and there is such a picture of its task.

    Args:
        path: of the picture.
        results: of the run, from `read_runs`.
        name: of the run.
    """
    run = params.runs[name]
    if not _may_be_shown(params, run.dataset):
        return False
    if run.task == "label_ranking":
        orders = _orders(run.dataset, {loss_of(run): name}, EXAMPLES)
        plots.orders(path, _inputs(params, name, EXAMPLES), orders)
    elif run.task == "score_ranking":
        table = _predictions(name, ["score", "target"])
        plots.predicted(path, table["score"].to_numpy(), table["target"].to_numpy())
    elif run.task == "multilabel":
        rows = results[results["metric"].str.startswith("average_precision.") & results["seed"].isna()]
        rows = rows.set_index(rows["metric"].str.removeprefix("average_precision.").astype(int))
        counts = np.stack(_predictions(name, ["labels"])["labels"].to_numpy()).sum(0)
        plots.average_precisions(path, rows, counts, said(_test(run.dataset), "classes"))
    elif run.task == "retrieval":
        plots.found_captions(path, _inputs(params, name, EXAMPLES), _captions(name))
    elif run.task == "query_ranking":
        queries, orders = zip(*_ranked(name), strict=True)
        plots.orders(path, list(queries), list(orders))
    return True
