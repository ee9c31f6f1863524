"""A word CNN: two convolutions read the words of a text in order, and the largest of each feature counts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rankgrad.models.backbones._word_numbers import WordBackbone, check_words, word_vectors

__all__ = ["Words"]


class Words(WordBackbone):
    """Two convolutions over the embeddings of words, then the largest of each feature (Kim, 2014).

    It takes a CPU less time than a recurrent network.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        size: of a text's vector.
        word_size: of a word's embedding.

    Shapes:
        word numbers (n, longest), padded with 0, to (n, size).

    Raises:
        ValueError: a text without words.

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
        # Padding stays 0 from layer to layer: how long the batch's longest text is changes nothing.
        phrases = self.phrases(self.words(tokens).mT).relu().masked_fill(absent, 0)
        return self.clauses(phrases).masked_fill(absent, -torch.inf).amax(2)
