"""A description of a model's training data, written into a version's folder when it is published, for `monitor`.

- Quantities of the input, prepared as the network takes it, are of training rows: that is the training distribution.
  Photos come in any size and format, and are compared after they were prepared.
- Quantities of the network (embedding, scores) are of validation rows, and so is the fraction of words that no training
  text has. The weights were fitted to the training rows: scores lie further apart on these than on new rows of the same
  kind, which would count as drift.
- Embeddings are compared along the directions of largest variance of training rows. Either sample's own directions
  would favor it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA

from pipelines.monitoring.measure import Answers, Inputs, measure, measure_answers
from pipelines.tracking.known_rows import known_rows, write_known
from rankgrad import lookup
from rankgrad.datasets.tables.rows import Row, read
from rankgrad.inputs import type_of
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import parquet_file
from rankgrad.seeding import generator
from rankgrad.training.device import find_device

__all__ = ["ROWS", "Reference", "TrainingData", "chosen", "read_reference", "reference_of"]

FOLDER = "reference"  # in a version's
ROWS = 1000  # of each split at most: each version is measured when it is published
DIRECTIONS = 5  # along which embeddings are compared


@dataclass(frozen=True)
class Directions:
    """The directions of largest variance of the embeddings of training rows.

    Attributes:
        mean: of the embeddings (size,).
        components: (directions, size), each of unit length.
    """

    mean: np.ndarray
    components: np.ndarray

    def along(self, embedding: np.ndarray) -> dict[str, np.ndarray]:
        """Return the coordinates of embeddings (n, size) along the directions, and how much these leave out."""
        centered = embedding - self.mean
        coordinates = centered @ self.components.T
        # How far a row is from these directions: it is large for rows that resemble no training row.
        residual = np.linalg.norm(centered - coordinates @ self.components, axis=1)
        return {f"embedding {number}": column for number, column in enumerate(coordinates.T, 1)} | {
            "embedding, rest": residual
        }


@dataclass(frozen=True)
class Reference:
    """What fresh rows are compared with.

    Attributes:
        dataset: its name.
        inputs: quantities of training rows (n, ...).
        network: quantities of the network's answers to validation rows, with their embeddings' coordinates (n, ...).
        directions: of the training rows' embeddings.
        words: of all training texts; None where there are no texts.
        ranges: the smallest and the largest value of each input in all training rows, where it is a number.
    """

    dataset: str
    inputs: pd.DataFrame
    network: pd.DataFrame
    directions: Directions
    words: frozenset[str] | None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def of_network(self, answers: Answers) -> pd.DataFrame:
        """Return the quantities of a network's answers as `network` has them."""
        return _of_network(answers, self.directions)


def _of_network(answers: Answers, directions: Directions) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(directions.along(answers.embedding)), answers.quantities], axis=1)


def directions_of(embedding: np.ndarray) -> Directions:
    """Return the directions of largest variance of embeddings (n, size)."""
    analysis = PCA(min(DIRECTIONS, *embedding.shape), random_state=0).fit(embedding)
    return Directions(analysis.mean_, analysis.components_)


def chosen(name: str, count: int, rows: int = ROWS, *, seed: int = 0) -> list[int]:
    """Return the numbers of the rows that are measured, of more than `rows` a random sample."""
    return torch.randperm(count, generator=generator(seed, "monitor", name))[:rows].tolist()


def reference_of(dataset: str, inputs: Inputs, embedding: np.ndarray, answers: Answers) -> Reference:
    """Return a reference.

    Args:
        dataset: its name.
        inputs: of training rows.
        embedding: of training rows (n, size).
        answers: to validation rows.
    """
    directions = directions_of(embedding)
    words = frozenset(inputs.words) or None
    return Reference(dataset, inputs.quantities, _of_network(answers, directions), directions, words)


class TrainingData:
    """The splits on which versions were trained and chosen.

    Their inputs are measured once for all versions that take the same, and each network answers them once.

    Args:
        folder: of the dataset.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._inputs: dict[str, Inputs] = {}  # of training rows, by the task and the input that networks take

    @cached_property
    def _known(self) -> dict[str, np.ndarray]:
        return known_rows(self.folder)

    def write(self, version: Path) -> None:
        """Write what the gate and `rankgrad monitor` compare with into a version's folder.

        Raises:
            FileNotFoundError, ValueError: a split is missing or corrupt, or the network cannot answer a row.
        """
        write_known(self._known, version)
        network = load_model(version, device=find_device("auto"))
        recipe = network.recipe
        taken = json.dumps([recipe["task"], recipe["input"]], sort_keys=True)
        rows, chosen_rows = self._rows("train", recipe), self._chosen("train")
        if taken in self._inputs:
            training = measure_answers(rows, network, chosen=chosen_rows)
        else:
            self._inputs[taken], training = measure(rows, network, chosen=chosen_rows)
        inputs = self._inputs[taken]
        answers = measure_answers(
            self._rows("val", recipe), network, chosen=self._chosen("val"), known=inputs.words or None
        )
        reference = reference_of(self.folder.name, inputs, training.embedding, answers)
        lists = lookup.find("tasks", recipe["task"])().reads.lists
        ranges = type_of(recipe["input"]).ranges(self.folder / "train.parquet", recipe["input"], lists=lists)
        _write(replace(reference, ranges=ranges), version / FOLDER)

    def _chosen(self, split: str) -> list[int]:
        with parquet_file(self.folder / f"{split}.parquet") as file:
            return chosen(split, file.metadata.num_rows)

    def _rows(self, split: str, recipe: Mapping[str, Any]) -> Iterator[Row]:
        return read([self.folder / f"{split}.parquet"], recipe, form="parquet")


def _write(reference: Reference, folder: Path) -> None:
    folder.mkdir()
    reference.inputs.to_parquet(folder / "inputs.parquet", index=False)
    reference.network.to_parquet(folder / "network.parquet", index=False)
    np.savez(folder / "directions.npz", mean=reference.directions.mean, components=reference.directions.components)
    words = None if reference.words is None else sorted(reference.words)
    about = {"dataset": reference.dataset, "words": words, "ranges": reference.ranges}
    (folder / "about.json").write_text(json.dumps(about) + "\n")


def read_reference(folder: Path, *, model: str) -> Reference:
    """Return what was written into a version's folder.

    Raises:
        FileNotFoundError: nothing was; the message names the model.
        ValueError: a file is corrupt.
    """
    target = folder / FOLDER
    if not target.is_dir():
        raise FileNotFoundError(
            f"{model}: no {FOLDER} in its folder, which says what its training data are like; expected a version that "
            "`make repro` published, such as models:/<name>@champion"
        )
    try:
        about = json.loads((target / "about.json").read_text())
        with np.load(target / "directions.npz", allow_pickle=False) as arrays:
            directions = Directions(arrays["mean"], arrays["components"])
        inputs, network = (pd.read_parquet(target / f"{name}.parquet") for name in ("inputs", "network"))
        words = None if about["words"] is None else frozenset(about["words"])
        return Reference(about["dataset"], inputs, network, directions, words, about.get("ranges", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{model}: {FOLDER} is not whole ({error}); publish it again with `make repro`") from error
