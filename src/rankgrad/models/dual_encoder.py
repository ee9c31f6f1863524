"""Two encoders, one for items and one for captions, into a common space with cosine similarity."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rankgrad.models.network import Network

__all__ = ["DualEncoder"]

LINEAR = {"name": "linear", "args": {}}


class DualEncoder(nn.Module):
    """Unit-length embeddings of items and of captions (after DSVE; SoDeep, Section 4.2.3).

    Args:
        backbone, head: backbone and head for items (pictures, vectors, or texts), see
            `rankgrad.models.network.Network`.
        text: `name` and `args` of the captions' backbone; None if the items' encoder reads captions, too.
        size: the dimension of the common space.
        colors: channels of pictures, 1 (gray) or 3.
        features: the length of vectors.
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.

    Shapes:
        n inputs of the backbone to (n, size); tokens of captions (n, longest) to (n, size).

    Raises:
        ValueError: a component or an option is unknown, or a caption has no words.

    >>> import torch
    >>> model = DualEncoder(
    ...     backbone={"name": "convnet", "args": {"channels": [8, 16]}},
    ...     head={"name": "linear", "args": {"grid": 4}},
    ...     text={"name": "words", "args": {}},
    ...     words=["<padding>", "<unknown>", "a", "large", "three"],
    ...     size=12,
    ... )
    >>> model(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 12])
    >>> model.encode_text(model.tokenize(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    def __init__(
        self,
        *,
        backbone: dict[str, Any],
        head: dict[str, Any],
        text: dict[str, Any] | None,
        size: int = 128,
        colors: int = 1,
        features: int | None = None,
        words: list[str] | None = None,
    ):
        super().__init__()
        runtime = {"outputs": size, "colors": colors, "features": features, "words": words}
        self.items = Network(backbone=backbone, head=head, **runtime)
        self.shared = text is None
        if text is not None:
            self.captions = Network(backbone=text, head=LINEAR, **runtime)

    @property
    def backbone(self) -> nn.Module:
        """The items' backbone."""
        return self.items.backbone

    @property
    def texts(self) -> Network:
        """The encoder of captions."""
        return self.items if self.shared else self.captions

    def tokenize(self, captions: Sequence[str]) -> Tensor:
        """Return tokens (n, longest) of captions, padded with 0."""
        return self.texts.backbone.tokenize(captions)

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the input of `head` for items."""
        return self.items.embed(inputs)

    def head(self, pooled: Tensor) -> Tensor:
        """Return the items' embeddings (n, size), of unit length."""
        return nn.functional.normalize(self.items.head(pooled), dim=-1)

    def encode_text(self, tokens: Tensor) -> Tensor:
        """Return the captions' embeddings (n, size), of unit length."""
        return nn.functional.normalize(self.texts(tokens), dim=-1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.embed(inputs))
