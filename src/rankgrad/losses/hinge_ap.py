"""Hinge-AP, the structured hinge bound of average precision."""

import torch
from torch import Tensor

from rankgrad.losses._inputs import Reduction, groups, reduced
from rankgrad.losses._pairs import at_once

__all__ = ["hinge_ap"]


def hinge_ap(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
) -> Tensor:
    r"""The true ranking of each group should score above every other ranking by a margin, 1 - AP of the other.

    $\max_y [1 - \mathrm{AP}(y) + F(y)] - F(y^*)$ over rankings y of a group, with
    $F(y) = \frac{1}{PN} \sum_{i, j} y_{ij} (s_i - s_j)$ over positives i and negatives j, where $y_{ij}$ is 1 if i is
    above j and -1 otherwise (Yue et al. 2007; a baseline in SoDeep, Fig. 6). A greedy search finds the exact maximum:
    with both sorted, the j-th negative goes just above the positive
    $\operatorname{argmax}_i \sum_{k \geq i} \delta_j(k)$,
    $\delta_j(i) = \frac1P \left[ \frac{j}{i + j} - \frac{j - 1}{i + j - 1} \right] - \frac{2 (s_i - s_j)}{PN}$.
    Averaged over groups; groups without a positive or without a negative are ignored. It takes O(P N) time.

    Args:
        scores: s, any shape.
        labels: of that shape, 0 and 1 of any type.
        dim: the dimension of a group, such as the documents of a query; -2 for the examples of a class.
        mask: of that shape, boolean, False where there is no example.
        group_weights, reduction, check_finite: see `rankgrad.losses`.

    Returns:
        A scalar, at least 1 - AP of the scores' order (ties count as the worst order); with `none`, one value per
        group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; groups with one score.

    >>> labels = torch.tensor([1, 1, 0, 0])
    >>> hinge_ap(torch.tensor([9.0, 8.0, 0.0, -1.0]), labels)
    tensor(0.)
    >>> round(hinge_ap(torch.zeros(4), labels).item(), 4)  # 1 - AP of the worst ranking: 1 - (1/3 + 2/4) / 2
    0.5833
    """
    batch = groups(
        scores, labels=labels, dim=dim, mask=mask, group_weights=group_weights, check_finite=check_finite, least=2
    )
    positive, negative = batch.truth, batch.exists & ~batch.truth
    # Only differences matter, so subtract an offset that would cost precision.
    offset = batch.scores.detach().masked_fill(~batch.exists, -torch.inf).amax(-1, keepdim=True)
    values = batch.scores - offset.where(batch.exists, 0.0)
    count, negative_count = positive.sum(-1, keepdim=True), negative.sum(-1, keepdim=True)
    pairs = (count * negative_count).clamp(min=1)
    sorted_positives, is_positive = _first(values, positive, count)
    sorted_negatives, is_negative = _first(values, negative, negative_count)
    # Finding the worst ranking needs no gradient: the maximum has the gradient of the ranking that attains it.
    with torch.no_grad():
        i = torch.arange(1, sorted_positives.shape[-1] + 1, device=values.device, dtype=values.dtype)
        j = torch.arange(1, sorted_negatives.shape[-1] + 1, device=values.device, dtype=values.dtype)
        above, positives_below = torch.zeros_like(is_positive, dtype=torch.long), []
        width = max(1, at_once(values.device) // max(1, sorted_positives.numel()))
        # Each negative has its own position. Process some at a time, except in compiled code, where the number is
        # unknown.
        blocks = [slice(None)]
        if not torch.compiler.is_compiling():
            blocks = [slice(begin, begin + width) for begin in range(0, max(1, len(j)), width)]
        for block in blocks:
            exists = is_positive.unsqueeze(-1) & is_negative[..., block].unsqueeze(-2)  # (..., C, P, N)
            differences = sorted_positives.unsqueeze(-1) - sorted_negatives[..., block].unsqueeze(-2)
            rank = i.unsqueeze(-1) + j[block]
            lost = (j[block] / rank - (j[block] - 1) / (rank - 1)) / count.clamp(min=1).unsqueeze(-1)
            gains = (lost - 2 * differences / pairs.unsqueeze(-1)).masked_fill(~exists, 0.0)
            gains = gains.flip(-2).cumsum(-2).flip(-2)
            # One more position, below all positives, with a gain of 0.
            insertion = torch.nn.functional.pad(gains, (0, 0, 0, 1)).argmax(-2, keepdim=True)
            swapped = exists & (insertion < i.unsqueeze(-1))  # the j-th negative ranks above the i-th positive
            above += swapped.sum(-1)
            positives_below.append(swapped.sum(-2))
        below = torch.cat(positives_below, -1)
        # Computed from counts, so that it is the AP of an actual ranking even if rounding moved a position.
        average_precision = (i / (i + above) * is_positive).sum(-1) / count.squeeze(-1).clamp(min=1)
    slack = ((below * sorted_negatives).sum(-1) - (above * sorted_positives).sum(-1)) * 2 / pairs.squeeze(-1)
    both_kinds = ((count > 0) & (negative_count > 0)).squeeze(-1)
    return reduced(batch, 1 - average_precision + slack, reduction, counts=both_kinds)


def _first(values: Tensor, kind: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the selected values in descending order, padded to the largest count, and which of them exist."""
    order = values.detach().masked_fill(~kind, -torch.inf).argsort(dim=-1, descending=True)
    order = order[..., : int(count.max()) if count.numel() else 0]
    return values.gather(-1, order), torch.arange(order.shape[-1], device=values.device) < count
