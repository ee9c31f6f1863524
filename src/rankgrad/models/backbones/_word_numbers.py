"""Shared code of backbones that read word numbers."""

from collections.abc import Sequence

from torch import Tensor, nn

from rankgrad.layers import Backbone
from rankgrad.vocabulary import Vocabulary

__all__ = ["WordBackbone", "check_words", "sides", "word_vectors"]


class WordBackbone(Backbone):
    """A backbone that reads word numbers (n, longest), padded with 0.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        pieces: also give numbers to pieces of words and to pairs of words.
    """

    input, maps = "text", False

    def __init__(self, words: Sequence[str], *, pieces: bool = False):
        super().__init__()
        self.vocabulary = Vocabulary(words, pieces=pieces)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return word numbers (n, longest), see `rankgrad.vocabulary.Vocabulary.encode`."""
        return self.vocabulary.encode(texts)


def word_vectors(count: int, size: int) -> nn.Embedding:
    """Return a layer of word vectors, which are 0 for padding and for words not in training."""
    vectors = nn.Embedding(count, size, padding_idx=0)
    nn.init.zeros_(vectors.weight[1])
    return vectors


def check_words(tokens: Tensor) -> None:
    """Raise ValueError if a text, given as word numbers (n, longest), has no words."""
    if bool((is_empty := (tokens == 0).all(1)).any()):
        raise ValueError(f"text {int(is_empty.nonzero()[0])} has no words, expected at least one")


def sides(tokens: Tensor, pair: int) -> tuple[Tensor, Tensor]:
    """Return masks of the words of the first texts and of the second texts, (n, longest) each.

    Args:
        tokens: word numbers (n, longest), padded with 0.
        pair: the number of `rankgrad.plain_text.PAIR`, which separates the two texts.

    >>> import torch
    >>> first, second = sides(torch.tensor([[5, 2, 6, 7, 0]]), pair=2)
    >>> first.int().tolist(), second.int().tolist()
    ([[1, 0, 0, 0, 0]], [[0, 0, 1, 1, 0]])
    """
    is_pair = tokens == pair
    is_word, is_behind = (tokens != 0) & ~is_pair, is_pair.cumsum(1) > 0
    return is_word & ~is_behind, is_word & is_behind
