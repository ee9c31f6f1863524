"""The tables that tasks learn from: one reader for each set of columns, whichever dataset wrote them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.io.parquet import columns_of, decode_images, is_list, is_number, list_lengths, matrix, read_table
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


def _read(folder: str | Path, split: str, columns: list[str]) -> tuple[Path, pa.Table]:
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, columns)
    if not len(read):
        raise ValueError(f"{path}: no rows, expected at least one; make it again")
    return path, read


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
    kind = read["frames"].type
    if not is_list(kind):
        raise ValueError(f"{path}: frames are a column of {kind}, expected lists of images; make it again")
    lengths = list_lengths(read["frames"])
    if len(lengths) and (lengths[0] == 0 or (lengths != lengths[0]).any()):
        row = int((lengths != max(lengths[0], 1)).argmax())
        expected = f"{lengths[0]} as in row 0" if lengths[0] else "at least one"
        raise ValueError(f"{path}: row {row}: {lengths[row]} frames, expected {expected}")
    frames = pa.chunked_array([chunk.flatten() for chunk in read["frames"].chunks], type=kind.value_type)
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
        FileNotFoundError, ValueError: the file is missing or corrupt, an image is, or a label rank is no whole number
            of at least 0.
    """
    path, read = _read(folder, split, ["image", "label_ranks"])
    label_ranks = matrix(read, "label_ranks", path=path)
    if label_ranks.is_floating_point() or label_ranks.dtype == torch.bool:
        kind = read["label_ranks"].type
        raise ValueError(f"{path}: column label_ranks: {kind}, expected lists of whole numbers; make it again")
    if (label_ranks < 0).any():
        row, label = (label_ranks < 0).nonzero()[0].tolist()
        found = label_ranks[row, label].item()
        raise ValueError(f"{path}: row {row}: the label rank of label {label} is {found}, expected 0 or more")
    return read_images(read, path=path, threads=threads), label_ranks


