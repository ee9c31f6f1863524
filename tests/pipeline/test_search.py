"""Search in tables of queries and passages: which passages are searched, by networks and by BM25, and in folds."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from laws.tables import made
from ruamel.yaml import YAML
from torch.nn.functional import cross_entropy

from pipelines.cli.guess import guess
from pipelines.config import rules
from pipelines.rivals import SETTINGS, bm25
from pipelines.stages import data
from pipelines.stages._splits import splits_of
from pipelines.tracking.known_rows import known_rows, learned
from rankgrad import lookup
from rankgrad.datasets.files.splits import Captions, Split
from rankgrad.datasets.table import Table
from rankgrad.inputs.text import of_strings
from rankgrad.io.checkpoints import build, load_model
from rankgrad.tasks.retrieval import searching
from rankgrad.training.device import make_accelerator
from rankgrad.training.loop import train

from conftest import ROOT, objective_of, rankgrad, refusal, task_of  # isort: skip
from rows import PHASE, folder_of  # isort: skip

ROWS, FURTHER = 60, 25
SHARED = "which numbers are there"  # a query of several rows
BAG = {"name": "linear", "args": {}, "backbone": {"name": "bag_of_words", "args": {"size": 6}}}
RETRIEVAL = lookup.find("tasks", "retrieval")()


def pairs_of(passages: list[str], queries: list[str], **more) -> Split:
    """Passages of one gallery with a query each."""
    count = len(passages)
    truth = Captions(queries, torch.ones(count).long(), torch.arange(count), torch.zeros(count).long())
    return Split(of_strings(passages), truth._replace(**more))


def test_a_rank_counts_every_passage_once_but_those_that_answer_the_query(generator):
    passages = ["BLUE hat", "red hat", "blue hat", "red shoe", "RED  hat"]  # two of them twice
    queries = [["e"], ["a", "b"], ["a"], ["c"], ["d"]]  # a is answered by two passages, one of which e finds earlier
    others = ["blue shoe", "green hat", "new hat", "old hat"]
    answered = [("blue shoe", ["C "]), ("new hat", ["e"]), ("old hat", ["a", "d"]), ("Red shoe", ["b"])]
    counts = torch.tensor([len(of_passage) for of_passage in queries])
    truth = Captions([*chain(*queries)], counts, torch.arange(5), torch.zeros(5, dtype=torch.int64))
    split = searching(Split(of_strings(passages), truth), others, answered)
    right = {
        "a": {"red hat", "blue hat", "old hat"},
        "b": {"red hat", "red shoe"},
        "c": {"red shoe", "blue shoe"},
        "d": {"red hat", "old hat"},
        "e": {"blue hat", "new hat"},
    }

    texts = ["blue hat", "red hat", "red shoe", *others]
    placed, asked = torch.randint(-1, 2, (13, 3), generator=generator).float().split([7, 6])  # with ties
    asked[1] = asked[3]
    table = RETRIEVAL.table_of(split, (placed[[0, 1, 0, 2, 1]], asked, placed[3:].split(3)))
    names, own, scores = "eabacd", [0, 1, 1, 0, 2, 1], asked @ placed.T
    expected = []
    for row, query in enumerate(names):
        wrong = [number for number, text in enumerate(texts) if text not in right[query]]
        expected.append(1 + sum(bool(scores[row, number] >= scores[row, own[row]]) for number in wrong))
    assert [*chain(*table["item_ranks"].to_pylist())] == expected
    assert set(table["searched"].to_pylist()) == {7}

    expected = []
    for number, of_passage in [(0, [0]), (1, [1, 2]), (0, [3]), (2, [4]), (1, [5])]:
        wrong = [row for row, query in enumerate(names) if texts[number] not in right[query]]
        best = scores[of_passage, number].max()
        expected.append(1 + sum(bool(scores[row, number] >= best) for row in wrong))
    assert table["caption_rank"].to_pylist() == expected


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Pairs of queries and passages, of which one query has several, and a file of further passages."""
    monkeypatch.chdir(tmp_path)
    raw = Path("data/raw/pairs")
    raw.mkdir(parents=True)
    passages = [f"the answer number {number} is long" for number in range(ROWS)]
    queries = [f"what is number {number}" if number % 6 else SHARED for number in range(ROWS)]
    pd.DataFrame({"query": queries, "passage": passages}).to_csv(raw / "pairs.csv", index=False)
    further = [f"nobody asked for {number} at all" for number in range(FURTHER)]
    pd.DataFrame({"key": range(FURTHER + ROWS), "words": further + passages}).to_csv(raw / "all.csv", index=False)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    return raw


