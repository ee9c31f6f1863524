"""Two encoders into one space, one of items and one of their captions, compared by their cosine."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rankgrad.models.network import Network

__all__ = ["DualEncoder"]

LINEAR = {"name": "linear", "args": {}}


class DualEncoder(nn.Module):
    """Unit-length embeddings of items and of captions (after DSVE; SoDeep, Section 4.2.3).

    Args:
        backbone, head: of the items, which are pictures, vectors or texts, see `rankgrad.models.network.Network`.
        text: `name` and `args` of the captions' backbone; None if the items' encoder reads captions too.
        size: of the common space.
        colors: of pictures, 1 (gray) or 3.
        features: of vectors.
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.

    Shapes:
        what the backbone takes, n of them, to (n, size); tokens of captions (n, longest) to (n, size).

    Raises:
        ValueError: an unknown part or option, or a caption without words.

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
        """Return what `head` takes of items."""
        return self.items.embed(inputs)

    def head(self, pooled: Tensor) -> Tensor:
        """Return places in the common space (n, size), of unit length."""
        return nn.functional.normalize(self.items.head(pooled), dim=-1)

    def encode_text(self, tokens: Tensor) -> Tensor:
        """Return the captions' embeddings, (n, size), of unit length."""
        return nn.functional.normalize(self.texts(tokens), dim=-1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.embed(inputs))
