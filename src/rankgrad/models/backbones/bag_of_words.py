"""A bag of words: a vector of each word, summed, whatever the order of words is."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.models.backbones._word_numbers import WordBackbone, check_words, sides, word_vectors
from rankgrad.vocabulary import PAIR

__all__ = ["BagOfWords"]


class BagOfWords(WordBackbone):
    r"""The sum of the vectors of a text's words over the root of their number (as fastText has it, Joulin et al. 2017).

    With the head `linear` and its `standardize: false`, scores are linear in counts of words: on few rows hardly any
    network is better. Of two texts that are read together, each has its vector; how well they match only `knrm` sees.
    A word that training has not seen has the vector 0.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`; of pairs it has `PAIR`.
        size: of a text's vector.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size), or of pairs to (n, 2 size).

    Raises:
        ValueError: a size below 1; a text without words.

    >>> from rankgrad.vocabulary import Vocabulary
    >>> bag = BagOfWords(words=Vocabulary.of(["a large three"]).words, size=12)
    >>> bag(bag.tokenize(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    small = True

    def __init__(self, *, words: Sequence[str], size: int = 64):
        super().__init__(words)
        check_count("size", size)
        self.pair = self.vocabulary.number_of(PAIR) if PAIR in words else None
        self.size = size if self.pair is None else 2 * size
        self.words = word_vectors(len(words), size)
        # Else the first vectors of rare words outweigh what is learned of them.
        self.words.weight.data.div_(size)

    def forward(self, tokens: Tensor) -> Tensor:
        check_words(tokens)
        is_word = tokens != 0
        if self.pair is None:
            return self._summed(tokens, is_word)
        return torch.cat([self._summed(tokens, side) for side in sides(tokens, self.pair)], 1)

    def _summed(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Return sums (n, size) over the words that count (n, longest)."""
        weights = counts / counts.sum(1, keepdim=True).clamp(min=1).sqrt()
        return torch.einsum("nl,nls->ns", weights.to(self.words.weight.dtype), self.words(tokens))
