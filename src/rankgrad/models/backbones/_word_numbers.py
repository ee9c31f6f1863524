"""Shared code of backbones that read word numbers."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from rankgrad.layers import Backbone
from rankgrad.plain_text import PAIR
from rankgrad.vocabulary import Vocabulary

__all__ = ["CountingBackbone", "WordBackbone", "both_sides", "check_words", "number_of_pair", "sides", "word_vectors"]

AT_ONCE = 256  # texts to tokenize and count together


class WordBackbone(Backbone):
    """A backbone that reads word numbers (n, longest), padded with 0.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        pieces, is_open: give numbers to more than the words, see there.
    """

    input, maps = "text", False

    def __init__(self, words: Sequence[str], *, pieces: bool = False, is_open: bool = False):
        super().__init__()
        self.vocabulary = Vocabulary(words, pieces=pieces, is_open=is_open)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return word numbers (n, longest), see `rankgrad.vocabulary.Vocabulary.encode`."""
        return self.vocabulary.encode(texts)

    def chunks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Yield the word numbers of texts, not of all at once, since each chunk is padded to its longest text."""
        for first in range(0, len(texts), AT_ONCE):
            yield self.tokenize(texts[first : first + AT_ONCE])


class CountingBackbone(WordBackbone):
    """A backbone that counts the words of a text, regardless of their order.

    Args:
        words, pieces: see `WordBackbone`.
        tf_idf: whether a word that occurs n times counts (1 + log n) times its rarity, which `fit_rarity` sets, and
            the words and pairs of each text have length 1, and so have its pieces; otherwise it counts n.
        is_kept: whether the model's file has the rarity.

    Attributes:
        pair: the number of `rankgrad.plain_text.PAIR`; None if texts are single.
    """

    def __init__(self, words: Sequence[str], *, pieces: bool, tf_idf: bool, is_kept: bool = True):
        super().__init__(words, pieces=pieces)
        self.tf_idf = tf_idf
        self.pair = self.vocabulary.number_of(PAIR) if PAIR in words else None
        self.rarity = nn.Buffer(torch.ones(len(self.vocabulary)), persistent=is_kept)

    def fit_rarity(self, texts: Sequence[str]) -> None:
        """Set the rarity of each word to 1 + log((1 + N) / (1 + texts that have it)), for N training texts.

        What no text has, such as a piece of an unknown word, counts nothing. Without tf-idf, nothing is set.
        """
        if not self.tf_idf:
            return
        self.rarity.fill_(1.0)
        having = torch.zeros(len(self.rarity))
        for tokens in self.chunks(texts):
            words, values = self.counted(tokens)
            having += torch.bincount(words[values > 0], minlength=len(having))
        self.rarity.copy_((torch.log((1 + len(texts)) / (1 + having)) + 1).where(having > 0, 0.0))

    def counted(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the words of each text (n, longest), and what each counts; repetitions count 0."""
        words = tokens.sort(1).values.contiguous()  # equal words are neighbors: the first of them counts all
        first = torch.searchsorted(words, words)
        counts = torch.searchsorted(words, words, right=True) - first
        is_known = words > 1  # 0 is padding, and 1 any unknown word
        is_counted = is_known & (first == torch.arange(words.shape[1], device=words.device))
        values = counts.to(self.rarity.dtype)
        if self.tf_idf:
            values = (1 + values.log()) * self.rarity[words]
        values = values * is_counted
        if not self.tf_idf:
            return words, values
        is_piece = words >= self.vocabulary.first_piece
        values = values.float()  # in half precision, a length of 0 would give NaN
        return words, nn.functional.normalize(values * ~is_piece) + nn.functional.normalize(values * is_piece)


def word_vectors(count: int, size: int) -> nn.Embedding:
    """Return a layer of word vectors, which are 0 for padding and for words not in training."""
    vectors = nn.Embedding(count, size, padding_idx=0)
    nn.init.zeros_(vectors.weight[1])
    return vectors


def check_words(tokens: Tensor) -> None:
    """Raise ValueError if a text, given as word numbers (n, longest), has no words."""
    if bool((is_empty := (tokens == 0).all(1)).any()):
        raise ValueError(f"text {int(is_empty.nonzero()[0])} has no words, expected at least one")


def number_of_pair(vocabulary: Vocabulary) -> int:
    """Return the number of `PAIR`; raise ValueError if the vocabulary is not of pairs of texts."""
    if PAIR not in vocabulary.words:
        raise ValueError("words is a vocabulary of single texts, expected one of pairs, with PAIR between the texts")
    return vocabulary.number_of(PAIR)


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


def both_sides(tokens: Tensor, pair: int) -> tuple[Tensor, Tensor]:
    """Return `sides`; raise ValueError if a text is not a pair, or if one of its sides has no words."""
    is_first, is_second = sides(tokens, pair)
    if bool((wrong := ~(is_first.any(1) & is_second.any(1))).any()):
        raise ValueError(
            f"text {int(wrong.nonzero()[0])} is not a pair, expected two texts with at least one word each"
        )
    return is_first, is_second
