"""`rankgrad init`: what it takes a file for, and what it writes into the params."""

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.cli.guess import guess
from pipelines.config import rules

from conftest import ROOT, encoded  # isort: skip

ROWS = 60
N = range(ROWS)


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
    write(folder, "a.csv", path=photos(folder), tags=tags, customer=[f"c{k // 2}" for k in N], views=N)


def ticked(folder):
    write(folder, "a.csv", path=photos(folder), tags=[["cat;dog", "cat", "car;cat"][k % 3] for k in range(ROWS)])


def captions(folder):
    write(folder, "a.csv", image=photos(folder), caption=[f"a picture of number {k}" for k in range(ROWS)])


def houses(folder):
    features = {f"f_{k}": np.arange(ROWS) * k for k in range(5)}
    write(folder, "a.csv", **features, price=np.arange(ROWS) * 1.5, split=["train", "val", "test"] * 20)


def reviews(folder):
    words = [f"this is good number {k}" for k in N]
    write(folder, "a.csv", id=N, review=words, rating=np.linspace(0, 1, ROWS))


def queries(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for first, split in enumerate(("train", "vali", "test")):
        rows = [f"{k % 3} qid:{100 * first + k // 4} 1:{k} 2:{k % 7}\n" for k in range(ROWS)]
        rows.append(f"1 qid:{100 * first + 99} 1:1 2:1\n")  # a query with one document
        (folder / f"{split}.txt").write_text("".join(rows))


def embeddings(folder):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "a.npz", X=np.arange(2.0 * ROWS).reshape(ROWS, 2), y=np.arange(ROWS))


