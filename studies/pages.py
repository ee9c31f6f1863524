"""Write the tables of the docs from the kept results: `python -m studies.pages [NAME ...]`.

`PLACES` says which page shows what. Each place is between the lines `<!-- results: NAME -->` and
`<!-- end of results -->`. The place `report` is of the last `dvc repro` instead, written if it is named, with the
sheet of images.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, ttest_1samp, ttest_ind, ttest_rel, wilcoxon
from scipy.stats import t as student

from pipelines.reporting.results import cell, markdown
from rankgrad.evaluation import holm
from rankgrad.io.atomic import replaced_file
from rankgrad.tasks.label_ranking import LabelRanking
from studies.cells import (
    Cell,
    Computed,
    Table,
    at_an_end,
    check_seeds,
    gain,
    mean,
    of_seeds,
    p_of,
    paired,
    small_p,
    value,
    with_half,
)  # fmt: skip
from studies.kept import Study
from studies.papers import SORTERS, printed
from studies.reproduced import PAPERS, Results

__all__ = ["PLACES", "text_of", "write"]

REPORT, SHEET = Path("reports/results.md"), Path("reports/figures/orders.png")

# --- RLSEP's Tables 1 and 2: the key of a row is a metric. ---

LOSSES = {"multilabel_cross_entropy": "cross-entropy", "lsep": "LSEP", "rlsep": "RLSEP"}
PRINTED = printed("label_ranking", "ranked_mnist", "rlsep")["5,000"]
METRICS = {metric.title: metric.name for metric in LabelRanking.metrics if metric.name in PRINTED}
MARGINS = "RLSEP's margins, in points; p by t-tests over seeds, paired and Welch's, adjusted for all rows (Holm)."
RIVALS = [(metric, loss) for metric in METRICS.values() for loss in ("multilabel_cross_entropy", "lsep")]  # of RLSEP


def _printed(loss: str, images: str, metric: str) -> float:
    return 100 * float(printed("label_ranking", "ranked_mnist", loss)[images][metric].split(" ± ")[0])


def spread(run: str) -> Cell:
    """Show a metric in per cent, with its standard deviation over seeds."""

    def cell(study: Study, metric: str) -> str:
        values = of_seeds(study, run, metric)
        return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1):.1f}"

    return cell


def percent(run: str) -> Cell:
    """Show a metric in per cent, with its interval."""
    return lambda study, metric: cell(*(100 * part for part in study.leaf(run, metric)), digits=1)


def in_the_paper(images: str) -> Cell:
    return lambda study, metric: f"{_printed('rlsep', images, metric):.1f}"


@cache
def margins(study: Study) -> dict[tuple[str, str], list[str]]:
    """Return RLSEP's margins over its rivals, with p of two t-tests over seeds, and the paper's margins.

    Raises:
        ValueError: the losses have different seeds.
    """
    runs = {loss: next(run for run in study.runs if run.startswith(f"label_ranking-{loss}-")) for loss in LOSSES}
    pairs = [[of_seeds(study, runs[loss], metric) for loss in ("rlsep", rival)] for metric, rival in RIVALS]
    for pair in pairs:
        check_seeds(*pair)
    paired = holm([float(ttest_rel(*pair).pvalue) for pair in pairs])
    welch = holm([float(ttest_ind(*pair, equal_var=False).pvalue) for pair in pairs])
    theirs = [_printed("rlsep", "5,000", metric) - _printed(rival, "5,000", metric) for metric, rival in RIVALS]
    return {
        rival: [f"{100 * (pair[0] - pair[1]).mean():+.1f}", small_p(p), small_p(q), f"{paper:+.1f}"]
        for rival, pair, p, q, paper in zip(RIVALS, pairs, paired, welch, theirs, strict=True)
    }


def _table_1(study: str, kind: str, title: str) -> list[Table]:
    columns = {shown: spread(f"label_ranking-{loss}-{kind}") for loss, shown in LOSSES.items()}
    columns |= {"RLSEP in the paper": in_the_paper("5,000")}
    titles = {metric: title for title, metric in METRICS.items()}
    about = ("margin", "p, paired by seed", "p, Welch", "the paper's margin")
    tested: dict[str, Cell] = {"over": lambda _, rival: LOSSES[rival[1]]}
    tested |= {name: lambda study, rival, place=place: margins(study)[rival][place] for place, name in enumerate(about)}
    seeds = f"## {title}\n\nPer cent, mean ± standard deviation over {{seeds}} seeds.\n\n"
    rivals = [(titles[rival[0]], rival) for rival in RIVALS]
    return [
        Table(study, "metric", METRICS.items(), columns, seeds),
        Table(study, "metric", rivals, tested, f"{MARGINS}\n\n"),
    ]


ALL_OF_MNIST = Table(
    "full_224",
    "metric",
    METRICS.items(),
    {
        **{shown: percent(f"label_ranking-{loss}-shifted") for loss, shown in LOSSES.items()},
        "RLSEP in the paper": in_the_paper("60,000"),
    },
    "## The same, 60,000 images\n\nPer cent, with a 95 % interval over test images; one seed.\n\n",
)

# --- The papers' figures. ---

RANKER = "label_ranking-rlsep-label_attention"


def both_ends(metric: str, digits: int) -> Cell:
    """Show what a metric is in the first and in the last frame; the key of a row is a digit."""

    def cell(study: Study, digit: str) -> str:
        first, last = (study.leaf(RANKER, f"digit_{digit}.{metric}.{end}")[0] for end in ("first", "last"))
        return f"{first:.{digits}f} to {last:.{digits}f}"

    return cell


def _of_scale(study: Study, scale: str) -> str:
    if scale == "exactly_ordered":
        return cell(*study.leaf(RANKER, scale))
    return "{:.1f} ± {:.1f}".format(*(study.leaf(RANKER, f"scale_{scale}.{one}")[0] for one in ("mean", "deviation")))


def _accuracy(run: str) -> Cell:
    return lambda study, digits: cell(*study.leaf(run.format(digits), f"accuracy.{digits}_digits"))


FIGURES = {
    "SoDeep's Fig. 4: L1 / d by the depth of a CNN sorter": (
        "layers",
        [("2", "cnn-2_layers"), ("4", "cnn-4_layers"), ("6", "cnn-6_layers"), ("8", "cnn"), ("10", "cnn-10_layers")],
        {"L1 / d": value("l1", digits=4)},
    ),
    "SoDeep's Fig. 5: errors of the rank of a score that moves from -1 to 1, in positions": (
        "sorter",
        [
            (name, name)
            for name in (
                *("lstm", "cnn", "cnn-2_layers", "cnn-4_layers", "cnn-6_layers", "cnn-10_layers", "comparator"),
                *("handcrafted", *(f"handcrafted-steepness{steepness}" for steepness in (3, 30, 100))),
                *(f"logistic-steepness{steepness}" for steepness in (10, 35, 100, 400)),
                *("laplace", "laplace-sharp", "straight_through"),
            )
        ],
        {"mean": mean("sweep.mean"), "largest": mean("sweep.largest")},
    ),
    "RLSEP's Fig. 1: scores while sizes change": (
        "digit",
        [(digit, digit) for digit in "123"],
        {
            "side, px": both_ends("side", 0),
            "score": both_ends("score", 1),
            "Spearman of both": lambda study, digit: mean(f"digit_{digit}.spearman")(study, RANKER),
        },
    ),
    "RLSEP's Fig. 3: scores by scale in images of four digits of scales 1 to 4, mean ± deviation": (
        "scale",
        [*((scale, scale) for scale in ("1", "2", "3", "4", "absent")), ("*images in exact order*", "exactly_ordered")],
        {"score": _of_scale},
    ),
    "RLSEP's Fig. 5: ranked accuracy by the number of digits in an image": (
        "digits",
        [(str(digits), digits) for digits in range(2, 11)],
        {
            "RLSEP": _accuracy("label_ranking-rlsep-{}_digits"),
            "RLSEP, trained on three digits": _accuracy("label_ranking-rlsep-3_digits"),
            "LSEP": _accuracy("label_ranking-lsep-{}_digits"),
        },
    ),
}


POINTS = {
    "hinge_ap": (
        "SoDeep's Fig. 6: average precision by the fraction of flipped labels, compared with Hinge-AP; lists of 32",
        {
            "Eq. 7, LSTM": "lstm",
            "Eq. 7, CNN": "cnn",
            "Eq. 7, handcrafted sorter": "handcrafted",
            "Hinge-AP": "hinge_ap",
            "cross-entropy": "multilabel_soft_margin",
        },
    ),
    "multilabel_soft_margin-256": (
        "The same in batches of 256, compared with cross-entropy",
        {
            "AP, Laplace": "average_precision-256",
            "Hinge-AP": "hinge_ap-256",
            "generalized cross-entropy": "generalized_cross_entropy-256",
            "cross-entropy": "multilabel_soft_margin-256",
        },
    ),
}
FLIPPED = (0, 10, 20, 30, 40)  # per cent


def of_points(study: Study) -> str:
    """Show the mean over seeds of each method and fraction of flipped labels, as `paired` does within a table."""
    parts = []
    for usual, (title, methods) in POINTS.items():
        values = {
            method: [of_seeds(study, f"points-{method}-{flipped}", "mean_average_precision") for flipped in FLIPPED]
            for method in methods.values()
        }
        others = [method for method in values if method != usual]
        cells = iter(paired([pair for method in others for pair in zip(values[method], values[usual], strict=True)]))
        rows = []
        for name, method in methods.items():
            shown = (
                [f"{one.mean():.3f}" for one in values[usual]] if method == usual else [next(cells) for _ in FLIPPED]
            )
            rows.append([name, *shown])
        parts.append(f"**{title}.**\n\n" + markdown(["method", *(f"{flipped} %" for flipped in FLIPPED)], rows))
    return "\n".join(parts)


SHADED = {
    "size": "size",
    "brightness": "brightness",
    "both, by size": "both_by_size",
    "both, by brightness": "both_by_brightness",
}
SHADED_METRICS = {
    "ranked 0-1": "ranked.exact_match",
    "answer 0-1": "answer.exact_match",
    "answer tau": "answer.kendall",
    "LRAP": "unranked.average_precision",
    "F1": "unranked.f1",
}


def of_both(metric: str) -> Cell:
    """Show a metric of RLSEP and of GaussianMLR."""

    def cell(study: Study, key: str) -> str:
        runs = (f"label_ranking-{loss}-shaded-{key}" for loss in ("rlsep", "gaussian_mlr"))
        return ", ".join(mean(metric)(study, run) for run in runs)

    return cell


def ranked_apart(study: Study, key: str) -> str:
    """Show by how much ranked 0-1 of GaussianMLR differs from that of RLSEP, by Student's t over seeds."""
    ours, theirs = (
        of_seeds(study, f"label_ranking-{loss}-shaded-{key}", "ranked.exact_match")
        for loss in ("rlsep", "gaussian_mlr")
    )
    check_seeds(ours, theirs)
    return with_half(theirs - ours, "+.3f")


