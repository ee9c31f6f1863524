"""Multi-label data whose labels have an order of importance: RLSEP beside cross-entropy and regression on label ranks.

Label ranks: 0 = absent, larger = more important.
"""

import torch

from rankgrad.losses import rlsep
from rankgrad.metrics.label_ranking import label_ranking_scores

torch.manual_seed(0)
x, labels = torch.randn(4000, 16), 6
present = x @ torch.randn(16, labels) / 4 > 0  # which labels an example has
importance = x @ torch.randn(16, labels) / 4  # their order is another question
label_ranks = torch.where(present, importance.argsort(dim=1).argsort(dim=1) + 1, 0)
train, test = slice(3000), slice(3000, None)


def cross_entropy(scores, label_ranks):
    return torch.nn.functional.binary_cross_entropy_with_logits(scores, (label_ranks > 0).float())


def mse(scores, label_ranks):
    return torch.nn.functional.mse_loss(scores, label_ranks.float())


for loss in (cross_entropy, mse, rlsep):
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, labels))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(400):
        optimizer.zero_grad()
        loss(model(x[train]), label_ranks[train]).backward()
        optimizer.step()
    exact = label_ranking_scores(model(x[test]).detach(), label_ranks[test])["exact_match"].mean()
    print(f"{loss.__name__:15}{exact:.0%} of the examples in exact order")
