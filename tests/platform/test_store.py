"""The store of a checkout: made whole or not at all, by one of several at once, and refused where it was moved."""

import shutil
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
from filelock import FileLock
from mlflow.exceptions import MlflowException
from mlflow.store.tracking import sqlalchemy_store

from pipelines.tracking.store import ServerUnreachable, address_of_store, answering, connect
from pipelines.tracking.upload import publish

from conftest import ROOT  # isort: skip
from test_publish import training  # isort: skip


def go(folder: Path, monkeypatch) -> None:
    """Work in a folder as a new process does: MLflow keeps the store of the last one in the environment."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(folder)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty folder whose name is not plain; the store is that of the present folder."""
    folder = tmp_path / "my é 50% project"
    folder.mkdir()
    (folder / "src").symlink_to(ROOT / "src")
    go(folder, monkeypatch)
    yield folder
    mlflow.set_tracking_uri(None)


@pytest.fixture
def made(project, monkeypatch, _empty_store):
    """Stores are made of a ready one, after `begin` has been called with the file; the list of those begun."""
    begun = []

    class Ready(sqlalchemy_store.SqlAlchemyStore):
        def __init__(self, address: str, root: str):
            if ".partial-" not in address:
                super().__init__(address, root)
                return
            file = Path(address.removeprefix("sqlite:///"))
            begun.append(file)
            made.begin(file)
            shutil.copyfile(_empty_store, file)
            self.engine = SimpleNamespace(dispose=lambda: None)

    made = SimpleNamespace(begin=lambda file: None, begun=begun)
    monkeypatch.setattr(sqlalchemy_store, "SqlAlchemyStore", Ready)
    return made


def killed(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE experiments (artifact_location TEXT)")
    raise SystemExit


def test_a_store_is_never_half_made(made, project):
    made.begin = killed
    with pytest.raises(SystemExit):
        connect(create=True)
    assert not (project / "mlflow.db").exists()
    made.begin = lambda file: None
    assert connect(create=True).search_experiments()[0].name == "Default"


@pytest.mark.parametrize("leave", [Path.touch, lambda file: None])
def test_a_store_that_is_not_there_or_empty_is_nothing_to_read_and_is_made(made, project, leave):
    leave(project / "mlflow.db")
    with pytest.raises(FileNotFoundError, match=r"mlflow\.db.*make repro"):
        connect()
    assert made.begun == []
    client = connect(create=True)
    client.create_experiment("mine")
    assert connect(create=True).get_experiment_by_name("mine")


def test_of_several_at_once_one_makes_the_store(made):
    made.begin = lambda file: time.sleep(0.2)
    with ThreadPoolExecutor(3) as pool:
        for making in [pool.submit(connect, create=True) for _ in range(3)]:
            making.result()
    assert len(made.begun) == 1


def test_a_store_that_was_copied_or_moved_is_refused_and_one_kept_apart_from_its_files_is_not(
    made, project, monkeypatch
):
    publish([training("one")])
    copy, away = project.with_name("copy of é"), project.with_name("away")
    shutil.copytree(project, copy, symlinks=True)
    go(copy, monkeypatch)
    with pytest.raises(FileNotFoundError, match=f"{copy}.*{project}"):
        connect()
    (project / "mlflow.db").unlink()  # so the files are this one's
    assert connect().search_experiments()
    project.rename(away)
    with pytest.raises(FileNotFoundError, match=f"{copy}.*{project}"):
        connect()


def test_a_lock_of_another_process_and_a_file_that_is_no_database_are_told_apart(made, project, monkeypatch):
    monkeypatch.setattr("pipelines.tracking.database.PATIENCE", 0.1)
    connect(create=True)
    other = sqlite3.connect("mlflow.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ServerUnreachable, match="locked it: wait"):
        connect()
    other.close()
    Path("mlflow.db").write_text("no database" * 1000)
    with pytest.raises(ServerUnreachable, match="not a database"):
        connect(create=True)
    Path("mlflow.db").unlink()
    monkeypatch.setattr("pipelines.tracking.database.MAKING_TIMEOUT", 0.1)
    with FileLock("mlflow.db.lock"), pytest.raises(ServerUnreachable, match="creates this store: stop it"):
        connect(create=True)


def test_a_secret_in_the_address_of_a_server_is_in_no_message_and_in_no_log(project, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://someone:S3cr3t@127.0.0.1:1/a?token=S3cr3t")
    with pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:1/a.* does not answer") as error:
        publish([])
    assert "S3cr3t" not in f"{error.value} {caplog.text}"


def test_an_sqlite_store_is_one_file_of_this_folder_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for taken in ("sqlite:///mlflow.db", "sqlite+pysqlite:///mlflow.db", f"sqlite:///{tmp_path}/mlflow.db"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", taken)
        assert address_of_store() == f"sqlite:///{tmp_path}/mlflow.db"
    for refused in ("sqlite://", "sqlite:///:memory:", "sqlite:///mlflow.db?timeout=30", "SQLITE:///mlflow.db"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", refused)
        with pytest.raises(ValueError, match="without options"):
            address_of_store()


def test_a_full_disk_is_named_which_mlflow_leaves_out():
    error = MlflowException("files cannot be copied")
    error.__cause__ = shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")])
    with pytest.raises(ServerUnreachable, match="failed now: .*No space left"), answering("now"):
        raise error
