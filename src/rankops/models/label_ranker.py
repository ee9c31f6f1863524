"""A label ranker: a scoring network, and a threshold network that selects labels (RLSEP, Section 3.4)."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rankops import lookup
from rankops.models.threshold_network import ThresholdNetwork
from rankops.training.augmentation import views as views_of

__all__ = ["LabelRanker"]


class LabelRanker(nn.Module):
    """A scoring network f and a threshold network g on its embedding: label j is selected where f_j > g_j.

    Args:
        scorer: `name` and `args` of a network with `embed`, `head` and `embedding_size`.
        outputs: K, number of labels.
        colors: of the images, 1 (gray) or 3.
        hidden: width of the threshold network.
        views: None, or the options of `rankops.training.augmentation.views`: scores and thresholds are means over so
            many views of each image. What is trained and validated sees each image once.

    Shapes:
        images (n, colors, height, width) uint8 to scores (n, K) and thresholds (n, K).

    Raises:
        ValueError: an unknown scorer, or impossible options of views.

    >>> ranker = LabelRanker(scorer={"name": "convnet", "args": {"channels": [4, 6]}}, outputs=10)
    >>> scores, thresholds = ranker(torch.zeros(2, 1, 32, 32, dtype=torch.uint8))
    >>> scores.shape, thresholds.shape
    (torch.Size([2, 10]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        *,
        outputs: int,
        scorer: dict[str, Any],
        colors: int = 1,
        hidden: int = 128,
        views: dict[str, Any] | None = None,
    ):
        super().__init__()
        make = lookup.find("models", scorer["name"])
        runtime = {"outputs": outputs, "colors": colors}
        asked = inspect.signature(make).parameters
        self.scorer = make(**scorer["args"], **{name: value for name, value in runtime.items() if name in asked})
        self.thresholds = ThresholdNetwork(features=self.scorer.embedding_size, outputs=outputs, hidden=hidden)
        self.views = views
        next(self._views_of(torch.empty(0, 1, 1, 1, dtype=torch.uint8)))  # impossible options are refused at once

    @property
    def blocks(self) -> nn.Module:
        """The scorer's convolutional part, which may start from a trained one's."""
        return self.scorer.blocks

    def _views_of(self, images: Tensor) -> Iterator[Tensor]:
        return views_of(images, **self.views or {"count": 1})

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        embeddings = map(self.scorer.embed, self._views_of(images))
        both = [torch.stack([self.scorer.head(one), self.thresholds(one)]).float() for one in embeddings]
        scores, thresholds = torch.stack(both).mean(0)
        return scores, thresholds
