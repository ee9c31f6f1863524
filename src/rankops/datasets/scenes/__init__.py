"""Datasets that are drawn of digits."""
