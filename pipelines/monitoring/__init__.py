"""Drift of what comes in."""