def tau_apart(study: Study, key: str) -> str:
    """Show by how much tau of GaussianMLR differs from that of RLSEP."""
    ours, theirs = (f"label_ranking-{loss}-shaded-{key}" for loss in ("rlsep", "gaussian_mlr"))
    return gain("answer.kendall", ours)(study, theirs)


PAIRS = Table(
    "pairs",
    "run",
    [(name, f"label_ranking-{name}") for name in ("rlsep-label_attention", "rlsep-3_pairs", "rlsep-10_pairs")],
    {
        "ranked 0-1": mean("ranked.exact_match"),
        "difference": gain("ranked.exact_match", RANKER),
        "p (Holm)": p_of("ranked.exact_match", RANKER),
    },
    "**RLSEP's t, random pairs of each image: ranked 0-1, and its difference from all pairs.**\n\n",
)

# --- Many networks at once: runs `<what>, <method>`, with Student's t over seeds. ---

MADE_DATA = {
    "spearman": ("Spearman", ("MSE", "MSE, each list standardized", "MSE of ranks", "Spearman")),
    "average_precision": ("mean AP", ("cross-entropy", "softmax of each list", "AP")),
}
USUAL_ORDER, USUAL_DIGITS = "mse", "SoftSort, binary cross-entropy"


def made_data(study: Study) -> str:
    """Show the mean over seeds of each kind of data and loss, as `paired` does within a table."""
    parts = []
    for metric, (title, losses) in MADE_DATA.items():
        usual, *others = losses
        kinds = [run.removesuffix(f", {usual}") for run in study.runs if run.endswith(f", {usual}")]
        values = {kind: [of_seeds(study, f"{kind}, {loss}", metric) for loss in losses] for kind in kinds}
        cells = iter(paired([(one, first) for first, *rest in values.values() for one in rest]))
        rows = []
        for kind, (first, *_, rival, last) in values.items():
            rows.append([kind, f"{first.mean():.3f}", *(next(cells) for _ in others), with_half(last - rival, "+.3f")])
        parts.append(markdown([f"made data, by {title}", *losses, f"{losses[-1]} minus {losses[-2]}"], rows))
    return "\n".join(parts)


