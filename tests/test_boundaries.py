"""Who may import whom, and that dvc.yaml names the code that its stages use."""

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.config import load
from pipelines.config.schema import NONE
from rankops import lookup

from conftest import ROOT, done  # isort: skip

PLATFORM = {"dvc", "mlflow", "prefect", "great_expectations", "pipelines"}
# From the bottom up: a package imports only what stands before it; lookup and seeding may be imported by all.
LIBRARY = ["checks", "plain_text", "io", "ranks", "ragged", "groups", "bootstrap", "metrics", "sorters", "losses",
           "inputs", "datasets", "models", "training", "tasks", "cli"]  # fmt: skip
PIPELINE = ["config", "ops", "reporting", "tracking", "serving", "monitoring", "expectations", "running", "stages",
            "flows", "cli"]  # fmt: skip
# Code that a stage may use without depending on it: it changes no result.
PLUMBING = {
    "": ("src/rankops/io/", "src/rankops/checks.py", "src/rankops/lookup.py", "src/rankops/sorters/_load.py",
         "src/rankops/datasets/files/expected.py", "pipelines/config/", "pipelines/ops/",
         "pipelines/running/history.py", "pipelines/running/runner.py"),
    "data": ("src/rankops/datasets/files/splits.py", "src/rankops/inputs/", "src/rankops/ragged.py",
             "src/rankops/bootstrap.py"),  # it reads no table of a task, and scores none
    "validate": ("src/rankops/inputs/", "src/rankops/ragged.py",
                 "src/rankops/bootstrap.py"),  # it reads images alone
    "train": ("src/rankops/bootstrap.py", "src/rankops/datasets/scenes/"),  # scenes drawn anew: experiments
    "pretrain": ("src/rankops/plain_text.py",),  # these two read and name no text
    "benchmark_sorters": ("src/rankops/plain_text.py",),
    "report": ("src/rankops/",),
    "publish": ("src/rankops/", "pipelines/reporting/"),
}  # fmt: skip
# Of these packages a stage depends on the files that it uses; of others, on some file of the folder.
LEAVES = (
    "losses", "metrics", "models", "backbones", "heads", "sorters", "datasets", "public", "scenes", "files", "tables",
)  # fmt: skip
EXPORTING = {f"rankops.{folder}" for folder in ("losses", "metrics", "sorters", "tasks")}
PROJECTS = (".", "experiments")
PARAMS = {project: load(ROOT / project / "params.yaml") for project in PROJECTS}


def imports_of(file: Path) -> set[str]:
    """Dotted names that a file imports, inside functions too; `from a import b` gives a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def file_of(module: str) -> Path | None:
    folder, _, name = module.rpartition(".")
    if folder in EXPORTING and name in import_module(folder).__all__:  # an exported name stands for its file
        module = getattr(import_module(folder), name).__module__
    file = (ROOT / "src" if module.startswith("rankops") else ROOT) / f"{module.replace('.', '/')}.py"
    return file if file.is_file() else None


# --- imports ---


def loaded_by(code: str) -> set[str]:
    names = done(sys.executable, "-c", f"{code}; import sys; print(*sys.modules)", PYTHONPATH=f"{ROOT}/src")
    return {name.split(".")[0] for name in names.split()}


def modules_of(*folders: str) -> str:
    return ", ".join(lookup.module(folder, name).__name__ for folder in folders for name in lookup.names(folder))


def test_the_core_and_the_demo_need_torch_and_safetensors_alone_and_the_library_no_platform():
    extras = {"pandas", "pyarrow", "torchvision", "accelerate", "scipy", "sklearn", "PIL", "pydantic", "typer"}
    assert not loaded_by(f"import {modules_of('losses', 'metrics', 'sorters')}") & (PLATFORM | extras)
    demo = "from rankops.cli.demo import answer, load_rankers; answer({'digits': []}, load_rankers())"
    assert not loaded_by(demo) & (PLATFORM | extras)
    assert not loaded_by(f"import {modules_of('tasks', 'models', 'datasets')}") & PLATFORM
    assert "dvc" in loaded_by("import dvc")  # this test can fail


@pytest.mark.parametrize(("package", "order"), [("src/rankops", LIBRARY), ("pipelines", PIPELINE)])
def test_arrows_point_one_way(package, order):
    folder = ROOT / package
    for file in folder.rglob("*.py"):
        name = file.relative_to(folder).parts[0].removesuffix(".py")
        for module in imports_of(file) if name in order else ():
            if module.split(".")[0] == folder.name and (used := module.split(".")[1:2]) and used[0] in order:
                assert order.index(used[0]) <= order.index(name), f"{file} imports {module}"
            if folder.name == "rankops" and file.name not in ("_load.py", "main.py"):  # a sorter in MLflow; a checkout
                assert module.split(".")[0] not in PLATFORM, file


# --- dvc.yaml ---


@cache
def code_behind(file: Path) -> frozenset[Path]:
    """The project's files that a file imports, and those that they import."""
    seen, waiting = set(), [file]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting += [path for module in imports_of(current) if (path := file_of(module))]
    return frozenset(seen)


