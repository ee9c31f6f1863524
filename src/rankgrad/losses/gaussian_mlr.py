"""GaussianMLR: labels as normal variables, with probabilities for their presence and order."""

import math

import torch
from torch import Tensor

from rankgrad.checks import check_floating, check_shapes, check_values
from rankgrad.losses._inputs import Reduction, groups, reduced, within
from rankgrad.losses._pairs import Pair, sums_over_pairs

__all__ = ["gaussian_mlr"]

FAR = -1000.0


def gaussian_mlr(
    scores: Tensor,
    label_ranks: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    log_variances: Tensor | None = None,
) -> Tensor:
    r"""With high probability, present labels should lie above 0 and above every less important label.

    Each label is a normal variable with mean $\mu$, its score, and variance $\sigma^2$. With $\Phi$ the normal
    distribution function,

    $-\frac1K \sum_u \log \Phi\left(\pm \frac{\mu_u}{\sigma_u}\right) - \frac{1}{|\zeta|} \sum_{(u, v) \in \zeta}
    \log \Phi\left(\frac{\mu_u - \mu_v}{\sqrt{\sigma_u^2 + \sigma_v^2}}\right)$, with + if u is present and - if it is
    absent, and $\zeta = \{(u, v) : r_u > r_v\}$, averaged over the batch (GaussianMLR, Yesilkaynak et al. 2023,
    arXiv:2303.03907; their code averages pairs over the whole batch, this one within each example). A label is selected
    if its score is above 0, so no threshold network is needed. An example without pairs has only the first term.

    Args:
        scores: $\mu$, any shape.
        label_ranks: r, of that shape, 0 = absent, larger = more important; ties are not compared.
        mask: of that shape, boolean, False where a label is unknown or impossible.
        weights: of that shape, weight of each label; the weight of a pair is the product of both.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        log_variances: $\log \sigma^2$, of that shape, for example from a second head of the network; they receive
            gradients. None for a variance of 1.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; log variances have the wrong shape or are not finite.

    >>> loss = gaussian_mlr(torch.tensor([3.0, 0.0]), torch.tensor([1, 0]))
    >>> present, apart = torch.special.ndtr(torch.tensor([3.0, 0.0])), torch.special.ndtr(torch.tensor(3 / 2**0.5))
    >>> torch.isclose(loss, -present.log().mean() - apart.log())
    tensor(True)
    """
    batch = groups(
        scores,
        label_ranks=label_ranks,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    means = batch.scores.double()  # the tails of the normal distribution need the precision
    variances = torch.ones_like(means)
    if log_variances is not None:
        check_floating(log_variances=log_variances)
        check_shapes("(..., K)", empty=True, log_variances=log_variances, scores=scores)
        if check_finite:
            wrong = ~torch.isfinite(log_variances)
            check_values("log_variances", log_variances, wrong if mask is None else wrong & mask, "a finite number")
        variances = log_variances.double().movedim(dim, -1).where(batch.exists, 0.0).exp()
    weight = within(batch.weight).double()
    signed = torch.where(batch.truth > 0, means, -means) / variances.sqrt()
    present = -(_log_ndtr(signed) * weight).sum(-1)
    total = weight.sum(-1)

    def rows(mean: Pair, variance: Pair, weight: Pair, label_ranks: Pair) -> tuple[Tensor, ...]:
        pairs = weight[0] * weight[1] * (label_ranks[0] > label_ranks[1])
        # Masked before the difference is used, because an unchecked score of an impossible label may be -inf.
        apart = (mean[0] - mean[1]).where(pairs > 0, 0.0) / (variance[0] + variance[1]).sqrt()
        return -(_log_ndtr(apart) * pairs).sum(-1), pairs.sum(-1)

    ordered, compared = sums_over_pairs(rows, means, variances, weight, batch.truth)
    value = present / total.where(total > 0, 1.0) + ordered / compared.where(compared > 0, 1.0)
    return reduced(batch, value.to(batch.scores.dtype), reduction)


def _log_ndtr(values: Tensor) -> Tensor:
    """Return torch's `log_ndtr`; far below 0, where its gradient is imprecise, the first terms of its series."""
    far = values.clamp(max=FAR)
    series = -far.square() / 2 - (-far).log() - math.log(2 * math.pi) / 2 - far**-2
    return series.where(values < FAR, torch.special.log_ndtr(values.clamp(min=FAR)))
