"""Retrieval judged by recall@1: pictures and captions of the same things, a linear encoder for each."""

import torch
from torch.nn.functional import normalize

from rankgrad import losses, metrics

torch.manual_seed(0)
common = torch.randn(1500, 8)  # what pictures and captions have in common
pictures = common @ torch.randn(8, 40) + 2 * torch.randn(1500, 40)
captions = common @ torch.randn(8, 30) + 2 * torch.randn(1500, 30)
train, test = slice(1000), slice(1000, None)
captions[:200] = captions[torch.randperm(200)]  # a fifth of the training captions are of other pictures


def similarities(encoders, rows):
    picture, caption = (encoder(x[rows]) for encoder, x in zip(encoders, (pictures, captions), strict=True))
    return normalize(picture) @ normalize(caption).T


for loss in (losses.hard_negative_triplet, losses.hit_rate):
    encoders = torch.nn.ModuleList([torch.nn.Linear(40, 8), torch.nn.Linear(30, 8)])
    optimizer = torch.optim.Adam(encoders.parameters(), lr=0.003)
    for _ in range(20):
        for batch in torch.randperm(1000).split(100):
            optimizer.zero_grad()
            loss(similarities(encoders, batch), torch.eye(100, dtype=torch.bool)).backward()
            optimizer.step()
    recall = metrics.hit_rate(similarities(encoders, test).detach(), torch.eye(500, dtype=torch.bool), k=1)
    print(f"{loss.__name__:22}recall@1 {recall.mean():.3f}")
