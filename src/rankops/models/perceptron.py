"""A multilayer perceptron: vectors to scores."""

from itertools import pairwise

from torch import Tensor, nn

from rankops.checks import check_count

__all__ = ["Perceptron"]


class Perceptron(nn.Module):
    """A multilayer perceptron: fully connected layers with ReLU in between.

    Args:
        features: of a vector.
        outputs: scores of a vector.
        hidden: width of the layers in between.
        layers: how many linear maps.

    Shapes:
        vectors (..., features) to scores (..., outputs).

    Raises:
        ValueError: no layer.

    >>> import torch
    >>> Perceptron(features=10, outputs=1)(torch.zeros(5, 10)).shape
    torch.Size([5, 1])
    """

    def __init__(self, *, features: int, outputs: int, hidden: int = 10, layers: int = 4):
        super().__init__()
        check_count("layers", layers)
        widths = [features, *[hidden] * (layers - 1), outputs]
        parts: list[nn.Module] = []
        for before, after in pairwise(widths):
            parts += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*parts[:-1])

    def forward(self, vectors: Tensor) -> Tensor:
        return self.layers(vectors)
