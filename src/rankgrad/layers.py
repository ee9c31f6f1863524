"""What networks are made of: backbones, heads, and score layers that stay in float32 under autocast."""

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
    """What gives a head its features; what of it is frozen is as in evaluation, also while the rest is trained.

    Attributes:
        input: the kind of input that it takes: `image`, `features`, `text` or `text_pair`.
        maps: whether it gives maps (n, size, height, width) or vectors (n, size).
        size: channels of what it gives.
        small: whether it is computed on one thread, which several would only delay.
        left_out: how names of weights begin that a library publishes, and that have no place here: its classifier's.
        published_below: what may stand before the names of all others.
    """

    input: str
    maps: bool
    size: int
    small: bool = False
    left_out: Sequence[str] = ()
    published_below: Sequence[str] = ()

    @property
    def blocks(self) -> list[list[nn.Module]]:
        """Parts that are frozen or learn as a whole, from the input on; a normalization belongs to what it follows."""
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
        """Freeze `all` of it, all but so many of its last blocks, or nothing (None).

        Raises:
            ValueError: it has fewer blocks.
        """
        self.requires_grad_(which is None)
        if not isinstance(which, int):
            return
        blocks = self.blocks
        if not 1 <= which <= len(blocks):
            raise ValueError(f"freeze is {which}, expected 1 to {len(blocks)} last blocks that learn, all, or null")
        for block in blocks[-which:]:
            for part in block:
                part.requires_grad_(True)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.modules() if mode else ():
            weights = list(module.parameters())
            if weights and not any(one.requires_grad for one in weights):
                module.eval()  # statistics of batch normalization stay, and nothing is dropped
        return self


def _parts(module: nn.Module) -> list[nn.Module]:
    """Return the modules with weights in the order of their use: members of stacks of blocks one by one."""
    found = []
    for child in _weighted(module):
        holds_blocks = type(child) in STACKS or any(_holds_blocks(part) for part in child.modules())
        found += _parts(child) if holds_blocks else [child]
    return found


def _weighted(module: nn.Module) -> list[nn.Module]:
    return [child for child in module.children() if any(True for _ in child.parameters())]


STACKS = (nn.Sequential, nn.ModuleList)


def _holds_blocks(module: nn.Module) -> bool:
    """Whether a module is a stack of several modules of one class, as networks have their blocks."""
    kinds = [type(member) for member in module.children()]
    blocks = type(module) in STACKS and len(kinds) > 1 and len(set(kinds)) == 1
    return blocks and not issubclass(kinds[0], nn.Sequential)


class PhotoNetwork(Backbone):
    """A library's network without its classifier, on images normalized as its weights expect.

    A subclass has `layers`, which take normalized images (n, 3, height, width), and calls `measure`. Its weights are
    called as the library calls them, below the name of one attribute.
    """

    input = "image"
    layers: Any  # a module, or a method

    def measure(self, side: int, mean: Sequence[float], deviation: Sequence[float]) -> None:
        """Find out what the layers give of images of so many pixels on a side, without computing it."""
        self.mean = nn.Buffer(torch.tensor(mean).view(1, 3, 1, 1))
        self.deviation = nn.Buffer(torch.tensor(deviation).view(1, 3, 1, 1))
        self.eval()
        shape = self.shape_of(torch.empty(1, 3, side, side, device="meta"))
        self.maps, self.size = len(shape) == 4, shape[1]
        self.train()

    def shape_of(self, inputs: Tensor) -> torch.Size:
        """Return the shape of what it makes of inputs on the meta device."""
        weights = {name: value.to("meta") for name, value in (*self.named_parameters(), *self.named_buffers())}
        with torch.no_grad():
            return torch.func.functional_call(self, weights, (inputs,)).shape

    def forward(self, images: Tensor) -> Tensor:
        images = images.to(weight_dtype(self)).expand(-1, 3, -1, -1) / 255
        images = (images - self.mean) / self.deviation
        return self.layers(images.contiguous(memory_format=torch.channels_last))


