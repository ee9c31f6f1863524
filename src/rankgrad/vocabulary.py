"""Turn words into numbers with a vocabulary of the training captions."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from rankgrad.plain_text import plain_text

__all__ = ["PAIR", "Vocabulary"]

PADDING, UNKNOWN = "<padding>", "<unknown>"
PAIR = "\x1e"  # ASCII's record separator, a word that separates the two texts of a pair

SPACELESS = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"  # Thai, Lao, Japanese, Chinese: each character is a word
SIGNS = r"\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u0dff"  # vowels and accents, which `\w` lacks
APOSTROPHES = r"'\u2019"  # they separate words, as an underscore does
WORD = rf"[{SPACELESS}]|(?:[^\W_{SPACELESS}]|[{SIGNS}])+|{PAIR}"
MARKS = rf"[^\w\s{APOSTROPHES}{PAIR}{SPACELESS}{SIGNS}]+"  # such as !!! or :)
WORDS, TOKENS = re.compile(WORD), re.compile(f"{WORD}|{MARKS}")


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
        counts = Counter(token for caption in captions for token in cls.tokens(caption))
        return cls([PADDING, UNKNOWN, *sorted(word for word, count in counts.items() if count >= least)])

    @staticmethod
    def split(caption: str) -> list[str]:
        """Split into lowercase words without punctuation.

        >>> Vocabulary.split("The dog's toy!!! :)")
        ['the', 'dog', 's', 'toy']
        """
        return WORDS.findall(plain_text(caption.lower()))  # a separate accent would split a word

    @staticmethod
    def tokens(caption: str) -> list[str]:
        """Split into lowercase words and punctuation marks, which often tell how a text is meant.

        >>> Vocabulary.tokens("The dog's toy!!! :)")
        ['the', 'dog', 's', 'toy', '!!!', ':)']
        """
        return TOKENS.findall(plain_text(caption.lower()))

    def __len__(self) -> int:
        return len(self.words)

    def number_of(self, word: str) -> int:
        """Return the number of a word; 1 if it is unknown."""
        return self._numbers.get(word, 1)

    def has_word_of(self, text: str) -> bool:
        """Return whether at least one word of a text is known."""
        return any(word in self._numbers for word in self.split(text))

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
        tokens = self.tokens(caption)
        return [self.number_of(token) for token in tokens if token in self._numbers or WORDS.match(token)]
