"""Losses and metrics as plain loops over the rows (score, truth, weight) of one group; None where one does not count.

Ranks are exact: 1 for the largest, ties averaged.
"""

import math
from itertools import permutations

Rows = list[tuple[float, float, float]]


def places(values: list[float]) -> list[float]:
    """Return ranks, 1 for the largest; tied ones share their average."""
    return [
        1 + sum(other > one for other in values) + (sum(other == one for other in values) - 1) / 2 for one in values
    ]


def columns(rows: Rows) -> tuple[list[float], list[float], list[float]]:
    scores, truth, weights = zip(*rows, strict=True)
    return list(scores), list(truth), list(weights)


def relative(rows: Rows) -> Rows:
    """Return rows whose heaviest has a weight of 1."""
    heaviest = max(weight for *_, weight in rows)
    return [(score, truth, weight / heaviest) for score, truth, weight in rows]


def mean(values, weights) -> float | None:
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else None


def ordered(rows: Rows) -> bool:
    """Whether two different truths count."""
    return len({truth for _, truth, weight in rows if weight > 0}) > 1


def pairs(rows: Rows) -> list[tuple[float, float, float, float]]:
    """Return of each pair of which the first has the larger truth: both scores, both weights."""
    return [(a[0], b[0], a[2], b[2]) for a, b in permutations(rows, 2) if a[1] > b[1]]


def log_softmax(scores: list[float]) -> list[float]:
    total = math.log(sum(math.exp(score - max(scores)) for score in scores)) + max(scores)
    return [score - total for score in scores]


def log_sigmoid(value: float) -> float:
    return -math.log1p(math.exp(-abs(value))) + min(value, 0.0)


# Losses.


def rank_distance(rows: Rows) -> float | None:
    if not ordered(rows):
        return None
    scores, truth, weights = columns(rows)
    errors = [(one - true) ** 2 for one, true in zip(places(scores), places(truth), strict=True)]
    return 6 * mean(errors, weights) / (len(rows) ** 2 - 1)


def ndcg_loss(rows: Rows) -> float | None:
    gains = [weight * (2**truth - 1) for _, truth, weight in rows]
    best = sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)))
    found = sum(gain / math.log2(1 + at) for gain, at in zip(gains, places(columns(rows)[0]), strict=True))
    return 1 - found / best if best else None


def ranknet(rows: Rows) -> float | None:
    costs = [(-log_sigmoid(up - down), first * second) for up, down, first, second in pairs(rows)]
    return mean(*zip(*costs, strict=True)) if costs else None


def listnet(rows: Rows) -> float | None:
    scores, truth, weights = columns(rows)
    shares = [weight * math.exp(true) for true, weight in zip(truth, weights, strict=True)]
    return None if not sum(shares) else -mean(log_softmax(scores), shares)


def list_mle(rows: Rows) -> float | None:
    if not ordered(rows):
        return None
    rows = relative(rows)
    drawn = [(math.log(sum(math.exp(b[0]) for b in rows if b[1] <= a[1])) - a[0], a[2]) for a in rows]
    return sum(cost * weight for cost, weight in drawn)


def plackett_luce(rows: Rows) -> float | None:
    if not any(weight for *_, weight in rows):
        return None
    rows = relative(rows)
    drawn = [(math.log(sum(math.exp(b[0]) for b in rows if b[1] <= a[1])) - a[0], a[2]) for a in rows if a[1] > 0]
    return sum(cost * weight for cost, weight in drawn)


def rlsep(rows: Rows) -> float | None:
    if not any(weight for *_, weight in rows):
        return None
    return math.log1p(sum(first * second * math.exp(down - up) for up, down, first, second in pairs(relative(rows))))


def lsep(rows: Rows) -> float | None:
    return rlsep([(score, float(truth > 0), weight) for score, truth, weight in rows])


def multilabel_cross_entropy(rows: Rows) -> float | None:
    scores, truth, weights = columns(rows)
    shares = [weight * (true > 0) for true, weight in zip(truth, weights, strict=True)]
    return -mean(log_softmax(scores), shares) if sum(shares) else None


