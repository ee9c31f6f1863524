"""Heads, one a file: feature maps or vectors to scores."""
