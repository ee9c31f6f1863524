"""The branches `retrain/<time>`: what retrainings made, until somebody merges it or it is old."""

import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipelines.ops.git import file_at, git
from pipelines.tracking import registry
from pipelines.tracking.store import answering, connect

__all__ = ["BRANCHES", "COMMIT", "TAKEN", "commits_in_use", "is_new", "remove_old", "share"]

TAKEN = "refs/heads/retrain"  # a branch of this name leaves no room for ours
BRANCHES = ("refs/heads/retrain/*", "refs/remotes/*/retrain/*")
COMMIT = "mlflow.source.git.commit"  # MLflow's own tag


def is_new(project: Path, folder: Path) -> bool:
    """Whether the clone's commit differs from the project's and from earlier retrainings.

    The record of the code that ran is nothing new: each commit of code changes it.
    """
    earlier = git(project, "for-each-ref", "--format=%(objectname)", *BRANCHES).split()
    made = _made(folder, git(folder, "rev-parse", "HEAD"))
    return made not in [_made(project, commit) for commit in [git(project, "rev-parse", "HEAD"), *earlier]]


def _made(folder: Path, commit: str) -> tuple[str, dict[str, Any]]:
    """Return the contents of a commit: its files except the lock, and the lock's stages except `code`."""
    listed = git(folder, "ls-tree", "-r", commit).splitlines()
    files = "\n".join(line for line in listed if not line.endswith("\tdvc.lock"))
    lock = YAML(typ="safe").load(file_at(folder, commit, "dvc.lock") or b"{}") or {}
    return files, {stage: entry for stage, entry in (lock.get("stages") or {}).items() if stage != "code"}


def share(project: Path, folder: Path, *, remote: str | None = None) -> str:
    """Make the clone's commit a branch `retrain/<time>` of the project, of a git remote too, and return its name.

    Raises:
        ValueError: git refuses.
    """
    head = git(folder, "rev-parse", "HEAD")
    # In UTC, whose names are in order where clocks differ; with the commit, as two machines may end in one second.
    branch = f"retrain/{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{head[:7]}"
    git(project, "fetch", "--quiet", "--no-write-fetch-head", str(folder), head)
    if remote is not None:  # before there is a branch here: without one the next retraining tries again
        git(project, "push", "--quiet", "--", remote, f"{head}:refs/heads/{branch}")
    git(project, "branch", branch, head)
    return branch


def remove_old(project: Path, days: int, in_use: Collection[str], *, remote: str | None = None) -> list[str]:
    """Delete the branches of retrainings that are older than so many days, of a git remote too; return their names.

    The newest stays, as it says which snapshot comes next. So does one that somebody has checked out, and the only one
    that has a commit in use.

    Raises:
        ValueError: git refuses.
    """
    oldest, removed = time.time() - days * 86400, []
    form = "--format=%(refname) %(committerdate:unix) %(objectname) %(worktreepath)"
    branches = [line.split(" ", 3) for line in git(project, "for-each-ref", form, *BRANCHES).splitlines()]
    names = ours = {name for name, *_ in branches}
    _, newest = max(((int(date), commit) for _, date, commit, *_ in branches), default=(0, ""))
    for revision in in_use:
        holders = {*git(project, "for-each-ref", "--format=%(refname)", "--contains", revision, fails=True).split()}
        ours = ours - holders if holders <= names else ours  # else it is at home in main, say
    for name, date, commit, *worktrees in branches:
        _, kind, owner, branch = name.split("/", 3)
        if name not in ours or int(date) > oldest or commit == newest or any(worktrees):
            continue
        if kind == "heads":
            git(project, "branch", "--quiet", "-D", f"{owner}/{branch}")
        elif owner == remote:
            git(project, "push", "--quiet", "--", remote, f":refs/heads/{branch}")
        else:
            continue
        removed.append(f"{owner}/{branch}")
    return removed


def commits_in_use() -> list[str]:
    """Return the commits that made the champions of all registered models, present and past, and what has an alias.

    Raises:
        ServerUnreachable: MLflow's store failed.
        CredentialsRefused: it refuses the credentials.
    """
    client, commits = connect(), []
    with answering():
        for model in client.search_registered_models(max_results=1000):
            numbers = registry.versions(client, model.name)
            for number in {*registry.champions(client, model), *map(str, model.aliases.values())} & {*numbers}:
                if run := client.get_model_version(model.name, number).run_id:  # a stranger's may have none
                    commits.append(client.get_run(run).data.tags.get(COMMIT))
    return sorted({*filter(None, commits)})
