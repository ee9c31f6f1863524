"""Preferences, and texts that are read or searched together with their query: tables, models of them, answers."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from laws.tables import made as read
from starlette.testclient import TestClient

from pipelines.reporting import plots
from pipelines.serving import server
from rankgrad.cli import predict
from rankgrad.cli.answers import Gallery
from rankgrad.datasets.files.splits import Captions, Split
from rankgrad.datasets.table import Table
from rankgrad.datasets.tables import rows
from rankgrad.datasets.tables.rows import Roles
from rankgrad.inputs.features import of_tensor
from rankgrad.inputs.text import Text, of_strings
from rankgrad.inputs.text_pair import TextPair
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.plain_text import PAIR
from rankgrad.tasks.query_ranking import QueryRanking
from rankgrad.tasks.retrieval import Retrieval

from conftest import task_of  # isort: skip
from rows import folder_of  # isort: skip

ROWS = 60
BAG = {"name": "linear", "args": {}, "backbone": {"name": "bag_of_words", "args": {"size": 6}}}
SPLIT = {"split": "part"}
WIDE = {"file": "wide.jsonl", "text_pair": ["prompt", "chosen"], "rejected": "rejected"} | SPLIT
LONG = {"file": "long.csv", "text_pair": ["prompt", "answer"], "relevance": "preferred", "group": "pair"} | SPLIT


@pytest.fixture
def raw(tmp_path):
    """Sixty preferences of answers to twenty prompts: wide, and with a row for each answer."""
    wide, long = [], []
    for number in range(ROWS):
        prompt, chosen, rejected = f"what is {number % 20} like", f"it is good {number}", f"bad, {number} times"
        part = ["train", "val", "test", "gate"][number % 20 // 5]
        wide.append({"prompt": prompt, "chosen": chosen, "rejected": rejected, "margin": number % 3, "part": part})
        for answer, preferred in ((chosen, 1), (rejected, 0)):
            long.append({"prompt": prompt, "pair": number, "answer": answer, "preferred": preferred, "part": part})
    pd.DataFrame(wide).to_json(tmp_path / "wide.jsonl", orient="records", lines=True)
    pd.DataFrame(long).to_csv(tmp_path / "long.csv", index=False)
    return tmp_path


def rows_of(splits: dict[str, pa.Table]) -> dict[str, list]:
    """Return the documents and the relevance of each query, by its documents."""
    table = pa.concat_tables([split.select(["text_pair", "relevance"]) for split in splits.values()])
    return {json.dumps(row["text_pair"]): row["relevance"] for row in table.to_pylist()}


def test_a_wide_row_and_a_row_for_each_answer_are_the_same_query(raw):
    wide, _, _ = read(WIDE, raw)
    long, _, _ = read(LONG, raw)
    assert rows_of(wide) == rows_of(long)
    assert len(rows_of(wide)) == ROWS


def test_answers_to_one_prompt_stay_in_one_split_and_a_margin_is_the_grade(raw):
    for options in (LONG | {"split": {"hash_of": "prompt", "val": 0.3, "test": 0.3}}, WIDE | {"margin": "margin"}):
        splits, _, _ = read(options, raw)
        prompts = {name: {*split["group"].to_pylist()} for name, split in splits.items()}
        assert sum(map(len, prompts.values())) == len(set().union(*prompts.values())) == 20
    grades = {tuple(row["relevance"]) for split in splits.values() for row in split.to_pylist()}
    assert grades == {(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rejected": "it is good 3"}, r"row 4: chosen and rejected are equal: 'it is good 3'; remove such rows"),
        ({"rejected": ""}, "row 4: rejected is empty"),
        ({"margin": -1}, "row 4: margin is -1, expected a margin of at least 0"),
        ({"margin": 61}, "row 4: margin is 61, expected a margin of at most 60"),
        ({"prompt": "what is 7 like", "part": "test"}, "group what is 7 like has the split"),
    ],
)
def test_a_row_of_which_nothing_can_be_learned_is_named(raw, change, message):
    rows = [json.loads(line) for line in (raw / "wide.jsonl").read_text().splitlines()]
    rows[3] |= change
    (raw / "wide.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=message):
        read(WIDE | {"margin": "margin"}, raw)


def test_ties_only_are_refused_in_training_and_in_a_file_read_to_its_end(raw):
    frame = pd.read_json(raw / "wide.jsonl", lines=True)
    frame.loc[frame["part"] == "train", "margin"] = 0
    frame.to_json(raw / "wide.jsonl", orient="records", lines=True)
    Table(**WIDE | {"margin": "margin"}).check_head(raw)
    with pytest.raises(ValueError, match="margin is 0 in all"):
        read(WIDE | {"margin": "margin"}, raw)
    frame.assign(margin=0).to_json(raw / "wide.jsonl", orient="records", lines=True)
    with pytest.raises(ValueError, match="margin is 0 in all"):
        Table(**WIDE | {"margin": "margin"}).check_head(raw)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_pair": ["prompt"]}, "expected the names of 2 columns"),
        ({"rejected": "chosen"}, "rejected: chosen is a column of text_pair too"),
        ({"text_pair": None, "features": "f_*"}, r"rejected: .*f_\*"),
        ({"rejected": None, "margin": "margin", "relevance": "margin", "group": "prompt"}, "margin: expected with"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Table(**WIDE | options)


def test_vectors_may_be_preferred_and_equal_rows_are_in_one_split(tmp_path):
    rows = [{"win": [number % 7, 0.5], "lose": [0.25, number % 5]} for number in range(ROWS)]
    pd.DataFrame(rows).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    options = {"file": "a.jsonl", "features": "win", "rejected": "lose"}
    splits, _, _ = read(options, tmp_path)
    homes = {}
    for name, split in splits.items():
        for row in split.to_pylist():
            assert np.shape(row["features"]) == (2, 2)
            assert homes.setdefault(json.dumps(row["features"]), name) == name


def test_an_answer_has_its_prompt_and_several_answers_to_a_prompt_have_a_row_each(raw):
    recipe = {"task": "query_ranking", "input": {"kind": "text_pair"} | Table(**WIDE, group="prompt").reading}
    row = next(rows.read([raw / "wide.jsonl"], recipe, Roles()))
    assert row.group == {"prompt": "what is 0 like"}
    for answers, documents in ((["x", "y", "z"], [1, 2, 3]), ("x", None)):
        (raw / "best.jsonl").write_text(json.dumps({"prompt": "a b", "chosen": answers}))
        [row] = rows.read([raw / "best.jsonl"], recipe, Roles())
        assert (row.documents and [*row.documents]) == documents


def finished(scores, relevance, monkeypatch, weight=None) -> SimpleNamespace:
    """Return a network of preferences, which gives these scores, after its training."""
    network = SimpleNamespace(recipe={"input": {"rejected": "loser"}}, eval=lambda: None)
    monkeypatch.setattr(QueryRanking, "scores", lambda *_: scores)
    pairs = torch.full((len(scores) // 2,), 2)
    QueryRanking().finish(network, Split(of_strings(["a"] * len(scores)), relevance, pairs, weight=weight))
    return network


def test_probabilities_of_preferences_are_as_sure_as_validation_was_right(monkeypatch):
    draws = np.random.default_rng(0)
    margins = draws.normal(0, 1, 4000)
    chosen = draws.random(4000) < 1 / (1 + np.exp(-margins))
    relevance = torch.tensor(np.stack([chosen, ~chosen], 1).flatten(), dtype=torch.float32)
    for stretched in (1.0, 5.0):  # a network that is five times too sure
        scores = torch.tensor(np.stack([stretched * margins, np.zeros(4000)], 1).flatten())
        network = finished(scores, relevance, monkeypatch)
        assert network.recipe["preference_scale"] == pytest.approx(1 / stretched, rel=0.1)
        scaled = scores * network.recipe["preference_scale"]
        monkeypatch.setattr(QueryRanking, "scores", lambda *_, scores=scaled: scores)
        pair = QueryRanking().answers(network, None, torch.full((4000,), 2))[0]
        margin = margins[0] * stretched * network.recipe["preference_scale"]
        assert pair["first_is_preferred"] == pytest.approx(1 / (1 + np.exp(-margin)), abs=1e-6)


@pytest.mark.parametrize("captions", [False, True])
def test_the_nearest_rows_are_found_by_every_door(tmp_path, captions):
    folder = folder_of("retrieval of text")
    texts, keys = ["a large three", "two red above", "small large", "above two"], np.array([*"abac"])
    table = {"text": texts, "caption": texts[::-1], "key": keys}
    pd.DataFrame(table).to_csv(tmp_path / "both.csv", index=False)
    queries = ["red two", "large"]
    pd.DataFrame({"caption": queries}).to_csv(tmp_path / "queries.csv", index=False)
    task, network = Retrieval(), load_model(folder).eval()
    embeddings = task.embed_captions(network, table["caption"]).numpy()
    if not captions:
        embeddings = np.array(
            [answer["embedding"] for answer in task.respond(network, [{"text": text} for text in texts])]
        )
    expected = []
    for scores in task.embed_captions(network, queries).numpy() @ embeddings.T:
        by_key = pd.Series(scores, keys).groupby(level=0).max()  # a key of two rows is found once, by the nearer one
        expected.append(by_key.sort_values(ascending=False))

    options = ["--among", tmp_path / "both.csv", "--among-id", "key", *["--captions"] * captions]
    for k, words in ((3, []), (2, ["--k", 2])):
        out = ["-o", tmp_path / "found.jsonl"]
        with pytest.raises(SystemExit, match="0"):
            predict.main([*map(str, [folder, tmp_path / "queries.csv", *options, *words, *out])])
        found, nearest = pd.read_json(tmp_path / "found.jsonl", lines=True), pd.concat([keys[:k] for keys in expected])
        assert found["found"].tolist() == [*nearest.index]
        assert found["place"].tolist() == [*range(1, k + 1)] * 2
        assert found["score"].tolist() == pytest.approx(nearest.tolist())
    client = TestClient(server.app_of(folder, among=tmp_path / "both.csv", searched=Roles(id="key", captions=captions)))
    sent = {"dataframe_records": [{"caption": "red two", "id": "q"}, {"caption": "large"}]}
    for k in (1, 9):
        predictions = client.post("/invocations", json=sent | {"k": k}).json()["predictions"]
        found = [[row["found"] for row in answer["found"]] for answer in predictions]
        assert found == [[*nearest.index[:k]] for nearest in expected]
        assert (predictions[0]["id"], "embedding" in predictions[0]) == ("q", False)


def test_a_search_that_cannot_be_is_refused(tmp_path):
    folder, table = folder_of("retrieval of text"), tmp_path / "captions.csv"
    table.write_text("caption\nred two\n")
    with pytest.raises(ValueError, match="no column"):
        Gallery(folder, table)
    for option in ({"searched": Roles(id="key")}, {"k": 1}, {"among": table, "k": 0}):
        with pytest.raises(ValueError, match="--k"):
            predict.run(folder, [table], **option)
    searching = server.app_of(folder, among=table, searched=Roles(captions=True))
    for k, app in ((0, searching), (True, searching), ("3", searching), (3, server.app_of(folder))):
        refused = TestClient(app).post("/invocations", json={"dataframe_records": [{"caption": "red two"}], "k": k})
        assert (refused.status_code, refused.json()["message"][:2]) == (400, "k ")


def test_one_encoder_may_read_passages_and_queries(tmp_path):
    queries = Captions(["large three", "red", "two"], torch.tensor([1, 2]), torch.arange(2), torch.zeros(2).long())
    task = task_of("retrieval", {"shared": True})
    save_model(tmp_path, task.build(BAG, Split(of_strings(["a large three", "two red"]), queries), seed=0))
    network = load_model(tmp_path).eval()
    [answer] = task.respond(network, [{"text": "two red"}])
    assert answer["embedding"] == pytest.approx(task.embed_captions(network, ["two red"])[0].tolist(), abs=1e-6)
    with pytest.raises(ValueError, match="shared: items are features, expected text"):
        task.build(
            BAG | {"backbone": {"name": "perceptron", "args": {}}}, Split(of_tensor(torch.eye(2)), queries), seed=0
        )


def test_a_server_finds_what_is_added_to_its_table(tmp_path):
    table = tmp_path / "passages.csv"
    pd.DataFrame({"text": ["a large three"], "id": ["old"]}).to_csv(table, index=False)
    served = server.Served(str(folder_of("retrieval of text")), among=table)
    sent = {"dataframe_records": [{"caption": "red two"}]}

    def found() -> set[str]:
        [answer] = TestClient(served).post("/invocations", json=sent).json()["predictions"]
        return {row["found"] for row in answer["found"]}

    assert found() == {"old"}
    table.write_text(table.read_text() + "two red above,new\n")
    served.look()
    assert found() == {"old", "new"}
    table.write_text("")  # half written: the last whole one is searched
    served.look()
    assert found() == {"old", "new"}


def test_a_separator_within_plain_text_makes_no_pair():
    assert PAIR not in Text.runtime(of_strings([f"red{PAIR}two", "large"]))["words"]
    assert PAIR in TextPair.runtime(of_strings([f"red{PAIR}two"]))["words"]


def test_a_gallery_leaves_out_what_it_cannot_read_and_says_so(tmp_path, caplog):
    folder = folder_of("retrieval of text")
    pd.DataFrame({"caption": ["red two", "unbekannt", "large"]}).to_csv(tmp_path / "captions.csv", index=False)
    assert Gallery(folder, tmp_path / "captions.csv", Roles(captions=True)).ids == ["red two", "large"]
    assert "1 rows cannot be searched" in caplog.text
    pd.DataFrame({"caption": ["unbekannt"]}).to_csv(tmp_path / "captions.csv", index=False)
    with pytest.raises(ValueError, match="no rows: .*caption"):
        Gallery(folder, tmp_path / "captions.csv", Roles(captions=True))


def test_the_scale_of_probabilities_follows_the_weights_of_pairs(monkeypatch):
    scores = torch.tensor([2.0, 0, 2, 0, 0, 2]).double()  # two right pairs, and one wrong one
    scales = []
    for of_wrong in (0.1, 1.0):
        weight = torch.tensor([1.0, 1.0, of_wrong])
        network = finished(scores, torch.tensor([1.0, 0] * 3), monkeypatch, weight)
        scales.append(network.recipe["preference_scale"])
    assert scales[0] > 1.5 * scales[1]


def test_of_several_answers_each_has_the_probability_that_it_is_the_best(monkeypatch):
    network = SimpleNamespace(recipe={"input": {"rejected": "loser"}})
    scores = torch.tensor([1.0, 0.0, -1.0, 2.0, 2.0])
    monkeypatch.setattr(QueryRanking, "scores", lambda *_: scores)
    several, pair = QueryRanking().answers(network, None, torch.tensor([3, 2]))
    odds = np.exp([1.0, 0.0, -1.0])
    assert several["preferred"] == pytest.approx(odds / odds.sum())
    assert (pair["first_is_preferred"], "preferred" in pair) == (0.5, False)


def test_probabilities_are_carried_over_to_scores_on_another_scale(monkeypatch):
    chosen, refitted = (SimpleNamespace(recipe={}, factor=factor) for factor in (1.0, 4.0))
    chosen.recipe["preference_scale"] = 0.5
    scores = torch.randn(40, generator=torch.Generator().manual_seed(0)).double()

    def scored(_, network, *__):
        return scores * network.factor * network.recipe.get("preference_scale", 1.0)

    for network in (chosen, refitted):
        network.eval = lambda network=network: network
    monkeypatch.setattr(QueryRanking, "scores", scored)
    pairs = Split(of_strings(["a"] * 40), torch.tensor([1.0, 0.0] * 20), torch.full((20,), 2))
    QueryRanking().carry_over(refitted, chosen, pairs)
    assert refitted.recipe["preference_scale"] == pytest.approx(0.5 / 4)


@pytest.mark.parametrize("pairs", [1, 21, 31, 120])
def test_reliability_is_drawn_if_all_pairs_are_right(tmp_path, pairs):
    plots.reliability(tmp_path / "a.png", np.linspace(1, 2, pairs), np.ones(pairs))
    assert (tmp_path / "a.png").stat().st_size > 0


def test_the_report_draws_preferences_by_their_weights(tmp_path, monkeypatch):
    table = pa.table({"scores": [[2.0, 0.0], [0.0, 0.0], [0.0, 1.0]], "relevance": [[1.0, 0], [0, 0], [1.0, 0]]})
    table = table.append_column("weight", pa.array([1.0, 5.0, 9.0]))
    examples = SimpleNamespace(of_preferences=True, has=lambda name: True, predicted=lambda *names: table.select(names))
    drawn = []
    monkeypatch.setattr(plots, "reliability", lambda _, leads, weight: drawn.append((leads.tolist(), weight.tolist())))
    assert QueryRanking().draw(plots, tmp_path / "a.png", examples)
    assert drawn == [([2.0, -1.0], [1.0, 9.0])]  # without the tie
    statistic = QueryRanking().statistic(table)
    log_loss = statistic.of_all()[statistic.names.index("log_loss")]
    chosen = 1 / (1 + np.exp(-np.array([2.0, -1.0])))
    assert log_loss == pytest.approx(-np.average(np.log(chosen), weights=[1, 9]))


def test_log_loss_chooses_epochs_by_how_sure_scores_are():
    """Of two epochs that order as many pairs right, the one whose wrong pairs are close is better."""
    from accelerate import Accelerator  # heavy

    options = {"epochs": 2, "batch_size": 4, "monitor": "log_loss"}
    task = task_of("query_ranking", {"ranker": options})
    val = Split(of_strings(["a", "b"] * 3), torch.tensor([1.0, 0] * 3), torch.full((3,), 2))
    network = task.build(BAG, val, seed=0)
    [phase] = task.phases(network, val, val, None, started=False, accelerator=Accelerator(cpu=True))
    losses = []
    for leads in ([3.0, 3, -1], [3.0, 3, -9], [30.0, 30, -10]):
        scores = torch.tensor([[lead, 0.0] for lead in leads]).flatten()
        phase.module.forward = lambda *_, scores=scores: scores.unsqueeze(1)
        values = phase.validate(phase.module)
        assert values["pair_accuracy"] == pytest.approx(2 / 3)
        losses.append(values["log_loss"])
    assert losses[0] < 0.6 < losses[1] < 0.7
    assert losses[2] == pytest.approx(losses[0], rel=1e-3)  # the scale of scores is free
    assert phase.lower_is_better
    triples = Split(of_strings(["a", "b", "c"]), torch.tensor([1.0, 0, 0]), torch.full((1,), 3))
    with pytest.raises(ValueError, match="log_loss"):
        [*task.phases(network, val, triples, None, started=False, accelerator=Accelerator(cpu=True))]
