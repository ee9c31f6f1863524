"""A retraining: train in a clone, let the gate judge, and keep params and dvc.lock as a branch.

`rankgrad retrain` runs it in a terminal, without a server; the flow `retrain` runs it with one Prefect task per stage.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from pipelines.config import Settings, load
from pipelines.flows.branches import commits_in_use, is_new, remove_old, share
from pipelines.flows.changes import planned
from pipelines.flows.checkout import commit, fresh_checkout
from pipelines.ops.git import file_at, git
from pipelines.ops.processes import CommandFailed, Commands
from pipelines.tracking.gate import Decision, decide_all, models_of
from pipelines.tracking.registry import newest_snapshot
from pipelines.tracking.store import address_of_store

__all__ = ["Request", "Train", "publish", "retrain_here", "retrain_in_clone"]

KEPT_DAYS = 30  # days to keep branches `retrain/<time>`; those of champions are kept longer
IN_IMAGE = "RANKGRAD_IN_IMAGE"  # set by the Dockerfile: the checkout is lost with its container


@dataclass(frozen=True)
class Request:
    """What to retrain; see the parameters of the flow `retrain`."""

    reason: str = "by hand"
    advance: bool = True
    only: Sequence[str] = ()
    changes: Sequence[str] = ()
    push: str | None = None

    @property
    def targets(self) -> list[str]:
        """The stages to run; empty for all."""
        return [f"evaluate@{name}" for name in self.only]


Train = Callable[[Path, Settings], None]  # runs the stages in the clone and publishes
Judge = Callable[..., list[Decision]]  # takes what `decide_all` takes


def retrain_in_clone(
    project: Path, request: Request, commands: Commands, *, train: Train, judge: Judge
) -> tuple[list[Decision], str]:
    """Retrain what changed in the data, the params, or the code of a project's current commit.

    Args:
        project: the absolute path of a checkout, which does not change.
        request: what to retrain.
        commands: runs the processes; stopped at the end, also after an error.
        train: called with the clone and its params.
        judge: called afterwards, with the trained models.

    Returns:
        The gate's decisions, and the branch, or `nothing new`.

    Raises:
        ParamsError: a change or a run does not exist.
        ValueError: see `fresh_checkout`; or the result would be lost with a container.
        CommandFailed: a command failed.
    """
    committed = YAML(typ="safe").load(file_at(project, "HEAD", "params.yaml") or b"{}")
    params = planned(committed, request.only, request.changes)  # before anything runs
    if request.advance and request.push is None and os.environ.get(IN_IMAGE):
        raise ValueError(
            "advance: this checkout is part of an image, so the branch with the new params and dvc.lock would be lost "
            "with the container: name a git remote (`push`, `--push origin`, or `make deploy PUSH=origin`), or set "
            f"`advance` to false (`--no-advance`); if the checkout is on a volume, set {IN_IMAGE} to an empty value"
        )
    # All commands use the code of their folder, and the project's store, because the clone will be removed.
    os.environ |= {"PYTHONPATH": "src", "MLFLOW_TRACKING_URI": address_of_store()}
    if changed := git(project, "status", "--porcelain", "--untracked-files=no"):
        commands.log(f"uncommitted changes, which this retraining ignores:\n{changed}")
    try:
        commands.run("rankgrad", "fetch", folder=project)
        registered = newest_snapshot(models_of(params))
        with fresh_checkout(
            project, advance=request.advance, changes=request.changes, remote=request.push, registered=registered
        ) as (folder, snapshot):
            params = load(folder / "params.yaml")
            if request.push is not None:
                with suppress(CommandFailed):  # stages missing from DVC's remote are run again
                    commands.run("dvc", "fetch", "--run-cache", folder=folder)
            train(folder, params)
            models = dict.fromkeys(params.model_of(params.runs[name]) for name in request.only)
            decisions = judge([*models] or None, params, folder=folder)
            commit(folder, f"Retrain: snapshot {snapshot} ({request.reason})")
            return decisions, _kept(project, folder, commands, request.push)
    finally:  # also if the retraining was canceled: no process may outlive it
        commands.stop()


def _kept(project: Path, folder: Path, commands: Commands, push: str | None) -> str:
    """Create a branch if anything changed, return its name, and delete old branches."""
    branch = "nothing new"
    if is_new(project, folder):
        if push is not None:  # first, because a branch is useless without its data
            commands.run("dvc", "push", "--run-cache", folder=folder)
        branch = share(project, folder, remote=push)
    if removed := remove_old(project, KEPT_DAYS, commits_in_use(), remote=push):
        commands.log(f"deleted branches older than {KEPT_DAYS} days: {', '.join(removed)}")
    return branch


def publish(folder: Path, commands: Commands, only: Sequence[str]) -> None:
    """Publish only the trained runs, because the stage `publish` needs all runs."""
    command = (sys.executable, "-m", "pipelines.stages", "publish", *only)
    commands.run_stage(*command, stage="@".join(["publish", *only]), folder=folder)


def retrain_here(project: Path, request: Request) -> tuple[list[Decision], str]:
    """Retrain without a server, with `make repro`; see `retrain_in_clone`."""
    commands = Commands()

    def train(folder: Path, params: Settings) -> None:
        commands.run(sys.executable, "-m", "pipelines.ops.repro", *request.targets, folder=folder)
        if request.only:
            publish(folder, commands, request.only)

    return retrain_in_clone(project, request, commands, train=train, judge=decide_all)
