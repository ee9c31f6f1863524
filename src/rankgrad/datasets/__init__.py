"""Datasets, one a file: how it is made or read, its splits, and what must hold for it as plain data."""
