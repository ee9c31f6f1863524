"""Losses and metrics as plain loops over the rows of one group, which share no code with the package.

A formula returns the value of a group; None where there is nothing to compare; or `Counted`, for a group that counts
otherwise than once in the mean. Those of losses are asked about groups of some weight. Ranks are exact: 1 for the
largest, ties averaged.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations, permutations, product
from typing import NamedTuple


class Row(NamedTuple):
    """One score of a group; weights are relative to the heaviest of all groups."""

    score: float
    truth: float
    weight: float


class Counted(NamedTuple):
    """The value of a group, and how much the group counts in the mean."""

    value: float
    count: float


Rows = list[Row]
Value = float | Counted | None


# What several formulas share.


def scores(rows: Rows) -> list[float]:
    return [row.score for row in rows]


def truths(rows: Rows) -> list[float]:
    return [row.truth for row in rows]


def places(values: list[float]) -> list[range]:
    """Return the places that each value takes together with those that equal it."""
    result = []
    for value in values:
        above = sum(other > value for other in values)
        result.append(range(above + 1, above + values.count(value) + 1))
    return result


def shared(values: list[float], worth: Callable[[int], float]) -> list[float]:
    """Return the mean of what the places are worth that equal values take together."""
    return [sum(map(worth, taken)) / len(taken) for taken in places(values)]


def score_ranks(rows: Rows) -> list[float]:
    return shared(scores(rows), float)


def truth_ranks(rows: Rows) -> list[float]:
    return shared(truths(rows), float)


def weights(rows: Rows) -> list[float]:
    return [row.weight for row in rows]


def relative(rows: Rows) -> Rows:
    """Return rows whose heaviest has a weight of 1, if any has one."""
    heaviest = max(weights(rows)) or 1.0
    return [row._replace(weight=row.weight / heaviest) for row in rows]


def dot(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def mean(values: Sequence[float], weights: Sequence[float]) -> Value:
    return dot(values, weights) / sum(weights) if sum(weights) else None


def ordered(rows: Rows) -> bool:
    """Return whether two different truths count."""
    return len({row.truth for row in rows if row.weight > 0}) > 1


def pairs(rows: Rows) -> list[tuple[Row, Row]]:
    """Return each pair of which the first has the larger truth."""
    return [(a, b) for a, b in permutations(rows, 2) if a.truth > b.truth]


def mean_over_pairs(
    rows: Rows, cost: Callable[[Row, Row], float], factor: Callable[[Row, Row], float] = lambda upper, lower: 1.0
) -> Value:
    costs, weights = [], []
    for upper, lower in pairs(rows):
        costs.append(cost(upper, lower))
        weights.append(upper.weight * lower.weight * factor(upper, lower))
    return mean(costs, weights)


def behind(upper: Row, lower: Row) -> float:
    return softplus(lower.score - upper.score)


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def soft_sign(value: float) -> float:
    return math.copysign(math.expm1(-abs(value)), value)


def agreements(rows: Rows, top_heavy: bool, compared: Callable[[float], float] = sign) -> tuple[float, ...]:
    """Return the weights of pairs: concordant less discordant, both, different scores, different truths."""
    terms, ranked = [], zip(weights(relative(rows)), score_ranks(rows), truth_ranks(rows), strict=True)
    for (weight, rank, true_rank), (other_weight, other_rank, other_true_rank) in permutations(ranked, 2):
        factor = weight * other_weight * (1 / true_rank + 1 / other_true_rank if top_heavy else 1)
        ours, true = compared(other_rank - rank), sign(other_true_rank - true_rank)
        terms.append([factor * term for term in (ours * true, abs(ours * true), ours**2, true**2)])
    return tuple(map(sum, zip(*terms, strict=True)))


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def softplus(value: float) -> float:
    return math.log1p(math.exp(-abs(value))) + max(value, 0.0)


def log_sum_exp(values: Sequence[float]) -> float:
    return math.log(sum(math.exp(value - max(values)) for value in values)) + max(values)


def log_softmax(values: Sequence[float]) -> list[float]:
    return [value - log_sum_exp(values) for value in values]


def gain_of(row: Row, gain: str) -> float:
    return row.weight * (2**row.truth - 1 if gain == "exponential" else row.truth)


def ideal(gains: Sequence[float], k: int | None) -> float:
    return sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)[:k]))


def both_kinds(rows: Rows) -> bool:
    """Return whether there is a positive that counts, and a negative."""
    return any(row.truth and row.weight for row in rows) and any(not row.truth for row in rows)


def worths(rows: Rows) -> list[float]:
    """Return the weights of the positives, 0 for negatives."""
    return [row.weight * (row.truth > 0) for row in rows]


def excess(rows: Rows, cost: Callable[[float], float]) -> float:
    """Return how far the mean cost of the positives' ranks is above the least one."""
    reached = dot(worths(rows), [*map(cost, score_ranks(rows))])
    least = dot(sorted(worths(rows), reverse=True), [*map(cost, range(1, len(rows) + 1))])
    return (reached - least) / sum(worths(rows))


