"""What losses hold scores against, refused where it makes no sense, with a message that says what to do."""

import torch
from torch import Tensor

__all__ = ["check_labels", "check_positives", "check_target"]


def check_target(scores: Tensor, target: Tensor, *, between_0_and_1: bool = False, least: int = 1) -> None:
    """Refuses targets of another shape than the scores', that are not finite, or in groups smaller than `least`.

    Raises:
        TypeError: `target` is not a floating-point tensor.
        ValueError: everything else.

    >>> check_target(torch.zeros(2), torch.tensor([0.5, float("nan")]))
    Traceback (most recent call last):
    ...
    ValueError: target holds nan at (1,), expected finite: look at its row, or leave it out
    """
    if scores.shape != target.shape or scores.numel() == 0 or scores.dim() == 0:
        raise ValueError(
            f"scores {tuple(scores.shape)} and target {tuple(target.shape)}: expected one shape (..., d), not empty"
        )
    if scores.shape[-1] < least:
        raise ValueError(
            f"scores have groups of {scores.shape[-1]} in shape {tuple(scores.shape)}, where Spearman is undefined: "
            f"expected groups of at least {least} along the last dimension"
        )
    if not target.is_floating_point():
        raise TypeError(f"target is {target.dtype}, expected a floating-point tensor: convert it with .float()")
    bad = ~torch.isfinite(target)
    if between_0_and_1:
        bad = bad | (target < 0) | (target > 1)
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        expected = "finite: look at its row"
        if between_0_and_1:
            expected = "in [0, 1], which is all that a sigmoid reaches: scale it"
        raise ValueError(f"target holds {target[where].item()} at {where}, expected {expected}, or leave it out")


def check_labels(scores: Tensor, labels: Tensor, *, least: int = 1) -> None:
    """Refuses labels that are not 0 or 1, of another shape than the scores', or of fewer than `least` examples.

    Raises:
        ValueError: any of these.

    >>> check_labels(torch.zeros(2, 1), torch.tensor([[0], [2]]))
    Traceback (most recent call last):
    ...
    ValueError: labels hold 2 at (1, 0), expected 0 or 1
    """
    if scores.shape != labels.shape or scores.numel() == 0 or scores.dim() < 2:
        raise ValueError(
            f"scores {tuple(scores.shape)} and labels {tuple(labels.shape)}: "
            "expected one shape (..., n, C) of n examples and C classes, not empty"
        )
    if scores.shape[-2] < least:
        raise ValueError(
            f"scores have groups of {scores.shape[-2]} example in shape {tuple(scores.shape)}, which leave nothing to "
            f"compare: expected (..., n, C) with n of at least {least}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels are {labels.dtype}, expected booleans, or integers 0 and 1: convert them with .bool()"
        )
    wrong = (labels != 0) & (labels != 1)
    if bool(wrong.any()):
        where = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"labels hold {labels[where].item()} at {where}, expected 0 or 1")


def check_positives(scores: Tensor, positives: Tensor) -> None:
    """Refuses positives that are no boolean square matrices of the scores' shape, or lack one in a row or column.

    Raises:
        ValueError: any of these.

    >>> check_positives(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    Traceback (most recent call last):
    ...
    ValueError: positives hold no True in row 1: expected at least one in each row and each column
    """
    if scores.shape != positives.shape or scores.dim() < 2 or scores.shape[-1] != scores.shape[-2]:
        raise ValueError(
            f"scores {tuple(scores.shape)} and positives {tuple(positives.shape)}: expected one shape (..., d, d)"
        )
    if scores.numel() == 0 or scores.shape[-1] == 1:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}, which leaves nothing to compare: "
            "expected (..., d, d) with d of at least 2, not empty"
        )
    if positives.dtype != torch.bool:
        raise ValueError(f"positives are {positives.dtype}, expected booleans: convert them with .bool()")
    for name, found in (("row", positives.any(-1)), ("column", positives.any(-2))):
        if not bool(found.all()):
            *group, where = (~found).nonzero()[0].tolist()
            matrix = f" of matrix {tuple(group)}" if group else ""
            raise ValueError(
                f"positives hold no True in {name} {where}{matrix}: expected at least one in each row and each column"
            )
