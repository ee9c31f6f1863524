"""Create the SQLite file of a store atomically, and refuse one that was copied or moved.

MLflow creates its tables in dozens of steps, and crashes if a second process starts meanwhile. It stores the absolute
path of the files of every run and version.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from filelock import FileLock, Timeout

from rankgrad.io.atomic import replaced_file

__all__ = ["FILES", "file_of", "has_contents", "make", "refuse_moved"]

FILES = "mlruns"  # the folder of a store's files, next to its database
PATIENCE = 20.0  # seconds to wait for a lock, as MLflow does
MAKING_TIMEOUT = 120.0  # seconds to wait while another process creates a store


def file_of(address: str, folder: Path = Path()) -> Path | None:
    """Return the absolute path of an SQLite store; None for any other store.

    Args:
        address: the address of a store, such as sqlite:///mlflow.db.
        folder: the folder to which relative paths are relative.

    Raises:
        ValueError: the address does not name a plain file. A store in memory would be gone with the process, and with
            options, each copy of the checkout would use a different store.
    """
    if not (named := re.fullmatch(r"sqlite(?:\+pysqlite)?:///([^:?][^?]*)", address)):
        if re.match("sqlite", address, re.IGNORECASE):
            raise ValueError(
                f"{address}: expected a file without options, such as sqlite:///mlflow.db or sqlite:////home/me/mlflow.db"
            )
        return None
    file = (folder / named[1]).resolve()
    if "?" in str(file):  # MLflow would read the rest as options, and open another file
        raise ValueError(f"{file}: the path of an SQLite store cannot contain a ?: rename the folder")
    return file


def has_contents(file: Path) -> bool:
    """Return whether there is a store; opening one that does not exist leaves an empty file."""
    return file.exists() and file.stat().st_size > 0


def make(file: Path) -> None:
    """Create the store in `file` unless it exists; several processes may try at once.

    Raises:
        TimeoutError: another process has held the lock for more than `MAKING_TIMEOUT` seconds.
    """
    # It takes seconds to import.
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{file}.lock", timeout=MAKING_TIMEOUT):
            if has_contents(file):
                return
            with replaced_file(file) as partial:
                # The constructor creates all tables. The files already have their final address, the database has not.
                store = SqlAlchemyStore(f"sqlite:///{partial}", (file.parent / FILES).as_uri())
                store.engine.dispose()  # closes the file before it is moved
    except Timeout as error:
        raise TimeoutError(
            f"{file}: waited {MAKING_TIMEOUT:.0f} s for another process that creates this store: stop it, then try "
            "again"
        ) from error


def refuse_moved(file: Path) -> None:
    """Raise if a store was moved or copied without its files.

    A store may deliberately be elsewhere than its files; these then exist without a store of the same name next to
    them.

    Raises:
        FileNotFoundError: the store's files are elsewhere.
        sqlite3.Error: the file cannot be read, or is locked.
    """
    with closing(sqlite3.connect(file, timeout=PATIENCE)) as database:
        addresses = database.execute("SELECT artifact_location FROM experiments WHERE experiment_id != 0").fetchall()
    for (address,) in addresses:
        folder, separator, _ = unquote((address or "").removeprefix("file://")).rpartition(f"/{FILES}/")
        before = Path(folder)
        if not separator or not before.is_absolute() or before == file.parent:
            continue
        if not (before / FILES).is_dir() or (before / file.name).is_file():
            raise FileNotFoundError(
                f"{file}: this store was moved or copied, but its files are in {before / FILES}. Move the store back, "
                f"or remove {file} and run `make repro`, which publishes to a new store"
            )
