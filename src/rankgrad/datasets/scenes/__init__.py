"""Shared code of datasets of scenes, which are drawn from handwritten digits."""
