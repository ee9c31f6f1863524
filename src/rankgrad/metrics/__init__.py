"""Exact metrics without gradient: `metric(scores, truth, *, dim=-1, mask=None, weights=None)`, one value per group.

    from rankgrad.metrics import ndcg
    ndcg(scores, target).nanmean()

Average or bootstrap the values. A metric is NaN for a group on which it is undefined: without positives, without gain,
or, for correlations, with only ties. Without any groups, as for scores of shape (0, d), there are no values, and a mean
over groups is NaN. Arguments are the same as in `rankgrad.losses`; values are float64.

- For a `target` whose order the scores should have: `spearman`, `kendall` (tau-b), `goodman_kruskal_gamma`,
  `pair_accuracy`, `exact_match` (EM), `elementwise_match` (EW).
- For a `target` of relevance grades: `ndcg`, `expected_reciprocal_rank` (ERR).
- For `labels`: `average_precision` (its mean is MAP over queries or classes, LRAP over examples), `reciprocal_rank`
  (MRR), `hit_rate`, `precision_at_k`, `recall_at_k`, `coverage_error`, `ranking_loss`.
- For `label_ranks`: `label_ranking_scores` and `label_set_scores`, which return dictionaries of values. For
  `positives`: `median_rank`, over the rows of a matrix. The mean of `hit_rate` over rows is retrieval's R@K.

In `ndcg`, `precision_at_k`, `recall_at_k`, and all comparisons of ranks, equal scores share their positions. In the
other metrics for relevance and labels, ties count against the positive, as in scikit-learn.

`EpochMetric(metric)` computes a metric over a whole dataset that arrives in batches, on one process or several.
"""

from functools import partial

from rankgrad import lookup
from rankgrad.metrics._epoch_metric import EpochMetric
from rankgrad.metrics.coverage_error import coverage_error
from rankgrad.metrics.exact_match import elementwise_match, exact_match
from rankgrad.metrics.expected_reciprocal_rank import expected_reciprocal_rank
from rankgrad.metrics.kendall import goodman_kruskal_gamma, kendall
from rankgrad.metrics.label_ranking import label_ranking_scores, label_set_scores, ranked_map_ceiling
from rankgrad.metrics.mean_average_precision import average_precision, mean_average_precision
from rankgrad.metrics.median_rank import first_positive_ranks, median_rank
from rankgrad.metrics.ndcg import ndcg
from rankgrad.metrics.pair_accuracy import pair_accuracy
from rankgrad.metrics.precision_at_k import precision_at_k
from rankgrad.metrics.ranking_loss import ranking_loss
from rankgrad.metrics.recall_at_k import recall_at_k
from rankgrad.metrics.reciprocal_rank import hit_rate, reciprocal_rank
from rankgrad.metrics.spearman import spearman

__all__ = [
    "EpochMetric",
    "average_precision",
    "coverage_error",
    "elementwise_match",
    "exact_match",
    "expected_reciprocal_rank",
    "first_positive_ranks",
    "goodman_kruskal_gamma",
    "hit_rate",
    "kendall",
    "label_ranking_scores",
    "label_set_scores",
    "mean_average_precision",
    "median_rank",
    "ndcg",
    "pair_accuracy",
    "precision_at_k",
    "ranked_map_ceiling",
    "ranking_loss",
    "recall_at_k",
    "reciprocal_rank",
    "spearman",
]

__getattr__ = partial(lookup.no_attribute, "metrics")
