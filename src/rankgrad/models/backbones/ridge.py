"""A linear model of vectors of numbers, fitted when the network is built."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.checks import check_positive
from rankgrad.layers import ScoreLayer
from rankgrad.models.backbones._fitted import FittedBackbone, linear_weights
from rankgrad.models.backbones.perceptron import Perceptron

__all__ = ["Ridge"]


class Ridge(FittedBackbone):
    """Ridge regression on standardized features; for preferences, the Bradley-Terry model with the same penalty.

    Targets of score ranking are ranks, mapped to normal quantiles, because only their order counts.

    Args:
        features: the length of a vector.
        outputs: K, the number of scores.
        penalty: the factor of the squared weights in the mean loss.
        quantiles: use each feature once more, as its quantile, see `rankgrad.models.backbones.perceptron.Perceptron`.

    Shapes:
        vectors (n, features) to scores (n, K).

    Raises:
        ValueError: the penalty is not above 0.

    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> model = Ridge(features=1, outputs=1, penalty=1e-6)
    >>> model.fit(Split(of_tensor(torch.tensor([[1.0], [2.0], [4.0]])), torch.tensor([10.0, 20.0, 40.0])))
    >>> model(torch.tensor([[1.0], [3.0], [4.0]])).squeeze(1).argsort().tolist()
    [0, 1, 2]
    """

    input = "features"

    def __init__(self, *, features: int, outputs: int, penalty: float = 0.01, quantiles: bool = False):
        super().__init__()
        check_positive("penalty", penalty)
        self.penalty, self.size = penalty, outputs
        self.standardized = Perceptron(features=features, hidden=[], quantiles=quantiles)
        self.scores = ScoreLayer(self.standardized.size, outputs)

    def _fit(self, split: Any) -> None:
        self.standardized.fit(split)
        values = self.standardized(split.inputs.items).double().numpy()
        weights, biases = linear_weights(values, split, self.penalty)
        with torch.no_grad():
            self.scores.weight.copy_(weights)
            self.scores.bias.copy_(biases)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.scores(self.standardized(vectors))
