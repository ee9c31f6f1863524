"""A head with separate attention over the feature maps for each label."""

import math

import torch
from torch import Tensor, nn

from rankgrad.layers import Head, check_maps

__all__ = ["LabelAttention"]


class LabelAttention(Head):
    r"""Attention over feature maps: each label attends to its own positions, and scores the features there.

    With features $x_p$ at the positions p of the maps, label k's score is

    $$f_k = b_k + v_k \cdot \sum_p \operatorname{softmax}_p(u_k \cdot x_p) \, x_p.$$

    A mean over the whole image mixes a label's size with the rest of the image; attention can separate them. The
    embedding consists of each label's attended features, so it has K times the features of the maps.

    Args:
        features: channels of the backbone.
        maps: whether the backbone's output is maps.
        outputs: K, the number of labels.

    Raises:
        ValueError: the backbone's output is vectors, which have no positions.

    >>> LabelAttention(features=16, maps=True, outputs=10).embedding_size
    160
    """

    def __init__(self, *, features: int, maps: bool, outputs: int):
        super().__init__()
        check_maps("label_attention", maps)
        self.embedding_size = outputs * features
        self.attention = nn.Conv2d(features, outputs, 1, bias=False)  # a bias would cancel in the softmax
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(outputs, features)) / math.sqrt(features))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def embed(self, pooled: Tensor) -> Tensor:
        """Return the attended features of all labels (n, K * features)."""
        weights = self.attention(pooled).flatten(2).softmax(-1)  # (n, K, places)
        return torch.einsum("nkp,nfp->nkf", weights.to(pooled.dtype), pooled.flatten(2)).flatten(1)

    def score(self, embedding: Tensor) -> Tensor:
        return (embedding.view(len(embedding), *self.weight.shape) * self.weight).sum(-1) + self.bias
