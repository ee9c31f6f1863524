"""A loss, a sorter and a metric of `own/`: used in a run, followed by the graph, refused where they cannot work."""

import importlib
import shutil
import sys

import mlflow
import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import spearmanr

from pipelines.code import lines_of
from pipelines.config.errors import ParamsError
from pipelines.config.plan import merged
from pipelines.config.rules import check_values
from pipelines.config.schema import check_shapes
from pipelines.tracking.upload import Run, Version, publish
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.inputs.features import of_tensor
from rankgrad.io import results
from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.io.parquet import ragged_lists
from rankgrad.sorters import load_sorter

from conftest import PHASE, ROOT, params_of, task_of  # isort: skip

EXAMPLE = ROOT / "examples/own_code"
MODEL = {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": [4]}}}
RUN = {
    "task": "score_ranking", "dataset": "cars", "model": MODEL, "start": "models/runs/none", "seeds": [1],
    "loss": {"name": "footrule", "args": {}}, "sorter": "tanh", "auxiliary": {"name": "none"},
}  # fmt: skip
CARS = {"file": "cars.csv", "features": ["km", "age"], "target": "price"}
CHANGES = {
    "compute": {"threads": 1}, "jobs": {"count": 1}, "evaluate": {"resamples": 20},
    "datasets": {"cars": {"name": "table", "raw": "data/raw/cars", "seed": 1, "args": CARS}},
    "sorters": {"tanh": {"name": "tanh_ranks", "args": {"width": 0.5}, "vectors": "none"}},
    "training": {"score_ranking": {"batch_size": 16, "probe": PHASE, "finetune": PHASE}},
    "runs": {"mine": RUN, "usual": RUN | {"loss": {"name": "mse", "args": {}}, "sorter": "none"}},
    "comparisons": {"cars": {"question": "Why?", "metric": "displacement", "baseline": "usual", "runs": ["mine"]}},
}  # fmt: skip
STAGES = [("pretrain", "tanh"), ("train", "mine"), ("train", "usual"), ("evaluate", "mine"), ("evaluate", "usual")]


BACKBONE = """import torch
from rankgrad.layers import Backbone
__all__ = ["Narrow"]
class Narrow(Backbone):
    input, maps = "features", False
    def __init__(self, *, features: int, width: int):
        super().__init__()
        self.layer, self.size = torch.nn.Linear(features, width), width
    def forward(self, vectors):
        return self.layer(vectors.to(self.layer.weight.dtype) / 1e5)
"""


def values_of(**changes: dict) -> dict:
    """Plain params of the two runs, without anything of the showcase."""
    empty = {"datasets": {}, "sorters": {}, "benchmark_sorters": {}, "score_vectors": {}}
    return merged(merged(params_of({}) | empty, CHANGES), changes)


def forget() -> None:
    """Import the files of `own` anew."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == lookup.OWN:
            del sys.modules[name]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder `own` of a project, with the example of the docs, in the folder that commands run in."""
    folder = tmp_path / "own"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file that is changed within a second is read again
    forget()
    yield folder
    forget()


def write(own, file: str, text: str) -> None:
    (own / file).parent.mkdir(parents=True, exist_ok=True)
    (own / file).write_text(text)


def test_a_run_trains_evaluates_and_compares_by_them_and_the_report_shows_it(own, tmp_path):
    draws = np.random.default_rng(0)
    (tmp_path / "data/raw/cars").mkdir(parents=True)
    km, age = draws.integers(0, 200_000, 200), draws.integers(0, 20, 200)
    rows = np.stack([km, age, 20_000 - km / 20 - 300 * age], 1)
    np.savetxt("data/raw/cars/cars.csv", rows, "%.1f", ",", header="km,age,price", comments="")
    write(own, "models/backbones/narrow.py", BACKBONE)
    model = MODEL | {"backbone": {"name": "narrow", "args": {"width": 3}}}
    params = check_values(values_of(runs={"usual": {"model": model}}))
    for stage, *key in (("data", "cars"), *STAGES, ("compare",), ("report",)):
        importlib.import_module(f"pipelines.stages.{stage}").main(params, *key)
    measured = results.read("metrics/runs")
    row = measured.row("mine", "displacement")
    assert 0 < row.low <= row.value <= row.high
    assert results.read("metrics/comparisons").has("mine", "displacement minus usual")
    assert "footrule + tanh" in (tmp_path / "reports/results.md").read_text()
    assert load_model("models/sorters/tanh").width == 0.5
    write(own, "losses/footrule.py", LOSS.format("{}['here']"))
    train = importlib.import_module("pipelines.stages.train")
    forget()
    with pytest.raises(ValueError, match=r"KeyError: 'here' \(own/losses/footrule.py, line 4\)"):
        train.main(params, "mine")
    (own / "losses/footrule.py").unlink()  # a trained model needs no loss
    assert load_model("models/runs/mine").recipe["task"] == "score_ranking"
    assert load_model("models/runs/usual").backbone.size == 3
    (own / "models/backbones/narrow.py").unlink()
    with pytest.raises(ValueError, match="no own/models/backbones/narrow.py"):
        load_model("models/runs/usual")


def test_a_version_carries_its_files_and_a_folder_without_them_names_the_one_it_needs(
    store, own, tmp_path, monkeypatch
):
    write(own, "sorters/_steep.py", "WIDTH = 0.5\n")
    text = (own / "sorters/tanh_ranks.py").read_text()
    write(own, "sorters/tanh_ranks.py", text.replace("import torch\n", "import torch\nimport own.sorters._steep\n"))
    save_model("made/tanh", build("sorters", "tanh_ranks", {"width": 0.1}, seed=0))
    shutil.rmtree("src")
    (tmp_path / "src").symlink_to(ROOT / "src")  # the version is loaded
    publish([Run("x", "tests", "x", version=Version("sorter-tanh", tmp_path / "made/tanh"))])
    (code,) = tmp_path.glob("mlruns/**/code")
    carried = {path.relative_to(code).as_posix() for path in (code / "own").rglob("*.py")}
    assert carried == {"own/sorters/_steep.py", "own/sorters/tanh_ranks.py"}
    shutil.move(own, tmp_path / "made/tanh/own")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "path", [*sys.path])
        forget()
        model = mlflow.pyfunc.load_model("models:/sorter-tanh@champion")
        assert model.predict(np.array([[0.1, 9.0, 5.0]], np.float32)).round().tolist() == [[3.0, 1.0, 2.0]]
    # Without the version: what lies in a model's folder is no code to be imported.
    forget()
    with pytest.raises(ValueError, match="no own/sorters/tanh_ranks.py"):
        load_sorter(tmp_path / "made/tanh")


