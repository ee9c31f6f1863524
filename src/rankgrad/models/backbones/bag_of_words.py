"""A bag of words: the sum of word vectors, regardless of order."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.models.backbones._word_numbers import CountingBackbone, check_words, sides, word_vectors

__all__ = ["BagOfWords"]


class BagOfWords(CountingBackbone):
    r"""The sum of a text's word vectors over the square root of their number (after fastText, Joulin et al. 2017).

    With the head `linear` and `standardize: false`, scores are linear in word counts; with few rows, hardly any network
    is better. For two texts read together, each text has its own vector; only `knrm` compares their words. Words not in
    training have the vector 0.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`; for pairs, it contains `PAIR`.
        size: the size of a text's vector.
        pieces: add the vectors of pieces of words and of pairs of neighboring words, too.
        tf_idf: weigh the vectors by tf-idf instead, as `rankgrad.models.backbones.word_counts.WordCounts` does.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size), or for pairs to (n, 2 size).

    Raises:
        ValueError: the size is below 1, or a text has no words.

    >>> from rankgrad.vocabulary import Vocabulary
    >>> bag = BagOfWords(words=Vocabulary.of(["a large three"]).words, size=12)
    >>> bag(bag.tokenize(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    small = True

    def __init__(self, *, words: Sequence[str], size: int = 64, pieces: bool = False, tf_idf: bool = False):
        super().__init__(words, pieces=pieces, tf_idf=tf_idf, is_kept=tf_idf)  # models trained before have none
        check_count("size", size)
        self.size = size if self.pair is None else 2 * size
        self.words = word_vectors(len(self.vocabulary), size)
        # Otherwise the initial vectors of rare words outweigh what is learned.
        self.words.weight.data.div_(size)

    def fit(self, split: Any) -> None:
        """Set the rarity of each word to that in a training split of texts, if vectors are weighed by tf-idf."""
        self.fit_rarity(split.inputs.items)

    def forward(self, tokens: Tensor) -> Tensor:
        check_words(tokens)
        if self.pair is None:
            return self._summed(tokens)
        return torch.cat([self._summed(tokens.masked_fill(~side, 0)) for side in sides(tokens, self.pair)], 1)

    def _summed(self, tokens: Tensor) -> Tensor:
        """Return sums (n, size) over the words of each text."""
        words, values = self.counted(tokens)
        if not self.tf_idf:
            values = values / (tokens != 0).sum(1, keepdim=True).clamp(min=1).sqrt()
        return torch.einsum("nl,nls->ns", values.to(self.words.weight.dtype), self.words(words))
