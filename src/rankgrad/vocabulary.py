"""Turn words into numbers with a vocabulary of the training captions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from zlib import crc32

import torch
from torch import Tensor

from rankgrad.plain_text import PAIR, is_word, tokens_of, words_of

__all__ = ["Vocabulary"]

PADDING, UNKNOWN = "<padding>", "<unknown>"
LETTERS = (3, 4, 5)  # of a piece
BUCKETS = 2**15  # numbers that pieces of words share, and that pairs of words share
# Only the first words of a text, and the first letters of a word, have pieces: all texts are padded to the longest.
MOST_WORDS, MOST_LETTERS = 200, 40


class Vocabulary:
    """Map words and punctuation marks to numbers: 0 is padding, 1 is any unknown word or mark.

    Args:
        words: all words and marks; the first two are `<padding>` and `<unknown>`.
        pieces: also give numbers, by a hash, to each piece of 3 to 5 letters of a word and to each pair of neighboring
            words, of the first 200 words. Related or misspelled words then share numbers, and pairs such as `not good`
            have their own.
        is_open: also give numbers, by a hash, to words that it lacks, so that equal ones have the same number; without
            `pieces`.

    >>> vocabulary = Vocabulary.of(["a large three above a small seven", "a three"], least=2)
    >>> vocabulary.words
    ['<padding>', '<unknown>', 'a', 'three']
    >>> vocabulary.encode(["A three, a purple eight"])  # the comma is not in training
    tensor([[2, 3, 2, 1, 1]])
    >>> Vocabulary(vocabulary.words, pieces=True).encode(["three"]).shape  # with <th, thr, ..., <thre, ..., hree>
    torch.Size([1, 13])
    """

    def __init__(self, words: Sequence[str], *, pieces: bool = False, is_open: bool = False):
        if list(words[:2]) != [PADDING, UNKNOWN] or len(set(words)) != len(words):
            raise ValueError(
                f"words is {list(words[:3])}..., expected {PADDING} and {UNKNOWN} first, and each word once"
            )
        if several := [word for word in words[2:] if word != PAIR and tokens_of(word) != [word]]:
            raise ValueError(
                f"words has {several[0]!r:.60}, which is now split into several words: an older version wrote the "
                "model, train it again"
            )
        self.words, self.pieces, self.is_open = list(words), pieces, is_open
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, captions: Iterable[str], *, least: int = 1) -> "Vocabulary":
        """Collect the words and marks that occur at least the given number of times, in alphabetical order."""
        counts = Counter(token for caption in captions for token in tokens_of(caption))
        return cls([PADDING, UNKNOWN, *sorted(word for word, count in counts.items() if count >= least)])

    def __len__(self) -> int:
        return len(self.words) + BUCKETS * (2 * self.pieces + self.is_open)

    @property
    def first_piece(self) -> int:
        """The smallest number of a piece; numbers of words and of pairs are below it."""
        return len(self.words) + BUCKETS

    def number_of(self, word: str) -> int:
        """Return the number of a word; 1 if it is unknown, in a vocabulary that is not open."""
        return self._numbers.get(word, len(self.words) + _bucket(word) if self.is_open else 1)

    def has_word_of(self, text: str) -> bool:
        """Return whether at least one word of a text is known, or has a number by a hash, of itself or its pieces."""
        words = words_of(text)
        if self.pieces or self.is_open:
            return bool(words)
        return any(word in self._numbers for word in words)

    def encode(self, captions: Sequence[str]) -> Tensor:
        """Return the numbers (n, longest) of words and of known marks, padded with 0.

        Raises:
            ValueError: a caption has neither words nor marks; the message names it.
        """
        rows = []
        for row, caption in enumerate(captions):
            tokens = tokens_of(caption)
            if not tokens:
                raise ValueError(f"caption {row} is {caption!r}, expected at least one word")
            if PAIR in tokens:
                place = tokens.index(PAIR)
                first, second = tokens[:place], tokens[place + 1 :]
                numbers = [*self._numbers_of_text(first), self.number_of(PAIR), *self._numbers_of_text(second)]
            else:
                numbers = self._numbers_of_text(tokens)
            rows.append(torch.tensor(numbers))
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def _numbers_of_text(self, tokens: Sequence[str]) -> list[int]:
        """Return the numbers of the words and the known marks of a text, or 1 if it has only unknown marks."""
        numbers, before = [], None
        for place, token in enumerate(tokens):
            if token in self._numbers or is_word(token):
                numbers.append(self.number_of(token))
            if self.pieces and place < MOST_WORDS:
                numbers += self._buckets(token[:MOST_LETTERS], before)
            before = token[:MOST_LETTERS]
        return numbers or [1] * bool(tokens)

    def _buckets(self, token: str, before: str | None) -> Iterator[int]:
        """Yield the numbers of the pieces of a word, and of its pair with the word before it."""
        if is_word(token):
            for bucket in _pieces(token):
                yield self.first_piece + bucket
        if before is not None:
            yield len(self.words) + _bucket(f"{before} {token}")


@lru_cache(maxsize=2**16)
def _pieces(word: str) -> tuple[int, ...]:
    """Return the bucket of each piece of a word, whose ends are marked."""
    marked = f"<{word}>"
    return tuple(_bucket(marked[start : start + size]) for size in LETTERS for start in range(len(marked) - size + 1))


def _bucket(text: str) -> int:
    return crc32(text.encode()) % BUCKETS
