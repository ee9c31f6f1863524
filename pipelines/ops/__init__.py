"""Processes, git, and DVC's own files."""