def satisfactions(rows: Rows, max_grade: float) -> list[float]:
    """Return how surely each row is all that a reader needs."""
    return [row.weight * (2**row.truth - 1) / 2**max_grade for row in relative(rows)]


def right(row: Row) -> float:
    """Return the score in the direction of the label."""
    return row.score if row.truth else -row.score


def before(k: int | None, rank: float, temperature: float) -> float:
    """Return how surely a rank is among the first k."""
    return 1.0 if k is None else sigmoid((k + 0.5 - rank) / temperature)


# Losses.


def spearman_loss(rows: Rows) -> Value:
    if not ordered(rows):
        return None
    errors = [(soft - true) ** 2 for soft, true in zip(score_ranks(rows), truth_ranks(rows), strict=True)]
    return 6 * mean(errors, weights(rows)) / (len(rows) ** 2 - 1)


def ndcg_loss(rows: Rows, k=None, gain="exponential", temperature=0.5) -> Value:
    gains = [gain_of(row, gain) for row in rows]
    discounts = [before(k, rank, temperature) / math.log2(1 + rank) for rank in score_ranks(rows)]
    return 1 - dot(gains, discounts) / ideal(gains, k) if any(gains) else None


def ranknet(rows: Rows) -> Value:
    return mean_over_pairs(rows, behind)


def pairwise_logistic(rows: Rows, adjacent=1.0) -> Value:
    def factor(upper: Row, lower: Row) -> float:
        return adjacent if lower.truth > 0 and upper.truth - lower.truth == 1 else 1.0

    return mean_over_pairs(rows, behind, factor) or 0.0


def listnet(rows: Rows) -> Value:
    shares = [row.weight * math.exp(row.truth) for row in rows]
    return -mean(log_softmax(scores(rows)), shares)


def drawn(rows: Rows, row: Row) -> float:
    """Return the negative log-likelihood that a row is drawn from those of no larger truth."""
    return log_sum_exp([other.score for other in rows if other.truth <= row.truth]) - row.score


def list_mle(rows: Rows, top_heavy=False) -> Value:
    if not ordered(rows):
        return None
    rows, count = relative(rows), len(rows)
    early = shared(truths(rows), lambda rank: 2.0 ** (count - rank) - 1)
    factors = [value * count / sum(early) for value in early] if top_heavy else [1.0] * count
    return sum(factor * row.weight * drawn(rows, row) for factor, row in zip(factors, rows, strict=True))


def plackett_luce(rows: Rows) -> Value:
    return sum(row.weight * drawn(rows, row) for row in relative(rows) if row.truth > 0)


def rlsep(rows: Rows) -> Value:
    terms = [a.weight * b.weight * math.exp(b.score - a.score) for a, b in pairs(relative(rows))]
    return math.log1p(sum(terms))


