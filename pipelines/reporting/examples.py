"""Draw the predictions of runs for the first test examples: pictures, text, or rows of numbers."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from PIL import Image

from pipelines.config import Run, Settings
from pipelines.config.schema import NONE
from pipelines.reporting import plots
from pipelines.reporting.results import read_run
from rankgrad import lookup
from rankgrad.datasets.files.splits import input_of
from rankgrad.io.parquet import columns_of, read_table, said
from rankgrad.io.results import Row
from rankgrad.tasks.label_ranking import orders_of

__all__ = ["Examples", "draw_examples", "loss_of", "sheet"]

SHEET = 6  # examples to show with the predictions of every loss


def loss_of(run: Run) -> str:
    """Return the names of a run's loss (with its text options), sorter, and auxiliary loss; or of a fitted model."""
    if run.model.name == "identity":
        return f"{run.model.backbone.name}, fitted"
    loss = " ".join([run.loss.name, *(value for value in run.loss.args.values() if isinstance(value, str))])
    return " + ".join([loss, *(name for name in (run.sorter, run.auxiliary.name) if name != NONE)])


def _may_be_shown(params: Settings, dataset: str) -> bool:
    """Return whether the report may show examples: only of generated and users' own data, because of licenses."""
    block = params.datasets[dataset]
    return block.is_drawn or block.name == "table"


@dataclass(frozen=True)
class Examples:
    """A run's predictions for test examples, for `rankgrad.tasks.Task.draw`.

    Attributes:
        params: the project's params.
        name: the name of the run.
        metrics: the run's metrics over all seeds, one row each.
    """

    params: Settings
    name: str
    metrics: list[Row]

    @property
    def path(self) -> Path:
        """The path of the test table."""
        return Path(f"data/{self.params.runs[self.name].dataset}/test.parquet")

    @property
    def loss(self) -> str:
        return loss_of(self.params.runs[self.name])

    @property
    def classes(self) -> list[str] | None:
        return said(self.path, "classes")

    @property
    def of_preferences(self) -> bool:
        """Return whether each example is a pair of a preferred and a rejected answer."""
        return "rejected" in (said(self.path, "input") or {})

    def has(self, column: str) -> bool:
        """Return whether the predictions have a column."""
        return column in columns_of(Path(f"predictions/{self.name}.parquet"))

    def predicted(self, *columns: str) -> pa.Table:
        """Return the predictions for the test split by the best seed on validation."""
        table = read_table(f"predictions/{self.name}.parquet", ["seed", *columns])
        return table.filter(pa.array(table["seed"].to_numpy() == read_run(f"models/runs/{self.name}")["best"]))

    def inputs(self, count: int) -> list[plots.Example]:
        """Return the first test examples in a form to show: pictures, first frames of clips, text, or named numbers."""
        name = input_of(self.path)
        rows = self.predicted("id")["id"][:count]  # with folds, the first predictions may be of any rows
        column = read_table(self.path, [name])[name].take(rows.combine_chunks())
        return lookup.find("inputs", name).shown(column, path=self.path, threads=self.params.compute.threads)


def sheet(params: Settings, folder: Path) -> list[tuple[str, str, dict[str, plots.Order]]]:
    """Draw and return the first test examples of label ranking, with the order of labels that each loss predicts.

    Each loss is represented by its first run on the first dataset that may be shown. An example is the name of a
    picture file, or text.
    """
    ours = {name: run for name, run in params.runs.items() if run.task == "label_ranking"}
    dataset = next((run.dataset for run in ours.values() if _may_be_shown(params, run.dataset)), None)
    if dataset is None:
        return []
    names: dict[str, str] = {}
    for name, run in ours.items():
        if run.dataset == dataset:
            names.setdefault(loss_of(run), name)
    examples = [Examples(params, name, []) for name in names.values()]
    inputs, orders = examples[0].inputs(SHEET), orders_of(examples[0], SHEET)
    for other in examples[1:]:
        orders = [before | own for before, own in zip(orders, orders_of(other, SHEET), strict=True)]
    title = "Labels by each loss, the most important first. Red: not in its true place"
    plots.orders(folder / "orders.png", inputs, orders, title=title)
    rows = []
    for row, (example, order) in enumerate(zip(inputs, orders, strict=True)):
        if isinstance(example, str):
            rows.append(("", example, order))
        else:
            Image.fromarray(example).save(folder / f"image-{row}.png")
            rows.append((f"image-{row}.png", "", order))
    return rows


def draw_examples(path: Path, examples: Examples) -> bool:
    """Draw the predictions of a run; return False if its data may not be shown, or its task has no such picture."""
    run = examples.params.runs[examples.name]
    return _may_be_shown(examples.params, run.dataset) and lookup.find("tasks", run.task)().draw(plots, path, examples)
