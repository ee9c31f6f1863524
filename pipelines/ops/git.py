"""Run git."""

import os
import subprocess
from pathlib import Path

__all__ = ["file_at", "git"]

# What git sets for its hooks, for their own repository and not for the folder that is asked for here.
OF_A_HOOK = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")


def git(folder: str | Path, *words: str, fails: bool = False) -> str:
    """Run a git command and return its output, without white space at the end.

    Args:
        folder: where it runs.
        words: the command.
        fails: whether it may fail; the output until then is returned.

    Raises:
        ValueError: git refuses, or is not installed.
    """
    return _run(folder, *words, fails=fails).decode().rstrip()


def file_at(folder: str | Path, revision: str, path: str | Path) -> bytes | None:
    """Return a file as a commit has it; None if the commit does not have it.

    Args:
        folder: in a checkout.
        revision: a branch or commit.
        path: below the folder.

    Raises:
        ValueError: git refuses, because there is no such revision for instance, or is not installed.
    """
    relative = f"./{Path(path).as_posix()}"
    if not _run(folder, "ls-tree", "--name-only", revision, "--", relative):
        return None
    return _run(folder, "show", f"{revision}:{relative}")


def _run(folder: str | Path, *words: str, fails: bool = False) -> bytes:
    inherited = {name: value for name, value in os.environ.items() if name not in OF_A_HOOK}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            env=inherited | {"GIT_TERMINAL_PROMPT": "0"},
            # Without a terminal, git and ssh fail where they would ask for a password: nobody may be there to answer.
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ValueError(f"git {words[0]} in {folder}: git is not installed, or there is no such folder") from error
    if done.returncode and not fails:
        raise ValueError(f"git {' '.join(words)} in {folder}: {done.stderr.decode().rstrip()}")
    return done.stdout
