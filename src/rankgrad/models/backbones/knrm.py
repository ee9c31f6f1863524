"""K-NRM: soft matching of the words of a first text with the words of a second text, for reranking."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rankgrad.checks import check_count
from rankgrad.models.backbones._word_numbers import WordBackbone, both_sides, number_of_pair, word_vectors
from rankgrad.plain_text import PAIR

__all__ = ["Knrm"]

EXACT = 1e-3  # width of the kernel that only equal words activate


class Knrm(WordBackbone):
    r"""Kernel pooling over word similarities (Xiong et al. 2017) of two texts that are read together.

    Let $M_{ij}$ be the cosine of word $i$ of the first text, such as a query, and word $j$ of the second. Each kernel
    softly counts the words whose similarity is near its mean,

    $$\phi_k = \frac{\sum_i w_i \log\bigl(1 + \sum_j e^{-(M_{ij} - \mu_k)^2 / 2 \sigma_k^2}\bigr)}{\sum_i w_i};$$

    and the last feature is the logarithm of the second text's length, which stays within that of training. Unlike in
    the paper, words have weights $w_i$ (their inverse document frequency in the second texts of training), and a count
    $c$ becomes $\log(1 + c)$, which is 0 for no match. The first kernel, for equal words, is therefore close to BM25
    even before training.

    Args:
        words: the vocabulary, see `rankgrad.vocabulary.Vocabulary`.
        word_size: the size of a word's embedding.
        kernels: the number of kernels, with means from 1 (equal words) down to near -1.

    Shapes:
        word numbers (n, longest), padded with 0, `PAIR` between the texts, to (n, kernels + 1).

    Raises:
        ValueError: there are fewer than 2 kernels, the words lack `PAIR`, a text is not a pair, or one of its sides has
            no words.

    >>> from rankgrad.vocabulary import Vocabulary
    >>> knrm = Knrm(words=Vocabulary.of([f"a three {PAIR} a large three"]).words, kernels=5)
    >>> knrm(knrm.tokenize([f"a three {PAIR} a large three", f"a {PAIR} three"])).shape
    torch.Size([2, 6])
    """

    input, maps = "text_pair", False

    def __init__(self, *, words: Sequence[str], word_size: int = 64, kernels: int = 11):
        super().__init__(words)
        check_count("word_size", word_size)
        check_count("kernels", kernels)
        if kernels == 1:
            raise ValueError("kernels is 1, expected at least 2: equal words, and similar ones")
        self.size = kernels + 1
        self.pair = number_of_pair(self.vocabulary)
        self.words = word_vectors(len(words), word_size)
        self.weights = nn.Buffer(torch.ones(len(words)))
        self.lengths = nn.Buffer(torch.tensor([1.0, torch.inf]))  # the least and the largest of second texts
        self.register_load_state_dict_pre_hook(_with_lengths)
        step = 2 / (kernels - 1)
        means = [1.0, *(1 - step * (number - 0.5) for number in range(1, kernels))]
        self.means = nn.Buffer(torch.tensor(means), persistent=False)
        self.widths = nn.Buffer(torch.tensor([EXACT] + [step / 2] * (kernels - 1)), persistent=False)

    def fit(self, split: Any) -> None:
        """Set weights to the inverse document frequency of each word in the second texts of a training split.

        Also set the range of their lengths.
        """
        documents = {text.partition(PAIR)[2] for text in split.inputs.items}
        counts, lengths = torch.zeros(len(self.weights)), []
        for document in documents:
            words = self.vocabulary.encode([document])[0]
            lengths.append(len(words))
            counts[words.unique()] += 1
        self.lengths.copy_(torch.tensor([min(lengths), max(lengths)]))
        self.weights.copy_(torch.log1p((len(documents) - counts + 0.5) / (counts + 0.5)))

    def forward(self, tokens: Tensor) -> Tensor:
        is_first, is_second = both_sides(tokens, self.pair)
        longest = int(is_first.sum(1).max())
        first, is_first = tokens[:, :longest], is_first[:, :longest]
        # The vector of words not in training is 0, so they are unrelated to all words (cosine 0).
        similarity = _unit(self.words(first)) @ _unit(self.words(tokens)).mT  # (n, longest, length)
        weights = self.weights[first] * is_first
        weights = weights / weights.sum(1, keepdim=True)
        features = []
        for mean, width in zip(self.means, self.widths, strict=True):
            kernel = torch.exp(-(((similarity - mean) / width) ** 2) / 2)
            counts = (kernel * is_second.unsqueeze(1)).sum(2)
            features.append((weights * counts.log1p()).sum(1))
        features.append(is_second.sum(1).clamp(*self.lengths).to(features[0].dtype).log())
        return torch.stack(features, 1)


def _with_lengths(knrm: Knrm, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add the lengths to the state of an older model, which has none."""
    state.setdefault(f"{prefix}lengths", knrm.lengths)


def _unit(vectors: Tensor) -> Tensor:
    return nn.functional.normalize(vectors, dim=-1)
