"""Ranked and unranked metrics of multi-label ranking (RLSEP, Section 5.3), one value per example.

Precision, recall, F1, accuracy and exact match (the papers' 0-1) of pairs of labels, or of label sets; a ratio with an
empty denominator is 0.
"""

import torch
from torch import Tensor

from rankgrad.checks import check_label_ranks, check_scores, check_shapes, signed
from rankgrad.ranks import dense_ranks

__all__ = ["label_ranking_scores", "label_set_scores", "ranked_map_ceiling"]

PAIRS = 2_000_000  # pairs of labels to compare in one call


def label_ranking_scores(scores: Tensor, label_ranks: Tensor) -> dict[str, Tensor]:
    r"""Compute how well the order of the scores agrees with the label ranks, including absent labels.

    Over $P = \{(u, v) : u < v, r_u \neq r_v\}$ a pair is positive if $r_u > r_v$ and predicted positive if
    $f_u > f_v$; equal scores count as wrong. `exact_match` is 1 if no pair is wrong. `mean_average_precision` is that
    of the paper: set the smallest nonzero rank to 0 repeatedly until one is left (tied ranks together), and average the
    precision of all these rankings, including the original.

    Args:
        scores: (n, K).
        label_ranks: (n, K), 0 = absent, larger = more important; only their order matters.

    Returns:
        `precision`, `recall`, `f1_per_image`, `accuracy`, `exact_match`, `mean_average_precision`, each (n,) float64.

    Raises:
        TypeError: scores are not floating point.
        ValueError: inputs are not two-dimensional, shapes differ, a score is not finite, or a label rank is negative or
            NaN.

    >>> rates = label_ranking_scores(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 2]]))
    >>> round(rates["accuracy"].item(), 3), rates["exact_match"].item()
    (0.667, 0.0)
    """
    label_ranks = _checked(label_ranks, scores=scores)
    check_scores(scores)
    label_ranks = dense_ranks(label_ranks)
    rows = max(1, PAIRS // max(1, scores.shape[1] ** 2))
    blocks = [_ranked(*block) for block in zip(scores.split(rows), label_ranks.split(rows), strict=True)]
    rates = {}
    for name in blocks[0]:
        rates[name] = torch.cat([block[name] for block in blocks])
    return rates


def label_set_scores(selected: Tensor, label_ranks: Tensor) -> dict[str, Tensor]:
    """Compute how well the selected label set agrees with the present labels, ignoring their order.

    Args:
        selected: (n, K) boolean.
        label_ranks: (n, K), 0 = absent.

    Returns:
        `precision`, `recall`, `f1_per_image`, `accuracy`, `exact_match`, each (n,) float64.

    Raises:
        ValueError: inputs are not two-dimensional, shapes differ, `selected` is not boolean, or a label rank is
            negative or NaN.

    >>> label_set_scores(torch.tensor([[True, True, False]]), torch.tensor([[2, 0, 0]]))["precision"]
    tensor([0.5000], dtype=torch.float64)
    """
    label_ranks = _checked(label_ranks, selected=selected)
    if selected.dtype != torch.bool:
        raise ValueError(
            f"selected is {selected.dtype}, expected booleans: pass `label_ranks > 0` to select labels with a rank"
        )
    return _rates(label_ranks > 0, selected, torch.ones_like(selected))


def ranked_map_ceiling(label_ranks: Tensor) -> float:
    """Return the mean `mean_average_precision` of a perfect ranking, the maximum, which is often below 1.

    The metric averages precisions, and a precision without positive pairs counts as 0. If the labels that are still
    above the absent ones are the last labels, in ascending order, each of their pairs is negative, so a perfect ranking
    predicts no positive pair.

    Args:
        label_ranks: (n, K), 0 = absent, larger = more important.

    >>> ranked_map_ceiling(torch.tensor([[2, 1, 0], [0, 1, 2]]))
    0.5
    """
    label_ranks = _checked(label_ranks, truth=label_ranks)
    return label_ranking_scores(dense_ranks(label_ranks).double(), label_ranks)["mean_average_precision"].mean().item()


def _checked(label_ranks: Tensor, **predictions: Tensor) -> Tensor:
    """Return label ranks in a type that can be compared; predictions are passed by name."""
    check_shapes("(n, K)", dims=2, leading=False, empty=True, **predictions, label_ranks=label_ranks)
    check_label_ranks(next(iter(predictions.values())), label_ranks)
    return signed(label_ranks)


def _ranked(scores: Tensor, label_ranks: Tensor) -> dict[str, Tensor]:
    rates = _pair_rates(scores, label_ranks)
    highest = label_ranks.amax(-1)
    precisions = torch.zeros_like(rates["precision"])
    for cut in range(int(highest.max()) if len(highest) else 0):
        kept = torch.where(label_ranks > cut, label_ranks, torch.zeros_like(label_ranks))
        precisions += _pair_rates(scores, kept)["precision"] * (cut < highest)
    return rates | {"mean_average_precision": _ratio(precisions, highest.double())}


def _pair_rates(scores: Tensor, label_ranks: Tensor) -> dict[str, Tensor]:
    first, second = torch.triu_indices(scores.shape[-1], scores.shape[-1], offset=1, device=scores.device)
    upper, lower = label_ranks[:, first], label_ranks[:, second]
    positive = upper > lower
    difference = scores[:, first] - scores[:, second]
    # Equal scores are always wrong: they count as the opposite of the true order.
    predicted = torch.where(difference == 0, ~positive, difference > 0)
    return _rates(positive, predicted, upper != lower)


def _rates(positive: Tensor, predicted: Tensor, compared: Tensor) -> dict[str, Tensor]:
    """Compute the five rates over the last dimension of boolean tensors (n, m)."""
    true_positive = (positive & predicted & compared).sum(-1).double()
    total = compared.sum(-1).double()
    right = ((positive == predicted) & compared).sum(-1).double()
    precision = _ratio(true_positive, (predicted & compared).sum(-1).double())
    recall = _ratio(true_positive, (positive & compared).sum(-1).double())
    return {
        "precision": precision,
        "recall": recall,
        "f1_per_image": _ratio(2 * precision * recall, (precision + recall)),
        "accuracy": _ratio(right, total),
        "exact_match": (right == total).double(),
    }


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    return torch.where(denominator > 0, numerator / torch.where(denominator > 0, denominator, 1.0), 0.0)
