"""The production pipeline around `rankgrad`: DVC stages, validation, tracking and the command line."""
