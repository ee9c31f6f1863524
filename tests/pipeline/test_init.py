"""`rankgrad init`: what it takes a file for, and what it writes into the params."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines.cli.guess import guess
from pipelines.cli.starting_runs import blocks_of, starting_runs
from pipelines.config import rules
from pipelines.stages import data
from rankgrad import lookup
from rankgrad.datasets.files.dataset import Reading
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables.rows import asked, read
from rankgrad.inputs.features import Features
from rankgrad.numbers import Writing

from conftest import ROOT, rankgrad  # isort: skip

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


def german(number, digits):
    return f"{number:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def write(folder, **columns):
    """Write a table, and return its path: CSV where each cell is a text or a number, else Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    frame, path = pd.DataFrame(columns), folder / "a.csv"
    kinds = {*frame.map(type).to_numpy().flat, *(dtype.type for dtype in frame.dtypes)}
    if kinds & {bytes, list, dict, np.float16}:
        path = path.with_suffix(".parquet")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def blocks(folder, columns, **words):
    """The blocks of the params for a table."""
    guessed = guess(write(folder, **columns), **words)
    return blocks_of("mine", Path("data/raw/mine"), guessed.task, guessed.options, folder=folder)


def run(*words, code=0):
    return rankgrad("init", *words, code=code)


