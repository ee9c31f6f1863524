"""Describe a model's training data for `monitor`; publishing a version writes the description to its folder.

- Quantities of the input come from training rows. They are measured after preprocessing, since photos come in any size
  and format. A name counts as unknown if no other group of rows has it: of new rows, about as many have a new name.
- Quantities of the network (embedding, scores) and the fraction of unknown words come from test rows. With folds, where
  these train, too, they come from validation rows or, if these do as well, from the gate split. The weights were fitted
  to the training rows, so scores spread more on these than on new rows of the same kind, which would look like drift.
- Embeddings are compared along the principal components of training rows, which favor neither of the two samples.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA

from pipelines.monitoring.measure import Measured, Piece, measure, prepared
from pipelines.serving.request_log import CAPTION, input_compared
from pipelines.tracking.known_rows import Digests, known_rows, write_known
from rankgrad import lookup
from rankgrad.datasets.files.folds import FOLD, REGISTERED, folds_of, has_folds, next_of
from rankgrad.datasets.tables.ranges import REFERENCE, ranges_in
from rankgrad.datasets.tables.rows import Roles, Row, read
from rankgrad.inputs import type_of
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import columns_of, parquet_file, read_table
from rankgrad.seeding import generator
from rankgrad.training.device import find_device

__all__ = ["GROUP", "ROWS", "Reference", "TrainingData", "chosen", "read_reference", "reference_of"]

ROWS = 1000  # most rows of each split, since every version is measured when it is published
UNLIKE_STORED = ("columns", "group", "query", "stored")  # of a recipe's input
GROUP = "group"  # name of an index that has the group of each row
DIRECTIONS = 5  # directions for comparing embeddings


@dataclass(frozen=True)
class Directions:
    """The directions of largest variance of the embeddings of training rows.

    Attributes:
        mean: the mean of the embeddings (size,).
        components: unit vectors (directions, size).
    """

    mean: np.ndarray
    components: np.ndarray

    def of(self, measured: Measured) -> pd.DataFrame:
        """Return coordinates of embeddings, the norm of the residual, and the quantities of predictions (n, ...)."""
        centered = measured.embedding - self.mean
        coordinates = centered @ self.components.T
        # The residual is large for rows that resemble no training row.
        residual = np.linalg.norm(centered - coordinates @ self.components, axis=1)
        columns = {f"embedding {number}": column for number, column in enumerate(coordinates.T, 1)}
        table = pd.DataFrame(columns | {"embedding, rest": residual}, measured.answers.index)
        return pd.concat([table, measured.answers], axis=1)


@dataclass(frozen=True)
class Reference:
    """The reference with which new rows are compared.

    Attributes:
        dataset: the name of the dataset.
        inputs: quantities of training rows (n, ...), indexed by their groups, if they have any.
        network: quantities of the network's predictions for rows that it did not learn, and coordinates of embeddings
            (n, ...); indexed likewise.
        directions: directions of the training rows' embeddings.
        words: the words of all training texts; None if there are no texts.
        ranges: the smallest and the largest value of each numeric input in all training rows.
        compared: the input by which rows are compared, see `pipelines.serving.request_log.input_compared`; empty if an
            earlier version of the project wrote the reference.
    """

    dataset: str
    inputs: pd.DataFrame
    network: pd.DataFrame
    directions: Directions
    words: frozenset[str] | None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    compared: str = ""


def chosen(name: str, count: int, rows: int = ROWS) -> list[int]:
    """Return the numbers of the rows to measure: all, or a random sample of `rows`."""
    return torch.randperm(count, generator=generator(0, "monitor", name))[:rows].tolist()


def reference_of(dataset: str, training: Measured, others: Measured) -> Reference:
    """Return a reference from measured rows of training and of another split, without ranges."""
    embedding, words = training.embedding, frozenset(training.inputs.words) or None
    analysis = PCA(min(DIRECTIONS, *embedding.shape), random_state=0).fit(embedding)
    directions = Directions(analysis.mean_, analysis.components_)
    return Reference(dataset, training.inputs.quantities, directions.of(others), directions, words)


class TrainingData:
    """The splits on which versions were trained and selected.

    Args:
        folder: the folder of the dataset.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._last = dict[str, tuple[Any, list[Piece]]]()  # by split: what the last recipe read, and the rows

    @cached_property
    def _known(self) -> Digests:
        return known_rows(self.folder)

    def write(self, version: Path, *, is_refitted: bool) -> None:
        """Write the reference data for the gate and `rankgrad monitor` to a version's folder.

        Args:
            version: the folder of the version's network.
            is_refitted: whether the network learned validation rows, too.

        Raises:
            FileNotFoundError, ValueError: a split is missing or corrupt, or the network cannot predict a row.
        """
        write_known(self._known, version)
        network = load_model(version, device=find_device("auto"))
        recipe = network.recipe
        unseen = "test"
        if has_folds(self.folder):
            unseen = "gate" if is_refitted else "val"
        training = measure(self._pieces("train", recipe), network)
        others = measure(self._pieces(unseen, recipe), network, known=training.inputs.words or None)
        reference = reference_of(self.folder.name, training, others)
        lists = lookup.find("tasks", recipe["task"])().reads.lists
        ranges = type_of(recipe["input"]).ranges(self.folder / "train.parquet", recipe["input"], lists=lists)
        inputs = reference.inputs.assign(**self._unknown_alone(recipe, lists=lists))
        reference = replace(reference, inputs=inputs)
        of_train, of_others = self._by_group("train", reference.inputs), self._by_group(unseen, reference.network)
        parts = {"inputs": of_train, "network": of_others, "ranges": ranges, "compared": input_compared(recipe)}
        _write(replace(reference, **parts), version / REFERENCE)

    def _unknown_alone(self, recipe: Mapping[str, Any], *, lists: bool) -> dict[str, np.ndarray]:
        """Return the fractions of names that no other group has, of the chosen training rows."""
        path, chosen_rows = self.folder / "train.parquet", sorted(self._chosen("train"))
        unknown = type_of(recipe["input"]).unknown_alone(path, recipe["input"], self._groups("train"), lists=lists)
        return {name: of_rows[chosen_rows] for name, of_rows in unknown.items()}

    def _chosen(self, split: str) -> list[int]:
        """Return the numbers of the rows of a split to measure; with folds, its file has the rows of all splits."""
        path = self.folder / f"{split}.parquet"
        with parquet_file(path) as file:
            rows, is_divided = np.arange(file.metadata.num_rows), FOLD in file.schema_arrow.names
        if is_divided:
            folds = folds_of(path)
            is_val = folds == next_of(REGISTERED, folds=int(folds.max()))
            rows = rows[is_val if split == "val" else ~is_val]
        return rows[chosen(split, len(rows))].tolist()

    def _groups(self, split: str) -> np.ndarray | None:
        """Return the group of each row of a split (n,); None if rows have none."""
        path = self.folder / f"{split}.parquet"
        return read_table(path, [GROUP])[GROUP].to_numpy() if GROUP in columns_of(path) else None

    def _by_group(self, split: str, quantities: pd.DataFrame) -> pd.DataFrame:
        """Return quantities of the chosen rows of a split indexed by the group of each row, if it has one."""
        groups = self._groups(split)
        if groups is None:
            return quantities
        return quantities.set_index(pd.Index(groups[sorted(self._chosen(split))], name=GROUP))

    def _pieces(self, split: str, recipe: Mapping[str, Any]) -> list[Piece]:
        """Return the chosen rows of a split; models that read them in the same way share them."""
        reading = recipe["task"], recipe["input"]
        if split not in self._last or self._last[split][0] != reading:
            rows = self._rows(self.folder / f"{split}.parquet", recipe)
            self._last[split] = reading, [*prepared(rows, recipe, chosen=self._chosen(split))]
        return self._last[split][1]

    def _rows(self, path: Path, recipe: Mapping[str, Any]) -> Iterable[Row]:
        """Return the rows of a split; of a search in texts, the first query of each passage."""
        if input_compared(recipe) == CAPTION:
            queries = read_table(path, ["captions"])["captions"].to_pylist()
            return [Row(row, f"{path}: row {row}", partial(_asked, texts)) for row, texts in enumerate(queries, 1)]
        # Stored columns have other names than those of the user's table, and pictures are already encoded.
        about = {name: value for name, value in recipe["input"].items() if name not in UNLIKE_STORED}
        return read([path], {**recipe, "input": about}, Roles([about["kind"]]), form="parquet")


