"""Who may import whom, and that dvc.yaml names the code that its stages use."""

import ast
import inspect
import shutil
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo
from networkx import descendants

from contracts.test_inputs_tasks import trained
from pipelines.code import EXEMPT, FOLDERS, lines_of, lines_of_script
from pipelines.config import load
from pipelines.stages import code
from rankgrad import lookup

from conftest import ROOT, done  # isort: skip
from rows import written  # isort: skip

PLATFORM = {"dvc", "mlflow", "prefect", "great_expectations", "pipelines"}
# From the bottom up: a package imports only what stands before it; lookup and seeding may be imported by all.
LIBRARY = ["checks", "plain_text", "feature_names", "vocabulary", "augmentation", "io", "ranks", "ragged", "groups",
           "standardize", "laplace_sums", "places", "gains", "evaluation", "metrics", "sorters", "losses", "inputs",
           "layers", "fitted", "trees", "datasets", "models", "training", "tasks", "cli"]  # fmt: skip
PIPELINE = ["rivals", "config", "code", "ops", "reporting", "tracking", "serving", "monitoring", "expectations",
            "running", "stages", "flows", "cli"]  # fmt: skip
# Commands, and functions that no loss uses.
NO_STAGE = (
    "src/rankgrad/cli/",
    "src/rankgrad/datasets/tables/rows.py",
    "src/rankgrad/datasets/tables/unknown_words.py",
    "src/rankgrad/datasets/tables/unlike_training.py",
    "src/rankgrad/fitted.py",  # behind models that the shipped params do not name
    "src/rankgrad/trees.py",
    "src/rankgrad/places.py",
)


