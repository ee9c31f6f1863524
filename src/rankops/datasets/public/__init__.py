"""Datasets that are read from disk in their public layout."""
