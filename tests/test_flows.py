"""What the flows are made of: DVC's graph, commands that end with their flow, and worktrees that leave main alone."""

import errno
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pipelines.flows.worktree import FOLDER, READY, _brought, opened
from prefect.exceptions import ParameterTypeError
from ruamel.yaml import YAML

from pipelines.config.schema import Compute, load
from pipelines.flows.graph import stages
from pipelines.flows.processes import CommandFailed, Commands, TransientFailure, _may_go_well
from pipelines.tracking.gate import Decision

from conftest import ROOT  # isort: skip


def test_the_graph_is_dvcs_and_each_stage_comes_after_what_it_needs():
    graph = stages(ROOT)
    declared = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    assert {name.split("@")[0] for name in graph} == {
        name for name, stage in declared.items() if stage.get("foreach") != "${real_data}"
    }
    order = list(graph)
    for stage, needs in graph.items():
        assert all(order.index(need) < order.index(stage) for need in needs)
    assert graph["train@label_ranking-rlsep"] == ["ranked_mnist", "validate@ranked_mnist"]
    assert order[-1] == "publish"


class TestCommands:
    def run(self, code: str, folder: Path, commands: Commands | None = None, **environment: str) -> str:
        return (commands or Commands()).run([sys.executable, "-c", code], folder=folder, environment=environment)

    def test_output_comes_back_and_progress_bars_do_not(self, tmp_path):
        code = "import os; print('one'); print(' 50%|#####', end='\\r'); print(os.getcwd(), os.environ['WHAT'])"
        assert self.run(code, tmp_path, WHAT="this") == f"one\n{tmp_path} this"

    def test_programs_are_those_of_its_own_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        assert Commands().run(["python", "-c", "import sys; print(sys.executable)"], folder=tmp_path) == sys.executable

    def test_a_failure_has_the_last_lines_and_is_not_tried_again(self, tmp_path):
        with pytest.raises(CommandFailed, match="ended with 1:\nparams.yaml: compute.threads: missing") as caught:
            self.run("import sys; sys.exit('params.yaml: compute.threads: missing')", tmp_path)
        assert not isinstance(caught.value, TransientFailure)

    @pytest.mark.parametrize(
        "said", ["failed to run: python, exited with -9", "failed to run: python, exited with 75",
                 "Unable to acquire lock"],
    )  # fmt: skip
    def test_what_may_be_over_the_next_time_is_known(self, tmp_path, said):
        with pytest.raises(TransientFailure):
            self.run(f"import sys; sys.exit({said!r})", tmp_path)

    def test_a_killed_command_may_go_well_the_next_time(self, tmp_path):
        with pytest.raises(TransientFailure):
            self.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)

    def test_stopping_ends_what_runs_with_its_children_and_starts_no_more(self, tmp_path):
        commands, errors = Commands(), []
        code = (
            "import subprocess, sys, time, pathlib\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            "pathlib.Path('child').write_text(str(child.pid)); time.sleep(60)"
        )

        def runs():
            try:
                self.run(code, tmp_path, commands)
            except CommandFailed as error:
                errors.append(error)

        thread = threading.Thread(target=runs)
        thread.start()
        wait_for(lambda: (tmp_path / "child").is_file() and (tmp_path / "child").read_text())
        commands.stop()
        thread.join(timeout=20)
        assert len(errors) == 1
        assert not isinstance(errors[0], TransientFailure)
        wait_for(lambda: not alive(int((tmp_path / "child").read_text())))
        with pytest.raises(CommandFailed, match="not started, the flow is ending"):
            self.run("print()", tmp_path, commands)

    def test_a_command_dies_with_the_process_that_ran_it(self, tmp_path):
        code = (
            "import pathlib, sys; from pipelines.flows.processes import Commands\n"
            "Commands().run([sys.executable, '-c', \"import os, pathlib, time; "
            "pathlib.Path('child').write_text(str(os.getpid())); time.sleep(60)\"], folder=pathlib.Path('.'))"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        )
        wait_for(lambda: (tmp_path / "child").is_file() and (tmp_path / "child").read_text(), patience=120)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_for(lambda: not alive(int((tmp_path / "child").read_text())))


