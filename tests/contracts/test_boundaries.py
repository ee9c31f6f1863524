"""Who may import whom, and that dvc.yaml names the code that its stages use."""

import ast
import inspect
import shutil
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from contracts.test_inputs_tasks import trained
from pipelines.cli.edited_params import write
from pipelines.cli.starting_runs import blocks_of
from pipelines.code import EXEMPT, FOLDERS, lines_of, lines_of_script
from pipelines.config import load
from pipelines.ops.graph import stages
from rankgrad import lookup

from conftest import ROOT, done, git  # isort: skip
from rows import written  # isort: skip

PLATFORM = {"dvc", "mlflow", "prefect", "great_expectations", "pipelines"}
# From the bottom up: a package imports only what stands before it; lookup and seeding may be imported by all.
LIBRARY = ["checks", "plain_text", "feature_names", "vocabulary", "augmentation", "io", "ranks", "ragged", "groups",
           "standardize", "laplace_sums", "places", "gains", "evaluation", "metrics", "sorters", "losses", "inputs",
           "layers", "datasets", "models", "training", "tasks", "cli"]  # fmt: skip
PIPELINE = ["rivals", "config", "code", "ops", "reporting", "tracking", "serving", "monitoring", "expectations",
            "running", "stages", "flows", "cli"]  # fmt: skip
# Commands, and functions that no loss uses.
NO_STAGE = (
    "src/rankgrad/cli/",
    "src/rankgrad/datasets/tables/rows.py",
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
    extras = {"pandas", "pyarrow", "torchvision", "accelerate", "scipy", "sklearn", "PIL", "pydantic", "typer"}
    assert not loaded_by(f"import {modules_of('losses', 'metrics', 'sorters')}") & (PLATFORM | extras)
    demo = f"import sys; sys.path.append('{ROOT}'); from examples.demo.server import answer, load_rankers"
    demo += "; answer({'digits': []}, load_rankers())"
    assert not loaded_by(demo) & (PLATFORM | extras)
    assert not loaded_by(f"import {modules_of('tasks', 'models', 'datasets')}") & PLATFORM
    assert "dvc" in loaded_by("import dvc")  # this test can fail


@pytest.mark.parametrize(("package", "order"), [("src/rankgrad", LIBRARY), ("pipelines", PIPELINE)])
def test_arrows_point_one_way(package, order):
    folder = ROOT / package
    for file in folder.rglob("*.py"):
        name = file.relative_to(folder).parts[0].removesuffix(".py")
        for module in imports_of(file) if name in order else ():
            if module.split(".")[0] == folder.name and (used := module.split(".")[1:2]) and used[0] in order:
                assert order.index(used[0]) <= order.index(name), f"{file} imports {module}"
            assert module.split(".")[0] != "studies", file
            if folder.name == "rankgrad" and file.name not in (
                "registered.py",
                "main.py",
            ):  # a model in MLflow; a checkout
                assert module.split(".")[0] not in PLATFORM, file


def test_private_modules_are_imported_by_their_own_package():
    foreign = []
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]):
        package = ".".join(path.relative_to(ROOT / "src" if "src" in path.parts else ROOT).parent.parts)
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
            owner, _, name = module.rpartition(".")
            if name.startswith("_") and owner != package:
                foreign.append(f"{path.name}: {module}")
    assert foreign == []


# --- dvc.yaml ---


@pytest.mark.parametrize("project", [".", "studies"])
def test_each_stage_depends_on_its_code_alone_and_no_other_path_of_code(project):
    folder = ROOT / project
    for stage in Repo(str(folder)).index.stages:
        if stage.path == str(folder / "dvc.yaml") and stage.name != "code":
            paths = {Path(dep.fs_path).relative_to(folder).as_posix() for dep in stage.deps}
            assert f"checks/code/{stage.name}.txt" in paths
            assert not [path for path in paths if path.startswith(("src", "pipelines")) and "templates" not in path]


