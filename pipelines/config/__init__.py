"""Read and check params.yaml: types (`schema`), runs with all their values (`plan`), and what must agree (`rules`)."""

from pipelines.config.errors import ParamsError, Problem
from pipelines.config.plan import RunPlan, resolve
from pipelines.config.schema import JUDGED, MONITORED, Run, Settings, check_shapes, load, prefixed

__all__ = [
    "JUDGED", "MONITORED", "ParamsError", "Problem", "Run", "RunPlan", "Settings", "check_shapes", "load", "prefixed",
    "resolve",
]  # fmt: skip
