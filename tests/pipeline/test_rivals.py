"""Simple rivals: each on all that it takes, what it finds, and how it is compared with runs that have seeds."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from contracts.test_inputs_tasks import written
from scipy.stats import spearmanr

from pipelines.config.schema import Comparison, Resampling
from pipelines.rivals import BM25, RIVALS
from pipelines.stages.compare import against_rivals, compared, statistics_of
from pipelines.stages.rivals import _predicted
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs
from rankgrad.inputs.features import of_tensor
from rankgrad.io.results import Row, minus
from rankgrad.vocabulary import PAIR

TAKEN = [(name, *pair) for name, rival in RIVALS.items() for pair in sorted(rival.takes)]


@pytest.mark.parametrize(("name", "task", "kind"), TAKEN)
def test_a_rival_is_judged_as_a_network_is(name, task, kind, tmp_path):
    written(task, kind, tmp_path)
    made = lookup.find("tasks", task)()
    train, val = (made.load(tmp_path, split, threads=1) for split in ("train", "val"))
    table = _predicted(made, name, {"train": train, "val": val, "test": val}, made.metrics[0].name)
    assert np.isfinite(made.statistic(table).of_all()[0])


def test_trees_find_what_a_linear_model_cannot_and_ranks_of_a_skewed_target_are_enough():
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(600, 3)))
    product = (3 * features[:, 0] * features[:, 1]).exp()
    additive = (5 * features[:, 0] + features[:, 2]).exp()
    found = {}
    for truth_name, truth in (("product", product), ("additive", additive)):
        train, test = (Split(of_tensor(features[rows]), truth[rows]) for rows in (slice(400), slice(400, None)))
        for name in ("linear", "boosting"):
            scores = [scorer(test) for scorer in RIVALS[name].fitted(train, "score_ranking")]
            found[truth_name, name] = max(spearmanr(score, test.truth).statistic for score in scores)
    assert found["product", "linear"] < 0.3 < 0.8 < found["product", "boosting"]
    assert found["additive", "linear"] > 0.95


def test_word_counts_of_preferences_learn_from_the_differences_of_answers():
    draws, pairs = np.random.default_rng(0), []
    for number in range(200):
        better, worse = f"x word{draws.integers(9)}", f"y word{draws.integers(9)}"
        pairs.append((f"prompt {number}{PAIR}{better}", f"prompt {number}{PAIR}{worse}"))
    texts = [text for pair in pairs for text in pair]
    relevance, sizes = torch.tensor([1.0, 0.0] * 200), torch.full((200,), 2)
    split = Split(Inputs({"kind": "text_pair"}, texts), relevance, sizes)
    for scorer in RIVALS["word_counts"].fitted(split, "query_ranking"):
        better, worse = scorer(split).view(-1, 2).T
        assert (better > worse).all()


def test_bm25_is_the_formula_of_the_field():
    documents = ["a b b c", "b d", "e e e a f g", "c"]
    queries = ["b a", "b a", "e b e", "b c"]
    pairs = [f"{query}{PAIR}{document}" for query, document in zip(queries, documents, strict=True)]
    split = Split(Inputs({"kind": "text_pair"}, pairs), torch.ones(4), torch.full((2,), 2))
    lengths = [len(document.split()) for document in documents]
    for scorer, (saturation, by_length) in zip(RIVALS["bm25"].fitted(split, "query_ranking"), BM25, strict=True):
        expected = []
        for query, document, length in zip(queries, documents, lengths, strict=True):
            total = 0.0
            for word in query.split():
                having = sum(word in other.split() for other in documents)
                rarity = math.log(1 + (4 - having + 0.5) / (having + 0.5))
                count = document.split().count(word)
                normal = saturation * (1 - by_length + by_length * length * 4 / sum(lengths))
                total += rarity * count * (saturation + 1) / (count + normal)
            expected.append(total)
        np.testing.assert_allclose(scorer(split).numpy(), expected, rtol=1e-6)


def test_a_rival_without_seeds_is_compared_with_each_seed(tmp_path):
    target, draws = np.arange(40.0), np.random.default_rng(0)
    rival = pa.table({"id": range(40), "score": target, "target": target})
    ours = []
    for seed in (1, 2):
        table = pa.table({"id": range(40), "score": target + draws.normal(0, 9, 40), "target": target})
        ours.append(table.add_column(1, "seed", pa.array([seed] * 40)))
    pq.write_table(rival, tmp_path / "rival.parquet")
    pq.write_table(pa.concat_tables(ours), tmp_path / "ours.parquet")
    statistics = {"ours": statistics_of("score_ranking", tmp_path / "ours.parquet")}
    statistics["rival"] = statistics_of("score_ranking", tmp_path / "rival.parquet", seeds=statistics["ours"])
    comparison = Comparison(question="?", metric="spearman", baseline="ours", runs=["ours"], rivals=["rival"])
    rows = compared(comparison, statistics, Resampling(resamples=50))
    values = {row.seed: row.value for row in rows if row.run == "rival" and row.metric == minus("spearman", "ours")}
    for seed, table in zip((1, 2), ours, strict=True):
        assert values[seed] == pytest.approx(1 - spearmanr(table["score"], target).statistic)
    assert values[None] == pytest.approx((values[1] + values[2]) / 2)


@pytest.mark.parametrize(("lower_is_better", "strongest", "difference"), [(False, "good", -0.25), (True, "bad", 0.5)])
def test_a_network_is_compared_with_the_strongest_rival(lower_is_better, strongest, difference):
    values = {"mse": 0.75, "ours": 0.5, "good": 0.75, "bad": 0.0, "undefined": np.nan}
    statistics = {}
    for name, value in values.items():
        constant = Statistic(["hit"], 4, lambda rows, value=value: np.full((1, *rows.shape[:-1]), value))
        statistics[name] = {1: constant, 2: constant}
    rivals = ["undefined", "bad", "good"]
    comparison = Comparison(question="?", metric="hit", baseline="mse", runs=["ours"], rivals=rivals)
    resampling = Resampling(resamples=20)
    first, *of_seeds = against_rivals(comparison, statistics, "ours", resampling, lower_is_better=lower_is_better)
    assert first == Row("ours", minus("hit", strongest), difference, difference, difference)
    assert [row.seed for row in of_seeds] == [1, 2]
