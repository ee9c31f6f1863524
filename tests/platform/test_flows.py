"""What the flows are made of: DVC's graph, commands that end with their flow, clones that leave the project alone."""

import gc
import importlib
import inspect
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path

import pytest
from dvc.config import Config
from dvc.repo import Repo
from filelock import FileLock
from prefect.exceptions import ParameterTypeError
from prefect.logging import disable_run_logger
from ruamel.yaml import YAML

from pipelines.config import ParamsError, load, resolve
from pipelines.flows.branches import COMMIT, commits_in_use, is_new, remove_old, share
from pipelines.flows.changes import planned
from pipelines.flows.checkout import FOLDER, commit, fresh_checkout
from pipelines.flows.promote import outcome
from pipelines.flows.retrain import retrain
from pipelines.flows.retraining import IN_IMAGE, Request, retrain_here
from pipelines.ops import status
from pipelines.ops.graph import Stage, changed_outputs, stages
from pipelines.ops.processes import CommandFailed, Commands, TransientFailure
from pipelines.ops.side_by_side import Plan, slots_of
from pipelines.tracking import registry
from pipelines.tracking.gate import Decision
from rankgrad.io.written import printable

from conftest import ROOT, done, git, listening, processes_in, shorten, wait_for  # isort: skip


@pytest.fixture(autouse=True)
def _no_flow_run():
    with disable_run_logger():
        yield


def test_the_graph_is_dvcs_with_each_stage_after_what_it_needs():
    graph = stages(ROOT)
    order = list(graph)
    for name, stage in graph.items():
        assert all(order.index(need) < order.index(name) for need in stage.needs)
        assert stage.computes == name.startswith(("pretrain", "train", "evaluate"))
    assert "validate@ranked_mnist" in graph["train@label_ranking-rlsep"].needs
    for evaluated in (name for name in order if name.startswith("evaluate@")):  # as soon as it can
        ready = max(order.index(need) for need in graph[evaluated].needs)
        assert all(name.startswith("evaluate@") for name in order[ready + 1 : order.index(evaluated)]), evaluated
    alone = {*stages(ROOT, ["evaluate@memorability-spearman-lstm"])}  # with the sorter, and the model of its start
    assert {"pretrain@lstm", "train@label_ranking-rlsep"} < alone < {*graph}
    trained, every = {*stages(ROOT, ["train"])}, {name for name in graph if name.startswith("train@")}
    assert every < trained < {*graph} - {"compare"}
    with pytest.raises(ValueError, match="comapre: no such stage; did you mean compare"):
        stages(ROOT, ["comapre"])


def test_raw_data_that_dvc_keeps_are_no_stage_and_changed_outputs_are_seen(tmp_path, monkeypatch):
    """As `rankgrad fetch mnist` leaves them."""
    (tmp_path / "raw").write_text("1")
    (tmp_path / "dvc.yaml").write_text("stages: {made: {cmd: cp raw made, deps: [raw], outs: [made]}}\n")
    git("-C", str(tmp_path), "init", "--quiet")
    with Repo.init(str(tmp_path)) as repo:
        repo.add(str(tmp_path / "raw"))
    assert stages(tmp_path, ["made"]) == stages(tmp_path) == {"made": Stage(needs=[], computes=False)}
    assert changed_outputs(tmp_path) == set()
    monkeypatch.chdir(tmp_path)
    with Repo() as repo:
        repo.reproduce()
    assert changed_outputs(tmp_path) == set()
    (tmp_path / "made").write_text("2")
    assert changed_outputs(tmp_path) == {"made"}