def lsep(rows: Rows) -> Value:
    return rlsep([row._replace(truth=float(row.truth > 0)) for row in rows])


def multilabel_cross_entropy(rows: Rows) -> Value:
    return -(mean(log_softmax(scores(rows)), worths(rows)) or 0.0)


def lambdarank(rows: Rows, k=None, truncation=None, gain="exponential", weighting="lambdarank") -> Value:
    best = ideal([gain_of(row, gain) for row in rows], k)
    if not best or len({row.truth for row in rows}) < 2:
        return None
    in_order = sorted(rows, key=lambda row: (-row.score, gain_of(row, gain), row.truth))
    discount = lambda rank: (rank <= (k or math.inf)) / math.log2(1 + rank)  # noqa: E731
    last, total = min(k or math.inf, truncation or math.inf), 0.0
    for (rank, a), (other_rank, b) in permutations(enumerate(in_order, 1), 2):
        if a.truth <= b.truth or min(rank, other_rank) > last:
            continue
        apart = abs(rank - other_rank)
        swapped = abs(discount(rank) - discount(other_rank))
        bound = 1 / math.log2(1 + apart) - 1 / math.log2(2 + apart)
        delta = {"lambdarank": swapped, "ndcg_loss2": bound, "ndcg_loss2++": swapped + 10 * bound}[weighting]
        total += delta * abs(gain_of(a, gain) - gain_of(b, gain)) / best * behind(a, b) / math.log(2)
    return total


def negative_log_normal(value: float) -> float:
    return -math.log(math.erfc(-value / math.sqrt(2)) / 2)


def gaussian_mlr(rows: Rows, log_variances=None) -> Value:
    """With `log_variances`, the logarithm of a label's variance is half its score."""
    variance = lambda row: 1.0 if log_variances is None else math.exp(row.score / 2)  # noqa: E731

    def wrong_order(upper: Row, lower: Row) -> float:
        return negative_log_normal((upper.score - lower.score) / math.sqrt(variance(upper) + variance(lower)))

    signed = [right(row) / math.sqrt(variance(row)) for row in rows]
    presence = mean([negative_log_normal(value) for value in signed], weights(rows))
    return presence + (mean_over_pairs(rows, wrong_order) or 0.0)


def kendall_loss(rows: Rows, temperature=0.5, top_heavy=False) -> Value:
    if not ordered(rows):
        return None
    agreement, _, of_soft, of_true = agreements(rows, top_heavy, lambda apart: soft_sign(apart / temperature))
    return 1 - agreement / math.sqrt(max(of_soft, of_true / 1000) * of_true)


def average_precision_loss(rows: Rows) -> Value:
    if not both_kinds(rows):
        return None
    positives = [row for row in rows if row.truth]
    among_all = [rank for rank, row in zip(score_ranks(rows), rows, strict=True) if row.truth]
    precisions = [
        min(1.0, rank_among_positives / rank)
        for rank_among_positives, rank in zip(score_ranks(positives), among_all, strict=True)
    ]
    return 1 - mean(precisions, weights(positives))


def sodeep_mean_average_precision(rows: Rows, weight_by="classes") -> Value:
    if not both_kinds(rows):
        return None
    return Counted(excess(rows, float) / len(rows), sum(worths(rows)) if weight_by == "positives" else 1.0)


def precision_at_k_loss(rows: Rows, k, temperature=0.5) -> Value:
    if not both_kinds(rows):
        return None
    inside = dot(worths(rows), [before(k, rank, temperature) for rank in score_ranks(rows)])
    return 1 - inside / sum(sorted(worths(rows), reverse=True)[:k])


def reciprocal_rank_loss(rows: Rows) -> Value:
    if not both_kinds(rows):
        return None
    reached = max(worth / rank for worth, rank in zip(worths(rows), score_ranks(rows), strict=True))
    return 1 - reached / max(worths(rows))


