"""L1, the mean absolute error of regression."""

from torch import Tensor

from rankops.checks import check_target
from rankops.losses.inputs import at_least_single

__all__ = ["l1"]


def l1(scores: Tensor, target: Tensor, *, sigmoid: bool = False) -> Tensor:
    r"""Every score should equal its target.

    $\frac1n \sum_i |y_i - y^*_i|$ over all scores, whatever their groups: the baseline of SoDeep, Section 4.2.1, and
    its auxiliary loss, which keeps scores where the sorter was trained.

    Args:
        scores: y, (..., d).
        target: $y^*$, (..., d).
        sigmoid: put the scores through a sigmoid first; for targets in [0, 1].

    Returns:
        A scalar, float32 or float64.

    Raises:
        ValueError: shapes differ or are empty; a target that is not finite or, with `sigmoid`, outside [0, 1].
        TypeError: `target` is not floating point.

    >>> import torch
    >>> l1(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 4.0]))
    tensor(1.2500)
    """
    check_target(scores, target, between_0_and_1=sigmoid)
    scores = at_least_single(scores)
    return ((scores.sigmoid() if sigmoid else scores) - target).abs().mean()
