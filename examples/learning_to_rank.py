"""Learning to rank judged by NDCG@5: queries with 5 to 30 documents each, padded, with a mask."""

import torch
from torch.nn.utils.rnn import pad_sequence

from rankops.losses import ndcg
from rankops.metrics import ndcg as exact_ndcg

torch.manual_seed(0)
taste = torch.randn(12)
queries = []
for size in torch.randint(5, 31, (400,)).tolist():
    documents = torch.randn(size, 12) + 3 * torch.randn(1)  # each query has an offset of its own
    relevance = ((documents - documents.mean(0)) @ taste / 2 + 0.5 * torch.randn(size)).clamp(0, 4).round()
    queries.append((documents, relevance))
documents = pad_sequence([one for one, _ in queries], batch_first=True)  # (400, 30, 12)
relevance = pad_sequence([one for _, one in queries], batch_first=True)  # (400, 30)
mask = pad_sequence([torch.ones(len(one), dtype=torch.bool) for one, _ in queries], batch_first=True)
train, test = slice(300), slice(300, None)


def squared_error(scores, target, *, mask):
    return (scores - target)[mask].square().mean()


for loss in (squared_error, ndcg):
    model = torch.nn.Linear(12, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        loss(model(documents[train]).squeeze(-1), relevance[train], mask=mask[train]).backward()
        optimizer.step()
    values = exact_ndcg(model(documents[test]).squeeze(-1).detach(), relevance[test], mask=mask[test], k=5)
    print(f"{loss.__name__:15}NDCG@5 {values.nanmean():.3f}")
