"""The convolutional sorter of SoDeep."""

from collections.abc import Sequence

from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.sorters._base import Sorter
from rankgrad.standardize import centered

__all__ = ["CNN"]


class CNN(Sorter):
    r"""A convolutional network over the scores as a sequence (SoDeep); fixed length, needs training.

    Blocks of [Conv1d, BatchNorm, ReLU], then an affine layer: SoDeep, Section 3.2 and Fig. 4 (depth saturates at 8).

    By default the convolutions are padded, 3 wide, with dilation 1, 2, 4, ... (while it fits the length, then from 1
    again), so that with $\lceil \log_2 d \rceil$ layers every position sees all scores; all positions share the same
    affine map of their channels. With `kernels`, it is the network of the paper: unpadded, so that the last block has d
    channels of length 1, which an affine map turns into ranks. That network learns several times more slowly.

    Args:
        length: d, the number of scores that it sorts.
        channels: number of channels of the hidden blocks.
        layers: number of blocks.
        kernels: widths of the unpadded convolutions, one per layer, with a sum of d + `layers` - 1.
        standardize: scale each vector to mean 0 and variance 1 first, which does not change ranks.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        TypeError, ValueError: `length`, `channels` or `layers` is not a whole number of at least 1; or `kernels` has
            the wrong number of widths or the wrong sum, or a width below 1.

    >>> import torch
    >>> CNN(length=8, channels=4, layers=2).eval()(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    >>> CNN(length=8, channels=4, layers=3, kernels=[2, 3, 5]).eval()(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    equivariant = False

    def __init__(
        self,
        *,
        length: int,
        channels: int = 64,
        layers: int = 8,
        kernels: Sequence[int] | None = None,
        standardize: bool = False,
    ):
        super().__init__()
        for name, count in (("length", length), ("channels", channels), ("layers", layers)):
            check_count(name, count)
        total = length + layers - 1
        if kernels is not None and (len(kernels) != layers or min(kernels) < 1 or sum(kernels) != total):
            expected = (
                f"layers = {layers} widths, d + layers - 1 = {total} in total, so that all {length} scores are seen"
            )
            raise ValueError(f"kernels is {kernels}, {sum(kernels)} in total, expected {expected}")
        self.length = length
        self.standardize = self.shift_invariant = self.scale_invariant = standardize
        # Up to the largest power of 2 below the length, so that together they reach from one end to the other.
        cycle = max(1, (length - 1).bit_length())
        blocks: list[nn.Module] = []
        width = 1
        for layer in range(layers):
            wider = channels if kernels is None or layer < layers - 1 else length
            # BatchNorm has its own bias.
            if kernels is None:
                dilation = 2 ** (layer % cycle)
                convolution = nn.Conv1d(width, wider, 3, padding=dilation, dilation=dilation, bias=False)
            else:
                convolution = nn.Conv1d(width, wider, kernels[layer], bias=False)
            blocks += [convolution, nn.BatchNorm1d(wider), nn.ReLU()]
            width = wider
        self.blocks = nn.Sequential(*blocks)
        self.affine = nn.Linear(width, 1 if kernels is None else length)

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        batch = scores.reshape(-1, scores.shape[-1])
        if self.standardize:
            batch = centered(batch)
        features = self.blocks(batch.to(self.affine.weight.dtype).unsqueeze(1))  # (n, channels, d), or (n, d, 1)
        relative = 0.5 + self.affine(features.transpose(1, 2)).flatten(1)  # (n, d), normalized ranks
        return (relative * scores.shape[-1]).reshape(scores.shape)
