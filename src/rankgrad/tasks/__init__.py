"""Tasks, one per file: what a network predicts, and how it is trained, validated, and scored."""

from rankgrad.tasks._base import Metric, Task
from rankgrad.tasks._own import Lists, judging, of_lists, takes
from rankgrad.tasks._predict import check_answer, of_row

__all__ = ["Lists", "Metric", "Task", "check_answer", "judging", "of_lists", "of_row", "takes"]
