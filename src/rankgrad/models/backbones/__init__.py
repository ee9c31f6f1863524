"""Backbones, one per file: map pictures, vectors, or text to feature maps or vectors."""
