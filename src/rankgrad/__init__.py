"""Train on ranking metrics: differentiable sorters, ranking losses, exact metrics.

    from rankgrad.losses import spearman              # a loss to minimize: spearman(scores, target)
    from rankgrad.metrics import ndcg                 # an exact metric, one value per group: ndcg(scores, target)
    from rankgrad.sorters import Laplace, load_sorter # soft ranks with a gradient: Laplace()(scores)
    from rankgrad.ranks import exact_ranks            # exact ranks without one: exact_ranks(scores)
    from rankgrad.ragged import pad_groups            # lists of different lengths: pad_groups(values, sizes=...)

`rankgrad.losses`, `rankgrad.metrics`, `rankgrad.sorters`, `rankgrad.ranks`, `rankgrad.ragged` and
`rankgrad.io.checkpoints` need only torch and safetensors (which uses numpy to write). Datasets, models, tasks, and the
training loop need the extra `tasks`: in a clone, `pip install '.[tasks]'`. Subpackages are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankgrad import datasets, io, losses, metrics, models, ragged, ranks, sorters, tasks, training

__version__ = "0.4.0"
__all__ = [
    "__version__",
    "datasets",
    "io",
    "losses",
    "metrics",
    "models",
    "ragged",
    "ranks",
    "sorters",
    "tasks",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"rankgrad.{name}")
    raise AttributeError(f"module 'rankgrad' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
