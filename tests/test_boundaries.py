"""Who may import whom, and that dvc.yaml names the code that its stages use."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.config.schema import SorterRun, load, load_experiments
from rankops.lookup import names

ROOT = Path(__file__).parents[1]
PLATFORM = ("dvc", "mlflow", "prefect", "great_expectations", "pipelines")

# What a stage uses of these does not change what it makes: they check, guard, find, name or tell.
NOT_DEPENDENCIES = {
    "pipelines/__init__.py", "pipelines/ops/messages.py", "pipelines/ops/git.py", "pipelines/stages/__init__.py",
    "pipelines/config/schema.py", "pipelines/stages/runner.py",
    "src/rankops/__init__.py", "src/rankops/lookup.py", "src/rankops/sorters/registry.py",
    *(f"src/rankops/{folder}/__init__.py" for folder in ("datasets", "losses", "metrics", "models", "tasks")),
}  # fmt: skip
# Runs of several tasks share a stage's list of dependencies, and DVC has no optional ones: a run may list what only
# another task of its group uses. Too many reruns are a nuisance; too few would be wrong.
OF_ANY_TASK = ("train", "evaluate", "experiments/dvc.yaml:compare")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return {name.split(".")[0] for name in done.stdout.split()}


CORE = (
    "import rankops.ranks, rankops.sorters, rankops.io.checkpoints, rankops.losses.rlsep, rankops.losses.spearman, "
    "rankops.losses.mean_average_precision, rankops.losses.recall, rankops.losses.hinge_ap, "
    "rankops.metrics.label_ranking, rankops.metrics.spearman, rankops.metrics.mean_average_precision, "
    "rankops.metrics.recall"
)


def test_the_core_needs_torch_and_safetensors_alone():
    heavy = {*PLATFORM, "pandas", "pyarrow", "torchvision", "accelerate", "scipy", "sklearn", "PIL", "pydantic"}
    assert not loaded_by(CORE) & heavy


def test_tasks_need_no_platform():
    tasks = ", ".join(f"rankops.tasks.{name}" for name in names("tasks"))
    assert not loaded_by(f"import {tasks}") & set(PLATFORM)


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
    order = [
        "pipelines", "tasks", "transfer criterion training datasets models metrics", "losses", "sorters",
        "sorter standardization laplace_sums targets", "ranks pairs label_ranks",
    ]  # fmt: skip
    level = {name: number for number, names in enumerate(order) for name in names.split()}
    for file in (ROOT / "src/rankops").rglob("*.py"):
        here = level.get(file.relative_to(ROOT / "src/rankops").parts[0].removesuffix(".py"))
        for module in imports_of(file):
            parts = module.split(".")
            assert parts[0] not in PLATFORM or file.name == "registry.py", f"{file} imports {module}"
            there = level.get(parts[1]) if parts[0] == "rankops" and len(parts) > 1 else None
            assert here is None or there is None or there >= here, f"{file} imports {module}"


@pytest.mark.parametrize(
    ("package", "home"),
    [("mlflow", "pipelines/tracking/"), ("great_expectations", "pipelines/expectations.py")],
)
def test_each_platform_library_has_one_home(package, home):
    files = [file.relative_to(ROOT).as_posix() for file in (ROOT / "pipelines").rglob("*.py")
             if any(name.split(".")[0] == package for name in imports_of(file))]  # fmt: skip
    # What MLflow runs is MLflow's own code, not the pipeline's.
    assert files
    assert all(file.startswith((home, "pipelines/serving/")) for file in files)


def by_name(command: str) -> set[Path]:
    """The files that a stage finds by the names in its params, not by an import."""
    script, *words = command.split("-m ")[1].split()
    stage = script.removeprefix("pipelines.stages.")
    source = ROOT / "src/rankops"
    if stage in ("train", "evaluate"):
        run = PARAMS.all_runs[words[0]].model_dump()
        found = {source / f"tasks/{run['task']}.py", source / f"models/{run['model']['name']}.py"}
        if stage == "train":
            found |= {source / f"losses/{loss['name']}.py" for loss in (run["loss"], run.get("beside")) if loss}
            if "sorter" in run:
                found.add(source / f"sorters/{run['sorter']['name']}.py")
        return found
    if stage == "validate" and words[0] not in ("digits", "score_vectors"):
        return {source / f"datasets/{words[0]}.py"}
    if stage in ("pretrain", "benchmark_sorters"):
        blocks = PARAMS.sorters.values() if stage == "benchmark_sorters" else [PARAMS.sorters[words[0]]]
        untrained = PARAMS.benchmark_sorters.untrained.values() if stage == "benchmark_sorters" else []
        return {source / f"sorters/{block.name}.py" for block in [*blocks, *untrained]}
    if stage in ("compare_losses", "compare_label_rankers"):
        plan = EXPERIMENTS.comparisons[words[0]]
        method = plan.methods[words[1]]
        losses = [loss.name for loss in (method.loss, method.beside) if loss]
        models = [plan.tried(words[1], setting).get("model", plan.model.model_dump())["name"]
                  for setting in plan.settings(words[1])]  # fmt: skip
        return {source / f"tasks/{plan.task}.py", *(source / f"models/{model}.py" for model in models),
                *(source / f"losses/{loss}.py" for loss in losses), *sorter_file(method.sorter)}  # fmt: skip
    if stage == "score_sweep":
        return set().union(*map(sorter_file, PARAMS.sorters | PARAMS.benchmark_sorters.untrained))
    if stage == "sorter_health":
        return set().union(
            *(sorter_file(one.sorter) for one in EXPERIMENTS.comparisons["memorability_sorters"].methods.values())
        )
    if stage.startswith("label_ranking_"):
        of_models = ("convnet", "label_attention", "mobilenet_v3_small", "resnet34", "threshold_network")  # any run may
        losses = {source / "losses/rlsep.py"} if stage == "label_ranking_three_digits" else set()
        return losses | {source / f"models/{name}.py" for name in of_models}
    if stage == "synthetic_precision":
        method = EXPERIMENTS.synthetic_precision.methods[words[0]]
        found = {source / "models/perceptron.py", source / f"losses/{method.loss.name}.py"}
        return found | sorter_file(method.sorter)
    return set()


def sorter_file(name: str | None) -> set[Path]:
    """Where the class of a sorter stands that a method names."""
    blocks = PARAMS.sorters | PARAMS.benchmark_sorters.untrained
    return set() if name is None else {ROOT / f"src/rankops/sorters/{blocks[name].name}.py"}


def stages() -> dict[str, tuple[frozenset[Path], set[str]]]:
    """Each stage's code, imported or found by name, and its dependencies on code, as DVC resolves dvc.yaml."""
    found = {}
    for stage in Repo(str(ROOT)).index.stages:
        files = {file_of(stage.cmd.split("-m ")[1].split()[0]), *by_name(stage.cmd)}
        paths = {Path(dep.fs_path).relative_to(ROOT).as_posix() for dep in stage.deps}
        code = frozenset().union(*map(code_behind, files))
        found[stage.addressing] = code, {path for path in paths if path.startswith(("src/", "pipelines/"))}
    return found


