"""Where a retraining works: a git worktree with a branch of its own, so that main and its checkout stay as they are."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout
from ruamel.yaml import YAML

from pipelines.flows.processes import Commands
from rankops.atomic_writes import replaced_file

__all__ = ["Worktree", "opened"]

FOLDER = Path(".retrain/worktree")
READY = ".retrain/ready"  # beside the worktree, written last: a half-made one is made again
AUTHOR = {
    "GIT_AUTHOR_NAME": "rankops retrain", "GIT_AUTHOR_EMAIL": "retrain@localhost",
    "GIT_COMMITTER_NAME": "rankops retrain", "GIT_COMMITTER_EMAIL": "retrain@localhost",
}  # fmt: skip


@dataclass(frozen=True)
class Worktree:
    """An open one.

    Attributes:
        project: the checkout that it belongs to.
        folder: its own.
        branch: `retrain/<date>`, with a number from the second of a day on.
        snapshot: of the data.
        resumed: whether an earlier retraining, which did not come to its end, left it.
    """

    project: Path
    folder: Path
    branch: str
    snapshot: int
    resumed: bool

    def commit(self, message: str) -> str:
        """Commits params and lock to the branch, if they changed; returns the commit."""
        _committed(self.folder, message)
        return _git(self.folder, "rev-parse", "HEAD")

    def check_remote(self, remote: str) -> None:
        """Sees that git has a remote of this name, before hours go into what is to be pushed there.

        Raises:
            ValueError: it has not.
        """
        if _git(self.project, "remote", "get-url", remote, fails=True) == "":
            known = _git(self.project, "remote").split()
            raise ValueError(f"no git remote {remote!r}; there are {', '.join(known) or 'none'}: `git remote add`")

    def share(self, remote: str, commands: Commands, environment: Mapping[str, str] | None = None) -> None:
        """Pushes its data and models to DVC's default remote, then the branch to a git remote, from where others pull.

        In this order: a branch whose data is nowhere helps nobody.

        Args:
            remote: git's.
            commands, environment: that DVC is run by and in.

        Raises:
            ValueError: git refuses.
            CommandFailed: `dvc push` did not succeed.
        """
        commands.run(["dvc", "push"], folder=self.folder, environment=environment)
        _git(self.folder, "push", "--quiet", remote, self.branch)

    def remove(self) -> None:
        """Takes it away; the branch stays if it has anything new, and DVC's cache has the data and models."""
        _removed(self.project)
        known = _branches(self.project)
        trees = {_git(self.project, "rev-parse", f"{name}^{{tree}}") for name in known if name != self.branch}
        if self.branch in known and _git(self.project, "rev-parse", f"{self.branch}^{{tree}}") in trees:
            _git(self.project, "branch", "--quiet", "-D", self.branch)  # as an earlier retraining left it


def _git(folder: Path, *words: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **AUTHOR}
    )
    if done.returncode and not fails:
        raise ValueError(f"git {' '.join(words)} in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()


def _committed(folder: Path, message: str) -> None:
    files = [name for name in ("params.yaml", "dvc.lock") if (folder / name).is_file()]
    _git(folder, "add", *files)
    if _git(folder, "diff", "--cached", "--name-only"):
        _git(folder, "commit", "--quiet", "--no-verify", "--message", message)


def _own_commits(project: Path, branch: str) -> bool:
    return bool(_git(project, "rev-list", "--max-count=1", f"HEAD..{branch}"))


def _removed(project: Path) -> None:
    (project / READY).unlink(missing_ok=True)
    shutil.rmtree(project / FOLDER, ignore_errors=True)
    _git(project, "worktree", "prune")
    for branch in _branches(project):  # a retraining that found nothing to do, or was killed before it began
        if not _own_commits(project, branch):
            _git(project, "branch", "--quiet", "-D", branch)


def _snapshot_of(project: Path, revision: str) -> int:
    """A revision's `data.snapshot`; 0 where it has none."""
    text = _git(project, "show", f"{revision}:params.yaml", fails=True)
    return ((YAML(typ="safe").load(text) or {}).get("data") or {}).get("snapshot", 0) if text else 0


def _branches(project: Path) -> list[str]:
    return _git(project, "for-each-ref", "--format=%(refname:short)", "refs/heads/retrain/").split()


def _brought(project: Path, folder: Path) -> None:
    """Raw data, which git ignores: linked, not copied, where the file system can."""
    for path in sorted((project / "data/raw").rglob("*")):
        place = folder / path.relative_to(project)
        if path.is_file() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, place)
            except OSError:
                shutil.copyfile(path, place)


def _made(project: Path, *, advance: bool) -> None:
    _removed(project)
    folder = project / FOLDER
    folder.parent.mkdir(exist_ok=True)
    known = _branches(project)
    day = f"retrain/{date.today().isoformat()}"
    names = (day if number == 1 else f"{day}-{number}" for number in count(1))
    branch = next(name for name in names if name not in known)
    snapshot = max(_snapshot_of(project, revision) for revision in ["HEAD", *known]) + advance
    _git(project, "worktree", "add", "--quiet", "-b", branch, str(folder), "HEAD")
    cache = subprocess.run(
        ["dvc", "cache", "dir"], cwd=project, capture_output=True, text=True, check=True
    ).stdout.strip()  # fmt: skip
    shared = ["dvc", "cache", "dir", "--local", str((project / cache).resolve())]
    subprocess.run(shared, cwd=folder, capture_output=True, check=True)
    _brought(project, folder)
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 120
    values = yaml.load(folder / "params.yaml")
    values["data"]["snapshot"] = snapshot
    with replaced_file(folder / "params.yaml") as partial, partial.open("w") as file:
        yaml.dump(values, file)
    # Before anything is trained: MLflow's runs then name a commit that has their params.
    _committed(folder, f"Retrain: snapshot {snapshot}")
    (project / READY).write_text(f"{branch}\n{snapshot}\n")


@contextmanager
def opened(project: str | Path, *, advance: bool) -> Iterator[Worktree]:
    """The project's worktree for a retraining: what an unfinished one left, or a new one from the present commit.

    A new one has params at the newest snapshot that main or any branch `retrain/...` knows, or at the next.

    Args:
        project: a checkout with the pipeline.
        advance: take the next snapshot.

    Raises:
        ValueError: another retraining has it, or git refuses.
    """
    project = Path(project).resolve()
    (project / ".locks").mkdir(exist_ok=True)
    try:
        # The system lets go of it when the process dies, however it does.
        with FileLock(project / ".locks/retrain.lock", timeout=5):
            resumed = (project / READY).is_file() and (project / FOLDER / "dvc.yaml").is_file()
            if not resumed:
                _made(project, advance=advance)
            branch, snapshot = (project / READY).read_text().split()
            yield Worktree(project, project / FOLDER, branch, int(snapshot), resumed)
    except Timeout as error:
        raise ValueError(f"{project}: another retraining is at work there; wait for it, or cancel it") from error
