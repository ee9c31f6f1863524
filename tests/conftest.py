"""What several tests use: a tiny copy of the project, and a store of its own for each test."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import hypothesis
import pytest
import torch
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
SUBSET = ROOT / "data/raw/subset"


@cache
def _shipped() -> dict:
    from pipelines.config.schema import read

    return read(ROOT / "params.yaml")


def params_of(changes: dict, *, runs: bool = False) -> dict:
    """The project's params with changes put in; without its own runs, whose check takes seconds, unless asked for."""
    from pipelines.config.plan import merged

    return merged(deepcopy(_shipped()) | ({} if runs else {"runs": {}, "comparisons": {}}), changes)


hypothesis.settings.register_profile("tests", deadline=None, max_examples=60)
hypothesis.settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """The longest file first, so that no other process waits for it in the end."""
    items.sort(key=lambda item: item.path.name != "test_pipeline.py")


@pytest.fixture(autouse=True)
def _one_thread():
    """Tests are small: threads would only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def page():
    """A page of a browser without a screen."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on the path")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
    ):
        yield browser.new_page()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


class Project:
    """A copy of the project's files as git knows them, a repository of its own, at the tiny scale."""

    def __init__(self, folder: Path):
        from pipelines.config import scales

        self.folder = folder
        files = git("-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for file in filter(None, files):
            if (ROOT / file).exists() and file != "dvc.lock":
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, folder / file, follow_symlinks=False)
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),  # so that no cache or setting of the person's is used
            "OMP_NUM_THREADS": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "DO_NOT_TRACK": "1",
            "CUDA_VISIBLE_DEVICES": "",  # whose kernels do not give the same bits again
            "PYTHONHASHSEED": "0",  # by which DVC orders the stages of a new lock
        }
        for command in (
            "git init --quiet --initial-branch main",
            "git config user.name tests",
            "git config user.email tests@example.org",
            "git add --all",
            "git commit --quiet --message start",
        ):
            self.run(command)
        scales.apply("tiny", folder)

    def run(self, command: str, *, fails: bool = False, patience: int = 1800, **environment: str) -> str:
        """What a command prints; it must succeed, or fail where that is expected, within so many seconds."""
        running = subprocess.Popen(
            command, shell=True, cwd=self.folder, env=self.environment | environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output = "".join(running.communicate(timeout=patience))
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)  # dvc and its stages too, not the shell alone
            running.wait()
            raise
        assert (running.returncode != 0) == fails, f"{command} ended with {running.returncode}:\n{output[-6000:]}"
        return output

    def replace(self, file: str, old: str, new: str) -> None:
        edit(self.folder / file, old, new)

    def read(self, file: str) -> str:
        return (self.folder / file).read_text()


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text of a file wherever it stands."""
    text = file.read_text()
    assert old in text, f"{old!r} is not in {file}"
    file.write_text(text.replace(old, new))


def shorten(file: Path) -> None:
    """Leave three runs and two sorters of a project's params, for tests of what is done with them."""
    yaml = YAML()
    params = yaml.load(file)
    runs = ("label_ranking-rlsep", "memorability-mse", "memorability-spearman-laplace")
    params["runs"] = {name: params["runs"][name] for name in runs}
    for block in ("sorters", "benchmark_sorters"):
        params[block] = {name: params[block][name] for name in ("laplace", "comparator")}
    params["comparisons"] = {"score_ranking": params["comparisons"]["score_ranking"] | {"runs": [runs[-1]]}}
    yaml.dump(params, file)


@pytest.fixture(scope="session")
def new_project(tmp_path_factory):
    """Makes a tiny project in a folder of its own."""
    return lambda name: Project(tmp_path_factory.mktemp(name))


def done(*command: object, folder: Path = ROOT, fails: bool = False, **environment: str) -> str:
    """What a command prints, with the tests' own path and no variable but those given; it must succeed, or fail."""
    ended = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=600,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    assert (ended.returncode != 0) == fails, f"{command}: {ended.stdout}{ended.stderr}"
    return (ended.stdout + ended.stderr).strip()


