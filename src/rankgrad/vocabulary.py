"""Turn words into numbers with a vocabulary of the training captions."""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from rankgrad.plain_text import PAIR, is_word, tokens_of, words_of

__all__ = ["PAIR", "Vocabulary"]

PADDING, UNKNOWN = "<padding>", "<unknown>"


class Vocabulary:
    """Map words and punctuation marks to numbers: 0 is padding, 1 is any unknown word.

    Args:
        words: all words and marks; the first two are `<padding>` and `<unknown>`.

    >>> vocabulary = Vocabulary.of(["a large three above a small seven", "a three"], least=2)
    >>> vocabulary.words
    ['<padding>', '<unknown>', 'a', 'three']
    >>> vocabulary.encode(["A three, a purple eight"])  # the comma is not in training
    tensor([[2, 3, 2, 1, 1]])
    """

    def __init__(self, words: Sequence[str]):
        if list(words[:2]) != [PADDING, UNKNOWN] or len(set(words)) != len(words):
            raise ValueError(
                f"words is {list(words[:3])}..., expected {PADDING} and {UNKNOWN} first, and each word once"
            )
        if joined := [word for word in words if "'" in word]:
            raise ValueError(
                f"words has {joined[0]!r:.60}, expected words without apostrophes, which now separate words: an older "
                "version wrote the model, train it again"
            )
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, captions: Iterable[str], *, least: int = 1) -> "Vocabulary":
        """Collect the words and marks that occur at least the given number of times, in alphabetical order."""
        counts = Counter(token for caption in captions for token in tokens_of(caption))
        return cls([PADDING, UNKNOWN, *sorted(word for word, count in counts.items() if count >= least)])

    def __len__(self) -> int:
        return len(self.words)

    def number_of(self, word: str) -> int:
        """Return the number of a word; 1 if it is unknown."""
        return self._numbers.get(word, 1)

    def has_word_of(self, text: str) -> bool:
        """Return whether at least one word of a text is known."""
        return any(word in self._numbers for word in words_of(text))

    def encode(self, captions: Sequence[str]) -> Tensor:
        """Return the numbers (n, longest) of words and of known marks, padded with 0.

        Raises:
            ValueError: a caption has no words; the message names it.
        """
        numbers = [self._encode_one(caption) for caption in captions]
        for row, caption in enumerate(numbers):
            if not caption:
                raise ValueError(f"caption {row} is {captions[row]!r}, expected at least one word")
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in numbers], batch_first=True)

    def _encode_one(self, caption: str) -> list[int]:
        return [self.number_of(token) for token in tokens_of(caption) if token in self._numbers or is_word(token)]
