"""Datasets of vectors."""
