r"""Soft ranks, sorting, top-k, and quantiles, from the closed-form inverse of the sum that `Laplace` ranks are.

$G(t) = \sum_i F((s_i - t) / b)$, with F the distribution function of Laplace and b the softness times the standard
deviation of s (held constant in the gradient), falls from d to 0 as t rises. Between two neighboring scores it is
$c + A e^{t / b} + B e^{-t / b}$, so after one sort each t with G(t) = g is the root of a quadratic (LapSum, Struski et
al. 2025). $\partial t / \partial s_i$ is the softmax of $-|s_i - t| / b$, finite also where b is small against a gap.
"""

from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from rankgrad.checks import (
    check_floating,
    check_instance,
    check_mask,
    check_positive,
    check_scores,
    check_values,
    largest_magnitude,
    value_of,
)
from rankgrad.laplace_sums import before_and_after, sums_of_others, with_signature
from rankgrad.places import ranks_of_places, shares_of_places
from rankgrad.ranks import unit_of
from rankgrad.sorters._base import Sorter
from rankgrad.sorters.laplace import Laplace
from rankgrad.sorters.logistic import Logistic, LogisticLevels
from rankgrad.standardize import largest, standard_deviation

Kernel = Laplace | Logistic  # whose sum can be inverted

FEW_PAIRS = 2**15  # up to this number, one expression over all pairs is as fast as sums

__all__ = [
    "permutation_of_ranks",
    "soft_median",
    "soft_permutation",
    "soft_quantile",
    "soft_rank",
    "soft_sort",
    "soft_topk_mask",
]


