"""The report: what the page and the tables of the docs show, and what is refused."""

import json
import re
import shutil
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import dvc.cli
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from dvc.repo import Repo
from ruamel.yaml import YAML

from pipelines.config.schema import check_shapes
from pipelines.reporting import plots
from pipelines.reporting.content import SORTER_COLUMNS, content
from pipelines.reporting.examples import SHEET, Examples, sheet
from pipelines.reporting.results import cell
from pipelines.stages import report, summarize
from rankgrad.io import results
from rankgrad.io.parquet import encode_images
from rankgrad.io.results import Row
from rankgrad.lookup import find
from rankgrad.metrics.label_ranking import ranked_map_ceiling

from conftest import ROOT, params_of  # isort: skip

TRAINED = {"seeds": [1, 2], "best": 2, "validation": {"2": 0.5}, "setting": {"training.lr": 0.003}, "tried": []}
USUAL, OURS, RANKER = "memorability-mse", "memorability-spearman-laplace", "label_ranking-rlsep"
QUESTION = "Does <b>Spearman|mse</b> pay?"
LABELS, TEST = 10, 14
RUNS = {  # task, dataset, loss, sorter, main metric
    "label_ranking-mse": ("label_ranking", "ranked_mnist", "mse", "none", 0.887),
    RANKER: ("label_ranking", "ranked_mnist", "rlsep", "none", 0.975),
    USUAL: ("score_ranking", "clips", "mse", "none", 0.776),
    OURS: ("score_ranking", "clips", "spearman", "laplace", 0.801),
    "multilabel-soft": ("multilabel", "long_tailed_mnist", "multilabel_soft_margin", "none", 0.922),
    "retrieval-triplet": ("retrieval", "captions", "hard_negative_triplet", "none", 0.27),
}


def params():
    """Return the params of six runs of four tasks, two of them compared."""
    rows = {"train": 5000, "val": 10, "test": TEST, "gate": 10}
    dataset = {"args": {"canvas": 16}, "rows": rows}
    values = params_of({"compute": {"threads": 1}, "datasets": dict.fromkeys(params_of({})["datasets"], dataset)})
    common = {
        "model": {"name": "linear", "backbone": {"name": "convnet"}},
        "auxiliary": {"name": "none"},
        "seeds": [1, 2],
    }
    runs = {}
    for name, (task, dataset, loss, sorter, _) in RUNS.items():
        start = f"models/runs/{RANKER}/seed1" if task == "score_ranking" else "models/runs/none"
        own = {"task": task, "dataset": dataset, "loss": {"name": loss}, "sorter": sorter, "start": start}
        runs[name] = common | own
    comparison = {"question": QUESTION, "metric": "spearman", "baseline": USUAL, "runs": [OURS]}
    sorters = {name: values["sorters"][name] for name in ("lstm", "laplace")}
    benchmark = dict.fromkeys(sorters, "sodeep")
    own = {"sorters": sorters, "benchmark_sorters": benchmark, "runs": runs, "comparisons": {"scores": comparison}}
    return check_shapes(values | own)


