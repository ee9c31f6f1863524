"""Every loss and metric on one list of n: time, memory and how both grow, beside the same formula over all pairs.

    python -m studies.times.losses [NAME ...]      # all by default: some minutes

Losses are measured forward and backward, on one thread; memory is the peak above the process. `growth` is the exponent
of n between the two longest lists. torchmetrics and SciPy are measured where they are installed. Times are of the
processor, in which other work does not count. A length is left out where a call would take more than 25 seconds, or
all pairs more than 6 GB.
"""

import inspect
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context

import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.nn import functional

from rankgrad import lookup
from rankgrad.sorters import Laplace
from studies.times.results import FOLDER, write

LENGTHS = (100, 1_000, 10_000, 100_000)
LONGEST, LARGEST = 25.0, 6_000.0  # seconds, and megabytes of all pairs
GRADES = {"label_ranks": 5, "labels": 2}  # of a truth; a target has them if it is a relevance, and is real otherwise
RELEVANCE = {"expected_reciprocal_rank", "lambdarank", "ndcg"}
ALL_PAIRS = ", all pairs"

Call = Callable[[Tensor, Tensor], Tensor]


def _ahead(values: Tensor) -> Tensor:
    """Return $x_j - x_i$, (n, n)."""
    return values.unsqueeze(0) - values.unsqueeze(1)


def _step(apart: Tensor) -> Tensor:
    """Return Laplace's distribution function."""
    return (1 - apart.sign() * torch.expm1(-apart.abs())) / 2


def _ranks(scores: Tensor) -> Tensor:
    return 0.5 + _step(_ahead(scores) / (0.2 * scores.detach().std(correction=0))).sum(-1)


def _spearman(scores: Tensor, target: Tensor) -> Tensor:
    true = 1 + (_ahead(target) > 0).sum(-1)
    return 6 * (_ranks(scores) - true).square().mean() / (len(scores) ** 2 - 1)


def _kendall(scores: Tensor, target: Tensor) -> Tensor:
    soft, true = 2 * _step(_ahead(_ranks(scores)) / 0.5) - 1, -_ahead(target).sign()
    return 1 - (soft * true).sum() / (soft.square().sum() * true.square().sum()).sqrt()


def _log_sum_exp(scores: Tensor, ranks: Tensor) -> Tensor:
    exponents = _ahead(scores).masked_fill(_ahead(ranks) >= 0, -torch.inf)
    return functional.pad(exponents.flatten(), (1, 0)).logsumexp(-1)


def _plackett_luce(scores: Tensor, ranks: Tensor) -> Tensor:
    left = scores.masked_fill(_ahead(ranks) > 0, -torch.inf).logsumexp(-1)
    return ((left - scores) * (ranks > 0)).sum()


def _logistic(scores: Tensor, truth: Tensor) -> Tensor:
    pairs = _ahead(truth) < 0
    return (functional.softplus(_ahead(scores)) * pairs).sum() / pairs.sum()


def _ndcg(scores: Tensor, target: Tensor) -> Tensor:
    gains, places = 2.0**target - 1, torch.arange(1, len(scores) + 1)
    best = (gains.sort(descending=True).values / (1 + places).log2()).sum()
    return 1 - (gains / (1 + _ranks(scores).clamp(min=1)).log2()).sum() / best


def _lambdarank(scores: Tensor, target: Tensor) -> Tensor:
    """As allRank has it."""
    gains, places = 2.0**target - 1, torch.arange(1, len(scores) + 1)
    best = (gains.sort(descending=True).values / (1 + places).log2()).sum()
    place = scores.detach().argsort(descending=True).argsort() + 1
    weight = _ahead(1 / (1 + place).log2()).abs() * _ahead(gains / best).abs() * (_ahead(target) < 0)
    return (functional.softplus(_ahead(scores)) * weight).sum() / math.log(2)


def _expected_reciprocal_rank(scores: Tensor, target: Tensor) -> Tensor:
    places, satisfied = _ranks(scores).clamp(min=1), (2.0**target - 1) / 16
    before = _step(-_ahead(places) / 0.5).masked_fill(torch.eye(len(scores), dtype=torch.bool), 0.0)
    left = (before * torch.log1p(-satisfied)).sum(-1).exp()
    return 1 - (satisfied * left / places).sum()


def _average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Smooth AP, with our steps."""
    width, positive = 0.2 * scores.detach()[labels.bool()].std(correction=0), labels.bool()
    among = 0.5 + _step(_ahead(scores[positive]) / width).sum(-1)
    return 1 - (among / _ranks(scores)[positive]).clamp(max=1).mean()


PAIRS: dict[str, Call] = {
    "average_precision": _average_precision,
    "expected_reciprocal_rank": _expected_reciprocal_rank,
    "kendall": _kendall,
    "lambdarank": _lambdarank,
    "lsep": lambda scores, ranks: _log_sum_exp(scores, (ranks > 0).int()),
    "ndcg": _ndcg,
    "pairwise_logistic": _logistic,
    "plackett_luce": _plackett_luce,
    "ranknet": _logistic,
    "rlsep": _log_sum_exp,
    "spearman": _spearman,
}


def others() -> dict[str, tuple[str, Call]]:
    """Return what is installed, by its name: the metric that it computes, and the call."""
    found: dict[str, tuple[str, Call]] = {}
    try:
        from scipy import stats

        for name, theirs in (("kendall", stats.kendalltau), ("spearman", stats.spearmanr)):
            found[f"scipy.stats.{theirs.__name__}"] = (name, lambda *pair, f=theirs: torch.tensor(f(*pair).statistic))
    except ImportError as error:
        print(f"SciPy left out: {error}")
    try:
        from torchmetrics.functional import regression, retrieval

        for name, theirs in (
            ("kendall", regression.kendall_rank_corrcoef),
            ("spearman", regression.spearman_corrcoef),
            ("ndcg", retrieval.retrieval_normalized_dcg),
            ("mean_average_precision", retrieval.retrieval_average_precision),
            ("reciprocal_rank", retrieval.retrieval_reciprocal_rank),
        ):
            found[f"torchmetrics {theirs.__name__}"] = (name, theirs)
    except ImportError as error:
        print(f"torchmetrics left out: {error}")
    return found


def truth_of(folder: str, name: str) -> str | None:
    """Return the name of a function's second argument, if it is one that a list has."""
    function = getattr(lookup.module(folder, name), name, None)
    taken = list(inspect.signature(function).parameters) if callable(function) else []
    return taken[1] if len(taken) > 1 and taken[1] in ("target", *GRADES) else None


