"""The focal loss: binary cross-entropy with less weight on labels that are predicted well."""

from torch import Tensor
from torch.nn import functional

from rankgrad.checks import check_positive
from rankgrad.losses._inputs import Reduction, groups, pointwise

__all__ = ["focal"]


def focal(
    scores: Tensor,
    labels: Tensor,
    *,
    dim: int = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    group_weights: Tensor | None = None,
    reduction: Reduction = "mean",
    check_finite: bool = True,
    gamma: float = 2.0,
) -> Tensor:
    r"""Present labels should have positive scores and absent labels negative ones; uncertain labels matter most.

    $-(1 - p)^\gamma \log p$ with $p = \sigma(y)$ for a present label and $1 - \sigma(y)$ for an absent one, averaged
    over all labels (Lin et al. 2017, Eq. 4; their $\alpha$ of Eq. 5 is a weight). With $\gamma = 0$ it is
    `multilabel_soft_margin`.

    Args:
        scores: y, any shape.
        labels: of that shape, 0 and 1 of any type.
        mask: of that shape, boolean, False for labels to ignore.
        weights: of that shape, weight of each label in the mean over all labels.
        dim, group_weights, reduction, check_finite: see `rankgrad.losses`.
        gamma: $\gamma$, 0 or more.

    Returns:
        A scalar; with `none`, one value per group.

    Raises:
        TypeError, ValueError: see `rankgrad.losses`; a negative `gamma`.

    >>> import torch
    >>> focal(torch.zeros(2, 3), torch.tensor([[1, 0, 0], [0, 1, 1]]))  # a quarter of log 2
    tensor(0.1733)
    """
    batch = groups(
        scores,
        labels=labels,
        dim=dim,
        mask=mask,
        weights=weights,
        group_weights=group_weights,
        check_finite=check_finite,
    )
    check_positive("gamma", gamma, or_zero=True)
    right = batch.scores.where(batch.truth, -batch.scores)
    doubt = (gamma * functional.logsigmoid(-right)).exp()  # (1 - p)^gamma, whose derivative is finite
    return pointwise(batch, -doubt * functional.logsigmoid(right), reduction)
