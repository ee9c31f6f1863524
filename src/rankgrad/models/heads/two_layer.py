"""Two layers on pooled features."""

from typing import Literal

from torch import nn

from rankgrad.checks import check_count
from rankgrad.layers import PooledHead, ScoreLayer

__all__ = ["TwoLayer"]


class TwoLayer(PooledHead):
    """A hidden layer with dropout, then scores; by default, the classifier of MobileNetV3 (RLSEP, Section 5.2).

    With `relu`, it is the multi-layer perceptron with which SoDeep scores memorability (Section 4.2.1).

    Args:
        features: channels of the backbone.
        maps: whether the backbone's output is maps or vectors.
        outputs: K, the number of scores.
        hidden: width of the hidden layer.
        activation: activation of the hidden layer.
        dropout: dropout rate of the hidden layer.
        grid, maximum: see `rankgrad.models.heads.linear.Linear`.

    Raises:
        ValueError: `grid` or `maximum` is set, but the backbone's output is vectors; or a width is below 1.

    >>> TwoLayer(features=16, maps=True, outputs=3).embedding_size
    16
    """

    def __init__(
        self,
        *,
        features: int,
        maps: bool,
        outputs: int,
        hidden: int = 1024,
        activation: Literal["hardswish", "relu"] = "hardswish",
        dropout: float = 0.2,
        grid: int = 1,
        maximum: bool = False,
    ):
        super().__init__(features, maps=maps, grid=grid, maximum=maximum)
        check_count("hidden", hidden)
        bent = {"hardswish": nn.Hardswish, "relu": nn.ReLU}[activation]()
        self.score = nn.Sequential(
            nn.Linear(self.embedding_size, hidden), bent, nn.Dropout(dropout), ScoreLayer(hidden, outputs)
        )