def alive(process: int) -> bool:
    try:
        return b"Z" not in Path(f"/proc/{process}/stat").read_bytes().split(b") ")[1][:1]
    except FileNotFoundError:
        return False


def wait_for(condition, patience: float = 20.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def project(new_project):
    made = new_project("retrained")
    made.run("git add --all && git commit --quiet --message tiny")
    (made.folder / "data/raw/mnist/some-ubyte").write_text("raw")
    return made


def snapshot(folder: Path) -> int:
    return YAML(typ="safe").load(folder / "params.yaml")["data"]["snapshot"]


class TestWorktree:
    def test_it_has_a_branch_and_the_next_snapshot_and_leaves_main_alone(self, project):
        before = project.run("git rev-parse HEAD"), project.run("git status --porcelain")
        with opened(project.folder, advance=True) as worktree:
            assert worktree.branch.startswith("retrain/")
            assert (worktree.snapshot, worktree.resumed) == (2, False)
            assert snapshot(worktree.folder) == 2
            assert (worktree.folder / "data/raw/mnist/some-ubyte").read_text() == "raw"
            cache = subprocess.run(["dvc", "cache", "dir"], cwd=worktree.folder, capture_output=True, text=True)
            assert Path(cache.stdout.strip()) == project.folder / ".dvc/cache"
            # Killed here: the next one goes on with it, on its branch, at its snapshot.
        with opened(project.folder, advance=True) as again:
            assert (again.branch, again.snapshot, again.resumed) == (worktree.branch, 2, True)
            (again.folder / "dvc.lock").write_text("schema: '2.0'\n")
            again.commit("Retrain: done")
            again.remove()
        with opened(project.folder, advance=True) as later:
            assert (later.branch, later.snapshot) == (f"{worktree.branch}-2", 3)
            later.remove()
        assert (project.run("git rev-parse HEAD"), project.run("git status --porcelain")) == before
        assert not (project.folder / FOLDER).exists()
        assert "dvc.lock" in project.run(f"git show --stat {worktree.branch}")
        assert snapshot(project.folder) == 1

    @pytest.mark.parametrize("other_disk", [False, True])
    def test_one_that_is_gone_on_with_sees_the_raw_data_as_they_are_by_then(self, project, other_disk, monkeypatch):
        def refused(*_):
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        if other_disk:
            monkeypatch.setattr(os, "link", refused)
        raw = project.folder / "data/raw/photos"
        raw.mkdir()
        for name in ("labels.csv", "broken.jpg"):
            (raw / name).write_text("bad")
        with opened(project.folder, advance=False) as worktree:
            place = worktree.folder / "data/raw/photos"
            assert {path.name for path in place.iterdir()} == {"labels.csv", "broken.jpg"}
        mended = raw / "labels.csv.new"
        mended.write_text("good")
        mended.replace(raw / "labels.csv")
        (raw / "broken.jpg").unlink()
        with opened(project.folder, advance=False) as again:
            assert again.resumed
            assert {path.name: path.read_text() for path in place.iterdir()} == {"labels.csv": "good"}
            assert (again.folder / "data/raw/README.md").is_file()  # which git has
            again.remove()
        shutil.rmtree(raw)

    def test_one_whose_git_was_killed_can_commit_again(self, project):
        with opened(project.folder, advance=True) as worktree:
            for name in ("index.lock", "HEAD.lock", f"refs/heads/{worktree.branch}.lock"):
                lock = project.run(f"git -C {worktree.folder} rev-parse --path-format=absolute --git-path {name}")
                Path(lock.strip()).touch()
            (worktree.folder / "dvc.lock").write_text("schema: '2.0'\n")
            with pytest.raises(ValueError, match=r"index.lock': File exists"):
                worktree.commit("Retrain: done")
        with opened(project.folder, advance=True) as again:
            assert again.resumed
            again.commit("Retrain: done")
            assert project.run(f"git show {again.branch}:dvc.lock") == "schema: '2.0'\n"
            again.remove()
        project.run(f"git branch --quiet -D {again.branch}")

    def test_one_that_found_nothing_to_do_leaves_no_branch(self, project):
        known = project.run("git branch --list 'retrain/*'")
        with opened(project.folder, advance=False) as worktree:
            assert worktree.branch not in known
            worktree.remove()
        assert project.run("git branch --list 'retrain/*'") == known

    def test_one_that_git_was_killed_in_making_is_made_again(self, project):
        with opened(project.folder, advance=False) as worktree:
            pass
        (project.folder / READY).unlink()
        listed = Path(project.run(f"git -C {worktree.folder} rev-parse --absolute-git-dir").strip())
        (listed / "locked").write_text("initializing")  # as `git worktree add` has it until it comes to its end
        with opened(project.folder, advance=False) as again:
            assert not again.resumed
            again.remove()
        assert not listed.exists()

    def test_a_half_made_one_is_made_again(self, project):
        (project.folder / FOLDER).mkdir(parents=True)
        (project.folder / FOLDER / "dvc.yaml").write_text("half")
        with opened(project.folder, advance=False) as worktree:
            assert not worktree.resumed
            assert (worktree.folder / "dvc.yaml").read_text() == project.read("dvc.yaml")
            worktree.remove()
        assert not (project.folder / READY).exists()

    def test_one_whose_notes_were_not_written_whole_is_made_again(self, project):
        with opened(project.folder, advance=False) as worktree:
            pass
        (project.folder / READY).write_text("")
        with opened(project.folder, advance=False) as again:
            assert not again.resumed
            again.remove()
        project.run(f"git branch --quiet -D {worktree.branch}")

    def test_a_persons_signing_key_is_not_asked_for(self, project):
        project.run("git config commit.gpgsign true && git config gpg.program false")
        try:
            with opened(project.folder, advance=True) as worktree:
                assert snapshot(worktree.folder) == worktree.snapshot
                worktree.remove()
        finally:
            project.run("git config --unset commit.gpgsign && git config --unset gpg.program")

    @pytest.mark.parametrize("where", ["here", "elsewhere"])
    def test_a_branch_that_a_person_has_checked_out_is_left_to_them(self, project, tmp_path, where):
        if where == "here":
            project.run("git checkout --quiet -b retrain/2026-01-01")
        else:
            project.run(f"git worktree add --quiet -b retrain/2026-01-01 {tmp_path}/other")
        with opened(project.folder, advance=False) as worktree:
            assert worktree.branch != "retrain/2026-01-01"
            worktree.remove()
        project.run(f"git checkout --quiet main && git worktree remove --force {tmp_path}/other || true")
        with opened(project.folder, advance=False) as worktree:
            worktree.remove()
        assert "retrain/2026-01-01" not in project.run("git branch --list 'retrain/*'")

    def test_two_at_once_are_refused(self, project):
        code = (
            "import sys, time; from pipelines.flows.worktree import opened\n"
            f"with opened({str(project.folder)!r}, advance=False): print('open', flush=True); time.sleep(60)"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        )  # fmt: skip
        assert other.stdout.readline() == "open\n"
        with pytest.raises(ValueError, match="another retraining is at work there"):
            opened(project.folder, advance=False).__enter__()
        other.kill()  # the lock goes with it
        other.wait()
        with opened(project.folder, advance=False) as worktree:
            assert worktree.resumed
            worktree.remove()

    def test_one_of_an_earlier_commit_makes_way_and_its_snapshot_is_taken_again(self, project):
        with opened(project.folder, advance=True) as stuck:
            pass  # it failed, and would again
        project.run("git commit --quiet --allow-empty --message mended")
        with opened(project.folder, advance=False) as worktree:
            assert not worktree.resumed
            assert (worktree.snapshot, worktree.branch) == (stuck.snapshot, stuck.branch)
            assert project.run("git rev-parse HEAD").strip() in project.run(f"git rev-list {worktree.branch}")
            worktree.commit("Retrain: nothing")
            (worktree.folder / "dvc.lock").write_text("schema: '2.0' # results\n")
            worktree.commit("Retrain: done")  # killed before it was taken away
        project.run("git commit --quiet --allow-empty --message more")
        with opened(project.folder, advance=False) as later:
            assert later.branch != worktree.branch
            later.remove()
        assert worktree.branch in project.run("git branch --list 'retrain/*'")  # with its results

    def test_linked_raw_data_and_local_settings_of_dvc_come_along(self, project, tmp_path):
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy/images.parquet").write_text("linked")
        (project.folder / "data/raw/lamem").symlink_to(tmp_path / "copy")
        project.run("dvc remote add --quiet near ../near && dvc remote add --quiet --local far ../far")
        try:
            with opened(project.folder, advance=False) as worktree:
                assert (worktree.folder / "data/raw/lamem/images.parquet").read_text() == "linked"
                listed = subprocess.run(["dvc", "remote", "list"], cwd=worktree.folder, capture_output=True, text=True)
                found = dict(line.split()[:2] for line in listed.stdout.splitlines())
                assert found == {name: str(project.folder.parent / name) for name in ("near", "far")}
                worktree.remove()
        finally:
            project.run("dvc remote remove --quiet near && dvc remote remove --quiet --local far")
            (project.folder / "data/raw/lamem").unlink()

    def test_what_it_made_is_pushed_for_others_once(self, project, tmp_path):
        def open_for_team(checkout=project.folder, *, advance=False):
            return opened(checkout, advance=advance, remote="team")

        def retrained(worktree):
            subprocess.run(
                ["dvc", "repro", "--quiet", "score_vectors"], cwd=worktree.folder, check=True,
                env=os.environ | project.environment | {"PYTHONPATH": "src"},
            )  # fmt: skip
            worktree.commit("Retrain: done")

        with pytest.raises(ValueError, match="no git remote 'team'; there are none: `git remote add`"):
            open_for_team().__enter__()
        project.run(f"git init --quiet --bare {tmp_path}/team.git && git remote add team {tmp_path}/team.git")
        with pytest.raises(ValueError, match="DVC has no default remote.*`dvc remote add --default NAME ADDRESS`"):
            open_for_team().__enter__()
        project.run(f"dvc remote add --quiet --local --default shared {tmp_path}/shared")
        with open_for_team(advance=True) as worktree:
            retrained(worktree)
            assert worktree.is_new()
            (tmp_path / "shared").write_text("in the way")
            with pytest.raises(CommandFailed, match="dvc push --run-cache ended with"):
                worktree.share("team", Commands())
            (tmp_path / "shared").unlink()
            worktree.share("team", Commands())
            worktree.remove()
        with open_for_team() as again:  # an hourly one, which finds what this one left
            retrained(again)
            assert not again.is_new()
            again.remove()
        heads = project.run(f"git -C {tmp_path}/team.git for-each-ref --format='%(refname:short)'")
        assert heads.split() == [worktree.branch]
        assert len(list((tmp_path / "shared/files").rglob("*.dir"))) == 1
        # A container has a clone of its own, which lacks earlier branches: their names and snapshots are taken.
        project.run(
            f"git push --quiet team main && git clone --quiet --branch main {tmp_path}/team.git {tmp_path}/other"
        )
        other = tmp_path / "other"
        setup = f"git remote rename origin team && dvc remote add --quiet --local --default shared {tmp_path}/shared"
        subprocess.run(setup, shell=True, cwd=other, check=True)
        with open_for_team(other, advance=True) as elsewhere:
            assert elsewhere.snapshot == worktree.snapshot + 1
            assert elsewhere.branch not in heads.split()
        # It is killed, and a third machine takes its name in the meantime.
        taken = f"refs/remotes/team/{worktree.branch}:refs/heads/{elsewhere.branch}"
        project.run(f"git push --quiet team {taken}")
        with open_for_team(other, advance=True) as gone_on:
            assert (gone_on.resumed, gone_on.snapshot) == (True, elsewhere.snapshot)
            assert gone_on.branch not in {worktree.branch, elsewhere.branch}
            retrained(gone_on)
            assert gone_on.is_new()
            gone_on.share("team", Commands())
            gone_on.remove()
        heads = project.run(f"git -C {tmp_path}/team.git for-each-ref --format='%(refname:short)' refs/heads/retrain")
        assert set(heads.split()) == {worktree.branch, elsewhere.branch, gone_on.branch}


def test_prefect_yaml_names_flows_that_are_there_with_parameters_that_they_take():
    import importlib
    import inspect

    for deployment in YAML(typ="safe").load(ROOT / "prefect.yaml")["deployments"]:
        file, name = deployment["entrypoint"].split(":")
        flow = getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)
        for schedule in deployment["schedules"]:
            assert set(schedule.get("parameters", {})) <= set(inspect.signature(flow.fn).parameters)


