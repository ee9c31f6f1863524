"""Kinds of input, one a file: how a column is read, drawn into batches, and prepared of a request."""
