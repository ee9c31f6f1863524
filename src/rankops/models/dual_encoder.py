"""Two encoders into one space, one of images and one of captions, compared by their cosine."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankops.models.backbone import BackboneName, blocks_of
from rankops.models.layers import Backbone, ScoreHead
from rankops.models.tokenizer import Vocabulary

__all__ = ["DualEncoder"]


class DualEncoder(Backbone):
    """Unit-length embeddings of images and of captions (after DSVE; SoDeep, Section 4.2.3).

    The image's feature maps are averaged over a coarse grid, not over the whole image, because captions say where
    things are. Two convolutions read the caption's words in order, and the largest of each feature counts (Kim, 2014),
    which takes a CPU less time than a recurrent network.

    Args:
        words: the vocabulary, see `rankops.models.tokenizer.Vocabulary`.
        colors: of the images, 1 (gray) or 3.
        backbone: `convnet`, `mobilenet_v3_small` or `resnet34`, from which the feature maps come.
        channels: of the convnet, by default its own.
        grid: places on a side over which the maps are averaged.
        size: of the common space.
        word_size: of a word's embedding.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to (n, size); captions (n, longest) word numbers,
        padded with 0, to (n, size).

    Raises:
        ValueError: an unknown `backbone`, `channels` of another one than the convnet, or an empty caption.

    >>> model = DualEncoder(words=Vocabulary.of(["a large three"]).words, channels=[8, 16], size=12)
    >>> model(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 12])
    >>> model.encode_text(model.vocabulary.encode(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    def __init__(
        self,
        *,
        words: Sequence[str],
        colors: int = 1,
        backbone: BackboneName = "convnet",
        channels: Sequence[int] | None = None,
        grid: int = 4,
        size: int = 128,
        word_size: int = 64,
    ):
        super().__init__()
        self.blocks = blocks_of(backbone, colors=colors, channels=channels)
        self.grid = nn.Sequential(nn.AdaptiveAvgPool2d(grid), nn.Flatten())
        self.head = _UnitProjection(self.blocks.size * grid * grid, size)
        self.vocabulary = Vocabulary(words)
        self.words = nn.Embedding(len(words), word_size, padding_idx=0)
        self.phrases = nn.Conv1d(word_size, size, 5, padding=2)
        self.clauses = nn.Conv1d(size, size, 3, padding=1)
        self.text_head = _UnitProjection(size, size)

    def embed(self, images: Tensor) -> Tensor:
        """Return feature maps averaged over the grid, (n, channels * grid^2)."""
        return self.grid(self.blocks(images))

    def encode_text(self, captions: Tensor) -> Tensor:
        """Return the captions' embeddings, (n, size), of unit length."""
        absent = captions == 0
        if bool((wordless := absent.all(1)).any()):
            raise ValueError(f"caption {int(wordless.nonzero()[0])} has no words, expected at least one")
        absent = absent.unsqueeze(1)  # (n, 1, longest)
        # Padding stays 0 from layer to layer: how long the batch's longest caption is changes nothing.
        phrases = self.phrases(self.words(captions).mT).relu().masked_fill(absent, 0)
        return self.text_head(self.clauses(phrases).masked_fill(absent, -torch.inf).amax(2))


class _UnitProjection(ScoreHead):
    """A place in the common space, (n, size), of unit length."""

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.normalize(super().forward(input), dim=-1)
