"""Points with a hidden score, the highest of which are positive (SoDeep, Fig. 6, after Song et al. 2016)."""

import torch
from torch import Tensor, nn

from rankops.io.checkpoints import build

__all__ = ["draw", "with_flips"]


def draw(
    rows: int, *, features: int, hidden: int, layers: int, positive: float, seed: int
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Standard normal points and labels: positive where a random network's score is among the highest.

    The network has ReLUs, no biases, and weights from N(0, 1), divided by the square root of a layer's width so that
    scores do not grow with depth; that changes nothing in their order.

    Args:
        rows: number of points.
        features, hidden, layers: of the network.
        positive: share of positive points.
        seed: of the points and of the network.

    Returns:
        points (rows, features) float32 and labels (rows,) boolean.

    >>> points, labels = draw(100, features=10, hidden=10, layers=4, positive=0.2, seed=1)
    >>> points.shape, int(labels.sum())
    (torch.Size([100, 10]), 20)
    """
    draws = torch.Generator().manual_seed(seed)
    parts = {
        "backbone": {"name": "perceptron", "args": {"hidden": [hidden] * (layers - 1)}},
        "head": {"name": "linear", "args": {"standardize": False}},
    }
    network = build("models", "network", parts, seed=seed, features=features, outputs=1)
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=draws) / layer.in_features**0.5)
                layer.bias.zero_()
        points = torch.randn(rows, features, generator=draws)
        scores = network(points).squeeze(1)
    labels = torch.zeros(rows, dtype=torch.bool)
    labels[scores.topk(round(positive * rows)).indices] = True
    return points, labels


def with_flips(labels: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Labels of which a share, chosen at random, says the opposite.

    >>> labels = torch.zeros(10, dtype=torch.bool)
    >>> int(with_flips(labels, 0.3, torch.Generator().manual_seed(0)).sum())
    3
    """
    flipped = labels.clone()
    chosen = torch.randperm(len(labels), generator=generator)[: round(share * len(labels))]
    flipped[chosen] = ~flipped[chosen]
    return flipped
