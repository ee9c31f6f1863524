"""Run stages side by side: each starts as soon as its dependencies are done and a slot is free."""

import os
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from pipelines.config import Settings
from pipelines.ops.graph import Stage, stale
from pipelines.ops.processes import Commands, TransientFailure, command_of

__all__ = ["GPU", "Plan", "Slot", "run_stale", "slots_of"]

GPU = "CUDA_VISIBLE_DEVICES"
CORES = "LOKY_MAX_CPU_COUNT"  # by which joblib limits the parallel trainings of a stage
Slot = dict[str, str]  # variables of a stage's environment


def slots_of(params: Settings) -> dict[str, list[Slot]]:
    """Return the slots: one per GPU, and one per group of cores."""
    gpus = []
    if params.compute.device != "cpu":
        import torch

        names = os.environ.get(GPU, ",".join(map(str, range(torch.cuda.device_count()))))
        gpus = [name for name in names.split(",") if name]
    cores = os.cpu_count() or 1
    count = max(1, cores // params.compute.threads)
    of_slot = cores // max(1, min(count, len(params.runs)))  # a single run trains its seeds on all cores
    on_cores = {GPU: ""} if gpus else {CORES: str(max(1, of_slot))}
    return {"gpu": [{GPU: gpu} for gpu in gpus], "cpu": [on_cores for _ in range(count)]}


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


def run_stale(folder: Path, slots: dict[str, list[Slot]], commands: Commands, *, targets: Collection[str] = ()) -> None:
    """Run the stages that changed, and those that depend on them, except `publish`; with targets, only what they need.

    A stage that DVC could not lock is left to the next `dvc repro`, and so are those that depend on it.

    Raises:
        CommandFailed: a stage failed. Stages that were running then have ended, and no other one was started.
    """
    commands.run_stage(*command_of("code"), stage="code", folder=folder)  # it tells what else changed
    plan, running = Plan(stale(folder, targets), slots), dict[Future, str]()
    failure: BaseException | None = None
    with ThreadPoolExecutor(sum(map(len, slots.values()))) as threads, ExitStack() as ending:
        ending.callback(commands.stop)  # if this process is interrupted: they do not hear the terminal
        while True:
            begun = [] if failure is not None else plan.begin()
            for name, _, slot in begun:
                command = command_of(name)
                running[threads.submit(commands.run_stage, *command, stage=name, folder=folder, **slot)] = name
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                plan.end(running.pop(future), done=error is None)
                if error is not None and not isinstance(error, TransientFailure):
                    failure = error
    if failure is not None:
        raise failure
