"""Sorters, one class a file: differentiable ranks. `rankops.sorters.base.Sorter` is what they have in common."""

from rankops.sorters.load import load_sorter

__all__ = ["load_sorter"]