def test_publishing_a_table_of_ones_own_runs_no_stage_of_the_showcase(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\na,1\nb,2\n")
    options = {"file": "a.csv", "target": "y", "text": "x"}
    blocks = blocks_of("mine", Path("data/raw/mine"), "score_ranking", options, folder=tmp_path)
    git("init", "--quiet", str(tmp_path))
    shutil.copytree(ROOT / ".dvc", tmp_path / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "data/raw/mine").mkdir(parents=True)
    shutil.copy(tmp_path / "a.csv", tmp_path / "data/raw/mine")
    write(tmp_path / "params.yaml", blocks, keep=False)
    once = {"code", "check", "summarize", "compare", "report", "publish"}
    of_runs = {f"{stage}@{run}" for stage in ("train", "evaluate") for run in blocks["runs"]}
    assert {*stages(tmp_path, ["publish"])} | once == once | of_runs | {
        "data@mine",
        "validate@mine",
        "pretrain@laplace",
    }
    text = (tmp_path / "params.yaml").read_text()
    assert text.count("# How each task is trained") == text.count("# The sorters that runs can use") == 1


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The project's code, to be changed."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("src", "pipelines"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


WATCHED = [("data", "ranked_mnist"), ("pretrain", "laplace"), ("benchmark_sorters", "laplace"),
           ("train", "label_ranking-rlsep"), ("evaluate", "label_ranking-rlsep")]  # fmt: skip


def lines_in(root: Path) -> dict[str, list[str]]:
    return {stage: lines_of(PARAMS, stage, key, root=root) for stage, key in WATCHED}


def stale(copy: Path, before: dict[str, list[str]]) -> set[str]:
    return {stage for stage, lines in lines_in(copy).items() if lines != before[stage]}


PARAMS = load(ROOT / "params.yaml")


def test_a_changed_token_makes_what_uses_it_stale_and_words_make_nothing(copy):
    before, source = lines_in(copy), copy / "src/rankgrad"
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
        assert stale(copy, before) >= expected, file
        path.write_text(f"# a comment\n{text}")
        assert stale(copy, before) == set()
        path.write_text(
            text.replace("Raises:", "Raises, as it happens:").replace("raise ValueError(", 'raise ValueError("a", ')
        )
        assert stale(copy, before) == set(), file
        path.write_text(text)
    path = source / "losses/new_rlsep.py"
    path.write_text((source / "losses/rlsep.py").read_text())
    assert stale(copy, before) == set()


@pytest.mark.parametrize("place", ["params.yaml", "studies/params.yaml"])
def test_the_whole_network_is_behind_what_trains_and_evaluates_it(place):
    networks = {"label_ranking": "label_ranker", "retrieval": "dual_encoder"}
    params = load(ROOT / place)
    for key, run in {run.task: (key, run) for key, run in params.runs.items()}.values():
        modules = [f"heads/{run.model.name}", f"backbones/{run.model.backbone.name}", "network"]
        modules += [
            networks.get(run.task, "network"),
            *([f"backbones/{run.model.text.name}"] if run.model.text else []),
        ]
        for stage in ("train", "evaluate"):
            behind = {line.split()[1] for line in lines_of(params, stage, key)}
            assert {f"src/rankgrad/models/{module}.py" for module in modules} <= behind, (stage, key)


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


def test_each_module_that_no_list_exempts_is_behind_some_stage_or_is_a_component():
    behind = {f"src/rankgrad/{folder.replace('.', '/')}/{name}.py"
             for folder in (*FOLDERS, "metrics") for name in lookup.names(folder)}  # fmt: skip
    for params in (PARAMS, load(ROOT / "studies/params.yaml")):
        runs, datasets = {run.task: key for key, run in params.runs.items()}, {}
        for key, dataset in params.datasets.items():
            datasets[dataset.name] = key
        keys = {
            "data": datasets,
            "validate": datasets,
            "pretrain": {0: "laplace"},
            "benchmark_sorters": {0: "laplace"},
            "train": runs,
            "evaluate": runs,
        }
        for stage in (path.stem for path in (ROOT / "pipelines/stages").glob("[!_]*.py") if path.stem != "code"):
            for key in keys.get(stage, {0: ""}).values():
                behind |= {line.split()[1] for line in lines_of(params, stage, key)}
    library = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src/rankgrad").rglob("[!_]*.py")]
    assert [path for path in library if path not in behind and not path.startswith((*EXEMPT, *NO_STAGE))] == []


def test_what_a_training_calls_is_behind_it(tmp_path):
    """Every function of the library that runs in a training of label ranking, from its files to its predictions."""
    called = set()
    written("label_ranking", "image", tmp_path)
    trained("label_ranking", "image", tmp_path)  # unheard: what runs at an import is no call of a training

    def heard(frame, event, _):
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function: no module or class, which run when imported
            called.add(frame.f_code.co_filename)

    sys.setprofile(heard)
    try:
        trained("label_ranking", "image", tmp_path)
    finally:
        sys.setprofile(None)
    used = {Path(file).relative_to(ROOT).as_posix() for file in called if file.startswith(f"{ROOT}/src/")}
    behind = {
        line.split()[1] for stage in ("train", "evaluate") for line in lines_of(PARAMS, stage, "label_ranking-rlsep")
    }
    assert {file for file in used - behind if not file.startswith(EXEMPT)} <= {"src/rankgrad/models/heads/linear.py"}
    assert {"src/rankgrad/losses/rlsep.py", "src/rankgrad/training/loop.py", "src/rankgrad/inputs/image.py"} <= used


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
