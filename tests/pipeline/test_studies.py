"""Studies of many small networks: what their losses ask for, orders that they learn, and tables of their data."""

import hashlib
from dataclasses import replace
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.io import savemat
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.nn.functional import pad

from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies import (
    across_batches,
    aslib,
    compared,
    cranfield,
    cranfield_texts,
    graded_search,
    human_orders,
    label_ranking_sets,
    when_ranks_win,
)
from studies.converters import aslib as scenarios
from studies.converters import votes
from studies.reranking import NO_DOCUMENT
from studies.vectorized import first_label

RUN_TIMES = torch.tensor([[[0.5, 10.0, 0.1, 10.0, 3.0], [2.0, 0.02, 10.0, 0.7, 0.1]]])  # 10: not solved
VOTES = torch.tensor([[[3.0, 0.0, 1.0, 1.0], [5.0, 2.0, 0.0, 0.0]]])
GRADES = torch.tensor([[[0.0, 1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]]])
PADDED = torch.tensor([[[3.0, 1.0, 0.0, 2.0, 0.0], [1.0, 0.0, 2.0, -1.0, -1.0]]])  # -1: no document
ORDERS = torch.tensor([[[3, 1, 2, 4], [1, 2, 4, 3]]])
# Methods by study, with the truth that a method gets, and the scores that a perfect network gives.
LOSSES = {
    "aslib": (aslib.METHODS, RUN_TIMES, aslib.speeds(RUN_TIMES)),
    "human_orders": (human_orders.METHODS, human_orders.ranks_of(VOTES), human_orders.ranks_of(VOTES).float()),
    "cranfield": (cranfield.METHODS, GRADES, GRADES),
    "graded_search": (graded_search.METHODS, PADDED, PADDED),
    "label_ranking_sets": (label_ranking_sets.METHODS, ORDERS, ORDERS.float()),
    "values": (when_ranks_win.ON_VALUES, ORDERS.float(), ORDERS.float()),
    "labels": (when_ranks_win.ON_LABELS, GRADES, GRADES),
}
EVERY_METHOD = [(study, method) for study, (methods, _, _) in LOSSES.items() for method in methods]


@pytest.mark.parametrize(("study", "method"), EVERY_METHOD)
def test_a_loss_of_each_list_is_lower_in_the_order_of_the_truth_than_in_reverse(study, method):
    methods, truth, perfect = LOSSES[study]
    truth = VOTES if method == human_orders.KL else truth
    unsure = torch.zeros(perfect.shape if method == "gaussian_mlr" else 0)  # its networks also predict variances

    def loss(scores: Tensor) -> Tensor:
        return methods[method](torch.cat([scores, unsure], -1) if len(unsure) else scores, truth)

    assert loss(perfect).shape == truth.shape[:-1]
    assert (loss(perfect) < loss(-perfect)).all()


def test_ties_share_ranks_and_what_nobody_chose_or_solved_is_last():
    ranks = human_orders.ranks_of(torch.tensor([[0.0, 0.133333, 0.7, 0.1333334, 0.0333]]))
    assert ranks.tolist() == [[0, 2, 3, 2, 1]]
    assert human_orders.average_ranks(ranks).tolist() == [[-5.0, -2.5, -1.0, -2.5, -4.0]]
    assert aslib.label_ranks(RUN_TIMES)[0].tolist() == [[2, 0, 3, 0, 1], [1, 4, 0, 2, 3]]


