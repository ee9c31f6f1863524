"""The SQLite file of a store: made whole or not at all, and followed by its addresses when it is copied or moved.

MLflow makes its tables in dozens of steps, in the file itself, and cannot go on with what a killed process left of
them. It also keeps the absolute address of every run's and every version's files.
"""

import os
import re
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from filelock import FileLock, Timeout

from rankgrad.io.atomic import replaced_file

__all__ = ["file_of", "has_contents", "make", "settle"]

FILES = "mlruns"  # a store's files are in this folder beside its database
PATIENCE = 20.0  # seconds, as long as MLflow waits for a lock
MAKING = 120.0  # seconds that another process may take to make a store
# Every column that has addresses of files.
ADDRESSES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
}


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


def settle(file: Path) -> None:
    """Let a store that was copied or moved keep its files beside itself, where they were copied or moved with it.

    Addresses change that name `mlruns` of another folder. They stay if files are there and not here: a store may be
    kept apart from its files.

    Raises:
        FileNotFoundError: the store was copied without its files: there, another store has them.
        sqlite3.Error: the file cannot be read or written.
    """
    with _opened(file) as database:
        if not (moved := _moved(database, file)):
            return
        database.execute("BEGIN IMMEDIATE")
        for before, now in moved.items():
            for table, column in ADDRESSES.items():
                database.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                    (now, len(before) + 1, len(before), before),
                )
        database.execute("COMMIT")


def _addresses(database: sqlite3.Connection) -> dict[Path, set[tuple[str, str, str]]]:
    """Return scheme, path and experiment of addresses of files, by the folder whose `mlruns` they name."""
    result: dict[Path, set[tuple[str, str, str]]] = {}
    for (address,) in database.execute("SELECT DISTINCT artifact_location FROM experiments"):
        if parts := re.fullmatch(rf"(file://)?(/.*)/{FILES}/(.+)", address or ""):
            scheme, path, name = parts.groups(default="")
            plain = unquote if scheme else str
            result.setdefault(Path(plain(path)), set()).add((scheme, path, plain(name)))
    return result


def _moved(database: sqlite3.Connection, file: Path) -> dict[str, str]:
    """Return how addresses of files began and how they are to begin."""
    ours, result = file.parent, {}
    for theirs, addresses in _addresses(database).items():
        if theirs == ours or (theirs.is_dir() and os.path.samefile(theirs, ours)):
            continue
        before, now = theirs / FILES, ours / FILES
        names = sorted(name for *_, name in addresses)
        left = [name for name in names if (before / name).exists() and not (now / name).exists()]
        if not left:
            result |= {
                f"{scheme}{path}/{FILES}/": f"{scheme}{quote(str(ours)) if scheme else ours}/{FILES}/"
                for scheme, path, _ in addresses
            }
        elif (theirs / file.name).is_file():
            raise FileNotFoundError(
                f"{file}: a copy of {theirs / file.name} without its files, such as {before / left[0]}: copy {before} "
                f"to {now}, or remove {file} and run `make repro`, which publishes to a store of its own"
            )
    return result