def imports_of(file: Path) -> set[str]:
    """Dotted names that a file imports, inside functions too; `from a import b` gives a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


# --- imports ---


def loaded_by(code: str) -> set[str]:
    names = done(sys.executable, "-c", f"{code}; import sys; print(*sys.modules)", PYTHONPATH=f"{ROOT}/src")
    return {name.split(".")[0] for name in names.split()}


def modules_of(*folders: str) -> str:
    return ", ".join(lookup.module(folder, name).__name__ for folder in folders for name in lookup.names(folder))


def test_the_core_and_the_demo_need_torch_and_safetensors_alone_and_the_library_no_platform():
    assert "torch" not in loaded_by("import rankgrad")
    extras = {"pandas", "pyarrow", "torchvision", "accelerate", "scipy", "sklearn", "PIL", "pydantic", "typer"}
    core = f"import sys; sys.path.append('{ROOT}'); from examples.demo.server import answer, load_rankers; "
    core += f"answer({{'digits': []}}, load_rankers()); import {modules_of('losses', 'metrics', 'sorters')}"
    assert not loaded_by(core) & (PLATFORM | extras)
    library = loaded_by(f"import {modules_of('tasks', 'models', 'datasets')}")
    assert not library & PLATFORM
    assert library & extras  # what is loaded is seen


@pytest.mark.parametrize(("package", "order"), [("src/rankgrad", LIBRARY), ("pipelines", PIPELINE)])
def test_arrows_point_one_way_and_private_modules_are_imported_by_their_own_package(package, order):
    folder = ROOT / package
    for file in folder.rglob("*.py"):
        name, *_ = file.relative_to(folder).with_suffix("").parts
        here = ".".join(file.relative_to(folder.parent).parent.parts)
        for module in imports_of(file):
            top, used, *_ = [*module.split("."), ""]
            if top == folder.name and {name, used} <= {*order}:
                assert order.index(used) <= order.index(name), f"{file} imports {module}"
            owner, _, member = module.partition("._")
            assert "." not in member or owner == here, f"{file} imports {module}"
            assert top != "studies", file
            # But for a model in MLflow and the command line, which knows a checkout.
            if folder.name == "rankgrad" and file.name not in ("registered.py", "main.py"):
                assert top not in PLATFORM, file


# --- dvc.yaml ---


@pytest.mark.parametrize("project", [".", "studies"])
def test_each_stage_depends_on_its_code_alone_and_waits_for_checks_of_params_and_data(project):
    folder = ROOT / project
    graph = Repo(str(folder)).index.graph
    for stage in graph:
        if stage.path != str(folder / "dvc.yaml") or stage.name == "code":
            continue
        paths = {Path(dep.fs_path).relative_to(folder).as_posix() for dep in stage.deps}
        assert f"checks/code/{stage.name}.txt" in paths
        assert not [path for path in paths if path.startswith(("src", "pipelines")) and "templates" not in path]
        before = {stage.name, *(other.name for other in descendants(graph, stage))}
        assert "check" in before
        if stage.name.startswith(("train@", "evaluate@", "rivals@")):
            assert any(name.startswith("validate@") for name in before), stage.name


WATCHED = [("data", "ranked_mnist"), ("pretrain", "laplace"), ("benchmark_sorters", "laplace"),
           ("train", "label_ranking-rlsep"), ("evaluate", "label_ranking-rlsep")]  # fmt: skip
PARAMS = load(ROOT / "params.yaml")


def test_a_changed_token_makes_what_uses_it_stale_and_words_make_nothing(tmp_path):
    def lines() -> dict[str, list[str]]:
        return {stage: lines_of(PARAMS, stage, key, root=tmp_path) for stage, key in WATCHED}

    def stale() -> set[str]:
        return {stage for stage, of_stage in lines().items() if of_stage != before[stage]}

    for name in ("src", "pipelines"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    before, source = lines(), tmp_path / "src/rankgrad"
    for file, changes, expected in (
        ("io/pictures.py", ("QUALITY = 95", "QUALITY = 5"), {"train", "evaluate"}),
        ("io/starts.py", ("import", "import os, "), {"train"}),
        ("losses/rlsep.py", ("return", "assert True; return"), {"train"}),
        ("training/options.py", ("epochs: int | None = None", "epochs: int | None = 3"), {"train", "pretrain"}),
        ("../../pipelines/config/plan.py", ("return", "assert True; return"), {"train"}),
        ("sorters/laplace.py", ("return", "assert True; return"), {"pretrain", "benchmark_sorters"}),
    ):
        path = source / file
        text = path.read_text()
        assert changes[0] in text
        path.write_text(text.replace(*changes, 1))
        assert stale() >= expected, file
        words = text.replace("Raises:", "Raises, as it happens:").replace("raise ValueError(", 'raise ValueError("a", ')
        path.write_text(f"# a comment\n{words}")
        assert stale() == set(), file
        path.write_text(text)
    path = source / "losses/new_rlsep.py"
    path.write_text((source / "losses/rlsep.py").read_text())
    assert stale() == set()


def test_what_a_script_finds_by_name_is_behind_it_and_so_is_what_loads_sorters():
    params = load(ROOT / "studies/params.yaml")
    rules = lines_of_script(params, ROOT / "studies/rivals/rules.py")
    assert {"src/rankgrad/tasks/query_ranking.py"} <= {line.split()[1] for line in rules}
    loads = {"src/rankgrad/sorters/_load.py", "src/rankgrad/io/checkpoints.py", "src/rankgrad/sorters/handcrafted.py"}
    for lines in (
        lines_of(PARAMS, "benchmark_sorters", "handcrafted"),
        lines_of_script(params, ROOT / "studies/figures/sweep.py"),
    ):
        assert loads <= {line.split()[1] for line in lines}


def test_each_module_that_no_list_exempts_is_behind_some_stage_or_is_a_component(tmp_path, monkeypatch):
    behind = {f"src/rankgrad/{folder.replace('.', '/')}/{name}.py"
             for folder in (*FOLDERS, "metrics") for name in lookup.names(folder)}  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for file in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / "studies" / file, file)
    params = load()
    one_of_each_task = {run.task: (name, run) for name, run in params.runs.items()}.values()
    code.main(params.model_copy(update={"runs": dict(one_of_each_task)}))
    for file in Path("checks/code").iterdir():
        behind |= {line.split()[1] for line in file.read_text().splitlines()}
    library = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src/rankgrad").rglob("[!_]*.py")]
    assert [path for path in library if path not in behind and not path.startswith((*EXEMPT, *NO_STAGE))] == []


def test_what_a_training_calls_is_behind_it(tmp_path):
    """Every function of the library that runs in a training of retrieval, from its files to its predictions."""
    called = set()
    written("retrieval", "image", tmp_path)
    trained("retrieval", "image", tmp_path)  # unheard: what runs at an import is no call of a training

    def heard(frame, event, _):
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function: no module or class, which run when imported
            called.add(frame.f_code.co_filename)

    sys.setprofile(heard)
    try:
        trained("retrieval", "image", tmp_path)
    finally:
        sys.setprofile(None)
    used = {Path(file).relative_to(ROOT).as_posix() for file in called if file.startswith(f"{ROOT}/src/")}
    behind = {
        line.split()[1]
        for stage in ("train", "evaluate")
        for line in lines_of(PARAMS, stage, "retrieval-mean_log_rank-laplace")
    }
    assert {file for file in used - behind if not file.startswith(EXEMPT)} == {"src/rankgrad/losses/hit_rate.py"}
    parts = ("training/loop", "inputs/image", "models/backbones/words", "models/heads/linear", "sorters/laplace")
    assert {f"src/rankgrad/{part}.py" for part in parts} <= used


@pytest.mark.parametrize("folder", ["losses", "metrics", "sorters"])
def test_a_component_imports_no_other_so_that_who_names_it_needs_no_more(folder):
    for name in lookup.names(folder):
        components = {f"rankgrad.{folder}.{other}" for other in lookup.names(folder)}
        assert not imports_of(Path(lookup.module(folder, name).__file__)) & components, name


def test_no_registry_host_and_no_large_file_is_in_git():
    for file in filter(lambda name: (ROOT / name).is_file(), done("git", "ls-files").split()):
        raw = (ROOT / file).read_bytes()
        assert len(raw) < 1_000_000, file
        # Spelled backwards, because this file is looked at too.
        assert not any(host[::-1] in raw for host in (b"gro.ipyp", b"detsohnohtyp", b"gro.sjmpn")), file


def test_a_measured_sorter_that_the_params_lack_is_left_to_the_check():
    assert lines_of(PARAMS.model_copy(update={"sorters": {}}), "benchmark_sorters", "laplace")
