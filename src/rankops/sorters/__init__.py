"""Sorters, one class a file: differentiable ranks. `Sorter` is what they have in common.

from rankops.sorters import Laplace, load_sorter
ranks = Laplace(softness=0.2)(scores)            # no training, any length
sorter = load_sorter("comparator")               # trained, its weights come with the package
"""

from rankops.lookup import flatten

flatten(__name__)
