"""Sweeps: which points there are, the folder that each has, and the same bits whatever runs them."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from ruamel.yaml import YAML
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.config.schema import ParamsError, load
from pipelines.flows import sweep as flow
from pipelines.flows.points import Point, Result, _own_folder, points, snapshot
from pipelines.flows.sweep import _compared, _finished, tables

ROOT = Path(__file__).parents[1]
RATE = "training.label_ranking.scorer.optimizer.args.lr"
RLSEP, LSEP, MSE = "label_ranking-rlsep", "label_ranking-lsep", "memorability-mse"


@pytest.fixture
def _in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("_in_root")
def test_points_are_the_product_of_runs_seeds_and_values():
    found = points([RLSEP, LSEP], {RATE: [0.001, 0.003]}, [1, 2, 3])
    assert [(one.run, one.seed, one.changes[RATE]) for one in found] == [
        (run, seed, rate) for run in (RLSEP, LSEP) for seed in (1, 2, 3) for rate in (0.001, 0.003)
    ]
    assert len({one.name for one in found}) == 12
    assert found[0].settings == {f"runs.{RLSEP}.seed": 1, RATE: 0.001}
    assert found == points([RLSEP, LSEP], {RATE: [0.001, 0.003]}, [1, 2, 3])


@pytest.mark.usefixtures("_in_root")
def test_a_key_of_one_runs_block_concerns_that_run_and_those_that_start_from_it():
    only = points([RLSEP, LSEP, MSE], {f"runs.{RLSEP}.loss.args.pairs": [None, 10]})
    assert [(one.run, list(one.changes.values())) for one in only] == [
        (RLSEP, [None]), (RLSEP, [10]), (LSEP, []), (MSE, [None]), (MSE, [10]),
    ]  # fmt: skip
    both = points([RLSEP, LSEP], {"loss.args.pairs": [10]})
    assert [list(one.settings) for one in both] == [
        [f"runs.{run}.loss.args.pairs", f"runs.{run}.seed"] for run in (RLSEP, LSEP)
    ]


@pytest.mark.usefixtures("_in_root")
@pytest.mark.parametrize(
    ("runs", "changes", "seeds", "said"),
    [
        (["label_ranking-rlsp"], {}, None, "no run 'label_ranking-rlsp' in params.yaml; there are label_ranking-cross"),
        ([], {}, None, "no run is named"),
        ([RLSEP, RLSEP], {}, None, "runs has 'label_ranking-rlsep' twice"),
        ([RLSEP], {}, [1, 1], "seeds has 1 twice"),
        ([RLSEP], {}, [], "no seed"),
        ([RLSEP], {}, ["one"], "params.yaml with label_ranking-rlsep.seed=\"one\": runs.label_ranking-rlsep.seed: "),
        ([RLSEP], {RATE: []}, None, "has no value to try"),
        ([RLSEP], {RATE: [-1.0]}, None, "params.yaml with training.label_ranking.scorer.optimizer.args.lr=-1.0"),
        ([RLSEP], {"training.label_rankin.scorer.shift": [1]}, None, "no 'label_rankin' for training.label_rankin"),
        ([RLSEP], {"training.label_ranking.scorer.shfit": [1]}, None, "shfit: unknown key; there are batch_size"),
        ([RLSEP], {"loss.args.pears": [1]}, None, "unknown option; rlsep takes pairs"),
        ([RLSEP], {"ranked_mnist.canvas.width": [1]}, None, "no 'width' for ranked_mnist.canvas.width"),
        ([RLSEP], {"seed": [1, 2]}, None, "give seeds (--seeds)"),
        ([RLSEP], {f"runs.{LSEP}.loss.args.pairs": [1]}, None, f"concerns none of {RLSEP}"),
        ([RLSEP], {"training.retrieval.batch_size": [32]}, None, f"concerns none of {RLSEP}"),
    ],
)  # fmt: skip
def test_an_impossible_sweep_is_refused_in_a_line(runs, changes, seeds, said):
    with pytest.raises(ParamsError) as refused:
        points(runs, changes, seeds)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("_in_root")
def test_a_prefect_server_that_does_not_answer_is_told_in_a_line():
    with temporary_settings({PREFECT_API_URL: "http://user:secret@127.0.0.1:1/api"}):
        done = CliRunner().invoke(app, ["sweep", RLSEP])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(
        "sweep: the Prefect server http://127.0.0.1:1/api does not take it ("
    )
    assert "secret" not in done.output


def _result(run: str, seed: int, rate: float, value: float) -> Result:
    point = Point(f"{run}-{seed}", run, seed, "memorability", {"lr": rate}, {})
    return Result(point, [], "", {"spearman": value}, pd.DataFrame())


def test_a_table_has_the_mean_of_several_seeds():
    rows = tables([_result(MSE, 1, 0.1, 0.5), _result(MSE, 2, 0.1, 0.7), _result(MSE, 1, 0.2, 0.25)])["memorability"]
    assert rows.to_dict("list") == {
        "run": [MSE] * 4,
        "lr": ["0.1", "0.1", "0.1", "0.2"],
        "seed": ["1", "2", "mean of 2", "1"],
        "Spearman": ["0.5000", "0.7000", "0.6000 ± 0.1414", "0.2500"],
    }


def test_a_sweeps_own_run_has_its_table_and_its_plot(tmp_path):
    history = pd.DataFrame({"epoch": [1, 2], "spearman": [0.1, 0.2]})
    results = [replace(_result(MSE, seed, 0.1, 0.5), history=history) for seed in (1, 2)]
    finished = _compared(results, "rates", "key", tmp_path, {})
    assert f"| {MSE} | 0.1 | mean of 2 | 0.5000 ± 0.0000 |" in (tmp_path / "results.md").read_text()
    assert finished.files["figures"] == [tmp_path / "results.md"]
    assert (tmp_path / "points.png").stat().st_size > 0


@pytest.mark.usefixtures("_in_root")
def test_a_point_is_sent_with_the_params_of_its_run_and_the_data_that_went_in(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(flow, "learning_curves", lambda path, history, title: drawn.append((path, title)))
    history = pd.DataFrame({"epoch": [1, 2], "spearman": [0.1, 0.2]})
    train = {
        "deps": [{"path": "data/clips", "md5": "1f"}, {"path": "src/rankops/ranks.py", "md5": "2e"}], "outs": ["model"],
        "params": {"params.yaml": {f"runs.{MSE}": {"seed": 3}, "training.memorability": {"head": {"epochs": 2}}}},
    }  # fmt: skip
    evaluate = {"deps": [], "outs": ["metrics"], "params": {"params.yaml": {"evaluate": {"resamples": 9}}}}
    result = replace(_result(MSE, 3, 0.1, 0.5), entries=[train, evaluate], metrics="{}", history=history)
    sent = _finished(result, "of the sweep", tmp_path / "point", load())
    assert (sent.name, sent.experiment, sent.version) == (f"{MSE}-3", "sweeps", None)
    assert sent.params == {"seed": 3, "training.head.epochs": 2, "evaluate.resamples": 9, "lr": "0.1"}
    assert sent.metrics == {"spearman": 0.5}
    assert sent.tags == {
        "run": MSE, "task": "memorability", "seed": "3", "dvc_experiment": f"{MSE}-3", "loss": "mse",
        "point.lr": "0.1", "input.data/clips": "1f",
    }  # fmt: skip
    assert drawn == [(tmp_path / "point/learning_curves.png", f"{MSE}-3")]
    assert pd.read_csv(tmp_path / "point/history.csv").equals(history)
    # Known again by what it is made of: the sweep, its name, outputs and params.
    other = replace(result, entries=[train | {"outs": ["another"]}, evaluate])
    keys = [
        _finished(one, of, tmp_path / str(number), load()).key
        for number, (one, of) in enumerate(((result, "of the sweep"), (result, "of another"), (other, "of the sweep")))
    ]
    assert keys[0] == sent.key
    assert len(set(keys)) == 3


def test_what_another_code_began_is_known_as_such_and_other_params_or_documents_are_not(tmp_path):
    for file in ("dvc.yaml", "pipelines/stages/runner.py", "src/rankops/ranks.py", "params.yaml", "README.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("old")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    person = ("-c", "user.name=tests", "-c", "user.email=t@example.org")
    for words in (("add", "--all"), (*person, "commit", "--quiet", "--message", "start")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    codes = [snapshot(tmp_path).code]
    for file in ("params.yaml", "README.md", "dvc.yaml", "pipelines/stages/runner.py", "src/rankops/ranks.py"):
        (tmp_path / file).write_text("new")
        codes.append(snapshot(tmp_path).code)
    assert codes[0] == codes[1] == codes[2]
    assert len(set(codes)) == 4


@pytest.fixture
def small(tmp_path):
    """A project with one stage that reads a file which git ignores, and with what is not committed."""
    folder = tmp_path / "project"
    (folder / "data/raw/mnist").mkdir(parents=True)
    for part in ("src", "pipelines"):
        (folder / part).mkdir()
        (folder / part / "code.py").write_text("")
    (folder / ".gitignore").write_text(
        "/data/raw/*\n!/data/raw/mnist/\n/data/raw/mnist/*\n!/data/raw/mnist/README.md\n"
    )
    (folder / "data/raw/mnist/README.md").write_text("tracked")
    (folder / "data/raw/mnist/images").write_text("ignored")
    (folder / "data/raw/photos").mkdir()
    (folder / "data/raw/photos/1.jpg").write_text("ignored too")
    (folder / "params.yaml").write_text("x: 1\n")
    (folder / "dvc.yaml").write_text("stages: {}\n")
    commands = (
        "git init --quiet", "dvc init --quiet", "git config user.name tests", "git config user.email t@example.org",
        "git add --all", "git commit --quiet --message start",
    )  # fmt: skip
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DO_NOT_TRACK": "1"}
    for command in commands:
        subprocess.run(command.split(), cwd=folder, check=True, env=environment)
    (folder / "params.yaml").write_text("x: 2\n")
    (folder / "new.txt").write_text("not known to git")
    return folder


def test_a_point_has_the_project_as_it_was_and_leaves_it_alone(small):
    before = subprocess.run(["git", "status", "--porcelain"], cwd=small, capture_output=True, text=True).stdout
    checkout = snapshot(small)
    (small / "params.yaml").write_text("x: 3\n")
    with _own_folder(checkout, "point") as folder:
        assert (folder / "params.yaml").read_text() == "x: 2\n"
        assert (folder / "new.txt").read_text() == "not known to git"
        assert (folder / "data/raw/mnist/README.md").read_text() == "tracked"
        assert (folder / "data/raw/mnist/images").read_text() == "ignored"
        assert (folder / "data/raw/photos/1.jpg").read_text() == "ignored too"
        assert str(small / ".dvc/cache") in (folder / ".dvc/config.local").read_text()
    assert not folder.exists()
    (small / "params.yaml").write_text("x: 2\n")
    after = subprocess.run(["git", "status", "--porcelain"], cwd=small, capture_output=True, text=True).stdout
    assert after == before


def test_a_points_folder_goes_when_its_process_is_killed(small):
    code = (
        "import sys, time; from pathlib import Path; from pipelines.flows.points import _own_folder, snapshot\n"
        f"with _own_folder(snapshot(Path({str(small)!r})), 'point') as folder:\n"
        "    print(folder, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONPATH": "src"}, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    folder = Path(process.stdout.readline().strip())
    assert (folder / "params.yaml").is_file()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list(folder.parent.glob("point-*"))


def test_what_a_power_cut_left_of_a_point_goes_with_the_next_and_what_is_in_use_stays(small):
    checkout = snapshot(small)
    parent = small / ".dvc/tmp/sweeps"
    with _own_folder(checkout, "one") as used:
        left = parent / "point-left"
        left.mkdir()
        (left / "params.yaml").touch()
        (parent / "point-left.used").touch()
        with _own_folder(checkout, "other"):
            assert not left.exists()
            assert (used / "params.yaml").is_file()
    assert not list(parent.glob("*.used"))


SWEEP = f"rankops sweep {RLSEP} {LSEP} --seeds 1,2 --set {RATE}=0.001,0.003"


def processes_below(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder or below."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def until(holds, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


def experiments(project) -> dict[str, str]:
    """What dvc.lock says in each DVC experiment, by name."""
    references = project.run("git for-each-ref --format='%(refname)' refs/exps").split()
    return {name.split("/")[-1]: project.run(f"git show {name}:dvc.lock") for name in references}


def sent(project) -> tuple[mlflow.entities.Run, list[mlflow.entities.Run]]:
    """The one sweep in a project's store, and its points."""
    client = mlflow.MlflowClient(f"sqlite:///{project.folder}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("sweeps").experiment_id])
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) == len(runs) - 1
    return parent, children


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_or_on_dask_a_sweep_ends_with_the_same_bits(new_project, tmp_path):
    serial, parallel = new_project("serial"), new_project("dask")
    for project, home in ((serial, tmp_path / "one"), (parallel, tmp_path / "two")):
        home.mkdir()
        project.environment |= {"HOME": str(home)}
        # Long enough to be killed in the middle, and not committed: a sweep takes the files as they are.
        (project.folder / "params.yaml").write_text(project.read("params.yaml").replace("epochs: 2", "epochs: 6"))
    before = serial.run("git status --porcelain")
    scratch = serial.folder / ".dvc/tmp/sweeps"

    process = subprocess.Popen(
        [*SWEEP.split(), "--workers", "2"], cwd=serial.folder, env=serial.environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert until(lambda: list(serial.folder.glob(".checkpoints/sweeps/*/train/*/*/*")), 900)
    process.kill()
    process.wait()
    assert until(lambda: not processes_below(serial.folder), 30), processes_below(serial.folder)
    assert until(lambda: not [path for path in scratch.iterdir() if path.is_dir()], 30)

    said = serial.run(SWEEP)
    assert "goes on from" in said
    assert serial.run("git status --porcelain") == before
    assert not [path for path in scratch.iterdir() if path.is_dir()]
    assert not list(serial.folder.glob(".checkpoints/sweeps/*"))
    assert not processes_below(serial.folder)
    parallel.run(f"{SWEEP} --workers 2 --dask local")
    assert not processes_below(parallel.folder)

    assert len(experiments(serial)) == 8
    assert experiments(serial) == experiments(parallel)
    for name, lock in experiments(serial).items():
        outs = {out["path"]: out["md5"] for stage in YAML(typ="safe").load(lock)["stages"].values()
                for out in stage["outs"]}  # fmt: skip
        run = name.split("-seed")[0]
        metrics = outs[f"metrics/runs/{run}.json"]
        texts = [project.read(f".dvc/cache/files/md5/{metrics[:2]}/{metrics[2:]}") for project in (serial, parallel)]
        assert texts[0] == texts[1]
        assert 0 <= json.loads(texts[0])["ranked"]["accuracy"]["value"] <= 1
    models = {lock[lock.index("models/runs") :].split("md5: ")[1] for lock in experiments(serial).values()}
    assert len(models) > 1, "points differ"

    parent, children = sent(serial)
    assert parent.data.tags["points"] == "8 of 8"
    assert parent.data.params["seeds"] == "1, 2"
    assert {(run.data.tags["run"], run.data.tags["seed"], run.data.params[RATE]) for run in children} == {
        (run, seed, rate) for run in (RLSEP, LSEP) for seed in "12" for rate in ("0.001", "0.003")
    }
    assert all("ranked.accuracy" in run.data.metrics for run in children)
    assert {run.data.metrics["ranked.accuracy"] for run in children} == {
        run.data.metrics["ranked.accuracy"] for run in sent(parallel)[1]
    }

    again = serial.run(f"{SWEEP} --workers 2")
    assert "Running stage" not in again
    assert {run.info.run_id for run in sent(serial)[1]} == {run.info.run_id for run in children}
    assert sent(serial)[0].info.end_time == parent.info.end_time
