"""The LSTM sorter of SoDeep."""

import torch
from torch import Tensor, nn

from rankops.ranks import check_scores

__all__ = ["LSTM"]


class LSTM(nn.Module):
    r"""A bidirectional LSTM reads the scores as a sequence; an affine projection of each position is its rank.

    SoDeep, Section 3.2: $\hat r_i = a_i^\top h_i + b_i$ with $h = \mathrm{BiLSTM}(s)$. Of fixed length.

    Args:
        length: d, the number of scores it sorts.
        hidden: features of each direction (the authors' large one: 512).
        layers: stacked LSTMs (the authors': 2).
        projection: `position`, an affine map of its own for every position (the paper's), or `shared`, one for
            all of them, which learns several times faster.
        standardise: bring each vector to mean 0 and variance 1 first; ranks do not change under it.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        ValueError: scores of another length or not finite; an unknown `projection`.

    >>> LSTM(length=8, hidden=4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(
        self, *, length: int, hidden: int = 512, layers: int = 2, projection: str = "position",
        standardise: bool = False,
    ):  # fmt: skip
        super().__init__()
        if projection not in ("position", "shared"):
            raise ValueError(f"projection is {projection!r}, expected 'position' or 'shared'")
        self.length = length
        self.standardise = standardise
        self.recurrent = nn.LSTM(1, hidden, layers, batch_first=True, bidirectional=True)
        positions = length if projection == "position" else 1
        bound = (2 * hidden) ** -0.5
        self.weight = nn.Parameter(torch.empty(positions, 2 * hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.full((positions,), 0.5))

    def forward(self, scores: Tensor) -> Tensor:
        check_scores(scores, length=self.length)
        batch = scores.reshape(-1, self.length)
        if self.standardise:
            batch = nn.functional.layer_norm(batch, (self.length,), eps=1e-12)
        hidden, _ = self.recurrent(batch.unsqueeze(-1))  # (n, d, 2 hidden)
        relative = (hidden * self.weight).sum(-1) + self.bias  # (n, d), normalised ranks
        return (relative * self.length).reshape(scores.shape)
