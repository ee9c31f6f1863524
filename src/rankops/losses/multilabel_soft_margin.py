"""Multi-label soft margin, the binary cross-entropy of every label by itself."""

import torch
from torch import Tensor

from rankops.checks import check_labels
from rankops.losses.inputs import at_least_single

__all__ = ["multilabel_soft_margin"]


def multilabel_soft_margin(scores: Tensor, labels: Tensor) -> Tensor:
    r"""Every present label should have a positive score, every absent one a negative.

    $-y^* \log \sigma(y) - (1 - y^*) \log(1 - \sigma(y))$, averaged over examples and classes, as torch defines it: the
    baseline of SoDeep, Section 4.2.2, and there the auxiliary loss of `mean_average_precision`.

    Args:
        scores: y, (..., n, C).
        labels: $y^*$, (..., n, C), boolean, or integers 0 and 1.

    Returns:
        A scalar, float32 or float64.

    Raises:
        ValueError: shapes differ or are empty, or labels are anything but 0 and 1.

    >>> multilabel_soft_margin(torch.zeros(2, 3), torch.tensor([[1, 0, 0], [0, 1, 1]])).exp()
    tensor(2.)
    """
    check_labels(scores, labels)
    scores = at_least_single(scores)
    return torch.nn.functional.multilabel_soft_margin_loss(scores, labels.to(scores.dtype))