PARAMS = load(ROOT / "params.yaml")
EXPERIMENTS = load_experiments(PARAMS, ROOT / "experiments/params.yaml")
STAGES = stages()


def missing(code: frozenset[Path], dependencies: set[str]) -> set[str]:
    used = {path.relative_to(ROOT).as_posix() for path in code} - NOT_DEPENDENCIES
    return {file for file in used if not any(file == dep or file.startswith(f"{dep}/") for dep in dependencies)}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_the_code_that_it_uses(name):
    assert not missing(*STAGES[name])


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_no_file_that_it_does_not_use(name):
    code, dependencies = STAGES[name]
    if group := next((start for start in OF_ANY_TASK if name.startswith(start)), None):
        code = frozenset().union(*(STAGES[other][0] for other in STAGES if other.startswith(group)))
    used = {path.relative_to(ROOT).as_posix() for path in code}
    of_any_sorter = (
        "src/rankops/sorters/",
        "src/rankops/sorters/standardize.py",
        "src/rankops/sorters/laplace_sums.py",
    )
    shared = ("src/rankops/models/", *of_any_sorter, "pipelines/serving", "src/rankops/losses/pairs.py")
    assert not {dep for dep in dependencies if dep.endswith(".py") and dep not in used and not dep.startswith(shared)}


def test_a_run_depends_on_its_own_losses_alone():
    for name, run in PARAMS.all_runs.items():
        own = {f"src/rankops/losses/{run.loss.name}.py"}
        if isinstance(run, SorterRun):
            own.add(f"src/rankops/losses/{run.beside.name}.py")
        stage = next(stage for stage in STAGES if stage.startswith("train") and stage.endswith(f"@{name}"))
        assert {dep for dep in STAGES[stage][1] if "/losses/" in dep} == own


def test_a_missing_dependency_would_be_found():
    code, dependencies = STAGES["train_with_sorter@memorability-spearman-lstm"]
    for file in ("src/rankops/training/finetune.py", "src/rankops/losses/l1.py", "src/rankops/sorters/lstm.py"):
        assert missing(code, dependencies - {file}) == {file}


def test_no_registry_host_and_no_large_file_is_in_git():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in filter(lambda name: (ROOT / name).is_file(), files):
        raw = (ROOT / file).read_bytes()
        assert len(raw) < 1_000_000, file
        # Spelled backwards, because this file is looked at too.
        assert not any(host[::-1] in raw for host in (b"gro.ipyp", b"detsohnohtyp", b"gro.sjmpn")), file
