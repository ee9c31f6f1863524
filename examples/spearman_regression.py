"""Regression judged by Spearman's correlation: train on it, instead of on squared errors."""

import torch

from rankgrad.losses import spearman
from rankgrad.metrics import spearman as correlation

torch.manual_seed(0)
x = torch.randn(2000, 20)
y = (3 * x @ torch.randn(20) / 20**0.5 + torch.randn(2000)).exp()  # skewed, as prices and counts are
train, test = slice(1000), slice(1000, None)

for name, loss in {"MSE": torch.nn.functional.mse_loss, "Spearman": spearman}.items():
    model = torch.nn.Linear(20, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(500):
        optimizer.zero_grad()
        loss(model(x[train]).squeeze(1), y[train]).backward()
        optimizer.step()
    print(f"{name:9}{correlation(model(x[test]).squeeze(1), y[test]):.3f}")
