"""The report: what it reads, what the page and the tables of README show, and what it refuses."""

import json
import re
import shutil
import sys
from functools import reduce
from html.parser import HTMLParser
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
from pipelines.reporting.content import content
from pipelines.reporting.examples import SHEET, sheet
from pipelines.reporting.results import number
from pipelines.stages import report, summarize
from rankgrad.io.parquet import encode_images
from rankgrad.lookup import find
from rankgrad.metrics.label_ranking import ranked_map_ceiling
from rankgrad.tasks.label_ranking import places
from studies import kept, pages

from conftest import ROOT, params_of  # isort: skip

TRAINED = {"seeds": [1, 2], "best": 2, "validation": {"2": 0.5}, "setting": {"training.lr": 0.003}, "tried": []}
OURS = "memorability-spearman-laplace"
COMPARISON = {"question": "Does <b>Spearman|mse</b> pay?", "metric": "spearman", "baseline": "memorability-mse"}
LABELS, TEST = 10, 14
RUNS = {  # task, dataset, loss, sorter, main metric
    "label_ranking-multilabel_cross_entropy": (
        "label_ranking",
        "ranked_mnist",
        "multilabel_cross_entropy",
        "none",
        0.887,
    ),
    "label_ranking-rlsep": ("label_ranking", "ranked_mnist", "rlsep", "none", 0.975),
    "memorability-mse": ("score_ranking", "clips", "mse", "none", 0.776),
    "memorability-spearman-laplace": ("score_ranking", "clips", "spearman", "laplace", 0.801),
    "multilabel-multilabel_soft_margin": ("multilabel", "long_tailed_mnist", "multilabel_soft_margin", "none", 0.922),
    "retrieval-hard_negative_triplet": ("retrieval", "captions", "hard_negative_triplet", "none", 0.27),
}


def params():
    """Return the params of six runs of four tasks, two of them compared."""
    rows = {"train": 5000, "val": 10, "test": TEST, "gate": 10}
    datasets = {name: {"args": {"canvas": 16}, "rows": rows} for name in params_of({})["datasets"]}
    values = params_of({"compute": {"threads": 1}, "datasets": datasets})
    common = {"model": {"name": "linear", "backbone": {"name": "convnet"}}, "start": "models/runs/none",
              "auxiliary": {"name": "none"}, "seeds": [1, 2]}  # fmt: skip
    runs = {name: common | {"task": task, "dataset": dataset, "loss": {"name": loss}, "sorter": sorter}
            for name, (task, dataset, loss, sorter, _) in RUNS.items()}  # fmt: skip
    return check_shapes(values | {
        "sorters": {name: values["sorters"][name] for name in ("lstm", "laplace")},
        "runs": runs, "comparisons": {"score_ranking": COMPARISON | {"runs": [OURS]}},
    })  # fmt: skip


def write(path, content):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def leaf(value):
    return {"value": value, "low": value - 0.02, "high": value + 0.02, "seeds": {"1": value - 0.01, "2": value + 0.01}}


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


def write_run(name, task, value):
    metrics = {}
    for place, metric in enumerate(find("tasks", task).metrics):
        *parents, last = metric.name.split(".")
        block = reduce(lambda outer, parent: outer.setdefault(parent, {}), parents, metrics)
        block[last] = leaf(3.0 if "median" in last else value + 0.001 * place)
    if task == "multilabel":
        metrics["average_precision"] = {str(label): leaf(0.5) for label in range(LABELS)}
    write(f"metrics/runs/{name}.json", metrics)
    Path("predictions").mkdir(exist_ok=True)
    pq.write_table(predictions(task), f"predictions/{name}.parquet")
    write(
        f"models/runs/{name}/run.json", TRAINED | {"best": 1 if name == "label_ranking-multilabel_cross_entropy" else 2}
    )
    for seed in (1, 2):
        lines = ["probe,1,1.0,0.1,0.01,1", "probe,2,0.5,0.2,0.01,1", "finetune,3,0.3,0.3,0.01,1"]
        text = "\n".join(["phase,epoch,loss,rank,learning_rate,best", *lines])
        write(f"models/runs/{name}/seed{seed}/history.csv", text)


