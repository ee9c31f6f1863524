"""Where a retraining works: a git worktree with a branch of its own, so that main and its checkout stay as they are."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import count
from pathlib import Path

from dvc.config import Config, merge
from filelock import FileLock, Timeout
from ruamel.yaml import YAML

from pipelines.flows.processes import Commands
from pipelines.ops.git import file_at, git
from rankops.io.atomic import replaced_file

__all__ = ["Worktree", "opened", "share_dvc_settings"]

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
        return git(self.folder, "rev-parse", "HEAD")

    def is_new(self) -> bool:
        """Whether its last commit has anything that neither main nor an earlier retraining has."""
        others = {"HEAD", *_revisions(self.project)} - {self.branch}
        trees = {_tree(self.project, name) for name in others}
        return _tree(self.project, self.branch) not in trees

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
        commands.run(["dvc", "push", "--run-cache"], folder=self.folder, environment=environment)
        git(self.folder, "push", "--quiet", remote, self.branch)

    def remove(self) -> None:
        """Takes it away; the branch stays if it has anything new, and DVC's cache has the data and models."""
        keep = self.is_new()
        _removed(self.project)
        if not keep:
            _deleted(self.project, self.branch)  # as an earlier retraining left it


def _committed(folder: Path, message: str) -> None:
    files = [name for name in ("params.yaml", "dvc.lock") if (folder / name).is_file()]
    git(folder, "add", *files)
    if git(folder, "diff", "--cached", "--name-only"):
        # Nobody is there to unlock a person's key.
        git(folder, "-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "--message", message,
            environment=AUTHOR)  # fmt: skip


def _tree(project: Path, revision: str) -> str:
    return git(project, "rev-parse", f"{revision}^{{tree}}")


def _own_commits(project: Path, branch: str) -> bool:
    return bool(git(project, "rev-list", "--max-count=1", f"HEAD..{branch}"))


def _removed(project: Path) -> None:
    (project / READY).unlink(missing_ok=True)
    shutil.rmtree(project / FOLDER, ignore_errors=True)
    git(project, "worktree", "unlock", str(project / FOLDER), fails=True)  # as a killed `git worktree add` left it
    git(project, "worktree", "prune")
    for branch in _branches(project):  # a retraining that found nothing to do, or was killed before it began
        if not _own_commits(project, branch):
            _deleted(project, branch)


def _deleted(project: Path, branch: str) -> None:
    """Takes a branch away, if it is there; one that somebody has checked out, here or in another worktree, stays."""
    listed = git(project, "for-each-ref", "--format=%(refname:short) %(worktreepath)", "refs/heads/retrain/")
    if branch in {line.strip() for line in listed.splitlines()}:
        git(project, "branch", "--quiet", "-D", branch)


def _left(project: Path) -> tuple[str, int] | None:
    """Branch and snapshot of what an unfinished retraining left, if that can be gone on with."""
    try:
        branch, snapshot = (project / READY).read_text().split()
        return (branch, int(snapshot)) if (project / FOLDER / "dvc.yaml").is_file() else None
    except (FileNotFoundError, ValueError):  # by a full disk, say
        return None


def _of_present_commit(project: Path, branch: str) -> bool:
    """Whether a retraining's branch has the commit that is checked out now."""
    return git(project, "merge-base", "HEAD", branch, fails=True) == git(project, "rev-parse", "HEAD")


def _abandon(project: Path, branch: str) -> None:
    """Takes away what a retraining of an earlier commit left unfinished; its branch too, if that has no result."""
    base = git(project, "merge-base", "HEAD", branch, fails=True)
    unfinished = base and not git(project, "diff", "--name-only", base, branch, "--", "dvc.lock")
    _removed(project)
    if unfinished:
        _deleted(project, branch)


def _snapshot_of(project: Path, revision: str) -> int:
    """A revision's `data.snapshot`; 0 where it has none."""
    text = file_at(project, revision, "params.yaml")
    return ((YAML(typ="safe").load(text) or {}).get("data") or {}).get("snapshot", 0) if text else 0


def _branches(project: Path) -> list[str]:
    """Of retrainings, in this clone."""
    return git(project, "for-each-ref", "--format=%(refname:short)", "refs/heads/retrain/").split()


def _of_remotes(project: Path) -> list[str]:
    """Of retrainings, as remotes were seen to have them."""
    return git(project, "for-each-ref", "--format=%(refname)", "refs/remotes/*/retrain/*").split()


def _revisions(project: Path) -> list[str]:
    """Of retrainings, here and in remotes; one that both have is there twice, and may differ."""
    return [*_branches(project), *_of_remotes(project)]


def _free_name(project: Path) -> str:
    """For a branch of today's that neither this clone nor a remote has."""
    known = {*_branches(project), *(name.split("/", 3)[3] for name in _of_remotes(project))}
    day = f"retrain/{date.today().isoformat()}"
    names = (day if number == 1 else f"{day}-{number}" for number in count(1))
    return next(name for name in names if name not in known)


def _under_a_free_name(project: Path, branch: str, snapshot: int, remote: str) -> str:
    """The branch that was left, under another name if the remote has got one of its name from another machine."""
    theirs = f"refs/remotes/{remote}/{branch}"
    if theirs not in _of_remotes(project) or not git(project, "rev-list", "--max-count=1", f"{branch}..{theirs}"):
        return branch
    name = _free_name(project)
    git(project, "branch", "--move", branch, name)
    _ready(project, name, snapshot)
    return name


def _ready(project: Path, branch: str, snapshot: int) -> None:
    with replaced_file(project / READY) as partial:
        partial.write_text(f"{branch}\n{snapshot}\n")