def label_ranking_sets(study: Study) -> str:
    """Show tau of each set and method, and what a method does over all sets: Wilcoxon's and Friedman's tests."""
    sets = [run for run in study.runs if study.has(run, "rows")]
    methods = [run.removeprefix(f"{sets[0]}, ") for run in study.runs if run.startswith(f"{sets[0]}, ")]
    tau = [[of_seeds(study, f"{name}, {method}", "kendall") for name in sets] for method in methods]
    means = np.array([[values.mean() for values in one] for one in tau])  # (methods, sets)
    shape, rows = ("rows", "features", "labels"), []
    for place, name in enumerate(sets):
        cells = [with_half(one[place]) for one in tau]
        best = int(means[:, place].argmax())
        cells[best] = f"**{cells[best]}**"
        rows.append([name, *(mean(one, ".0f")(study, name) for one in shape), *cells])
    return f"{markdown(['set', *shape, *methods], rows)}\n{_over_sets(study, methods, means)}"


def _over_sets(study: Study, methods: list[str], means: np.ndarray) -> str:
    """Show what each method does over all sets, from its mean tau on each (methods, sets)."""
    ranks, gains = rankdata(-means, axis=0).mean(1), means - means[methods.index(USUAL_ORDER)]
    others = [place for place, method in enumerate(methods) if method != USUAL_ORDER]
    p = dict(zip(others, holm([float(wilcoxon(gains[place]).pvalue) for place in others]), strict=True))
    rows = []
    for place in ranks.argsort(kind="stable"):
        against, gain = ["", "", ""], gains[place]
        if place in p:
            against = [with_half(gain, "+.3f"), f"{(gain > 0).sum()} of {len(gain)}", small_p(p[place])]
        ends = [_at_ends(study, methods[place], key, ends) for key, ends in (("rate", (0, -1)), ("steps", (-1,)))]
        rows.append([methods[place], f"{means[place].mean():.3f}", f"{ranks[place]:.1f}", *against, *ends])
    columns = ["method", "mean tau", "mean rank", f"minus {USUAL_ORDER}'s", f"sets above {USUAL_ORDER}", "p (Holm)"]
    table = markdown([*columns, "rates at an end", "most steps"], rows)
    return f"Over sets (Friedman's test: p = {friedmanchisquare(*means).pvalue:.1e}):\n\n{table}"


