"""Input types, one per file: how to read a column, draw batches from it, and prepare the cells of a request."""

from rankgrad.inputs._base import Inputs, InputType, as_list, check_numbers, in_json, is_missing, one_of, type_of

__all__ = ["InputType", "Inputs", "as_list", "check_numbers", "in_json", "is_missing", "one_of", "type_of"]
