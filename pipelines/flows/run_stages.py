"""DVC stages as tasks: each starts as soon as its dependencies are done and a slot is free."""

import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from prefect.artifacts import create_table_artifact
from prefect.futures import PrefectFuture, as_completed

from pipelines.config import Settings
from pipelines.flows.tasks import retried
from pipelines.ops.graph import stages
from pipelines.ops.processes import CACHED, RAN, REPRO, CommandFailed, Commands, Done, command_of
from pipelines.ops.side_by_side import GPU, Plan, Slot, slots_of
from pipelines.tracking.live import watch

__all__ = ["run_stages"]

HOW = {RAN: "ran", CACHED: "cached"}


@dataclass(frozen=True)
class Took:
    """The cost of a stage: the columns of the table on the run's page."""

    stage: str
    how: str  # ran, cached, unchanged or failed
    seconds: float
    cpu_seconds: float
    gpu: str


@retried(task_run_name="{stage}")
def run_stage(stage: str, folder: Path, commands: Commands, slot: Slot) -> Done:
    """Let DVC run a stage on a slot if anything changed; always run `publish`."""
    return commands.run_stage(*command_of(stage), stage=stage, folder=folder, **slot)


@contextmanager
def _watched(params: Settings, folder: Path):
    """Show epochs in MLflow."""
    ended = threading.Event()
    watching = threading.Thread(target=watch, args=(params, folder / ".checkpoints", ended), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join(timeout=60)


def run_stages(folder: Path, params: Settings, commands: Commands, targets: Collection[str]) -> None:
    """Run the targets and their dependencies, or all stages, and show the cost of each on the run's page.

    Raises:
        CommandFailed: some stages failed; stages that do not depend on them were run.
    """
    graph = stages(folder, targets)
    plan, began = Plan(graph, slots_of(params)), time.monotonic()
    futures: dict[str, PrefectFuture] = {}
    at_work: dict[PrefectFuture, tuple[str, Slot, float]] = {}
    took: list[Took] = []
    with _watched(params, folder):
        while True:
            # A stage that waits for a slot is not a task yet, so that the page shows only running time.
            for name, stage, slot in plan.begin():
                needs = [futures[need] for need in stage.needs]
                futures[name] = run_stage.submit(name, folder, commands, slot, wait_for=needs)
                at_work[futures[name]] = name, slot, time.monotonic()
            if not at_work:
                break
            future = next(as_completed([*at_work]))
            future.wait()  # its state may be outdated until then
            name, slot, since = at_work.pop(future)
            plan.end(name, done=future.state.is_completed())
            took.append(_took(name, future, slot, time.monotonic() - since))
    _show(took, time.monotonic() - began)
    states = {name: future.state for name, future in futures.items()}
    failed = [f"{name}: {state.message}" for name, state in states.items() if state.is_failed() or state.is_crashed()]
    if failed:
        raise CommandFailed("stages failed; the next retraining reuses finished stages:\n" + "\n".join(failed))
    commands.run(*REPRO, *targets, folder=folder)  # a no-op, unless a task missed something


def _took(name: str, future: PrefectFuture, slot: Slot, seconds: float) -> Took:
    how, cost = "failed", 0.0
    if future.state.is_completed():
        done = future.result()
        cost, how = done.cpu_seconds, next((how for phrase, how in HOW.items() if phrase in done.output), "unchanged")
    return Took(name, how, round(seconds, 1), round(cost, 1), slot.get(GPU, ""))


def _show(took: list[Took], clock: float) -> None:
    """Show the cost of each stage, the longest first, and the total above the table."""
    rows = sorted(took, key=lambda stage: -stage.seconds)
    on_gpus = sum(stage.seconds for stage in rows if stage.gpu)
    counted = Counter(stage.how for stage in rows)
    counts = ", ".join(f"{how} {count}" for how, count in counted.items())
    cost = sum(stage.cpu_seconds for stage in rows)
    create_table_artifact(
        key="stages",
        table=[asdict(stage) for stage in rows],
        description=f"Time per stage, including process startup ({counts}): {clock:.0f} seconds of wall-clock time, "
        f"{cost:.0f} CPU seconds, {on_gpus:.0f} GPU seconds. The gate runs after these stages.",
    )
