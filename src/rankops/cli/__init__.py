"""The command `rankops`, and those of its commands that need no checkout: `predict` and `demo`."""