def _at_ends(study: Study, method: str, key: str, places: tuple[int, ...]) -> str:
    """Return how often a value at an end of the grid was chosen."""
    ends = [study.made_by["params"][key][place] for place in places]
    chosen = [row.value for row in study.rows if row.metric == f"setting.{key}" and row.run.endswith(f", {method}")]
    return f"{np.isin(chosen, ends).mean():.0%}"


# --- Orders that people's votes make: folds are random splits, which share rows. ---

VOTERS = {
    "SBU_3DFE": "SBU_3DFE, emotions in faces",
    "emotion6": "Emotion6, emotions about photographs",
    "Movie": "Movie, stars",
}
OURS = "rlsep"
HELD_OUT = 0.2 / 0.8  # test rows over training rows


def over_splits(gain: pd.Series) -> tuple[float, float]:
    """Return half the width of the 95 % interval of a mean over random splits of the same rows, and p of a mean of 0.

    The variance is that of Nadeau and Bengio (2003), which counts that training rows are shared.
    """
    deviation = (gain.var(ddof=1) * (1 / len(gain) + HELD_OUT)) ** 0.5
    freedom = len(gain) - 1
    return float(deviation * student.ppf(0.975, freedom)), float(2 * student.sf(abs(gain.mean()) / deviation, freedom))


