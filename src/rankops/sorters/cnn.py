"""The convolutional sorter of SoDeep."""

from typing import Literal

from torch import Tensor, nn

from rankops.checks import check_choice, check_count
from rankops.sorters.base import Sorter
from rankops.sorters.standardize import centered

__all__ = ["CNN"]

Output = Literal["channel", "position"]


class CNN(Sorter):
    r"""A convolutional network over the scores as a sequence (SoDeep); fixed length, needs training.

    Blocks of [Conv1d, BatchNorm, ReLU], then an affine layer: SoDeep, Section 3.2 and Fig. 4 (depth saturates at 8).

    Args:
        length: d, the number of scores that it sorts.
        channels: of the hidden blocks.
        layers: number of blocks.
        kernel: width of the convolutions, odd.
        dilated: dilation 1, 2, 4, ... (while it fits the length, then from 1 again), so that $\lceil \log_2 d \rceil$
            layers of kernel 3 let every position see all scores; without it, a position sees its neighbors alone before
            the affine layer.
        output: `channel`, the paper's: the last block makes d channels, and one affine layer over its positions
            makes each channel a rank; or `position`: an affine map, the same for all positions, of the channels
            there, which learns several times faster.
        standardize: bring each vector to mean 0 and variance 1 first, which changes no rank.

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
        self,
        *,
        length: int,
        channels: int = 64,
        layers: int = 8,
        kernel: int = 3,
        dilated: bool = False,
        output: Output = "channel",
        standardize: bool = False,
    ):
        super().__init__()
        check_choice("output", output, Output)
        check_count("layers", layers)
        if kernel % 2 == 0:
            raise ValueError(f"kernel is {kernel}, expected an odd number")
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
        batch = scores.reshape(-1, scores.shape[-1])
        if self.standardize:
            batch = centered(batch)
        features = self.blocks(batch.to(self.affine.weight.dtype).unsqueeze(1))  # (n, channels, d)
        if self.output == "position":
            features = features.transpose(1, 2)
        relative = 0.5 + self.affine(features).squeeze(-1)  # (n, d), normalized ranks
        return (relative * scores.shape[-1]).reshape(scores.shape)
