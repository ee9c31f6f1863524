"""What git says and does, by its command."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["file_at", "git"]


def git(folder: str | Path, *words: str, environment: Mapping[str, str] | None = None, fails: bool = False) -> str:
    """Runs a git command and returns what it prints, without white space at the end.

    Args:
        folder: where it runs.
        words: the command.
        environment: beside the present one.
        fails: it may; what it has printed until then is returned.

    Raises:
        ValueError: git refuses, or is not there.
    """
    return _run(folder, *words, environment=environment, fails=fails).decode().rstrip()


def file_at(folder: str | Path, revision: str, path: str | Path) -> bytes | None:
    """A file as a commit has it, or None where the commit has none.

    Args:
        folder: in a checkout.
        revision: a branch or commit.
        path: below the folder.

    Raises:
        ValueError: git refuses, for lack of such a revision, say, or is not there.
    """
    place = f"./{Path(path).as_posix()}"
    if not _run(folder, "ls-tree", "--name-only", revision, "--", place):
        return None
    return _run(folder, "show", f"{revision}:{place}")


def _run(folder: str | Path, *words: str, environment: Mapping[str, str] | None = None, fails: bool = False) -> bytes:
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **(environment or {})},
            # Nobody may be there to be asked: without a terminal, what wants a password (ssh too) says so and ends.
            stdin=subprocess.DEVNULL, start_new_session=True, capture_output=True, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ValueError(f"git {words[0]} in {folder}: there is no git on the path, or no such folder") from error
    if done.returncode and not fails:
        raise ValueError(f"git {' '.join(words)} in {folder}: {done.stderr.decode().rstrip()}")
    return done.stdout