def read_clips(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Read clips and the target of each.

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Frames (n, frames, [3,] height, width) uint8 and targets (n,) float32.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, clips differ in length, or a target is no number.
    """
    path, read = _read(folder, split, ["frames", "target"])
    if not is_number(read["target"].type):
        raise ValueError(f"{path}: column target: {read['target'].type}, expected numbers; make it again")
    target = torch.from_numpy(read["target"].to_numpy().astype(np.float32))
    if not torch.isfinite(target).all():
        row = int((~torch.isfinite(target)).nonzero()[0])
        raise ValueError(f"{path}: row {row}: target is {target[row].item()}, expected a number")
    return read_images(read, path=path, threads=threads), target


def read_labels(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Read images and which labels each has.

    Difficult labels are positive in training and skipped in average precision (VOC's rule).

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Images (n, [3,] height, width) uint8, labels (n, C) 0/1, and which of them are difficult (n, C) boolean.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, a label is neither 0 nor 1, or there are not as
            many that may be difficult as labels.
    """
    path, read = _read(folder, split, ["image", "labels", "difficult"])
    labels = matrix(read, "labels", path=path)
    difficult = matrix(read, "difficult", path=path, length=labels.shape[1])
    for name, flags in (("label", labels), ("difficult", difficult)):
        if ((flags != 0) & (flags != 1)).any():
            row, label = ((flags != 0) & (flags != 1)).nonzero()[0].tolist()
            raise ValueError(f"{path}: row {row}: {name} {label} is {flags[row, label].item()}, expected 0 or 1")
    return read_images(read, path=path, threads=threads), labels, difficult.bool()


def read_captions(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, list[list[str]], Tensor, Tensor]:
    """Read images, the captions of each, and the family and the gallery of each.

    Images of a family, the twins of made scenes, compete for the same captions; without a column `family` each image
    is a family by itself. Images of a gallery are searched together; without a column `gallery` all are.

    Args:
        folder, split, threads: see `read_label_ranks`.

    Returns:
        Images (n, [3,] height, width) uint8, captions, equally many of each image, and numbers of families and of
        galleries (n,).

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, images have different numbers of captions, or
            one is empty.
    """
    path, read = _read(folder, split, ["image", "captions"])
    kind = read["captions"].type
    if not is_list(kind) or not (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
        raise ValueError(f"{path}: column captions: {kind}, expected lists of text; make it again")
    families = _numbers(path, "family", torch.arange(len(read)))
    galleries = _numbers(path, "gallery", torch.zeros(len(read), dtype=torch.int64))
    captions = read["captions"].to_pylist()
    for row, several in enumerate(captions):
        if not several or len(several) != len(captions[0]):
            expected = f"{len(captions[0])} as in row 0" if captions[0] else "at least one"
            raise ValueError(f"{path}: row {row}: {len(several or [])} captions, expected {expected}")
        for caption in several:
            if not caption or not Vocabulary.split(caption):
                raise ValueError(f"{path}: row {row}: a caption is {caption!r}, expected at least one word")
    return read_images(read, path=path, threads=threads), captions, families, galleries


def _numbers(path: Path, name: str, usual: Tensor) -> Tensor:
    """Return a column of whole numbers (n,), or the usual ones if there is no such column."""
    if name not in columns_of(path):
        return usual
    column = read_table(path, [name])[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise ValueError(
            f"{path}: column {name}: {column.type}, {column.null_count} missing; expected a whole number in each row"
        )
    return torch.from_numpy(column.to_numpy().astype(np.int64))


def padded(table: pa.Table, name: str, *, path: str | Path) -> tuple[Tensor, Tensor]:
    """Return a column of lists of numbers or of vectors, each filled up with zeros to the longest, and at least to two.

    Returns:
        Values (n, d) or (n, d, k), and a mask (n, d), False where they are filled up.

    Raises:
        ValueError: there is no list, one is empty, vectors of different lengths, or anything but numbers.

    >>> padded(pa.table({"scores": [[1.0, 2.0, 3.0], [4.0]]}), "scores", path="predictions")[0]
    tensor([[1., 2., 3.],
            [4., 0., 0.]], dtype=torch.float64)
    """
    column = table[name].combine_chunks()
    if not is_list(column.type):
        raise ValueError(f"{path}: column {name}: {column.type}, expected lists; make it again")
    lengths = list_lengths(column)
    if not len(lengths) or not lengths.all():
        row = int((lengths == 0).argmax()) if len(lengths) else 0
        raise ValueError(f"{path}: row {row}: {name} is empty or missing, expected at least one in each row")
    flat = column.flatten()
    if is_list(flat.type):
        values = matrix(pa.table({name: flat}), name, path=path)
    elif is_number(flat.type) and not flat.null_count:
        values = torch.from_numpy(flat.to_numpy().copy())
    else:
        raise ValueError(f"{path}: column {name}: {flat.type}, or values are missing; expected numbers; make it again")
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
    path, read = _read(folder, split, ["features", "relevance"])
    features, mask = padded(read, "features", path=path)
    relevance, judged = padded(read, "relevance", path=path)
    if (features.dim(), relevance.dim()) != (3, 2):
        raise ValueError(
            f"{path}: features are {read['features'].type} and relevance {read['relevance'].type}, expected a list of "
            "vectors and a list of numbers in each row; make it again"
        )
    for rows, what in (
        ((mask.sum(-1) != judged.sum(-1)), "another number of relevances than of documents"),
        (~torch.isfinite(features).all(-1).all(-1), "a feature that is not finite"),
        (~(torch.isfinite(relevance) & (relevance >= 0)).all(-1), "a relevance that is no number of at least 0"),
    ):
        if rows.any():
            raise ValueError(f"{path}: row {int(rows.int().argmax())} has {what}; make it again")
    return Queries(features, relevance, mask)