def expected_reciprocal_rank_loss(rows: Rows, k=None, max_grade=4.0, temperature=0.5) -> Value:
    if not ordered(rows):
        return None
    satisfied = satisfactions(rows, max_grade)
    soft_ranks, reached = score_ranks(rows), 0.0
    for i, rank in enumerate(soft_ranks):
        unsatisfied = 1.0
        for j, other in enumerate(soft_ranks):
            is_before = (1 + soft_sign((rank - other) / temperature)) / 2
            unsatisfied *= (1 - satisfied[j]) ** (is_before * (i != j))
        reached += satisfied[i] / rank * unsatisfied * before(k, rank, temperature)
    return 1 - reached


def softsort_cross_entropy(rows: Rows, temperature=0.5) -> Value:
    if not ordered(rows):
        return None
    soft_ranks, cost = score_ranks(rows), 0.0
    for position, place_rank in enumerate(sorted(soft_ranks), 1):
        logits = [-abs(place_rank - rank) / temperature for rank in soft_ranks]
        for share, row, taken in zip(map(math.exp, log_softmax(logits)), rows, places(truths(rows)), strict=True):
            true = (position in taken) / len(taken)
            cost -= row.weight * (true * math.log(share + 1e-20) + (1 - true) * math.log(1 - share + 1e-20))
    return cost / len(rows) / sum(weights(rows))


def hinge_ap(rows: Rows) -> Value:
    """Compare the true ranking with all ways to mix the sorted positives with the sorted negatives."""
    positives = sorted((row.score for row in rows if row.truth), reverse=True)
    negatives = sorted((row.score for row in rows if not row.truth), reverse=True)
    if not positives or not negatives:
        return None

    def bound(positions: Sequence[int]) -> float:
        """Return 1 - AP + F of a ranking, by where its positives stand."""
        others = [position for position in range(len(rows)) if position not in positions]
        compared = product(zip(positions, positives, strict=True), zip(others, negatives, strict=True))
        total = 0.0
        for (position, positive), (other, negative) in compared:
            total += (positive - negative) * (1 if position < other else -1)
        precisions = [count / (position + 1) for count, position in enumerate(positions, 1)]
        return 1 - sum(precisions) / len(precisions) + total / len(positives) / len(negatives)

    rankings = combinations(range(len(rows)), len(positives))
    return max(map(bound, rankings)) - bound(range(len(positives)))


def pointwise(error: Callable[..., float]) -> Callable[..., Value]:
    """Return the mean error of a group, of an error of a row."""

    def formula(rows: Rows, **options) -> Value:
        return Counted(mean([error(row, **options) for row in rows], weights(rows)), sum(weights(rows)))

    return formula


def squared_error(row: Row) -> float:
    return (row.score - row.truth) ** 2


def asymmetric(row: Row, gamma_present, gamma_absent, shift) -> float:
    probability = sigmoid(row.score)
    moved = max(probability - shift, 0.0)
    if row.truth:
        return -((1 - probability) ** gamma_present) * math.log(probability)
    return -(moved**gamma_absent) * math.log(1 - moved)


def generalized_cross_entropy(row: Row, q=0.7) -> float:
    return (1 - sigmoid(right(row)) ** q) / q


def focal(row: Row, gamma=2.0) -> float:
    return (1 - sigmoid(right(row))) ** gamma * softplus(-right(row))


def mse(rows: Rows, normalize_groups=None) -> Value:
    targets = truths(rows)
    center = mean(truths(rows), weights(rows))
    deviation = math.sqrt(mean([(truth - center) ** 2 for truth in truths(rows)], weights(rows)))
    if normalize_groups == "ranks":
        targets = [(len(rows) + 1 - rank) / len(rows) for rank in truth_ranks(rows)]
    elif normalize_groups == "centered":
        score_center = mean(scores(rows), weights(rows))
        targets = [row.truth - center + score_center for row in rows]
    elif normalize_groups == "standardized":
        targets = [(row.truth - center) / deviation if ordered(rows) else 0.0 for row in rows]
    moved = [row._replace(truth=target) for row, target in zip(rows, targets, strict=True)]
    return pointwise(squared_error)(moved)