def cars(folder):
    proteins = ["MKTAMKTA" + "ACDEFGHIKL"[k % 10] + "ACDEFGHIKL"[k // 10] for k in N]
    write(folder, "a.csv", km=N, brand=[["vw", "bmw"][k % 2] for k in N], owner_name=[f"n{k}" for k in N],
          protein=proteins, price=np.arange(ROWS) * 1.5)  # fmt: skip


def commas(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{k},5;{k % 7};{['3,5', '4'][k % 2]};{k // 2},25" for k in N]
    (folder / "a.csv").write_text("\n".join(["km;age;tags;price", *rows]))


KINDS = {
    "a.csv": {
        ordered: ("label_ranking", {"image": "path", "labels": "tags", "ordered": True, "group": "customer"}),
        ticked: ("multilabel", {"image": "path", "labels": "tags", "ordered": False, "label_separator": ";"}),
        captions: ("retrieval", {"image": "image", "captions": "caption"}),
        houses: ("score_ranking", {"features": "f_*", "target": "price", "split": "split"}),
        reviews: ("score_ranking", {"text": "review", "target": "rating", "id": "id"}),
        cars: ("score_ranking", {"features": ["km"], "categories": ["brand"], "letters": ["protein"], "target": "price",
                                 "id": "owner_name"}),
        commas: ("multilabel", {"features": ["km", "age", "price"], "labels": "tags", "label_separator": ",",
                                "decimal": ","}),
    },
    "train.txt": {
        queries: ("query_ranking", {"file": {"train": "train.txt", "val": "vali.txt", "test": "test.txt"},
                                    "features": "all", "relevance": "label", "group": "qid"}),
    },
    "a.npz": {embeddings: ("score_ranking", {"features": "X", "target": "y"})},
}  # fmt: skip
CASES = [(make, file, *found) for file, several in KINDS.items() for make, found in several.items()]


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
    assert [run.task for run in settings.runs.values()] == [task] * (3 if task == "score_ranking" else 2)
    compared = settings.comparisons["mine"]
    assert [compared.baseline, *compared.runs] == list(settings.runs)
    dataset = block.built()
    dataset.check(folder)
    assert dataset.fit(folder, seed=block.seed)["rows"] > 10
    comments = {line for line in before.splitlines() if line.startswith("#")}
    assert comments <= set((project / "params.yaml").read_text().splitlines())


COMMAS = {  # cells of a column beside a target with decimal commas; whether it is learned from, and what is told
    "a missing one": (["1,5", "2,5", "n.a."], False, "not used: x"),
    "integers": (["1", "2", "3"], True, "decimal commas"),
    "three decimals": (["1,125", "2,250", "0,375"], True, "decimal commas"),
    "points": (["1.5", "2.5", "3.5"], False, "not used: x: numbers with points"),
    "a unit": (["1,5 kg", "2,5 kg", "3,5 kg"], False, "categories from ['x']"),
}


@pytest.mark.parametrize(("cells", "learned", "told"), COMMAS.values(), ids=COMMAS)
def test_commas_of_numbers_are_no_labels(tmp_path, cells, learned, told):
    rows = [f"{cells[k % 3]};{k % 9},5;{k},25" for k in N]
    (tmp_path / "a.csv").write_text("\n".join(["x;self;price", *rows]))
    found = guess(tmp_path / "a.csv")
    assert (found.task, found.options["target"], found.options["decimal"]) == ("score_ranking", "price", ",")
    assert ("x" in found.options["features"]) == learned
    assert told in "; ".join(found.told)


def test_commas_that_may_part_thousands_are_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("\n".join(["x\tprice", *(f"{k}\t{k},250" for k in range(1, 60))]))
    with pytest.raises(ValueError, match="price has '1,250', of which nothing says whether"):
        guess(tmp_path / "a.tsv")


def test_the_log_of_a_skewed_target_is_a_rival(project):
    write(project / "data/raw/mine", "a.csv", f_1=N, f_2=N, price=[float(k**4) for k in N])
    run("data/raw/mine/a.csv")
    settings = rules.check("params.yaml")
    assert list(settings.runs) == ["mine-mse", "mine-spearman", "mine-ranknet", "mine-mse_log"]
    assert settings.runs["mine-mse_log"].training["log_plus"] == 10_000
    assert "mine-mse_log" in settings.comparisons["mine"].runs


def test_what_is_there_is_kept_a_second_table_is_added_and_a_dry_run_writes_nothing(project):
    before = (project / "params.yaml").read_text()
    captions(project / "data/raw/pairs")
    houses(project / "data/raw/houses")
    assert "hard_negative_triplet" in run("data/raw/pairs/a.csv", "--dry-run")
    assert (project / "params.yaml").read_text() == before
    run("data/raw/pairs/a.csv", "--keep")
    kept = rules.check("params.yaml")
    assert {"pairs", "ranked_mnist"} < set(kept.datasets)
    assert "left out" in run("data/raw/houses/a.csv")
    assert list(rules.check("params.yaml").datasets) == ["pairs", "houses"]
    after = (project / "params.yaml").read_text()
    assert "houses is there already" in run("data/raw/houses/a.csv", fails=True)
    assert (project / "params.yaml").read_text() == after


def test_a_table_elsewhere_is_linked_if_that_is_wanted(project):
    ordered(project / "elsewhere")
    assert "mkdir data/raw/a" in run("elsewhere/a.csv", fails=True)
    run("elsewhere/a.csv", "--link", "--key", "shop")
    assert (project / "data/raw/shop").is_symlink()
    assert rules.check("params.yaml").datasets["shop"].raw == "data/raw/shop"


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
    assert "the first 1000 rows were looked at, and no picture: `dvc repro validate@mine`" in (
        CliRunner().invoke(app, ["check"]).output
    )
    path = project / "data/raw/mine/a.csv"
    path.write_text(path.read_text().replace("tags", "labels", 1))
    with pytest.raises(ValueError, match="datasets.mine: data/raw/mine/a.csv: no column 'tags'"):
        rules.check("params.yaml")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"PassengerId": N, "age": N, "score": N}, {"features": ["age"], "id": "PassengerId", "target": "score"}),
        ({"weight_kg": [2] * ROWS, "size": N, "price": N}, {"features": ["weight_kg", "size"], "weight": None}),
        ({"user_age": [3, 4] * 30, "size": N, "price": N}, {"features": ["user_age", "size"], "group": None}),
        ({"title": ["a good hat"] * ROWS, "my_rating": [1, 5] * 30}, {"text": "title", "target": "my_rating"}),
        ({"price_log": N, "size": N, "price": N}, {"features": ["size"], "target": "price"}),
        ({"size": N, "fitness": N, "fitness_log": N}, {"features": ["size"], "target": "fitness"}),
        ({"x": N, "Price": N, "neg_price": [-k for k in N], "log1p_price": N}, {"features": ["x"], "target": "Price"}),
        ({"sales": N, "x": N, "sales_next_week": N}, {"features": ["sales", "x"], "target": "sales_next_week"}),
        ({"age_at_entry": N, "stage": N, "age": N}, {"features": ["age_at_entry", "stage"], "target": "age"}),
        ({"price_level": [2, 1] * 30, "size": N, "price": N}, {"features": ["price_level", "size"]}),
        (
            {f"{at}_{one}": [0, 1] * 30 for at in ("s1", "s2") for one in "abcy"} | {"fitness": N, "size": N},
            {"features": ["s1_*", "s2_*", "fitness"], "target": "size"},
        ),
        ({"created_at": [1.7e9 + k for k in N], "size": N, "price": N}, {"features": ["size"]}),
        ({"is_new": [0, 1] * 30, "is_sold": [1, 0] * 30, "price": N}, {"features": ["is_new", "is_sold"]}),
        ({"cabin": ["A", "B", *[None] * 58], "x": N, "price": N}, {"categories": None, "missing": None}),
        ({"cabin": ["A", "B"] * 3 + [None] * 54, "x": N, "price": N}, {"categories": ["cabin"], "missing": None}),
        (
            {"state": ["as good as new", "not so good"] * 30, "x": N, "price": N},
            {"categories": ["state"], "text": None},
        ),
        ({"price_band": ["low", "high"] * 30, "x": N, "price": N}, {"features": ["x"], "categories": None}),
        ({"city": ["Rome", "Oslo"] * 30, "y": N}, {"categories": ["city"], "target": "y"}),
        ({"price_range": ["low", "high"] * 30, "sales": N}, {"categories": ["price_range"], "target": "sales"}),
        ({"age": ["7", "NA", "9"] * 20, "x": N, "price": N}, {"features": ["x"], "categories": None}),
        ({"made": ["2026-01-01", "2026-01-02"] * 30, "x": N, "price": N}, {"features": ["x"], "categories": None}),
        ({"tags[1/2]": ["a", "b"] * 30, "x": N, "price": N}, {"features": ["x"], "categories": None}),
    ],
)
def test_what_a_column_is_called_is_not_taken_for_more_than_it_says(tmp_path, columns, expected):
    write(tmp_path, "a.csv", **columns)
    options = guess(tmp_path / "a.csv").options
    assert {role: options.get(role) for role in expected} == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"km": N, "x": N, "price": ["12 EUR", "9 EUR"] * 30}, "price is called like a target, but has '12 EUR'"),
        ({"x": N, "label": ["yes", "no"] * 30}, "label holds names: `--task multilabel`"),
    ],
)
def test_no_other_column_is_ranked_by_in_place_of_the_one_that_is_called_like_the_truth(tmp_path, columns, message):
    write(tmp_path, "a.csv", **columns)
    with pytest.raises(ValueError, match=message):
        guess(tmp_path / "a.csv")


def test_days_are_no_features_and_a_split_of_other_names_is_not_passed_over(tmp_path):
    days = pd.date_range("2026-01-01", periods=ROWS)
    pd.DataFrame({"bought": days, "size": N, "price": N}).to_parquet(tmp_path / "a.parquet")
    assert guess(tmp_path / "a.parquet").options["features"] == ["size"]
    write(tmp_path, "a.csv", size=N, price=N, split=["train", "valid", "test"] * 20)
    with pytest.raises(ValueError, match="split has valid, expected train, val, test or gate"):
        guess(tmp_path / "a.csv")


def test_rows_with_missing_cells_are_left_out_and_it_says_how_many(tmp_path):
    folder = tmp_path / "data"
    write(folder, "a.csv", f_1=[None, *range(1, ROWS)], f_2=range(ROWS), price=[*np.linspace(0, 9, ROWS - 1), None])
    found = guess(folder / "a.csv")
    assert found.options["missing"] == "leave_out"
    assert any("2 of the first 60 rows" in line for line in found.told)