def test_a_metric_is_the_mean_over_lists_as_each_task_has_them(own, generator):
    scores, target = torch.rand(2, 12, generator=generator, dtype=torch.float64)
    sizes = [5, 4, 3]
    displacement = lookup.find("metrics", "displacement")

    def measured(task: str, columns: dict, rows: int, metric: str = "displacement") -> float:
        statistic = lookup.find("tasks", task)().statistic(pa.table({"id": range(rows)} | columns))
        return statistic.of_all()[statistic.names.index(metric)]

    def of_lists(truth: torch.Tensor) -> list[float]:
        return [displacement(*pair).item() for pair in zip(scores.split(sizes), truth.split(sizes), strict=True)]

    flat = {"score": scores.numpy(), "target": target.numpy()}
    assert measured("score_ranking", flat, 12) == pytest.approx(displacement(scores, target).item())
    within = {"group": np.repeat([0, 1, 2], sizes), "within": [True] * 12}
    assert measured("score_ranking", flat | within, 12) == pytest.approx(np.mean(of_lists(target)))
    grades = (4 * target).round()
    grades[5:9] = 0  # a query without a relevant document is not judged
    queries = {"scores": scores.float(), "relevance": grades.float()}
    lists = {name: ragged_lists(pa.array(values.numpy()), torch.tensor(sizes)) for name, values in queries.items()}
    assert measured("query_ranking", lists, 3) == pytest.approx(np.mean(of_lists(grades)[::2]))
    labels = {"scores": [[0.1, 0.9], [0.8, 0.2], [0.7, 0.3]], "labels": [[1, 2], [0, 1], [3, 0]]}
    labels |= {"selected": [[False, False]] * 3, "difficult": [[False, False]] * 3}
    labels["true_label_ranks"] = labels["labels"]
    first = "displacement.gather(-1, scores.argmax(-1, keepdim=True)).squeeze(-1).double()"
    for task, truth, value in (("label_ranking", "label_ranks", 5 / 3), ("multilabel", "labels", 0.5)):
        text = METRIC.format(first).replace("(scores, target)", "(scores, displacement)")
        write(own, f"metrics/{truth}.py", text.replace("displacement", truth))
        assert measured(task, labels, 3, truth) == pytest.approx(value)


