"""Lists of documents of any length: fetched and read, trained with masks, scored by query."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score

from rankgrad import metrics
from rankgrad.datasets.files.splits import Split, padded
from rankgrad.inputs.features import of_tensor
from rankgrad.sorters import Laplace
from rankgrad.tasks.query_ranking import QueryRanking, metrics_of
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip

PERCEPTRON = {"name": "perceptron", "args": {"hidden": [8]}}
MODEL = {"name": "linear", "args": {"standardize": False}, "backbone": PERCEPTRON}


def lists(generator, sizes=(5, 1, 8, 3, 6, 4), relevant=(0, 2, 3, 4, 5)) -> Split:
    """Queries whose first document is relevant; the second has one document, and some may have none that is."""
    counts = torch.tensor(sizes)
    relevance = torch.zeros(sum(sizes), dtype=torch.int64)
    relevance[(counts.cumsum(0) - counts)[list(relevant)]] = 1
    features = torch.randn(sum(sizes), 4, generator=generator) + 2 * relevance.unsqueeze(-1)
    return Split(of_tensor(features), relevance, counts)


def trained(split, loss, **options):
    task = task_of("query_ranking", {"ranker": {"batch_size": 2} | options})
    network = task.build(MODEL, split, seed=0)
    objective = objective_of(loss, sorter=Laplace() if loss == "average_precision" else None)
    history = train(task, network, split, split, objective=objective, seed=0, device="cpu")
    return task, network, [epoch for _, epoch in history]


def test_raw_features_are_standardized_over_training_and_within_their_query(generator):
    split = lists(generator)
    features = split.inputs.items * torch.tensor([1.0, 100.0, 1e-4, 0.0]) + torch.tensor([0.0, 1e3, 7.0, 5.0])
    model = MODEL | {"backbone": {"name": "perceptron", "args": {"hidden": [], "within_group": True}}}
    network = QueryRanking().build(model, Split(of_tensor(features), split.truth, split.sizes), seed=0)
    standardized = network.backbone(features, split.sizes)
    assert standardized[:, 4:].mean(0).tolist() == pytest.approx([0] * 4, abs=1e-2)  # over training
    for query in standardized[:, :4].split(split.sizes.tolist()):
        assert query.mean(0).tolist() == pytest.approx([0] * 4, abs=1e-2)
    is_used = standardized.abs().amax(0) > 0.5
    assert is_used.tolist() == [True, True, True, False] * 2  # the last feature is constant


def test_metrics_are_means_over_queries_that_have_a_relevant_document(generator):
    task, network, epochs = trained(lists(generator), "rlsep", epochs=1)
    table = task.predict(network, lists(torch.Generator().manual_seed(0)))
    rows = [row for row in table.to_pylist() if any(row["relevance"])]
    assert len(rows) == len(table) - 1
    measured: dict[str, list[float]] = {}
    for row in rows:
        relevance, scores = row["relevance"], row["scores"]
        for name, value in {
            "mean_average_precision": average_precision_score(relevance, scores),
            "ndcg": ndcg_score([relevance], [scores]),
            "top_1": relevance[int(np.argmax(scores))],
            "rank_of_last": 1 + (np.array(scores) > scores[0]).sum(),
            "ndcg_at_5": ndcg_score([relevance], [scores], k=5),
            "ndcg_at_10": ndcg_score([relevance], [scores], k=10),
            "kendall": np.nan_to_num(kendalltau(relevance, scores).statistic),
            "pair_accuracy": np.mean(scores[0] > np.array(scores[1:])),
        }.items():
            measured.setdefault(name, []).append(value)
    statistic = task.statistic(table)
    values = dict(zip(statistic.names, statistic.of_all(), strict=True))
    assert values == pytest.approx({name: np.mean(of_queries) for name, of_queries in measured.items()})
    assert epochs[-1].validation == pytest.approx(values, abs=1e-6)
    assert np.isnan(statistic.of_rows(np.array([[1, 1]]))).all()


def test_queries_without_a_relevant_document_are_counted_when_they_are_loaded(generator, tmp_path, caplog):
    columns = {"features": [[[1.0], [2.0]]] * 3, "relevance": [[0, 1], [0, 0], [0, 0]]}
    pq.write_table(pa.table(columns), tmp_path / "test.parquet")
    QueryRanking().load(tmp_path, "test", threads=1)
    assert "test.parquet: 2 of 3 queries have no relevant document" in caplog.text


def test_grades_are_relevant_above_half_of_the_largest_and_regression_begins_at_their_mean(generator):
    graded = lists(generator)
    first = graded.sizes.cumsum(0) - graded.sizes
    graded.truth.copy_(torch.randint(5, graded.truth.shape, generator=generator))
    graded.truth[first] = 4
    relevance, mask = padded(graded.truth, graded.sizes)
    scores = torch.randn(mask.shape, generator=generator)
    values = metrics_of(scores, relevance, mask)
    assert torch.equal(values[[0, 2, 3]], metrics_of(scores, (relevance > 2).long(), mask)[[0, 2, 3]])
    assert values[1, 3] == metrics.ndcg(scores[3, :3], relevance[3, :3])
    mean = graded.truth.float().mean()
    network = QueryRanking().build(MODEL, graded, seed=0)
    assert network.head.score.bias.item() == pytest.approx(mean.item())
    assert trained(graded, "mse", monitor="ndcg", epochs=1)[2][0].monitor == "ndcg"


def test_lists_of_one_document_and_queries_without_a_relevant_one(generator):
    alone = lists(generator, sizes=(1, 1, 1), relevant=(0, 1))
    _, _, epochs = trained(alone, "multilabel_soft_margin")
    assert epochs[-1].validation["mean_average_precision"] == 1
    for loss in ("average_precision", "rlsep", "lambdarank"):  # nothing to compare, and nothing to learn
        assert [epoch.loss for epoch in trained(alone, loss)[2]] == [0, 0]
    with pytest.raises(ValueError, match="none of the 6 training queries has a relevant document"):
        trained(lists(generator, relevant=()), "rlsep")
