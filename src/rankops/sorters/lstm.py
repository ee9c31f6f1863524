"""The LSTM sorter of SoDeep."""

from torch import Tensor, nn

from rankops.sorters.base import Sorter
from rankops.sorters.standardize import standardized

__all__ = ["LSTM"]


class LSTM(Sorter):
    r"""A bidirectional LSTM reads the scores as a sequence; an affine projection of its features gives the ranks.

    SoDeep, Section 3.2: $\hat r = A\,\mathrm{vec}(h) + b$ with $h = \mathrm{BiLSTM}(s)$. Of fixed length. With 2
    layers of 512 and length 100 it has the 18.7 M parameters of the authors' large one, 10.2 M of them in A.

    Args:
        length: d, the number of scores it sorts.
        hidden: features of each direction (the authors' large one: 512).
        layers: stacked LSTMs (the authors': 2).
        projection: `full`, each rank an affine map of all positions' features (the authors'), or `shared`, the same
            affine map of each position's own features, which learns several times faster.
        standardize: bring each vector to mean 0 and variance 1 first; ranks do not change under it.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: an unknown `projection`.

    >>> import torch
    >>> LSTM(length=8, hidden=4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    equivariant = False

    def __init__(
        self, *, length: int, hidden: int = 512, layers: int = 2, projection: str = "full",
        standardize: bool = False,
    ):  # fmt: skip
        super().__init__()
        if projection not in ("full", "shared"):
            raise ValueError(f"projection is {projection!r}, expected 'full' or 'shared'")
        self.length = length
        self.standardize = self.shift_invariant = self.scale_invariant = standardize
        self.recurrent = nn.LSTM(1, hidden, layers, batch_first=True, bidirectional=True)
        if projection == "full":
            self.projection = nn.Sequential(nn.Flatten(), nn.Linear(2 * hidden * length, length))
        else:
            self.projection = nn.Sequential(nn.Linear(2 * hidden, 1), nn.Flatten())

    def train(self, mode: bool = True) -> "LSTM":
        super().train(mode)
        # cuDNN has no gradient in evaluation mode, and a frozen sorter in a loss needs one. Without dropout both modes
        # compute the same.
        self.recurrent.train(True)
        return self

    def soft_ranks(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        batch = scores.reshape(-1, self.length)
        if self.standardize:
            batch = standardized(batch, detach=False)
            batch = batch - batch.mean(-1, keepdim=True)
        hidden, _ = self.recurrent(batch.to(self.recurrent.weight_ih_l0.dtype).unsqueeze(-1))  # (n, d, 2 hidden)
        relative = 0.5 + self.projection(hidden)  # (n, d), normalized ranks
        return (relative * self.length).reshape(scores.shape)
