"""The SQLite file of a store: made whole or not at all, and refused where it was copied or moved.

MLflow makes its tables in dozens of steps, in the file itself, and cannot go on with what a killed process left of
them. It also keeps the absolute address of every run's and every version's files.
"""

import re
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote

from filelock import FileLock, Timeout

from rankgrad.io.atomic import replaced_file

__all__ = ["file_of", "has_contents", "make", "refuse_moved"]

FILES = "mlruns"  # a store's files are in this folder beside its database
PATIENCE = 20.0  # seconds, as long as MLflow waits for a lock
MAKING = 120.0  # seconds that another process may take to make a store


def file_of(address: str, folder: Path = Path()) -> Path | None:
    """Return the absolute path of an SQLite store; None of any other store.

    Args:
        address: of a store, such as sqlite:///mlflow.db.
        folder: what a relative path starts from.

    Raises:
        ValueError: the path cannot be part of an address, or the address names no file alone: a store in memory is
            gone with the process, and one with options would be another store in each copy of the checkout.
    """
    if not (named := re.fullmatch(r"sqlite(?:\+pysqlite)?:///([^:?][^?]*)", address)):
        if re.match("sqlite", address, re.IGNORECASE):
            raise ValueError(
                f"{address}: expected a file without options, such as sqlite:///mlflow.db or sqlite:////home/me/mlflow.db"
            )
        return None
    file = (folder / named[1]).resolve()
    if "?" in str(file):  # the rest would be taken for options, and another file for the store
        raise ValueError(f"{file}: an SQLite store cannot be in a folder with a ? in its path: rename the folder")
    return file


@contextmanager
def _opened(file: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)) as database:
        yield database


def has_contents(file: Path) -> bool:
    """Whether a store is there that holds anything; MLflow ends the making of one with its first experiment.

    Raises:
        sqlite3.Error: it is a folder, or no database, or another process has locked it.
    """
    if not file.exists():
        return False
    with _opened(file) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        named = tables & {"experiments", "registered_models"}
        return any(database.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() for name in named)


def make(file: Path) -> None:
    """Make a store, unless there is one that holds anything. A killed process leaves none under that name.

    Raises:
        TimeoutError: another process makes it and does not end.
    """
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{file}.lock", timeout=MAKING):
            if has_contents(file):
                return
            if file.is_file():
                with _opened(file) as database:  # which takes back what a killed process had not committed: its journal
                    database.execute("BEGIN EXCLUSIVE")  # would be taken for the new file's
            with replaced_file(file) as partial:
                SqlAlchemyStore(f"sqlite:///{partial}", (file.parent / FILES).as_uri()).engine.dispose()
    except Timeout as error:
        raise TimeoutError(f"{file}: another process has been making this store for {MAKING:.0f} s; end it") from error


def refuse_moved(file: Path) -> None:
    """Raise if a store was moved or copied: MLflow keeps the absolute address of every run's files.

    A store may be kept apart from its files, which then are still there, beside no other store of the same name.

    Raises:
        FileNotFoundError: its files are elsewhere.
        sqlite3.Error: the file cannot be read.
    """
    with _opened(file) as database:
        addresses = database.execute("SELECT artifact_location FROM experiments WHERE experiment_id != 0").fetchall()
    for (address,) in addresses:
        path = unquote((address or "").removeprefix("file://"))
        folder, separator, _ = path.rpartition(f"/{FILES}/")
        before = Path(folder)
        if not separator or not before.is_absolute() or before == file.parent:
            continue
        if not (before / FILES).is_dir() or (before / file.name).is_file():
            raise FileNotFoundError(
                f"{file}: the files of this store are in {before / FILES}: it was moved or copied. Move it back, or "
                f"remove {file} and run `make repro`, which publishes to a new one"
            )