def test_a_retraining_without_workers_is_refused():
    from pipelines.flows.retrain import retrain

    with pytest.raises(ParameterTypeError, match="greater than or equal to 1"):
        retrain.validate_parameters({"workers": 0})
    assert retrain.validate_parameters({"workers": 2})["workers"] == 2


@pytest.mark.parametrize(
    ("visible", "device", "workers", "expected"),
    [
        (None, "auto", None, ["0", "1"]),
        ("2, 3", "cuda", 3, ["2", "3", "2"]),
        ("GPU-5c2e,GPU-91aa,99", "auto", None, ["GPU-5c2e", "GPU-91aa"]),  # CUDA ends at the first that is not there
        ("2,3", "cpu", 2, [None, None]),
    ],
)
def test_stages_that_run_at_once_share_the_gpus_that_the_worker_may_use(
    monkeypatch, visible, device, workers, expected
):
    from pipelines.flows import retrain

    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    slots = retrain._slots(workers, Compute(threads=1, device=device, precision="no", compile=False))
    assert [slot.get("CUDA_VISIBLE_DEVICES") for slot in slots] == expected


@pytest.mark.parametrize(("tries", "programs"), [(1, ["dvc"]), (2, [sys.executable, "dvc"])])
def test_what_a_killed_dvc_left_half_written_is_mended_before_the_next_try(tmp_path, monkeypatch, tries, programs):
    from pipelines.flows import retrain

    class Listed:
        def __init__(self):
            self.ran = []

        def run(self, command, *, folder, environment):
            self.ran.append(command[0])

    monkeypatch.setattr(retrain, "task_run", SimpleNamespace(run_count=tries))
    slots = queue.Queue()
    slots.put({})
    retrain.run_stage.fn("train@label_ranking-rlsep", tmp_path, commands := Listed(), slots, {})
    assert commands.ran == programs
    assert slots.qsize() == 1


