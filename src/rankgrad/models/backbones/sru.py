"""A Simple Recurrent Unit: a recurrent network whose steps are additions and products alone."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.models.backbones._word_numbers import WordBackbone, check_words, word_vectors

__all__ = ["Sru"]


class Sru(WordBackbone):
    r"""Layers of Simple Recurrent Units (Lei et al. 2018) over the words of a text; its last state counts.

    So DSVE and SoDeep (Section 4.2.3) read captions. With the word (or the layer before) $x_t$,

    $$c_t = f_t c_{t-1} + (1 - f_t) W x_t, \quad h_t = r_t \tanh(c_t) + (1 - r_t) V x_t, \quad
    f_t = \sigma(W_f x_t + b_f), \quad r_t = \sigma(W_r x_t + b_r);$$

    V is the identity where it can be. What is multiplied by matrices does not wait for the step before, and the
    states of all steps are computed in as many passes as the logarithm of the text's length.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        size: of a text's vector; DSVE's is 2400.
        word_size: of a word's embedding; DSVE's is 620.
        layers: DSVE has 4.
        dropout: share of features between layers that are left out in training.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size).

    Raises:
        ValueError: a text without words; a size or `layers` below 1.

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
    """States (n, length, size) of inputs (n, length, features)."""

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
    """Return c_t = factors_t c_{t-1} + terms_t from c_{-1} = 0, along the second dimension, without a loop over it.

    Two steps in turn are one step of the same form: each pass joins every step with that which ends where it begins.
    """
    reach = 1
    while reach < terms.shape[1]:
        factors_before = nn.functional.pad(factors[:, :-reach], (0, 0, reach, 0))
        terms_before = nn.functional.pad(terms[:, :-reach], (0, 0, reach, 0))
        factors, terms = factors * factors_before, terms + factors * terms_before
        reach *= 2
    return terms
