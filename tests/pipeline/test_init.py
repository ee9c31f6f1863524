"""`rankgrad init`: what it takes a file for, and what it writes into the params."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.cli.guess import guess
from pipelines.cli.splits import units_of
from pipelines.cli.starting_runs import blocks_of, starting_runs
from pipelines.config import rules
from pipelines.config.plan import resolve
from pipelines.stages import data
from rankgrad import lookup
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.rows import asked, read
from rankgrad.inputs.features import Features
from rankgrad.numbers import Writing

from conftest import ROOT, encoded  # isort: skip

ROWS = 60
N = range(ROWS)
DRAWS = np.random.default_rng(0)
A, B, C = (DRAWS.permutation(1000)[:ROWS] for _ in "abc")  # numbers that order rows each in their own way
X, Y = DRAWS.normal(size=(2, ROWS)).round(3)
PLAIN = {"x": X, "price": Y}


def texts(template, size=1):
    """A text for each row, or for `size` rows together."""
    return [template.format(k // size) for k in N]


def groups(size):
    return [k // size for k in N]


def modulo(count):
    return [k % count for k in N]


def cycled(*cells):
    return [cells[k % len(cells)] for k in N]


QUERIES = {"query_id": groups(6), "x": X, "y": Y}


def write(folder, name, **columns):
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns).to_csv(folder / name, index=False)


def photos(folder):
    for number in range(ROWS):
        (folder / f"p{number}.jpg").parent.mkdir(parents=True, exist_ok=True)
        (folder / f"p{number}.jpg").write_bytes(encoded(Image.new("RGB", (20, 20), (number * 4, 90, 9)), "JPEG"))
    return [f"p{number}.jpg" for number in range(ROWS)]


def ordered(folder):
    tags = [["cat|dog", "dog|cat|car", "car"][number % 3] for number in range(ROWS)]
    write(folder, "a.csv", path=photos(folder), tags=tags, customer=texts("c{}", 2), views=N)


def ticked(folder):
    write(folder, "a.csv", path=photos(folder), tags=[["cat;dog", "cat", "car;cat"][k % 3] for k in range(ROWS)])


def captions(folder):
    write(folder, "a.csv", image=photos(folder), caption=texts("a picture of number {}"))


def houses(folder):
    features = {f"f_{k}": DRAWS.normal(size=ROWS) for k in range(5)}
    write(folder, "a.csv", **features, price=Y, split=cycled("Training", "VALID", "test"))


def reviews(folder):
    words = texts("this is good number {}")
    write(folder, "a.csv", id=N, review=words, rating=np.linspace(0, 1, ROWS))


def few(folder):
    write(folder, "a.csv", x=X[:40], z=Y[:40], price=A[:40])


def queries(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for first, split in enumerate(("train", "vali", "test")):
        rows = [f"{k % 3} qid:{100 * first + k // 4} 1:{k} 2:{k % 7}\n" for k in range(ROWS)]
        rows.append(f"1 qid:{100 * first + 99} 1:1 2:1\n")  # a query with one document
        (folder / f"{split}.txt").write_text("".join(rows))


def cars(folder):
    proteins = ["MKTAMKTA" + "ACDEFGHIKL"[k % 10] + "ACDEFGHIKL"[k // 10] for k in N]
    write(folder, "a.csv", km=A, brand=[["vw", "bmw"][k % 2] for k in N], owner_name=texts("n{}"),
          protein=proteins, price=Y)  # fmt: skip


KINDS = {
    "a.csv": {
        ordered: ("label_ranking", {"image": "path", "labels": "tags", "ordered": True, "group": "customer"}),
        ticked: ("multilabel", {"image": "path", "labels": "tags", "ordered": False, "label_separator": ";"}),
        captions: ("retrieval", {"image": "image", "captions": "caption"}),
        houses: ("score_ranking", {"features": "f_*", "target": "price", "split": "split"}),
        reviews: ("score_ranking", {"text": "review", "target": "rating", "id": "id"}),
        cars: ("score_ranking", {"features": ["km"], "categories": ["brand"], "letters": ["protein"], "target": "price",
                                 "id": "owner_name"}),
    },
    "train.txt": {
        queries: ("query_ranking", {"file": {"train": "train.txt", "val": "vali.txt", "test": "test.txt"},
                                    "features": "all", "relevance": "label", "group": "qid"}),
    },
}  # fmt: skip
CASES = []
for file_name, makers in KINDS.items():
    for maker, (its_task, its_options) in makers.items():
        CASES.append((maker, file_name, its_task, its_options))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


def run(*words, fails=False):
    ended = CliRunner().invoke(app, ["init", *map(str, words)])
    assert (ended.exit_code != 0) == fails, ended.output
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.output


SPLIT = {"hash_of": "customer", "val": 0.1, "test": 0.2, "gate": 0.1}
SMALL_GATES = [
    (houses, "a.csv", "gate: none, because 20 rows", {"gate_share": 0}),
    (queries, "train.txt", "gate: none, because 15 qid", {"gate_share": 0}),
    (ordered, "a.csv", "gate: none, because 30 customer", {"split": SPLIT | {"gate": 0}}),
    (reviews, "a.csv", "gate: about 6 of 60 rows; with fewer than 30", {"split": SPLIT | {"hash_of": "id"}}),
    (reviews, "a.csv", "val: about 6,", {}),
    (few, "a.csv", "gate: none, because 40 rows", {"split": {"gate": 0}}),
    (houses, "a.csv", "val: about 20,", {}),
]


@pytest.mark.parametrize(("make", "file", "line", "options"), SMALL_GATES)
def test_a_gate_that_is_too_small_to_promote_anything_is_reported_and_one_that_stays_so_gets_no_rows(
    project, make, file, line, options
):
    make(project / "data/raw/mine")
    assert line in run(f"data/raw/mine/{file}")
    assert options.items() <= rules.check("params.yaml").datasets["mine"].args.items()


def test_a_small_table_can_be_compared_by_folds(project):
    reviews(project / "data/raw/mine")
    assert "`--folds 5`" in run("data/raw/mine/a.csv", "--dry-run")
    assert "each run trains 6 times" in run("data/raw/mine/a.csv", "--folds", 5)
    assert rules.check("params.yaml").datasets["mine"].folds == 5


@pytest.mark.parametrize(("folds", "words"), [(61, ()), (7, ("--group", "lab", "--within"))])
def test_more_folds_than_rows_or_groups_are_refused_at_once(project, folds, words):
    write(project / "data/raw/mine", "a.csv", **SAMPLES)
    output = run("data/raw/mine/a.csv", "--folds", folds, *words, "--dry-run", fails=True)
    assert re.search(r"--folds 61: 60 rows are too few|--folds 7: 6 lab are too few", output)


@pytest.mark.parametrize("words", [("--folds", 4), ()])
def test_few_groups_get_a_seed_that_leaves_no_split_and_no_fold_empty(project, words):
    write(project / "data/raw/mine", "a.csv", **SAMPLES)
    assert "seed: " in run("data/raw/mine/a.csv", "--group", "lab", "--within", *words)
    settings = rules.check("params.yaml")
    data.main(settings, "mine")
    folds = pq.read_table("data/mine/test.parquet").to_pydict().get("fold", [1, 2, 3, 4])
    assert {*folds} == {1, 2, 3, 4}


def test_folds_of_groups_with_many_and_few_rows_are_about_equal(project):
    labs = np.repeat([f"lab {k}" for k in range(12)], [60, 50, 40, 30, 20, 20, 10, 10, 10, 10, 10, 10])
    draws = np.random.default_rng(1).normal(size=(2, len(labs)))
    write(project / "data/raw/mine", "a.csv", lab=labs, x=draws[0], price=draws[1])
    run("data/raw/mine/a.csv", "--group", "lab", "--folds", 4)
    data.main(rules.check("params.yaml"), "mine")
    sizes = pq.read_table("data/mine/test.parquet")["fold"].to_pandas().value_counts()
    assert sizes.max() <= 1.5 * sizes.min()


@pytest.mark.parametrize(("make", "file", "task", "options"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_file_becomes_a_dataset_runs_and_a_comparison_that_pass_the_check(project, make, file, task, options):
    folder = project / "data/raw/mine"
    make(folder)
    before = (project / "params.yaml").read_text()
    assert "git commit params.yaml" in run(f"data/raw/mine/{file}")
    settings = rules.check("params.yaml")
    block = settings.datasets["mine"]
    assert block.raw == "data/raw/mine"
    assert options.items() <= block.args.items()
    assert list(settings.datasets) == list(settings.comparisons) == ["mine"]
    compared = settings.comparisons["mine"]
    ours = [compared.baseline, *compared.runs]
    assert [settings.runs[name].task for name in ours] == [task] * (3 if task == "score_ranking" else 2)
    assert [*ours, *(name for name in compared.rivals if name in settings.runs)] == list(settings.runs)
    dataset = block.built()
    assert dataset.opened(folder, Reading(block.seed)).fitted["rows"] > 10
    # A comment "Optional" leaves with its block of the showcase.
    comments = {line for line in before.splitlines() if line.startswith("#") and not line.startswith("# Optional")}
    assert comments <= set((project / "params.yaml").read_text().splitlines())


def test_the_log_of_a_skewed_target_is_a_rival(project):
    write(project / "data/raw/mine", "a.csv", f_1=A, f_2=X, price=[float(k**4) for k in N])
    run("data/raw/mine/a.csv")
    settings = rules.check("params.yaml")
    losses, fitted = ["mse", "spearman", "ranknet", "mse_log"], ["ridge", "boosted_trees"]
    assert list(settings.runs) == [f"mine-{name}" for name in losses + fitted]
    assert settings.runs["mine-mse_log"].training["log_plus"] == 10_000
    assert "mine-mse_log" in settings.comparisons["mine"].runs


def test_skewed_numbers_of_one_table_leave_the_next_table_alone(tmp_path):
    backbones = []
    for name, numbers in (("skewed.csv", np.exp(3 * X)), ("even.csv", X)):
        write(tmp_path, name, f_1=numbers, price=A)
        guessed = guess(tmp_path / name)
        blocks = blocks_of("mine", Path("data/raw/mine"), guessed.task, guessed.options, folder=tmp_path)
        backbones.append(blocks["runs"]["mine-mse"]["model"]["backbone"]["args"])
    assert backbones == [{"hidden": [64], "quantiles": True}, {"hidden": [64]}]


GRADES = {  # grades, queries, and the metric and losses that fit them
    "grades": (modulo(5), groups(6), "ndcg_at_10", ["mse", "lambdarank"]),
    "clicks": (modulo(2), groups(6), "mean_average_precision", ["multilabel_soft_margin", "hinge_ap", "rlsep"]),
    "pairs": (modulo(2), groups(2), "pair_accuracy", ["ranknet", "mse"]),
}


@pytest.mark.parametrize(("grades", "queries", "metric", "losses"), GRADES.values(), ids=GRADES)
def test_versions_are_judged_by_the_metric_of_the_comparison(project, grades, queries, metric, losses):
    write(project / "data/raw/mine", "a.csv", query_id=queries, x=X, y=Y, grade=grades)
    assert f"gate: none, because {len({*queries})} query_id" in run("data/raw/mine/a.csv")
    settings = rules.check("params.yaml")
    assert settings.comparisons["mine"].metric == settings.gate.judged["query_ranking"].metric == metric
    assert {resolve(settings, name).training.ranker.monitor for name in settings.runs} == {metric}
    assert list(settings.runs) == [f"mine-{name}" for name in [*losses, "ridge", "boosted_trees"]]


def test_a_small_table_gets_more_epochs(tmp_path):
    for count, epochs in ((ROWS, 300), (20 * ROWS, 67)):
        write(tmp_path, "a.csv", f_1=[*range(count)], f_2=np.tile(A, count // ROWS), price=np.tile(Y, count // ROWS))
        options = guess(tmp_path / "a.csv").options
        runs = blocks_of("mine", tmp_path, "score_ranking", options)["runs"]
        assert runs["mine-mse"]["training"]["finetune"] == {"epochs": epochs, "patience": epochs // 2}


SAMPLES = {"lab": [f"lab {k % 6}" for k in N], "x": X, "price": Y + 100 * (np.array(N) % 6)}


def test_a_group_whose_targets_have_a_level_of_their_own_is_compared_within(project):
    write(project / "data/raw/mine", "a.csv", **SAMPLES)
    line = next(line for line in guess(project / "data/raw/mine/a.csv").lines if "explains" in line)
    assert line.startswith("lab explains 9")
    assert "`--group lab --within`" in line
    run("data/raw/mine/a.csv", "--group", "lab", "--within")
    settings = rules.check("params.yaml")
    assert settings.datasets["mine"].args["within"] is True
    assert list(settings.runs)[:4] == ["mine-mse_standardized", "mine-mse_centered", "mine-spearman", "mine-ranknet"]
    write(project / "data/raw/mine", "a.csv", **SAMPLES | {"price": Y * 10.0 ** (np.array(N) % 6)})  # scales alone
    run("data/raw/mine/a.csv", "--group", "lab", "--within", "--replace")
    assert "mine-mse_centered" not in rules.check("params.yaml").runs


@pytest.mark.parametrize(
    ("named", "task", "words"),
    [
        ({}, None, "`--within --group lab` or `--within --group batch`"),
        ({"group": "lab"}, "multilabel", "--task multilabel"),
        ({"group": "all"}, None, "same value"),
        ({"group": "row"}, None, "different value"),
    ],
)
def test_groups_within_which_nothing_is_compared_are_refused(tmp_path, named, task, words):
    write(tmp_path, "a.csv", batch=groups(4), **SAMPLES, all=cycled("s"), row=texts("r{}"))
    with pytest.raises(ValueError, match=words):
        guess(tmp_path / "a.csv", named=named, task=task, within=True)


def test_what_init_compares_is_what_the_pages_advise():
    choose = (ROOT / "docs/choose.md").read_text()
    advice = {row[1]: row[0] for row in re.findall(r"^(\| (.+?) \|.*)$", choose, re.MULTILINE)}
    advice |= {section.partition("\n")[0]: section for section in choose.split("\n## ")}
    starting = starting_runs()
    assert {*lookup.names("tasks")} <= {*starting}
    for blocks in starting.values():
        for run in blocks["runs"].values():
            assert re.search(rf"\b{run['loss']['name']}\b", advice[run["advice"]])


def test_a_task_for_which_nothing_is_known_is_refused_with_what_to_write():
    with pytest.raises(ValueError, match="the task sorting, only for label_ranking"):
        blocks_of("mine", Path("data/raw/mine"), "sorting", {"file": "a.csv", "text": "t", "target": "y"})


def test_documents_of_a_query_are_compared_within_it_already(tmp_path):
    queries(tmp_path)
    with pytest.raises(ValueError, match="remove --within"):
        guess(tmp_path / "train.txt", within=True)


def test_a_second_table_gets_the_sorter_that_the_first_had_no_use_for(project):
    houses(project / "data/raw/houses")
    answers = {"chosen": texts("it is good {}"), "rejected": texts("it is bad {}")}
    write(project / "data/raw/answers", "a.csv", **answers)
    run("data/raw/answers/a.csv")
    assert "laplace" not in rules.check("params.yaml").sorters
    run("data/raw/houses/a.csv", "--keep")
    settings = rules.check("params.yaml")
    assert settings.runs["houses-spearman"].sorter == "laplace"
    assert settings.datasets["answers"].args["rejected"] == "rejected"


def test_a_metric_that_a_person_names_is_that_of_comparison_and_gate(project):
    captions(project / "data/raw/mine")
    run("data/raw/mine/a.csv", "--metric", "item_to_text.recall_at_1")
    settings = rules.check("params.yaml")
    assert settings.comparisons["mine"].metric == "item_to_text.recall_at_1"
    judged = settings.gate.judged["retrieval"]
    assert judged.metric == "item_to_text.recall_at_1"
    assert judged.metric not in judged.guarded
    captions(project / "data/raw/more")
    line = "from item_to_text.recall_at_1 to text_to_item.recall_at_1"
    assert line in run("data/raw/more/a.csv")
    assert "did you mean" in run("data/raw/mine/a.csv", "--metric", "text_to_item.recal_at_1", fails=True)


def test_what_is_there_is_kept_a_second_table_is_added_and_a_dry_run_writes_nothing(project):
    before = (project / "params.yaml").read_text()
    captions(project / "data/raw/pairs")
    houses(project / "data/raw/houses")
    assert "hard_negative_triplet" in run("data/raw/pairs/a.csv", "--dry-run")
    assert (project / "params.yaml").read_text() == before
    run("data/raw/pairs/a.csv", "--keep")
    kept = rules.check("params.yaml")
    assert {"pairs", "ranked_mnist"} < set(kept.datasets)
    assert "removed from" in run("data/raw/houses/a.csv")
    assert list(rules.check("params.yaml").datasets) == ["pairs", "houses"]
    after = (project / "params.yaml").read_text()
    assert "datasets.houses: already exists" in run("data/raw/houses/a.csv", fails=True)
    assert (project / "params.yaml").read_text() == after
    run("data/raw/houses/a.csv", "--replace")
    assert (project / "params.yaml").read_text() == after


def test_a_table_may_take_the_name_of_a_generated_dataset(project):
    houses(project / "data/raw/ranked_mnist")
    run("data/raw/ranked_mnist/a.csv", "--replace")
    settings = rules.check("params.yaml")
    assert [dataset.name for dataset in settings.datasets.values()] == ["table"]


def test_a_table_elsewhere_is_linked_if_that_is_wanted(project):
    ordered(project / "elsewhere")
    assert "mkdir data/raw/a" in run("elsewhere/a.csv", fails=True)
    run("elsewhere/a.csv", "--link", "--key", "shop")
    assert (project / "data/raw/shop").is_symlink()
    assert rules.check("params.yaml").datasets["shop"].raw == "data/raw/shop"


def test_the_folder_of_a_first_delivery_is_one_of_the_dataset(project):
    ordered(project / "data/raw/shop/first")
    run("data/raw/shop/first/a.csv")
    dataset = rules.check("params.yaml").datasets["shop"]
    assert (dataset.raw, dataset.args["file"]) == ("data/raw/shop", "a.csv")


def test_a_task_is_a_choice_and_what_fits_none_is_refused(project):
    folder = project / "data/raw/mine"
    ordered(folder)
    assert guess(folder / "a.csv", task="multilabel").options["ordered"] is False
    assert guess(folder / "a.csv", task="score_ranking").options["target"] == "views"
    assert "no column" in run("data/raw/mine/a.csv", "--task", "retrieval", fails=True)
    assert "did you mean retrieval" in run("data/raw/mine/a.csv", "--task", "retreival", fails=True)
    assert "no such file" in run("data/raw/mine/b.csv", fails=True)


def test_the_check_says_what_does_not_fit_the_head_of_a_file(project):
    ordered(project / "data/raw/mine")
    run("data/raw/mine/a.csv")
    path = project / "data/raw/mine/a.csv"
    path.write_text(path.read_text().replace("tags", "labels", 1))
    with pytest.raises(ValueError, match="datasets.mine: data/raw/mine/a.csv: no column 'tags'"):
        rules.check("params.yaml")


NAMED = [
    ({"PassengerId": N, "age": A, "score": Y}, {"features": ["age"], "id": "PassengerId", "target": "score"}),
    ({"weight_kg": cycled(2), "size": A, "price": Y}, {"features": ["weight_kg", "size"], "weight": None}),
    ({"user_age": cycled(3, 4), "size": A, "price": Y}, {"features": ["user_age", "size"], "group": None}),
    ({"title": texts("a good hat {}"), "my_rating": cycled(1, 5)}, {"text": "title", "target": "my_rating"}),
    ({"price_log": np.exp(Y), "size": A, "price": Y}, {"features": ["size"], "target": "price"}),
    ({"size": A, "fitness": Y, "fitness_log": np.exp(Y)}, {"features": ["size"], "target": "fitness"}),
    ({"sales": A, "x": X, "sales_next_week": Y}, {"features": ["sales", "x"], "target": "sales_next_week"}),
    (
        {f"s{k % 2 + 1}_{'abcy'[k // 2]}": DRAWS.normal(size=ROWS) for k in range(8)} | {"fitness": A, "size": Y},
        {"features": ["s1_*", "s2_*", "fitness"], "target": "size"},
    ),
    ({"created_at": [1.7e9 + k for k in A], "size": A, "price": Y}, {"features": ["size"]}),
    ({"is_new": cycled(0, 1), "is_sold": cycled(1, 0), "price": Y}, {"features": ["is_new", "is_sold"]}),
    ({"cabin": ["A", "B", *[None] * 58], "x": A, "price": Y}, {"categories": None, "missing": "impute"}),
    ({"state": cycled("as good as new", "not so good"), "x": A, "price": Y}, {"categories": ["state"], "text": None}),
    ({"listed_on": cycled("5.12.2024", "31.12.2024"), **PLAIN},
     {"features": ["listed_on", "x"], "dates": {"listed_on": "DMY"}, "missing": "impute"}),
    ({"made": "2026-01-31", "note": texts("sold to somebody {}"), "price": Y}, {"text": "note"}),
    ({"price_band": cycled("low", "high"), "x": A, "price": Y}, {"features": ["x"], "categories": None}),
    ({"price_range": cycled("low", "high"), "sales": Y}, {"categories": ["price_range"], "target": "sales"}),
    ({"tags[1/2]": cycled("a", "b"), "x": A, "price": Y}, {"features": ["x"], "categories": None}),
    ({"plz": [f"{k % 4:05d}" for k in N], **PLAIN}, {"categories": ["plz"], "features": ["x"]}),
    ({"x": X, "a": A, "tags": cycled("cat|dog|", "dog|", "cat|")}, {"labels": "tags", "label_separator": "|"}),
    ({"1100.5": X, "1101.0": A, "protein": Y}, {"features": ["1100.5", "1101.0"], "target": "protein"}),
    ({"wid*": A, "width": X, "price": Y}, {"features": ["wid*", "width"]}),
    ({"part": cycled("tr", "va", "te"), **PLAIN}, {"split": "part", "features": ["x"]}),
    ({"__index_level_0__": A, **PLAIN}, {"id": None, "features": ["x"]}),
    ({"Unnamed: 0": groups(2), **PLAIN}, {"id": None, "features": ["x"]}),
    ({"...1": A, **PLAIN}, {"id": None, "features": ["x"]}),
    ({"X1": A, **PLAIN}, {"id": None, "features": ["x"]}),
    ({"X1": A, "X2": B, **PLAIN}, {"id": None, "features": ["X1", "X2", "x"]}),
    ({"Zeile": np.array(N) + 1, **PLAIN}, {"id": None, "features": ["x"]}),
    ({"positions": [" ".join("1234"[: 1 + k % 4]) for k in N], **PLAIN}, {"text": None, "features": ["x"]}),
    ({"Customer No.": texts("c{}", 2), **PLAIN}, {"group": "Customer No."}),
    ({"x": X, "label_a": cycled(True, False), "label_b": cycled(False, True, True)}, {"labels": "label_*"}),
    ({"x": X, "label_a": cycled("yes", "no"), "label_b": cycled("no", "yes", "yes")}, {"labels": "label_*"}),
    ({"is_new": cycled("yes", "no"), "is_old": cycled("no", "yes", "yes"), "amount": Y},
     {"categories": ["is_new", "is_old"], "target": "amount"}),
    ({"Kunde": [1000 + 7 * k for k in N], **PLAIN}, {"id": "Kunde", "features": ["x"]}),
    ({"pair": groups(2), "preferred": cycled(0, 1), "x": A}, {"relevance": "preferred", "group": "pair"}),
    ({"emb": [f"0.1;0.2;{x}" for x in X], "price": Y}, {"features": "emb", "labels": None}),
    ({"text": texts("one of many words {}"), "toxic": cycled(0, 1), "rude": cycled(1, 1, 0)},
     {"text": "text", "labels": ["toxic", "rude"]}),
    (
        {"frage": texts("was ist die {}", 3), "accepted": texts("it is good {}"),
         "rejected": texts("it is bad {}")},
        {"text_pair": ["frage", "accepted"], "group": "frage", "text": None},
    ),
    ({"winner": [f"a{k % 9}" for k in N], "loser": [f"a{(k + 1) % 9}" for k in N]}, {"categories": ["winner"]}),
    ({"request": texts("what is number {}"), "response": texts("a number like {}"), "rating": X},
     {"text": "response", "target": "rating"}),
    ({"question": texts("what is number {}"), "answer": texts("a number like {}")},
     {"text": "answer", "captions": "question"}),
    ({"asset_id": [f"PX-{k // 2}" for k in N], "media": [f"img/{k // 2}.png" for k in N], "alt": texts("a red box {}")},
     {"image": "media", "captions": "alt", "id": "asset_id"}),
    ({"media": [f"img/{k}.png" for k in N], "keys": cycled("red disc|blue box", "blue box", "grey star|red disc")},
     {"image": "media", "labels": "keys", "captions": None}),
    (
        {"query_id": groups(4), "prompt": texts("tell me about number {}", 4),
         "text": texts("an answer with the words {}"), "relevance": cycled(0, 1, 2)},
        {"text_pair": ["prompt", "text"], "group": "query_id", "text": None},
    ),
    (
        {"judged_by": cycled("bob", "ann"), "search_text": texts("tell me about number {}", 4),
         "article": texts("a page with the words {}"), "stars": cycled(0, 1, 3)},
        {"text_pair": ["search_text", "article"], "group": "search_text", "relevance": "stars"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "expected"), NAMED)
def test_what_a_column_is_called_is_not_taken_for_more_than_it_says(tmp_path, columns, expected):
    write(tmp_path, "a.csv", **columns)
    options = guess(tmp_path / "a.csv").options
    assert {role: options.get(role) for role in expected} == expected


def german(number, digits):
    return f"{number:,.{digits}f}".translate(str.maketrans(",.", ".,"))


PRICES = np.exp(6.5 + Y)
ANSWERS = {"response_a": texts("the answer a of number {}"), "response_b": texts("the answer b of number {}")}
CHOSEN = {"chosen": texts("the chosen one of number {}"), "rejected": texts("the rejected one of number {}")}
REFUSED = {  # columns, and what the message names
    "thousands": ({"km": A, "preis": [german(p, 0) for p in PRICES]}, ["preis", "--thousands '.'", "--decimal '.'"]),
    "both": ({"x": X, "price": [german(p, 2) for p in PRICES]}, ["price", "--decimal ',' --thousands '.'"]),
    "a unit": ({"x": X, "Umsatz": [f"{german(p, 2)} €" for p in PRICES]}, ["Umsatz", "€", "row 1", "plain numbers"]),
    "negative grades": (QUERIES | {"relevance": [k % 4 - 1 for k in N]}, ["relevance", "-1", "row 1"]),
    "grades in words": (QUERIES | {"relevance": cycled("bad", "fair", "good")}, ["bad", "row 1", "write numbers"]),
    "printed vectors": ({"embedding": [str(np.array([x, x])) for x in X], "price": Y}, ["embedding", "Parquet"]),
    "two targets": ({"x": X, "y": A, "price": Y}, ["y and price", "--target"]),
    "an empty target": ({"x": X, "a": A, "price": cycled(None)}, ["price", "empty"]),
    "a row as header": ({"5.1": X, "3.5": Y, "Iris-setosa": cycled("Iris-setosa", "Iris-versicolor")},
                        ["first line", "Iris-setosa", "add them"]),
    "a repeated header": ({"x": [*X[1:], "x"], "price": [*Y[1:], "price"]}, ["row 60 repeats", "remove it"]),
    "a title": ({"Report": texts("a{}"), "": A, " ": Y}, ["the first line has one name, 'Report'", "remove"]),
    "no header": ({"-1.56": X, "3": A, "112.58": Y}, ["first line", "-1.56"]),
    "a constant target": (PLAIN | {"price": 3}, ["price is 3", "--target"]),
    "a label of names beside a number": (PLAIN | {"label": cycled("yes", "no")},
                                         ["label", "'yes'", "--target label", "--target price"]),
    "names in the last column": ({"x": X, "y1": A, "Churn": cycled("Yes", "No")}, ["Churn", "--target Churn"]),
    "features without a difference": (PLAIN | {"x": 1}, ["x: the same"]),
    "ranks": ({"query_id": groups(6), "x": X, "rank": modulo(6)}, ["query_id", "--target rank"]),
    "queries without grades": (QUERIES, ["query_id", "--target y"]),
    "addresses of pictures": (PLAIN | {"photo": texts("https://shop.example/{}.jpg")}, ["photo", "download"]),
    "paths of Windows": (PLAIN | {"photo": [rf"img\{k}.jpg" for k in N]}, ["photo", "/"]),
    "numbers of classes": ({"x": X, "z": A, "class": modulo(3)}, ["--task multilabel --target class"]),
    "two texts": ({"sentence1": texts("one of many words {}"), "sentence2": texts("no number but {}"),
                   "score": Y}, ["sentence1 and sentence2", "--text sentence1", "--rejected"]),
    "ids of answers": ({"winner": texts("a{}"), "loser": texts("b{}")}, ["row 1", "a0", "merge"]),
    "numbers of players": ({"winner": modulo(9), "loser": [9 + k % 9 for k in N]}, ["players", "astype(str)"]),
    "two answers": (ANSWERS | {"winner": cycled("model_a", "model_b", "tie")}, ["response_b", "model_a", "where"]),
    "ties": (CHOSEN | {"margin": 0}, ["margin", "ties", "--target"]),
    "negative margins": (CHOSEN | {"margin": Y}, ["margin", "row 1"]),
    "a text that may be the prompt": (CHOSEN | {"comment": texts("because it is number {}")},
                                      ["--query comment", "--text chosen"]),
    "splits of other names": (PLAIN | {"split": cycled("train", "other", "test")}, ["row 2: split is 'other'"]),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_write(tmp_path, columns, words):
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False, sep=";")
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it must name is asked below
        guess(tmp_path / "a.csv")
    assert not [word for word in words if word not in str(refused.value)], refused.value


REPORTED = {
    "a cell that is no number": ({"a": ["NULL", *map(str, X[1:])], "b": A, "price": Y}, ["a:", "NULL"]),
    "a number in another notation": ({"a": ["1,5", *map(str, X[1:])], "b": A, "price": Y}, ["a:", "1,5", "alike"]),
    "a number that gives it away": ({"x": X, "a": A, "price": Y, "total": 2 * Y + 1}, ["total"]),
    "a possible group": ({"lab": texts("s{}", 4), **PLAIN}, ["lab: 15 values in 60 rows", "--group lab"]),
    "a value that stands in": ({"x": [-999.0] * 9 + [*X[9:]], "price": Y}, ["x:", "-999 in 9 rows"]),
    "a group that stands in": (
        {"customer": ["NA", "NA", *texts("c{}", 2)[2:]], **PLAIN},
        ["customer: NA", "--empty NA"],
    ),
    "the only negative number": ({"x": [-1.0] * 9 + [*abs(X[9:])], "price": Y}, ["x:", "-1 in 9 rows"]),
    "a column without a name": ({"": A, **PLAIN}, ["without a name", "name it in the header"]),
    "a date that stands in": (
        {"x": ["9999-12-31"] * 3 + ["2026-01-31"] * 57, "a": A, "price": Y},
        ["x:", "9999-12-31 in 3 rows", "--empty 9999-12-31"],
    ),
    "row numbers beside an id": ({"id": texts("k{}"), "no": N, **PLAIN}, ["no: row numbers"]),
    "numbers of places": ({"zip": [10115 + k % 9 for k in N], **PLAIN}, ["zip: a numeric id", "--group zip"]),
    "other words for splits": ({"part": cycled("learn", "test"), **PLAIN}, ["part: named like a split"]),
    "a model's prediction": ({"x": X, "y_true": A, "y_pred": B}, ["y_pred: named like a prediction"]),
    "a side of a split": ({"is_train": cycled(0, 1, 1), **PLAIN}, ["is_train: named like a split"]),
    "an empty column": ({"old": cycled(None), **PLAIN}, ["old: empty in the first 60 rows"]),
    "a date in words": (
        {"made": ["unknown", *["2026-01-31"] * 59], **PLAIN},
        ["made: dates except for cells such as unknown", "--empty unknown"],
    ),
    "an impossible date": (
        {"made": ["31.02.2026", *["31.12.2025"] * 59], **PLAIN},
        ["made: dates except for cells such as 31.02.2026"],
    ),
    "a target that stands in": ({"x": X, "price": [-999.0] * 9 + [*Y[9:]]}, ["price: -999 in 9 rows"]),
    "subtotals": ({"lab": [*texts("s{}", 4)[:59], "Subtotal"], **PLAIN}, ["lab is Subtotal in 1 rows", "row 60"]),
    "numbers of folds": ({"fold": modulo(5), **PLAIN}, ["fold: named like a split", "train, val"]),
    "days in digits": (
        {"made": cycled(20260101, 20260131), **PLAIN},
        ["made: dates", "write them as 2026-11-30", "--date made"],
    ),
    "days or months": (
        {"made": cycled("01/05/2026", "05/02/2026"), **PLAIN},
        ["made: day or month", "`dates: {made: DMY}` or `dates: {made: MDY}`"],
    ),
    "days of the sale": (
        {"sold_on": "2026-01-31", **PLAIN},
        ["sold_on: may be known", "`dates: {sold_on: YMD}`"],
    ),
    "a comment": ({**PLAIN, "note": texts("sold to somebody {}")}, ["note: a text", "--text note"]),
    "a total": ({"x": X, "price": [*Y[1:], Y[1:].sum()]}, ["row 60", "the sum of all others"]),
    "objects": ({**PLAIN, "more": cycled({"a": 1})}, ["more: contains objects"]),
}


@pytest.mark.parametrize(("columns", "words"), REPORTED.values(), ids=REPORTED)
def test_a_column_that_is_not_learned_from_is_reported_with_the_reason(tmp_path, columns, words):
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    guessed = guess(tmp_path / "a.parquet")
    assert words[0] == "x:" or words[0].split(":")[0] not in guessed.options["features"]
    reported = "\n".join(line for line in guessed.lines if words[0] in line)
    assert not [word for word in words if word not in reported], guessed.lines


CITIES = ["Berlln", *cycled("Berlin", "Hamburg")[1:]]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"city": CITIES, **PLAIN}, "city: 'Berlln' beside 'Berlin'"),
        ({"city": [city.replace("ll", "1") for city in CITIES], **PLAIN}, None),
        ({"city": cycled("Berlin", "Berlln"), **PLAIN}, None),
        ({"x": X, "z": A, "grade": [*modulo(5)[:-1], 40]}, "row 60: grade is 40, but others are from 0 to 4"),
        (QUERIES | {"grade": [*modulo(5)[:-1], 40]}, "row 60: grade is 40, but others are from 0 to 4"),
        ({"x": X, "z": A, "grade": [*modulo(5)[:-2], 18, 40]}, None),
    ],
)
def test_a_typo_of_a_name_and_a_grade_far_from_all_others_are_named(tmp_path, columns, line):
    write(tmp_path, "a.csv", **columns)
    named = [text for text in guess(tmp_path / "a.csv").lines if "beside" in text or "others" in text]
    assert len(named) == (line is not None)
    assert line is None or named[0].startswith(line)


@pytest.mark.parametrize(
    "columns",
    [
        PLAIN | {"price": pd.Series(Y.astype(np.float16)).where(np.array(N) != 3)},
        {"text": texts("some words of {}"), "tags": [[None], *cycled(["cat", "dog"], ["dog", "cat"], ["car"])[1:]]},
        {"photo": texts("{}.jpg"), "caption": [[None], *([f"a picture of {k}"] for k in N[1:])]},
    ],
    ids=["float16", "labels", "captions"],
)
def test_empty_targets_of_any_type_are_left_out_of_parquet_as_of_csv(tmp_path, columns):
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    assert guess(tmp_path / "a.parquet").lines[-1].startswith("1 of the first 60 rows")


def test_a_person_says_what_columns_are_and_how_numbers_are_written(project):
    folder = project / "data/raw/mine"
    write(folder, "a.csv", lab=texts("s{}", 4), number=[german(p, 0) for p in PRICES], age=A)
    words = ["--target", "number", "--group", "lab", "--thousands", "."]
    run("data/raw/mine/a.csv", *words)
    args = rules.check("params.yaml").datasets["mine"].args
    assert {key: args[key] for key in ("target", "group", "decimal", "thousands")} == {
        "target": "number", "group": "lab", "decimal": ",", "thousands": ".",
    }  # fmt: skip
    assert "no column 'labs'" in run("data/raw/mine/a.csv", *words, "--text", "labs", fails=True)


def test_a_byte_order_mark_decides_on_the_encoding(tmp_path):
    pd.DataFrame(PLAIN).to_csv(tmp_path / "a.csv", index=False, encoding="utf-8-sig")
    assert guess(tmp_path / "a.csv", encoding="UTF8").options["features"] == ["x"]
    with pytest.raises(ValueError, match="--encoding utf-8"):
        guess(tmp_path / "a.csv", encoding="cp1252")


def test_texts_that_stand_for_a_missing_value_are_read_as_empty_by_every_reader(project):
    numbers = cycled("k.A.", *map(str, A[:5]), "-")
    write(project / "data/raw/mine", "a.csv", f_1=X, f_2=numbers, f_3=[-999.0] * 9 + [*X[:-9]], price=Y)
    lines = run("data/raw/mine/a.csv", "--dry-run")
    assert not [advice for advice in ("`--empty k.A.`", "`--empty -999.0`") if advice not in lines]
    run("data/raw/mine/a.csv", "--empty", "k.A.", "--empty", "-")
    dataset = rules.check("params.yaml").datasets["mine"]
    names = dataset.built().opened(project / "data/raw/mine", Reading(dataset.seed)).fitted["features"]
    about = {"kind": "features", "count": len(names), "names": names, **dataset.built().reading}
    recipe, request = {"task": "score_ranking", "input": about}, {"f_1": 0.5, "f_2": "-", "f_3": 1}
    row = next(read([project / "data/raw/mine/a.csv"], recipe)).asked()["features"]
    [own_columns] = asked([request], recipe, ["features"])
    vectors = Features.prepared([row, own_columns["features"], request], about, where="row")
    assert vectors[:, names.index("f_2[empty]")].tolist() == [1, 1, 1]


TEXTS = {"prompt": texts("tell me about number {}", 6), "answer": texts("the answer of number {}")}
NAMED_BY_A_PERSON = {  # columns, what a person names, and the options that follow
    "a target of names": (PLAIN | {"label": cycled("yes", "no")}, {"target": "label"}, {"labels": "label"}),
    "labels of any separator": (PLAIN | {"tags": cycled("mug", "lamp", "mug/lamp", "lamp/rug")}, {"target": "tags"},
                                {"labels": "tags", "label_separator": "/"}),
    "a target among others": ({"price": Y, "score": A, "x": X}, {"target": "score"}, {"target": "score"}),
    "grades": (QUERIES | {"usefulness": modulo(3)}, {"target": "usefulness"}, {"relevance": "usefulness"}),
    "pairs of answers to a prompt": (TEXTS | {"pair": groups(2), "preferred": modulo(2)}, {},
                                     {"group": "pair", "text_pair": ["prompt", "answer"],
                                      "split": SPLIT | {"hash_of": "prompt"}}),
    "queries of any name": (PLAIN | {"basket": groups(6), "clicks": modulo(2)},
                            {"query": "basket"}, {"group": "basket", "relevance": "clicks"}),
    "an id": ({"no": N, "Kunde": texts("c{}"), **PLAIN}, {"id": "Kunde"}, {"id": "Kunde"}),
    "a text beside numbers": ({**PLAIN, "note": texts("sold to somebody {}")}, {"text": "note"},
                              {"text": "note", "features": None}),
    "a weight": (PLAIN | {"weight": cycled(1, 2)}, {"weight": "weight"}, {"weight": "weight", "features": ["x"]}),
    "a margin": ({"frage": texts("was ist die {}", 3), **CHOSEN, "strength": modulo(5)},
                 {"target": "strength"},
                 {"text_pair": ["frage", "chosen"], "rejected": "rejected", "margin": "strength", "group": "frage"}),
    "what was preferred": (ANSWERS, {"text": "response_a", "rejected": "response_b"},
                           {"text": "response_a", "rejected": "response_b"}),
    "queries and passages": (ANSWERS | PLAIN, {"text": "response_a", "target": "response_b"},
                             {"text": "response_a", "captions": "response_b"}),
    "days": ({**PLAIN, "sold": pd.date_range("2026-01-01", periods=ROWS).astype(str)}, {"date": "sold"},
             {"date": {"column": "sold", "first": "2026-03-01", "every": "month"}}),
    "days first": ({**PLAIN, "sold": [f"{1 + k % 28}.{1 + k % 2}.2026" for k in N]}, {"date": "sold"},
                   {"date": {"column": "sold", "first": "2026-02-28", "every": "month", "order": "DMY"}}),
    "days in digits": ({**PLAIN, "sold": [20260101 + k % 28 for k in N]}, {"date": "sold"},
                       {"date": {"column": "sold", "first": "2026-01-28", "every": "month"}}),
    "a document of several queries": (QUERIES | {"doc": modulo(6), "grade": modulo(3)}, {"id": "doc"}, {"id": "doc"}),
}  # fmt: skip
NAMED_IN_VAIN = {  # columns, what a person names, and what the refusal says
    "a target that is text": ({**PLAIN, **TEXTS}, {"target": "answer"}, ["answer", "--target"]),
    "a target with units": (PLAIN | {"cost": cycled("3 EUR", "4 EUR")}, {"target": "cost"}, ["cost", "3 EUR"]),
    "one column twice": (PLAIN, {"target": "x", "text": "x"}, ["--text", "--target"]),
    "group and query": (PLAIN | {"lab": A, "qid": B}, {"group": "lab", "query": "qid"}, ["--group", "--query"]),
    "queries without grades": (PLAIN | {"lab": groups(6)}, {"query": "lab"}, ["--target"]),
    "an id that comes again": (PLAIN | {"lab": groups(6)}, {"id": "lab"}, ["lab", "row 2"]),
    "a text of numbers": (PLAIN | {"z": A}, {"text": "z"}, ["--text", "z"]),
    "the same text for each document": (QUERIES | TEXTS | {"grade": modulo(3)}, {"text": "prompt"},
                                        ["--text", "prompt"]),
    "ranks": (QUERIES | {"rank": modulo(6)}, {"target": "rank"}, ["rank", "largest"]),
    "codes": (PLAIN | {"plz": texts("0{}")}, {"target": "plz"}, ["row 1", "'00'"]),
    "days or months": (PLAIN | {"sold": cycled("1.2.2026", "2.2.2026")}, {"date": "sold"}, ["row 1", "2026-11-30"]),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "named", "expected"), NAMED_BY_A_PERSON.values(), ids=NAMED_BY_A_PERSON)
def test_a_column_that_a_person_names_has_the_role(tmp_path, columns, named, expected):
    write(tmp_path, "a.csv", **columns)
    options = guess(tmp_path / "a.csv", named=named).options
    assert {role: options.get(role) for role in expected} == expected


@pytest.mark.parametrize(("columns", "named", "words"), NAMED_IN_VAIN.values(), ids=NAMED_IN_VAIN)
def test_a_column_that_does_not_fit_the_role_that_a_person_names_is_refused(tmp_path, columns, named, words):
    write(tmp_path, "a.csv", **columns)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it must name is asked below
        guess(tmp_path / "a.csv", named=named)
    assert not [word for word in words if word not in str(refused.value)], refused.value


SEVERAL = {  # columns, and the names that the flags offer
    "groups": ({"user": [f"u{k % 9}" for k in N], "shop": [f"s{k % 7}" for k in N]} | PLAIN, ["user", "shop"]),
    "queries": (QUERIES | {"search_id": groups(4), "grade": modulo(3)}, ["query_id", "search_id"]),
    "captions": (
        {
            "image": texts("{}.jpg"),
            "title": texts("a red hat {}"),
            "sentence": texts("a hat of {}"),
        },
        ["title", "sentence"],
    ),
}


@pytest.mark.parametrize(("columns", "names"), SEVERAL.values(), ids=SEVERAL)
def test_where_several_columns_fit_init_asks_and_the_flag_decides(project, columns, names):
    write(project / "data/raw/mine", "a.csv", **columns)
    output = run("data/raw/mine/a.csv", "--dry-run", fails=True)
    flags = re.findall(r"`--(\w+) (\w+)`", " ".join(output.split()))
    assert [name for _, name in flags] == names
    for flag, name in flags:
        assert name in run("data/raw/mine/a.csv", "--dry-run", f"--{flag}", name)


def test_a_group_that_holds_the_others_and_a_query_with_its_id_need_no_question(tmp_path):
    write(tmp_path, "a.csv", user=texts("u{}", 2), shop=texts("s{}", 6), **PLAIN)
    assert guess(tmp_path / "a.csv").options["group"] == "shop"
    write(tmp_path, "a.csv", **QUERIES, query=texts("red hat {}", 6), grade=modulo(3))
    assert guess(tmp_path / "a.csv").options["group"] == "query_id"


@pytest.mark.parametrize("columns", [{}, {"customer": texts("c{}", 2)}], ids=["rows", "groups"])
def test_a_column_of_splits_that_lacks_one_is_refused_with_what_to_write(project, columns):
    table = pd.DataFrame(PLAIN | columns | {"part": cycled("Train", "Train", "Train", "Train", "test", "test")})
    write(project / "data/raw/mine", "a.csv", **table)
    code = run("data/raw/mine/a.csv", "--dry-run", fails=True).partition("pandas:\n")[2]
    exec("\n".join(line.strip() for line in code.splitlines()))  # as it advises
    write(project / "data/raw/mine", "a.csv", **table)
    assert "splits: from the column part" in run("data/raw/mine/a.csv", "--dry-run")


@pytest.mark.parametrize(
    ("encoding", "city"), [("cp1252", "Köln"), ("cp1250", "Łódź"), ("cp932", "東京"), ("utf-16", "Köln"),
                           ("utf-16-le", "Köln"), ("utf-16-be", "Köln")]
)  # fmt: skip
def test_of_another_encoding_init_shows_what_it_would_read(tmp_path, encoding, city):
    path = tmp_path / "a.csv"
    pd.DataFrame(PLAIN | {"city": cycled(city, "Bonn")}).to_csv(path, index=False, encoding=encoding)
    with pytest.raises(ValueError, match=rf"`--encoding {encoding}` reads '{city}'"):
        guess(path)
    assert guess(path, encoding=encoding).options["categories"] == ["city"]


def test_numbers_with_spaces_in_them_are_no_vectors(tmp_path):
    write(tmp_path, "a.csv", x=[f"{100 + a % 800} 500 000" for a in A], price=Y)
    assert guess(tmp_path / "a.csv", writing=Writing(".", " ")).options["features"] == ["x"]


def test_dropped_queries_count_for_no_split(tmp_path):
    sizes = [1 + query % 2 for query in range(40)]  # every other query has one document
    write(tmp_path, "a.csv", qid=np.repeat(range(40), sizes), x=X, relevance=cycled(1, 2))
    assert units_of(tmp_path, Table(**guess(tmp_path / "a.csv").options)).examples == 20


def test_lists_of_queries_search_passages(tmp_path):
    frame = pd.DataFrame(
        {"question": [[text, f"{text} again"] for text in texts("what is {}")], "answer": texts("it is {}")}
    )
    frame.to_parquet(tmp_path / "a.parquet")
    guessed = guess(tmp_path / "a.parquet", task="search", named={"text": "answer", "target": "question"})
    assert (guessed.options["text"], guessed.options["captions"]) == ("answer", "question")


@pytest.mark.parametrize("cell", [str, list, np.array], ids=["text", "lists", "arrays"])
def test_vectors_in_cells_get_runs(tmp_path, cell):
    vectors = [cell([x, 0.5, a, 1.0]) for x, a in zip(X.tolist(), A.tolist(), strict=True)]
    frame = pd.DataFrame({"vector": [vector.strip("[]") if cell is str else vector for vector in vectors], "price": Y})
    if cell is list:
        frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    elif cell is str:
        frame.to_csv(tmp_path / "a.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "a.parquet")
    [path] = tmp_path.glob("a.*")
    guessed = guess(path)
    assert guessed.options["features"] == "vector"
    assert blocks_of("mine", tmp_path, guessed.task, guessed.options)["runs"]


def test_files_of_two_splits_are_reported(tmp_path):
    for name in ("train", "test"):
        write(tmp_path, f"{name}.csv", **PLAIN)
    assert any(line.startswith("not used: test.csv") for line in guess(tmp_path / "train.csv").lines)


def test_svmlight_without_queries_is_ranked_by_its_label(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{k} 1:{k % 7} 2:{k % 3}\n" for k in N))
    assert guess(tmp_path / "a.svm").options["target"] == "label"


def test_chats_are_refused_with_what_to_write(tmp_path):
    chat = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}]
    rows = pd.DataFrame({"chosen": [chat] * 9, "rejected": [chat] * 9})
    rows.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    with pytest.raises(ValueError, match=r"chosen, rejected contain chats") as refused:
        guess(tmp_path / "a.jsonl")
    table = pd.read_json(tmp_path / "a.jsonl", lines=True)
    exec("\n".join(line.strip() for line in str(refused.value).splitlines()[1:]))  # as it advises
    assert table.iloc[0].to_dict() == {"prompt": "why?", "chosen": "so", "rejected": "so"}


def test_rows_with_missing_cells_are_filled_or_left_out_and_it_says_how_many(tmp_path):
    write(tmp_path, "a.csv", f_1=[None, None, *A[2:]], f_2=X, price=[*Y[1:], None])
    guessed = guess(tmp_path / "a.csv")
    assert guessed.options["missing"] == "impute"
    assert [line[:22] for line in guessed.lines[-2:]] == ["2 of the first 60 rows", "1 of the first 60 rows"]
    write(tmp_path, "b.csv", f_1=A, f_2=X, price=Y)
    assert guess(tmp_path / "b.csv").options["missing"] == "impute"  # of rows to come
    write(tmp_path, "c.csv", text=texts("some words {}"), price=[*Y[1:], None])
    assert guess(tmp_path / "c.csv").options["missing"] == "leave_out"


def test_a_flag_in_parquet_is_a_feature(tmp_path):
    pd.DataFrame({"is_new": cycled(True, False), "x": X, "amount": Y}).to_parquet(tmp_path / "a.parquet")
    assert guess(tmp_path / "a.parquet").options["target"] == "amount"


def test_splits_and_row_numbers_that_only_the_whole_file_shows_are_recognized(tmp_path):
    splits = np.repeat(["train", "val", "test"], [1100, 100, 100])
    draws = np.random.default_rng(1)
    write(tmp_path, "a.csv", X=1 + draws.permutation(1300), part=splits, x=draws.normal(size=1300), price=range(1300))
    options = guess(tmp_path / "a.csv").options
    assert (options["split"], options["features"], options.get("id")) == ("part", ["x"], None)
