"""Exact metrics, without gradient: `metric(scores, truth, *, dim=-1, mask=None, weights=None)`, one value a group.

    from rankops.metrics import ndcg
    ndcg(scores, target).nanmean()

Of each value one can take the mean and bootstrap it. A group for which a metric is not defined has NaN. Arguments are
those of `rankops.losses`; values are float64.
"""

from rankops.lookup import flatten

flatten(__name__)
