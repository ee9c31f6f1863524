"""The threshold network of RLSEP: maps an image's embedding to a threshold for each label's score."""

from torch import Tensor, nn

__all__ = ["ThresholdNetwork"]


class ThresholdNetwork(nn.Module):
    r"""Thresholds for label scores from a frozen embedding (RLSEP, Section 3.4): two fully connected layers.

    Label j is selected if $f_j > g_j$, where f are the scores and g the thresholds.

    Args:
        features: q, the size of the embedding.
        outputs: K, the number of labels.
        hidden: width of the hidden layer; the paper uses 128.

    Shapes:
        embeddings (n, q) to thresholds (n, K).

    >>> import torch
    >>> ThresholdNetwork(features=576, outputs=10)(torch.zeros(2, 576)).shape
    torch.Size([2, 10])
    """

    def __init__(self, *, features: int, outputs: int, hidden: int = 128):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.layers(embeddings)
