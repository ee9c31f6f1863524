"""Parts of networks: backbones, heads, and score layers that stay in float32 under autocast."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rankgrad.checks import check_count

__all__ = [
    "Backbone",
    "Freeze",
    "Head",
    "NumbersOnCpu",
    "PhotoNetwork",
    "PooledHead",
    "ScoreHead",
    "ScoreLayer",
    "check_maps",
    "extremes",
    "missing_extra",
    "similarities",
    "weight_dtype",
]

Freeze = Literal["all"] | int | None


def weight_dtype(network: nn.Module) -> torch.dtype:
    """Return the type of a network's weights; inputs in this type work under autocast and in half precision."""
    return next(network.parameters()).dtype


class Backbone(nn.Module):
    """Compute features for a head. Frozen parts stay in evaluation mode, also while the rest is trained.

    Attributes:
        input: the input type that it takes: `image`, `features`, `text` or `text_pair`.
        maps: whether it returns maps (n, size, height, width) or vectors (n, size).
        size: number of channels of its features.
        small: whether to compute it on one thread, because several would be slower.
        tasks: the tasks that it supports; None for all.
        left_out: prefixes of published weights to ignore, such as those of the classifier.
        published_below: prefixes that published files may put before all other names.
    """

    input: str
    maps: bool
    size: int
    small: bool = False
    tasks: Sequence[str] | None = None
    left_out: Sequence[str] = ()
    published_below: Sequence[str] = ()

    @property
    def blocks(self) -> list[list[nn.Module]]:
        """The blocks that can be frozen, from the input on; a normalization belongs to the layer before it."""
        blocks: list[list[nn.Module]] = []
        root: nn.Module = self
        while len(inner := _weighted(root)) == 1 and _weighted(inner[0]):
            root = inner[0]
        for part in _parts(root):
            if "Norm" in type(part).__name__ and blocks:
                blocks[-1].append(part)
            else:
                blocks.append([part])
        return blocks

    def freeze(self, which: Freeze) -> None:
        """Freeze everything (`all`), all but the given number of last blocks, or nothing (None).

        Raises:
            ValueError: the backbone has fewer blocks.
        """
        self.requires_grad_(which is None)
        if not isinstance(which, int):
            return
        blocks = self.blocks
        if not 1 <= which <= len(blocks):
            raise ValueError(f"freeze is {which}, expected 1 to {len(blocks)} last blocks to train, all, or null")
        for block in blocks[-which:]:
            for part in block:
                part.requires_grad_(True)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.modules() if mode else ():
            weights = list(module.parameters())
            if weights and not any(one.requires_grad for one in weights):
                module.eval()  # keeps batch normalization's statistics, and disables dropout
        return self


def _parts(module: nn.Module) -> list[nn.Module]:
    """Return the modules with weights in order of use; the members of stacks of blocks are listed individually."""
    found = []
    for child in _weighted(module):
        holds_blocks = type(child) in STACKS or any(_holds_blocks(part) for part in child.modules())
        found += _parts(child) if holds_blocks else [child]
    return found


def _weighted(module: nn.Module) -> list[nn.Module]:
    return [child for child in module.children() if any(True for _ in child.parameters())]


STACKS = (nn.Sequential, nn.ModuleList)


def _holds_blocks(module: nn.Module) -> bool:
    """Return whether a module is a stack of several modules of the same class, as the blocks of a network are."""
    kinds = [type(member) for member in module.children()]
    blocks = type(module) in STACKS and len(kinds) > 1 and len(set(kinds)) == 1
    return blocks and not issubclass(kinds[0], nn.Sequential)


class PhotoNetwork(Backbone):
    """A library's network without its classifier, on images normalized as its weights expect.

    A subclass has `layers`, which take normalized images (n, 3, height, width), and calls `measure`. Its weights have
    the library's names, prefixed with the name of one attribute.
    """

    input = "image"
    layers: Any  # a module, or a method

    def measure(self, side: int, mean: Sequence[float], deviation: Sequence[float]) -> None:
        """Determine the shape of the layers' output for images of `side` pixels per side, without computing it."""
        self.mean = nn.Buffer(torch.tensor(mean).view(1, 3, 1, 1))
        self.deviation = nn.Buffer(torch.tensor(deviation).view(1, 3, 1, 1))
        self.eval()
        shape = self.shape_of(torch.empty(1, 3, side, side, device="meta"))
        self.maps, self.size = len(shape) == 4, shape[1]
        self.train()

    def shape_of(self, inputs: Tensor) -> torch.Size:
        """Return the output shape, from inputs on the meta device."""
        weights = {name: value.to("meta") for name, value in (*self.named_parameters(), *self.named_buffers())}
        with torch.no_grad():
            return torch.func.functional_call(self, weights, (inputs,)).shape

    def forward(self, images: Tensor) -> Tensor:
        images = images.to(weight_dtype(self)).expand(-1, 3, -1, -1) / 255
        images = (images - self.mean) / self.deviation
        return self.layers(images.contiguous(memory_format=torch.channels_last))


