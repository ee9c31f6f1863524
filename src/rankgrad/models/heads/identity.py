"""The backbone's outputs themselves."""

from torch import Tensor

from rankgrad.layers import Head

__all__ = ["Identity"]


class Identity(Head):
    """The outputs of a backbone that computes scores itself, such as `boosted_trees`.

    Args:
        features: outputs of the backbone.
        maps: whether they are maps.
        outputs: K, the number of scores.

    Raises:
        ValueError: the backbone's outputs are not K numbers.

    >>> Identity(features=3, maps=False, outputs=3).embedding_size
    3
    """

    def __init__(self, *, features: int, maps: bool, outputs: int):
        super().__init__()
        if maps or features != outputs:
            found = "maps" if maps else f"{features} numbers"
            raise ValueError(
                f"identity takes the scores of a backbone such as boosted_trees, but this one returns {found}: try "
                "linear"
            )
        self.embedding_size = features

    def score(self, embedding: Tensor) -> Tensor:
        return embedding