def triplets(rows: Rows, values: list[float], margin: float, hardest: bool) -> Value:
    """Return the mean over the positives of how far negatives of larger values are ahead, and the positives' weight."""
    negatives = [value for row, value in zip(rows, values, strict=True) if not row.truth]
    if not both_kinds(rows):
        return None
    costs = []
    for value in values:
        ahead = [max(0.0, margin + negative - value) for negative in negatives]
        costs.append(max(ahead) if hardest else sum(ahead) / len(ahead))
    return Counted(mean(costs, worths(rows)), sum(worths(rows)))


def hard_negative_triplet(rows: Rows, margin=0.2, hardest=True) -> Value:
    return triplets(rows, scores(rows), margin, hardest)


def sodeep_recall(rows: Rows, margin=1.0, hardest=True) -> Value:
    return triplets(rows, [-rank for rank in score_ranks(rows)], margin, hardest)


def hit_rate_loss(rows: Rows, k=1, temperature=1.0) -> Value:
    heaviest = max(worths(rows))
    if not heaviest or len(rows) < 2:
        return None
    first = min(rank for rank, row in zip(score_ranks(rows), rows, strict=True) if row.truth)
    return Counted(1 - before(k, first, temperature), heaviest)


def mean_log_rank(rows: Rows) -> Value:
    if not both_kinds(rows):
        return None
    return Counted(excess(rows, math.log), max(worths(rows)))


def info_nce(rows: Rows, temperature=0.05) -> Value:
    if not both_kinds(rows):
        return None
    rivals = log_sum_exp([row.score / temperature for row in rows if not row.truth])
    costs = [softplus(rivals - row.score / temperature) for row in rows]
    return Counted(mean(costs, worths(rows)), max(worths(rows)))


# Metrics.


def correlation(rows: Rows) -> Value:
    if not comparable(rows):
        return None
    centered = []
    for of_ranks in (score_ranks(rows), truth_ranks(rows)):
        center = mean(of_ranks, weights(rows))
        centered.append([rank - center for rank in of_ranks])
    first, second = centered
    covariance = lambda left, right: dot([a * b for a, b in zip(left, right, strict=True)], weights(rows))  # noqa: E731
    return covariance(first, second) / math.sqrt(covariance(first, first) * covariance(second, second))


def comparable(rows: Rows) -> bool:
    return ordered(rows) and len({row.score for row in rows if row.weight > 0}) > 1


def tau(rows: Rows, top_heavy=False) -> Value:
    if not comparable(rows):
        return None
    agreement, _, of_scores, of_truth = agreements(rows, top_heavy)
    return agreement / math.sqrt(of_scores * of_truth)


def gamma(rows: Rows) -> Value:
    if not comparable(rows):
        return None
    agreement, compared, *_ = agreements(rows, top_heavy=False)
    return agreement / (compared or 1.0)


def pair_accuracy(rows: Rows) -> Value:
    return mean_over_pairs(rows, lambda upper, lower: (1 + sign(upper.score - lower.score)) / 2)


def ndcg(rows: Rows, k=None, gain="exponential") -> Value:
    gains = [gain_of(row, gain) for row in rows]
    discounts = shared(scores(rows), lambda rank: (rank <= (k or math.inf)) / math.log2(1 + rank))
    return dot(gains, discounts) / ideal(gains, k) if any(gains) else None


def within(rows: Rows, k: int) -> list[float]:
    """Return the share of the first k places that each row has."""
    return shared(scores(rows), lambda rank: float(rank <= k))


def recall_at_k(rows: Rows, k=1) -> Value:
    return mean(within(rows, k), worths(rows))


