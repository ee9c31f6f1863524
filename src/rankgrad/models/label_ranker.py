"""A label ranker: a scoring network, and a threshold network that selects labels (RLSEP, Section 3.4)."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.augmentation import views as views_of
from rankgrad.models.network import Network
from rankgrad.models.threshold_network import ThresholdNetwork

__all__ = ["LabelRanker", "pooled"]


def pooled(embedding: Tensor) -> Tensor:
    """Return an embedding (n, size) unchanged, or the mean of feature maps (n, size, height, width)."""
    return embedding.mean((2, 3)) if embedding.dim() == 4 else embedding


class LabelRanker(nn.Module):
    """A scoring network f and a threshold network g on its embedding; label j is selected if f_j > g_j.

    Args:
        backbone, head: backbone and head of f, see `rankgrad.models.network.Network`.
        outputs: K, the number of labels.
        colors: channels of pictures, 1 (gray) or 3.
        features: the length of vectors.
        words: the vocabulary of text, see `rankgrad.vocabulary.Vocabulary`.
        hidden: width of the threshold network.
        views: None, or the options of `rankgrad.augmentation.views`; scores and thresholds are then means over several
            views of each image. Training and validation see each image once.

    Shapes:
        n inputs of the backbone to scores (n, K) and thresholds (n, K).

    Raises:
        ValueError: a component or an option is unknown, or the options of views are invalid.

    >>> convnet = {"name": "convnet", "args": {"channels": [4, 6]}}
    >>> ranker = LabelRanker(backbone=convnet, head={"name": "label_attention", "args": {}}, outputs=10)
    >>> scores, thresholds = ranker(torch.zeros(2, 1, 32, 32, dtype=torch.uint8))
    >>> scores.shape, thresholds.shape
    (torch.Size([2, 10]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        *,
        backbone: dict[str, Any],
        head: dict[str, Any],
        outputs: int,
        colors: int = 1,
        features: int | None = None,
        words: list[str] | None = None,
        hidden: int = 128,
        views: dict[str, Any] | None = None,
    ):
        super().__init__()
        self.scorer = Network(
            backbone=backbone, head=head, outputs=outputs, colors=colors, features=features, words=words
        )
        self.thresholds = ThresholdNetwork(features=self.scorer.embedding_size, outputs=outputs, hidden=hidden)
        self.views = views
        next(self._views_of(torch.empty(0, 1, 1, 1, dtype=torch.uint8)))  # raise now if the options are invalid

    @property
    def backbone(self) -> nn.Module:
        """The scorer's backbone, which may start from trained weights."""
        return self.scorer.backbone

    def _views_of(self, images: Tensor) -> Iterator[Tensor]:
        return views_of(images, **self.views or {"count": 1})

    def levels(self, embedding: Tensor) -> Tensor:
        """Return thresholds (n, K) for the scorer's embedding; feature maps are averaged."""
        return self.thresholds(pooled(embedding))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        of_views = []
        for view in self._views_of(inputs) if self.views else [inputs]:
            embedding = self.scorer.head.embed(self.scorer.embed(view))
            of_views.append(torch.stack([self.scorer.head.score(embedding), self.levels(embedding)]).float())
        scores, thresholds = torch.stack(of_views).mean(0)
        return scores, thresholds
