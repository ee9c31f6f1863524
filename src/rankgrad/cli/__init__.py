"""The command `rankgrad`, and those of its commands that need no checkout: `predict` and `demo`."""
