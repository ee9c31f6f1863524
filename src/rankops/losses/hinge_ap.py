"""Hinge-AP, the structured hinge bound of average precision."""

import torch
from torch import Tensor

from rankops.checks import check_labels
from rankops.losses.inputs import at_least_single

__all__ = ["hinge_ap"]


def hinge_ap(scores: Tensor, labels: Tensor) -> Tensor:
    r"""In each class, the true ranking should beat every other one by what the other loses in average precision.

    $\max_y [1 - \mathrm{AP}(y) + F(y)] - F(y^*)$ over rankings y of the n examples, with
    $F(y) = \frac{1}{PN} \sum_{i, j} y_{ij} (s_i - s_j)$ over positives i and negatives j, $y_{ij} = 1$ where i stands
    above j and -1 elsewhere (Yue et al. 2007; the rival in SoDeep, Fig. 6). The maximum is exact, found greedily: both
    kinds sorted, the j-th negative goes just above the positive
    $\arg\max_i \sum_{k \geq i} \delta_j(k)$, $\delta_j(i) = \frac1P \left[ \frac{j}{i + j} - \frac{j - 1}{i + j - 1}
    \right] - \frac{2 (s_i - s_j)}{PN}$. Averaged over classes that have a positive and a negative; if none has, the
    value is 0 without gradient. It takes memory in proportion to P times N.

    Args:
        scores: s, (..., n, C).
        labels: (..., n, C), boolean, or integers 0 and 1.

    Returns:
        A scalar, at least 1 - AP of the scores' own order (tied ones at their worst), averaged over classes.

    Raises:
        ValueError: shapes differ or are empty, groups of one example, or labels that are anything but 0 and 1.

    >>> labels = torch.tensor([[1], [1], [0], [0]])
    >>> hinge_ap(torch.tensor([[9.0], [8.0], [0.0], [-1.0]]), labels)
    tensor(0.)
    >>> round(hinge_ap(torch.zeros(4, 1), labels).item(), 4)  # 1 - AP of the worst ranking: 1 - (1/3 + 2/4) / 2
    0.5833
    """
    check_labels(scores, labels, least=2)
    positive = labels.bool().mT  # (..., C, n)
    values = at_least_single(scores).mT
    values = values - values.detach().amax(-1, keepdim=True)  # only differences count: an offset costs no precision
    count = positive.sum(-1, keepdim=True)
    rest = positive.shape[-1] - count
    pairs = (count * rest).clamp(min=1)
    sorted_positives, is_positive = _first(values, positive, count)
    sorted_negatives, is_negative = _first(values, ~positive, rest)
    # Which ranking is worst needs no gradient: the maximum's is that of the ranking where it is attained.
    with torch.no_grad():
        i = torch.arange(1, sorted_positives.shape[-1] + 1, device=values.device, dtype=values.dtype).unsqueeze(-1)
        j = torch.arange(1, sorted_negatives.shape[-1] + 1, device=values.device, dtype=values.dtype)
        exists = is_positive.unsqueeze(-1) & is_negative.unsqueeze(-2)  # (..., C, P, N)
        differences = sorted_positives.unsqueeze(-1) - sorted_negatives.unsqueeze(-2)
        lost = (j / (i + j) - (j - 1) / (i + j - 1)) / count.clamp(min=1).unsqueeze(-1)
        gains = (lost - 2 * differences / pairs.unsqueeze(-1)).masked_fill(~exists, 0.0)
        gains = gains.flip(-2).cumsum(-2).flip(-2)
        # One place more: below all positives, which gains nothing.
        place = torch.nn.functional.pad(gains, (0, 0, 0, 1)).argmax(-2, keepdim=True)
        swapped = exists & (place < i)  # the j-th negative stands above the i-th positive
        above, below = swapped.sum(-1), swapped.sum(-2)
        # From the counts, so that it is the AP of a true ranking even where rounding moved a place.
        precision = i.squeeze(-1) / (i.squeeze(-1) + above)
        average_precision = (precision * is_positive).sum(-1) / count.squeeze(-1).clamp(min=1)
    slack = ((below * sorted_negatives).sum(-1) - (above * sorted_positives).sum(-1)) * 2 / pairs.squeeze(-1)
    both_kinds = ((count > 0) & (rest > 0)).squeeze(-1)
    return (1 - average_precision + slack).where(both_kinds, 0.0).sum() / both_kinds.sum().clamp(min=1)


def _first(values: Tensor, kind: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of a kind, descending, in as many places as the largest class needs, and which are filled."""
    order = values.detach().masked_fill(~kind, -torch.inf).argsort(dim=-1, descending=True)[..., : int(count.max())]
    return values.gather(-1, order), torch.arange(order.shape[-1], device=values.device) < count