class TestCommands:
    def run(self, code: str, folder: Path, commands: Commands | None = None, **environment: str) -> str:
        return (commands or Commands()).run(sys.executable, "-c", code, folder=folder, **environment).output

    def test_output_comes_back_without_progress_bars_passwords_and_control_characters(self, tmp_path):
        bar, secret = r"print(' 50%|#####', end='\r')", r"print('to http://u:s3cret@host/a \x1b]0;owned\x07')"
        code = f"import os, sys; {bar}; {secret}; print(os.environ['WHAT'], flush=True)"
        output = self.run(code, tmp_path, WHAT="this")
        assert output.startswith(f"to http://host/a {printable(chr(27))}")
        assert output.endswith("\nthis")
        with pytest.raises(CommandFailed, match="19\nno rows$") as failure:
            self.run("import sys; print(*range(20), sep='\\n', flush=True); sys.exit('no rows')", tmp_path)
        assert "\n7\n" not in str(failure.value)

    @pytest.mark.parametrize("ending", ["'is busy, it is being blocked by'", "os.kill(os.getpid(), 9)"])
    def test_what_a_retry_may_mend_is_tried_again(self, tmp_path, ending):
        with pytest.raises(TransientFailure):
            self.run(f"import os, sys; sys.exit({ending})", tmp_path)

    @pytest.mark.parametrize(
        ("error", "exit_status", "kind"),
        [(None, None, TransientFailure), ("away", status.TRANSIENT, TransientFailure), ("no rows", 1, CommandFailed)],
    )
    def test_why_a_stage_failed_is_what_its_status_file_says(self, tmp_path, monkeypatch, error, exit_status, kind):
        monkeypatch.chdir(tmp_path)
        status.began("train@a")
        if error is not None:
            status.failed("train@a", error, exit_status)
        with pytest.raises(CommandFailed) as failure:
            Commands().run_stage(sys.executable, "-c", "import sys; sys.exit(255)", stage="train@a", folder=tmp_path)
        assert failure.type is kind
        assert str(failure.value) == f"train@a: {error or 'it was killed'}"
        status.succeeded("train@a")
        assert status.read(tmp_path, "train@a") is None

    def test_stopping_ends_what_runs_with_its_children_and_starts_no_more(self, tmp_path):
        commands = Commands()
        code = (
            "import subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; open(\"child\", \"w\"); time.sleep(60)'])\n"
            "time.sleep(60)"
        )
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.run, code, tmp_path, commands)
            wait_for((tmp_path / "child").exists)
            commands.stop()
            assert type(running.exception(timeout=20)) is CommandFailed
        wait_for(lambda: not processes_in(tmp_path), patience=5.0)
        with pytest.raises(CommandFailed, match="not started"):
            self.run("open('late', 'w')", tmp_path, commands)
        assert not (tmp_path / "late").exists()


def sh(folder: Path, command: str) -> str:
    return done("sh", "-c", command, folder=folder, GIT_CONFIG_GLOBAL="/dev/null", HOME=str(folder))


def repro(folder: Path) -> None:
    with chdir(folder), Repo() as repo:
        repo.reproduce()


def dvc_remote(folder: Path, name: str, url: str, *, file: str = "config.local") -> None:
    """Add a default remote, whose path is relative to .dvc."""
    (folder / ".dvc" / file).write_text(f"[core]\n remote = {name}\n['remote \"{name}\"']\n url = {url}\n")


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A project after it has made the data of snapshot 1."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "data/raw/mnist").mkdir(parents=True)
    (folder / "params.yaml").write_text("# sizes\ndata: {snapshot: 1, growth: 0.1}  # of rows\n")
    (folder / "dvc.yaml").write_text(
        "stages: {made: {cmd: cat data/raw/mnist/* > made, deps: [data/raw/mnist], params: [data], outs: [made]}}\n"
    )
    (folder / "data/raw/mnist/README.md").write_text("MNIST")
    (folder / ".gitignore").write_text("/data/raw/*\n!/data/raw/mnist/\n/data/raw/mnist/*\n!*.md\n/.retrain/\n")
    sh(folder, "git init -q -b main && git config user.name a && git config user.email a@b")
    Repo.init(str(folder)).close()
    repro(folder)
    sh(folder, "git add -A && git commit -qm main")
    return folder


@pytest.fixture
def project(tmp_path, template) -> Path:
    return Path(shutil.copytree(template, tmp_path / "my project é", symlinks=True))


def snapshot(folder: Path, revision: str = "HEAD") -> int:
    return YAML(typ="safe").load(sh(folder, f"git show {revision}:params.yaml"))["data"]["snapshot"]


