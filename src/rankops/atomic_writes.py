"""Files and folders that are written whole or not at all, a killed process and a full disk included."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replaced_file", "replaced_folder"]


def _partial(path: Path) -> Path:
    """A place beside `path` (so on the same file system), where leftovers of killed processes are removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f"{path.name}.partial-*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    return path.with_name(f"{path.name}.partial-{os.getpid()}")


def _synced(path: Path) -> None:
    """Forces a file's contents to the disk, so that the rename cannot outlive them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """Gives a temporary path to write to; on success it takes the place of `path`, on any error it is removed.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "figures.json"
    >>> with replaced_file(target) as partial:
    ...     _ = partial.write_text("{}")
    >>> target.read_text()
    '{}'
    """
    path = Path(path)
    partial = _partial(path)
    try:
        yield partial
        _synced(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: str | Path) -> Iterator[Path]:
    """Gives a temporary folder to fill; on success it takes the place of `path`, on any error it is removed."""
    path = Path(path)
    partial = _partial(path)
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                _synced(file)
        if path.exists():
            shutil.rmtree(path)
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
