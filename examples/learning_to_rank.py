"""Learning to rank judged by NDCG@5: queries with 5 to 30 documents each, padded, with a mask.

Each query's features have an offset of their own, which misleads squared error; centering each query removes it too.
"""

from functools import partial

import torch

from rankgrad.losses import mse, ndcg
from rankgrad.metrics import ndcg as exact_ndcg
from rankgrad.ragged import pad_groups

torch.manual_seed(0)
taste = torch.randn(12)
sizes = torch.randint(5, 31, (400,)).tolist()
documents, relevance = [], []
for size in sizes:
    features = torch.randn(size, 12) + 3 * torch.randn(1)  # each query has an offset of its own
    documents.append(features)
    relevance.append(((features - features.mean(0)) @ taste / 2 + 0.5 * torch.randn(size)).clamp(0, 4).round())
documents, mask = pad_groups(torch.cat(documents), sizes=sizes)  # (400, 30, 12) and (400, 30)
relevance, _ = pad_groups(torch.cat(relevance), sizes=sizes)  # (400, 30)
train, test = slice(300), slice(300, None)


def squared_error(scores, target, *, mask):
    return (scores - target)[mask].square().mean()


losses = {"squared error": squared_error, "centered": partial(mse, normalize_groups="centered"), "NDCG": ndcg}
for name, loss in losses.items():
    torch.manual_seed(0)
    model = torch.nn.Linear(12, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        loss(model(documents[train]).squeeze(-1), relevance[train], mask=mask[train]).backward()
        optimizer.step()
    values = exact_ndcg(model(documents[test]).squeeze(-1).detach(), relevance[test], mask=mask[test], k=5)
    print(f"{name:15}NDCG@5 {values.nanmean():.3f}")