def test_mending_is_by_the_code_of_the_worktree(tmp_path):
    from pipelines.flows import retrain

    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/__init__.py").touch()
    (tmp_path / "pipelines/cli/app.py").write_text("import sys; print(__file__, *sys.argv[1:])")
    said = Commands().run(retrain.MEND, folder=tmp_path, environment={"PYTHONPATH": "src"})
    assert said == f"{tmp_path}/pipelines/cli/app.py mend"


def test_a_retraining_whose_models_the_gate_could_not_judge_is_kept_and_ends_as_failed(tmp_path, monkeypatch):
    from pipelines.flows import retrain

    done = []
    worktree = SimpleNamespace(
        folder=tmp_path, project=tmp_path, branch="retrain/2026-11-23", snapshot=2,
        commit=lambda message: done.append(message) or "0123456789abcdef", remove=lambda: done.append("removed"),
    )  # fmt: skip
    decisions = [
        Decision("sorter-lstm", "2", "1", True, "better", "negative_l1", {}),
        Decision("label_ranking", None, None, False, "no gate split", "", {}, failed=True),
    ]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    for name, replaced in {
        "load": lambda path: load(ROOT / "params.yaml"), "stages": lambda folder: {}, "judge": lambda *_: decisions,
        "get_run_logger": lambda: logging.getLogger("tests"),
    }.items():  # fmt: skip
        monkeypatch.setattr(retrain, name, replaced)
    for name in ("watch", "publish", "show", "_shown"):
        monkeypatch.setattr(retrain, name, lambda *_: None)
    commands = SimpleNamespace(run=lambda *_, **__: "")
    state = retrain._retrained(worktree, commands, reason="new data", workers=1, gate=True, push=None)
    assert state.is_failed()
    assert state.message == "retrain/2026-11-23 at 0123456789; promoted: sorter-lstm 2; not judged: label_ranking"
    assert done == ["Retrain: snapshot 2 (new data)", "removed"]