def human_orders(study: Study) -> str:
    """Show each method on each set, and by how much RLSEP is better: p is adjusted for all sets and methods (Holm)."""
    methods = [run.removeprefix("Movie, ") for run in study.runs if run.startswith("Movie, ")]
    runs = [(name, method, f"{name}, {method}") for name in VOTERS for method in methods]
    accuracy = {run: pd.Series(study.by_fold(run, "accuracy")) for _, _, run in runs}
    gains = {run: accuracy[f"{name}, {OURS}"] - accuracy[run] for name, method, run in runs if method != OURS}
    tests = {run: over_splits(gain) for run, gain in gains.items()}
    adjusted = dict(zip(tests, holm([p for _, p in tests.values()]), strict=True))
    parts = []
    for name, title in VOTERS.items():
        shape = [study.leaf(name, metric)[0] for metric in ("rows", "features", "labels", "rows with ties")]
        about = "{:,.0f} rows, {:,.0f} features, {:.0f} labels; {:.0%} of the rows have ties".format(*shape)
        rows = []
        for method in sorted(methods, key=lambda method: -accuracy[f"{name}, {method}"].mean()):
            run = f"{name}, {method}"
            against = ["", ""]
            if run in gains:
                against = [f"{gains[run].mean():+.3f} ± {tests[run][0]:.3f}", small_p(adjusted[run])]
            means = [f"{np.mean(list(study.by_fold(run, metric).values())):.3f}" for metric in HUMAN_METRICS.values()]
            rows.append([method, *means, *against, *(_at_ends_of(study, run, key) for key in ("rate", "steps"))])
        columns = ["method", *HUMAN_METRICS, "RLSEP minus this", "p (Holm)", "rates at an end", "steps at an end"]
        parts.append(f"**{title}: {about}.**\n\n{markdown(columns, rows)}")
    return "\n".join(parts)


HUMAN_METRICS = {"ranked accuracy": "accuracy", "tau-b": "kendall", "ranked 0-1": "exact_match"}


def _at_ends_of(study: Study, run: str, key: str) -> str:
    """Return in how many splits the first or the last value of a grid was chosen."""
    grid = study.made_by["params"][key]
    chosen = study.by_fold(run, f"setting.{key}").values()
    return f"{sum(value in (grid[0], grid[-1]) for value in chosen)} of {len(chosen)}"


def four_digits(study: Study) -> str:
    """Show for each n EM and EW on test, and EM minus the usual method's with paired t-tests, the best first."""
    parts = []
    for n in sorted({int(run.rpartition(", n = ")[2]) for run in study.runs if ", n = " in run}):
        names = [run.removesuffix(f", n = {n}") for run in study.runs if run.endswith(f", n = {n}")]
        em = {name: of_seeds(study, f"{name}, n = {n}", "test.EM") for name in names}
        gains = {name: (em[name] - em[USUAL_DIGITS]).dropna() for name in names if name != USUAL_DIGITS}
        p = dict(zip(gains, holm([float(ttest_1samp(gain, 0).pvalue) for gain in gains.values()]), strict=True))
        rows = []
        for name in sorted(names, key=lambda name: -em[name].mean()):
            ew = of_seeds(study, f"{name}, n = {n}", "test.EW")
            against = [with_half(gains[name].to_numpy(), "+.1f"), small_p(p[name])] if name in p else ["", ""]
            setting, shown = mean("setting", "g")(study, f"{name}, n = {n}"), with_half(em[name].to_numpy(), ".1f")
            rows.append([name, setting, str(len(ew)), shown, with_half(ew, ".1f"), *against])
        columns = ["method", "setting", "seeds", "EM", "EW", f"EM minus that of {USUAL_DIGITS}", "p (Holm)"]
        parts.append(f"**n = {n}**\n\n{markdown(columns, rows)}")
    return "\n".join(parts)


# --- The default run with all of MNIST. ---


def compared_runs(study: Study) -> str:
    """Show each difference that was kept, with its interval."""
    rows = []
    for row in study.rows:
        metric, _, baseline = row.metric.partition(" minus ")
        if baseline and not metric.startswith("p of "):
            values = (f"{run}: {study.leaf(run, metric)[0]:.3f}" for run in (baseline, row.run))
            rows.append([metric, *values, cell(row.value, row.low, row.high, sign=True)])
    return markdown(["metric", "baseline", "run", "difference"], rows)


# --- What each loss makes of larger batches: heads like those of the default run. ---

HEAD = re.compile(r"heads-(?P<task>\w+)-(?P<loss>\w+)(-\d+)?-batch(?P<batch>\d+)")
BATCHES = {
    ("captions", "image_to_text.recall_at_1"): ("caption R@1", ("triplet", "info_nce", "mean_log_rank")),
    ("captions", "text_to_image.recall_at_1"): ("image R@1", ("triplet", "info_nce", "mean_log_rank")),
    ("scenes", "mean_average_precision"): (
        "mAP",
        ("soft_margin", "average_precision_and_soft_margin", "average_precision", "generalized_cross_entropy"),
    ),
}


