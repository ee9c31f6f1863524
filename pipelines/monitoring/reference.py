"""What a model's training data are like, written into a version's folder when it is published, for `rankgrad monitor`.

- Quantities of the input, prepared as the network takes it, are of training rows: that is the training distribution.
  Photos come in any size and format: what is compared is what is left of them.
- Quantities of the network (embedding, scores) are of validation rows, and so is the fraction of words that no training
  text has. The weights were fitted to the training rows: scores lie further apart on these than on new rows of the same
  kind, which would count as drift.
- Embeddings are compared along the directions in which those of training rows vary most. Using either sample's own
  directions would favor it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA

from pipelines.monitoring.measure import Measured, measure
from rankgrad.datasets.tables.rows import Row, read
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import parquet_file
from rankgrad.seeding import generator
from rankgrad.training.device import find_device

__all__ = ["ROWS", "Reference", "chosen", "directions_of", "read_reference", "reference_of", "write_reference"]

FOLDER = "reference"  # in a version's
ROWS = 1000  # of each split at most: each version is measured when it is published
DIRECTIONS = 5  # in which embeddings are compared one by one


@dataclass(frozen=True)
class Directions:
    """The directions in which the embeddings of training rows vary most.

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
        # How far a row is from all that training rows have in common: where those lie that resemble none of them.
        rest = np.linalg.norm(centered - coordinates @ self.components, axis=1)
        return {f"embedding {number}": column for number, column in enumerate(coordinates.T, 1)} | {
            "embedding, rest": rest
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
    """

    dataset: str
    inputs: pd.DataFrame
    network: pd.DataFrame
    directions: Directions
    words: frozenset[str] | None

    def of_network(self, measured: Measured) -> pd.DataFrame:
        """Return the quantities of a network as `network` has them."""
        return _of_network(measured, self.directions)


def _of_network(measured: Measured, directions: Directions) -> pd.DataFrame:
    along = pd.DataFrame(directions.along(measured.embedding))
    return pd.concat([along, measured.answers.reset_index(drop=True)], axis=1)


def directions_of(embedding: np.ndarray) -> Directions:
    """Return the directions in which embeddings (n, size) vary most."""
    found = PCA(min(DIRECTIONS, *embedding.shape), random_state=0).fit(embedding)
    return Directions(found.mean_, found.components_)


def chosen(name: str, count: int, rows: int = ROWS, *, seed: int = 0) -> list[int]:
    """Return the numbers of the rows that are looked at, of more than `rows` a random sample."""
    return torch.randperm(count, generator=generator(seed, "monitor", name))[:rows].tolist()


def reference_of(dataset: str, train: Measured, val: Measured, words: frozenset[str] | None = None) -> Reference:
    """Return the reference that measured splits make."""
    directions = directions_of(train.embedding)
    return Reference(dataset, train.inputs, _of_network(val, directions), directions, words)


def write_reference(data: Path, folder: Path) -> None:
    """Write what a model is compared by into its folder, with the rows of a dataset on which it was trained and chosen.

    Raises:
        FileNotFoundError, ValueError: a split is missing or corrupt, or the network cannot answer a row.
    """
    network = load_model(folder, device=find_device("auto"))

    def measured(split: str, words: frozenset[str] | None = None) -> Measured:
        path = data / f"{split}.parquet"
        with parquet_file(path) as file:
            count = file.metadata.num_rows
        return measure(_rows(path, network.recipe), network, chosen=chosen(split, count), known=words)

    train = measured("train")
    words = frozenset(train.words) or None
    reference = reference_of(data.name, train, measured("val", words), words)
    (target := folder / FOLDER).mkdir()
    reference.inputs.to_parquet(target / "inputs.parquet", index=False)
    reference.network.to_parquet(target / "network.parquet", index=False)
    np.savez(target / "directions.npz", mean=reference.directions.mean, components=reference.directions.components)
    about = {"dataset": reference.dataset, "words": None if words is None else sorted(words)}
    (target / "about.json").write_text(json.dumps(about) + "\n")


def _rows(path: Path, recipe: Mapping[str, Any]) -> Iterator[Row]:
    return read([path], recipe, form="parquet")


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
        return Reference(about["dataset"], inputs, network, directions, words)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{model}: {FOLDER} is not whole ({error}); publish it again with `make repro`") from error
