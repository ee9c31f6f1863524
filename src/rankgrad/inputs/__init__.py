"""Kinds of input, one a file: how a column is read, drawn into batches, and prepared of a request."""

from rankgrad.inputs._base import Inputs, InputType, as_list, check_numbers, in_json, is_missing, one_of, type_of

__all__ = ["InputType", "Inputs", "as_list", "check_numbers", "in_json", "is_missing", "one_of", "type_of"]
