"""Heads, one per file: map feature maps or vectors to scores."""