class TestCheckout:
    def test_a_branch_gets_the_next_snapshot_and_the_project_stays_as_it_is(self, project):
        before = sh(project, "git rev-parse HEAD && git status --porcelain && cat params.yaml dvc.lock")
        with fresh_checkout(project, advance=True) as (folder, number):
            assert number == snapshot(folder) == 2  # committed at once: runs in MLflow name that commit
            repro(folder)
            commit(folder, "Retrain: done")
            assert is_new(project, folder)
            branch = share(project, folder)
        assert not (project / FOLDER).exists()
        assert sh(project, f"git diff --name-only main {branch}").split() == ["dvc.lock", "params.yaml"]
        assert sh(project, "git rev-parse HEAD && git status --porcelain && cat params.yaml dvc.lock") == before
        with fresh_checkout(project, advance=False) as (folder, number):
            assert number == 2
            repro(folder)
            commit(folder, "Retrain: changes")
            assert not is_new(project, folder)
        with fresh_checkout(project, advance=True) as (folder, number):
            assert number == 3

    def test_no_snapshot_is_taken_before_a_table_has_another_delivery(self, project):
        params = "datasets: {photos: {name: table, raw: data/raw/photos, args: {file: photos.csv}}}\n"
        with (project / "params.yaml").open("a") as file:
            file.write(params)
        sh(project, "git commit -qam table")
        raw = project / "data/raw/photos"
        (raw / "first").mkdir(parents=True)
        for delivery, number in ((None, 1), ("2026-11-30", 2), (None, 2)):
            if delivery:
                (raw / delivery).mkdir()
            with fresh_checkout(project, advance=True) as (folder, taken):
                assert taken == number
                if is_new(project, folder):
                    share(project, folder)

    def test_what_a_killed_one_left_is_replaced_and_its_checkpoints_are_kept(self, project):
        folder, number = fresh_checkout(project, advance=True).__enter__()
        (folder / ".checkpoints/train").mkdir()
        (folder / "params.yaml").write_text("half")
        gc.collect()  # which releases the lock, as a kill does
        with fresh_checkout(project, advance=True) as (folder, again):
            assert again == number
            assert snapshot(folder) == number
            assert (folder / ".checkpoints/train").is_dir()

    def test_raw_data_that_git_ignores_are_the_projects(self, project, tmp_path):
        (tmp_path / "lamem").mkdir()
        (tmp_path / "lamem/images.parquet").write_text("linked")
        (project / "data/raw/lamem").symlink_to(tmp_path / "lamem")
        (tmp_path / "disk").mkdir()  # a large one, for what retrainings need
        (project / ".retrain").symlink_to(tmp_path / "disk")
        (project / "data/raw/mnist/train-ubyte").write_text("raw")
        repro(project)
        sh(project, "git commit -qam MNIST")
        with fresh_checkout(project, advance=False) as (folder, _):
            assert (folder / "data/raw/lamem/images.parquet").read_text() == "linked"
            repro(folder)
            assert sh(folder, "git diff") == ""  # dvc.lock has the same raw data
            assert (folder / "data/raw/mnist/train-ubyte").read_text() == "raw"
        assert (project / "data/raw/mnist/train-ubyte").read_text() == "raw"  # what is removed is the link
        assert (tmp_path / "lamem/images.parquet").exists()

    def test_settings_of_dvc_come_along_with_those_that_git_ignores_and_nobody_is_asked_for_a_key(self, project):
        dvc_remote(project, "near", "../near", file="config")
        dvc_remote(project, "far", "../far")
        sh(project, "git commit -qam remotes && git config commit.gpgsign true && git config gpg.program false")
        with fresh_checkout(project, advance=True) as (folder, _):
            remotes = Config(str(folder / ".dvc"))["remote"].values()
            assert {os.path.realpath(remote["url"]) for remote in remotes} == {
                str(project / name) for name in ("near", "far")
            }

    @pytest.mark.parametrize(
        ("before", "place"),
        [
            ("git branch retrain", "`retrain`"),  # refused at once, and not after all was trained
            ("git rm -rq --cached .dvc && git commit -qm none", ".dvc"),
            ("git checkout -qb retrain/x && echo 'a: [' > params.yaml && git commit -qam x", "retrain/x"),
            ("git checkout -qb retrain/x && echo 'data:' > params.yaml && git commit -qam x", "retrain/x"),
        ],
    )  # fmt: skip
    def test_a_project_that_could_not_be_retrained_is_refused_before_it_is(self, project, before, place):
        sh(project, f"{before} && git checkout -q main")
        with pytest.raises(ValueError, match=place), fresh_checkout(project, advance=True):
            pass

    def test_within_a_hook_of_git_the_projects_own_repository_stays_as_it_is(self, project, monkeypatch):
        before = sh(project, "git rev-parse HEAD && git status --porcelain")
        monkeypatch.setenv("GIT_DIR", str(project / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(project / ".git/index"))
        with fresh_checkout(project, advance=True) as (folder, number):
            assert number == snapshot(folder) == 2
        monkeypatch.undo()
        assert sh(project, "git rev-parse HEAD && git status --porcelain") == before

    def test_two_at_once_are_refused(self, project):
        (project / ".retrain").mkdir()
        lock = FileLock(project / ".retrain/lock")
        with lock, pytest.raises(ValueError, match="another retraining"), fresh_checkout(project, advance=False):
            pass

    def test_a_team_gets_the_branch_and_its_snapshot_is_taken_on_other_machines(self, project, tmp_path):
        team, ran = tmp_path / "team.git", tmp_path / "ran"

        def refused(remote: str, match: str) -> None:
            with pytest.raises(ValueError, match=match), fresh_checkout(project, advance=True, remote=remote):
                pass

        refused("team", "dvc remote add")
        dvc_remote(project, "shared", str(tmp_path / "shared"))
        refused("team", "no git remote 'team'")
        refused(f"--upload-pack=touch {ran};", "no git remote")
        assert not ran.exists()
        sh(project, f"git init -q -b main --bare {team} && git remote add team {team} && git push -q team main")
        with fresh_checkout(project, advance=True, remote="team") as (folder, _):
            branch = share(project, folder, remote="team")
        assert branch in sh(team, "git branch --list 'retrain/*'")
        other = tmp_path / "other"  # as a container has it
        sh(tmp_path, f"git clone -q --origin team {team} other")
        dvc_remote(other, "shared", str(tmp_path / "shared"))
        with fresh_checkout(other, advance=False, remote="team") as (folder, number):
            assert number == 2
            assert not is_new(other, folder)

    def test_changed_params_are_the_branchs_alone_and_comments_stay(self, project):
        with (project / "params.yaml").open("a") as file:
            file.write("runs:\n  a: {loss: &loss {args: {pairs: 1}}}  # first\n  b: {loss: *loss}\n")
        sh(project, "git commit -qam runs")
        with fresh_checkout(project, advance=False, changes=["runs.a.loss.args.pairs=2"]) as (folder, _):
            made = (folder / "params.yaml").read_text()
            assert "# of rows" in made
            assert "# first" in made
            runs = YAML(typ="safe").load(made)["runs"]
            assert [run["loss"]["args"]["pairs"] for run in runs.values()] == [2, 1]
            assert "runs.a.loss.args.pairs=2" in sh(folder, "git log -1 --format=%s")

    def test_old_branches_go_but_the_newest_a_persons_and_the_only_home_of_a_commit_in_use(self, project, tmp_path):
        sh(project, f"git init -q --bare {tmp_path}/team.git && git remote add team {tmp_path}/team.git")
        for day in range(1, 7):
            sh(project, f"git checkout -q -b retrain/{day} main")
            sh(project, f"GIT_COMMITTER_DATE=2026-01-0{day}T00:00:00 git commit -q --allow-empty -m x")
        sh(project, "git checkout -q main && git merge -q --ff-only retrain/2 && git push -q team --all")
        sh(project, f"git worktree add -q {tmp_path}/tree retrain/3")
        commits = [sh(project, f"git rev-parse retrain/{day}") for day in (1, 2)]

        def left(folder: Path = project) -> str:
            return sh(folder, "git for-each-ref --format='%(refname:lstrip=3)' refs/heads/retrain/").replace("\n", "")

        assert remove_old(project, 36500, commits) == []
        assert remove_old(project, 1, [*commits, "0" * 40]) == ["retrain/2", "retrain/4", "retrain/5"]
        assert (left(), left(tmp_path / "team.git")) == ("136", "123456")
        assert remove_old(project, 1, [], remote="team") == [
            "retrain/1", *(f"team/retrain/{day}" for day in range(1, 6))
        ]  # fmt: skip
        assert (left(), left(tmp_path / "team.git")) == ("36", "6")


def test_the_commits_of_champions_present_and_past_and_of_what_has_an_alias_are_in_use(store):
    store.create_registered_model("m")
    for name in ("first", "second", "rejected", "challenger"):
        run = store.create_run("0", tags={COMMIT: name}).info.run_id
        store.create_model_version("m", f"runs:/{run}/model", run)
    store.create_model_version("m", "strangers", None)
    for version in ("1", "2"):
        registry.set_champion(store, "m", version, by="gate")
    store.set_registered_model_alias("m", "challenger", "4")
    assert commits_in_use() == ["challenger", "first", "second"]


def test_the_next_snapshot_follows_the_registrys_too_as_a_container_has_no_branches(store, project):
    assert registry.newest_snapshot(["mine"]) == 0
    store.create_registered_model("mine")
    for number, judged in ((4, {registry.DECISION: "rejected"}), (2, {}), (5, {})):  # the last one failed before that
        store.create_model_version("mine", "elsewhere", None, tags={"snapshot": str(number)} | judged)
    store.create_model_version("mine", "strangers", None)
    registered = registry.newest_snapshot(["mine", "sorter-lstm"])
    with fresh_checkout(project, advance=True, registered=registered) as (_, number):
        assert number == 5


def test_in_an_image_no_new_data_are_taken_that_nobody_would_know_of(monkeypatch):
    monkeypatch.setenv(IN_IMAGE, "1")
    with pytest.raises(ValueError, match="PUSH=origin"):
        retrain_here(ROOT, Request())


@pytest.mark.slow
def test_a_terminal_retrains_a_run_without_a_server(new_project):
    project = new_project("terminal")
    shorten(project.folder / "params.yaml")
    project.run("git add --all && git commit --quiet --message tiny")
    output = project.run("rankgrad retrain --only label_ranking-rlsep --reason tests")
    (branch,) = re.findall(r"git merge (retrain/\S+)", output)
    assert snapshot(project.folder, branch) == 2
    assert "label_ranking-ranked_mnist" in output  # the gate judged it
    assert not project.run("git status --porcelain --untracked-files=no")


def test_prefect_yaml_names_flows_that_exist_with_parameters_that_they_take():
    for deployment in YAML(typ="safe").load(ROOT / "prefect.yaml")["deployments"]:
        file, name = deployment["entrypoint"].split(":")
        flow = getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)
        for schedule in deployment["schedules"]:
            assert set(schedule.get("parameters", {})) <= set(inspect.signature(flow.fn).parameters)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("reason", "drift: \"ink\" -- 'é' {x} <b>", ["a\0b", "a\nb", "a" * 1001]),
        ("only", ["label_ranking-rlsep"], [[], "label_ranking-rlsep"]),
        ("set", ["runs.a.loss.args.pairs=3"],
         [["runs.a"], ["runs.a=*b"], ["runs.a.b=1\n"], ["runs.a.b=" + "[" * 300]]),
    ],
)  # fmt: skip
def test_a_flow_takes_no_parameter_that_would_fail_after_hours(name, good, bad):
    assert retrain.validate_parameters({name: good})[name] == good
    for value in bad:
        with pytest.raises(ParameterTypeError, match=name):
            retrain.validate_parameters({name: value})