def best_of_batches(study: Study, task: str, metric: str) -> dict[tuple[str, int], float]:
    """Return a metric by loss and batch, of the run that is best on validation, a mean over seeds."""
    best: dict[tuple[str, int], tuple[float, float]] = {}
    for run in study.runs:
        if (head := HEAD.fullmatch(run)) and head["task"] == task:
            key, measured = (head["loss"], int(head["batch"])), of_seeds(study, run, metric).mean()
            best[key] = max(best.get(key, (-np.inf, np.nan)), (of_seeds(study, run, "validation").mean(), measured))
    return {key: measured for key, (_, measured) in best.items()}


def by_batch(study: Study) -> str:
    """Show for each batch and loss the run that is best on validation, means over seeds."""
    parts = []
    for (task, metric), (title, losses) in BATCHES.items():
        best = best_of_batches(study, task, metric)
        rows = [
            [f"{batch:,}", *(f"{best[loss, batch]:.3f}" if (loss, batch) in best else "" for loss in losses)]
            for batch in sorted({batch for loss, batch in best if loss in losses})
        ]
        parts.append(markdown([f"{title}, rows in a batch", *losses], rows))
    return "\n".join(parts)


# --- SoDeep's Table 1. ---

ON_100_SCORES = {
    "comparator, trained at d = 32, ships": "comparator",
    **{f"LSTM set by hand, {cells} cells each way": f"lstm-{cells}_cells" for cells in (512, 256, 128, 64)},
    "LSTM, the paper's": "lstm",
    "CNN, the paper's kernels, 32 channels": "cnn-unpadded",
    "CNN, dilated, 32 channels": "cnn",
    "logistic, softness 1/35": "logistic-steepness35",
    "Laplace, softness 0.05": "laplace-sharp",
    "Laplace, softness 0.2": "laplace",
    "handcrafted, steepness 10": "handcrafted",
}

# --- Real data. ---

USUAL_KANJI, USUAL_CELLS = "label_ranking-multilabel_cross_entropy-kanji", "memorability-mse-solar_cells"
USUAL_PROTEINS, USUAL_FILMS = "proteins-soft_margin", "films-mse"
TRUE_ORDER = "*the true order, without equal scores*"
PROTEINS = {
    "soft margin": USUAL_PROTEINS,
    "soft margin + Eq. 7, Laplace": "proteins-soft_margin_and_eq_7",
    "average precision loss, Laplace": "proteins-average_precision",
    "soft margin + average precision loss, Laplace": "proteins-soft_margin_and_average_precision",
    "SmoothAP: average precision loss, handcrafted": "proteins-smooth_ap",
    "Hinge-AP": "proteins-hinge_ap",
    "RLSEP on 0/1": "proteins-rlsep",
    "ListNet": "proteins-listnet",
    "LightGBM, LambdaRank": "proteins-lightgbm",
    "LambdaRank": "proteins-lambdarank",
}
KANJI = {
    "multilabel_cross_entropy": USUAL_KANJI,
    "multilabel_cross_entropy, what it finds in the usual order": "kanji-usual_order",
    **{loss: f"label_ranking-{loss}-kanji" for loss in ("mse", "rlsep")},
    "*the true components, in their usual order*": "usual_order",
}
CELLS = {
    "mse": USUAL_CELLS,
    "spearman, lstm": "memorability-spearman-lstm-solar_cells",
    "spearman, laplace": "memorability-spearman-laplace-solar_cells",
    "ranknet": "memorability-ranknet-solar_cells",
    TRUE_ORDER: "true_order_of_cells",
}
GB1 = {
    "MSE": "mse",
    "MSE of log(fitness + 0.01)": "mse_log",
    "MSE of log(1 + fitness)": "mse_log1p",
    "MSE of ranks": "mse_all_ranks",
    "MSE of ranks in the batch": "mse_ranks",
    "RankNet": "ranknet",
    "Spearman, Laplace": "spearman",
    "Spearman, LSTM (SoDeep)": "spearman_lstm",
    "RankNet + MSE of log(fitness + 0.01)": "ranknet_and_mse_log",
    "Spearman, Laplace + MSE of log(fitness + 0.01)": "spearman_and_mse_log",
}
ADDITIVE = ("mse", "mse_log", "mse_ranks", "ranknet", "spearman")
FILMS = {
    "mse": USUAL_FILMS,
    "mse, user's mean taken off": "films-mse_centered",
    **{loss: f"films-{loss}" for loss in ("listnet", "ranknet", "lambdarank", "ndcg", "spearman", "kendall")},
    "*mean rating of the film*": "mean_rating",
    TRUE_ORDER: "true_order_of_films",
}


