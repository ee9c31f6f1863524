"""A word CNN: two convolutions over the words of a text, then the maximum of each feature."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.models.backbones._word_numbers import WordBackbone, check_words, word_vectors

__all__ = ["Words"]


class Words(WordBackbone):
    """Two convolutions over word embeddings, then the maximum of each feature (Kim, 2014).

    On a CPU, it is faster than a recurrent network.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        size: the size of a text's vector.
        word_size: the size of a word's embedding.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size).

    Raises:
        ValueError: a text has no words.

    >>> from rankgrad.vocabulary import Vocabulary
    >>> words = Words(words=Vocabulary.of(["a large three"]).words, size=12)
    >>> words(words.tokenize(["a three", "a large three"])).shape
    torch.Size([2, 12])
    """

    def __init__(self, *, words: Sequence[str], size: int = 128, word_size: int = 64):
        super().__init__(words)
        self.size = size
        self.words = word_vectors(len(words), word_size)
        self.phrases = nn.Conv1d(word_size, size, 5, padding=2)
        self.clauses = nn.Conv1d(size, size, 3, padding=1)

    def forward(self, tokens: Tensor) -> Tensor:
        check_words(tokens)
        absent = tokens == 0
        absent = absent.unsqueeze(1)  # (n, 1, longest)
        # Keep padding at 0 in each layer, so that the length of the batch's longest text has no influence.
        phrases = self.phrases(self.words(tokens).mT).relu().masked_fill(absent, 0)
        return self.clauses(phrases).masked_fill(absent, -torch.inf).amax(2)
