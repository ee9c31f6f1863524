"""Where a retraining works: a clone of the project's present commit, so that the project itself stays as it is."""

import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dvc.config import Config, merge
from dvc.config_schema import RelPath
from filelock import FileLock, Timeout
from ruamel.yaml import YAML, YAMLError

from pipelines.config.scales import round_trip
from pipelines.flows.branches import BRANCHES, TAKEN
from pipelines.flows.changes import put
from pipelines.ops.git import file_at, git
from pipelines.ops.messages import one_line
from rankgrad.datasets.tables.deliveries import folders_of

__all__ = ["commit", "fresh_checkout"]

FOLDER = Path(".retrain/checkout")
CHECKPOINTS = Path(".retrain/checkpoints")  # of all retrainings: the next one resumes what a killed one left


@contextmanager
def fresh_checkout(
    project: Path, *, advance: bool, changes: Sequence[str] = (), remote: str | None = None, registered: int = 0
) -> Generator[tuple[Path, int]]:
    """Clone the project's present commit, at the newest snapshot of the data that it or any retraining had.

    DVC's cache and settings, raw data and the checkpoints of retrainings are shared. The clone is removed in the end;
    if the retraining fails or is killed it stays until the next one.

    Args:
        project: the absolute path of a checkout.
        advance: take the snapshot after the newest, unless all data are tables for which no later delivery has come.
        changes: of the params, see `pipelines.flows.changes.put`.
        remote: a git remote whose branches `retrain/...` count too, and which will get the new one.
        registered: the newest snapshot of registered versions, which no branch here may have.

    Yields:
        the clone's folder, and the snapshot.

    Raises:
        ValueError: another retraining is at work, git refuses, or git or DVC have no such remote.
    """
    folder = project / FOLDER
    (project / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    try:
        # The system releases it when the process ends, however it does.
        with FileLock(project / ".retrain/lock", timeout=5):
            if remote is not None:
                _fetch(project, remote)
            if TAKEN in git(project, "for-each-ref", "--format=%(refname)", TAKEN).splitlines():
                # Git would refuse the new branch, hours from now.
                raise ValueError(f"{project}: the branch `retrain` leaves no room for `retrain/<time>`: rename it")
            shutil.rmtree(folder, ignore_errors=True)
            git(project, "clone", "--quiet", "--shared", str(project), str(folder))
            if not (folder / ".dvc").is_dir():
                raise ValueError(
                    f"{project}: its present commit has no .dvc, or there is no commit: `git add --all`, commit"
                )
            _share_dvc(project, folder)
            _link(project, folder)
            yaml = round_trip()
            params = yaml.load(folder / "params.yaml")
            snapshot = max(registered, _newest_snapshot(project))
            if advance and _brings_rows(params, folder, snapshot + 1):
                snapshot += 1
            params["data"]["snapshot"] = snapshot
            put(params, changes)
            yaml.dump(params, folder / "params.yaml")
            # First: runs in MLflow name a commit that has their params.
            commit(folder, f"Retrain: {', '.join([f'snapshot {snapshot}', *changes])}")
            yield folder, snapshot
            shutil.rmtree(folder)
    except Timeout as error:
        raise ValueError(f"{project}: another retraining is at work; wait for it or cancel it") from error


def _fetch(project: Path, remote: str) -> None:
    """Fetch the branches of other machines' retrainings; refuse remotes that cannot be pushed to in the end."""
    dvc = Config(str(project / ".dvc"))
    if (default := dvc.get("core", {}).get("remote")) not in (remotes := dvc.get("remote", {})):
        reason = f"DVC's default remote {default} is not among its remotes, {', '.join(remotes) or 'none'}"
        raise ValueError(
            f"{project}: {reason if default else 'DVC has no default remote'}, so nobody could get the data and models "
            "of what is pushed: `dvc remote add --default NAME ADDRESS`"
        )
    remote_names = git(project, "remote").splitlines()
    if remote not in remote_names:  # git would take an address, or an option that names a program
        raise ValueError(
            f"{project}: no git remote is called {remote!r}, there are: {', '.join(remote_names) or 'none'}; "
            "`git remote add NAME ADDRESS`"
        )
    git(project, "fetch", "--quiet", "--prune", "--", remote, f"+refs/heads/retrain/*:refs/remotes/{remote}/retrain/*")


def _share_dvc(project: Path, folder: Path) -> None:
    """Give the clone the project's DVC cache and settings, including local ones (credentials)."""
    settings, link = Config(str(project / ".dvc")), folder / ".dvc/cache"
    cache = Path(settings["cache"].get("dir") or project / ".dvc/cache")
    cache.mkdir(parents=True, exist_ok=True)
    link.symlink_to(cache)
    try:
        with Config(str(folder / ".dvc")).edit("local") as config:
            for level in ("repo", "local"):  # the former too: its relative addresses are the project's
                merge(config, settings.load_one(level))
            config["cache"]["dir"] = RelPath(link)  # relative: DVC writes only ASCII
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{project}: the way to one of DVC's remotes has the letter {error.object[error.start]!r}, and DVC writes "
            "only ASCII: give the remotes in .dvc/config and .dvc/config.local paths without it"
        ) from error


def _link(project: Path, folder: Path) -> None:
    """Link what git ignores: raw data, and the checkpoints."""
    ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "data/raw")
    for name in filter(None, git(project, *ignored).split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(project / name)
    (folder / ".checkpoints").symlink_to(project / CHECKPOINTS)


def _newest_snapshot(project: Path) -> int:
    revisions = git(project, "for-each-ref", "--format=%(refname)", *BRANCHES).split()
    return max(_snapshot(project, revision) for revision in ["HEAD", *revisions])


def _snapshot(project: Path, revision: str) -> int:
    try:
        params = YAML(typ="safe").load(file_at(project, revision, "params.yaml") or b"data: {snapshot: 0}")
        return int(params["data"]["snapshot"])
    except (YAMLError, TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{project}: params.yaml of {revision} names no data.snapshot ({one_line(error)}): mend it, or remove "
            "that branch"
        ) from error


def _brings_rows(params: Mapping[str, Any], folder: Path, snapshot: int) -> bool:
    """Return whether a snapshot may have rows that the one before lacks."""
    datasets = params.get("datasets", {}).values()
    for dataset in datasets:
        if dataset["name"] != "table" or "date" in dataset.get("args", {}):  # drawn, or known only when it is read
            return True
        if len(folders_of(folder / dataset["raw"], snapshot)) == snapshot:
            return True
    return not datasets


def commit(folder: Path, message: str) -> None:
    """Commit params and dvc.lock, if they changed."""
    git(folder, "add", *(name for name in ("params.yaml", "dvc.lock") if (folder / name).is_file()))
    if git(folder, "diff", "--cached", "--name-only"):
        author = ("-c", "user.name=rankgrad retrain", "-c", "user.email=retrain@localhost")
        # Nobody is there to unlock a person's key.
        git(folder, *author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", message)