def precision_at_k(rows: Rows, k=5, adaptive_k=False) -> float:
    places = min(k, len(rows)) if adaptive_k else k
    return dot(within(rows, k), worths(rows)) / places


def average_precision(rows: Rows) -> Value:
    precisions = []
    for row in rows:
        seen = [other for other in rows if other.score >= row.score]
        precisions.append(sum(worths(seen)) / (sum(weights(seen)) or 1.0))
    return mean(precisions, worths(rows))


def first_positive(rows: Rows, worth: Callable[[int], float]) -> Value:
    """Return what the place of the best positive is worth: of equal scores, negatives stand before it."""
    reached = [0.0]
    for row in rows:
        above = sum(other.score >= row.score for other in rows if not other.truth)
        above += sum(other.score > row.score for other in rows if other.truth)
        reached.append(row.weight * row.truth * worth(1 + above))
    return max(reached) / max(worths(rows)) if any(worths(rows)) else None


def reciprocal_rank(rows: Rows, k=None) -> Value:
    return first_positive(rows, lambda rank: (rank <= (k or math.inf)) / rank)


def hit_rate(rows: Rows, k=1) -> Value:
    return first_positive(rows, lambda rank: float(rank <= k))


def ranking_loss(rows: Rows) -> Value:
    return mean_over_pairs(rows, lambda upper, lower: float(upper.score <= lower.score))


def coverage_error(rows: Rows) -> Value:
    if not any(row.truth for row in rows):
        return None
    lowest = min(row.score for row in rows if row.truth)
    return sum(row.score >= lowest for row in rows)


def expected_reciprocal_rank(rows: Rows, k=None, max_grade=4.0) -> float:
    reading, reached = 1.0, 0.0
    in_order = sorted(zip([-row.score for row in rows], satisfactions(rows, max_grade), strict=True))
    for rank, (_, probability) in enumerate(in_order[:k], 1):
        reached += reading * probability / rank
        reading *= 1 - probability
    return reached


def elementwise_match(rows: Rows) -> Value:
    matches = [float(first == second) for first, second in zip(score_ranks(rows), truth_ranks(rows), strict=True)]
    return mean(matches, weights(rows))


def exact_match(rows: Rows) -> float:
    return float(score_ranks(rows) == truth_ranks(rows))


def rates(positive: list[bool], predicted: list[bool]) -> list[float]:
    """Return precision, recall, F1, accuracy and exact match; a ratio of nothing is 0."""
    hits = sum(a and b for a, b in zip(positive, predicted, strict=True))
    same = sum(a == b for a, b in zip(positive, predicted, strict=True))
    precision = hits / sum(predicted) if hits else 0.0
    recall = hits / sum(positive) if hits else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return [precision, recall, f1, same / len(positive) if positive else 0.0, float(same == len(positive))]


def label_ranking_scores(rows: Rows) -> list[float]:
    """Return the rates over pairs of labels, and the mean precision of the rankings cut at each label rank."""
    rates_of_pairs = pair_rates(rows)
    precisions, grades = [], sorted({row.truth for row in rows if row.truth > 0})
    for cut in [0.0, *grades[:-1]]:
        kept = [row._replace(truth=row.truth if row.truth > cut else 0.0) for row in rows]
        precisions.append(pair_rates(kept)[0])
    return [*rates_of_pairs, sum(precisions) / len(precisions) if grades else 0.0]


def pair_rates(rows: Rows) -> list[float]:
    compared = [(a, b) for a, b in combinations(rows, 2) if a.truth != b.truth]
    positive = [a.truth > b.truth for a, b in compared]
    predicted = [a.score > b.score if a.score != b.score else a.truth < b.truth for a, b in compared]
    return rates(positive, predicted)


