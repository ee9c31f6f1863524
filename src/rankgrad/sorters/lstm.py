"""The LSTM sorter of SoDeep."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from rankgrad.checks import check_choice, check_count
from rankgrad.sorters._base import Sorter
from rankgrad.standardize import centered

__all__ = ["LSTM"]

Projection = Literal["full", "shared", "formula"]
UNIT = 2000.0  # cells with formula weights count in steps of 1 / UNIT, where tanh is linear


class LSTM(Sorter):
    r"""A bidirectional LSTM over the scores as a sequence (SoDeep); fixed length, needs training.

    SoDeep, Section 3.2: $\hat r = A\,\mathrm{vec}(h) + b$ with $h = \mathrm{BiLSTM}(s)$. With 2
    layers of 512 and length 100, it has the 18.7 M parameters of the authors' large model, 10.2 M of them in A.

    Args:
        length: d, the number of scores that it sorts.
        hidden: number of features per direction (512 in the authors' large model).
        layers: number of stacked LSTMs (2 in the authors' model).
        projection: `full`: each rank is an affine map of the features of all positions (as the authors do). `shared`:
            all positions use the same affine map of their own features, which learns several times faster. `formula`:
            a shared map, with all weights set by hand instead of trained, for one layer and standardized scores.
        standardize: scale each vector to mean 0 and variance 1 first, which does not change ranks.

    Shapes:
        scores (..., d) to ranks (..., d), 1 for the largest score.

    Raises:
        TypeError, ValueError: `length`, `hidden` or `layers` is not a whole number of at least 1; `projection` is
            unknown; or `formula` is used with other options or an odd `hidden`.

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
        linear = nn.Linear(2 * hidden * length, length) if projection == "full" else nn.Linear(2 * hidden, 1)
        self.projection = nn.Sequential(*((nn.Flatten(), linear) if projection == "full" else (linear, nn.Flatten())))
        if projection == "formula":
            if layers > 1 or not standardize or hidden % 2 or hidden < 4:
                raise ValueError(
                    f"projection is 'formula' with layers={layers}, standardize={standardize} and hidden={hidden}; "
                    "expected 1, True and an even number of at least 4"
                )
            self._write_down(length, hidden, linear)

    @torch.no_grad()
    def _write_down(self, length: int, hidden: int, linear: nn.Linear) -> None:
        """Set weights by hand that count scores.

        There are hidden / 2 thresholds at quantiles of the normal distribution, each with two cells. Both count the
        scores so far above the threshold: the input gate shows which are, and the forget gate stays open. One's output
        gate opens above the midpoint to the threshold below, the other's above the midpoint to the threshold above.
        Their difference, which the projection takes, is the count at the score's own threshold. Both directions
        together count all scores.
        """
        count = hidden // 2
        thresholds = torch.special.ndtri((torch.arange(count, dtype=torch.float64) + 0.5) / count)
        gaps, middles = thresholds.diff(), (thresholds[1:] + thresholds[:-1]) / 2
        above = 2.2 / torch.cat([gaps, gaps[-1:]])
        slopes, places = 4.4 / gaps, -4.4 / gaps * middles  # of output gates; the first is always open, the last never
        opened, closed = torch.tensor([60.0]).double(), torch.tensor([-60.0]).double()
        none, still = torch.zeros(1).double(), torch.zeros(2 * hidden).double()
        for direction in ("", "_reverse"):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weight, recurrent, bias, other = (getattr(self.recurrent, f"{name}_l0{direction}") for name in names)
            recurrent.zero_()
            other.zero_()
            # Gates in PyTorch's order: input, forget, candidate, output.
            weight[:, 0] = torch.cat([above, above, still, none, slopes, slopes, none])
            candidate = torch.full((hidden,), math.atanh(1 / UNIT)).double()
            counted = -above * thresholds
            bias.copy_(torch.cat([counted, counted, opened.expand(hidden), candidate, opened, places, places, closed]))
        row = torch.full((count,), UNIT / length)
        linear.weight.copy_(torch.cat([row, -row, row, -row]))
        linear.bias.fill_(-0.5)  # which `soft_ranks` adds
        self.requires_grad_(False)

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