def test_losses_of_several_best_labels_share_the_target():
    scores, ranks = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[2, 2, 1]])
    expected = [pytest.approx(-scores.log_softmax(-1)[0, :2].mean().item())]
    assert first_label(scores, ranks).tolist() == expected
    assert aslib.METHODS["cross-entropy, fastest"](scores, torch.tensor([[0.1, 0.1, 10.0]])).tolist() == expected
    assert human_orders.kl(VOTES.clamp(min=1e-30).log(), VOTES).tolist() == [[pytest.approx(0, abs=1e-6)] * 2]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Write a table of a study, whose settings are few: two rates are too low, and one step is too early."""

    def write(study: ModuleType, table: pd.DataFrame, **settings: object) -> None:
        table.to_parquet(tmp_path / "planted.parquet")
        names = {"TABLES": tmp_path, "TABLE": tmp_path / "planted.parquet"}
        for name, value in {**names, "RATES": (1e-6, 1e-5, 0.03), "STEPS": (1, 100), **settings}.items():
            monkeypatch.setattr(study, name, value, raising=name not in names)

    monkeypatch.chdir(tmp_path)
    caches = (
        across_batches.read,
        across_batches.inputs,
        aslib.read,
        human_orders.read,
        human_orders.inputs,
        cranfield.read,
        cranfield_texts.pairs,
        graded_search.read,
    )
    for cached in caches:
        cached.cache_clear()
    return write


def of_run(rows: list[Row]) -> dict[str, float]:
    return {row.metric: row.value for row in rows if row.seed is None and row.fold is None}


def frame(**columns: np.ndarray) -> pd.DataFrame:
    """Return a table with columns `<name>_<number>` of matrices."""
    frames = [pd.DataFrame(values).add_prefix(f"{name}_") for name, values in columns.items()]
    return pd.concat(frames, axis=1)


@pytest.mark.parametrize("method", ["ranknet", "random forest"])
def test_the_fastest_algorithm_is_found_that_features_decide(method, planted, monkeypatch):
    features = np.random.default_rng(1).normal(size=(200, 4))
    seconds = 10 ** (1.5 + 2 * features[:, :3])
    table = frame(x=features, seconds=np.where(seconds < 100, seconds, np.nan))
    planted(aslib, table.assign(fold=np.arange(200) % 10 + 1, cutoff=100.0), SEEDS=2, TREES=20, BASELINE=method)
    values = of_run(aslib.rows("planted", method))
    assert values["gap"] > 0.8
    assert values["tau"] > 0.6
    assert aslib.shape("planted").items() >= {"algorithms": 3, "cutoff": 100.0}.items()


def test_an_order_of_labels_is_learned_that_features_decide(planted):
    features = np.random.default_rng(1).normal(size=(120, 6))
    votes_ = np.floor(4 * np.exp(features[:, :4] - features[:, :4].mean(1, keepdims=True)))
    planted(human_orders, frame(x=features, votes=votes_), SPLITS=2, SEEDS=2, CHOOSE_BY=1)
    rows = human_orders.rows("planted", "gaussian_mlr")
    accuracy = [row.value for row in rows if row.metric == "accuracy"]
    assert len(accuracy) == 4  # two splits and two seeds
    assert min(accuracy) > 0.8
    assert {row.value for row in rows if row.metric == "setting.rate"} == {0.03}


def test_relevance_is_learned_that_a_feature_decides(planted):
    questions, depth = 60, 10
    features = np.random.default_rng(1).normal(size=(questions * depth, 3))
    relevance = (features[:, 0].reshape(questions, depth).argsort(1).argsort(1) > 7).ravel().astype(int)
    relevance[:depth] = 0  # a question without a relevant abstract
    table = pd.DataFrame(features, columns=["x_bm25", "x_b", "x_c"]).assign(relevance=relevance)
    planted(cranfield, table.assign(qid=np.arange(questions).repeat(depth)), LEARNED="lambdarank")
    cranfield.rows("bm25")
    rows = cranfield.rows("lambdarank")
    values = of_run(rows)
    assert min(values[name] for name in cranfield.NAMES) > 0.9
    assert {row.value for row in rows if row.metric == "setting.rate"} == {0.03}
    assert values["mean_average_precision minus bm25"] < 0  # the feature itself makes no mistake
    assert of_run(cranfield.shape())["questions"] == questions - 1


@pytest.mark.parametrize("method", graded_search.METHODS)
def test_places_without_a_document_change_no_loss(method):
    scores, grades = torch.randn(1, 3, 6, generator=generator(1)), torch.tensor([[[3.0, 1.0, 0.0, 2.0, 0.0, 4.0]] * 3])
    expected = graded_search.METHODS[method](scores, grades)
    longer = graded_search.METHODS[method](pad(scores, (0, 2), value=9.0), pad(grades, (0, 2), value=NO_DOCUMENT))
    torch.testing.assert_close(longer, expected)


@pytest.mark.parametrize("method", ["average_precision", "average_precision-lists", "cross-entropy"])
def test_batches_of_few_positives_teach_what_a_feature_decides(method, planted):
    features = np.random.default_rng(1).normal(size=(1000, 3))
    positive = features[:, 1].reshape(20, 50).argsort(1).argsort(1) > 46
    table = pd.DataFrame({"query": np.arange(1000) // 50, "relevance": positive.ravel().astype(int)})
    settings = {"POSITIVES": {"all": (9,), "lists": (2,)}, "SEEDS": 2, "LISTS": 4, "LENGTH": 10}
    settings |= {"BASELINES": dict.fromkeys(("all", "lists"), method), "WITHOUT_MEMORY": {}}
    planted(across_batches, table.assign(features=[*features]), **settings)
    rows = across_batches.rows(method, across_batches.METHODS[method])
    assert {row.value for row in rows if row.metric == "setting.rate"} == {0.03}
    assert of_run(rows)["within_queries"] > 0.9


def test_a_batch_has_as_many_positives_as_it_should_and_precisions_are_those_of_a_package(planted):
    draws = np.random.default_rng(1)
    labels = draws.integers(0, 2, 200)
    table = pd.DataFrame({"query": np.arange(200) % 4, "relevance": labels, "features": [*draws.normal(size=(200, 2))]})
    planted(across_batches, table, LISTS=3, LENGTH=8)
    for kind, shape in {"all": (1, 24), "lists": (3, 8)}.items():
        rows = next(across_batches.batches((0, 2), kind, 2, generator(1)))
        assert rows.shape == shape
        assert (rows % 4 % 2 == 0).all()  # of the queries 0 and 2
        assert kind == "all" or (rows % 4 == rows[:, :1] % 4).all()
        assert (torch.tensor(labels)[rows] == (torch.arange(shape[1]) < 2)).all()
    scores = torch.randn(200, generator=generator(2))
    precisions = across_batches.precisions(scores, torch.tensor(labels).float())
    expected = average_precision_score(labels, scores.numpy())
    assert precisions.sum().item() / labels.sum() == pytest.approx(expected, abs=1e-6)
    values = across_batches.measured(scores, (0, 1, 2, 3)).numpy()
    within = [average_precision_score(labels[query::4], scores.numpy()[query::4]) for query in range(4)]
    assert across_batches.summary(values, np.arange(4)) == pytest.approx([expected, np.mean(within)], abs=1e-6)


def test_places_without_a_document_change_no_input_and_no_metric(planted):
    grades = np.random.default_rng(1).integers(0, 5, 300)
    features = np.random.default_rng(2).normal(size=(300, 3)) + grades[:, None]
    planted(graded_search, pd.DataFrame({"query": np.arange(300) % 40, "relevance": grades, "features": [*features]}))
    lists, every = graded_search.reranking(), torch.arange(40)
    longer = replace(
        lists, features=pad(lists.features, (0, 0, 0, 2)), relevance=pad(lists.relevance, (0, 2), value=NO_DOCUMENT)
    )  # fmt: skip
    torch.testing.assert_close(longer.inputs(every)[:, :-2], lists.inputs(every))
    scores = torch.randn(lists.relevance.shape, generator=generator(1))
    values = lists.metric(scores, lists.relevance)
    torch.testing.assert_close(longer.metric(pad(scores, (0, 2), value=9.0), longer.relevance), values)
    assert of_run(graded_search.rows("mse"))["ndcg_at_10"] > 0.9


def test_a_network_that_reads_words_learns_what_a_word_decides(planted, monkeypatch):
    relevance = np.random.default_rng(1).integers(0, 2, 400)
    relevance[::10] = 1
    passages = [f"the flow is {'smooth' if relevant else 'turbulent'}" for relevant in relevance]
    table = pd.DataFrame({"qid": np.arange(40).repeat(10), "query": "smooth flow", "passage": passages})
    planted(cranfield, table.assign(relevance=relevance, x_bm25=0.0))
    trained, _, _ = cranfield_texts.FORMS["knrm"]
    monkeypatch.setitem(cranfield_texts.FORMS, "knrm", (trained, (0.03,), (1, 30)))
    monkeypatch.setattr(cranfield_texts, "SEEDS", 1)
    cranfield_texts.rows("bm25")
    values = of_run(cranfield_texts.rows("knrm, mse"))
    assert values["mean_average_precision"] > 0.95
    assert values["mean_average_precision minus bm25"] > 0


def test_differences_are_paired_by_example_and_a_method_without_chance_counts_for_each_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(1)
    rule = draws.normal(size=(1, 1, 50))
    of_rule = compared.compared("planted", "rule", ["hit"], rule, baselines=["rule"])
    assert {row.metric for row in of_rule} == {"hit"}  # it is not compared with itself
    better = rule + 0.1 + 0.001 * draws.normal(size=(3, 1, 50))
    rows = {row.metric: row for row in compared.compared("planted", "net", ["hit"], better, baselines=["rule"])}
    gain = rows["hit minus rule"]
    assert gain.low < 0.1 < gain.high < gain.low + 0.01
    assert rows["p of hit minus rule"].value < 0.001
    again = of_run(compared.compared("planted", "again", ["hit"], rule, baselines=["net"]))
    assert again["hit minus net"] == pytest.approx(-gain.value)
    with pytest.raises(FileNotFoundError, match=r"predictions/planted/none\.npy"):
        compared.stored("planted", "none")


class TestScenario:
    def make(self, folder, cutoff="algorithm_cutoff_time: 60"):
        """Two algorithms and three instances: one run ends too late, one breaks, one instance has no feature."""
        runs = "'a,1',1,quick,0.5,ok\n'a,1',1,slow,70,ok\nb,1,quick,3,memout\nb,1,slow,30,ok\nc,1,quick,?,crash\n"
        runs += "c,1,slow,60,timeout\n"
        head = "@relation r\n% a\n@attribute instance_id string\n@ATTRIBUTE repetition NUMERIC\n@attribute {}\n@data\n"
        texts = {
            "description.txt": f"{cutoff}\nperformance_measures:\n- runtime\n",
            "algorithm_runs.arff": head.format(
                "algorithm string\n@attribute runtime numeric\n@attribute runstatus {ok, timeout}"
            )
            + runs,
            "feature_values.arff": head.format("'n vars' numeric") + "'a,1',1,7\nb,1,?\nc,1,2\n",
            "cv.arff": head.format("fold numeric") + "'a,1',1,1\nb,1,2\nc,1,2\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)

    def test_a_run_counts_if_it_ends_well_within_the_cutoff(self, tmp_path):
        self.make(tmp_path)
        table = scenarios.table_of(tmp_path)
        assert [*table.columns] == ["instance", "fold", "cutoff", "x_n vars", "seconds_quick", "seconds_slow"]
        assert table["instance"].tolist() == ["a,1", "b", "c"]
        expected = [[1, 60, 7, 0.5, np.nan], [2, 60, np.nan, np.nan, 30], [2, 60, 2, np.nan, np.nan]]
        np.testing.assert_array_equal(table.iloc[:, 1:].to_numpy(dtype=float), expected)

    def test_a_scenario_without_a_cutoff_a_repetition_and_a_broken_line_are_refused(self, tmp_path):
        for changes, line, message in (
            ({"cutoff": ""}, "", r"description\.txt.*cutoff"),
            ({}, "b,2,1\n", r"cv\.arff.*twice"),
            ({}, "b,2\n", r"cv\.arff: line 10 has 2 cells, expected 3"),
        ):
            self.make(tmp_path, **changes)
            with (tmp_path / "cv.arff").open("a") as folds:
                folds.write(line)
            with pytest.raises(ValueError, match=message):
                scenarios.table_of(tmp_path)


def test_a_file_of_votes_becomes_features_and_votes_and_another_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(votes, "TABLES", tmp_path / "tables")
    path = tmp_path / "Movie.mat"
    savemat(path, {"features": np.eye(3), "labels": np.full((3, 5), 0.2)})
    with pytest.raises(ValueError, match=r"Movie\.mat.* expected 5c86"):
        votes.table_of(path, votes.SETS["Movie"])
    movie = replace(votes.SETS["Movie"], sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr(votes, "SETS", {"Movie": movie})
    votes.main(str(tmp_path))
    table = pd.read_parquet(tmp_path / "tables/Movie.parquet")
    assert [*table.columns] == ["x_1", "x_2", "x_3", *(f"votes_{label}" for label in movie.labels)]
    assert table["x_2"].tolist() == [0, 1, 0]
    assert table["votes_5_stars"].tolist() == [0.2] * 3