# Each formula with the options that it is tried with.
LOSSES = {
    "asymmetric": (
        pointwise(asymmetric),
        {"gamma_present": 1.0, "gamma_absent": 2.0, "shift": 0.05},
        {"gamma_present": 0.0, "gamma_absent": 4.0, "shift": 0.3},
    ),
    "average_precision": (average_precision_loss, {}),
    "expected_reciprocal_rank": (expected_reciprocal_rank_loss, {}, {"k": 2, "max_grade": 3.0, "temperature": 0.3}),
    "focal": (pointwise(focal), {"gamma": 2.0}),
    "gaussian_mlr": (gaussian_mlr, {}, {"log_variances": "half the scores"}),
    "generalized_cross_entropy": (pointwise(generalized_cross_entropy), {"q": 0.7}),
    "hard_negative_triplet": (hard_negative_triplet, {}, {"margin": 1.5, "hardest": False}),
    "hinge_ap": (hinge_ap, {}),
    "hit_rate": (hit_rate_loss, {"k": 2, "temperature": 0.7}),
    "info_nce": (info_nce, {"temperature": 0.25}),
    "kendall": (kendall_loss, {}, {"temperature": 0.3, "top_heavy": True}),
    "l1": (pointwise(lambda row: abs(row.score - row.truth)), {}),
    "lambdarank": (
        lambdarank,
        {},
        {"k": 2, "weighting": "ndcg_loss2++"},
        {"truncation": 1, "weighting": "ndcg_loss2", "gain": "linear"},
    ),
    "list_mle": (list_mle, {}, {"top_heavy": True}),
    "listnet": (listnet, {}),
    "lsep": (lsep, {}),
    "mean_log_rank": (mean_log_rank, {}),
    "mse": (
        mse,
        {},
        {"normalize_groups": "standardized"},
        {"normalize_groups": "ranks"},
        {"normalize_groups": "centered"},
    ),
    "multilabel_cross_entropy": (multilabel_cross_entropy, {}),
    "multilabel_soft_margin": (pointwise(lambda row: softplus(-right(row))), {}),
    "ndcg": (ndcg_loss, {}, {"k": 2, "gain": "linear", "temperature": 0.3}),
    "pairwise_logistic": (pairwise_logistic, {}, {"adjacent": 3.0}),
    "plackett_luce": (plackett_luce, {}),
    "precision_at_k": (precision_at_k_loss, {"k": 2, "temperature": 0.3}),
    "ranknet": (ranknet, {}),
    "reciprocal_rank": (reciprocal_rank_loss, {}),
    "rlsep": (rlsep, {}),
    "sodeep_mean_average_precision": (sodeep_mean_average_precision, {}, {"weight_by": "positives"}),
    "sodeep_recall": (sodeep_recall, {}, {"margin": 0.2, "hardest": False}),
    "softsort_cross_entropy": (softsort_cross_entropy, {"temperature": 0.7}),
    "spearman": (spearman_loss, {}),
    "spearman_of_label_ranks": (spearman_loss, {}),
}
METRICS = {
    "average_precision": (average_precision, {}),
    "coverage_error": (coverage_error, {}),
    "elementwise_match": (elementwise_match, {}),
    "exact_match": (exact_match, {}),
    "expected_reciprocal_rank": (expected_reciprocal_rank, {}, {"k": 2, "max_grade": 3.0}),
    "goodman_kruskal_gamma": (gamma, {}),
    "hit_rate": (hit_rate, {"k": 2}),
    "kendall": (tau, {}, {"top_heavy": True}),
    "label_ranking_scores": (label_ranking_scores, {}),
    "ndcg": (ndcg, {}, {"k": 2, "gain": "linear"}),
    "pair_accuracy": (pair_accuracy, {}),
    "precision_at_k": (precision_at_k, {"k": 3}, {"k": 3, "adaptive_k": True}),
    "ranking_loss": (ranking_loss, {}),
    "recall_at_k": (recall_at_k, {"k": 2}),
    "reciprocal_rank": (reciprocal_rank, {}, {"k": 2}),
    "spearman": (correlation, {}),
}