def words_of(block) -> set[str]:
    parts = block.values() if isinstance(block, dict) else block if isinstance(block, list) else ()
    return {block} if isinstance(block, str) else set().union(*map(words_of, parts))


def named_by(project: str, stage: str, key: str) -> set[Path]:
    """The files that a stage finds by names in its params."""
    network = ("models.backbones", "models.heads")
    groups = {"train": ("tasks", *network, "losses"), "evaluate": ("tasks", *network), "pretrain": ("sorters",),
              "data": ("datasets",), "validate": ("datasets",)}  # fmt: skip
    params = PARAMS[project]
    blocks = {"pretrain": params.sorters, "data": params.datasets, "validate": params.datasets}
    block = blocks.get(stage, params.runs).get(key)
    # `monitor: ndcg` in the training names a metric of the task, no loss.
    words = words_of(block.model_dump(exclude={"training"})) - {NONE} if stage in groups else set()
    if "retrieval" in words:  # whose model may name a backbone of captions, or leave that to the task
        words |= {name for name in lookup.names("models.backbones")
                  if lookup.find("models.backbones", name).input == "text"}  # fmt: skip
    return {Path(lookup.module(folder, name).__file__)
            for folder in groups.get(stage, ()) for name in words & set(lookup.names(folder))}  # fmt: skip


def missing(project: str, command: str, dependencies: list[str]) -> set[str]:
    """The code that a command uses and that none of its dependencies covers."""
    stage, key = [*command.split("pipelines.stages ")[1].split(), ""][:2]
    plumbing = PLUMBING[""] + PLUMBING.get(stage, ())
    files = {ROOT / f"pipelines/stages/{stage}.py", *named_by(project, stage, key)}

    def is_covered(path: Path) -> bool:
        file, folder = (one.relative_to(ROOT).as_posix() for one in (path, path.parent))
        whole = folder.count("/") >= 2 and path.parent.name not in LEAVES
        return file.startswith(plumbing) or any(
            file == one or file.startswith(f"{one}/") or (whole and one.startswith(f"{folder}/"))
            for one in dependencies
        )

    used = set().union(*map(code_behind, files))
    return {path.relative_to(ROOT).as_posix() for path in used if not is_covered(path)}


SHARED = ("data_code", "shared_code")  # stages that write the digests of what they depend on


def stages_of(project: str) -> dict[str, tuple[str, list[str]]]:
    """The command and the dependencies of each stage."""
    folder = ROOT / project
    result = {stage.name: (stage.cmd, [Path(dep.fs_path).relative_to(folder).as_posix() for dep in stage.deps])
              for stage in Repo(str(folder)).index.stages if stage.path == str(folder / "dvc.yaml")}  # fmt: skip
    for _, dependencies in result.values():
        for stage in SHARED:
            if f"checks/{stage}.txt" in dependencies:
                dependencies += result[stage][1]
    return result


STAGES = {project: stages_of(project) for project in PROJECTS}


@pytest.mark.parametrize("project", PROJECTS)
def test_a_stage_depends_on_the_code_that_it_uses(project):
    stages = {
        name: stage for name, stage in STAGES[project].items() if name != "check"
    }  # which builds all that is named
    found = {name: missing(project, *stage) for name, stage in stages.items()}
    assert {name: files for name, files in found.items() if files} == {}


@pytest.mark.parametrize("project", PROJECTS)
def test_a_run_depends_on_no_folder_of_components_and_a_missing_dependency_would_be_found(project):
    for name, (command, dependencies) in STAGES[project].items():
        if name.startswith("train@"):
            assert not {f"src/rankops/{folder}" for folder in LEAVES} & set(dependencies)
            run = PARAMS[project].runs[name.removeprefix("train@")]
            needed = {f"losses/{run.loss.name}", f"models/backbones/{run.model.backbone.name}"}
            needed |= {f"models/heads/{run.model.name}"}
            needed |= {"models/backbones/words"} if run.task == "retrieval" else set()
            for file in (f"src/rankops/{one}.py" for one in needed):
                assert missing(project, command, [dep for dep in dependencies if dep != file]) >= {file}


@pytest.mark.parametrize("folder", ["losses", "metrics", "sorters"])
def test_a_component_imports_no_other_so_that_who_names_it_needs_no_more(folder):
    for name in lookup.names(folder):
        others = {f"rankops.{folder}.{other}" for other in lookup.names(folder)}
        assert not imports_of(Path(lookup.module(folder, name).__file__)) & others, name


def test_no_registry_host_and_no_large_file_is_in_git():
    for file in filter(lambda name: (ROOT / name).is_file(), done("git", "ls-files").split()):
        raw = (ROOT / file).read_bytes()
        assert len(raw) < 1_000_000, file
        # Spelled backwards, because this file is looked at too.
        assert not any(host[::-1] in raw for host in (b"gro.ipyp", b"detsohnohtyp", b"gro.sjmpn")), file
