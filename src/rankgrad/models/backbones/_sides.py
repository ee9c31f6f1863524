"""Which words of two texts that are read together belong to the first one, and which to the second."""

from torch import Tensor

__all__ = ["sides"]


def sides(tokens: Tensor, pair: int) -> tuple[Tensor, Tensor]:
    """Return where the words of the first texts are, and those of the second ones, (n, longest) each.

    Args:
        tokens: word numbers (n, longest), padded with 0.
        pair: the number of `rankgrad.vocabulary.PAIR`, which stands between the two.

    >>> import torch
    >>> first, second = sides(torch.tensor([[5, 2, 6, 7, 0]]), pair=2)
    >>> first.int().tolist(), second.int().tolist()
    ([[1, 0, 0, 0, 0]], [[0, 0, 1, 1, 0]])
    """
    is_pair = tokens == pair
    is_word, is_behind = (tokens != 0) & ~is_pair, is_pair.cumsum(1) > 0
    return is_word & ~is_behind, is_word & is_behind