def _asked(queries: list[str]) -> dict[str, str]:
    return {CAPTION: queries[0]}


def _write(reference: Reference, folder: Path) -> None:
    folder.mkdir()
    reference.inputs.to_parquet(folder / "inputs.parquet")
    reference.network.to_parquet(folder / "network.parquet")
    np.savez(folder / "directions.npz", **vars(reference.directions))
    words = None if reference.words is None else sorted(reference.words)
    about = {"dataset": reference.dataset, "words": words, "ranges": reference.ranges, "compared": reference.compared}
    (folder / "about.json").write_text(json.dumps(about) + "\n")


def read_reference(folder: Path, *, model: str) -> Reference:
    """Return the reference in a version's folder.

    Raises:
        FileNotFoundError: the folder has none; the message names the model.
        ValueError: a file is corrupt.
    """
    target = folder / REFERENCE
    if not target.is_dir():
        raise FileNotFoundError(
            f"{model}: its folder has no {REFERENCE}, the description of its training data; expected a version that "
            "`make repro` published, such as models:/<name>@champion"
        )
    try:
        about = json.loads((target / "about.json").read_text())
        with np.load(target / "directions.npz", allow_pickle=False) as arrays:
            directions = Directions(**arrays)
        inputs, network = (pd.read_parquet(target / f"{name}.parquet") for name in ("inputs", "network"))
        words = None if about["words"] is None else frozenset(about["words"])
        compared = about.get("compared", "")
        return Reference(about["dataset"], inputs, network, directions, words, ranges_in(folder), compared)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{model}: {REFERENCE} is corrupt ({error}); publish it again with `make repro`") from error
