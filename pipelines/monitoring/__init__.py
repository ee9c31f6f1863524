"""Detect drift in incoming data."""