def write_project():
    """Write what all stages before the report write."""
    draws = np.random.default_rng(0)
    images = encode_images(draws.integers(0, 255, (TEST, 16, 16), dtype=np.uint8), threads=1)
    for dataset in ("ranked_mnist", "captions", "long_tailed_mnist"):
        Path(f"data/{dataset}").mkdir(parents=True)
        pq.write_table(pa.table({"image": images}), f"data/{dataset}/test.parquet")
    for name, (task, _, _, _, value) in RUNS.items():
        write_run(name, task, value)
    ours = {"value": 0.801, "difference": {"value": 0.025, "low": 0.01, "high": 0.04}, "p": 0.0004, "seeds": 2}
    write("metrics/comparisons/score_ranking.json",
          COMPARISON | {"runs": {"memorability-mse": {"value": 0.776, "seeds": 2}, OURS: ours}})  # fmt: skip
    for name in ("lstm", "laplace"):
        write(f"metrics/sorters/{name}.json", {
            "l1": {"value": 0.02041, "low": 0.02, "high": 0.021}, "l1_by_kind": {"uniform": 0.02, "normal": 0.03},
            "exact_ranks": 0.5, "gradient": {"vanishing": 0.0, "wrong_signs_of_others": 0.3},
            "length": 8, "parameters": 1409,
        })  # fmt: skip
    write("models/sorters/lstm/history.csv",
          "phase,epoch,loss,l1,learning_rate,best\nimitation,1,0.3,0.2,0.01,1\nimitation,2,0.2,0.1,0,1\n")  # fmt: skip
    Path("models/sorters/laplace").mkdir()
    for dataset in {run.dataset for run in params().runs.values()}:
        write(f"reports/data/{dataset}.html", "")


