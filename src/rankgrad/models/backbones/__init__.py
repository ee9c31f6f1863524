"""Backbones, one a file: pictures, vectors or text to feature maps or vectors."""
