"""The folder of a retraining: a clone of the project's current commit, so that the project itself does not change."""

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
CHECKPOINTS = Path(".retrain/checkpoints")  # shared by all retrainings, so that the next one can resume a killed one


@contextmanager
def fresh_checkout(
    project: Path, *, advance: bool, changes: Sequence[str] = (), remote: str | None = None, registered: int = 0
) -> Generator[tuple[Path, int]]:
    """Clone the project's current commit, at the newest snapshot of the data that it or any retraining used.

    The clone shares DVC's cache and settings, raw data, and the checkpoints of retrainings. It is removed at the end;
    if the retraining fails or is killed, it stays until the next one.

    Args:
        project: the absolute path of a checkout.
        advance: use the next snapshot, unless all datasets are tables without a later delivery.
        changes: changes to the params, see `pipelines.flows.changes.put`.
        remote: a git remote whose branches `retrain/...` also count, and which gets the new branch.
        registered: the newest snapshot of registered versions, which may not have a branch here.

    Yields:
        the clone's folder, and the snapshot.

    Raises:
        ValueError: another retraining is running, git failed, or git or DVC have no such remote.
    """
    folder = project / FOLDER
    (project / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    try:
        # The system releases it when the process ends for any reason.
        with FileLock(project / ".retrain/lock", timeout=5):
            if remote is not None:
                _fetch(project, remote)
            if TAKEN in git(project, "for-each-ref", "--format=%(refname)", TAKEN).splitlines():
                # Git would reject the new branch, hours from now.
                raise ValueError(f"{project}: the branch `retrain` conflicts with `retrain/<time>`: rename it")
            shutil.rmtree(folder, ignore_errors=True)
            git(project, "clone", "--quiet", "--shared", str(project), str(folder))
            if not (folder / ".dvc").is_dir():
                raise ValueError(f"{project}: has no commit with the folder .dvc: run `git add --all`, then commit")
            _share_dvc(project, folder)
            _link(project, folder)
            yaml = round_trip()
            params = yaml.load(folder / "params.yaml")
            snapshot = max(registered, _newest_snapshot(project))
            if advance and _brings_rows(params, folder, snapshot + 1):
                snapshot += 1
            params["data"]["snapshot"] = snapshot
            put(params, changes)
            _copy_predictions(project, folder, params)
            yaml.dump(params, folder / "params.yaml")
            # Commit first, so that runs in MLflow name a commit with their params.
            commit(folder, f"Retrain: {', '.join([f'snapshot {snapshot}', *changes])}")
            yield folder, snapshot
            shutil.rmtree(folder)
    except Timeout as error:
        raise ValueError(f"{project}: another retraining is running; wait for it or cancel it") from error


def _fetch(project: Path, remote: str) -> None:
    """Fetch the branches of other machines' retrainings; raise if a remote could not be pushed to later."""
    dvc = Config(str(project / ".dvc"))
    if (default := dvc.get("core", {}).get("remote")) not in (remotes := dvc.get("remote", {})):
        reason = f"DVC's default remote {default} is not among its remotes, {', '.join(remotes) or 'none'}"
        raise ValueError(
            f"{project}: {reason if default else 'DVC has no default remote'}, so nobody could get the data and models "
            "of what is pushed: `dvc remote add --default NAME ADDRESS`"
        )
    remote_names = git(project, "remote").splitlines()
    if remote not in remote_names:  # git would accept a URL, or an option that runs a program
        raise ValueError(
            f"{project}: no git remote {remote!r}, expected one of: {', '.join(remote_names) or 'none is defined'}; to "
            "add it, run `git remote add NAME ADDRESS`"
        )
    git(project, "fetch", "--quiet", "--prune", "--", remote, f"+refs/heads/retrain/*:refs/remotes/{remote}/retrain/*")


def _share_dvc(project: Path, folder: Path) -> None:
    """Set the clone's DVC cache and settings to the project's, including local settings (credentials)."""
    settings, link = Config(str(project / ".dvc")), folder / ".dvc/cache"
    cache = Path(settings["cache"].get("dir") or project / ".dvc/cache")
    cache.mkdir(parents=True, exist_ok=True)
    link.symlink_to(cache)
    try:
        with Config(str(folder / ".dvc")).edit("local") as config:
            for level in ("repo", "local"):  # also the first, because its relative paths refer to the project
                merge(config, settings.load_one(level))
            config["cache"]["dir"] = RelPath(link)  # relative: DVC writes only ASCII
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{project}: the path of a DVC remote contains {error.object[error.start]!r}, but DVC writes only ASCII: "
            "use paths without it in .dvc/config and .dvc/config.local"
        ) from error


def _link(project: Path, folder: Path) -> None:
    """Link folders that git ignores: raw data, and the checkpoints."""
    ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "data/raw")
    for name in filter(None, git(project, *ignored).split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(project / name)
    (folder / ".checkpoints").symlink_to(project / CHECKPOINTS)


def _copy_predictions(project: Path, folder: Path, params: Mapping[str, Any]) -> None:
    """Copy the predictions of rivals by other programs, which stay valid because later deliveries change no test row.

    Raises:
        ValueError: there are folds, so that later deliveries also change the rows to predict.
    """
    for key, comparison in (params.get("comparisons") or {}).items():
        dataset = params["datasets"][params["runs"][comparison["baseline"]]["dataset"]]
        ours = {*params["runs"], *params.get("rivals", ())}
        for name in [rival for rival in comparison.get("rivals", ()) if rival not in ours]:
            if dataset.get("folds"):
                raise ValueError(
                    f"comparisons.{key}.rivals: {name} is of another program, and with folds its predictions do not "
                    "fit later rows: remove it from the comparison and commit params.yaml, then retrain"
                )
            path = Path("predictions", f"{name}.parquet")
            if (project / path).is_file():
                (folder / path).parent.mkdir(exist_ok=True)
                shutil.copyfile(project / path, folder / path)


def _newest_snapshot(project: Path) -> int:
    revisions = git(project, "for-each-ref", "--format=%(refname)", *BRANCHES).split()
    return max(_snapshot(project, revision) for revision in ["HEAD", *revisions])


def _snapshot(project: Path, revision: str) -> int:
    try:
        params = YAML(typ="safe").load(file_at(project, revision, "params.yaml") or b"data: {snapshot: 0}")
        return int(params["data"]["snapshot"])
    except (YAMLError, TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{project}: params.yaml of {revision} has no data.snapshot ({one_line(error)}): fix it, or delete that "
            "branch"
        ) from error


def _brings_rows(params: Mapping[str, Any], folder: Path, snapshot: int) -> bool:
    """Return whether a snapshot may have rows that the previous one lacks."""
    datasets = params.get("datasets", {}).values()
    for dataset in datasets:
        if dataset["name"] != "table" or "date" in dataset.get(
            "args", {}
        ):  # generated data, or dates that are unknown until the file is read
            return True
        if len(folders_of(folder / dataset["raw"], snapshot)) == snapshot:
            return True
    return not datasets


def commit(folder: Path, message: str) -> None:
    """Commit params and dvc.lock, if they changed."""
    git(folder, "add", *(name for name in ("params.yaml", "dvc.lock") if (folder / name).is_file()))
    if git(folder, "diff", "--cached", "--name-only"):
        author = ("-c", "user.name=rankgrad retrain", "-c", "user.email=retrain@localhost")
        # Do not sign commits, because nobody is there to unlock a key.
        git(folder, *author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", message)
