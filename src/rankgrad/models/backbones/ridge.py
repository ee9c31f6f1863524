"""A linear model of vectors of numbers, fitted when the network is built."""

from typing import Any

import torch
from torch import Tensor

from rankgrad.checks import check_count, check_positive
from rankgrad.fitted import FittedBackbone, linear_weights
from rankgrad.layers import ScoreLayer
from rankgrad.models.backbones.perceptron import QUANTILE_RANGE, Perceptron

__all__ = ["Ridge"]


class Ridge(FittedBackbone):
    """Ridge regression on standardized features; for preferences, the Bradley-Terry model with the same penalty.

    Targets of score ranking are ranks, mapped to normal quantiles, because only their order counts.

    Args:
        features: the length of a vector.
        outputs: K, the number of scores.
        penalty: the factor of the squared weights in the mean loss.
        pieces: also use a piecewise linear function of each feature's quantile, of this many pieces. It finds curves,
            such as a best age, and neither skew nor outliers change it. With 0, the model is linear in the features.

    Shapes:
        vectors (n, features) to scores (n, K).

    Raises:
        ValueError: the penalty is not above 0, or the number of pieces is not a whole number of at least 0.

    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.features import of_tensor
    >>> model = Ridge(features=1, outputs=1, penalty=1e-6)
    >>> model.fit(Split(of_tensor(torch.tensor([[1.0], [2.0], [4.0]])), torch.tensor([10.0, 20.0, 40.0])))
    >>> model(torch.tensor([[1.0], [3.0], [4.0]])).squeeze(1).argsort().tolist()
    [0, 1, 2]
    >>> curve = Ridge(features=1, outputs=1, penalty=1e-6, pieces=2)
    >>> curve.fit(Split(of_tensor(torch.arange(5.0).unsqueeze(1)), torch.tensor([0.0, 20.0, 30.0, 21.0, 1.0])))
    >>> curve(torch.tensor([[0.0], [2.0], [4.0]])).squeeze(1).argmax().item()
    1
    """

    input = "features"

    def __init__(self, *, features: int, outputs: int, penalty: float = 0.01, pieces: int = 0):
        super().__init__()
        check_positive("penalty", penalty)
        if pieces != 0 or not isinstance(pieces, int):
            check_count("pieces", pieces)
        self.penalty, self.pieces, self.features, self.size = penalty, pieces, features, outputs
        self.standardized = Perceptron(features=features, hidden=[], quantiles=pieces > 0)
        self.scores = ScoreLayer(features * (1 + pieces), outputs)

    def set_weights(self, split: Any) -> None:
        self.standardized.fit(split)
        values = self._values(split.inputs.items).double().numpy()
        weights, biases = linear_weights(values, split, self.penalty)
        with torch.no_grad():
            self.scores.weight.copy_(weights)
            self.scores.bias.copy_(biases)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.scores(self._values(vectors))

    def _values(self, vectors: Tensor) -> Tensor:
        """Return the features, their quantiles, and how far these are above the start of each later piece."""
        values = self.standardized(vectors)
        quantiles = values[:, self.features :]
        bends = [QUANTILE_RANGE * (piece / self.pieces - 0.5) for piece in range(1, self.pieces)]
        return torch.cat([values, *((quantiles - bend).relu() for bend in bends)], dim=1)