def test_a_worker_that_is_told_no_checkout_says_on_the_runs_page_what_to_type(tmp_path):
    check, change = YAML(typ="safe").load(ROOT / "prefect.yaml")["pull"]
    script = check["prefect.deployments.steps.run_shell_script"]["script"]
    with listening(lambda _: (201, None)) as (address, heard):
        ours = {"PREFECT_API_URL": f"{address}/api", "PREFECT__FLOW_RUN_ID": "7"}
        wrong = {"PREFECT_API_AUTH_STRING": "a:b", "RANKGRAD_PROJECT": str(tmp_path)}
        for variables, credentials in ((ours, "Basic "), (ours | wrong, "Basic YTpi")):
            assert "make up PARTS=worker" in done("sh", "-c", script, fails=True, **variables)
            path, headers, _ = heard.pop()
            assert (path, headers["authorization"]) == ("/api/flow_runs/7/set_state", credentials)
    assert done("sh", "-c", script, RANKGRAD_PROJECT=str(ROOT)) == ""
    assert "\n" not in script  # of which Prefect would run each line
    assert change["prefect.deployments.steps.set_working_directory"] == {"directory": "{{ $RANKGRAD_PROJECT }}"}


@pytest.mark.parametrize(("visible", "device", "gpus"), [("2,GPU-5c2e", "auto", 2), ("2,3", "cpu", 0), ("", "auto", 0)])
def test_each_gpu_is_a_slot_and_processors_are_slots_of_so_many_threads(monkeypatch, visible, device, gpus):
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    params = load(ROOT / "params.yaml")
    compute = params.compute.model_copy(update={"device": device, "threads": 2})
    slots = slots_of(params.model_copy(update={"compute": compute}))
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in slots["gpu"]] == visible.split(",")[:gpus]
    assert slots["cpu"] == [{"CUDA_VISIBLE_DEVICES": ""} if gpus else {"LOKY_MAX_CPU_COUNT": "2"}] * 3


