"""A linear model that scikit-learn fits: Huber regression, in which outliers count little."""

from typing import Any

import torch
from sklearn.linear_model import HuberRegressor
from torch import Tensor

from rankgrad.fitted import FittedBackbone, on_one_thread, target_of, weight_of

__all__ = ["Huber"]


class Huber(FittedBackbone):
    input = "features"  # the type of input that it reads
    tasks = ("score_ranking",)  # to Huber regression, a rare label is an outlier

    def __init__(self, *, features: int, outputs: int, penalty: float = 1e-4):
        super().__init__()
        self.penalty, self.size = penalty, outputs  # `size` is the number of scores
        self.scores = torch.nn.Linear(features, outputs, dtype=torch.float64)

    def set_weights(self, split: Any) -> None:
        """Fit each score, and copy what was fitted into weights, which are saved without pickle."""
        vectors = split.inputs.items.double()
        means, deviations = vectors.mean(dim=0), vectors.std(dim=0, correction=0)
        deviations[vectors.amin(dim=0) == vectors.amax(dim=0)] = torch.inf  # a constant feature counts for nothing
        standardized = ((vectors - means) / deviations).numpy()
        with on_one_thread(), torch.no_grad():
            for number, target in enumerate(target_of(split).T):
                model = HuberRegressor(alpha=self.penalty, max_iter=1000).fit(standardized, target, weight_of(split))
                slopes = torch.from_numpy(model.coef_) / deviations
                self.scores.weight[number] = slopes
                self.scores.bias[number] = model.intercept_ - slopes @ means

    def forward(self, vectors: Tensor) -> Tensor:
        return self.scores(vectors.double()).float()
