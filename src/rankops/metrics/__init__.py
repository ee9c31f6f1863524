"""Exact metrics, without gradient: one value an example, so that the caller can average and bootstrap them."""
