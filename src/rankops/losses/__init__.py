"""Ranking losses, one function a file: `name(scores, target, *, options)` returns a scalar to minimize."""
