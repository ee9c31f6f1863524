"""The convolutional sorter of SoDeep."""

from torch import Tensor, nn

from rankops.sorters.base import Sorter
from rankops.sorters.standardize import standardized

__all__ = ["CNN"]


class CNN(Sorter):
    r"""Blocks of [Conv1d, BatchNorm, ReLU] over the scores as a sequence, then an affine layer.

    SoDeep, Section 3.2 and Fig. 4 (depth saturates at 8). Of fixed length.

    Args:
        length: d, the number of scores it sorts.
        channels: of the hidden blocks.
        layers: number of blocks.
        kernel: width of the convolutions, odd.
        dilated: dilation 1, 2, 4, ... (while it fits the length, then from 1 again): $\lceil \log_2 d \rceil$ layers of
            kernel 3 are enough for every position to see all scores; without it, or with fewer, one sees those near it
            alone until the paper's affine layer (`output`).
        output: `channel`, the paper's: the last block makes d channels, and one affine layer over its positions
            makes each channel a rank; or `position`: an affine map, the same for all positions, of the channels
            there, which learns several times faster.
        standardize: bring each vector to mean 0 and variance 1 first; ranks do not change under it.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: an even `kernel`; an unknown `output`; no layer.

    >>> import torch
    >>> CNN(length=8, channels=4, layers=2).eval()(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    equivariant = False

    def __init__(
        self, *, length: int, channels: int = 64, layers: int = 8, kernel: int = 3, dilated: bool = False,
        output: str = "channel", standardize: bool = False,
    ):  # fmt: skip
        super().__init__()
        if output not in ("channel", "position"):
            raise ValueError(f"output is {output!r}, expected 'channel' or 'position'")
        if kernel % 2 == 0:
            raise ValueError(f"kernel is {kernel}, expected an odd number")
        if layers < 1:
            raise ValueError(f"layers is {layers}, expected at least 1")
        self.length = length
        self.output = output
        self.standardize = self.shift_invariant = self.scale_invariant = standardize
        # Up to the largest power of 2 below the length: together they reach from one end to the other.
        cycle = max(1, (length - 1).bit_length()) if dilated else 1
        blocks: list[nn.Module] = []
        width = 1
        for layer in range(layers):
            wider = length if output == "channel" and layer == layers - 1 else channels
            dilation = 2 ** (layer % cycle)
            padding = dilation * (kernel // 2)
            blocks += [
                # BatchNorm brings its own shift.
                nn.Conv1d(width, wider, kernel, padding=padding, dilation=dilation, bias=False),
                nn.BatchNorm1d(wider),
                nn.ReLU(),
            ]
            width = wider
        self.blocks = nn.Sequential(*blocks)
        self.affine = nn.Linear(length if output == "channel" else width, 1)

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        batch = scores.reshape(-1, self.length)
        if self.standardize:
            batch = standardized(batch, detach=False)
            batch = batch - batch.mean(-1, keepdim=True)
        features = self.blocks(batch.to(self.affine.weight.dtype).unsqueeze(1))  # (n, channels, d)
        if self.output == "position":
            features = features.transpose(1, 2)
        relative = 0.5 + self.affine(features).squeeze(-1)  # (n, d), normalized ranks
        return (relative * self.length).reshape(scores.shape)
