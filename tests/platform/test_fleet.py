"""The servers of a team for real, without Docker: PostgreSQL, an S3 store, MLflow with users."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import boto3
import pytest
import requests
from moto.server import ThreadedMotoServer

from conftest import ROOT, done, free_port, shorten, wait_for  # isort: skip

BIN = Path(sys.executable).parent
USERS = ("postgres", "mlflow", "prefect", "admin", "worker", "reader", "forms")
PASSWORDS = {name: secrets.token_hex(16) for name in USERS}


def postgresql() -> Path | None:
    """The folder of the newest installed server's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return installed[-1].parent if installed else Path(on_path).parent if on_path else None


REASON = "PostgreSQL is not installed: apt-get install postgresql"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(postgresql() is None, reason=REASON)]


@contextmanager
def running(*command: str, log: Path, health: str, **environment: str) -> Iterator[None]:
    """A server for as long as it is needed, its children included."""
    clean = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(log.parent), "PYTHONPATH": "src", "DO_NOT_TRACK": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=clean | environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )

    def answers() -> bool:
        assert process.poll() is None, f"{command} ended:\n{log.read_text()[-3000:]}"
        with suppress(OSError):
            return requests.get(health, timeout=2).ok
        return False

    try:
        wait_for(answers, patience=300)
        yield
    finally:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, ending)
                process.wait(20)


def answer(address: str, *credentials: str) -> int:
    return requests.get(address, auth=credentials or None, timeout=120).status_code


@pytest.fixture(scope="module")
def database() -> Iterator[dict[str, str]]:
    """A new PostgreSQL with what deploy/postgres/databases.sql makes; how libpq finds it."""
    folder, port, programs = Path(mkdtemp(prefix="rankgrad-postgres-")), str(free_port()), postgresql()
    (folder / "password").write_text(PASSWORDS["postgres"])
    as_server = []
    if os.getuid() == 0:  # which PostgreSQL refuses
        as_server = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    data = folder / "data"

    control = [*as_server, programs / "pg_ctl", "--wait", "--pgdata", data]
    done(
        *as_server, programs / "initdb", "--pgdata", data, "--username", "postgres", "--pwfile", folder / "password",
        "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync", folder=folder,
    )  # fmt: skip
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    done(*control, "start", "--log", folder / "log", "--options", options, folder=folder)
    try:
        variables = {"PGHOST": "127.0.0.1", "PGPORT": port}
        new = {"MLFLOW_DATABASE_PASSWORD": PASSWORDS["mlflow"], "PREFECT_DATABASE_PASSWORD": PASSWORDS["prefect"]}
        query(ROOT / "deploy/postgres/databases.sql", **variables, **new)
        yield variables
        assert PASSWORDS["mlflow"] not in (folder / "log").read_text()
    finally:
        done(*control, "stop", "--mode", "immediate", folder=folder)
        shutil.rmtree(folder)


def query(what: str | Path, *, database: str = "postgres", user: str = "postgres", fails: bool = False, **where) -> str:
    """What psql prints of a statement or a file."""
    arguments = ["--file" if isinstance(what, Path) else "--command", what]
    psql = [postgresql() / "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--dbname", database]
    return done(*psql, *arguments, fails=fails, PGUSER=user, PGPASSWORD=PASSWORDS[user], **where)


def test_each_server_has_a_role_that_sees_its_own_databases_alone(database):
    assert query("select current_user", database="prefect", user="prefect", **database) == "prefect"
    for name in ("mlflow", "mlflow_users"):
        assert "permission denied" in query("select 1", database=name, user="prefect", fails=True, **database)


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """An S3 server with the team's buckets; how its clients find it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "rankgrad", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
    }  # fmt: skip
    try:
        assert "bucket dvc: created" in prepare("buckets", "mlflow", "dvc", **variables)
        assert "bucket dvc: exists" in prepare("buckets", "mlflow", "dvc", **variables)
        yield variables
    finally:
        server.stop()


def prepare(*words: str, fails: bool = False, **environment: str) -> str:
    return done(sys.executable, "deploy/prepare.py", *words, fails=fails, **environment)


def objects(store: dict[str, str], bucket: str) -> list[str]:
    client = boto3.client(
        "s3", endpoint_url=store["AWS_ENDPOINT_URL_S3"], region_name=store["AWS_DEFAULT_REGION"],
        aws_access_key_id=store["AWS_ACCESS_KEY_ID"], aws_secret_access_key=store["AWS_SECRET_ACCESS_KEY"],
    )  # fmt: skip
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@pytest.fixture(scope="module")
def mlflow_server(database, store, tmp_path_factory) -> Iterator[str]:
    """Its address; it runs as in compose.yaml."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("mlflow") / "log"
    with running(
        "mlflow", "server", "--app-name", "basic-auth", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        log=log, health=f"{address}/health", PGUSER="mlflow", PGPASSWORD=PASSWORDS["mlflow"],
        MLFLOW_BACKEND_STORE_URI="postgresql:///mlflow", MLFLOW_ARTIFACTS_DESTINATION="s3://mlflow",
        MLFLOW_AUTH_CONFIG_PATH="deploy/mlflow/basic_auth.ini", MLFLOW_AUTH_ADMIN_PASSWORD=PASSWORDS["admin"],
        MLFLOW_FLASK_SERVER_SECRET_KEY=PASSWORDS["forms"], MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
        MLFLOW_DISABLE_TELEMETRY="true", PYTHONPATH="deploy/mlflow", **database, **store,
    ):  # fmt: skip
        yield address
    text = log.read_text()
    assert not [name for name in PASSWORDS if PASSWORDS[name] in text], "a password stands in the server's log"