def test_a_retraining_does_not_fall_back_on_other_digits(tmp_path):
    from pipelines.flows.retrain import _refuse_other_digits

    params = load(ROOT / "params.yaml")
    raw = tmp_path / "data/raw/mnist"
    raw.mkdir(parents=True)
    (raw / "README.md").write_text("Put MNIST here.")
    _refuse_other_digits(tmp_path, params)  # nothing was made yet
    (tmp_path / "dvc.lock").write_text(
        'schema: "2.0"\nstages: {digits: {cmd: make, deps: [{path: data/raw/mnist, hash: md5, nfiles: 5}]}}\n'
    )
    with pytest.raises(ValueError, match=r"data/raw/mnist has 1 files, .* was made with 5, .* rankops fetch"):
        _refuse_other_digits(tmp_path, params)
    chosen = params.digits.model_copy(update={"source": "bundled"})  # by a person
    _refuse_other_digits(tmp_path, params.model_copy(update={"digits": chosen}))


def test_the_servers_records_are_json(tmp_path, monkeypatch):
    """A record of a process that is gone, or of another program's, is not taken for a server."""
    from pipelines.ops import servers

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".servers").mkdir()
    server = servers.servers(prefect_port=1, mlflow_port=2)[1]
    for process in (os.getpid(), 2**22 + 1):
        server.record.write_text(json.dumps({"process": process}))
        assert servers.stop(server) == "mlflow was not running"


