"""Many small networks side by side: each is as if trained alone, on the lists that were meant."""

import pytest
import torch
from scipy.stats import kendalltau, rankdata
from sklearn.naive_bayes import GaussianNB
from torch import nn

from rankgrad import metrics
from studies import label_ranking_sets as sets
from studies.vectorized import measured


def made(generator) -> tuple[torch.Tensor, torch.Tensor]:
    classes = torch.arange(40) % 4
    centers = torch.stack([classes, -classes, 0 * classes], 1)
    features = torch.randn(40, 3, generator=generator, dtype=torch.float64) + centers
    return torch.cat([features, torch.ones(40, 1)], 1), classes  # and a feature that never changes


def test_naive_bayes_orders_classes_as_scikit_learn_does(generator):
    features, classes = made(generator)
    varied = features[:, :3]
    logs = GaussianNB(var_smoothing=1e-12).fit(varied, classes).predict_joint_log_proba(varied)
    assert sets.label_ranks(features, classes).tolist() == rankdata(logs, axis=1).tolist()


def test_folds_trained_side_by_side_are_each_trained_alone(generator):
    features, classes = made(generator)
    data, folds = (features, sets.label_ranks(features, classes)), sets.parts(40, "made")[:3]
    assert all(torch.cat(rows_of).sort().values.equal(torch.arange(40)) for rows_of in folds)
    learned, validated, _ = (list(rows_of) for rows_of in zip(*folds, strict=True))
    learned[1], validated[1] = learned[1][:-5], validated[1][:-2]  # folds of several sizes
    start, loss = sets.weights(3, "made", 4, 4), sets.METHODS["rlsep"]
    splits = 2 * sets.lists(data, learned, validated)
    measures = measured(loss, metrics.kendall, splits, start, torch.relu, rates=[0.03], steps=[20], together=False)
    for index, (train, val) in enumerate(zip(learned, validated, strict=True)):
        network = nn.Sequential(nn.Linear(4, sets.HIDDEN), nn.ReLU(), nn.Linear(sets.HIDDEN, 4))
        for parameter, value in zip(network.parameters(), start, strict=True):
            parameter.data = value[index].mT.reshape(parameter.shape).clone()
        spread, mean = torch.std_mean(features[train], 0)
        values = ((features - mean) / spread.where(spread > 0, 1)).float()
        optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
        for _ in range(20):
            optimizer.zero_grad()
            loss(network(values[train]), data[1][train]).mean().backward()
            optimizer.step()
        taus = [kendalltau(network(values[row]).detach(), data[1][row]).statistic for row in val]
        assert measures["value"][index] == pytest.approx(sum(taus) / len(taus), abs=1e-6)
