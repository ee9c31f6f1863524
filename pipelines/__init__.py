"""The production pipeline around `rankops`: DVC stages, validation, tracking and the command line."""
