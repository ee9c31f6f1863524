"""The command `rankgrad`, and its command `predict`, which also works without a checkout."""
