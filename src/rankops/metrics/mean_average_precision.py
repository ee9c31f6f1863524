"""Mean average precision of multi-label classification, exact."""

import torch
from torch import Tensor

from rankops.ranks import check_scores

__all__ = ["average_precision", "mean_average_precision"]


def mean_average_precision(scores: Tensor, labels: Tensor, *, difficult: Tensor | None = None) -> Tensor:
    """The mean of `average_precision` over classes that have a positive (SoDeep, Section 4.2.2).

    Args:
        scores, labels, difficult: see `average_precision`.

    Returns:
        A scalar, float64.

    Raises:
        TypeError, ValueError: see `average_precision`; no class has a positive.

    >>> scores, labels = torch.tensor([[0.9, 0.2], [0.3, 0.4]]), torch.tensor([[1, 1], [0, 0]])
    >>> mean_average_precision(scores, labels)
    tensor(0.7500, dtype=torch.float64)
    """
    each = average_precision(scores, labels, difficult=difficult)
    if bool(each.isnan().all()):
        raise ValueError(
            f"mean average precision is undefined: labels {tuple(labels.shape)} hold no positive in any class, "
            "difficult ones left out; expected at least one"
        )
    return each.nanmean()


def average_precision(scores: Tensor, labels: Tensor, *, difficult: Tensor | None = None) -> Tensor:
    r"""How early the positives of each class come when examples are ordered by score.

    $\sum_t (R_t - R_{t-1}) P_t$ over the thresholds t, which are the different scores: the mean over positives of the
    precision down to them, equal scores all in (SoDeep, Eqs. 5-6, and scikit-learn). Not interpolated.

    Args:
        scores: (n, C).
        labels: (n, C), boolean, or integers 0 and 1.
        difficult: (n, C) boolean; these examples are neither right nor wrong for that class and are skipped (VOC).

    Returns:
        (C,), float64, NaN for a class without a positive that is not difficult.

    Raises:
        TypeError: scores are not floating point.
        ValueError: shapes differ or are not (n, C), a score that is not finite, labels that are anything but 0 and 1,
            or `difficult` that is not boolean.

    >>> scores, labels = torch.tensor([[0.9, 0.2], [0.3, 0.4], [0.6, 0.5]]), torch.tensor([[1, 0], [1, 0], [0, 0]])
    >>> average_precision(scores, labels)
    tensor([0.8333,    nan], dtype=torch.float64)
    """
    _check(scores, labels, difficult)
    values = scores.detach().double().T.contiguous()  # (C, n)
    counted = torch.ones_like(values, dtype=torch.bool) if difficult is None else ~difficult.T
    ascending, order = (-values).sort(dim=-1)
    counted = counted.gather(-1, order)
    positive = labels.bool().T.gather(-1, order) & counted
    # Where the group of equal scores ends that an example stands in.
    last = torch.searchsorted(ascending, ascending, right=True) - 1
    right, seen = (kind.double().cumsum(-1).gather(-1, last) for kind in (positive, counted))
    precision = torch.where(positive, right / seen, 0.0)
    return precision.sum(-1) / positive.sum(-1)


def _check(scores: Tensor, labels: Tensor, difficult: Tensor | None) -> None:
    for name, given in (("labels", labels), ("difficult", difficult)):
        if given is not None and (scores.dim() != 2 or given.shape != scores.shape):
            raise ValueError(f"scores {tuple(scores.shape)} and {name} {tuple(given.shape)}: expected (n, C) twice")
    check_scores(scores)
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels are {labels.dtype}, expected booleans, or integers 0 and 1: convert them with .bool()"
        )
    wrong = (labels != 0) & (labels != 1)
    if bool(wrong.any()):
        where = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"labels hold {labels[where].item()} at {where}, expected 0 or 1")
    if difficult is not None and difficult.dtype != torch.bool:
        raise ValueError(f"difficult is {difficult.dtype}, expected booleans: convert it with .bool()")
