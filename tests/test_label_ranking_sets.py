"""The label-ranking sets: orders by naive Bayes, folds trained side by side, and a wheel that is not whole."""

import math

import pytest
import torch
from scipy.stats import kendalltau
from torch import nn

from benchmarks import label_ranking_sets as benchmark


def made(generator) -> tuple[torch.Tensor, torch.Tensor]:
    classes = torch.arange(40) % 4
    centers = torch.stack([classes, -classes, 0 * classes], 1)
    features = torch.randn(40, 3, generator=generator, dtype=torch.float64) + centers
    return torch.cat([features, torch.ones(40, 1)], 1), classes  # and a feature that never changes


def test_naive_bayes_orders_classes_as_plain_loops_do(generator):
    features, classes = made(generator)
    for row, found in zip(features.tolist(), benchmark.label_ranks(features, classes).tolist(), strict=True):
        logs = []
        for each in range(4):  # 10 rows a class
            columns = list(zip(*features[classes == each, :3].tolist(), strict=True))
            means = [sum(column) / 10 for column in columns]
            spreads = [sum((x - mean) ** 2 for x in one) / 10 for one, mean in zip(columns, means, strict=True)]
            parts = zip(row[:3], means, spreads, strict=True)
            logs.append(-sum((x - mean) ** 2 / spread + math.log(spread) for x, mean, spread in parts))
        assert [sum(log >= other for other in logs) for log in logs] == found


def test_folds_trained_side_by_side_are_each_trained_alone(generator):
    features, classes = made(generator)
    data, rows = (features, benchmark.label_ranks(features, classes)), benchmark.splits(40, "made")[:3]
    learned, asked, _ = (list(part) for part in zip(*rows, strict=True))
    learned[1], asked[1] = learned[1][:-5], asked[1][:-2]  # folds of several sizes
    start, rates = benchmark.weights(3, "made", (4, 4)), torch.tensor([0.01, 0.03, 0.1])
    loss = benchmark.METHODS["rlsep"]
    found = benchmark.trained(loss, data, learned, asked, start, rates=rates, steps=(3, 20))
    for place, (train, val) in enumerate(zip(learned, asked, strict=True)):
        network = nn.Sequential(nn.Linear(4, benchmark.HIDDEN), nn.ReLU(), nn.Linear(benchmark.HIDDEN, 4))
        for parameter, value in zip(network.parameters(), start, strict=True):
            parameter.data = value[place].mT.reshape(parameter.shape).clone()
        spread, mean = torch.std_mean(features[train], 0)
        values = ((features - mean) / spread.where(spread > 0, 1)).float()
        optimizer = torch.optim.Adam(network.parameters(), lr=rates[place].item())
        for _ in range(20):
            optimizer.zero_grad()
            loss(network(values[train]), data[1][train]).mean().backward()
            optimizer.step()
        taus = [kendalltau(network(values[row]).detach(), data[1][row]).statistic for row in val]
        assert found[place, 1].item() == pytest.approx(sum(taus) / len(taus), abs=1e-6)


def test_folds_split_all_rows_and_each_is_tested_once():
    parts = benchmark.splits(40, "made")
    assert all(torch.cat(part).sort().values.tolist() == list(range(40)) for part in parts)
    tests = [test for _, _, test in parts]
    for repeat in range(0, len(tests), benchmark.FOLDS):
        assert torch.cat(tests[repeat : repeat + benchmark.FOLDS]).sort().values.tolist() == list(range(40))


def test_a_damaged_wheel_is_an_error_that_names_it(tmp_path):
    wheel = tmp_path / benchmark.FILE.name
    wheel.write_bytes(b"PK\x03\x04" + bytes(99))
    with pytest.raises(ValueError, match=rf"{wheel.name}: not the expected wheel .*fetched again"):
        benchmark.read(wheel, "glass")