class Page(HTMLParser):
    """The rows of each table, the addresses that the page asks for, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.addresses, self.words, self.tags = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value.partition(" ")[0] for name, value in attributes if name in ("src", "srcset", "href")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data):
        self.words.append(data)
        if self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] = " ".join([*self.tables[-1][-1][-1].split(), *data.split()])


def row_of(page, start):
    (row,) = [row for table in page.tables for row in table if row[0] == start]
    return row


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a report, and its page."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_project()
        report.main(params())
    return folder, Page((folder / "reports/index.html").read_text())


def test_dvc_shows_a_score_of_each_run_and_a_chart_of_each_task_that_names_its_runs(project, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["dvc"])  # DVC would take the tests' own options for some of its own
    summarize.main(params())
    Repo.init(no_scm=True)
    shutil.copytree(ROOT / "pipelines/reporting/templates", "pipelines/reporting/templates")
    yaml = YAML(typ="safe")
    yaml.dump({"metrics": ["scores"], "plots": yaml.load(ROOT / "dvc.yaml")["plots"]}, Path("dvc.yaml"))
    assert dvc.cli.main(["metrics", "show"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert max(map(len, table)) <= 120
    assert len(table) == 1 + len(RUNS) + 2
    assert any(row.split() == [f"scores/{OURS}.json", "spearman", "0.801"] for row in table)
    assert dvc.cli.main(["plots", "show", "--out", "charts"]) == 0
    page = capsys.readouterr().err + Path("charts/index.html").read_text()
    assert "WARNING" not in page
    specs = [json.JSONDecoder().raw_decode(rest)[0] for rest in page.split("var spec = ")[1:]]
    shown = {Path(spec["title"]["text"]).stem: {row["run"] for row in spec["data"]["values"]} for spec in specs}
    assert len(specs) == len(shown)
    assert shown == {"sorters": {"lstm"}} | {
        task: {name for name, run in RUNS.items() if run[0] == task} for task, *_ in RUNS.values()
    }
    rows = [row for spec in specs for row in spec["data"]["values"] if row["run"] == "lstm"]
    assert [(row["phase"], row["epoch"], row["validation"]) for row in rows] == [
        ("imitation: l1", "1", "0.2"), ("imitation: l1", "2", "0.1"),
    ]  # fmt: skip


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    """Return a copy of that folder, which is the current one."""
    shutil.copytree(made[0], tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_the_page_opens_with_the_gain_of_our_loss_and_details_have_all_metrics(made):
    page, ours = made[1], "spearman + laplace 0.801 (0.781 to 0.821)"
    usual, gain = "mse 0.776 (0.756 to 0.796)", "better +0.025 (+0.010 to +0.040)"
    assert page.tables[0][1][:5] == ["Score ranking Spearman", usual, ours, gain, "< 0.001"]
    rows = {row[0]: row[1:] for row in page.tables[1]}
    for place, metric in enumerate(find("tasks", "label_ranking").metrics):
        assert rows[metric.title][0].startswith(f"{0.887 + 0.001 * place:.3f} (")
    assert row_of(page, "caption median rank")[1].startswith("3.0 (")
    true = pq.read_table(made[0] / "predictions/label_ranking-rlsep.parquet")["true_label_ranks"].to_pylist()[:TEST]
    # A perfect ranking has no positive pair, so no precision, if its labels are the last and ascend.
    assert f"scores {number(ranked_map_ceiling(torch.tensor(true)))} ranked mAP" in " ".join(page.words)


def test_the_short_table_has_the_loss_that_is_best_on_validation(project):
    values, other = params(), "memorability-spearman-logistic"
    values.runs[other] = values.runs[OURS].model_copy(update={"sorter": "logistic"})
    write_run(other, "score_ranking", 0.9)
    compared = json.loads(Path("metrics/comparisons/score_ranking.json").read_text())
    compared["runs"][other] = compared["runs"][OURS] | {"difference": {"value": 0.1, "low": 0.09, "high": 0.11}}
    write("metrics/comparisons/score_ranking.json", compared)
    found = []
    of_scores = {name: run for name, run in values.runs.items() if run.task == "score_ranking"}
    for validation in (0.4, 0.6):  # of the other, 0.5
        write(f"models/runs/{other}/run.json", TRAINED | {"validation": {"2": validation}})
        shown = content(values.model_copy(update={"runs": of_scores, "sorters": {}}), Path("reports/figures"))
        found.append(shown["comparisons"][0]["best"]["loss"])
    assert found == ["spearman + laplace", "spearman + logistic"]


def test_the_sheet_shows_the_best_seed_of_every_loss(made, project):
    page, right = (made[0] / "reports/index.html").read_text(), []
    for best in (1, 2):
        write("models/runs/label_ranking-rlsep/run.json", TRAINED | {"best": best})
        answers = [places["rlsep"] for *_, places in sheet(params(), project)]
        right.append(sum(correct for one in answers for _, correct in one))
    assert right == [0, 3 * SHEET]  # seed 2 is right
    assert page.count("<dt>rlsep</dt>") == SHEET == page.count("<dt>true</dt>")
    assert page.count("<mark>") == 3 * SHEET  # those of cross-entropy
    assert {"orders.png", "image-0.png"} <= {path.name for path in Path("reports/figures").iterdir()}


def test_the_same_results_make_the_same_bytes(project):
    before = {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()}
    report.main(params())
    assert {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kind", ["text", "features"])
def test_examples_of_ones_own_table_are_shown_by_kind_and_with_names_and_nothing_speaks_of_digits(project, kind):
    values, name = params(), "label_ranking-rlsep"
    run = values.runs[name].model_copy(update={"dataset": "shop"})
    table = values.datasets["clips"].model_copy(update={"name": "table", "raw": "data/raw/shop", "rows": None})
    only = {"runs": {name: run}, "comparisons": {}, "sorters": {}, "datasets": {"shop": table}}
    for folder in ("metrics/runs", "models/runs", "predictions"):
        for path in Path(folder).iterdir():
            if path.stem != name:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    cells = {"text": ["a <red> dress"] * TEST, "features": [[0.5, 20.0]] * TEST}[kind]
    told = {"classes": json.dumps([f"class {label}" for label in range(LABELS)]), "features": '["age", "price"]'}
    Path("data/shop").mkdir()
    pq.write_table(pa.table({kind: cells}).replace_schema_metadata(told), "data/shop/test.parquet")
    report.main(values.model_copy(update=only))
    text = Path("reports/index.html").read_text()
    assert {"text": "a &lt;red&gt; dress", "features": "age 0.5\nprice 20"}[kind] in text
    assert "<span>class " in text
    assert "figures/label_ranking-rlsep-examples.png" in text
    assert not re.search("igit|MNIST|papers", text)


def test_a_label_is_right_in_its_place_alone():
    true = np.array([0, 3, 2, 1, 2])  # 1, then 2 and 4, then 3
    assert places(true, np.array([0, 4, 2, 1, 3])) == [("1", True), ("4", True), ("2", True), ("3", True)]
    assert places(true, np.array([1, 0, 2, 3, 0])) == [("3", False), ("2", True), ("0", False), ("", False)]
    assert places(np.zeros(5), np.array([0, 0, 1, 0, 0])) == [("2", False)]


def test_the_page_loads_nothing_from_elsewhere_needs_no_script_and_markup_in_texts_is_text(made):
    folder, page = made
    text = (folder / "reports/index.html").read_text()
    assert page.addresses
    for address in page.addresses:
        assert (folder / "reports" / unquote(address)).is_file()
    assert not page.tags & {"script", "link", "iframe", "b>of"}
    assert "url(" not in text
    shown = {unquote(address).removeprefix("figures/") for address in page.addresses}
    assert {path.name for path in (folder / "reports/figures").iterdir()} - shown == {"orders.png"}  # README's
    assert f"Question: {COMPARISON['question']}" in page.words
    assert "<b>Spearman" not in text


@pytest.mark.parametrize(
    ("file", "content", "place"),
    [
        ("metrics/runs/memorability-mse.json", "{", "JSON"),
        ("metrics/runs/memorability-mse.json", "{}", "spearman"),
        ("metrics/runs/memorability-mse.json", {"spearman": leaf(0.5) | {"value": "high"}}, "value.*'high'"),
        ("metrics/comparisons/score_ranking.json", COMPARISON | {"runs": {OURS: {"value": 1}}}, "difference"),
        ("metrics/sorters/lstm.json", "\udcff", "JSON"),
        ("models/runs/label_ranking-rlsep/run.json", {"seeds": [1]}, "best"),
        ("models/runs/label_ranking-rlsep/seed2/history.csv", "epoch,loss\n1,2\n", "learning_rate"),
        ("predictions/label_ranking-rlsep.parquet", "PAR1", "Parquet"),
        ("metrics/runs/memorability-mse.json", None, ""),
    ],
)  # fmt: skip
def test_a_corrupt_or_missing_file_is_named_and_the_report_stays(project, file, content, place):
    before = Path("reports/index.html").read_bytes()
    text = content if isinstance(content, str) else json.dumps(content)
    Path(file).write_bytes(text.encode(errors="surrogateescape"))
    if content is None:
        Path(file).unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=f"(?s){file}.*{place}"):
        report.main(params())
    assert Path("reports/index.html").read_bytes() == before


MADE_BY = {"commit": "0123", "params": {}, "hashes": {}, "machine": {}}


class TestStudies:
    def test_what_is_written_is_read_to_the_bit(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rows = kept.rows_of("mse", {"spearman": leaf(1 / 3)}) + [kept.Row("mse", "setting.lr", 0.1, fold=2)]
        kept.write("mine", rows, MADE_BY)
        study = kept.read("mine")
        assert study.made_by.items() >= MADE_BY.items()
        assert study.runs == ["mse"]
        assert study.leaf("mse", "spearman") == (1 / 3, 1 / 3 - 0.02, 1 / 3 + 0.02)
        assert study.by_seed("mse", "spearman") == {1: 1 / 3 - 0.01, 2: 1 / 3 + 0.01}
        assert study.by_fold("mse", "setting.lr") == {2: 0.1}

    @pytest.mark.parametrize(
        ("rows", "about", "named"),
        [
            ([kept.Row("a", "m", 1.0)] * 2, MADE_BY, "twice"),
            ([kept.Row("a", "m", float("inf"))], MADE_BY, "finite"),
            ([kept.Row("a", "m", 1.0, 1.5, 2.0)], MADE_BY, "between low and high"),
            ([kept.Row("a", "m", 1.0, 1.0)], MADE_BY, "or neither"),
            ([kept.Row("a ", "m", 1.0)], MADE_BY, "spaces"),
            ([], MADE_BY, "no rows"),
            ([kept.Row("a", "m", 1.0)], MADE_BY | {"commit": None}, "commit"),
        ],
    )
    def test_a_study_without_an_origin_or_with_a_number_twice_or_beside_its_interval_is_refused(
        self, rows, about, named, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match=f"made.*{named}"):
            kept.write("mine", rows, about)
        assert not Path("studies/made/mine").exists()

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ("b,,,m,0.25,,\n", "", "results.csv: its SHA-256 is"),  # cut at a line
            ("0.25", "0.2", "results.csv: its SHA-256 is"),  # cut within a number
            ("0.25", "inf", "line 3: value .* finite"),
            ("0.25", "", "line 3: value is ''"),
            ("b,,", "b,1.5,", "line 3: seed is '1.5'"),
            ("b,,,m", "a,,,m", "line 3: .*twice"),
            ("0.5,0.4,0.6", "0.5,0.6,0.4", "line 2: .*between low and high"),
            ("m,0.25,,", "m,0.25", "line 3: 5 cells"),
        ],
    )
    def test_a_damaged_table_is_refused(self, tmp_path, monkeypatch, old, new, named):
        monkeypatch.chdir(tmp_path)
        path = kept.write("x", [kept.Row("a", "m", 0.5, 0.4, 0.6), kept.Row("b", "m", 0.25)], MADE_BY)
        table = path / "results.csv"
        table.write_text(table.read_text().replace(old, new))
        with pytest.raises(ValueError, match=f"results.csv: {named.removeprefix('results.csv: ')}"):
            kept.read("x")


class TestPages:
    PLACE = "before\n<!-- results: {} -->\nold\n<!-- end of results -->\nafter\n"

    def test_text_replaces_what_stands_in_its_place_and_a_page_without_one_stays_as_it_is(self, tmp_path):
        page, other = tmp_path / "page.md", self.PLACE.format("other")
        page.write_text(other + self.PLACE.format("mine"))
        pages.write(page, "mine", r"| new \1 |" + "\n")
        assert page.read_text() == other + self.PLACE.format("mine").replace("old", r"| new \1 |")
        for text in ("", "<!-- results: mine -->\nno end", self.PLACE.format("mine") * 2):
            page.write_text(text)
            with pytest.raises(ValueError, match="page.md"):
                pages.write(page, "mine", "new")
            assert page.read_text() == text

    def test_margins_are_tested_over_seeds_and_every_loss_must_have_the_same(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = {"multilabel_cross_entropy": {"1": 0.1, "2": 0.29, "10": 0.21},
                 "lsep": {"10": 0.55, "2": 0.58, "1": 0.5},  # level with RLSEP, as a seed more or less decides
                 "rlsep": {"1": 0.5, "2": 0.7, "10": 0.6}}  # fmt: skip

        def tested() -> dict[tuple[str, str], list[str]]:
            rows = []
            for loss, seeds in found.items():
                metrics = {metric: leaf(0.0) | {"seeds": seeds} for metric in pages.METRICS.values()}
                rows += kept.rows_of(f"label_ranking-{loss}-x", metrics)
            kept.write("mine", rows, MADE_BY)
            return pages.margins(kept.read("mine"))

        margins = tested()
        assert [margins["ranked.exact_match", loss][0] for loss in ("multilabel_cross_entropy", "lsep")] == [
            "+40.0",
            "+5.7",
        ]
        ps = [float(margins["ranked.exact_match", loss][1]) for loss in ("multilabel_cross_entropy", "lsep")]
        assert ps[0] < 0.05 < ps[1]
        assert 0.001 <= float(margins["ranked.exact_match", "multilabel_cross_entropy"][2]) < 1
        assert pages.spread("label_ranking-rlsep-x")(kept.read("mine"), "ranked.exact_match") == "60.0 ± 10.0"
        found["lsep"] = {"1": 0.5}
        with pytest.raises(ValueError, match="different seeds"):
            tested()


def test_docs_get_the_tables_and_the_sheet(project):
    page = Path("docs/results.md")
    page.parent.mkdir()
    page.write_text("before\n<!-- results: report -->\nold\n<!-- end of results -->\nafter\n")
    pages.main(["report"])
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("before", "after", False)
    for cell in ("mse: 0.776 |", "mse: 0.776 (0.756 to 0.796) |"):
        assert any(line.startswith(f"| Score ranking | Spearman | {cell}") for line in lines)
    for above, line, below in zip(lines, lines[1:], lines[2:], strict=False):  # as many cells in each row
        if line.startswith("| --- |"):
            assert above.count("|") == line.count("|") == below.count("|")
    assert Path("docs/orders.png").read_bytes() == Path("reports/figures/orders.png").read_bytes()
    shutil.rmtree("reports")
    with pytest.raises(FileNotFoundError, match="results.md"):
        pages.main(["report"])