def initialized(*words: object, code: int = 0) -> str:
    return rankgrad("init", "data/raw/pairs/pairs.csv", *words, code=code)


@pytest.mark.parametrize("words", [(), ("--folds", 3)])
def test_networks_and_bm25_search_the_passages_of_all_splits_and_of_the_collection(project, words):
    assert "searched: the passages of all splits, and those of all.csv" in initialized(
        "--collection", project / "all.csv", *words
    )
    params = rules.check()
    data.main(params, "pairs")
    network = load_model(folder_of("retrieval of text")).eval()
    with splits_of(params, "pairs", RETRIEVAL, ["test"]) as by_fold:
        for splits in by_fold.values():
            split = splits["test"]
            assert len({*split.inputs.items, *split.truth.others}) == ROWS + FURTHER
            [scores] = bm25(split, SETTINGS[:1])
            for table in (RETRIEVAL.predict(network, split), RETRIEVAL.table_of(split, scores)):
                assert set(table["searched"].to_pylist()) == {ROWS + FURTHER}
            shared = split.truth.texts.count(SHARED)
            assert shared in (0, ROWS // 6)  # a query is in one split, and in one fold
            assert len(split.truth.ignored) == len(split) - shared + shared**2


def test_bm25_prefers_no_passage_of_the_split_to_those_of_the_collection():
    """A query without a word in common finds its passage anywhere among all, also if others have no query's words."""
    passages = [f"own{row}" for row in range(40)]
    queries = [f"lost{row}" if row % 2 else f"own{row}" for row in range(40)]
    split = searching(pairs_of(passages, queries), [f"other{row}" for row in range(40)], [])
    [scores] = bm25(split, SETTINGS[:1])
    ranks = np.array([*chain(*RETRIEVAL.table_of(split, scores)["item_ranks"].to_pylist())])
    assert set(ranks[::2]) == {1}
    assert 30 < ranks[1::2].mean() < 50


def test_validation_searches_the_training_passages_too(project):
    initialized()
    data.main(rules.check(), "pairs")
    task = task_of("retrieval", {"batch_size": 8, "shared": True, "probe": PHASE, "finetune": PHASE})
    train_split, val = (task.load("data/pairs", split, threads=1) for split in ("train", "val"))
    network = task.build(BAG, train_split, seed=0)
    epochs = [*train(task, network, train_split, val, objective=objective_of("info_nce"), seed=0, device="cpu")]
    assert train_split.truth.counts.eq(1).all()
    passages = train_split.inputs.items
    answered = [(passage, [query]) for passage, query in zip(passages, train_split.truth.texts, strict=True)]
    statistic = task.statistic(task.predict(network, searching(val, passages, answered)))
    values = dict(zip(statistic.names, statistic.of_all(), strict=True))
    recalls = [values["item_to_text.recall_at_1"], values["text_to_item.recall_at_1"]]
    assert max(epoch.value for _, epoch in epochs) == pytest.approx(np.mean(recalls))
    assert values["gallery"] == len(train_split) + len(val)


def test_a_collection_that_cannot_be_searched_is_refused(project):
    (project / "keys.csv").write_text("key,place\n1,Rome\n2,Oslo\n")
    assert "expected one column of passages" in initialized("--collection", project / "keys.csv", code=1)
    Path("elsewhere.csv").write_text((project / "all.csv").read_text())
    assert "move it there" in initialized("--collection", "elsewhere.csv", code=1)
    for options in ({"image": "picture"}, {"text": "passage", "gallery": "part"}):
        with pytest.raises(ValueError, match="collection: expected with `text` and `captions`"):
            Table(file="a.csv", captions="query", collection="all.csv", **options)


PAIRS = {
    "query": [f"what is number {row % 20}" for row in range(ROWS)],
    "passage_id": [f"d{row}" for row in range(ROWS)],
}
NUMBERS = {"passage_id": range(ROWS)}
IDS = {"query_id": [f"q{row % 20}" for row in range(ROWS)], "doc_id": range(ROWS)}
BEIR = {"query-id": IDS["query_id"], "corpus-id": range(ROWS), "score": 1}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (PAIRS, {}),
        (PAIRS | NUMBERS | {"more": ["a"] * ROWS}, {"named": {"text": "passage_id", "target": "query"}}),
        (PAIRS | {"grade": [row % 3 for row in range(ROWS)]}, {}),
        (IDS, {}),
        (BEIR, {}),
    ],
)
def test_ids_of_passages_are_refused_with_the_code_that_joins_their_texts(tmp_path, columns, words):
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=r"join the texts with pandas(?s:.*)--collection passages.csv") as refused:
        guess(tmp_path / "a.csv", **words)
    table, passages = pd.DataFrame(columns), pd.DataFrame({"ID": range(ROWS), "TEXT": ["a long text"] * ROWS})
    passages["ID"] = pd.DataFrame(columns)[[name for name in columns if name in ("passage_id", "doc_id", "corpus-id")]]
    queries = pd.DataFrame({"ID": [f"q{row}" for row in range(20)], "TEXT": ["a query"] * 20})
    joined = {"table": table, "passages": passages, "queries": queries}
    exec("\n".join(line.strip() for line in str(refused.value).splitlines()[1:-3]), joined)  # as it advises
    assert len(joined["table"]) == ROWS
    assert set(joined["table"]["passage"]) == {"a long text"}


