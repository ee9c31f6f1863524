"""Ridge regression on the words of two texts and on pairs of them, fitted when the network is built."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rankgrad.checks import check_positive
from rankgrad.fitted import FittedBackbone, linear_weights, sparse_rows
from rankgrad.models.backbones._word_numbers import WordBackbone, both_sides, number_of_pair, sides
from rankgrad.plain_text import PAIR

__all__ = ["WordPairRidge"]

BUCKETS = 2**18  # weights that all pairs of words share
RAREST = (16, 64)  # words of the first text and of the second text that form pairs
SATURATION, BY_LENGTH = 1.2, 0.75  # k1 and b of BM25
MATCHES = 3  # BM25, the share of the first text's words in the second, and the second text's length
SCALE = 3.0  # of these, so that the penalty hardly affects their weights


class Words(NamedTuple):
    """The different words of texts in ascending order (n, longest), and their counts; 0 where a word repeats."""

    numbers: Tensor
    counts: Tensor


class WordPairRidge(FittedBackbone, WordBackbone):
    r"""Ridge regression for reranking on the equal words of query and passage, and on pairs of a word of each.

    For preferences, with a prompt and an answer, it is the Bradley-Terry model with the same penalty. The score of
    query q and passage p is

    $$w^\top m(q, p) + \sum_{b \in p} u_b U_b + \sum_{a \in q} \sum_{b \in p} v_{ab} W_{ab}
    + \ell(p) \sum_{a \in q} V_a,
    \qquad u_b \propto (1 + \log n_b) r'_b, \quad v_{ab} \propto (r_a r'_b)^2,$$

    where $\ell$ is the standardized logarithm of the passage's length, divided by the root of the number of words of q
    that form pairs, and m are three numbers: BM25, the share of the query's words that the passage has (weighted by
    rarity), and the logarithm of the passage's length, which stays within that of training. $U$ learns which words are
    good answers, and $W$ which words belong together, such as `bill` and `invoice`; u has length 1, and so has v over
    the 16 rarest words of the query and the 64 rarest of the passage, and $r = \log\frac{1 + N}{1 + n}$ for a word in n
    of N training queries, or $r'$ passages. Words not in training have no pairs, and neither have whole numbers that a
    single query or passage has, such as order numbers; but they match if they are equal. Fitting takes up to 12 kB per
    passage.

    Args:
        words: the vocabulary, with `rankgrad.plain_text.PAIR`.
        outputs: K, the number of scores.
        penalty: the factor of the squared weights in the mean loss.
        answers: whether U and V are learned, as for answers to prompts: some words are better whatever the prompt, and
            after words such as `briefly` short answers are. Without it, U and V are 0, which is usually better for
            passages.

    Shapes:
        word numbers (n, longest), padded with 0, `PAIR` between the texts, to scores (n, K).

    Raises:
        ValueError: the penalty is not above 0, the words lack `PAIR`, or one of the two texts has no words.

    >>> from rankgrad.datasets.files.splits import Split
    >>> from rankgrad.inputs.text import of_strings
    >>> from rankgrad.vocabulary import Vocabulary
    >>> passages = ["pay an invoice", "a parcel is late", "print a photo"]
    >>> pairs = [f"{query}{PAIR}{passage}" for query in ("bill", "package") for passage in passages]
    >>> model = WordPairRidge(words=Vocabulary.of(pairs).words, outputs=1)
    >>> model.fit(Split(of_strings(pairs), torch.tensor([1.0, 0, 0, 0, 1, 0]), sizes=torch.tensor([3, 3])))
    >>> model(model.tokenize([f"a bill{PAIR}the invoice", f"a bill{PAIR}the parcel"])).argmax().item()
    0
    """

    input, tasks = "text_pair", ("query_ranking",)

    def __init__(self, *, words: Sequence[str], outputs: int, penalty: float = 1e-4, answers: bool = False):
        super().__init__(words, is_open=True)
        check_positive("penalty", penalty)
        self.penalty, self.size, self.answers = penalty, outputs, answers
        self.pair = number_of_pair(self.vocabulary)
        count = len(self.vocabulary)
        self.rarity = nn.Buffer(torch.zeros(count))  # of each word in second texts
        self.pair_weights = nn.Buffer(torch.zeros(2, count))  # of each word in first texts, and in second texts
        self.mean_length = nn.Buffer(torch.ones(()))
        self.lengths = nn.Buffer(torch.tensor([1.0, 1.0]))  # the least and the largest
        self.center, self.spread = nn.Buffer(torch.zeros(MATCHES)), nn.Buffer(torch.ones(MATCHES))
        self.sizes = (MATCHES, count, BUCKETS, *[count] * answers)
        self.weights = nn.Parameter(torch.zeros(sum(self.sizes), outputs))
        self.biases = nn.Parameter(torch.zeros(outputs))

    def set_weights(self, split: Any) -> None:
        texts = split.inputs.items
        self._fit_rarity(texts)
        lengths = torch.cat([sides(tokens, self.pair)[1].sum(1) for tokens in self.chunks(texts)]).double()
        self.mean_length.copy_(lengths.mean())
        self.lengths.copy_(torch.stack([lengths.min(), lengths.max()]))
        matches = torch.cat([self._matches(*self._words(tokens)) for tokens in self.chunks(texts)])
        self.center.copy_(matches.mean(0))
        self.spread.copy_(matches.std(0, correction=0).clamp(min=1e-6))
        weights, biases = linear_weights(self._matrix(texts), split, self.penalty)
        with torch.no_grad():
            self.weights.copy_(weights.mT)
            self.biases.copy_(biases)

    def forward(self, tokens: Tensor) -> Tensor:
        matches, sparse = self._read(tokens)
        of_matches, *weights = self.weights.split(self.sizes)
        # In the precision of the weights, as `rankgrad.layers.ScoreLayer` does.
        with torch.autocast(tokens.device.type, enabled=False):
            scores = matches.to(of_matches.dtype) @ of_matches + self.biases
            for (places, values), of_places in zip(sparse, weights, strict=True):
                scores = scores + torch.einsum("np,npk->nk", values.to(of_places.dtype), of_places[places])
            return scores

    def _fit_rarity(self, texts: Sequence[str]) -> None:
        is_number = torch.zeros(len(self.rarity))
        for number, word in enumerate(self.vocabulary.words):
            is_number[number] = word.isdecimal()
        for side in (0, 1):
            of_side = list(dict.fromkeys(text.split(PAIR)[side] for text in texts))
            having = torch.zeros(len(self.rarity))
            for tokens in self.chunks(of_side):
                words = _different(tokens)
                having += torch.bincount(words.numbers[words.counts > 0], minlength=len(having))
            rarity = torch.log((1 + len(of_side)) / (1 + having))
            self.pair_weights[side] = rarity.square() * (having > is_number)  # not an order number that one text has
            if side == 1:
                self.rarity.copy_(rarity)

    def _words(self, tokens: Tensor) -> tuple[Words, Words]:
        """Return the words of the first and of the second texts."""
        is_first, is_second = both_sides(tokens, self.pair)
        return _different(tokens.masked_fill(~is_first, 0)), _different(tokens.masked_fill(~is_second, 0))

    def _read(self, tokens: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return scaled numbers on equal words (n, MATCHES), and the values of second texts' words, of pairs, and of V.

        Values are (n, longest) or (n, pairs), after their places among the words or the buckets.
        """
        first, second = self._words(tokens)
        matches = SCALE * (self._matches(first, second) - self.center) / self.spread
        of_words = second.numbers, self._values(second)
        by_length = [self._by_length(first, matches)] if self.answers else []
        return matches, [of_words, self._pairs(first, second), *by_length]

    def _values(self, second: Words) -> Tensor:
        if not self.answers:
            return torch.zeros_like(second.counts)
        counts = second.counts.clamp(min=1)
        values = (1 + counts.log()) * self.pair_weights[1][second.numbers].sqrt() * (second.counts > 0)
        return nn.functional.normalize(values.float())  # in half precision, a length of 0 would give NaN

    def _matches(self, first: Words, second: Words) -> Tensor:
        place = torch.searchsorted(second.numbers, first.numbers).clamp(max=second.numbers.shape[1] - 1)
        is_equal = (second.numbers.gather(1, place) == first.numbers) & (first.numbers > 1)  # 1 is any unknown mark
        count = second.counts.gather(1, place) * is_equal
        rarity = self.rarity[first.numbers] * (first.counts > 0)
        length = second.counts.sum(1, keepdim=True)
        relative_length = 1 - BY_LENGTH + BY_LENGTH * length / self.mean_length
        bm25 = (rarity * count * (1 + SATURATION) / (count + SATURATION * relative_length)).sum(1)
        share = (rarity * is_equal).sum(1) / rarity.sum(1).clamp(min=1e-6)
        usual_length = length.squeeze(1).clamp(*self.lengths)
        return torch.stack([bm25, share, usual_length.log()], 1)

    def _by_length(self, first: Words, matches: Tensor) -> tuple[Tensor, Tensor]:
        length = matches[:, -1:] / SCALE
        exists = (first.counts > 0) & (self.pair_weights[0][first.numbers] > 0)
        values = length * exists / exists.sum(1, keepdim=True).clamp(min=1).sqrt()
        return first.numbers, values.float()

    def _pairs(self, first: Words, second: Words) -> tuple[Tensor, Tensor]:
        chosen = []
        for side, words in enumerate((first, second)):
            weights = self.pair_weights[side][words.numbers] * (words.counts > 0)
            # Padding and unknown words have weight 0, so they come last: a stable order is the same in every batch.
            values, places = weights.sort(dim=1, descending=True, stable=True)
            values, places = values[:, : RAREST[side]], places[:, : RAREST[side]]
            chosen.append((words.numbers.gather(1, places), values))
        (first_words, first_values), (second_words, second_values) = chosen
        buckets = (first_words.unsqueeze(2) * 1_000_003 + second_words.unsqueeze(1) * 7_919) % BUCKETS
        values = first_values.float().unsqueeze(2) * second_values.float().unsqueeze(1)
        return buckets.flatten(1), nn.functional.normalize(values.flatten(1))

    def _matrix(self, texts: Sequence[str]) -> Any:
        """Return what the weights are multiplied with, a sparse matrix (n, weights)."""
        from scipy.sparse import csr_matrix, hstack, vstack

        chunks = []
        for tokens in self.chunks(texts):
            matches, sparse = self._read(tokens)
            parts = [csr_matrix(matches.double().numpy())]
            for (places, values), size in zip(sparse, self.sizes[1:], strict=True):
                parts.append(sparse_rows(places, values, size))
            chunks.append(hstack(parts, format="csr"))
        return vstack(chunks, format="csr")


def _different(tokens: Tensor) -> Words:
    """Return the different words of texts, given as word numbers (n, longest), where 0 is no word."""
    words = tokens.sort(1).values.contiguous()
    first = torch.searchsorted(words, words)
    counts = torch.searchsorted(words, words, right=True) - first
    is_counted = (words != 0) & (first == torch.arange(words.shape[1], device=words.device))
    return Words(words, (counts * is_counted).float())
