"""A learned comparator: how clearly neighboring scores are separated, given the scores around them."""

import math

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.laplace_sums import sums_of_others
from rankgrad.sorters._base import Sorter
from rankgrad.standardize import standard_deviation

__all__ = ["Comparator"]

NEIGHBORS = (1, 2, 4, 8)
FURTHEST = 3.0  # distance at which neighbors count as surely apart; e^-3 / 2 of their difference is still felt
LEAST_SLOPE = 0.1  # of the warp, over d per standard deviation
STEEPEST = 3.0  # largest |log| of the learned factor
NOISE = 3.0  # standard deviations over d, in training


class Comparator(Sorter):
    r"""Nearly exact ranks of scores that a learned warp spreads apart; O(d log d), any length, needs training.

    Scores are sorted and standardized. For each gap between neighbors, a small network receives the (log) distances
    around it, relative to d, and returns the distance of $u_i$ and $u_{i+1}$, from 0 for a tie to 3. Then
    $\hat r_i = 1 + \sum_{j \neq i} F(u_j - u_i)$ with the Laplace distribution function F, as in `Laplace`. Except for
    rounding, no two ranks are in the wrong order.

    The gradient treats the warp as constant (detached context). It is the gradient of sums over all pairs, in which
    each pair uses the mean slope of the warp at its two scores,

    $\frac{\partial \hat r_i}{\partial s_j} = \frac{\lambda_i + \lambda_j}{4} e^{-|u_i - u_j|}$ for $j \neq i$, and
    minus their sum for $j = i$,

    with $\lambda_i$ the geometric mean of the slopes $(u_k - u_{k+1}) / (s_k - s_{k+1})$ on both sides of $s_i$ and its
    ties, plus $0.1\,d / \mathrm{std}(s)$. All its signs are right (the ranks themselves may sometimes move in the
    opposite direction, because the warp changes with its context), and no gradient can vanish: neighbors are at most 3
    apart, so the entry of the closest neighbor is at least
    $e^{-3} \cdot 0.05\, d / \mathrm{std}(s)$.

    Args:
        hidden: width of the network's two hidden layers.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        TypeError, ValueError: `hidden` is not a whole number of at least 1; see `rank_along` for errors of a call.

    >>> Comparator()(torch.tensor([0.5, -1.0, 2.0])).argsort()
    tensor([2, 0, 1])
    """

    exact_gradient = False

    def __init__(self, *, hidden: int = 32):
        super().__init__()
        check_count("hidden", hidden)
        self.network = nn.Sequential(
            nn.Linear(1 + 2 * len(NEIGHBORS), hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        order, relative, weights, gaps, slopes = self._warped(scores, mask)
        value = _ranks(gaps, weights)
        # Zero, with the gradient above.
        nudge = relative - relative.detach()
        soft = value - pulled(nudge, weights, gaps, slopes) if torch.is_grad_enabled() else value
        return torch.zeros_like(soft).scatter(-1, order, soft)

    def imitation_loss(self, scores: Tensor, ranks: Tensor) -> Tensor:
        r"""Return L1 in positions, plus how far the gradient points away from the gradient of ranks under noise.

        $\frac1d \|\hat r - \mathrm{rk}(s)\|_1 + 1 - \cos(J^\top v, J_\sigma^\top v)$ with v of 1 and -1 in turn,
        where $J_\sigma$ is the derivative of
        $E[\mathrm{rk}(s + \sigma e)] = \frac12 + \sum_j \Phi((s_j - s_i) / (\sigma \sqrt 2))$, e standard normal and
        $\sigma$ three d-ths of the standard deviation of s. L1 alone would make the ranks as hard as possible.
        """
        order, relative, weights, gaps, slopes = self._warped(scores, None)
        soft = _ranks(gaps, weights)
        l1 = (soft - ranks.gather(-1, order)).abs().mean()
        # The gradient of a sum of ranks with the signs 1 and -1 in turn.
        probe = torch.where(torch.arange(scores.shape[-1], device=scores.device) % 2 == 0, 1.0, -1.0)
        probe = probe.expand_as(relative).gather(-1, order)
        ours = pulled(probe, weights, gaps, slopes)
        # The same gradient of the ranks expected under noise.
        width = math.sqrt(2) * NOISE / scores.shape[-1]
        apart = (relative.unsqueeze(-1) - relative.unsqueeze(-2)) / width
        noisy = torch.exp(-apart.square() / 2)
        theirs = noisy.sum(-1) * probe - (noisy * probe.unsqueeze(-2)).sum(-1)
        return l1 + (1 - nn.functional.cosine_similarity(ours, theirs, dim=-1)).mean()

    def _warped(self, scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the order, largest first; in that order scores in deviations, weights, warped gaps and slopes."""
        values = scores.detach()
        deviation = standard_deviation(values, mask)
        key = values if mask is None else values.masked_fill(~mask, -torch.inf)
        order = key.sort(dim=-1, descending=True, stable=True).indices
        weights = torch.ones_like(values) if mask is None else mask.to(values.dtype).gather(-1, order)
        points = values.gather(-1, order)
        if mask is not None:  # absent scores stand last, with the value of the last one that is there
            last = points.masked_fill(weights == 0, torch.inf).amin(-1, keepdim=True)
            points = torch.where(weights == 0, last.where(last < torch.inf, 0.0), points)
        gaps, slopes = self._gaps(points, deviation, weights.sum(-1, keepdim=True))
        # The deviation is part of the warp, constant in the gradient.
        return order, scores.gather(-1, order) / deviation, weights, gaps, slopes

    def _gaps(self, points: Tensor, deviation: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return warped gaps (..., d - 1) and slopes (..., d) of the warp, for sorted scores; `count` exist."""
        length = points.shape[-1]
        if length == 1:
            return points[..., 1:], LEAST_SLOPE * torch.ones_like(points)
        reach = max(NEIGHBORS)
        # Beyond both ends, the outermost scores are repeated.
        ends = (*points.shape[:-1], reach)
        wide = torch.cat([points[..., :1].expand(ends), points, points[..., -1:].expand(ends)], -1)
        upper, lower = wide[..., reach : reach + length - 1], wide[..., reach + 1 : reach + length]
        distances = [upper - lower]
        for step in NEIGHBORS:
            above, below = reach - step, reach + 1 + step
            distances.append(wide[..., above : above + length - 1] - upper)
            distances.append(lower - wide[..., below : below + length - 1])
        # Differences first: close scores are as far apart as they are, whatever the others.
        relative = torch.stack(distances, -1) / deviation.unsqueeze(-1) * count.unsqueeze(-1)
        features = relative.clamp(1e-3, 1e3).log() / 3
        # The network widens or narrows each gap by a bounded factor.
        weight_type = next(self.network.parameters()).dtype
        with torch.autocast(points.device.type, enabled=False):  # pretraining calls this directly
            factor = (STEEPEST * torch.tanh(self.network(features.to(weight_type)) / STEEPEST)).exp()
        factor = factor.squeeze(-1).to(points.dtype)
        gap = relative[..., 0]
        gaps = -FURTHEST * torch.expm1(-factor * gap)
        steep = gaps / gap.where(gap > 0, 1.0)
        # Each score has the slopes on both sides of its ties, and at the ends the slope of the other side.
        number = torch.arange(length - 1, device=points.device).expand_as(gap)
        before = number.where(gap > 0, -1).cummax(-1).values
        after = number.where(gap > 0, length).flip(-1).cummin(-1).values.flip(-1)
        # Not by padding with the length, which torch.compile would make a constant.
        first_end, last_end = torch.full_like(before[..., :1], -1), torch.full_like(after[..., :1], length)
        before, after = torch.cat([first_end, before], -1), torch.cat([after, last_end], -1)
        first = torch.where(before < 0, after, before)
        second = torch.where(after == length, before, after)
        apart = (first >= 0) & (first < length)
        upper, lower = (steep.gather(-1, side.where(apart, 0)).where(apart, 0.0) for side in (first, second))
        return gaps, ((upper * lower).sqrt() + LEAST_SLOPE) * count


def pulled(vector: Tensor, weights: Tensor, gaps: Tensor, slopes: Tensor) -> Tensor:
    r"""$\sum_j w_j \frac{\lambda_i + \lambda_j}{4} e^{-|u_i - u_j|} (v_i - v_j)$, by sums to both sides."""
    kinds = torch.stack([weights * vector, weights * slopes * vector, weights, weights * slopes])
    near, steep, ones, steepness = sums_of_others(_positions(gaps), kinds)[1]
    return (vector * (slopes * ones + steepness) - slopes * near - steep) / 4


def _ranks(gaps: Tensor, weights: Tensor) -> Tensor:
    return 1 + (weights.cumsum(-1) - weights) + sums_of_others(_positions(gaps), weights)[0] / 2


def _positions(gaps: Tensor) -> Tensor:
    """Return the points with these gaps; in float64, since their differences matter."""
    return torch.nn.functional.pad(-gaps.double().cumsum(-1), (1, 0))