def missing_extra(name: str) -> ModuleNotFoundError:
    """Return the error of a library that is an extra of this one and not installed."""
    return ModuleNotFoundError(f"{name} is not installed: pip install 'rankgrad[{name}]'", name=name)


class NumbersOnCpu(TorchFunctionMode):
    """Lets a network be built on the meta device that computes its widths with tensors: there they have no values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.arange, torch.linspace, torch.tensor):
            kwargs = {"device": "cpu"} | (kwargs or {})
        return func(*args, **(kwargs or {}))


class Head(nn.Module):
    """The part behind a backbone, in three steps, so that what is frozen can be kept, and an embedding lent.

    A subclass sets `score`, and implements `pool` and `embed` where these are not the identity. It is made with
    `features` (channels of the backbone), `maps` (whether these are maps or vectors) and `outputs`.

    Attributes:
        embedding_size: channels of what `embed` returns.
        score: takes what `embed` returns to scores (n, outputs).
    """

    embedding_size: int
    score: Any  # a layer, or a method

    def pool(self, features: Tensor) -> Tensor:
        """Return what can be kept of a frozen backbone's features, (n, ...): it needs no weights."""
        return features

    def embed(self, pooled: Tensor) -> Tensor:
        """Return the last features before the scores, (n, embedding_size), or maps of so many channels."""
        return pooled

    def forward(self, pooled: Tensor) -> Tensor:
        return self.score(self.embed(pooled))


class PooledHead(Head):
    """A head on vectors (n, embedding_size): maps are averaged over a grid of places.

    Args:
        features: channels of the backbone.
        maps: whether it gives maps or vectors, which stay as they are.
        grid: places on a side.
        maximum: whether the largest value of each map is a feature too.

    Raises:
        ValueError: a grid or a maximum of vectors, which have no places.
    """

    def __init__(self, features: int, *, maps: bool, grid: int, maximum: bool):
        super().__init__()
        check_count("grid", grid)
        if not maps and (grid > 1 or maximum):
            raise ValueError(f"grid is {grid} and maximum {maximum}, expected 1 and false: the backbone gives vectors")
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

    Frozen features are all positive and of any size. On these as they are, first scores are of any size too: MSE
    through a sigmoid then starts where it hardly has a gradient, and is no fair rival.

    >>> ScoreHead(3, 2)(torch.rand(4, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(self, features: int, outputs: int):
        super().__init__(nn.BatchNorm1d(features, affine=False), ScoreLayer(features, outputs))


def check_maps(head: str, maps: bool) -> None:
    """Raise a ValueError if a backbone gives vectors to a head that looks at places of maps."""
    if not maps:
        raise ValueError(f"{head} looks at places of maps, but the backbone gives vectors; try linear")


def extremes(maps: Tensor, *, highest: int, lowest_weight: float) -> Tensor:
    """Return the mean of the largest places of maps (..., height, width) plus a weight times that of the smallest.

    Where there are fewer places than `highest`, all of them are both.

    >>> extremes(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), highest=1, lowest_weight=0.5)
    tensor([4.5000])
    """
    ordered = maps.flatten(-2).sort(dim=-1, descending=True).values
    count = min(highest, ordered.shape[-1])
    return ordered[..., :count].mean(-1) + lowest_weight * ordered[..., -count:].mean(-1)


def similarities(images: Tensor, captions: Tensor) -> Tensor:
    """Return inner products (..., n, m) of embeddings (..., n, size) and (..., m, size), in single precision at least.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     similarities(torch.eye(2), torch.eye(2)).dtype
    torch.float32
    """
    with torch.autocast(images.device.type, enabled=False):
        images, captions = (part if part.dtype == torch.float64 else part.float() for part in (images, captions))
        return images @ captions.mT