@pytest.fixture(scope="module")
def worker_of(mlflow_server) -> dict[str, str]:
    """How the workers' user reaches MLflow."""
    variables = {"MLFLOW_TRACKING_URI": mlflow_server, "MLFLOW_NEW_PASSWORD": PASSWORDS["worker"]}
    administrator = variables | {"MLFLOW_TRACKING_USERNAME": "admin"}
    refused = prepare("user", "worker", fails=True, MLFLOW_TRACKING_PASSWORD="guessed", **administrator)
    assert "refuses the administrator" in refused
    right = administrator | {"MLFLOW_TRACKING_PASSWORD": PASSWORDS["admin"]}
    assert "user worker: created" in prepare("user", "worker", **right)
    assert "user worker: exists" in prepare("user", "worker", **right)
    return {
        "MLFLOW_TRACKING_URI": mlflow_server, "MLFLOW_TRACKING_USERNAME": "worker",
        "MLFLOW_TRACKING_PASSWORD": PASSWORDS["worker"],
    }  # fmt: skip


def test_mlflow_lets_nobody_in_without_the_right_password(mlflow_server, worker_of):
    page = f"{mlflow_server}/api/2.0/mlflow/experiments/get-by-name?experiment_name=Default"
    assert answer(page) == 401
    assert answer(page, "admin", "guessed") == 401
    assert answer(page, "admin", "password1234") == 401  # the default of older versions
    assert answer(page, "worker", PASSWORDS["worker"]) == 200


def test_a_reader_reads_and_creates_nothing(mlflow_server):
    administrator = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": PASSWORDS["admin"]}
    prepare(
        "user", "reader", MLFLOW_TRACKING_URI=mlflow_server, MLFLOW_NEW_PASSWORD=PASSWORDS["reader"], **administrator
    )
    for path, status in (("registered-models/create", 403), ("experiments/create", 403), ("experiments/search", 200)):
        asked = requests.post(
            f"{mlflow_server}/api/2.0/mlflow/{path}", json={"name": "mine", "max_results": 1},
            auth=("reader", PASSWORDS["reader"]), timeout=120,
        )  # fmt: skip
        assert asked.status_code == status, path


@pytest.fixture(scope="module")
def trained(new_project):
    project = new_project("fleet")
    shorten(project.folder / "params.yaml")
    project.run("dvc repro report")
    return project


PUBLISH = "PYTHONPATH=src python -m pipelines.stages publish"


@pytest.mark.parametrize("password", [None, "guessed"])
def test_publishing_without_the_right_password_is_refused_in_a_line(trained, worker_of, password):
    variables = {name: value for name, value in worker_of.items() if password or name == "MLFLOW_TRACKING_URI"}
    if password:
        variables["MLFLOW_TRACKING_PASSWORD"] = password
    output = trained.run(PUBLISH, fails=True, **variables)
    assert len(output.strip().splitlines()) == 1, output
    assert "401" in output
    assert "guessed" not in output
    assert not (trained.folder / "mlflow.db").exists(), "it fell back to a store of its own"
    assert not (trained.folder / "reports/published.json").exists()


def test_publishing_to_postgresql_and_s3(trained, worker_of, database, store):
    sent = trained.run(PUBLISH, patience=4800, **worker_of)
    count = int(sent.partition(" of ")[2].split()[0])
    assert f"uploaded {count} of {count}" in sent
    assert "uploaded 0 of" in trained.run(PUBLISH, **worker_of)
    select = "select (select count(*) from runs), (select count(*) from model_versions)"
    runs, versions = map(int, query(select, database="mlflow", user="mlflow", **database).split("|"))
    weights = [key for key in objects(store, "mlflow") if key.endswith(".safetensors")]
    assert runs > count  # with those of the seeds
    assert len(weights) >= versions > 0
    assert not (trained.folder / "mlflow.db").exists()
    code = 'from rankgrad.sorters import load_sorter; print(load_sorter("models:/sorter-comparator@champion"))'
    assert "Comparator" in trained.run(f"python -c '{code}'", PYTHONPATH="src", **worker_of)
