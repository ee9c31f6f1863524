"""Run git."""

import os
import subprocess
from pathlib import Path

__all__ = ["file_at", "git"]

# Variables that git sets for hooks; they point to the hook's repository, not to the folder passed here.
OF_A_HOOK = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")


def git(folder: str | Path, *words: str, fails: bool = False) -> str:
    """Run a git command and return its output, without white space at the end.

    Args:
        folder: working directory.
        words: the command.
        fails: whether it may fail; if it does, return its output until then.

    Raises:
        ValueError: git failed, or is not installed.
    """
    return _run(folder, *words, fails=fails).decode().rstrip()


def file_at(folder: str | Path, revision: str, path: str | Path) -> bytes | None:
    """Return a file's contents in a commit; None if the commit does not have the file.

    Args:
        folder: a folder in a checkout.
        revision: a branch or commit.
        path: path relative to the folder.

    Raises:
        ValueError: git failed, for example because the revision does not exist, or is not installed.
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
            # Without a terminal, git and ssh fail instead of asking for a password, because nobody may be there to
            # answer.
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
