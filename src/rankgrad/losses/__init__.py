"""Ranking losses to minimize, one function per file: `loss(scores, truth, *, options)`.

    from rankgrad.losses import spearman
    spearman(scores, target).backward()

The name of the second argument tells what the scores are compared with. It has the shape of the scores and any type:

- `target`: numbers whose order the scores should have.
- `labels`: 0 and 1.
- `label_ranks`: 0 = absent, larger = more important.
- `positives`: 0 and 1, a matrix (..., n, m) of queries and items, such as images and texts, which is searched in both
  directions. Each row needs a positive, and in a square matrix each column, too; columns of other matrices may lack
  positives and are additional negatives. With a mask, any row or column may lack positives. Rows and columns without
  positives are ignored; m must be at least 2.

Most losses also take:

- `dim`: the dimension along which scores are compared with each other; the default is the last. Scores (queries,
  documents) are one list per query. For a classifier's scores (examples, classes), `dim=-2` ranks the examples of each
  class.
- `mask`: boolean, False where there is no score, as in padding (`rankgrad.ragged.pad_groups`). Masked entries are
  ignored, even NaN. Do not set scores to -1e9 instead: all others would then be tied.
- `weights`: weight of each score within its group; only proportions within a group matter. A group of two has only one
  pair, which weights cannot change, so `ranknet`, `pairwise_logistic`, `kendall` and `spearman` raise an error if
  weights differ only between groups of two.
- `group_weights`: weight of each group in the mean, one number per group, in the shape that `none` returns.
- `reduction`: `mean` over groups, `sum`, or `none` for one value per group, in order. With `positives`, `none` returns
  (..., 2, d), one value per row and per column, where d is the larger of n and m. Groups with nothing to compare, or
  without scores or weights, are ignored: their value is 0 without gradient, and the mean skips them.
- `sorter`: f, which computes soft ranks. None means `Laplace(softness=0.2)`. Pass the name of a sorter (`laplace`,
  `comparator`), a sorter from `rankgrad.sorters`, or a differentiable function from scores (..., d) to ranks (..., d),
  1 for the largest and d for the smallest. A function is tested once, on eight scores and on the shape of the first
  input; the loss raises an error if it ranks differently. The function receives `mask` if there is one, always in
  `average_precision`, and for matrices that are not square in `mean_log_rank`, `sodeep_recall` and `hit_rate`: write
  f(scores, mask=None), or subclass `rankgrad.sorters.Sorter`.
- `check_finite`: raise an error for scores and targets that are NaN, infinite, or invalid; this waits for a GPU. With
  False, no value is read, and the loss of a NaN is usually NaN. Under `torch.compile` and `torch.func.vmap`, values
  cannot be read, so the check is always off.

Without any groups, as for scores of shape (0, d), the loss is 0 with a gradient of zeros, and `none` returns no values.

All losses raise a TypeError for arguments that are not tensors or have the wrong type (convert lists and numpy arrays
with `torch.as_tensor`), and a ValueError for different shapes, empty groups, invalid values, unknown options, and input
that a sorter rejects; the message names the argument. The result has the type of the scores, but at least float32.

`spearman`, `kendall`, `ndcg`, `average_precision`, `reciprocal_rank` and `expected_reciprocal_rank` approach 1 minus
the metric of the same name as the sorter approaches exact ranks, and so does `precision_at_k`, divided by the best
possible precision; `hit_rate` approaches 1 minus its mean over rows and columns. `listnet`, `list_mle`, `ranknet` and
`lambdarank` are likelihoods or compare pairs of scores, and need no sorter. With the default sorter, memory is linear
in the number of scores, and most losses take O(n log n) time. `ranknet`, `pairwise_logistic`, `lambdarank`,
`gaussian_mlr`, `softsort_cross_entropy` and `hinge_ap` compare all pairs in O(n^2). With more than half a million pairs
in one call, they have no second derivatives and do not run under `torch.func.vmap`.

`sodeep_mean_average_precision` (SoDeep, Eq. 7) and `sodeep_recall` (Eqs. 9-10) do not approach metrics: the first is a
mean rank, the second a margin between ranks.
"""

from functools import partial

from rankgrad import lookup
from rankgrad.losses._inputs import groups as groups  # for writing your own loss, with the next two: docs/own_code.md
from rankgrad.losses._inputs import reduced as reduced
from rankgrad.losses._inputs import soft_ranks as soft_ranks
from rankgrad.losses.asymmetric import asymmetric
from rankgrad.losses.average_precision import average_precision
from rankgrad.losses.expected_reciprocal_rank import expected_reciprocal_rank
from rankgrad.losses.focal import focal
from rankgrad.losses.gaussian_mlr import gaussian_mlr
from rankgrad.losses.generalized_cross_entropy import generalized_cross_entropy
from rankgrad.losses.hard_negative_triplet import hard_negative_triplet
from rankgrad.losses.hinge_ap import hinge_ap
from rankgrad.losses.hit_rate import hit_rate
from rankgrad.losses.info_nce import info_nce
from rankgrad.losses.kendall import kendall
from rankgrad.losses.l1 import l1
from rankgrad.losses.lambdarank import lambdarank
from rankgrad.losses.list_mle import list_mle
from rankgrad.losses.listnet import listnet
from rankgrad.losses.lsep import lsep
from rankgrad.losses.mean_log_rank import mean_log_rank
from rankgrad.losses.mse import mse
from rankgrad.losses.multilabel_cross_entropy import multilabel_cross_entropy
from rankgrad.losses.multilabel_soft_margin import multilabel_soft_margin
from rankgrad.losses.ndcg import ndcg
from rankgrad.losses.pairwise_logistic import pairwise_logistic
from rankgrad.losses.plackett_luce import plackett_luce
from rankgrad.losses.precision_at_k import precision_at_k
from rankgrad.losses.ranknet import ranknet
from rankgrad.losses.reciprocal_rank import reciprocal_rank
from rankgrad.losses.rlsep import rlsep
from rankgrad.losses.sodeep_mean_average_precision import sodeep_mean_average_precision
from rankgrad.losses.sodeep_recall import sodeep_recall
from rankgrad.losses.softsort_cross_entropy import softsort_cross_entropy
from rankgrad.losses.spearman import spearman
from rankgrad.losses.spearman_of_label_ranks import spearman_of_label_ranks

__all__ = [
    "asymmetric",
    "average_precision",
    "expected_reciprocal_rank",
    "focal",
    "gaussian_mlr",
    "generalized_cross_entropy",
    "hard_negative_triplet",
    "hinge_ap",
    "hit_rate",
    "info_nce",
    "kendall",
    "l1",
    "lambdarank",
    "list_mle",
    "listnet",
    "lsep",
    "mean_log_rank",
    "mse",
    "multilabel_cross_entropy",
    "multilabel_soft_margin",
    "ndcg",
    "pairwise_logistic",
    "plackett_luce",
    "precision_at_k",
    "ranknet",
    "reciprocal_rank",
    "rlsep",
    "sodeep_mean_average_precision",
    "sodeep_recall",
    "softsort_cross_entropy",
    "spearman",
    "spearman_of_label_ranks",
]

__getattr__ = partial(lookup.no_attribute, "losses")
