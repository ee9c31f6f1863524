"""The files of a dataset: its splits and folds, and what is expected of them."""
