"""Write files and folders completely or not at all, even if the process is killed or the disk is full."""

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["remove_folder", "replaced_file", "replaced_folder", "write_error"]

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # not of the network


def _partial(path: Path) -> Path:
    """Return a path next to `path`, on the same file system, and remove what killed processes left there.

    Raises:
        OSError: `path` is neither a file nor a folder, but for example a device.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(
            errno.EINVAL, "is neither a file nor a folder, so it cannot be replaced: choose another path", str(path)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f"{path.name}.partial-*"):
        if _writes(leftover):
            continue
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    return path.with_name(f"{path.name}.partial-{os.getpid()}")


def _writes(leftover: Path) -> bool:
    """Whether a partial file is named for another process, which still runs."""
    number = leftover.name.rpartition(".partial-")[2].removesuffix("-removed")
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process belongs to another user
        return True
    return True


def _synced(path: Path) -> None:
    """Flush a file's contents to the disk, so that the rename is not on disk before them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: str | Path) -> None:
    """Remove a folder; rename it first, so that a killed process does not leave half a folder under its name."""
    path = Path(path)
    if path.exists():
        going = path.with_name(f"{path.name}.partial-{os.getpid()}-removed")
        os.replace(path, going)
        shutil.rmtree(going)


def write_error(path: str | Path, error: Exception) -> OSError:
    """Turn a library's error in writing to `path` into an OSError: no space left, or an input/output error."""
    full = shutil.disk_usage(Path(path).parent).free < 2**20
    what = "no space left on the disk" if full else "could not be written"
    return OSError(errno.ENOSPC if full else errno.EIO, f"{what} ({error})", str(path))


@contextmanager
def _named(path: Path) -> Generator[None]:
    """Add the file name to a disk error, because the system does not name the file of a failed write."""
    try:
        yield
    except OSError as error:
        if error.errno in OF_THE_DISK and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replaced_file(path: str | Path) -> Generator[Path, None, None]:
    """Yield a temporary path to write to; on success it replaces `path`, on any error it is removed.

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
        with _named(path):
            yield partial
            _synced(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: str | Path) -> Generator[Path, None, None]:
    """Yield a temporary folder to fill; on success it replaces `path`, on any error it is removed."""
    path = Path(path)
    partial = _partial(path)
    partial.mkdir()
    try:
        with _named(path):
            yield partial
            for file in partial.rglob("*"):
                if file.is_file():
                    _synced(file)
        remove_folder(path)
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