def test_one_stage_at_a_time_computes_on_each_gpu_and_others_run_beside_it():
    graph = {name: Stage([], computes=True) for name in ("a", "b", "c")}
    graph |= {"beside": Stage([], computes=False), "last": Stage(["a", "c"], computes=False)}
    plan = Plan(graph, {"gpu": [{"GPU": "0"}, {"GPU": "1"}], "cpu": [{}]})

    def begun() -> dict[str, dict[str, str]]:
        return {name: slot for name, _, slot in plan.begin()}

    assert begun() == {"a": {"GPU": "1"}, "b": {"GPU": "0"}, "beside": {}}
    plan.end("beside", done=True)
    assert not begun()  # a GPU is no place for two
    plan.end("b", done=False)
    assert begun() == {"c": {"GPU": "0"}}
    plan.end("a", done=True)
    assert not begun()
    plan.end("c", done=True)
    assert [*begun()] == ["last"]
    assert [name for name, _, _ in Plan(graph, {"gpu": [], "cpu": [{}]}).begin()] == ["a"]


@pytest.mark.parametrize(
    ("only", "changes", "said"),
    [
        (["rlsep"], [], "only: unknown runs rlsep"),
        ([], ["runs.label_ranking-rlsep.loss.args.pears=3"], "pears"),
        ([], ["datasets.clips.raw=/etc"], "cannot be changed"),
        ([], ["runs.memorability-mse.grid={a: ["], "not YAML"),
        (["memorability-mse"], ["training.multilabel.batch_size=64"], "changes no run that is trained"),
    ],
)  # fmt: skip
def test_what_a_retraining_would_train_and_change_is_checked_before_anything_runs(only, changes, said):
    with pytest.raises(ParamsError, match=re.escape(said)):
        planned(YAML(typ="safe").load(ROOT / "params.yaml"), only, changes)


def test_a_retraining_changes_only_what_it_names():
    changes = ["runs.memorability-mse.training.probe.optimizer.args.lr=1e-3", "training.multilabel.batch_size=64"]
    params = planned(YAML(typ="safe").load(ROOT / "params.yaml"), [], changes)
    assert resolve(params, "memorability-mse").training.probe.optimizer.args["lr"] == 1e-3
    assert resolve(params, "memorability-spearman-lstm").training.probe.optimizer.args["lr"] == 1e-2
    assert params.training["multilabel"]["batch_size"] == 64


def test_a_model_that_could_not_be_judged_takes_nothing_from_the_others():
    better = Decision("sorter-lstm", "2", "1", True, "better")
    failed = Decision("label_ranking", None, None, False, "no gate split", failed=True)
    state = outcome([better, failed], "retrain/2026-11-23-030000")
    assert (state.is_failed(), state.name) == (True, "NotJudged")
    assert all(text in state.message for text in ("retrain/2026-11-23", "promoted: sorter-lstm 2", "label_ranking"))
    assert outcome([better]).is_completed()
