"""Build a network from the names of a backbone and a head."""

import inspect
from typing import Any

from torch import Tensor, nn

from rankgrad import lookup
from rankgrad.layers import Head

__all__ = ["Network", "made"]


def made(folder: str, component: dict[str, Any], **runtime: Any) -> Any:
    """Return a component of a network, built with its options and with the sizes of the data that it needs.

    Args:
        folder: `models.backbones` or `models.heads`.
        component: `name` and `args`, and `files` if it has any, see `rankgrad.io.starts.with_files`.
        runtime: sizes of the data, such as `colors` or `features`; those that are not parameters are ignored.

    Raises:
        ValueError: a name or an option is unknown or invalid.
    """
    lookup.check_options(folder, component["name"], component.get("args", {}))
    make = lookup.find(folder, component["name"])
    parameters = inspect.signature(make).parameters
    taken = {name: value for name, value in runtime.items() if name in parameters}
    return make(**component.get("args", {}), **component.get("files", {}), **taken)


class Network(nn.Module):
    """A backbone, which may be frozen, used for another task, or started from trained weights, and a head.

    Args:
        backbone: `name` (a file of rankgrad/models/backbones) and `args`.
        head: `name` (a file of rankgrad/models/heads) and `args`.
        outputs: K, the number of scores.
        colors: channels of pictures, 1 (gray) or 3.
        features: the length of vectors.
        words: the vocabulary of text, see `rankgrad.vocabulary.Vocabulary`.

    Shapes:
        n inputs of the backbone to scores (n, K).

    Raises:
        ValueError: a name or an option is unknown, or the head does not fit the backbone.

    >>> import torch
    >>> convnet = {"name": "convnet", "args": {"channels": [8, 16]}}
    >>> network = Network(backbone=convnet, head={"name": "linear", "args": {}}, outputs=10)
    >>> network(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """

    head: Head

    def __init__(
        self,
        *,
        backbone: dict[str, Any],
        head: dict[str, Any],
        outputs: int,
        colors: int = 1,
        features: int | None = None,
        words: list[str] | None = None,
    ):
        super().__init__()
        sizes = {"colors": colors, "features": features, "words": words, "outputs": outputs}
        self.backbone = made("models.backbones", backbone, **sizes)
        self.head = made("models.heads", head, features=self.backbone.size, maps=self.backbone.maps, outputs=outputs)

    @property
    def embedding_size(self) -> int:
        """The number of channels of the last features before the scores."""
        return self.head.embedding_size

    def embed(self, inputs: Tensor, *sizes: Any) -> Tensor:
        """Return the input of the head (n, ...); for a frozen backbone, it can be stored."""
        return self.head.pool(self.backbone(inputs, *sizes))

    def forward(self, inputs: Tensor, *sizes: Any) -> Tensor:
        return self.head(self.embed(inputs, *sizes))
