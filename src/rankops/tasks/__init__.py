"""Tasks, one a file: what is predicted, trained, selected and scored."""

from rankops.tasks._base import Metric, Task

__all__ = ["Metric", "Task"]