def soft_rank(scores: Tensor, softness: float = 0.2, *, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    r"""Compute soft ranks, 1 for the largest score: `Laplace` with this softness, as a function.

    $1 + \sum_{j \neq i} F\left(\frac{s_j - s_i}{b\,\mathrm{std}(s)}\right)$ with F the distribution function of
    Laplace: the soft rank of LapSum (Struski et al. 2025), for scores in standard deviations. It takes O(d log d) time.
    `Laplace` has more options, such as scores in their own unit.

    Args:
        scores: any shape, floating point; half precision is computed and returned in float32.
        softness: b, in standard deviations of the vector.
        dim: the dimension along which scores are ranked.
        mask: boolean, of the scores' shape, False where there is no score: 0 there.

    Returns:
        Of the scores' shape, from about 1 to the number of scores along `dim`.

    Raises:
        TypeError, ValueError: a `softness` that is not positive; see `rank_along` for the others.

    >>> soft_rank(torch.tensor([0.3, 2.0, 1.8, -1.0]))
    tensor([3.0009, 1.2204, 1.7812, 3.9976])
    """
    return Laplace(softness=softness)(scores, dim=dim, mask=mask)


def soft_topk_mask(
    scores: Tensor,
    k: float,
    *,
    sorter: Sorter | None = None,
    dim: int = -1,
    mask: Tensor | None = None,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Return the soft membership of each score in the k largest: $F((s_i - t) / b)$ with t such that the sum is k.

    This is the soft top-k of LapSum (Struski et al. 2025), with F the distribution function of Laplace, or of the
    logistic distribution.

    Args:
        scores: any shape, floating point; half precision is computed and returned in float32.
        k: from 0 to the number of scores along `dim`; may be fractional.
        sorter: a `Laplace` or a `Logistic`, whose softness and unit are used; None for `Laplace()`.
        dim: the dimension in which to find the k largest.
        mask: boolean, of the scores' shape, False where there is no score: 0 there.
        hard: return exact zeros and ones with the gradient of the soft values; k must be whole.
        generator: if set, add random noise of the sorter's distribution with width b to the scores.

    Returns:
        Of the scores' shape, in [0, 1].

    Raises:
        TypeError, ValueError: k is out of range, or the sorter is of another class; see `rank_along` for others.

    >>> soft_topk_mask(torch.tensor([0.3, 2.0, 1.8, -1.0]), 2)
    tensor([2.7493e-02, 9.9156e-01, 9.8081e-01, 1.3191e-04])
    >>> soft_topk_mask(torch.tensor([0.3, 2.0, 1.8, -1.0]), 2, hard=True)
    tensor([0., 1., 1., 0.])
    """
    if isinstance(k, bool) or not isinstance(k, Real):
        raise TypeError(f"k is {k!r}, expected a number from 0 to the number of scores")
    kernel = _kernel("soft_topk_mask", sorter)
    vectors = _prepared(scores, dim, mask)
    values, mask, count, width = vectors.values, vectors.mask, vectors.count, _width(kernel, vectors)
    fewest = value_of(count.amin()) if count.numel() else None
    if not k >= 0 or (fewest is not None and k > fewest):  # raises for NaN, too
        most = "the number of scores" if fewest is None else f"{fewest:g}, the number of scores of the shortest vector"
        raise ValueError(f"k is {k}, expected a number from 0 to {most}")
    if hard and k != int(k):
        raise ValueError(f"k is {k}, expected a whole number with hard=True")
    values = _below_largest(_noisy(kernel, values, width, generator), mask)
    # No t exists for all scores or none. Use half of the scores instead, which always has a t; the result is not used.
    all_or_none = (count - k <= 0) | (count * 0 + k <= 0)
    level = torch.where(all_or_none, count / 2, k)
    apart = (values - _thresholds(kernel, values, mask, width, level)) / width
    shares = _distribution(kernel, apart)
    result = torch.where(all_or_none, 1.0 if k > 0 else 0.0, shares).to(values.dtype)
    if hard:
        order = _keys(values, mask).argsort(dim=-1, descending=True, stable=True)
        first = (torch.arange(values.shape[-1], device=values.device) < k).expand_as(order)
        exact = torch.zeros_like(result).scatter(-1, order, first.to(result.dtype))
        result = _with_gradient_of(result, exact)
    if mask is not None:
        result = result.masked_fill(~mask, 0.0)
    return _returned(result, scores).movedim(-1, dim)


def soft_sort(
    scores: Tensor,
    *,
    sorter: Sorter | None = None,
    dim: int = -1,
    mask: Tensor | None = None,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Sort scores, the largest first: the t at which $G(t) = i - \frac12$, in O(d log d).

    This is the soft sorting of LapSum (Struski et al. 2025), where G is the sum of `soft_topk_mask`. With a
    standardizing sorter, equal scores do not change. The largest and smallest results may exceed the range of the
    scores by less than $b \log 2 d$.

    Args:
        scores: any shape, floating point; half precision is computed and returned in float32.
        sorter: a `Laplace`, or a `Logistic` in O(d^2), whose softness and unit are used; None for `Laplace()`. For
            other sorters, the result is `soft_permutation` of their ranks times the scores, in O(d^2), without `hard`
            and `generator`.
        dim: the dimension to sort along.
        mask: boolean, of the scores' shape, False where there is no score: the last positions are then 0.
        hard: return exactly sorted scores, with the gradient of the soft result.
        generator: see `soft_topk_mask`.

    Returns:
        Of the scores' shape.

    Raises:
        TypeError, ValueError: see `rank_along`.

    >>> soft_sort(torch.tensor([0.3, 2.0, -1.0]))
    tensor([ 2.0002,  0.3010, -1.0012])
    """
    if (without_inverse := _without_inverse("soft_sort", sorter)) is not None:
        if hard or generator is not None:
            raise ValueError(
                f"sorter is {without_inverse!r}, expected Laplace(...), Logistic(...) or None with hard or generator"
            )
        check_scores(scores, dim=dim, finite=False)
        if mask is not None:
            check_mask(scores, mask)
        values, mask = scores.movedim(dim, -1), None if mask is None else mask.movedim(dim, -1)
        shares = soft_permutation(values, sorter=without_inverse, mask=mask)
        values = values if mask is None else values.masked_fill(~mask, 0.0)
        return (shares * values.to(shares.dtype).unsqueeze(-2)).sum(-1).movedim(-1, dim)
    kernel = _kernel("soft_sort", sorter)
    vectors = _prepared(scores, dim, mask)
    values, mask, count, width = vectors.values, vectors.mask, vectors.count, _width(kernel, vectors)
    equal = _equal(kernel, values, mask)
    values = _noisy(kernel, values, width, generator)
    position_exists = torch.arange(values.shape[-1], device=values.device) < count
    result = _thresholds(kernel, values, mask, width, None)
    if hard:
        exact = _keys(values, mask).sort(dim=-1, descending=True).values.where(position_exists, 0.0)
        result = _with_gradient_of(result, exact)
    result = _with_gradient_of(result, equal).where(equal.isfinite(), result)
    return _returned(result.where(position_exists, 0.0) * vectors.unit, scores).movedim(-1, dim)


def soft_quantile(
    scores: Tensor,
    q: float | Tensor,
    *,
    sorter: Sorter | None = None,
    dim: int = -1,
    mask: Tensor | None = None,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Return soft quantiles: the value $q (d - 1)$ positions from the smallest of `soft_sort`, interpolated linearly.

    Values are as in LapSum (Struski et al. 2025). As the softness tends to 0, they tend to those of `torch.quantile`
    with its linear rule.

    Args:
        scores: any shape, floating point; half precision is computed and returned in float32.
        q: a number in [0, 1] or a vector of such numbers; constant.
        sorter, dim, mask, generator: see `soft_topk_mask`; each vector needs at least one score.
        hard: return the exact quantile, with the gradient of the soft quantile.

    Returns:
        The scores' shape without `dim`; for a vector of q, preceded by their number, as in `torch.quantile`.

    Raises:
        TypeError, ValueError: q is outside [0, 1], or a vector has no scores; see `soft_topk_mask`.

    >>> soft_quantile(torch.tensor([0.3, 2.0, -1.0]), 0.75)
    tensor(1.1506)
    """
    kernel = _kernel("soft_quantile", sorter)
    vectors = _prepared(scores, dim, mask)
    values, mask, count, width = vectors.values, vectors.mask, vectors.count, _width(kernel, vectors)
    if not torch.is_tensor(q) and (isinstance(q, bool) or not isinstance(q, Real)):
        raise TypeError(f"q is {q!r}, expected a number in [0, 1], or a tensor of such numbers")
    # Avoid float32, the default type of a Python number in a tensor.
    shares = torch.as_tensor(q, device=values.device, dtype=torch.float64).detach()
    if shares.dim() > 1:
        raise ValueError(f"q has shape {tuple(shares.shape)}, expected a number or a vector")
    check_values("q", shares, ~((shares >= 0) & (shares <= 1)), "a number in [0, 1]")
    if mask is not None:
        check_values("mask", mask, ~mask.any(-1, keepdim=True).expand_as(mask), "at least one True in each vector")
    equal = _equal(kernel, values, mask)
    values = _noisy(kernel, values, width, generator)
    # Each quantile is between two positions, counted from 0 for the smallest score: (..., Q).
    position = shares.reshape(-1) * (count - 1)
    levels = torch.cat([count - position.floor() - 0.5, count - position.ceil() - 0.5], -1)
    ends = _thresholds(kernel, values, mask, width, levels)
    if hard:
        exact = _keys(values, mask).sort(dim=-1, descending=True).values.gather(-1, (levels - 0.5).long())
        ends = _with_gradient_of(ends, exact)
    ends = _with_gradient_of(ends, equal).where(equal.isfinite(), ends)
    lower, upper = ends.chunk(2, -1)
    result = _returned(torch.lerp(lower, upper, position.frac()) * vectors.unit, scores)
    return result.squeeze(-1) if shares.dim() == 0 else result.movedim(-1, 0)


def soft_median(
    scores: Tensor,
    *,
    sorter: Sorter | None = None,
    dim: int = -1,
    mask: Tensor | None = None,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the soft median, `soft_quantile` at 1/2; for an even number of scores, the mean of the middle two.

    >>> soft_median(torch.tensor([0.3, 2.0, -1.0]))
    tensor(0.3010)
    """
    return soft_quantile(scores, 0.5, sorter=sorter, dim=dim, mask=mask, hard=hard, generator=generator)


def soft_permutation(
    scores: Tensor, *, sorter: Sorter | None = None, dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    r"""Compute the doubly stochastic matrix of how much of each position each score takes.

    $P_{ij} = F((s_j - t_i) / b) - F((s_j - t_{i-1}) / b)$ with $G(t_i) = i$ and $t_0 = \infty$: LapSum (Struski et
    al. 2025). It takes O(d^2) memory.

    Args:
        scores: any shape, floating point; half precision is computed and returned in float32.
        sorter: a `Laplace` or a `Logistic`, whose softness and unit are used; None for `Laplace()`. A loss on the whole
            matrix approaches 0 only with `standardize=False`. For other sorters, the result is `permutation_of_ranks`
            of their ranks, whose rows sum to 1, but not its columns.
        dim: the dimension along which scores are ranked.
        mask: boolean, of the scores' shape, False where there is no score: zeros there, and rows of zeros for the last
            positions.

    Returns:
        The scores' shape with (d, d) instead of d, first positions, then scores: [i - 1, j].

    Raises:
        TypeError, ValueError: see `rank_along`.

    >>> soft_permutation(torch.tensor([0.3, 2.0, -1.0]), sorter=Laplace(softness=0.01)).round()
    tensor([[0., 1., 0.],
            [1., 0., 0.],
            [0., 0., 1.]])
    """
    vectors = _prepared(scores, dim, mask)
    values, mask = vectors.values, vectors.mask
    if (without_inverse := _without_inverse("soft_permutation", sorter)) is not None:
        ranks = without_inverse(values) if mask is None else without_inverse(values, mask=mask)
        shares = permutation_of_ranks(ranks, mask=mask)
    else:
        shares = _shares_between_thresholds(_kernel("soft_permutation", sorter), vectors)
    # Rows are positions, columns are scores.
    position_exists = torch.arange(values.shape[-1], device=values.device) < vectors.count
    is_present = position_exists.unsqueeze(-1)
    if mask is not None:
        is_present = is_present & mask.unsqueeze(-2)
    shares = _returned(shares.masked_fill(~is_present, 0.0), scores)
    rows_dim = dim % scores.dim()
    return shares.movedim((-2, -1), (rows_dim, rows_dim + 1))


def permutation_of_ranks(ranks: Tensor, *, temperature: float = 0.1, mask: Tensor | None = None) -> Tensor:
    r"""Compute how much of each position each score takes.

    $P_{kj} \propto e^{-|r_{[k]} - r_j| / \tau}$ with $r_{[k]}$ the k-th smallest rank; each row sums to 1.

    This is SoftSort (Prillo and Eisenschlos 2020, Eq. 3) on ranks instead of scores, so that the temperature has the
    same meaning at any scale. With exact ranks, it tends to the sorting permutation matrix as $\tau$ tends to 0; tied
    scores share their positions. It takes O(d^2) memory.

    Args:
        ranks: r, (..., d), 1 for the first position; from a sorter.
        temperature: $\tau$, in positions.
        mask: (..., d) boolean, False where there is no score. These entries take no position, and the last positions
            are empty (rows of zeros).

    Returns:
        P, (..., d, d): [..., k - 1, j].

    Raises:
        TypeError, ValueError: ranks are not floating point, `temperature` is not positive, or the mask has the wrong
            type or shape.

    >>> permutation_of_ranks(torch.tensor([2.0, 1.0, 3.0]), temperature=0.01).round()
    tensor([[0., 1., 0.],
            [1., 0., 0.],
            [0., 0., 1.]])
    """
    check_floating(ranks=ranks)
    check_positive("temperature", temperature)
    if mask is None:
        mask = torch.ones_like(ranks, dtype=torch.bool)
    check_mask(ranks, mask)
    ordered, position_exists = ranks_of_places(ranks, mask)
    exists = position_exists.unsqueeze(-1), mask.unsqueeze(-2)
    return shares_of_places((ordered.unsqueeze(-1), ranks.unsqueeze(-2)), exists, temperature)


def _kernel(name: str, sorter: Sorter | None) -> Kernel:
    """Return the kernel, a sorter whose sum can be inverted; raise a TypeError for other sorters."""
    if sorter is None:
        return Laplace()
    check_instance("sorter", sorter)
    if isinstance(sorter, str):
        raise TypeError(f"sorter is {sorter!r}, expected a sorter or None: pass load_sorter({sorter!r})")
    if not isinstance(sorter, Kernel):
        name_of_sorter = getattr(sorter, "__name__", repr(sorter))
        raise TypeError(
            f"sorter is {name_of_sorter}, expected a Laplace(...), a Logistic(...) or None, whose sum {name} can invert"
        )
    return sorter


def _without_inverse(name: str, sorter: Sorter | None) -> Sorter | None:
    """Return the sorter if its sum cannot be inverted, or None for a kernel."""
    if isinstance(sorter, Sorter) and not isinstance(sorter, Kernel):
        return sorter
    _kernel(name, sorter)  # raises if it is not a sorter
    return None


@dataclass(frozen=True)
class Vectors:
    """Scores to sort.

    Attributes:
        values: (..., d), float32 or float64, 0 where the mask is False.
        mask: (..., d) boolean, or None.
        count: (..., 1), float64, the number of scores.
        unit: (..., 1) or 1, the divisor of the scores; results that are scores are multiplied by it.
    """

    values: Tensor
    mask: Tensor | None
    count: Tensor
    unit: Tensor | float


def _prepared(scores: Tensor, dim: int, mask: Tensor | None) -> Vectors:
    """Check scores, move them to the last dimension, and convert them to a type and range for computing."""
    check_scores(scores, dim=dim, finite=False)
    if mask is not None:
        check_mask(scores, mask)
    magnitude = largest_magnitude(scores, mask)
    values = scores.movedim(dim, -1)
    values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    if mask is None:
        count = torch.full_like(values[..., :1], values.shape[-1], dtype=torch.float64).detach()
    else:
        mask = mask.movedim(dim, -1)
        values, count = values.masked_fill(~mask, 0.0), mask.sum(-1, keepdim=True).double()
    if (unit := unit_of(values, magnitude)) is None:
        return Vectors(values, mask, count, 1.0)
    return Vectors(values / unit, mask, count, unit)


def _width(kernel: Kernel, vectors: Vectors) -> Tensor:
    """Return b in the unit of the scores, (..., 1) in float64, constant, also for a kernel that is not detached."""
    values = vectors.values.detach()
    if kernel.standardize:
        return kernel.softness * standard_deviation(values, vectors.mask).double()
    return kernel.softness * torch.ones_like(values[..., :1], dtype=torch.float64) / vectors.unit


def _distribution(kernel: Kernel, apart: Tensor) -> Tensor:
    """Return F, the distribution function of the noise."""
    return apart.sigmoid() if isinstance(kernel, Logistic) else (1 - apart.sign() * torch.expm1(-apart.abs())) / 2


def _below_largest(values: Tensor, mask: Tensor | None) -> Tensor:
    """Subtract the largest score, in float64, so that close scores far from 0 keep their precision."""
    apart = values.double() - largest(values, mask).double()
    return apart if mask is None else apart.masked_fill(~mask, 0.0)


def _equal(kernel: Kernel, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return the score of vectors (..., d) whose scores are all equal, (..., 1), as a constant; infinity for others.

    Their standard deviation is 0, for which `standard_deviation` returns 1.
    """
    most, least = largest(values, mask), -largest(-values, mask)
    return most.where((most == least) & kernel.standardize, torch.inf)


def _with_gradient_of(soft: Tensor, exact: Tensor) -> Tensor:
    """Return the exact values, with the gradient of the soft values."""
    return exact + (soft - soft.detach())


def _keys(values: Tensor, mask: Tensor | None) -> Tensor:
    """Return constant values to sort by in descending order, with masked ones last."""
    return values.detach() if mask is None else values.detach().masked_fill(~mask, -torch.inf)


def _noisy(kernel: Kernel, values: Tensor, width: Tensor, generator: torch.Generator | None) -> Tensor:
    """Add noise with the kernel's distribution, computed from two exponential variables."""
    if generator is None:
        return values
    first, second = (torch.empty_like(values).exponential_(generator=generator) for _ in range(2))
    noise = (first / second).log() if isinstance(kernel, Logistic) else first - second
    return values + noise * width.to(values.dtype)


def _returned(result: Tensor, scores: Tensor) -> Tensor:
    return result.to(torch.float64 if scores.dtype == torch.float64 else torch.float32)


def _thresholds(kernel: Kernel, scores: Tensor, mask: Tensor | None, width: Tensor, levels: Tensor | None) -> Tensor:
    """Return the t at which the sum G of (..., d) scores reaches each of (..., K) levels: (..., K), in float64.

    Levels are strictly between 0 and the number of scores; None means each position less 1/2, up to that number. The
    result for vectors without any score is undefined.
    """
    if not isinstance(kernel, Logistic):
        return _Thresholds.apply(scores, mask, width, levels)[0]
    constant = scores.detach()
    start = _Thresholds.apply(constant, mask, width, levels)[0]
    if levels is None:
        middles = torch.arange(1, scores.shape[-1] + 1, device=scores.device) - 0.5
        count = middles[-1] + 0.5 if mask is None else mask.sum(-1, keepdim=True)
        levels = torch.minimum(middles, (count - 0.5).clamp(min=0.5)).double()
    return LogisticLevels.apply(scores, mask, width, levels.expand_as(start), start)


def _shares_between_thresholds(kernel: Kernel, vectors: Vectors) -> Tensor:
    """Return the fraction of each score between the thresholds on both sides of each position: (..., d, d)."""
    mask, count, width = vectors.mask, vectors.count, _width(kernel, vectors)
    values = _below_largest(vectors.values, mask)
    # The threshold t_i after position i, where the sum G is i. G takes no whole number from the last position on; half
    # of the scores stands in, which always has a t.
    levels = torch.arange(1, values.shape[-1], device=values.device)
    is_inner = levels < count
    thresholds = _thresholds(kernel, values, mask, width, torch.where(is_inner, levels, count / 2))
    apart = (values.unsqueeze(-2) - thresholds.unsqueeze(-1)) / width.unsqueeze(-1)
    # How much of each score lies above t_i. From the last position on, t is minus infinity, below all of it.
    above = _distribution(kernel, apart).where(is_inner.unsqueeze(-1), 1.0)
    none = torch.zeros_like(values).unsqueeze(-2)  # t_0 is infinity
    return torch.cat([none, above, torch.ones_like(none)], -2).diff(dim=-2)


class _Thresholds(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    @with_signature
    def forward(scores: Tensor, mask: Tensor | None, width: Tensor, levels: Tensor | None) -> tuple[Tensor, ...]:
        length = scores.shape[-1]
        ordered, order = _keys(scores, mask).sort(dim=-1, descending=True)
        ordered = ordered.double()
        if mask is None:
            count, weights = torch.full_like(ordered[..., :1], length), None
            below = torch.arange(1, length + 1, device=scores.device)
        else:
            # Absent scores stand last, with the value of the last one that exists and no weight.
            count = mask.sum(-1, keepdim=True).double()
            below = torch.arange(1, length + 1, device=scores.device).double()
            weights = (below <= count).double()
            last = ordered.where(weights > 0, torch.inf).amin(-1, keepdim=True)
            ordered = torch.where(weights > 0, ordered, last.where(last < torch.inf, 0.0))
        # What G has reached at each score, and how many scores lie above each level.
        before, after = before_and_after(ordered, weights, width)
        reached = below - 0.5 + (after - before) / 2
        if mask is not None:
            reached = reached.masked_fill(below > count, torch.inf)
        if levels is None:  # counted: a search takes as long as a third of all the rest
            levels = torch.minimum(below - 0.5, (count - 0.5).clamp(min=0.5))
            above = _up_to_each((reached - 0.5).ceil().clamp(0, length).long())
        else:
            above = torch.searchsorted(reached.contiguous(), levels.contiguous(), right=True)
        # The scores on both sides of each level, and log(1 + the sum over what lies beyond them).
        upper, lower = (above - 1).clamp(min=0), torch.minimum(above, (count - 1).clamp(min=0).long())
        top, bottom = ordered.gather(-1, upper), ordered.gather(-1, lower)
        near_top = torch.log1p(before.gather(-1, upper))
        near_bottom = torch.log1p(after.gather(-1, lower))
        # Between two scores: the root of a quadratic, log(|c| + sqrt(c^2 + P Q e^-gap)); where c is 0, it must not be.
        half = (near_top + near_bottom - (top - bottom) / width) / 2
        offset = levels - above
        root = torch.hypot(offset, half.clamp(min=-700.0).exp())
        between = top + width * (half - near_top - offset.sign() * ((offset.abs() + root).log() - half))
        # Above the largest score or below the smallest: a logarithm.
        outside = torch.where(above == 0, levels, count - levels)
        beyond = (2 * outside).log()
        over_top = top + width * (near_bottom - beyond)
        under_bottom = bottom + width * (beyond - near_top)
        end = torch.where(above == 0, over_top, under_bottom)
        at_end = (above == 0) | (above >= count)
        # The last is the sum of the weights e^-|s - t| / b of all scores.
        return torch.where(at_end, end, between), order, above, 2 * torch.where(at_end, outside, root)

    @staticmethod
    def setup_context(
        ctx, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor | None], output: tuple[Tensor, ...]
    ) -> None:
        scores, mask, width, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(scores, mask, width, *output)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradients[0]
        scores, mask, width, thresholds, order, above, sums = ctx.saved_tensors
        length, count = scores.shape[-1], thresholds.shape[-1]
        is_small = count <= 2 or scores.numel() * count <= FEW_PAIRS
        if is_small or count < length:  # all pairs; a permutation has as many anyway
            near = -((scores.unsqueeze(-2) - thresholds.unsqueeze(-1)) / width.unsqueeze(-1)).abs()
            if mask is not None:
                near = near.masked_fill(~mask.unsqueeze(-2), torch.finfo(near.dtype).min)
            pull = (torch.softmax(near, -1) * gradient.unsqueeze(-1)).sum(-2)
        elif torch.is_grad_enabled():  # a second derivative may be asked for: sums with a graph
            points, places = torch.cat([scores.double(), thresholds], -1).sort(dim=-1, descending=True)
            present = torch.ones_like(scores, dtype=torch.float64) if mask is None else mask.double()
            # The sum of each threshold over all scores, then of each score over all thresholds.
            of_scores = torch.cat([present, torch.zeros_like(thresholds)], -1).gather(-1, places)
            sums = _unsorted(sums_of_others(points, of_scores, width)[1], places)[..., length:]
            shares = torch.cat([torch.zeros_like(present), gradient / sums], -1).gather(-1, places)
            pull = present * _unsorted(sums_of_others(points, shares, width)[1], places)[..., :length]
        else:
            points, places = thresholds.sort(dim=-1, descending=True)
            shares = (gradient / sums).gather(-1, places)
            before, after = before_and_after(points, shares, width)
            # Each score is pulled by the thresholds above it and by those below.
            ordered = scores.double().gather(-1, order)
            higher = _up_to_each(above)
            upper, lower = (higher - 1).clamp(min=0), higher.clamp(max=length - 1)
            to_upper = ((ordered - points.gather(-1, upper)) / width).exp()
            to_lower = ((points.gather(-1, lower) - ordered) / width).exp()
            from_upper = (before + shares).gather(-1, upper) * to_upper
            from_lower = (after + shares).gather(-1, lower) * to_lower
            pull = from_upper.where(higher > 0, 0.0) + from_lower.where(higher < length, 0.0)
            if mask is not None:
                pull = pull.where(mask.gather(-1, order), 0.0)
            pull = _unsorted(pull, order)
        return pull.to(scores.dtype), None, None, None


def _up_to_each(numbers: Tensor) -> Tensor:
    """Return how many of d whole numbers from 0 to d are at most 0, 1, ..., d - 1."""
    counts = torch.nn.functional.pad(torch.zeros_like(numbers), (0, 1))
    return counts.scatter_add(-1, numbers, torch.ones_like(numbers)).cumsum(-1)[..., :-1]


def _unsorted(values: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(values).scatter(-1, order, values)