USED_BY = {
    "losses/footrule.py": {"train mine"},
    "sorters/tanh_ranks.py": {"pretrain tanh", "train mine"},
    "metrics/displacement.py": {"evaluate mine", "evaluate usual", "compare "},
    "losses/_helper.py": {"train mine"},
    "losses/unused.py": set(),
}


def test_a_changed_token_makes_stale_what_uses_it_alone(own, tmp_path):
    for name in ("src", "pipelines"):
        (tmp_path / name).symlink_to(ROOT / name)
    params, text = check_shapes(values_of()), (own / "losses/footrule.py").read_text()
    write(own, "losses/footrule.py", text.replace("import torch\n", "import torch\n\nimport own.losses._helper\n", 1))
    write(own, "losses/_helper.py", "VALUE = 1\n")
    write(own, "losses/unused.py", text)
    stages = [*STAGES, ("compare", ""), ("summarize", "")]
    before = {stage: lines_of(params, *stage, root=tmp_path) for stage in stages}
    for file, stale in USED_BY.items():
        text = (own / file).read_text()
        write(own, file, f"# a comment\n{text}")
        assert {stage: lines_of(params, *stage, root=tmp_path) for stage in stages} == before
        write(own, file, f"{text}\nVALUE = 2\n")
        changed = {" ".join(stage) for stage in stages if lines_of(params, *stage, root=tmp_path) != before[stage]}
        assert changed == stale, file
        write(own, file, text)


LOSS = """import torch
__all__ = ["footrule"]
def footrule(scores, target, *, sorter):
    return {}
"""
SORTER = """import torch
from rankgrad.sorters import Sorter
__all__ = ["TanhRanks"]
class TanhRanks(Sorter):
    def __init__(self, *, width=1.0):
        super().__init__()
    def soft_ranks(self, scores, mask):
        return {}
"""
METRIC = """import torch
__all__ = ["displacement"]
def displacement(scores, target):
    return {}
"""
# A file, its text, and what the problem says: the place of the params, and words of what was found.
REFUSED = [
    ("losses/footrule.py", "def", "runs.mine.loss.name", "cannot be imported: SyntaxError"),
    ("losses/footrule.py", "def footrule(scores, target): ...", "runs.mine.loss.name", "has no __all__"),
    ("losses/footrule.py", "__all__ = ['footrule', 'other']", "runs.mine.loss.name", "['footrule', 'other']"),
    ("losses/footrule.py", LOSS.format("scores.square().mean(-1)"), "runs.mine.loss", "returns the shape (4,)"),
    ("losses/footrule.py", LOSS.format("(scores * torch.rand(6)).mean()"), "runs.mine.loss", "second call"),
    ("losses/footrule.py", LOSS.format("scores.argsort(-1).double().mean()"), "runs.mine.loss", "no gradient"),
    ("losses/footrule.py", LOSS.format("(scores - scores).sqrt().mean()"), "runs.mine.loss", "a gradient that is NaN"),
    ("losses/footrule.py", LOSS.format("target.none_such"), "runs.mine.loss", "raises AttributeError"),
    ("losses/footrule.py", LOSS.replace("target", "prices").format(0), "runs.mine.loss", "takes scores, prices"),
    ("losses/mse.py", LOSS.replace("footrule", "mse").format(0), "runs.usual.loss.name", "rankgrad/losses/mse.py"),
    ("sorters/tanh_ranks.py", SORTER.format("scores.mean(-1)"), "sorters.tanh", "returns the shape (4,)"),
    ("sorters/tanh_ranks.py", SORTER.format("3.5 + scores / 10"), "sorters.tanh", "the largest score the largest"),
    ("sorters/tanh_ranks.py", SORTER.format("3.5 - (scores - scores.mean(-1, keepdim=True)) / 10"), "sorters.tanh",
     "depends on other scores that a mask"),
    ("sorters/tanh_ranks.py", SORTER.format("3.5 - scores / scores.abs().max()"), "sorters.tanh", "on other lists"),
    ("metrics/displacement.py", METRIC.format("scores.mean(-1) - scores.mean()"), "training.score_ranking",
     "on other lists"),
    ("sorters/tanh_ranks.py", SORTER.replace("(Sorter)", "").format(0), "sorters.tanh", "TanhRanks"),
    ("metrics/displacement.py", METRIC.format("scores.mean()"), "training.score_ranking", "expected one number per"),
    ("metrics/displacement.py", METRIC.replace("target", "price").format(0), "training.score_ranking", "scores, price"),
    ("metrics/spearman.py", METRIC.replace("displacement", "spearman").format(0), "metrics.spearman",
     "rankgrad/metrics/spearman.py"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "place", "found"), REFUSED)
