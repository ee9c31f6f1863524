"""Who may import whom, and that dvc.yaml names the code that its stages use."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from dvc.repo import Repo

ROOT = Path(__file__).parents[1]
PLATFORM = ("dvc", "mlflow", "prefect", "great_expectations", "pipelines")

# What a stage uses of these does not change what it makes: they check, guard or find.
NOT_DEPENDENCIES = {
    "pipelines/__init__.py", "pipelines/stages/__init__.py", "pipelines/settings.py", "pipelines/stage.py",
    "src/rankops/__init__.py", "src/rankops/by_name.py", "src/rankops/registry.py",
    *(f"src/rankops/{folder}/__init__.py" for folder in ("datasets", "losses", "metrics", "models", "tasks")),
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return {name.split(".")[0] for name in done.stdout.split()}


CORE = "import rankops.ranks, rankops.sorters, rankops.losses.rlsep, rankops.metrics.label_ranking, rankops.checkpoints"


def test_the_core_needs_torch_and_safetensors_alone():
    heavy = {*PLATFORM, "pandas", "pyarrow", "torchvision", "accelerate", "scipy", "sklearn", "PIL", "pydantic"}
    assert not loaded_by(CORE) & heavy


def test_tasks_need_no_platform():
    assert not loaded_by("import rankops.tasks.label_ranking") & set(PLATFORM)


def test_this_test_can_fail():
    assert "mlflow" in loaded_by(f"{CORE}, mlflow")


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
    base = (ROOT / "src" if module.startswith("rankops") else ROOT) / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def code_behind(file: Path) -> frozenset[Path]:
    """The project's files that a file imports, and those that they import."""
    seen, waiting = set(), [file]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for module in imports_of(current):
            if module.split(".")[0] in ("rankops", "pipelines") and (path := file_of(module)):
                waiting += [path, *(init for init in (path.parent / "__init__.py",) if init.is_file())]
    return frozenset(seen)


def test_arrows_point_one_way():
    order = ["pipelines", "tasks", "training datasets models metrics", "losses", "sorters", "ranks pairs"]
    level = {name: number for number, names in enumerate(order) for name in names.split()}
    for file in (ROOT / "src/rankops").rglob("*.py"):
        here = level.get(file.relative_to(ROOT / "src/rankops").parts[0].removesuffix(".py"))
        for module in imports_of(file):
            parts = module.split(".")
            assert parts[0] not in PLATFORM or file.name == "registry.py", f"{file} imports {module}"
            there = level.get(parts[1]) if parts[0] == "rankops" and len(parts) > 1 else None
            assert here is None or there is None or there >= here, f"{file} imports {module}"


@pytest.mark.parametrize(
    ("package", "home"), [("mlflow", "pipelines/tracking.py"), ("great_expectations", "pipelines/expectations.py")]
)
def test_each_platform_library_has_one_home(package, home):
    files = [file.relative_to(ROOT).as_posix() for file in (ROOT / "pipelines").rglob("*.py")
             if any(name.split(".")[0] == package for name in imports_of(file))]  # fmt: skip
    # What MLflow runs is MLflow's own code, not the pipeline's.
    assert [file for file in files if not file.startswith("pipelines/serving/")] == [home]


def stages() -> dict[str, tuple[Path, set[str]]]:
    """Each stage's script and its dependencies on code, as DVC resolves dvc.yaml."""
    found = {}
    for stage in Repo(str(ROOT)).index.stages:
        script = file_of(stage.cmd.split("-m ")[1].split()[0])
        paths = {Path(dep.fs_path).relative_to(ROOT).as_posix() for dep in stage.deps}
        found[stage.addressing] = script, {path for path in paths if path.startswith(("src/", "pipelines/"))}
    return found


STAGES = stages()


def missing(script: Path, dependencies: set[str]) -> set[str]:
    used = {path.relative_to(ROOT).as_posix() for path in code_behind(script)} - NOT_DEPENDENCIES
    return {file for file in used if not any(file == dep or file.startswith(f"{dep}/") for dep in dependencies)}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_the_code_that_it_imports(name):
    assert not missing(*STAGES[name])


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_no_file_that_it_does_not_use(name):
    script, dependencies = STAGES[name]
    used = {path.relative_to(ROOT).as_posix() for path in code_behind(script)}
    by_name = (
        "src/rankops/losses/",
        "src/rankops/pairs.py",
        "src/rankops/models/",
        "src/rankops/sorters/",
        "pipelines/serving",
    )
    extra = {dep for dep in dependencies if dep.endswith(".py") and dep not in used and not dep.startswith(by_name)}
    assert not extra


def test_a_run_depends_on_its_own_loss_and_model_alone():
    for name in ("cross_entropy", "lsep", "rlsep"):
        of_run = STAGES[f"train@label_ranking-{name}"][1]
        assert {dep for dep in of_run if "/losses/" in dep} == {f"src/rankops/losses/{name}.py"}
        assert "src/rankops/models/convnet.py" in of_run
        loss = ROOT / f"src/rankops/losses/{name}.py"
        assert not missing(loss, of_run)


def test_a_missing_dependency_would_be_found():
    script, dependencies = STAGES["train@label_ranking-rlsep"]
    assert missing(script, dependencies - {"src/rankops/scenes.py"}) == {"src/rankops/scenes.py"}


def test_no_registry_host_and_no_large_file_is_in_git():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in filter(lambda name: (ROOT / name).is_file(), files):
        raw = (ROOT / file).read_bytes()
        assert len(raw) < 1_000_000, file
        # Spelled backwards, because this file is looked at too.
        assert not any(host[::-1] in raw for host in (b"gro.ipyp", b"detsohnohtyp", b"gro.sjmpn")), file