def rankgrad(*words: object, code: int = 0, typed_in: Path | None = None) -> str:
    """Run a command of the command line in this process; return what it prints."""
    from typer.testing import CliRunner

    from pipelines.cli.app import app

    ended = CliRunner().invoke(app, [str(word) for word in words], obj=typed_in)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), repr(ended.exception)
    assert ended.exit_code == code, ended.output
    return ended.output


def git(*words: str) -> str:
    """What git prints, as a person of the tests."""
    person = ["-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    return subprocess.run(["git", *person, *words], capture_output=True, text=True, check=True).stdout.strip()


def small_ranker(*, size: int = 32):
    """An untrained label ranker of ten labels."""
    from rankgrad.io.checkpoints import build

    args = {"backbone": {"name": "convnet", "args": {"channels": [4, 8]}}, "head": {"name": "linear"}, "hidden": 8}
    network = build("models", "label_ranker", args, seed=1, outputs=10, colors=1).eval()
    image = {"kind": "image", "colors": 1, "height": size, "width": size}
    network.recipe |= {"task": "label_ranking", "input": image}
    return network


def small_network(task: str, kind: str, *, seed: int = 1):
    """An untrained network of pictures of 16 pixels, of the features age and price, or of words."""
    from rankgrad.datasets.files.splits import Captions, Split
    from rankgrad.inputs import features, image, text

    generator = torch.Generator().manual_seed(0)
    inputs, backbone = {
        "image": (lambda: image.of_tensor(torch.randint(0, 256, (4, 16, 16), generator=generator, dtype=torch.uint8)),
                  {"name": "convnet", "args": {"channels": [4, 6]}}),
        "features": (lambda: features.of_tensor(torch.randn(4, 2, generator=generator), ["age", "price"]),
                     {"name": "perceptron", "args": {"hidden": [4]}}),
        "text": (lambda: text.of_strings(["a red dress", "a hat", "shoes", "a blue hat"]),
                 {"name": "words", "args": {}}),
    }[kind]  # fmt: skip
    truth = {"label_ranking": torch.tensor([[1, 0, 2], [0, 1, 0], [1, 0, 0], [2, 1, 0]]),
             "query_ranking": torch.tensor([1.0, 0, 0, 1]),
             "score_ranking": torch.rand(4, generator=generator),
             "retrieval": Captions(["a red hat", "shoes"] * 2, torch.ones(4, dtype=torch.long), *[torch.arange(4)] * 2),
             }[task]  # fmt: skip
    split = Split(inputs(), truth, torch.tensor([2, 2]) if task == "query_ranking" else None,
                  classes=["dress", "hat", "shoe"] if task == "label_ranking" else None)  # fmt: skip
    model = {"name": "linear", "args": {}, "backbone": backbone}
    training = {"label_ranking": {"thresholds": {"hidden": 4}}, "retrieval": {"size": 8}}
    return task_of(task, training.get(task, {})).build(model, split, seed=seed).eval()


PHASE = {"epochs": 2, "patience": 2, "optimizer": {"name": "AdamW", "args": {"lr": 1e-3}},
         "schedule": {"name": "cosine"}}  # fmt: skip


def task_of(name: str, training: dict, **options):
    """A task with options of its training, as params.yaml has them; those that must be given have usual values."""
    from pipelines.config.plan import merged
    from pipelines.config.schema import typed
    from rankgrad import lookup

    task = lookup.find("tasks", name)
    inside = name in ("label_ranking", "query_ranking")
    usual = {phase: PHASE | ({"batch_size": 8} if inside else {}) for phase in task.blocks()}
    values = merged(deepcopy(usual | ({} if inside else {"batch_size": 8})), training)
    return task(typed(task.Training, values), **options)


def objective_of(loss: str, *, args: dict | None = None, **options):
    """What a network is trained on, from plain values."""
    from rankgrad.training.objective import Objective
    from rankgrad.training.options import Auxiliary, Component

    kinds = {"sorter_optimizer": Component, "auxiliary": Auxiliary}
    made = {key: kinds[key](**value) if key in kinds and value else value for key, value in options.items()}
    return Objective(Component(loss, args or {}), **made)


def smooth(number: int = 0, size: tuple[int, int] = (60, 40)):
    """A smooth color picture of its own, so that JPEG hardly changes it."""
    import numpy as np
    from PIL import Image

    across, down = np.meshgrid(np.linspace(0, 1, size[0]), np.linspace(0, 1, size[1]))
    waves = np.stack([across * 200, down * 200, (across + down + number / 97) % 1 * 60], -1)
    return Image.fromarray(waves.astype(np.uint8))


def encoded(image, kind: str = "PNG", **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_column(column: str, change):
    """A function that changes the list of a table's values in a column."""
    import pyarrow as pa

    def changed(table):
        field, values = table.schema.field(column), change(table[column].to_pylist())
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return changed


def with_cell(column: str, row: int, change):
    """A function that changes one cell of a table."""
    return with_column(column, lambda cells: [*cells[:row], change(cells[row]), *cells[row + 1 :]])


def refusal(params, name: str, **changes) -> str | None:
    """What validation says against the dataset in `data/<name>`, some of its splits changed for as long; or None."""
    import pyarrow.parquet as pq

    from pipelines.expectations import ExpectationsFailed
    from pipelines.stages import validate

    paths = {Path("data") / name / f"{split}.parquet": changes_of_split for split, changes_of_split in changes.items()}
    before, passed = {path: path.read_bytes() for path in paths}, Path(f"checks/{name}.passed")
    passed.unlink(missing_ok=True)
    try:
        for path, changes_of_split in paths.items():
            table = pq.read_table(path)
            for change in changes_of_split:
                table = change(table)
            pq.write_table(table, path)
        validate.main(params, name)
    except ExpectationsFailed as failed:
        assert not passed.exists()
        return str(failed)
    finally:
        for path, contents in before.items():
            path.write_bytes(contents)
    assert passed.read_text() == "passed\n"
    return None


def processes_in(folder: Path) -> list[int]:
    """Return the processes, this one aside, that work in a folder or below it."""
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ended = b" Z " in (process / "stat").read_bytes().rpartition(b")")[2][:4]
            if not ended and (process / "cwd").resolve().is_relative_to(folder) and int(process.name) != os.getpid():
                result.append(int(process.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return result


def wait_for(condition, patience: float = 60.0, *, every: float = 0.02):
    """Return what a function returns once that is true."""
    deadline = time.monotonic() + patience
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every)
    return result


@contextmanager
def listening(answer):
    """A server of this machine: its address, and the path, headers and JSON of each request that it has heard.

    `answer` makes a status and JSON of a request.
    """
    heard = []

    class Server(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            heard.append((self.path, self.headers, json.loads(body) if body else None))
            status, reply = answer(self)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        do_GET = do_POST = respond

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


def free_port() -> int:
    """Return a port of this machine that nothing listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory):
    """Tables take longer to make than a test."""
    import mlflow

    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow.MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@contextmanager
def store_in(folder: Path, database: Path):
    """Work in a new folder whose MLflow store is a copy of a database; yield its client."""
    import mlflow

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        shutil.copyfile(database, "mlflow.db")
        Path("src/rankgrad").mkdir(parents=True)  # registered models take the code along
        Path("src/rankgrad/__init__.py").touch()
        mlflow.set_tracking_uri(os.environ["MLFLOW_TRACKING_URI"])
        yield mlflow.MlflowClient()
        mlflow.set_tracking_uri(None)


@contextmanager
def killed_in(call: str, is_last):
    """What is done within it is killed in the call of MLflow's client that is the last one by its arguments."""
    import mlflow

    original = getattr(mlflow.MlflowClient, call)

    def called(client, *arguments, **options):
        if is_last(*arguments):
            raise SystemExit
        return original(client, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, call, called)
        with pytest.raises(SystemExit):
            yield


@pytest.fixture
def store(tmp_path, _empty_store):
    """The present folder is a new one, with an MLflow store of its own; the client of that."""
    with store_in(tmp_path, _empty_store) as client:
        yield client