def lambdarank(rows: Rows) -> float | None:
    gains = [weight * (2**truth - 1) for _, truth, weight in rows]
    best = sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)))
    if not best or len({truth for _, truth, _ in rows}) < 2:
        return None
    order = sorted(range(len(rows)), key=lambda at: (-rows[at][0], gains[at], rows[at][1]))
    discounts = [1 / math.log2(2 + order.index(at)) for at in range(len(rows))]
    total = 0.0
    for a, b in permutations(range(len(rows)), 2):
        if rows[a][1] > rows[b][1]:
            share = abs(discounts[a] - discounts[b]) * abs(gains[a] - gains[b]) / best
            total -= share * log_sigmoid(rows[a][0] - rows[b][0]) / math.log(2)
    return total


def gaussian_mlr(rows: Rows) -> float | None:
    normal = lambda value: -math.log(math.erfc(-value / math.sqrt(2)) / 2)  # noqa: E731
    scores, truth, weights = columns(rows)
    present = mean([normal(s if t > 0 else -s) for s, t in zip(scores, truth, strict=True)], weights)
    costs = [(normal((up - down) / math.sqrt(2)), first * second) for up, down, first, second in pairs(rows)]
    return None if present is None else present + ((mean(*zip(*costs, strict=True)) if costs else None) or 0.0)


def pointwise(error):
    """Return the mean error of a group, of an error of a score and its truth."""
    return lambda rows: mean([error(score, truth) for score, truth, _ in rows], columns(rows)[2])


def signed(error):
    """Return an error of labels, of an error of the score that should be large."""
    return lambda score, label: error(score if label else -score)


def focal(right: float) -> float:
    return -(math.exp(2 * log_sigmoid(-right))) * log_sigmoid(right)


def kendall_loss(rows: Rows) -> float | None:
    """With a temperature of 0.5."""
    if not ordered(rows):
        return None
    rows = relative(rows)
    ranks, sums = places(columns(rows)[0]), [0.0, 0.0, 0.0]
    for a, b in permutations(range(len(rows)), 2):
        apart = (ranks[b] - ranks[a]) / 0.5
        soft = math.copysign(-math.expm1(-abs(apart)), apart)
        true = (rows[a][1] > rows[b][1]) - (rows[a][1] < rows[b][1])
        for at, part in enumerate((soft * true, soft**2, true**2)):
            sums[at] += rows[a][2] * rows[b][2] * part
    return 1 - sums[0] / math.sqrt(max(sums[1], sums[2] / 1000) * sums[2])


def average_precision_loss(rows: Rows) -> float | None:
    scores = columns(rows)[0]
    positives = [row for row in rows if row[1]]
    if not sum(weight for *_, weight in positives) or len(positives) == len(rows):
        return None
    among_all, own = dict(zip(scores, places(scores), strict=True)), places([score for score, *_ in positives])
    precisions = [min(1.0, rank / among_all[score]) for rank, (score, *_) in zip(own, positives, strict=True)]
    return 1 - mean(precisions, [weight for *_, weight in positives])


def mean_rank(rows: Rows) -> float | None:
    scores, labels, weights = columns(rows)
    worth = [weight * label for weight, label in zip(weights, labels, strict=True)]
    if not sum(worth) or all(labels):
        return None
    least = sum(at * one for at, one in enumerate(sorted(worth, reverse=True), 1)) / sum(worth)
    return (mean(places(scores), worth) - least) / len(rows)


# Metrics.


def correlation(rows: Rows) -> float | None:
    """Spearman's: the weighted correlation of ranks."""
    if not ordered(rows) or len({score for score, _, weight in rows if weight > 0}) < 2:
        return None
    scores, truth, weights = columns(rows)
    centered = [[rank - mean(ranks, weights) for rank in ranks] for ranks in (places(scores), places(truth))]
    covariance = [sum(w * a * b for w, a, b in zip(weights, one, two, strict=True))
                  for one, two in ((centered[0], centered[1]), (centered[0],) * 2, (centered[1],) * 2)]  # fmt: skip
    return covariance[0] / math.sqrt(covariance[1] * covariance[2])


def signs(rows: Rows) -> list[tuple[int, int, float]]:
    sign = lambda value: (value > 0) - (value < 0)  # noqa: E731
    return [(sign(a[0] - b[0]), sign(a[1] - b[1]), a[2] * b[2]) for a, b in permutations(relative(rows), 2)]


def tau(rows: Rows) -> float | None:
    if not ordered(rows) or len({score for score, _, weight in rows if weight > 0}) < 2:
        return None
    agree, *of_each = (sum(w * part(a, b) for a, b, w in signs(rows)) for part in (
        lambda a, b: a * b, lambda a, b: a * a, lambda a, b: b * b))  # fmt: skip
    return agree / math.sqrt(of_each[0] * of_each[1])


