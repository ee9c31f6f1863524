"""Cross-entropy of a softmax against the set of present labels."""

import torch
from torch import Tensor

from rankops.checks import check_label_ranks
from rankops.losses.inputs import at_least_single

__all__ = ["cross_entropy"]


def cross_entropy(scores: Tensor, label_ranks: Tensor) -> Tensor:
    r"""The probability mass should lie evenly on the present labels.

    $-\sum_j p_j \log \mathrm{softmax}(f)_j$ with $p_j = 1 / |Y|$ on the present labels and 0 elsewhere, averaged over
    the batch (RLSEP, Eq. 1). An example with no label present has no such p; it adds 0 and has no gradient.

    Args:
        scores: f, (..., K); -inf says that a label cannot be there.
        label_ranks: (..., K), 0 = absent, anything larger = present.

    Returns:
        A scalar, float32 or float64.

    Raises:
        TypeError, ValueError: see `rankops.checks.check_label_ranks`.

    >>> cross_entropy(torch.zeros(1, 4), torch.tensor([[2, 1, 0, 0]])).exp()
    tensor(4.)
    """
    check_label_ranks(scores, label_ranks)
    scores = at_least_single(scores)
    present = (label_ranks > 0).to(scores.dtype)
    scores = scores.where(present.any(-1, keepdim=True), 0.0)  # without a label all may be -inf, which gives NaN
    share = present / present.sum(-1, keepdim=True).clamp(min=1)
    return -(share * torch.log_softmax(scores, dim=-1).where(label_ranks > 0, 0.0)).sum(-1).mean()
