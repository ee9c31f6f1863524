"""The LSTM sorter of SoDeep."""

from typing import Literal

from torch import Tensor, nn

from rankops.checks import check_choice, check_count
from rankops.sorters._base import Sorter
from rankops.sorters._standardize import centered

__all__ = ["LSTM"]

Projection = Literal["full", "shared"]


class LSTM(Sorter):
    r"""A bidirectional LSTM over the scores as a sequence (SoDeep); fixed length, needs training.

    SoDeep, Section 3.2: $\hat r = A\,\mathrm{vec}(h) + b$ with $h = \mathrm{BiLSTM}(s)$. With 2
    layers of 512 and length 100 it has the 18.7 M parameters of the authors' large one, 10.2 M of them in A.

    Args:
        length: d, the number of scores that it sorts.
        hidden: features of each direction (the authors' large one: 512).
        layers: stacked LSTMs (the authors': 2).
        projection: `full`, each rank an affine map of all positions' features (the authors'), or `shared`, the same
            affine map of each position's own features, which learns several times faster.
        standardize: bring each vector to mean 0 and variance 1 first, which changes no rank.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        TypeError, ValueError: `length`, `hidden` or `layers` that is no whole number of at least 1; an unknown
            `projection`.

    >>> import torch
    >>> LSTM(length=8, hidden=4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    equivariant = False

    def __init__(
        self,
        *,
        length: int,
        hidden: int = 512,
        layers: int = 2,
        projection: Projection = "full",
        standardize: bool = False,
    ):
        super().__init__()
        for name, count in (("length", length), ("hidden", hidden), ("layers", layers)):
            check_count(name, count)
        check_choice("projection", projection, Projection)
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
        batch = scores.reshape(-1, scores.shape[-1])
        if self.standardize:
            batch = centered(batch)
        hidden, _ = self.recurrent(batch.to(next(self.parameters()).dtype).unsqueeze(-1))  # (n, d, 2 hidden)
        relative = 0.5 + self.projection(hidden)  # (n, d), normalized ranks
        return (relative * scores.shape[-1]).reshape(scores.shape)
