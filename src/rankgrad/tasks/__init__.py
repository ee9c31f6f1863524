"""Tasks, one a file: what is predicted, trained, selected and scored."""

from rankgrad.tasks._base import Metric, Task

__all__ = ["Metric", "Task"]