def over_folds(metric: str, best: str) -> Cell:
    """Show by how much a run exceeds another one, with Student's t over folds, each a mean over its seeds."""

    def by_fold(study: Study, run: str) -> pd.Series:
        rows = [row for row in study.rows if row.run == run and row.metric == metric]
        folds = pd.Series([row.value for row in rows], [row.fold for row in rows])
        return folds.groupby(level=0).mean()  # rows without a fold, which are of all, are left out

    def cell(study: Study, run: str) -> str:
        return "" if run == best else with_half(by_fold(study, best) - by_fold(study, run), "+.3f")

    return cell


PROTEIN_COLUMNS = {
    "mean AP": value("mean_average_precision"),
    "difference from soft margin": gain("mean_average_precision", USUAL_PROTEINS, digits=4),
    "p (Holm)": p_of("mean_average_precision", USUAL_PROTEINS),
    "Hinge-AP minus this, over folds": over_folds("mean_average_precision", "proteins-hinge_ap"),
    "NDCG": mean("ndcg"),
    "TOP1": mean("top_1"),
    "RKL": mean("rank_of_last", ".1f"),
    "rates at an end": at_an_end,
}
KANJI_COLUMNS = {
    "ranked 0-1": value("ranked.exact_match"),
    "difference from cross-entropy": gain("ranked.exact_match", USUAL_KANJI),
    "p (Holm)": p_of("ranked.exact_match", USUAL_KANJI),
    "difference from RLSEP": gain("ranked.exact_match", "label_ranking-rlsep-kanji"),
    "p (Holm) of that": p_of("ranked.exact_match", "label_ranking-rlsep-kanji"),
    "ranked accuracy": value("ranked.accuracy"),
    "ranked mAP": value("ranked.mean_average_precision"),
    "unranked 0-1": value("unranked.exact_match"),
}
CELL_COLUMNS = {
    "Spearman": value("spearman"),
    "difference from MSE": gain("spearman", USUAL_CELLS),
    "p (Holm)": p_of("spearman", USUAL_CELLS),
}


def of_split(network: str, split: str) -> Cell:
    """Show Spearman, and by how much it exceeds that of MSE and of MSE of logs; the key of a row is a loss."""

    def cell(study: Study, loss: str) -> str:
        run, rivals = f"{network}-{loss}-{split}", [f"{network}-{rival}-{split}" for rival in ("mse", "mse_log")]
        gains = [gain("spearman", rival)(study, run) for rival in rivals]
        return "; ".join([mean("spearman")(study, run), *filter(None, gains)])

    return cell


def at_ends_of_splits(network: str) -> Cell:
    """Name the splits in which the lowest or the highest value of a loss's grid was chosen."""

    def cell(study: Study, loss: str) -> str:
        ended = []
        for split, key in GB1_SPLITS.items():
            run = f"{network}-{loss}-{key}"
            for option, grid in study.made_by["params"]["runs"].get(run, {}).get("grid", {}).items():
                if study.leaf(run, f"setting.{option}")[0] in (min(grid), max(grid)):
                    ended.append(split)
        return ", ".join(ended)

    return cell


