"""A linear model of word counts, fitted when the network is built."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.checks import check_positive
from rankgrad.fitted import FittedBackbone, linear_weights, sparse_rows
from rankgrad.models.backbones._word_numbers import CountingBackbone, check_words, sides

__all__ = ["WordCounts"]


class WordCounts(FittedBackbone, CountingBackbone):
    r"""Ridge regression on word counts or on tf-idf; for preferences, the Bradley-Terry model with the same penalty.

    Of two texts read together, such as a prompt and an answer, only the words of the second count. Words not in
    training count nothing.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`; for pairs, it contains `PAIR`.
        outputs: K, the number of scores.
        penalty: the factor of the squared weights in the mean loss.
        pieces: count pieces of words and pairs of neighboring words, too.
        tf_idf: whether a word counts $(1 + \log n) (1 + \log\frac{1 + N}{1 + N_w})$ for its n occurrences in a text,
            if it is in $N_w$ of N training texts, and each text has length 1; otherwise it counts n.

    Shapes:
        word numbers (n, longest), padded with 0, to scores (n, K).

    Raises:
        ValueError: the penalty is not above 0, or a text has no words.

    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.text import Text, of_strings
    >>> texts = of_strings(["a cheap room", "a large room", "a large house"])
    >>> model = WordCounts(**Text.runtime(texts), outputs=1)
    >>> model.fit(Split(texts, torch.tensor([10.0, 20.0, 40.0])))
    >>> model(model.tokenize(["cheap", "large", "large house"])).squeeze(1).argsort().tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        *,
        words: Sequence[str],
        outputs: int,
        penalty: float = 0.01,
        pieces: bool = False,
        tf_idf: bool = False,
    ):
        super().__init__(words, pieces=pieces, tf_idf=tf_idf)
        check_positive("penalty", penalty)
        self.penalty, self.size = penalty, outputs
        self.weights = nn.Parameter(torch.zeros(len(self.vocabulary), outputs))
        self.biases = nn.Parameter(torch.zeros(outputs))

    def set_weights(self, split: Any) -> None:
        self.fit_rarity(split.inputs.items)
        weights, biases = linear_weights(self._matrix(split.inputs.items), split, self.penalty)
        with torch.no_grad():
            self.weights.copy_(weights.mT)
            self.biases.copy_(biases)

    def forward(self, tokens: Tensor) -> Tensor:
        check_words(tokens)
        words, values = self.counted(tokens)
        # In the precision of the weights, as `rankgrad.layers.ScoreLayer` does.
        with torch.autocast(tokens.device.type, enabled=False):
            return torch.einsum("nl,nlk->nk", values.to(self.weights.dtype), self.weights[words]) + self.biases

    def counted(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if self.pair is not None:
            tokens = tokens.masked_fill(~sides(tokens, self.pair)[1], 0)
        return super().counted(tokens)

    def _matrix(self, texts: Sequence[str]) -> Any:
        """Return what each word of the vocabulary counts in each text, a sparse matrix (n, words)."""
        from scipy.sparse import vstack

        parts = [sparse_rows(*self.counted(tokens), len(self.rarity)) for tokens in self.chunks(texts)]
        return vstack(parts, format="csr")
