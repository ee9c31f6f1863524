"""SoDeep's Spearman loss on the label ranks of RLSEP."""

from collections.abc import Callable

from torch import Tensor

from rankops.checks import check_label_ranks, check_mask, check_target, check_tensors
from rankops.losses.inputs import rank_distance

__all__ = ["spearman_of_label_ranks"]


def spearman_of_label_ranks(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    sorter: Callable[..., Tensor],
    mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""The labels of an example should have the order of their label ranks, the absent ones last and level.

    $\frac{6}{K (K^2 - 1)} \|f(y) - \mathrm{rk}(r)\|^2$ for each example, averaged over examples: SoDeep, Eq. 4, as in
    `spearman`, with a group of scores for each example rather than one of examples. Tied labels, so all that are
    absent, share their average rank. An exact sorter with distinct scores cannot reach it: t tied labels cost at least
    $t (t^2 - 1) / (2 K (K^2 - 1))$; a soft one reaches it where they score alike. An example without any order (no
    label present, or all tied) is left out; if all are, the value is 0 without gradient.

    Args:
        scores: y, (..., K).
        label_ranks: r, (..., K), 0 = absent, larger = more important.
        sorter: f, takes scores (..., K) to ranks (..., K), 1 for the largest, and `mask`, where one is given.
        mask: (..., K) boolean, False where a label does not count; K is then the number of those that do.
        weights: (..., K), how much each squared error counts within its example.

    Returns:
        A scalar.

    Raises:
        TypeError: scores, a mask or weights of another type than above, or no tensors.
        ValueError: shapes differ or are empty, K of 1, negative weights, or what the sorter refuses: scores that are
            not finite, another K than its length.

    >>> import torch
    >>> from rankops.ranks import ranks
    >>> scores, label_ranks = torch.tensor([[0.1, 0.9, 0.5, 0.5]]), torch.tensor([[1, 2, 0, 0]])
    >>> spearman_of_label_ranks(scores, label_ranks, sorter=ranks)  # ranks 4, 1, 2.5, 2.5 for 2, 1, 3.5, 3.5
    tensor(0.6000)
    """
    check_tensors(label_ranks=label_ranks)
    if mask is not None:
        check_mask(scores, mask)
        if mask.shape == label_ranks.shape:
            label_ranks = label_ranks.masked_fill(~mask, 0)  # what does not count may be anything
    check_label_ranks(scores, label_ranks)
    # Larger label ranks are more important, as larger targets are: both are ranked from the top.
    target = label_ranks.double()
    check_target(scores, target, least=2, mask=mask)
    return rank_distance(scores, target, sorter=sorter, mask=mask, weights=weights)