GB1_SPLITS = {"two_vs_rest": "two", "three_vs_rest": "three", "low_vs_high": "low", "sampled": "sampled"}
GB1_TABLES = [
    Table(
        "flip_gb1",
        "loss",
        rows.items(),
        {split: of_split(network, key) for split, key in GB1_SPLITS.items()}
        | {"rate at an end": at_ends_of_splits(network)},
        f"**{title}.**\n\n",
    )
    for title, network, rows in (
        ("One layer of 64 units", "gb1", GB1),
        ("An additive model", "gb1_additive", {name: loss for name, loss in GB1.items() if loss in ADDITIVE}),
    )
]
FILM_COLUMNS = {
    "NDCG": value("ndcg"),
    "minus mse's": gain("ndcg", USUAL_FILMS, digits=4),
    "p (Holm)": p_of("ndcg", USUAL_FILMS),
    "Kendall's tau": value("kendall"),
    "tau minus mse's": gain("kendall", USUAL_FILMS, digits=4),
    "p (Holm) of tau": p_of("kendall", USUAL_FILMS),
    "rates at an end": at_an_end,
}
SORTER_COLUMNS = {
    "parameters": mean("parameters", ",.0f"),
    "L1": value("l1", digits=4),
    "the paper's L1": lambda _, run: SORTERS.get(run.split("-")[0], ""),
    "exact ranks": mean("exact_ranks"),
    "vanishing gradients": mean("gradient.vanishing"),
    "wrong signs": mean("gradient.wrong_signs_of_others"),
}
# The page of each place, and its tables from top to bottom.
PLACES: dict[str, tuple[str, Sequence[Table | Computed | Results]]] = {
    **{paper: ("docs/papers.md", [Results(results)]) for paper, results in PAPERS.items()},
    "table_1": (
        "docs/table_1.md",
        [
            *_table_1("subset_224", "shifted", "The paper's network, 224 px, 5,000 images"),
            ALL_OF_MNIST,
            *_table_1("table_1", "label_attention", "A smaller network, 64 px, 5,000 images"),
        ],
    ),
    "paper_figures": (
        "docs/experiments.md",
        [*(Table("paper_figures", *table, title=f"**{title}.**\n\n") for title, table in FIGURES.items()), PAIRS],
    ),
    "flipped_labels": ("docs/experiments.md", [Computed("flipped_labels", of_points)]),
    "shaded_mnist": (
        "docs/experiments.md",
        [
            Table(
                "shaded_mnist",
                "what decides",
                SHADED.items(),
                {title: of_both(metric) for title, metric in SHADED_METRICS.items()}
                | {"difference in ranked 0-1": ranked_apart, "difference in tau": tau_apart},
                "**RLSEP, GaussianMLR with a variance of 1.**\n\n",
            )
        ],
    ),
    "proteins": ("docs/real_data.md", [Table("protein_homology", "method", PROTEINS.items(), PROTEIN_COLUMNS)]),
    "kanji": ("docs/real_data.md", [Table("kanji", "loss", KANJI.items(), KANJI_COLUMNS)]),
    "solar_cells": ("docs/real_data.md", [Table("solar_cells", "loss", CELLS.items(), CELL_COLUMNS)]),
    "gb1": ("docs/real_data.md", GB1_TABLES),
    "films": ("docs/real_data.md", [Table("movielens_100k", "loss", FILMS.items(), FILM_COLUMNS)]),
    "when_ranks_win": ("docs/results.md", [Computed("when_ranks_win", made_data)]),
    "all_of_mnist": ("docs/results.md", [Computed("all_of_mnist", compared_runs)]),
    "by_batch": ("docs/results.md", [Computed("heads", by_batch)]),
    "label_ranking_sets": ("docs/real_data.md", [Computed("label_ranking_sets", label_ranking_sets)]),
    "human_orders": ("docs/real_data.md", [Computed("human_orders", human_orders)]),
    "four_digit_mnist": ("docs/peers.md", [Computed("four_digit_mnist", four_digits)]),
    "sodeep_table_1": (
        "docs/sodeep_table_1.md",
        [Table("sodeep_table_1", "sorter", ON_100_SCORES.items(), SORTER_COLUMNS)],
    ),
}


def text_of(name: str) -> str:
    """Return what stands in a place."""
    return "\n".join(table.text() for table in PLACES[name][1])


def write(page: Path, name: str, text: str) -> None:
    """Write text into a place of a page.

    Raises:
        ValueError: the page does not have exactly one such place.
    """
    place = rf"(<!-- results: {re.escape(name)} -->\n).*?(<!-- end of results -->)"
    new, count = re.subn(place, lambda match: f"{match[1]}{text}{match[2]}", page.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(
            f"{page}: {count} places {name}, expected 1: `<!-- results: {name} -->` and `<!-- end of results -->`"
        )
    with replaced_file(page) as partial:
        partial.write_text(new)


def write_report() -> None:
    """Copy the tables and the sheet of images of the last `dvc repro` into docs/.

    Raises:
        FileNotFoundError: the report has not been made.
        ValueError: the page has no place for the tables.
    """
    if not REPORT.is_file():
        raise FileNotFoundError(f"{REPORT}: no such file; make it with `dvc repro`")
    write(Path("docs/results.md"), "report", REPORT.read_text())
    if SHEET.is_file():  # there is none without label ranking
        shutil.copyfile(SHEET, Path("docs") / SHEET.name)


def main(names: Sequence[str]) -> None:
    """Write the places that are named; all but the report's if none is.

    Raises:
        FileNotFoundError: a study was not kept.
        ValueError: there is no such place, or a study is damaged.
    """
    if unknown := sorted({*names} - {"report", *PLACES}):
        raise ValueError(f"{unknown[0]}: no such place, expected report, {', '.join(PLACES)}")
    for name in names or PLACES:
        if name == "report":
            write_report()
        else:
            write(Path(PLACES[name][0]), name, text_of(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