def test_negatives_belong_to_a_query_and_are_none_of_its_answers(tmp_path):
    rows = [
        {"query": "a", "passage": "red hat", "wrong": ["blue shoe", "Blue  hat"]},
        {"query": "a", "passage": "red hat", "wrong": ["old coat", "blue shoe"]},
        {"query": "b", "passage": "red hat", "wrong": None},
        {"query": "a", "passage": "blue hat", "wrong": "old coat"},
        *({"query": f"what is {row}", "passage": f"number {row}", "wrong": "red hat"} for row in range(ROWS)),
    ]
    pd.DataFrame(rows).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    options = {"file": "a.jsonl", "text": "passage", "captions": "query", "negatives": "wrong"}
    splits, _, _ = made(options, tmp_path)
    items = {row["text"]: row for row in pa.concat_tables(splits.values()).to_pylist()}
    assert items["red hat"]["captions"] == ["a", "b"]
    assert items["red hat"]["negatives"] == [["blue shoe", "old coat"], []]
    assert items["blue hat"]["negatives"] == [["old coat"]]


def phase_of(name: str, split: Split):
    """Return what makes a phase of one encoder of passages and queries with an objective, and the network."""
    task = task_of("retrieval", {"batch_size": 6, "shared": True, "size": 4, "probe": PHASE, "finetune": PHASE})
    network = task.build(BAG, split, seed=0).eval()
    tokenized = task.splits_for(network, split, split)
    accelerator = make_accelerator(device="cpu", precision="no")

    def made(objective):
        return task.phase_of(name, getattr(task.training, name), network, *tokenized, objective, accelerator)

    return made, network


@pytest.mark.parametrize("phase", ["probe", "finetune"])
def test_a_query_is_compared_with_its_own_negative(phase):
    of_rows = [["a blue hat", "no"], [], *[["old"]] * 3, []]
    passages, queries = [f"number {row} red" for row in range(6)], [f"what is {row}" for row in range(6)]
    made_with, network = phase_of(phase, pairs_of(passages, queries, negatives=of_rows))
    trained = made_with(objective_of("info_nce", args={"temperature": 0.5}))
    drawn, own, negatives = torch.Generator().manual_seed(0), torch.arange(4), set()
    for _ in range(20):
        inputs, compared = trained.batch(torch.tensor([3, 0, 5, 1]), drawn)
        with torch.no_grad():
            placed, asked, wrong = trained.outputs(network, *inputs)
            loss = trained.loss((placed, asked, wrong), compared, drawn)
        scores, of_negatives = asked @ placed.T / 0.5, (asked * wrong).sum(1) / 0.5
        has_negative = torch.tensor([True, True, False, False])
        all_scores = torch.cat([scores, of_negatives.where(has_negative, -2.0).unsqueeze(1)], 1)
        expected = (cross_entropy(all_scores, own) + cross_entropy(scores.T, own)) / 2
        torch.testing.assert_close(loss, expected)
        negatives.add(round(of_negatives[1].item(), 4))
    assert len(negatives) == 2  # each of the two negatives of the first query
    lstm = build("sorters", "lstm", {"hidden": 4, "layers": 1}, seed=1, length=4)
    with pytest.raises(ValueError, match="`negatives`"):
        made_with(objective_of("sodeep_recall", sorter=lstm))


