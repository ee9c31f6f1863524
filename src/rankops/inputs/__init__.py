"""Kinds of input, one a file: how a column is read, drawn into batches, and prepared of a request."""

from rankops.inputs._base import Inputs, Kind, one_of

__all__ = ["Inputs", "Kind", "one_of"]
