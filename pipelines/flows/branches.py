"""The branches `retrain/<time>` with the results of retrainings, which are deleted after some time."""

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

TAKEN = "refs/heads/retrain"  # git does not allow our branches next to a branch with this name
BRANCHES = ("refs/heads/retrain/*", "refs/remotes/*/retrain/*")
COMMIT = "mlflow.source.git.commit"  # MLflow's own tag


def is_new(project: Path, folder: Path) -> bool:
    """Return whether the clone's commit differs from the project's and from earlier retrainings.

    The record of the code that ran does not count, because every commit of code changes it.
    """
    earlier = git(project, "for-each-ref", "--format=%(objectname)", *BRANCHES).split()
    made = _made(folder, git(folder, "rev-parse", "HEAD"))
    return made not in [_made(project, commit) for commit in [git(project, "rev-parse", "HEAD"), *earlier]]


def _made(folder: Path, commit: str) -> tuple[str, dict[str, Any]]:
    """Return the contents of a commit: its files except dvc.lock, and the stages in dvc.lock except `code`."""
    listed = git(folder, "ls-tree", "-r", commit).splitlines()
    files = "\n".join(line for line in listed if not line.endswith("\tdvc.lock"))
    lock = YAML(typ="safe").load(file_at(folder, commit, "dvc.lock") or b"{}") or {}
    return files, {stage: entry for stage, entry in (lock.get("stages") or {}).items() if stage != "code"}


def share(project: Path, folder: Path, *, remote: str | None = None) -> str:
    """Save the clone's commit as a branch `retrain/<time>` of the project and of a git remote, and return its name.

    Raises:
        ValueError: git failed.
    """
    head = git(folder, "rev-parse", "HEAD")
    # In UTC, so that names from different time zones sort correctly; with the commit, because two machines may finish
    # in the same second.
    branch = f"retrain/{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{head[:7]}"
    git(project, "fetch", "--quiet", "--no-write-fetch-head", str(folder), head)
    if remote is not None:  # before creating the local branch: without it, the next retraining tries again
        git(project, "push", "--quiet", "--", remote, f"{head}:refs/heads/{branch}")
    git(project, "branch", branch, head)
    return branch


def remove_old(project: Path, days: int, in_use: Collection[str], *, remote: str | None = None) -> list[str]:
    """Delete branches of retrainings older than the given number of days, also on a git remote; return their names.

    Keep the newest branch, because it determines the next snapshot, branches that are checked out, and branches that
    are the only ones with a commit in use.

    Raises:
        ValueError: git failed.
    """
    oldest, removed = time.time() - days * 86400, []
    form = "--format=%(refname) %(committerdate:unix) %(objectname) %(worktreepath)"
    branches = [line.split(" ", 3) for line in git(project, "for-each-ref", form, *BRANCHES).splitlines()]
    names = ours = {name for name, *_ in branches}
    _, newest = max(((int(date), commit) for _, date, commit, *_ in branches), default=(0, ""))
    for revision in in_use:
        holders = {*git(project, "for-each-ref", "--format=%(refname)", "--contains", revision, fails=True).split()}
        ours = ours - holders if holders <= names else ours  # otherwise another branch, such as main, has it
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
    """Return the commits of all current and past champions, and of all versions with an alias.

    Raises:
        ServerUnreachable: MLflow's store failed.
        CredentialsRefused: MLflow's store rejected the credentials.
    """
    client, commits = connect(), []
    with answering():
        for model in client.search_registered_models(max_results=1000):
            numbers = registry.versions(client, model.name)
            for number in {*registry.champions(client, model), *map(str, model.aliases.values())} & {*numbers}:
                if run := client.get_model_version(
                    model.name, number
                ).run_id:  # versions from other programs may have none
                    commits.append(client.get_run(run).data.tags.get(COMMIT))
    return sorted({*filter(None, commits)})
