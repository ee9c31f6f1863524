"""The tables that tasks learn from: one reader for each set of columns, whichever dataset wrote them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from rankops.io.parquet import IMAGE, decode_images, list_lengths, matrix, read_table
from rankops.models.tokenizer import Vocabulary
from rankops.ragged import pad_groups

__all__ = [
    "Queries",
    "padded",
    "read_captions",
    "read_clips",
    "read_images",
    "read_label_ranks",
    "read_labels",
    "read_queries",
]


class Queries(NamedTuple):
    """Lists of documents, padded with zeros: features (n, d, k), relevance (n, d), and a mask (n, d)."""

    features: Tensor
    relevance: Tensor
    mask: Tensor


def read_images(read: pa.Table, *, path: Path, threads: int) -> Tensor:
    """Decode the column `image`, or `frames`, of a table that was read.

    Args:
        read: with one of the two columns.
        path: of the file, for messages.
        threads: to decode images with.

    Returns:
        Images (n, [frames,] [3,] height, width) uint8.

    Raises:
        ValueError: an image is corrupt, or rows have different numbers of frames; the message names the row.
    """
    if "frames" not in read.column_names:
        return torch.from_numpy(decode_images(read["image"], path=path, threads=threads))
    lengths = list_lengths(read["frames"])
    if len(lengths) and (lengths[0] == 0 or (lengths != lengths[0]).any()):
        row = int((lengths != max(lengths[0], 1)).argmax())
        expected = f"{lengths[0]} as in row 0" if lengths[0] else "at least one"
        raise ValueError(f"{path}: row {row}: {lengths[row]} frames, expected {expected}")
    frames = pa.chunked_array([chunk.flatten() for chunk in read["frames"].chunks], type=IMAGE)
    each = int(lengths[0]) if len(lengths) else 1
    images = decode_images(frames, path=path, threads=threads, each=each)
    return torch.from_numpy(images).unflatten(0, (len(lengths), -1))


def read_label_ranks(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Read images and the label ranks of each.

    Args:
        folder: of the dataset, with `<split>.parquet`.
        split: `train`, `val`, `test` or `gate`.
        threads: to decode images with.

    Returns:
        Images (n, [3,] height, width) uint8 and label ranks (n, K).

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or an image is.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "label_ranks"])
    return read_images(read, path=path, threads=threads), matrix(read, "label_ranks", path=path)


def read_clips(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Read clips and the score of each.

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Frames (n, frames, [3,] height, width) uint8 and scores (n,) float32.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, clips differ in length, or a score is not finite.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["frames", "score"])
    target = torch.from_numpy(read["score"].to_numpy().astype(np.float32))
    if not torch.isfinite(target).all():
        row = int((~torch.isfinite(target)).nonzero()[0])
        raise ValueError(f"{path}: row {row}: score is {target[row].item()}, expected a number")
    return read_images(read, path=path, threads=threads), target


def read_labels(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Read images and which labels each has.

    Difficult labels are positive in training and skipped in average precision (VOC's rule).

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Images (n, [3,] height, width) uint8, labels (n, C) 0/1, and which of them are difficult (n, C) boolean.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or a label is neither 0 nor 1.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "labels", "difficult"])
    labels, difficult = (matrix(read, name, path=path) for name in ("labels", "difficult"))
    if ((labels != 0) & (labels != 1)).any():
        row, label = ((labels != 0) & (labels != 1)).nonzero()[0].tolist()
        raise ValueError(f"{path}: row {row}: label {label} is {labels[row, label].item()}, expected 0 or 1")
    return read_images(read, path=path, threads=threads), labels, difficult.bool()


def read_captions(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, list[list[str]], Tensor]:
    """Read images, the captions of each, and the family of each.

    Images of a family, the twins of made scenes, compete for the same captions; without a column `family` each image
    is a family by itself.

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Images (n, [3,] height, width) uint8, captions, equally many of each image, and family numbers (n,).

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, images have different numbers of captions, or
            one is empty.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "captions"])
    families = torch.arange(len(read))
    if "family" in pq.read_schema(path).names:
        families = torch.from_numpy(read_table(path, ["family"])["family"].to_numpy().copy())
    captions = read["captions"].to_pylist()
    for row, several in enumerate(captions):
        if not several or len(several) != len(captions[0]):
            expected = f"{len(captions[0])} as in row 0" if captions[0] else "at least one"
            raise ValueError(f"{path}: row {row}: {len(several or [])} captions, expected {expected}")
        for caption in several:
            if not caption or not Vocabulary.split(caption):
                raise ValueError(f"{path}: row {row}: a caption is {caption!r}, expected at least one word")
    return read_images(read, path=path, threads=threads), captions, families


def padded(table: pa.Table, name: str, *, path: str | Path) -> tuple[Tensor, Tensor]:
    """Return a column of lists of numbers or of vectors, each filled up with zeros to the longest, and at least to two.

    Returns:
        Values (n, d) or (n, d, k), and a mask (n, d), False where they are filled up.

    Raises:
        ValueError: there is no list, one is empty, or vectors of different lengths.

    >>> padded(pa.table({"scores": [[1.0, 2.0, 3.0], [4.0]]}), "scores", path="predictions")[0]
    tensor([[1., 2., 3.],
            [4., 0., 0.]], dtype=torch.float64)
    """
    column, lengths = table[name].combine_chunks(), list_lengths(table[name])
    if not len(lengths) or not lengths.all():
        row = int((lengths == 0).argmax()) if len(lengths) else 0
        raise ValueError(f"{path}: row {row}: {name} is empty or missing, expected at least one in each row")
    flat = column.flatten()
    vectors = not pa.types.is_primitive(flat.type)
    values = matrix(pa.table({name: flat}), name, path=path) if vectors else torch.from_numpy(flat.to_numpy().copy())
    filled, mask = pad_groups(values, sizes=torch.from_numpy(lengths.astype(np.int64)))
    if mask.shape[1] == 1:  # losses and metrics compare at least two places
        filled, mask = (torch.cat([part, torch.zeros_like(part)], 1) for part in (filled, mask))
    return filled, mask


def read_queries(folder: str | Path, split: str) -> Queries:
    """Read the documents of each query.

    Args:
        folder, split: see `read_label_ranks`.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, a query has no document, or another number of
            relevances than of documents, or a feature or relevance is none.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["features", "relevance"])
    features, mask = padded(read, "features", path=path)
    relevance, judged = padded(read, "relevance", path=path)
    for rows, what in (
        ((mask.sum(-1) != judged.sum(-1)), "another number of relevances than of documents"),
        (~torch.isfinite(features).all(-1).all(-1), "a feature that is not finite"),
        (~(torch.isfinite(relevance) & (relevance >= 0)).all(-1), "a relevance that is no number of at least 0"),
    ):
        if rows.any():
            raise ValueError(f"{path}: row {int(rows.int().argmax())} has {what}; make it again")
    return Queries(features, relevance, mask)
