"""Sorters compute differentiable ranks. Each is a class in its own file.

    from rankgrad.sorters import Laplace, load_sorter, soft_rank
    ranks = soft_rank(scores, softness=0.2)          # no training, any length
    sorter = Laplace(softness=0.2)                   # the same as a sorter for losses, with more options
    sorter = load_sorter("comparator")               # trained; its weights are part of the package

`Sorter` is their base class. The functions `soft_rank`, `soft_sort`, `soft_topk_mask`, `soft_quantile`, `soft_median`
and `soft_permutation` are differentiable operators.
"""

from functools import partial

from rankgrad import lookup
from rankgrad.sorters._base import Sorter
from rankgrad.sorters._load import load_sorter
from rankgrad.sorters._operators import (
    permutation_of_ranks,
    soft_median,
    soft_permutation,
    soft_quantile,
    soft_rank,
    soft_sort,
    soft_topk_mask,
)
from rankgrad.sorters.cnn import CNN
from rankgrad.sorters.comparator import Comparator
from rankgrad.sorters.handcrafted import Handcrafted
from rankgrad.sorters.laplace import Laplace
from rankgrad.sorters.logistic import Logistic
from rankgrad.sorters.lstm import LSTM
from rankgrad.sorters.straight_through import StraightThrough

__all__ = [
    "CNN",
    "LSTM",
    "Comparator",
    "Handcrafted",
    "Laplace",
    "Logistic",
    "Sorter",
    "StraightThrough",
    "load_sorter",
    "permutation_of_ranks",
    "soft_median",
    "soft_permutation",
    "soft_quantile",
    "soft_rank",
    "soft_sort",
    "soft_topk_mask",
]

__getattr__ = partial(lookup.no_attribute, "sorters")
