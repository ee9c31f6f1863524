"""A Simple Recurrent Unit: a recurrent network whose steps are only additions and elementwise products."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.models.backbones._word_numbers import WordBackbone, check_words, word_vectors

__all__ = ["Sru"]


class Sru(WordBackbone):
    r"""Layers of Simple Recurrent Units (Lei et al. 2018) over the words of a text; the last state is the output.

    DSVE and SoDeep (Section 4.2.3) read captions with it. With input $x_t$, a word or the output of the layer before,

    $$c_t = f_t c_{t-1} + (1 - f_t) W x_t, \quad h_t = r_t \tanh(c_t) + (1 - r_t) V x_t, \quad
    f_t = \sigma(W_f x_t + b_f), \quad r_t = \sigma(W_r x_t + b_r);$$

    where V is the identity if sizes allow it. Matrix products do not depend on the previous step, and the states of all
    steps are computed in log2(length) passes.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        size: the size of a text's vector; 2400 in DSVE.
        word_size: the size of a word's embedding; 620 in DSVE.
        layers: the number of layers; 4 in DSVE.
        dropout: dropout rate between layers.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size).

    Raises:
        ValueError: a text has no words, or a size or `layers` is below 1.

    >>> from rankgrad.vocabulary import Vocabulary
    >>> sru = Sru(words=Vocabulary.of(["a large three"]).words, size=12)
    >>> sru(sru.tokenize(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    def __init__(
        self,
        *,
        words: Sequence[str],
        size: int = 256,
        word_size: int = 128,
        layers: int = 4,
        dropout: float = 0.25,
    ):
        super().__init__(words)
        for name, count in (("size", size), ("word_size", word_size), ("layers", layers)):
            check_count(name, count)
        self.size = size
        self.words = word_vectors(len(words), word_size)
        self.layers = nn.ModuleList(_Layer(size if depth else word_size, size) for depth in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        check_words(tokens)
        lengths = (tokens != 0).sum(1)
        states = self.words(tokens)
        for depth, layer in enumerate(self.layers):
            states = layer(self.dropout(states) if depth else states)
        return states[torch.arange(len(tokens), device=tokens.device), lengths - 1]


class _Layer(nn.Module):
    """Compute states (n, length, size) from inputs (n, length, features)."""

    def __init__(self, features: int, size: int):
        super().__init__()
        self.inputs = nn.Linear(features, (3 if features == size else 4) * size, bias=False)
        self.forget, self.reset = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size))

    def forward(self, inputs: Tensor) -> Tensor:
        size = len(self.forget)
        candidate, forget, reset, *projected = self.inputs(inputs).split(size, dim=-1)
        kept, reset = (forget + self.forget).sigmoid(), (reset + self.reset).sigmoid()
        cells = _recurrence(kept, (1 - kept) * candidate)
        return reset * cells.tanh() + (1 - reset) * (projected[0] if projected else inputs)


def _recurrence(factors: Tensor, terms: Tensor) -> Tensor:
    """Return c_t = factors_t c_{t-1} + terms_t from c_{-1} = 0 along the second dimension, without a loop over it.

    Two consecutive steps combine to one step of the same form; each pass combines every step with the one that ends
    where it starts.
    """
    reach = 1
    while reach < terms.shape[1]:
        factors_before = nn.functional.pad(factors[:, :-reach], (0, 0, reach, 0))
        terms_before = nn.functional.pad(terms[:, :-reach], (0, 0, reach, 0))
        factors, terms = factors * factors_before, terms + factors * terms_before
        reach *= 2
    return terms