def test_check_names_the_file_of_what_cannot_work(own, file, text, place, found):
    write(own, file, text)
    with pytest.raises(ParamsError) as raised:
        check_values(values_of())
    problem = next(problem for problem in raised.value.problems if f"own/{file}" in problem.found)
    assert found in problem.found + problem.expected
    assert problem.expected or problem.advice
    assert problem.place == place


@pytest.mark.parametrize(
    ("args", "argument"), [({"weight": "count"}, "weights"), ({"group": "shop", "within": True}, "mask")]
)
def test_check_names_the_argument_that_a_table_needs(own, args, argument):
    write(own, "losses/footrule.py", LOSS.format("scores.mean()"))
    write(own, "metrics/displacement.py", METRIC.format("scores.mean(-1)"))
    with pytest.raises(ParamsError) as raised:
        check_values(values_of(datasets={"cars": {"args": args}}))
    needed = {problem.place: problem.expected.partition(" ")[0] for problem in raised.value.problems}
    assert needed == {"runs.mine.loss": argument, "runs.usual": argument}


@pytest.mark.parametrize(
    "name", ["own.losses.footrule", "../own/losses/footrule", "losses/footrule", "_helper", "footrul"]
)
def test_a_name_is_that_of_a_file_and_nothing_else(own, name):
    write(own, "losses/_helper.py", "raise SystemExit('imported')")
    with pytest.raises(ParamsError) as raised:
        check_values(values_of(runs={"mine": {"loss": {"name": name}}}))
    (problem,) = raised.value.problems
    assert problem.place == "runs.mine.loss.name"
    assert "did you mean footrule?" in problem.found or name != "footrul"


def test_a_loss_that_draws_is_given_a_generator(own):
    text = LOSS.replace("*, sorter", "*, sorter, generator")
    write(own, "losses/footrule.py", text.format("(scores * torch.rand(scores.shape, generator=generator)).mean()"))
    assert check_values(values_of()).runs["mine"].loss.name == "footrule"


def test_a_model_that_scikit_learn_fits_is_saved_as_numbers(own, tmp_path):
    draws = torch.Generator().manual_seed(0)
    vectors = torch.randn(60, 3, generator=draws, dtype=torch.float64)
    vectors[:, 1] = 36.6  # a constant teaches nothing
    split = Split(of_tensor(vectors), vectors[:, 0] - 2 * vectors[:, 2])
    model = {"name": "identity", "args": {}, "backbone": {"name": "huber", "args": {}}}
    save_model(tmp_path / "made", task_of("score_ranking", {"batch_size": 8}).build(model, split, seed=0))
    network = load_model(tmp_path / "made").eval()
    scores = network(vectors).squeeze(1)
    assert spearmanr(scores.detach(), split.truth).statistic > 0.99
    vectors[:, 1] += 1
    torch.testing.assert_close(network(vectors).squeeze(1), scores)
