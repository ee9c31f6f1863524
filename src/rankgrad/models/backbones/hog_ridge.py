"""A linear model of histograms of oriented gradients and of colors, fitted when the network is built."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.fitted import FittedBackbone
from rankgrad.inputs.features import of_tensor
from rankgrad.models.backbones._gradients import DIRECTIONS, binned, oriented_gradients
from rankgrad.models.backbones.ridge import Ridge

__all__ = ["HOGRidge"]

CELL = 2  # pixels per side of the cells whose histograms are averaged
HUES = 12  # bins of a histogram of hues, over the whole circle


class HOGRidge(FittedBackbone):
    """Ridge regression on histograms of oriented gradients (Dalal and Triggs, 2005) and of hues, and on mean colors.

    Of histograms of hues, the square roots are used, so that a large area does not outweigh all others.

    Args:
        colors: channels of the pictures, 1 (gray) or 3.
        outputs: K, the number of scores.
        cells: cells per side of a picture; each has a histogram.
        penalty: the factor of the squared weights in the mean loss.

    Shapes:
        pictures (n, colors, height, width) uint8 or float in 0..255 to scores (n, K).

    Raises:
        ValueError: `cells` is below 1, or the penalty is not above 0.

    >>> import torch
    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.image import of_tensor
    >>> halves = (torch.arange(16) // 8 * 255).to(torch.uint8).expand(1, 1, 16, 16)
    >>> edges = torch.cat([halves, halves.mT])  # a vertical edge, and a horizontal one
    >>> model = HOGRidge(outputs=1, cells=2)
    >>> model.fit(Split(of_tensor(edges), torch.tensor([1.0, 2.0])))
    >>> vertical, horizontal = model(edges).squeeze(1)
    >>> bool(vertical < horizontal)
    True
    """

    input, small = "image", False

    def __init__(self, *, colors: int = 1, outputs: int, cells: int = 4, penalty: float = 0.1):
        super().__init__()
        check_count("cells", cells)
        self.cells, self.size = cells, outputs
        features = (DIRECTIONS + colors + (HUES if colors == 3 else 0)) * cells**2
        self.ridge = Ridge(features=features, outputs=outputs, penalty=penalty)
        self.of_roots = nn.Buffer(torch.tensor(True))  # so that a model of an older version, without roots, is refused

    def set_weights(self, split: Any) -> None:
        inputs = split.inputs
        described = inputs.of_rows(torch.cat([self._described(pictures) for pictures in inputs.parts()]))
        self.ridge.fit(replace(split, inputs=of_tensor(described)))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.ridge(self._described(pictures))

    def _described(self, pictures: Tensor) -> Tensor:
        """Return the histograms and mean colors of pictures (n, features)."""
        gradients = self._averaged(oriented_gradients(pictures, CELL))
        if pictures.shape[1] == 1:
            return gradients
        hues = self._averaged(_hues(pictures.float() / 255))
        return torch.cat([gradients, hues.sqrt()], 1)

    def _averaged(self, maps: Tensor) -> Tensor:
        """Return the mean of each cell of maps, (n, features)."""
        return nn.functional.adaptive_avg_pool2d(maps, self.cells).flatten(1)


def _hues(pixels: Tensor) -> Tensor:
    """Return maps (n, hues, height, width) of pixels (n, 3, height, width): the chroma, in the two nearest hues."""
    red, green, blue = pixels.unsqueeze(2).unbind(1)
    across, along = math.sqrt(3) / 2 * (green - blue), red - (green + blue) / 2
    return binned(torch.atan2(across, along) / (2 * math.pi), torch.hypot(across, along), HUES)
