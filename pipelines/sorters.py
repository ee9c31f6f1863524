"""Sorters by the names that the params give them."""

from pathlib import Path

from torch import nn

from pipelines.settings import Settings
from rankops.checkpoints import build
from rankops.sorters import load_sorter

__all__ = ["sorter_of"]


def sorter_of(params: Settings, name: str) -> nn.Module:
    """A pretrained sorter (a block under `sorters`), or one that needs no training (under `benchmark_sorters`)."""
    untrained = params.benchmark_sorters.untrained
    if name in untrained:
        return build("sorters", untrained[name].name, untrained[name].args, seed=0)
    return load_sorter(Path("models/sorters") / name)