def calls() -> dict[str, tuple[str, str, Call]]:
    """Return what is measured, by its row: the folder and name that say what it is given, and the call."""
    found: dict[str, tuple[str, str, Call]] = {}
    for folder in ("losses", "metrics"):
        for name in filter(lambda name: truth_of(folder, name), lookup.names(folder)):
            options = {"k": 10} if name.endswith("_at_k") else {}
            ours = lookup.find(folder, name)
            found[f"{folder}.{name}"] = (folder, name, lambda *pair, f=ours, o=options: f(*pair, **o))
            if folder == "losses" and name in PAIRS:
                found[f"losses.{name}{ALL_PAIRS}"] = (folder, name, PAIRS[name])
    truncated = lookup.find("losses", "lambdarank")
    found["losses.lambdarank, truncation 30"] = ("losses", "lambdarank", lambda *pair: truncated(*pair, truncation=30))
    found["Laplace, ranks"] = ("losses", "spearman", lambda scores, _: Laplace()(scores).square().mean())
    return found | {row: ("metrics", name, call) for row, (name, call) in others().items()}


def drawn(folder: str, name: str, length: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(length)
    scores, kind = torch.randn(length, generator=draws), truth_of(folder, name)
    grades = 5 if name in RELEVANCE else GRADES.get(str(kind))
    if grades is None:
        return scores, scores + torch.randn(length, generator=draws)
    return scores, torch.randint(grades, (length,), generator=draws)


def measure(row: str) -> dict[str, float]:
    """Return milliseconds, and megabytes above what the process had after a short list, of each length."""
    folder, name, call = calls()[row]
    learned, found = folder == "losses", {}

    def step(length: int) -> float:
        scores, truth = drawn(folder, name, length)
        begun = time.process_time()
        value = call(scores.requires_grad_(learned), truth)
        if learned:
            value.backward()
        return time.process_time() - begun

    step(50)
    before, growth, last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {}, {"ms": 0.0, "MB": 0.0}
    for length in LENGTHS:
        longer, larger = (last[kind] * 10 ** growth.get(kind, 2) for kind in ("ms", "MB"))
        if longer > 1e3 * LONGEST or (row.endswith(ALL_PAIRS) and larger > LARGEST):
            break
        times = [step(length)]
        while len(times) < 7 and sum(times) < 1:
            times.append(step(length))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        one = {"ms": 1e3 * statistics.median(times), "MB": peak / 1024}
        growth = {kind: math.log10(one[kind] / last[kind]) for kind in one if last[kind] > 0}
        last, found = one, found | {f"{kind}, {length:,}": value for kind, value in one.items()}
    found |= {f"growth of {kind}": growth[kind] for kind in growth}
    if row.endswith(ALL_PAIRS):
        given = drawn(folder, name, 1000)
        ours = calls()[row.removesuffix(ALL_PAIRS)][2](*given)
        found["apart"] = float((call(*given) - ours).abs() / ours.abs())
    return found


def plot(figures: dict[str, dict[str, float]]) -> None:
    """Draw time and memory of losses: ours, and the same formulas over all pairs."""
    figure, axes = plt.subplots(1, 2, figsize=(13, 5))
    names = [name for name in PAIRS if f"losses.{name}" in figures]
    units = {"ms": "milliseconds, forward and backward", "MB": "peak memory, MB"}
    for axis, (kind, unit) in zip(axes, units.items(), strict=True):
        for number, name in enumerate(names):
            for row, style in ((f"losses.{name}", "o-"), (f"losses.{name}{ALL_PAIRS}", "s:")):
                points = {n: figures[row][f"{kind}, {n:,}"] for n in LENGTHS if figures[row].get(f"{kind}, {n:,}")}
                label = name if style == "o-" else None
                axis.plot(
                    points.keys(),
                    points.values(),
                    style,
                    color=plt.colormaps["tab20"](number),
                    markersize=4,
                    label=label,
                )
        axis.set(xscale="log", yscale="log", xlabel="n, scores in one list", ylabel=unit)
        axis.grid(alpha=0.3)
    axes[1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title="dotted: over all pairs")
    figure.tight_layout()
    figure.savefig(FOLDER / "losses.png", dpi=110)
    plt.close(figure)


def main(names: list[str]) -> None:
    if unknown := set(names) - set(calls()):
        raise SystemExit(f"{', '.join(unknown)}: no such row; expected {', '.join(calls())}")
    torch.set_num_threads(1)
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        figures = {}
        for row in names or calls():
            figures[row] = pool.apply(measure, (row,))
            print(row, {name: round(value, 3) for name, value in figures[row].items()}, flush=True)
    columns = [f"{kind}, {length:,}" for kind in ("ms", "MB") for length in LENGTHS]
    write("losses", figures, (*columns, "growth of ms", "growth of MB", "apart"))
    plot(figures)


if __name__ == "__main__":
    main(sys.argv[1:])