def test_only_what_may_be_over_the_next_time_is_tried_again():
    def ended_with(error):
        def result():
            if error is not None:
                raise error

        return _may_go_well(None, None, SimpleNamespace(result=result))

    assert ended_with(TransientFailure("killed"))
    assert not any(map(ended_with, [CommandFailed("params.yaml: no"), ValueError("no"), None]))


@pytest.mark.parametrize(
    "said", ["the MLflow store http://127.0.0.1:5000 does not answer: refused", "the MLflow store failed: OSError",
             "publish@runs: another process runs this stage; wait for it", "'/data' is busy, it is being blocked by"],
)  # fmt: skip
def test_a_server_that_is_away_and_a_stage_beside_may_be_over_the_next_time(tmp_path, said):
    with pytest.raises(TransientFailure):
        Commands().run([sys.executable, "-c", f"import sys; sys.exit({said!r})"], folder=tmp_path)


@pytest.mark.parametrize("other_disk", [False, True])
def test_raw_data_of_the_same_length_are_brought_anew(tmp_path, other_disk, monkeypatch):
    def refused(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if other_disk:
        monkeypatch.setattr(os, "link", refused)
    scores, folder = tmp_path / "data/raw/scores.csv", tmp_path / ".retrain/worktree"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    scores.parent.mkdir(parents=True)
    for number, text in enumerate(("1.jpg,0.1", "1.jpg,0.9"), 1):
        fresh = tmp_path / "fresh.csv"
        fresh.write_text(text)
        os.utime(fresh, (number, number))
        fresh.replace(scores)
        _brought(tmp_path, folder)
        assert (folder / "data/raw/scores.csv").read_text() == text
    copied = (folder / "data/raw/scores.csv").stat().st_ino
    _brought(tmp_path, folder)
    assert (folder / "data/raw/scores.csv").stat().st_ino == copied  # what is the same is not copied again