def test_passages_of_several_queries_are_in_several_splits_and_queries_in_one(project, caplog):
    queries = [f"{('what', 'What')[row % 3 == 0]} is number {row % 30}" for row in range(120)]
    queries[40] = queries[40].upper()
    rows = [{"query": query, "passage": f"the answer {row // 5} is long"} for row, query in enumerate(queries)]
    pd.DataFrame(rows).to_csv(project / "pairs.csv", index=False)
    assert "group from query" in initialized()
    params = rules.check()
    data.main(params, "pairs")
    assert refusal(params, "pairs") is None
    assert "same_query_as" not in caplog.text
    splits = {split: RETRIEVAL.load("data/pairs", split, threads=1) for split in ("train", "val", "test")}
    queries = [query for split in splits.values() for query in set(map(str.lower, split.truth.texts))]
    assert len(queries) == len(set(queries)) == 30
    assert sum(map(len, splits.values())) == len({*map(str, rows)})
    assert {*splits["test"].inputs.items} & {*splits["train"].inputs.items}
    table = RETRIEVAL.predict(load_model(folder_of("retrieval of text")).eval(), splits["test"])
    assert set(table["searched"].to_pylist()) == {24}
    known = known_rows(Path("data/pairs"))["train"]
    assert not learned(Path("data/pairs/test.parquet"), [known], share=0.5).any()
    again = pd.read_parquet("data/pairs/train.parquet")[["text", "captions"]]
    again["captions"] = again["captions"].map(lambda captions: [caption.upper() for caption in captions])
    again.to_parquet("again.parquet")
    assert learned(Path("again.parquet"), [known], share=0.5).all()


def test_the_seed_is_chosen_for_the_queries_in_the_form_by_which_they_are_split(project):
    """Of four queries, few seeds leave no split empty; one of them is longer than a name."""
    queries = [f"What IS number {row % 4} of {'all ' * 300 * (row % 4 == 3)}" for row in range(16)]
    queries[3] = queries[3].upper()
    passages = [f"the answer {row} is long" for row in range(16)]
    pd.DataFrame({"query": queries, "passage": passages}).to_csv(project / "pairs.csv", index=False)
    initialized()
    data.main(rules.check(), "pairs")
    groups = [set(pd.read_parquet(f"data/pairs/{split}.parquet")["group"]) for split in ("train", "val", "test")]
    assert all(groups)
    assert sum(map(len, groups)) == len(set[str]().union(*groups)) == 4


def test_other_rows_of_a_batch_with_the_same_query_or_passage_are_right(generator):
    made_with, network = phase_of("finetune", pairs_of(["red", "blue", "Red", "old"], ["a b", "a b", "c", "d"]))
    phase = made_with(objective_of("info_nce"))
    inputs, (alike, exist, _) = phase.batch(torch.tensor([0, 1, 2, 3]), generator)
    _, right = phase.compare(*phase.outputs(network, *inputs), alike, exist, length=4)
    assert right[0].int().tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]


def test_queries_in_several_splits_are_reported(project, caplog):
    initialized()
    values = YAML(typ="safe").load(Path("params.yaml"))
    args = values["datasets"]["pairs"]["args"]
    assert (args.pop("group"), args.pop("split")["hash_of"]) == ("query", "query")
    YAML().dump(values, Path("params.yaml"))
    params = rules.check()
    data.main(params, "pairs")
    assert refusal(params, "pairs") is None
    assert "same_query_as" in caplog.text
