"""Fully connected layers on vectors of numbers, standardized by what was seen in training."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rankops.checks import check_count

__all__ = ["Perceptron"]


class Perceptron(nn.Module):
    """Fully connected layers, each with ReLU, on features minus their means over their standard deviations.

    Args:
        features: of a vector.
        hidden: width of each layer; none for the standardized features themselves.

    Shapes:
        vectors (n, features) to (n, size).

    Raises:
        ValueError: a width that is no whole number of at least 1.

    >>> Perceptron(features=10, hidden=[8])(torch.zeros(5, 10)).shape
    torch.Size([5, 8])
    """

    input, maps = "features", False

    def __init__(self, *, features: int, hidden: Sequence[int] = (10, 10, 10)):
        super().__init__()
        for width in hidden:
            check_count("hidden", width)
        widths = [features, *hidden]
        self.layers = nn.Sequential()
        for before, after in pairwise(widths):
            self.layers += nn.Sequential(nn.Linear(before, after), nn.ReLU())
        self.means, self.deviations = nn.Buffer(torch.zeros(features)), nn.Buffer(torch.ones(features))
        self.size = widths[-1]

    def fit(self, vectors: Tensor) -> None:
        """Take the means and standard deviations of training vectors (n, features); a constant feature becomes 0."""
        deviations, means = torch.std_mean(vectors.double(), dim=0, correction=0)
        constant = (vectors == vectors[0]).all(0)
        self.means.copy_(torch.where(constant, vectors[0], means))
        self.deviations.copy_(torch.where(constant | (deviations == 0), 1.0, deviations))

    def forward(self, vectors: Tensor) -> Tensor:
        return self.layers(((vectors - self.means) / self.deviations).to(self.means.dtype))
