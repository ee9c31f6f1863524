"""Sorters by the names that the params give them."""

from pathlib import Path
from typing import Any

from torch import nn

from pipelines.config.schema import Settings
from rankops.io.checkpoints import build
from rankops.sorters import load_sorter

__all__ = ["sorter_of"]


def sorter_of(params: Settings, name: str, changes: dict[str, Any] | None = None) -> nn.Module:
    """A pretrained sorter (a block under `sorters`), or one that needs no training (under `benchmark_sorters`).

    Args:
        params: all of them.
        name: of its block.
        changes: other values for some of its options, if it needs no training.

    Raises:
        ValueError: `changes` of a pretrained sorter.
    """
    untrained = params.benchmark_sorters.untrained
    if name in untrained:
        return build("sorters", untrained[name].name, untrained[name].args | (changes or {}), seed=0)
    if changes:
        raise ValueError(f"sorter {name} is pretrained: its options are those of sorters.{name}, not {changes}")
    return load_sorter(Path("models/sorters") / name)