def _fetched(project: Path, remote: str) -> None:
    """Looks which retrainings a git remote has, before hours go into what is to be pushed there."""
    if git(project, "remote", "get-url", remote, fails=True) == "":
        known = git(project, "remote").split()
        raise ValueError(f"no git remote {remote!r}; there are {', '.join(known) or 'none'}: `git remote add`")
    if not Config(str(project / ".dvc")).get("core", {}).get("remote"):
        raise ValueError(
            f"{project}: DVC has no default remote, so data and models of what is pushed would be nowhere: "
            "`dvc remote add --default NAME ADDRESS`"
        )
    git(project, "fetch", "--quiet", "--prune", remote, f"+refs/heads/retrain/*:refs/remotes/{remote}/retrain/*")


def _brought(project: Path, folder: Path) -> None:
    """Raw data, which git ignores, as they are by now: linked, not copied, where the file system can."""
    tracked = {folder / name for name in git(folder, "ls-files", "-z", "data/raw").split("\0") if name}
    places = {folder / path.relative_to(project): path for path in _files(project / "data/raw")}
    for place, path in places.items():
        if place not in tracked and not _is_same(place, path):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            try:
                os.link(path.resolve(), place)
            except OSError:
                partial = place.with_name(f"{place.name}.partial")  # if killed, taken away by the next
                shutil.copy2(path, partial)  # with its time, by which it is known again
                partial.replace(place)
    for place in _files(folder / "data/raw"):  # what has been taken away since
        if place not in tracked and place not in places:
            place.unlink()


def _files(folder: Path) -> list[Path]:
    return [
        path
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in sorted(names)
        if (path := Path(parent) / name).is_file()
    ]


def _is_same(place: Path, path: Path) -> bool:
    if not place.exists():
        return False
    here, there = place.stat(), path.stat()
    return place.samefile(path) or (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns)


def _unlock(folder: Path, branch: str) -> None:
    """Removes git's locks of a worktree and its branch, which stay where git was killed; nobody else works there."""
    names = ("index.lock", "HEAD.lock", f"refs/heads/{branch}.lock")
    locks = [folder / git(folder, "rev-parse", "--git-path", name) for name in names]
    for _ in range(50):  # a git that a killed retraining left may be about to end
        if not any(lock.exists() for lock in locks):
            return
        time.sleep(0.1)
    for lock in locks:
        lock.unlink(missing_ok=True)


def _made(project: Path, *, advance: bool, least: int = 0) -> tuple[str, int]:
    """Makes the worktree anew; its branch and snapshot."""
    _removed(project)
    folder = project / FOLDER
    folder.parent.mkdir(exist_ok=True)
    branch = _free_name(project)
    snapshot = max(least, max(_snapshot_of(project, name) for name in ["HEAD", *_revisions(project)]) + advance)
    git(project, "worktree", "add", "--quiet", "-b", branch, str(folder), "HEAD")
    share_dvc_settings(project, folder)
    _brought(project, folder)
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 120
    values = yaml.load(folder / "params.yaml")
    values["data"]["snapshot"] = snapshot
    with replaced_file(folder / "params.yaml") as partial, partial.open("w") as file:
        yaml.dump(values, file)
    # Before anything is trained: MLflow's runs then name a commit that has their params.
    _committed(folder, f"Retrain: snapshot {snapshot}")
    _ready(project, branch, snapshot)
    return branch, snapshot


def share_dvc_settings(project: Path, folder: Path, **core: str) -> None:
    """Gives another checkout of a project its DVC cache and its settings, what git ignores of them (secrets) too.

    Args:
        project: whose they are.
        folder: the other checkout.
        core: further settings of the section `core`, for it alone.
    """
    own = Config(str(project / ".dvc"))
    with Config(str(folder / ".dvc")).edit("local") as config:
        for level in ("repo", "local"):  # the former too: its relative addresses are those of the project
            merge(config, own.load_one(level))
        config["cache"]["dir"] = str(own["cache"].get("dir") or project / ".dvc/cache")
        config["core"].update(core)


@contextmanager
def opened(project: str | Path, *, advance: bool, remote: str | None = None) -> Iterator[Worktree]:
    """The project's worktree for a retraining: what an unfinished one left, or a new one from the present commit.

    A new one has params at the newest snapshot that main or any branch `retrain/...` knows, or at the next. What was
    left unfinished is gone on with as long as main has not moved; otherwise its snapshot is begun again with main's
    code, for which DVC's cache has whatever is the same.

    Args:
        project: a checkout with the pipeline.
        advance: take the next snapshot.
        remote: a git remote whose branches `retrain/...` count as well, and to which this one will be pushed.

    Raises:
        ValueError: another retraining has it, git refuses, or git or DVC have no such remote.
    """
    project = Path(project).resolve()
    (project / ".locks").mkdir(exist_ok=True)
    try:
        # The system lets go of it when the process dies, however it does.
        with FileLock(project / ".locks/retrain.lock", timeout=5):
            if remote is not None:
                _fetched(project, remote)
            left, least = _left(project), 0
            if left and not _of_present_commit(project, left[0]):
                _abandon(project, left[0])
                left, least = None, left[1]  # its snapshot is taken again
            branch, snapshot = left or _made(project, advance=advance, least=least)
            if left:
                _brought(project, project / FOLDER)  # what has come in since
                _unlock(project / FOLDER, branch)
                branch = branch if remote is None else _under_a_free_name(project, branch, snapshot, remote)
            yield Worktree(project, project / FOLDER, branch, snapshot, resumed=left is not None)
    except Timeout as error:
        raise ValueError(f"{project}: another retraining is at work there; wait for it, or cancel it") from error
