"""DVC stages as tasks: each starts as soon as its dependencies are done and a slot is free."""

import os
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from prefect.artifacts import create_table_artifact
from prefect.futures import PrefectFuture, as_completed

from pipelines.config import Settings
from pipelines.flows.graph import Stage, stages
from pipelines.flows.processes import CommandFailed, Commands, Done
from pipelines.flows.tasks import retried
from pipelines.ops.repro import CACHED, RAN, REPRO, command_of
from pipelines.tracking.live import watch

__all__ = ["Plan", "run_stages", "slots_of"]

HOW = {RAN: "ran", CACHED: "cached"}
GPU = "CUDA_VISIBLE_DEVICES"
Slot = dict[str, str]  # variables of a stage's environment


@dataclass(frozen=True)
class Took:
    """The cost of a stage: the columns of the table on the run's page."""

    stage: str
    how: str  # ran, cached, unchanged or failed
    seconds: float
    cpu_seconds: float
    gpu: str


def slots_of(params: Settings) -> dict[str, list[Slot]]:
    """Return the slots: one per GPU, and one per group of cores."""
    names = os.environ.get(GPU, ",".join(map(str, range(torch.cuda.device_count()))))
    gpus = [name for name in names.split(",") if name] if params.compute.device != "cpu" else []
    count = max(1, (os.cpu_count() or 1) // params.compute.threads)
    return {"gpu": [{GPU: gpu} for gpu in gpus], "cpu": [{GPU: ""} if gpus else {} for _ in range(count)]}


class Plan:
    """Schedule stages. Stages that compute use a GPU, if there is one; others run at the same time."""

    def __init__(self, graph: dict[str, Stage], slots: dict[str, list[Slot]]):
        self.waiting, self.free = dict(graph), {kind: list(of_kind) for kind, of_kind in slots.items()}
        self._on_gpus, self._done = bool(slots["gpu"]), set[str]()
        self._held: dict[str, tuple[str, Slot]] = {}

    def begin(self) -> list[tuple[str, Stage, Slot]]:
        """Return the stages to start now, each with its slot."""
        begun = []
        for name, stage in [*self.waiting.items()]:
            kind = "gpu" if stage.computes and self._on_gpus else "cpu"
            if self.free[kind] and self._done.issuperset(stage.needs):
                self._held[name] = kind, self.free[kind].pop()
                begun.append((name, self.waiting.pop(name), self._held[name][1]))
        return begun

    def end(self, name: str, *, done: bool) -> None:
        """Release the slot of a stage; if the stage succeeded, its dependents may start."""
        kind, slot = self._held.pop(name)
        self.free[kind].append(slot)
        self._done |= {name} if done else set()


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
    yield
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
