"""Two encoders with one space: images by a convnet, captions by a GRU; their cosine says how well they match."""

from torch import Tensor, nn

from rankops.models.backbone import backbone_of
from rankops.models.layers import ScoreLayer
from rankops.models.tokenizer import Vocabulary

__all__ = ["DualEncoder"]


class DualEncoder(nn.Module):
    """Embeddings of unit length of images and of captions (after DSVE, which SoDeep's Section 4.2.3 trains).

    The image's feature maps are averaged over a coarse grid, not over the whole image, because captions say where
    things are. The caption's embedding is the GRU's state after its last word.

    Args:
        words: the vocabulary, see `rankops.models.tokenizer.Vocabulary`.
        colors: of the images, 1 (gray) or 3.
        backbone: `convnet`, `mobilenet_v3_small` or `resnet34`, from which the feature maps come.
        channels: of the convnet.
        grid: places on a side over which the maps are averaged.
        size: of the common space.
        word_size: of a word's embedding.

    Shapes:
        images (n, colors, height, width) uint8 or float in 0..255 to (n, size); captions (n, longest) word numbers,
        padded with 0, to (n, size).

    Raises:
        ValueError: an unknown `backbone`, or an empty caption.

    >>> import torch
    >>> model = DualEncoder(words=Vocabulary.of(["a large three"]).words, channels=[8, 16], size=12)
    >>> model(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 12])
    >>> model.encode_text(model.vocabulary.encode(["a three"])).shape
    torch.Size([1, 12])
    """

    def __init__(
        self, *, words: list[str], colors: int = 1, backbone: str = "convnet", channels: list[int] = (16, 32, 64, 96),
        grid: int = 4, size: int = 128, word_size: int = 64,
    ):  # fmt: skip
        super().__init__()
        network = backbone_of(backbone, colors=colors, channels=channels)
        self.backbone = network
        self.grid = nn.Sequential(nn.AdaptiveAvgPool2d(grid), nn.Flatten())
        self.projection = ScoreLayer(network.map_size * grid * grid, size)
        self.vocabulary = Vocabulary(words)
        self.words = nn.Embedding(len(words), word_size, padding_idx=0)
        self.reader = nn.GRU(word_size, size, batch_first=True)

    @property
    def blocks(self) -> nn.Module:
        """The convolutional part."""
        return self.backbone.blocks

    def embed(self, images: Tensor) -> Tensor:
        """Feature maps averaged over the grid, (n, map_size * grid^2)."""
        return self.grid(self.backbone.maps(images))

    def head(self, features: Tensor) -> Tensor:
        """The image's place in the common space, (n, size), of unit length."""
        return nn.functional.normalize(self.projection(features), dim=-1)

    def encode_text(self, captions: Tensor) -> Tensor:
        """The captions' places in the common space, (n, size), of unit length."""
        lengths = (captions != 0).sum(1)
        if not bool((lengths > 0).all()):
            raise ValueError(f"caption {int((lengths == 0).nonzero()[0])} has no words, expected at least one")
        states, _ = self.reader(self.words(captions))
        # The state after the last word; what comes after it is padding, which the GRU reads for nothing.
        last = states.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])).squeeze(1)
        return nn.functional.normalize(last, dim=-1)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.embed(images))