def missing_extra(name: str) -> ModuleNotFoundError:
    """Return the error for an optional library that is not installed."""
    return ModuleNotFoundError(f"{name} is not installed: pip install 'rankgrad[{name}]'", name=name)


class NumbersOnCpu(TorchFunctionMode):
    """Allow building networks on the meta device that compute widths with tensors, which have no values there."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.arange, torch.linspace, torch.tensor):
            kwargs = {"device": "cpu"} | (kwargs or {})
        return func(*args, **(kwargs or {}))


class Head(nn.Module):
    """The part after a backbone, in three steps, so that frozen features can be cached and embeddings reused.

    A subclass sets `score`, and implements `pool` and `embed` if they are not the identity. Its constructor takes
    `features` (channels of the backbone), `maps` (whether these are maps or vectors), and `outputs`.

    Attributes:
        embedding_size: number of channels that `embed` returns.
        score: maps the output of `embed` to scores (n, outputs).
    """

    embedding_size: int
    score: Any  # a layer, or a method

    def pool(self, features: Tensor) -> Tensor:
        """Return the part of a frozen backbone's features to cache, (n, ...); it depends on no weights of the head."""
        return features

    def embed(self, pooled: Tensor) -> Tensor:
        """Return the last features before the scores, (n, embedding_size), or maps with that number of channels."""
        return pooled

    def forward(self, pooled: Tensor) -> Tensor:
        return self.score(self.embed(pooled))


class PooledHead(Head):
    """A head on vectors (n, embedding_size); it averages maps over the cells of a grid.

    Args:
        features: channels of the backbone.
        maps: whether the backbone returns maps, or vectors, which do not change.
        grid: cells per side.
        maximum: whether the largest value of each map is also a feature.

    Raises:
        ValueError: grid or maximum is set, but the backbone returns vectors.
    """

    def __init__(self, features: int, *, maps: bool, grid: int, maximum: bool):
        super().__init__()
        check_count("grid", grid)
        if not maps and (grid > 1 or maximum):
            raise ValueError(
                f"grid is {grid} and maximum {maximum}, expected 1 and false: the backbone returns vectors"
            )
        self.grid, self.maximum, self.embedding_size = grid, maximum, features * (grid * grid + maximum)

    def pool(self, features: Tensor) -> Tensor:
        if features.dim() == 2:
            return features
        one = self.grid == 1
        means = features.mean((2, 3)) if one else nn.functional.adaptive_avg_pool2d(features, self.grid).flatten(1)
        return torch.cat([means, features.amax((2, 3))], dim=1) if self.maximum else means


class ScoreLayer(nn.Linear):
    """A linear layer that ignores autocast: it computes in the precision of its weights.

    bfloat16 cannot distinguish scores closer than 0.008 near 1; a ranking loss would treat them as ties.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     nn.Linear(3, 2)(torch.zeros(1, 3)).dtype, ScoreLayer(3, 2)(torch.zeros(1, 3)).dtype
    (torch.bfloat16, torch.float32)
    """

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class ScoreHead(nn.Sequential):
    """A score layer on standardized features (n, features), so that one learning rate suits all of them.

    Frozen features are positive and can have any magnitude. Without standardizing, the first scores can, too: MSE
    through a sigmoid would then start with almost no gradient, which would make comparisons with it unfair.

    >>> ScoreHead(3, 2)(torch.rand(4, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(self, features: int, outputs: int):
        super().__init__(nn.BatchNorm1d(features, affine=False), ScoreLayer(features, outputs))


def check_maps(head: str, maps: bool) -> None:
    """Raise a ValueError if a backbone returns vectors but the head needs maps."""
    if not maps:
        raise ValueError(f"{head} needs maps, but the backbone returns vectors; try linear")


def extremes(maps: Tensor, *, highest: int, lowest_weight: float) -> Tensor:
    """Return the mean of the largest values of maps (..., height, width) plus a weight times that of the smallest.

    If a map has fewer values than `highest`, both means are over all values.

    >>> extremes(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), highest=1, lowest_weight=0.5)
    tensor([4.5000])
    """
    ordered = maps.flatten(-2).sort(dim=-1, descending=True).values
    count = min(highest, ordered.shape[-1])
    return ordered[..., :count].mean(-1) + lowest_weight * ordered[..., -count:].mean(-1)


def similarities(images: Tensor, captions: Tensor) -> Tensor:
    """Return inner products (..., n, m) of embeddings (..., n, size) and (..., m, size), at least in float32.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     similarities(torch.eye(2), torch.eye(2)).dtype
    torch.float32
    """
    with torch.autocast(images.device.type, enabled=False):
        images, captions = (part if part.dtype == torch.float64 else part.float() for part in (images, captions))
        return images @ captions.mT
