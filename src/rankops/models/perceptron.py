"""A multilayer perceptron: vectors to scores."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from rankops.checks import check_count

__all__ = ["Perceptron"]


class Perceptron(nn.Module):
    """A multilayer perceptron: fully connected layers with ReLU in between.

    Args:
        features: of a vector.
        outputs: scores of a vector.
        hidden: width of each layer in between.

    Shapes:
        vectors (..., features) to scores (..., outputs).

    Raises:
        ValueError: a width that is no whole number of at least 1.

    >>> import torch
    >>> Perceptron(features=10, outputs=1)(torch.zeros(5, 10)).shape
    torch.Size([5, 1])
    """

    def __init__(self, *, features: int, outputs: int, hidden: Sequence[int] = (10, 10, 10)):
        super().__init__()
        for width in hidden:
            check_count("hidden", width)
        widths = [features, *hidden, outputs]
        parts: list[nn.Module] = []
        for before, after in pairwise(widths):
            parts += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*parts[:-1])

    def forward(self, vectors: Tensor) -> Tensor:
        return self.layers(vectors)