def write(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def predictions(task):
    """Return what seed 1 of a run predicts, all wrong in label ranking, then seed 2, all right; with the truth."""
    draws = np.random.default_rng(0)
    ranks = np.stack([draws.permutation([3, 2, 1] + [0] * (LABELS - 3)) for _ in range(TEST)])
    vectors = draws.normal(size=(TEST, 4))
    wrong = np.where(ranks > 0, ranks % 3 + 1, 0)
    columns = {
        "label_ranking": {"true_label_ranks": [*ranks, *ranks], "label_ranks": [*wrong, *ranks]},
        "score_ranking": {"score": draws.random(2 * TEST), "target": draws.random(2 * TEST)},
        "multilabel": {"labels": [*(ranks > 0)] * 2},
        "retrieval": {"image_embedding": [*vectors] * 2, "captions": [["<b>of 5"] * 5] * 2 * TEST,
                      "text_embeddings": [[vector.tolist()] * 5 for vector in vectors] * 2},
    }[task]  # fmt: skip
    return pa.table({"id": [*range(TEST)] * 2, "seed": [1] * TEST + [2] * TEST, **columns})


def write_run(name, task, value, **trained):
    metrics = [metric.name for metric in find("tasks", task).metrics]
    metrics += [f"average_precision.{label}" for label in range(LABELS)] if task == "multilabel" else []
    rows = []
    for number, metric in enumerate(metrics):
        mean = 3.0 if "median" in metric else value + 0.001 * number
        rows += [Row(name, metric, mean, mean - 0.02, mean + 0.02), Row(name, metric, mean - 0.01, seed=1)]
    for folder in ("metrics/runs", "predictions"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    results.write(f"metrics/runs/{name}.csv", rows)
    pq.write_table(predictions(task), f"predictions/{name}.parquet")
    write(f"models/runs/{name}/run.json", TRAINED | trained)
    for seed in (1, 2):
        lines = ["phase,epoch,loss,rank,learning_rate,best", "probe,1,1.0,0.1,0.01,1", "finetune,3,0.3,0.3,0.01,1"]
        write(f"models/runs/{name}/seed{seed}/history.csv", "\n".join(lines))


def write_comparison(*runs):
    name, rows = f"spearman minus {USUAL}", [Row(USUAL, "spearman", 0.776)]
    for run in runs:
        rows += [Row(run, "spearman", 0.8), Row(run, name, 0.025, 0.01, 0.04), Row(run, f"p of {name}", 0.0004)]
        rows += [Row(run, name, 0.025, seed=seed) for seed in (1, 2)]
    rows.append(Row(OURS, "spearman minus theirs", 0.025, -0.01, 0.06))
    Path("metrics/comparisons").mkdir(exist_ok=True)
    results.write("metrics/comparisons/scores.csv", rows)


def write_project():
    """Write what all stages before the report write."""
    draws = np.random.default_rng(0)
    images = encode_images(draws.integers(0, 255, (TEST, 16, 16), dtype=np.uint8), threads=1)
    for dataset in ("ranked_mnist", "captions", "long_tailed_mnist"):
        Path(f"data/{dataset}").mkdir(parents=True)
        pq.write_table(pa.table({"image": images}), f"data/{dataset}/test.parquet")
    for name, (task, _, _, _, value) in RUNS.items():
        shared = {"shared_start": f"models/runs/{RANKER}/seed1"} if name == OURS else {}
        write_run(name, task, value, best=1 if name == "label_ranking-mse" else 2, **shared)
    write_comparison(OURS)
    Path("metrics/sorters").mkdir()
    for name in ("lstm", "laplace"):
        results.write(f"metrics/sorters/{name}.csv", [Row(name, metric, 1409.0) for metric in SORTER_COLUMNS])
    write("models/sorters/lstm/history.csv", "phase,epoch,loss,l1,learning_rate,best\nimitation,1,0.3,0.2,0.01,1\n")
    Path("models/sorters/laplace").mkdir()
    for dataset in {run.dataset for run in params().runs.values()}:
        write(f"reports/data/{dataset}.html", "")


def words_of(page: str) -> str:
    """Return the text of a page, without its markup."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", page)).split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a report, and its page."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_project()
        report.main(params())
    return folder, (folder / "reports/index.html").read_text()


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """Return a copy of that folder, which is the current one."""
    shutil.copytree(made[0], tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_dvc_shows_a_chart_of_each_task_that_names_its_runs(project, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["dvc"])  # DVC would take the tests' own options for some of its own
    summarize.main(params())
    Repo.init(no_scm=True)
    shutil.copytree(ROOT / "pipelines/reporting/templates", "pipelines/reporting/templates")
    yaml = YAML(typ="safe")
    yaml.dump({"plots": yaml.load(ROOT / "dvc.yaml")["plots"]}, Path("dvc.yaml"))
    assert dvc.cli.main(["plots", "show", "--out", "charts"]) == 0
    page = capsys.readouterr().err + Path("charts/index.html").read_text()
    assert "WARNING" not in page
    specs = [json.JSONDecoder().raw_decode(script)[0] for script in page.split("var spec = ")[1:]]
    shown = set()
    for spec in specs:
        shown |= {(Path(spec["title"]["text"]).stem, row["run"]) for row in spec["data"]["values"]}
    assert shown == {("sorters", "lstm"), *((task, name) for name, (task, *_) in RUNS.items())}


def test_the_page_opens_with_the_gain_of_our_loss_and_details_have_all_metrics(made):
    folder, page = made
    words = words_of(page)
    usual, ours = "mse 0.776 (0.756 to 0.796)", "spearman + laplace 0.801 (0.781 to 0.821)"
    gain = "better +0.025 (+0.010 to +0.040) < 0.001"
    assert f"Score ranking Spearman {usual} {ours} seeds share {RANKER}/seed1 {gain}" in words
    assert all(metric.title in words for metric in find("tasks", "label_ranking").metrics)
    assert "caption median rank 3.0 (" in words
    assert re.search("lstm 1,409[^a-z]* 1,409 laplace", words)
    true = pq.read_table(folder / f"predictions/{RANKER}.parquet")["true_label_ranks"].to_pylist()[:TEST]
    assert f"scores {cell(ranked_map_ceiling(torch.tensor(true)))} ranked mAP" in words


def test_the_short_table_has_the_loss_that_is_best_on_validation(project):
    values, other = params(), "memorability-spearman-logistic"
    values.runs[other] = values.runs[OURS].model_copy(update={"sorter": "logistic"})
    values.comparisons["scores"].runs.append(other)
    values.comparisons["scores"].rivals.append("theirs")
    write_comparison(OURS, other, "theirs")
    best = []
    for validation in (0.4, 0.6):  # of the other, 0.5
        write_run(other, "score_ranking", 0.9, validation={"2": validation})
        runs = {name: run for name, run in values.runs.items() if run.task == "score_ranking"}
        page = content(values.model_copy(update={"runs": runs, "benchmark_sorters": {}}), Path("reports/figures"))
        best.append(page["comparisons"][0]["best"]["loss"])
    assert best == ["spearman + laplace", "spearman + logistic"]
    pays = page["comparisons"][0]["pays"]
    assert all(text in pays for text in (OURS, "theirs", "+0.025 (-0.010 to +0.060)", "no clear difference"))


def test_the_sheet_shows_the_best_seed_of_every_loss(made, project):
    page, right = made[1], []
    for best in (1, 2):
        write(f"models/runs/{RANKER}/run.json", TRAINED | {"best": best})
        orders = [orders["rlsep"] for *_, orders in sheet(params(), project)]
        right.append(sum(correct for order in orders for _, correct in order))
    assert right == [0, 3 * SHEET]  # seed 2 is right
    assert page.count("<dt>rlsep</dt>") == SHEET == page.count("<dt>true</dt>")
    assert page.count("<mark>") == 3 * SHEET  # those of the other loss


@pytest.mark.parametrize("columns", [{"within": ["lab"] * 4, "group": ["b", "a", "b", "a"]}, {"fold": [1, 2, 1, 2]}])
def test_scores_are_drawn_within_their_group_or_fold(columns, project, monkeypatch):
    table = {"seed": [2] * 4, "score": [0.0, 100.0, 1.0, 101.0], "target": [7.0, 5.0, 8.0, 6.0]}
    pq.write_table(pa.table(table | columns), f"predictions/{OURS}.parquet")
    figures = []
    monkeypatch.setattr(plots.plt, "close", figures.append)
    assert find("tasks", "score_ranking")().draw(plots, Path("a.png"), Examples(params(), OURS, []))
    apart, ranks = (axis.collections[0].get_offsets().tolist() for axis in figures[0].axes)
    assert apart == [[-0.5, -0.5], [-0.5, -0.5], [0.5, 0.5], [0.5, 0.5]]
    assert ranks == [[0.5, 0.5], [0.5, 0.5], [1.0, 1.0], [1.0, 1.0]]


def test_examples_of_ones_own_table_are_shown_with_names_and_nothing_speaks_of_digits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = params()
    run = values.runs[RANKER].model_copy(update={"dataset": "shop"})
    args = {"file": "shop.csv", "text": "text", "label_ranks": "rank_*", "group": "seller"}
    block = {"name": "table", "raw": "data/raw/shop", "rows": None, "args": args, "folds": 3}
    table = values.datasets["clips"].model_copy(update=block)
    only = {"runs": {RANKER: run}, "comparisons": {}, "benchmark_sorters": {}, "datasets": {"shop": table}}
    write_run(RANKER, "label_ranking", 0.9)
    predicted = pq.read_table(f"predictions/{RANKER}.parquet")
    folds = pa.array([1 + row % 3 for row in range(TEST)] * 2)
    pq.write_table(predicted.append_column("fold", folds), f"predictions/{RANKER}.parquet")
    Path("data/shop").mkdir(parents=True)
    metadata = {"classes": json.dumps([f"class {label}" for label in range(LABELS)])}
    rows = pa.table({"text": ["a <red> dress"] * TEST}).replace_schema_metadata(metadata)
    pq.write_table(rows, "data/shop/test.parquet")
    report.main(values.model_copy(update=only))
    text = Path("reports/index.html").read_text()
    assert all(shown in text for shown in ("a &lt;red&gt; dress", "<span>class ", f"figures/{RANKER}-examples.png"))
    assert not re.search("igit|MNIST", text)
    assert f"3 folds over groups (seller); a test fold has 4 to 5 of {TEST} rows" in text


def test_the_page_loads_nothing_from_elsewhere_needs_no_script_and_markup_in_texts_is_text(made):
    folder, page = made
    for address in re.findall('(?:src|srcset|href)="([^" ]+)', page):
        assert (folder / "reports" / unquote(address)).is_file()
    assert not re.search(r"<(script|link|iframe)|url\(|<b>(Spearman|of)", page)
    assert f"Question: {QUESTION}" in words_of(page)


@pytest.mark.parametrize(
    ("file", "contents", "named"),
    [
        ("metrics/comparisons/scores.csv", b"run,seed,fold,split,metric,value,low,high\na,,,,m,1,,\n", "minus"),
        (f"models/runs/{RANKER}/run.json", b"\xff", "JSON"),
        (f"predictions/{RANKER}.parquet", b"PAR1", "Parquet"),
    ],
)
def test_a_corrupt_file_is_named_and_the_report_stays(project, file, contents, named):
    before = Path("reports/index.html").read_bytes()
    Path(file).write_bytes(contents)
    with pytest.raises(ValueError, match=f"(?s){file}.*{named}"):
        report.main(params())
    assert Path("reports/index.html").read_bytes() == before