def gamma(rows: Rows) -> float | None:
    if tau(rows) is None:
        return None
    compared = sum(w * abs(a * b) for a, b, w in signs(rows))
    return sum(w * a * b for a, b, w in signs(rows)) / (compared or 1.0)


def shared(scores: list[float], worth) -> list[float]:
    """Return the mean of what the places are worth that equal scores take together."""
    result = []
    for one in scores:
        above, tied = sum(other > one for other in scores), sum(other == one for other in scores)
        result.append(sum(map(worth, range(above + 1, above + tied + 1))) / tied)
    return result


def ndcg(rows: Rows) -> float | None:
    scores, truth, weights = columns(rows)
    gains = [weight * (2**true - 1) for true, weight in zip(truth, weights, strict=True)]
    best = sum(gain / math.log2(2 + at) for at, gain in enumerate(sorted(gains, reverse=True)))
    discounts = shared(scores, lambda at: 1 / math.log2(1 + at))
    return sum(gain * one for gain, one in zip(gains, discounts, strict=True)) / best if best else None


def recall_at_2(rows: Rows) -> float | None:
    scores, labels, weights = columns(rows)
    worth = [weight * label for weight, label in zip(weights, labels, strict=True)]
    return mean(shared(scores, lambda at: float(at <= 2)), worth)


def average_precision(rows: Rows) -> float | None:
    positives = [row for row in rows if row[1]]
    down_to = [[row for row in rows if row[0] >= score] for score, *_ in positives]
    precisions = [
        sum(w * label for _, label, w in some) / (sum(w for *_, w in some) or 1.0) for some in down_to
    ]  # fmt: skip
    return mean(precisions, [weight for *_, weight in positives]) if positives else None


def reciprocal_rank(rows: Rows) -> float | None:
    worth = [(weight, 1 + sum(not other[1] and other[0] >= score for other in rows)
              + sum(other[1] > 0 and other[0] > score for other in rows))
             for score, label, weight in rows if label]  # fmt: skip
    heaviest = max((weight for weight, _ in worth), default=0.0)
    return max(weight / at for weight, at in worth) / heaviest if heaviest else None


def ranking_loss(rows: Rows) -> float | None:
    both = pairs(rows)
    return mean([float(up <= down) for up, down, *_ in both], [a * b for *_, a, b in both]) if both else None


def coverage_error(rows: Rows) -> float | None:
    return max((sum(other[0] >= score for other in rows) for score, label, _ in rows if label), default=None)


EXACT = {"sorter": "straight_through"}
LOSSES = {
    "average_precision": (average_precision_loss, EXACT), "multilabel_cross_entropy": (multilabel_cross_entropy, {}),
    "focal": (pointwise(signed(focal)), {"gamma": 2.0}), "gaussian_mlr": (gaussian_mlr, {}),
    "generalized_cross_entropy": (pointwise(signed(lambda v: (1 - math.exp(0.7 * log_sigmoid(v))) / 0.7)), {"q": 0.7}),
    "kendall": (kendall_loss, EXACT), "l1": (pointwise(lambda s, t: abs(s - t)), {}),
    "lambdarank": (lambdarank, {}), "list_mle": (list_mle, {}), "listnet": (listnet, {}), "lsep": (lsep, {}),
    "sodeep_mean_average_precision": (mean_rank, EXACT), "mse": (pointwise(lambda s, t: (s - t) ** 2), {}),
    "multilabel_soft_margin": (pointwise(signed(lambda v: -log_sigmoid(v))), {}), "ndcg": (ndcg_loss, EXACT),
    "pairwise_logistic": (ranknet, {}), "plackett_luce": (plackett_luce, {}), "ranknet": (ranknet, {}),
    "rlsep": (rlsep, {}), "spearman": (rank_distance, EXACT), "spearman_of_label_ranks": (rank_distance, EXACT),
}  # fmt: skip
METRICS = {
    "average_precision": (average_precision, {}), "coverage_error": (coverage_error, {}),
    "goodman_kruskal_gamma": (gamma, {}), "kendall": (tau, {}), "ndcg": (ndcg, {}),
    "ranking_loss": (ranking_loss, {}), "recall_at_k": (recall_at_2, {"k": 2}),
    "reciprocal_rank": (reciprocal_rank, {}), "spearman": (correlation, {}),
}  # fmt: skip