def mine():
    """The block of the dataset in the params, once these are checked."""
    return rules.check().datasets["mine"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The folder of a dataset in a project."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return Path("data/raw/mine")


QUERIES = {"query_id": groups(6), "x": X, "y": Y}
SPLIT = {"hash_of": "customer", "val": 0.1, "test": 0.2, "gate": 0.1}
PROTEINS = ["MKTAMKTA" + "ACDEFGHIKL"[k % 10] + "ACDEFGHIKL"[k // 10] for k in N]
PRICES = np.exp(6.5 + Y)
ANSWERS = {"response_a": texts("the answer a of number {}"), "response_b": texts("the answer b of number {}")}
CHOSEN = {"chosen": texts("the chosen one of number {}"), "rejected": texts("the rejected one of number {}")}
NAMED = [
    ({"maker": [*cycled("Lee", "Sons", "Ash")[:57], "Lee; Sons", "Ash; Lee", "Ash; Sons"], **PLAIN},
     {"categories": ["maker"], "labels": None}),
    ({"path": texts("p{}.jpg"), "tags": cycled("cat|dog", "dog|cat", "car"), "customer": texts("c{}", 2), "views": N},
     {"image": "path", "labels": "tags", "ordered": True, "group": "customer", "split": SPLIT}),
    ({"path": texts("p{}.jpg"), "tags": cycled("cat;dog", "cat", "car;cat")},
     {"image": "path", "labels": "tags", "ordered": False, "label_separator": ";"}),
    ({"km": A, "brand": cycled("vw", "bmw"), "owner_name": texts("n{}"), "protein": PROTEINS, "price": Y},
     {"features": ["km"], "categories": ["brand"], "letters": ["protein"], "target": "price", "id": "owner_name"}),
    ({f"f_{k}": X * C ** k for k in range(5)} | {"price": Y, "part": cycled("Training", "VALID", "te")},
     {"features": "f_*", "target": "price", "split": "part"}),
    ({"vector": [[x, 0.5, 1.0] for x in X], "price": Y}, {"features": "vector"}),
    ({"user": texts("u{}", 2), "shop": texts("s{}", 6), **PLAIN}, {"group": "shop"}),  # which has the others' groups
    ({**QUERIES, "query": texts("red hat {}", 6), "grade": modulo(3)}, {"group": "query_id"}),
    ({"text": texts("some words {}"), "price": [*Y[1:], None]}, {"missing": "leave_out"}),
    ({"query_id": modulo(20), "doc_id": N, "f_1": A, "f_2": B, "grade": modulo(3)},
     {"features": ["f_1", "f_2"], "relevance": "grade"}),
    ({"user_age": cycled(3, 4), "size": A, "price": Y}, {"features": ["user_age", "size"], "group": None}),
    ({"species": cycled("a", "b"), "0": X, "1": A, "2": Y}, {"features": ["0", "1"], "target": "2"}),
    ({"lab": cycled("a", "b"), "2024": X, "2025": Y}, {"features": ["2024"], "target": "2025"}),
    ({"size": A, "fitness": Y, "fitness_log": np.exp(Y)}, {"features": ["size"], "target": "fitness"}),
    ({"sales": A, "x": X, "sales_next_week": Y}, {"features": ["sales", "x"], "target": "sales_next_week"}),
    (
        {f"s{k % 2 + 1}_{'abcy'[k // 2]}": DRAWS.normal(size=ROWS) for k in range(8)} | {"fitness": A, "size": Y},
        {"features": ["s1_*", "s2_*", "fitness"], "target": "size"},
    ),
    ({"is_new": cycled(0, 1), "is_sold": cycled(1, 0), "price": Y}, {"features": ["is_new", "is_sold"]}),
    ({"cabin": ["A", "B", *[None] * 58], "x": A, "price": Y}, {"categories": None, "missing": "impute"}),
    ({"made": "2026-01-31", "note": texts("sold to somebody {}"), "price": Y}, {"words": ["note"], "text": None}),
    ({"price_band": cycled("low", "high"), "tags[1/2]": cycled("a", "b"), **PLAIN}, {"categories": None}),
    ({"x": X, "a": A, "tags": cycled("cat|dog|", "dog|", "cat|")}, {"labels": "tags", "label_separator": "|"}),
    ({"wid*": A, "width": X, "price": Y}, {"features": ["wid*", "width"]}),
    ({"X1": A, "__index_level_0__": A, "Unnamed: 0": groups(2), "...1": A, **PLAIN}, {"id": None, "features": ["x"]}),
    ({"X1": A, "X2": B, **PLAIN}, {"id": None, "features": ["X1", "X2", "x"]}),
    ({"positions": [" ".join("1234"[: 1 + k % 4]) for k in N], **PLAIN}, {"text": None, "features": ["x"]}),
    ({"x": X, "label_a": cycled("yes", "no"), "label_b": cycled("no", "yes", "yes")}, {"labels": "label_*"}),
    ({"Kunde": [1000 + 7 * k for k in N], **PLAIN}, {"id": "Kunde", "features": ["x"]}),
    ({"emb": [f"0.1;0.2;{x}" for x in X], "price": Y}, {"features": "emb", "labels": None}),
    ({"text": texts("one of many words {}"), "toxic": cycled(0, 1), "rude": cycled(1, 1, 0)},
     {"text": "text", "labels": ["toxic", "rude"]}),
    ({"winner": [f"a{k % 9}" for k in N], "loser": [f"a{(k + 1) % 9}" for k in N]}, {"categories": ["winner"]}),
    ({"request": texts("what is number {}"), "response": texts("a number like {}"), "rating": X},
     {"text": "response", "target": "rating"}),
    ({"question": texts("what is number {}"), "answer": texts("a number like {}")},
     {"text": "answer", "captions": "question"}),
    ({"media": [f"img/{k}.png" for k in N], "keys": cycled("red disc|blue box", "blue box", "grey star|red disc")},
     {"image": "media", "labels": "keys", "captions": None}),
    (
        {"query_id": groups(15), "query": texts("tell me about number {}", 15),
         "passage": texts("a page with the words {}"), "relevance": cycled(0, 1, 2)},
        {"text_pair": ["query", "passage"], "group": "query_id"},
    ),
]  # fmt: skip
TEXTS = {"prompt": texts("tell me about number {}", 6), "answer": texts("the answer of number {}")}
NAMED_BY_A_PERSON = {  # columns, what a person names, and the options that follow
    "a target of names": (PLAIN | {"label": cycled("yes", "no")}, {"target": "label"}, {"labels": "label"}),
    "labels of any separator": (PLAIN | {"tags": cycled("mug", "lamp", "mug/lamp", "lamp/rug")}, {"target": "tags"},
                                {"labels": "tags", "label_separator": "/"}),
    "a target among others": ({"price": Y, "score": A, "x": X}, {"target": "score"}, {"target": "score"}),
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
    "days first": ({**PLAIN, "sold": [f"{1 + k % 28}.{1 + k % 2}.2026" for k in N]}, {"date": "sold"},
                   {"date": {"column": "sold", "first": "2026-02-28", "every": "month", "order": "DMY"}}),
    "days in digits": ({**PLAIN, "sold": [20260101 + k % 28 for k in N]}, {"date": "sold"},
                       {"date": {"column": "sold", "first": "2026-01-28", "every": "month"}}),
    "a document of several queries": (QUERIES | {"doc": modulo(6), "grade": modulo(3)}, {"id": "doc"}, {"id": "doc"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "named", "expected"),
    [*((columns, {}, expected) for columns, expected in NAMED), *NAMED_BY_A_PERSON.values()],
)
def test_a_column_gets_the_role_that_its_name_and_its_cells_or_a_person_give_it(tmp_path, columns, named, expected):
    options = guess(write(tmp_path, **columns), named=named).options
    assert {role: options.get(role) for role in expected} == expected


REFUSED = {  # columns, and what the message names
    "spaces between thousands": (PLAIN | {"price": [german(p, 2).replace(".", " ") for p in PRICES * 9]},
                                 ["price", "--decimal ',' --thousands ' '"]),
    "a unit": ({"x": X, "Umsatz": [f"{german(p, 2)} €" for p in PRICES]}, ["Umsatz", "€", "row 1", "plain numbers"]),
    "negative grades": (QUERIES | {"relevance": [k % 4 - 1 for k in N]}, ["relevance", "-1", "row 1"]),
    "grades in words": (QUERIES | {"relevance": cycled("bad", "fair", "good")}, ["bad", "row 1", "write numbers"]),
    "printed vectors": ({"embedding": [str(np.array([x, x])) for x in X], "price": Y}, ["embedding", "Parquet"]),
    "two targets": ({"x": X, "y": A, "price": Y}, ["y and price", "--target"]),
    "an empty target": ({"x": X, "a": A, "price": cycled(None)}, ["price", "empty"]),
    "a row as header": ({"5.1": X, "3.5": Y, "Iris-setosa": cycled("Iris-setosa", "Iris-versicolor")},
                        ["first line", "Iris-setosa", "add them"]),
    "ties beside winners": ({"prompt": texts("tell me about {}"), "winner": texts("this is what I know of {}"),
                             "loser": texts("{} is nothing to me"), "result": cycled("win", "win", "tie")},
                            ["result is tie in 20 rows", "--target MARGIN"]),
    "a repeated header": ({"x": [*X[1:], "x"], "price": [*Y[1:], "price"]}, ["row 60 repeats", "remove it"]),
    "a title": ({"Report": texts("a{}"), "": A, " ": Y}, ["the first line has one name, 'Report'", "remove"]),
    "a constant target": (PLAIN | {"price": 3}, ["price is 3", "--target"]),
    "a label of names beside a number": (PLAIN | {"label": cycled("yes", "no")},
                                         ["label", "'yes'", "--target label", "--target price"]),
    "features without a difference": (PLAIN | {"x": 1}, ["x: the same"]),
    "ranks": ({"query_id": groups(6), "x": X, "rank": modulo(6)}, ["query_id", "--target rank"]),
    "addresses of pictures": (PLAIN | {"photo": texts("https://shop.example/{}.jpg")}, ["photo", "download"]),
    "paths of Windows": (PLAIN | {"photo": [rf"img\{k}.jpg" for k in N]}, ["photo", "/"]),
    "a price and what was sold": (PLAIN | {"sales": A}, ["`--target price`", "`--target sales`"]),
    "a price and the words of a photo": (
        {"photo": texts("{}.jpg"), "price": Y, "words": cycled("mug, cup", "cup, mug", "mug")},
        ["`--target words`", "`--target price`"],
    ),
    "numbers of classes": ({"x": X, "z": A, "class": modulo(3)}, ["--task multilabel --target class"]),
    "several queries": (QUERIES | {"search_id": groups(4), "grade": modulo(3)},
                        ["`--query query_id`", "`--query search_id`"]),
    "several captions": ({"image": texts("{}.jpg"), "title": texts("a red hat {}"), "sentence": texts("a hat of {}")},
                         ["`--target title`", "`--target sentence`"]),
    "two texts": ({"sentence1": texts("one of many words {}"), "sentence2": texts("no number but {}"),
                   "score": Y}, ["sentence1 and sentence2", "--text sentence1", "--rejected"]),
    "ids of answers": ({"winner": texts("a{}"), "loser": texts("b{}")}, ["row 1", "a0", "merge"]),
    "numbers of players": ({"winner": modulo(9), "loser": [9 + k % 9 for k in N]}, ["players", "astype(str)"]),
    "two answers alone": (ANSWERS, ["--text response_a --rejected response_b"]),
    "two questions": ({"question1": texts("who is {}"), "question2": texts("what is {}"), "kind": cycled("a", "b")},
                      ["--target"]),
    "two answers": (ANSWERS | {"winner": cycled("model_a", "model_b", "tie")}, ["response_b", "model_a", "where"]),
    "negative margins": (CHOSEN | {"margin": Y}, ["margin", "row 1"]),
    "a text that may be the prompt": (CHOSEN | {"comment": texts("because it is number {}")},
                                      ["--query comment", "--text chosen"]),
    "splits of other names": (PLAIN | {"split": cycled("train", "other", "test")}, ["row 2: split is 'other'"]),
    "a misspelled split": (PLAIN | {"part": ["tset", *cycled("train", "val", "test")[1:]]}, ["row 1: part is 'tset'"]),
    "no header": ({"c0": texts("c{}x"), "413": A, "553.21": Y}, ["first line", "413"]),
    "words among all numbers": ({"x": cycled("1.5", "2.5", "k.A.", "-", "3.5"), "price": [*Y[1:], "on request"]},
                                ["`--empty k.A. --empty -`", "`--empty 'on request'`"]),
    "text in bytes": ({"x": X, "price": cycled(b"12")}, ["price is '12' in bytes"]),
    "a weight below 0": (PLAIN | {"sample_weight": [-k % 3 - 1 for k in N]}, ["row 1", "above 0"]),
    # Of these, rows below the first 1,000 decide.
    "thousands below": ({"km": range(1100), "price": [*map(str, range(1000)), *(f"1.{k}" for k in range(100, 200))]},
                        ["price is '1.100'", "--thousands '.'", "--decimal '.'"]),
    "a header below": ({"query": [*(f"what is {k}" for k in range(1100)), "Query"],
                        "passage": [*(f"it is {k}" for k in range(1100)), "Passage"]}, ["row 1101 repeats"]),
}  # fmt: skip
NAMED_IN_VAIN = {  # columns, what a person names, and what the refusal says
    "a target with units": (PLAIN | {"cost": cycled("3 EUR", "4 EUR")}, {"target": "cost"}, ["cost", "3 EUR"]),
    "one column twice": (PLAIN, {"target": "x", "text": "x"}, ["--text", "--target"]),
    "group and query": (PLAIN | {"lab": A, "qid": B}, {"group": "lab", "query": "qid"}, ["--group", "--query"]),
    "queries without grades": (PLAIN | {"lab": groups(6)}, {"query": "lab"}, ["--target"]),
    "an id that comes again": (PLAIN | {"lab": groups(6)}, {"id": "lab"}, ["lab", "row 2"]),
    "a text of numbers": (PLAIN | {"z": A}, {"text": "z"}, ["--text", "z"]),
    "a group in which no row has another": (PLAIN | {"z": texts("{}.jpg")}, {"group": "z"}, ["--group none"]),
    "the same text for each document": (QUERIES | TEXTS | {"grade": modulo(3)}, {"text": "prompt"},
                                        ["--text", "prompt"]),
    "ranks": (QUERIES | {"rank": modulo(6)}, {"target": "rank"}, ["rank", "largest"]),
    "codes": (PLAIN | {"plz": texts("0{}")}, {"target": "plz"}, ["row 1", "'00'"]),
    "days or months": (PLAIN | {"sold": cycled("1.2.2026", "2.2.2026")}, {"date": "sold"}, ["row 1", "2026-11-30"]),
    "no day": (PLAIN | {"sold": [*cycled("27.9.2026")[1:], "31.2.2026"]}, {"date": "sold"},
               ["row 60: sold is '31.2.2026'"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "named", "words"),
    [*((columns, {}, words) for columns, words in REFUSED.values()), *NAMED_IN_VAIN.values()],
)
def test_what_cannot_be_read_is_refused_with_what_to_write(tmp_path, columns, named, words):
    path = write(tmp_path, **columns)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it must name is asked below
        guess(path, named=named)
    assert not [word for word in words if word not in str(refused.value)], refused.value


MISS_ONE = "1 of the first 60 rows miss a value"
REPORTED = {
    "a cell that is no number": ({"a": ["NULL", *map(str, X[1:])], "b": A, "price": Y}, ["a:", "NULL"]),
    "a number in another notation": ({"a": ["1,5", *map(str, X[1:])], "b": A, "price": Y}, ["a:", "1,5", "alike"]),
    "a number that gives it away": ({"x": X, "a": A, "price": Y, "total": 2 * Y + 1}, ["total"]),
    "a possible group": ({"lab": texts("s{}", 4), **PLAIN}, ["lab: 15 values in 60 rows", "--group lab"]),
    "ranks, of which the largest comes first": (
        {"text": texts("some words of {}"), "rank_cat": [1 + k % 2 for k in N], "rank_dog": [2 - k % 2 for k in N]},
        ["label_ranks from rank_*", "the largest number the most important"],
    ),
    "a group that stands in": (
        {"customer": ["NA", "NA", *texts("c{}", 2)[2:]], **PLAIN},
        ["customer: NA", "--empty NA"],
    ),
    "a column without a name": ({"": A, **PLAIN}, ["without a name", "name it in the header"]),
    "a date that stands in": (
        {"x": ["9999-12-31"] * 3 + ["2026-01-31"] * 57, "a": A, "price": Y},
        ["x:", "9999-12-31 in 3 rows", "--empty 9999-12-31"],
    ),
    "row numbers beside an id": ({"id": texts("k{}"), "no": N, **PLAIN}, ["no: row numbers"]),
    "numbers of places": ({"zip": [10115 + k % 9 for k in N], **PLAIN}, ["zip: a numeric id", "--group zip"]),
    "other words for splits": ({"part": cycled("learn", "test"), **PLAIN}, ["part: named like a split"]),
    "a model's prediction": ({"x": X, "y_true": A, "y_pred": B}, ["y_pred: named like a prediction"]),
    "who judged": ({"x": X, "judge": cycled("ann", "bob"), "price": Y}, ["not used: judge"]),
    "a query's text": (
        {"query_id": [k // 3 for k in N], "query": [f"shoes of kind {k // 3}" for k in N], "x": X, "grade": modulo(3)},
        ["not used: query: the same for all documents of a query"],
    ),
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
    "a total of prices that are not all there": (
        {"x": X, "price": [*Y[1:] ** 2, (Y[1:] ** 2).sum() * 1.05]},
        ["row 60", "about the sum of all others"],
    ),
    "missing features": ({"f_1": [None, None, *A[2:]], "x": X, "price": Y}, ["2 of the first 60 rows miss a feature"]),
    "missing float16": ({"x": X, "price": pd.Series(Y.astype(np.float16)).where(np.array(N) != 3)}, [MISS_ONE]),
    "missing labels": (
        {"text": texts("some words of {}"), "tags": [[None], *cycled(["cat", "dog"], ["dog", "cat"])[1:]]},
        [MISS_ONE],
    ),
    "missing captions": (
        {"photo": texts("{}.jpg"), "caption": [[None], *([f"a picture of {k}"] for k in N[1:])]},
        [MISS_ONE],
    ),
    "objects": ({**PLAIN, "more": cycled({"a": 1})}, ["more: contains objects"]),
    "texts of players": (
        {"winner": [f"a{k % 9}" for k in N], "loser": [f"a{(k + 1) % 9}" for k in N],
         "league": "the first league",
         "won": [f"the words of {k % 9}" for k in N], "lost": [f"the words of {(k + 1) % 9}" for k in N]},
        ["winner is preferred", "`--text won --rejected lost`"],
    ),
}  # fmt: skip


def test_a_description_with_commas_is_no_list_of_labels(tmp_path):
    extras = ("with extras", "sold as it is", "to be collected", "in stock", "under warranty")
    kinds = cycled("saw, used", "lathe, new", "drill, new")
    draws = np.random.default_rng(1)
    text = [f"{kind}, {', '.join(draws.permutation(extras)[:2])}. Please call" for kind in kinds]
    guessed = guess(write(tmp_path, text=text, x=X, Preis=Y))
    assert guessed.task == "score_ranking"


@pytest.mark.parametrize("names", [("negative_1", "negative_2"), ("context_1", "context_2")])
def test_further_texts_of_a_search_are_no_preferences(tmp_path, names):
    found = {name: texts(f"{name} of number {{}}") for name in ("query", "passage", *names)}
    assert guess(write(tmp_path, **found)).task == "retrieval"


@pytest.mark.parametrize(("columns", "words"), REPORTED.values(), ids=REPORTED)
def test_a_column_that_is_not_learned_from_is_reported_with_the_reason(tmp_path, columns, words):
    guessed = guess(write(tmp_path, **columns))
    reported = "\n".join(line for line in guessed.lines if words[0] in line)
    assert not [word for word in words if word not in reported], guessed.lines


def test_files_of_all_splits_are_taken_and_of_fewer_reported(tmp_path):
    path, files = write(tmp_path, **PLAIN), {"train": "Train.csv", "val": "Val.csv", "test": "Test.csv"}
    for name in files.values():
        shutil.copy(path, tmp_path / name)
    assert guess(tmp_path / "Train.csv").options["file"] == files
    (tmp_path / "Val.csv").unlink()
    assert any(line.startswith("not used: Test.csv") for line in guess(tmp_path / "Train.csv").lines)


def test_a_folder_of_parquet_is_refused_with_the_pattern_of_its_files(tmp_path):
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(ValueError, match=r"a folder, .*'a\.parquet/\*\.parquet'"):
        guess(tmp_path / "a.parquet")


def test_splits_row_numbers_and_totals_that_only_the_whole_file_shows_are_recognized(tmp_path):
    splits = np.repeat(["train", "val", "test"], [1100, 100, 100])
    draws = np.random.default_rng(1)
    x, shops = draws.normal(size=1300), [*[f"shop {k % 9}" for k in range(1299)], "Summe"]
    days = pd.date_range("2026-01-01", periods=1300).astype(str)
    path = write(tmp_path, X=1 + draws.permutation(1300), part=splits, shop=shops, x=x, price=range(1300), day=days)
    guessed = guess(path, named={"date": "day"})
    assert guessed.options["date"]["first"] == days[-1]
    options = guessed.options
    assert (options["split"], options["features"], options.get("id")) == ("part", ["x"], None)
    assert any("shop is Summe in 1 rows, first in row 1300" in line for line in guessed.lines)


def svmlight(folder, *names, query=""):
    """Write files of SVMlight, with queries of four documents and one of a single document."""
    folder.mkdir(parents=True, exist_ok=True)
    for first, name in enumerate(names):
        rows = [f"{k % 3} {query.format(100 * first + k // 4)} 1:{k} 2:{k % 7}\n" for k in range(ROWS + 1)]
        (folder / name).write_text("".join(rows))
    return folder / names[0]


def test_svmlight_is_ranked_within_its_queries_or_by_its_label(tmp_path):
    assert guess(svmlight(tmp_path, "a.svm")).options["target"] == "label"
    with pytest.raises(ValueError, match="remove --within"):
        guess(svmlight(tmp_path, "b.txt", query="qid:{}"), within=True)


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_utf_8_is_not_read_in_another_encoding(tmp_path, encoding):
    pd.DataFrame({"größe": X, "price": Y}).to_csv(tmp_path / "a.csv", index=False, encoding=encoding)
    assert guess(tmp_path / "a.csv", encoding="UTF8").options["features"] == ["größe"]
    with pytest.raises(ValueError, match="--encoding utf-8"):
        guess(tmp_path / "a.csv", encoding="cp1252")


def test_an_id_that_repeats_below_the_first_rows_is_none(tmp_path):
    numbers = np.arange(1101.0)
    guessed = guess(write(tmp_path, id=[*range(1100), 7], km=np.sin(numbers), price=np.cos(numbers)))
    assert "id" not in guessed.options
    assert [line for line in guessed.lines if "7 is in row 8 and again in row 1101" in line]


def test_grades_are_not_lost_in_a_search(tmp_path):
    path = write(tmp_path, query=texts("what is {}", 3), passage=texts("it is {}"), grade=modulo(3))
    assert guess(path).options["relevance"] == "grade"
    with pytest.raises(ValueError, match="--task query_ranking"):
        guess(path, task="search")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_numbers_may_mean_a_missing_value(tmp_path, kind):
    table, path = pd.DataFrame({"x": X, "price": [-999, *A[1:]]}), tmp_path / f"a.{kind}"
    if kind == "parquet":
        table.to_parquet(path)
    else:
        path.write_text(table.to_csv(index=False) if kind == "csv" else table.to_json(orient="records", lines=True))
    assert any("1 of the first 60 rows miss a value" in line for line in guess(path, empty=["-999"]).lines)


def test_a_file_with_one_byte_that_utf_8_has_not_may_be_cp1252(tmp_path):
    lines = [f"{('Bonn ', 'Köln ')[k % 2] * 160},{k}" for k in range(1500)]  # a MiB before that byte
    contents = "\n".join(["city,price", *lines])
    (tmp_path / "a.csv").write_bytes(contents.encode() + "\nKöln,1\n".encode("cp1252"))
    assert guess(tmp_path / "a.csv", encoding="cp1252").options["target"] == "price"


def test_grades_from_poor_to_average_are_no_totals(tmp_path):
    lines = guess(write(tmp_path, condition=cycled("poor", "average", "good"), **PLAIN)).lines
    assert not [line for line in lines if "totals" in line]


def test_numbers_with_spaces_in_them_are_no_vectors(tmp_path):
    path = write(tmp_path, x=[f"{100 + a % 800} 500 000" for a in A], price=Y)
    assert guess(path, writing=Writing(".", " ")).options["features"] == ["x"]


def test_lists_of_queries_search_passages(tmp_path):
    path = write(tmp_path, question=[[text, f"{text} again"] for text in texts("what is {}")], answer=texts("it is {}"))
    options = guess(path, task="search", named={"text": "answer", "target": "question"}).options
    assert (options["text"], options["captions"]) == ("answer", "question")


def test_chats_are_refused_with_what_to_write(tmp_path):
    chat = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}]
    table = pd.DataFrame({"chosen": [chat] * 9, "rejected": [chat] * 9})
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    with pytest.raises(ValueError, match=r"chosen, rejected contain chats") as refused:
        guess(tmp_path / "a.jsonl")
    exec("\n".join(line.strip() for line in str(refused.value).splitlines()[1:]))  # as it advises
    assert table.iloc[0].to_dict() == {"prompt": "why?", "chosen": "so", "rejected": "so"}


def test_a_number_that_orders_the_rows_of_each_group_like_the_target_is_no_feature_within_groups(tmp_path):
    path = write(tmp_path, **SAMPLES | {"norm": Y, "age": A})
    options = guess(path, named={"group": "lab"}, within=True).options
    assert options["features"] == ["x", "age"]
    assert guess(path, named={"group": "lab"}).options["features"] == ["x", "norm", "age"]


SAMPLES = {"lab": [f"lab {k % 6}" for k in N], "x": X, "price": Y + 100 * (np.array(N) % 6)}


# What is compared.


def test_what_init_compares_is_what_the_pages_advise():
    choose = (ROOT / "docs/choose.md").read_text()
    advice = {row[1]: row[0] for row in re.findall(r"^(\| (.+?) \|.*)$", choose, re.MULTILINE)}
    advice |= {section.partition("\n")[0]: section for section in choose.split("\n## ")}
    starting = starting_runs()
    assert {*lookup.names("tasks")} <= {*starting}
    for blocks_of_task in starting.values():
        for run_of_task in blocks_of_task["runs"].values():
            assert re.search(rf"\b{run_of_task['loss']['name']}\b", advice[run_of_task["advice"]])


def test_the_log_of_a_skewed_target_is_a_rival(tmp_path):
    runs = blocks(tmp_path, {"f_1": A, "f_2": X, "price": [float(k**4) for k in N]})["runs"]
    assert [*runs] == [f"mine-{name}" for name in ("mse", "spearman", "ranknet", "mse_log", "ridge", "boosted_trees")]
    assert runs["mine-mse_log"]["training"]["log_plus"] == 10_000
    total = {"f_1": range(200), "f_2": np.resize(X, 200), "price": [*range(1, 200), 19_900]}  # is no tail
    assert "mine-mse_log" not in blocks(tmp_path, total)["runs"]


def test_skewed_numbers_of_one_table_leave_the_next_table_alone(tmp_path):
    backbones = []
    for numbers in (np.exp(3 * X), X):
        runs = blocks(tmp_path, {"f_1": numbers, "price": A})["runs"]
        backbones.append(runs["mine-mse"]["model"]["backbone"]["args"])
    assert backbones == [{"hidden": [64], "quantiles": True}, {"hidden": [64]}]


@pytest.mark.parametrize(
    ("grades", "queries", "metric", "losses"),
    [
        (modulo(5), groups(6), "ndcg_at_10", ["mse", "lambdarank"]),
        (modulo(2), groups(6), "mean_average_precision", ["multilabel_soft_margin", "hinge_ap", "rlsep"]),
        (modulo(2), groups(2), "pair_accuracy", ["ranknet", "mse"]),
    ],
)
def test_versions_are_judged_by_the_metric_of_the_comparison(tmp_path, grades, queries, metric, losses):
    written = blocks(tmp_path, {"query_id": queries, "x": X, "y": Y, "grade": grades})
    runs = written["runs"]
    assert written["comparisons"]["mine"]["metric"] == written["judged"]["query_ranking-mine"]["metric"] == metric
    expected = "log_loss" if metric == "pair_accuracy" else metric
    for run_of_task in runs.values():
        assert run_of_task["training"].get("ranker", {}).get("monitor", "mean_average_precision") == expected
    assert [*runs] == [f"mine-{name}" for name in [*losses, "ridge", "boosted_trees", "lambdarank_trees"]]


def test_a_small_table_gets_more_epochs(tmp_path):
    for factor, epochs in ((1, 300), (20, 67)):
        columns = {"f_1": range(factor * ROWS), "f_2": np.tile(A, factor), "price": np.tile(Y, factor)}
        runs = blocks(tmp_path, columns)["runs"]
        assert runs["mine-mse"]["training"]["finetune"].items() >= {"epochs": epochs, "patience": epochs // 2}.items()


def test_a_group_whose_targets_have_a_level_of_their_own_is_compared_within(tmp_path):
    line = next(line for line in guess(write(tmp_path, **SAMPLES)).lines if "explains" in line)
    assert line.startswith("lab explains 9")
    assert "`--group lab --within`" in line
    within = {"named": {"group": "lab"}, "within": True}
    compared = blocks(tmp_path, SAMPLES, **within)
    assert compared["datasets"]["mine"]["args"]["within"] is True
    assert [*compared["runs"]][:4] == ["mine-mse_standardized", "mine-mse_centered", "mine-spearman", "mine-ranknet"]
    scales = SAMPLES | {"price": Y * 10.0 ** (np.array(N) % 6)}  # without levels
    assert "mine-mse_centered" not in blocks(tmp_path, scales, **within)["runs"]


def test_a_target_far_from_all_others_is_reported_before_any_stage(tmp_path, caplog):
    pd.DataFrame({"x": range(40), "grade": [*range(4)] * 9 + [1, 2, 3, 30]}).to_csv(tmp_path / "a.csv", index=False)
    Table(file="a.csv", features="x", target="grade").check_head(tmp_path)
    assert "outliers: grade is 30" in caplog.text


# What is written.


@pytest.mark.parametrize(
    ("columns", "backbone", "rate", "rivals"),
    [
        (
            {"client": cycled("web", "app"), "said": texts("{} is fine"), "price": Y},
            "perceptron",
            0.01,
            ["ridge", "boosted_trees"],
        ),
        ({"said": texts("{} is fine"), "price": Y}, "bag_of_words", 0.003, ["word_counts"]),
        ({"photo": texts("{}.png"), "tags": cycled("cat|dog", "dog|cat", "cow|dog")}, "convnet", None, ["hog_ridge"]),
        ({"photo": texts("{}.png"), "caption": texts("a dog of {} years in a park")}, "convnet", 0.01, []),
        (
            {"q": texts("what is {}", 4), "doc": texts("it is {}"), "grade": cycled(0, 1, 2, 3)},
            "knrm",
            0.01,
            ["word_pair_ridge"],
        ),
        (
            {"prompt": texts("what is {}"), "chosen": texts("it is {}"), "rejected": texts("they are {}")},
            "bag_of_words",
            None,
            ["word_counts", "word_pair_ridge"],
        ),
        (
            {"chosen": texts("it is well known to be {}", 10), "rejected": texts("I do not know why it is {}", 9)},
            "bag_of_words",
            None,
            ["word_counts"],
        ),
    ],
)
def test_networks_and_rivals_fit_the_input(tmp_path, columns, backbone, rate, rivals):
    written = blocks(tmp_path, columns)
    networks = {name: run for name, run in written["runs"].items() if not name.endswith(tuple(rivals) or "none")}
    assert [*written["runs"]][len(networks) :] == [f"mine-{name}" for name in rivals]
    for run in networks.values():
        phase = next(run["training"][name] for name in ("finetune", "scorer", "ranker") if name in run["training"])
        assert run["model"]["backbone"]["name"] == backbone
        assert phase.get("optimizer", {}).get("args", {}).get("lr") == rate
        assert run["model"].get("text", {}).get("name") == ("bag_of_words" if "caption" in columns else None)
    for name in rivals:  # thresholds of labels are trained as long as those of the networks
        rival, network = written["runs"][f"mine-{name}"], next(iter(networks.values()))
        assert rival["training"].get("thresholds") == network["training"].get("thresholds")


@pytest.mark.parametrize(
    ("columns", "words", "lines"),
    [
        (PLAIN | {"split": cycled("train", "val", "test")}, [],
         ["gate: none, because 20 rows", "gate_share: 0", "val: about 20,"]),
        (PLAIN | {"customer": texts("c{}", 2)}, [], ["gate: none, because 30 groups of customer", "gate: 0"]),
        (PLAIN | {"id": N}, [],
         ["gate: none, because 60 rows are fewer than 180", "val: about 9,", "val: 0.15", "`--folds 5 --seeds 1`"]),
        ({"qid": np.repeat(range(40), [1, 2] * 20), "x": X, "relevance": cycled(1, 2)}, [],
         ["gate: none, because 20 groups of qid"]),
        (PLAIN, ["--folds", 5], ["each run trains 6 times", "folds: 5"]),
    ],
)  # fmt: skip
def test_a_gate_that_is_too_small_to_promote_anything_is_reported_and_one_that_stays_so_gets_no_rows(
    project, columns, words, lines
):
    printed = run(write(project, **columns), *words, "--dry-run")
    assert not [line for line in lines if line not in printed]


@pytest.mark.parametrize(
    ("columns", "words", "refusal"),
    [
        (SAMPLES, ["--folds", 61], "--folds 61: 60 rows are too few"),
        (SAMPLES, ["--folds", 7, "--group", "lab", "--within"], "--folds 7: 6 lab are too few"),
        (PLAIN | {"part": cycled("Train", "Train", "test")}, [], "no part is val"),
        (PLAIN, ["--task", "retreival"], "did you mean retrieval"),
        (PLAIN, ["--task", "retrieval"], "no column"),
        (PLAIN, ["--text", "prise"], "did you mean price"),
        (PLAIN, ["--metric", "pearman"], "did you mean spearman"),
        (SAMPLES, ["--group", "lab", "--within", "--metric", "estimate_r2"], "have no estimates"),
        (QUERIES | {"x": X, "grade": modulo(3)}, ["--metric", "log_loss"], "--metric log_loss"),
        (SAMPLES | {"batch": groups(4)}, ["--within"], "`--within --group lab` or `--within --group batch`"),
        (SAMPLES, ["--group", "lab", "--within", "--task", "multilabel"], "--task multilabel"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused(project, columns, words, refusal):
    assert refusal in run(write(project, **columns), *words, "--dry-run", code=1)


def test_folds_of_groups_with_many_and_few_rows_are_about_equal(project):
    labs = np.repeat([f"lab {k}" for k in range(12)], [60, 50, 40, 30, 20, 20, 10, 10, 10, 10, 10, 10])
    draws = np.random.default_rng(1).normal(size=(2, len(labs)))
    assert "seed: " in run(write(project, lab=labs, x=draws[0], price=draws[1]), "--group", "lab", "--folds", 4)
    data.main(rules.check(), "mine")
    sizes = pd.read_parquet("data/mine/test.parquet")["fold"].value_counts()
    assert sizes.max() <= 1.5 * sizes.min()


def test_what_is_written_passes_the_check_beside_the_comments_of_the_params(project):
    before = Path("params.yaml").read_text()
    assert "git commit params.yaml" in run(svmlight(project, "train.txt", "vali.txt", "test.txt", query="qid:{}"))
    settings = rules.check()
    assert list(settings.datasets) == list(settings.comparisons) == ["mine"]
    compared = settings.comparisons["mine"]
    assert [compared.baseline, *compared.runs, *compared.rivals] == list(settings.runs)
    files = {"train": "train.txt", "val": "vali.txt", "test": "test.txt"}
    expected = {"file": files, "features": "all", "relevance": "label", "group": "qid", "gate_share": 0}
    assert expected.items() <= settings.datasets["mine"].args.items()
    # A comment "Optional" leaves with its block of the showcase.
    comments = {line for line in before.splitlines() if line.startswith("#") and not line.startswith("# Optional")}
    assert comments <= set(Path("params.yaml").read_text().splitlines())


def test_a_second_table_is_added_with_the_sorter_that_the_first_had_no_use_for(project):
    run(write(Path("data/raw/answers"), **CHOSEN), "--dry-run")
    assert Path("params.yaml").read_text() == (ROOT / "params.yaml").read_text()
    run(write(Path("data/raw/answers"), **CHOSEN))
    assert "laplace" not in rules.check().sorters
    assert "removed from" not in run(write(project, **PLAIN))
    settings = rules.check()
    assert list(settings.datasets) == ["answers", "mine"]
    assert settings.runs["mine-spearman"].sorter == "laplace"
    after = Path("params.yaml").read_text()
    assert "datasets.mine: already exists" in run(project / "a.csv", code=1)
    assert Path("params.yaml").read_text() == after
    run(project / "a.csv", "--replace")
    assert Path("params.yaml").read_text() == after


@pytest.mark.parametrize(("sides", "size"), [((200, 150), 64), ((40, 50), 40), ((8, 9), 16)])
def test_pictures_are_stored_in_their_size_if_they_are_small(tmp_path, sides, size):
    for number in N[:20]:
        Image.new("L", sides if number else (4, 4)).save(tmp_path / f"p{number}.png")
    written = blocks(tmp_path, {"image": texts("p{}.png"), "price": Y})
    assert written["datasets"]["mine"]["size"] == size


@pytest.mark.parametrize(("count", "share"), [(60, 0), (240, 0.15), (3000, 0.1)])
def test_a_gate_has_rows_enough_to_judge_or_none(project, count, share):
    run(write(project, x=np.sin(np.arange(count) * 7), y=np.cos(np.arange(count) * 5)))
    assert mine().built().shares["gate"] == share


def test_rows_of_weight_0_count_nowhere(project):
    weights = [k % 4 for k in range(400)]
    table = write(project, x=np.sin(np.arange(400) * 7), y=np.cos(np.arange(400) * 5), weight=weights)
    assert " of 300 rows" in run(table, "--weight", "weight")


def test_a_gate_keeps_what_the_task_guards(project):
    run(write(project, text=texts("some words of {}"), tags=cycled("cat;dog", "cat", "car;cat")), "--seeds", 1)
    settings = rules.check()
    assert {"ranked.exact_match", "unranked.f1"} == {*settings.judged_of("label_ranking", "mine").guarded}
    assert all(run_of_task.seeds == [1] for run_of_task in settings.runs.values())


def test_generated_datasets_are_kept_if_that_is_wanted(project):
    tags = {"text": texts("some words of {}"), "tags": cycled("cat;dog", "cat", "car;cat")}
    run(write(project, **tags), "--keep")
    assert {"mine", "ranked_mnist"} < {*rules.check().datasets}
    assert "removed from" in run(write(Path("data/raw/ranked_mnist"), **PLAIN), "--replace")
    assert {dataset.name for dataset in rules.check().datasets.values()} == {"table"}


def test_the_gate_judges_preferences_by_log_loss_unless_a_person_names_a_metric(project):
    run(write(project, **CHOSEN))
    run(write(Path("data/raw/more"), **CHOSEN), "--metric", "pair_accuracy")
    settings = rules.check()
    assert [settings.comparisons[name].metric for name in ("mine", "more")] == ["pair_accuracy"] * 2
    judged = [settings.judged_of("query_ranking", name).metric for name in ("mine", "more")]
    assert judged == ["log_loss", "pair_accuracy"]


def test_validation_rows_of_preferences_train_too_where_other_rows_judge(project):
    many = {name: [f"{name} answer number {k}" for k in range(300)] for name in CHOSEN}
    for name, columns, words in (("mine", many, []), ("few", CHOSEN, []), ("folds", many, ["--folds", 3])):
        run(write(Path("data/raw") / name, **columns), *words)
    refitted = {run_of_table.dataset for run_of_table in rules.check().runs.values() if run_of_table.refit}
    assert refitted == {"mine", "folds"}


def test_a_metric_that_a_person_names_is_that_of_comparison_and_gate(project):
    captions = {"image": texts("p{}.jpg"), "caption": texts("a picture of number {}")}
    run(write(project, **captions), "--metric", "item_to_text.recall@1")
    run(write(Path("data/raw/more"), **captions))
    settings = rules.check()
    assert settings.comparisons["mine"].metric == "item_to_text.recall_at_1"
    judged = [settings.judged_of("retrieval", dataset).metric for dataset in ("mine", "more", "drawn")]
    assert judged == ["item_to_text.recall_at_1", "text_to_item.recall_at_1", "item_to_text.recall_at_1"]


def test_a_table_elsewhere_is_linked_if_that_is_wanted(project):
    path = write(Path("elsewhere"), **PLAIN)
    assert "mkdir -p data/raw/a" in run(path, code=1)
    run(path, "--link", "--key", "shop")
    assert Path("data/raw/shop").is_symlink()
    assert rules.check().datasets["shop"].raw == "data/raw/shop"
    beside = write(Path(), **PLAIN)
    assert "mkdir -p" in run(beside, "--link", code=1)  # a link would put the project into itself
    assert not Path("data/raw/a").exists()


def test_the_folder_of_a_first_delivery_is_one_of_the_dataset(project):
    run(write(project / "first", **PLAIN))
    dataset = mine()
    assert (dataset.raw, dataset.args["file"]) == ("data/raw/mine", "a.csv")


def test_a_person_says_what_columns_are_and_how_numbers_are_written(project):
    path = write(project, lab=texts("s{}", 4), number=[german(p, 0) for p in PRICES], age=A)
    run(path, "--target", "number", "--group", "lab", "--thousands", ".")
    expected = {"target": "number", "group": "lab", "decimal": ",", "thousands": "."}
    assert expected.items() <= mine().args.items()


def test_the_only_notation_in_which_all_columns_are_numbers_is_that_of_the_table(tmp_path):
    columns = {"km": [german(1000 + a, 0) for a in A], "preis": [german(p, 2) for p in PRICES]}
    guessed = guess(write(tmp_path, **columns))
    assert {"decimal": ",", "thousands": "."}.items() <= guessed.options.items()
    assert [line for line in guessed.lines if "1.306,5" in line]


@pytest.mark.parametrize(
    "cells", [cycled("1,2", "2", "3,1"), cycled("774 250 431", "798 872 212"), cycled("4,5", "3,0")]
)
def test_what_may_be_codes_or_vectors_decides_no_notation(tmp_path, cells):
    with pytest.raises(ValueError, match=r"price is '1,755'|x is '"):
        guess(write(tmp_path, x=cells, price=cycled("1,755", "2,125", "7")))


def test_texts_that_stand_for_a_missing_value_are_read_as_empty_by_every_reader(project):
    path = write(project, f_1=X, f_2=cycled("k.A.", *map(str, A[:5]), "-"), price=Y)
    assert "`--empty k.A. --empty -`" in run(path, "--dry-run")
    run(path, "--empty", "k.A.", "--empty", "-")
    dataset = mine()
    names = dataset.built().opened(project, Reading(dataset.seed)).fitted["features"]
    about = {"kind": "features", "count": len(names), "names": names, **dataset.built().reading}
    recipe, request = {"task": "score_ranking", "input": about}, {"f_1": 0.5, "f_2": "-"}
    row = next(read([path], recipe)).asked()["features"]
    [own_columns] = asked([request], recipe, ["features"])
    vectors = Features.prepared([row, own_columns["features"], request], about, where="row")
    assert vectors[:, names.index("f_2[empty]")].tolist() == [1, 1, 1]


def test_a_dataset_that_is_replaced_keeps_the_splits_of_its_rows(project):
    kept = "rows stay in their splits"
    run(write(project, customer=texts("c{}", 2), x=X, y=Y))
    before = mine()
    more = {"customer": [f"c{number // 2}" for number in range(600)], "x": np.tile(X, 10), "y": np.tile(Y, 10)}
    assert kept in run(write(project, **more), "--replace")
    after = mine()
    assert (after.seed, after.args["split"]) == (before.seed, before.args["split"])
    printed = run(write(project, **more, z=np.tile(np.abs(X), 10)), "--replace")
    assert not [line for line in (kept, "gate: none, as before") if line not in printed]
    assert kept not in run(project / "a.csv", "--replace", "--group", "none")


def test_rows_with_lists_of_documents_are_refused_with_code_that_splits_them(tmp_path):
    table = pd.DataFrame(
        {"query": ["a b c", "d e f"] * 9, "passages": [["x"], ["y", "z"]] * 9, "grades": [[1], [0, 2]] * 9}
    )
    with pytest.raises(ValueError, match="passages, grades are lists") as refused:
        guess(write(tmp_path, **table))
    names = {"table": table}
    exec(re.search(r"`(.*)`", str(refused.value))[1], names)
    assert len(names["table"]) == 27
