"""Tables whose rows depend on a study's numbers; each function takes a study and returns Markdown."""

import re
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, ttest_ind, ttest_rel, wilcoxon

from pipelines.reporting.results import cell, markdown
from rankgrad.tasks.label_ranking import LabelRanking
from studies import papers
from studies.cells import at_ends, gain, holm_p, mean, settings
from studies.intervals import adjusted, check_seeds, compared, of_seeds, over_splits, paired, small_p, with_half
from studies.kept import Study
from studies.points import FLIPPED

# --- RLSEP's Table 1. ---

METRICS = {
    metric.name: metric.title for metric in LabelRanking.metrics if metric.name in papers.content()["printed"]["5,000"]
}
MARGINS = "RLSEP's margins, in points; p by t-tests over seeds, paired and Welch's, adjusted for all rows (Holm)."


def over_rivals(study: Study) -> str:
    """Show RLSEP's margin over each rival in each metric, with p of two t-tests over seeds, and the paper's margin.

    Raises:
        ValueError: the losses have different seeds.
    """
    runs = {}
    for loss in papers.LOSSES:
        runs[loss] = next(run for run in study.runs if run.startswith(f"label_ranking-{loss}-"))
    margins, by_seed, welch = {}, {}, {}
    for key in product(METRICS, ("multilabel_cross_entropy", "lsep")):
        metric, rival = key
        ours, theirs = (of_seeds(study, runs[loss], metric) for loss in ("rlsep", rival))
        check_seeds(ours, theirs)
        margins[key] = 100 * (ours - theirs).mean(), _of_paper(metric, "rlsep") - _of_paper(metric, rival)
        by_seed[key] = float(ttest_rel(ours, theirs).pvalue)
        welch[key] = float(ttest_ind(ours, theirs, equal_var=False).pvalue)
    by_seed, welch = adjusted(by_seed), adjusted(welch)
    rows = []
    for key, (margin, of_paper) in margins.items():
        metric, rival = key
        p_values = [small_p(by_seed[key]), small_p(welch[key])]
        rows.append([METRICS[metric], papers.LOSSES[rival], f"{margin:+.1f}", *p_values, f"{of_paper:+.1f}"])
    columns = ["metric", "over", "margin", "p, paired by seed", "p, Welch", "the paper's margin"]
    return f"{MARGINS}\n\n{markdown(columns, rows)}"


def _of_paper(metric: str, loss: str) -> float:
    return float(papers.printed("5,000", metric, loss).split(" ± ")[0])


# --- SoDeep's Fig. 6. ---

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


def of_points(study: Study) -> str:
    """Show the mean over seeds for each method and fraction of flipped labels, compared within a table."""
    tables = []
    for usual, (title, methods) in POINTS.items():
        values = {}
        for flipped, method in product(FLIPPED, methods.values()):
            values[flipped, method] = of_seeds(study, f"points-{method}-{flipped}", "mean_average_precision")
        cells = paired(values, usual)
        rows = [[name, *(cells[flipped, method] for flipped in FLIPPED)] for name, method in methods.items()]
        columns = ["method", *(f"{flipped}%" for flipped in FLIPPED)]
        tables.append(f"**{title}.**\n\n{markdown(columns, rows)}")
    return "\n".join(tables)


# --- Many networks at once: runs `<what>, <method>`, with Student's t over seeds. ---

MADE_DATA = {
    "spearman": ("Spearman", ("MSE", "MSE, each list standardized", "MSE of ranks", "Spearman")),
    "average_precision": ("mean AP", ("cross-entropy", "softmax of each list", "AP")),
}
USUAL_ORDER, USUAL_DIGITS = "mse", "SoftSort, binary cross-entropy"


def prefixes(study: Study, suffix: str) -> list[str]:
    """Return what stands before a suffix of runs, such as the sets of a method."""
    return [run.removesuffix(suffix) for run in study.runs if run.endswith(suffix)]


def _methods(study: Study, name: str) -> list[str]:
    """Return the methods with a run on a set."""
    prefix = f"{name}, "
    return [run.removeprefix(prefix) for run in study.runs if run.startswith(prefix)]


def made_data(study: Study) -> str:
    """Show the mean over seeds for each kind of data and loss, each compared with the first loss."""
    tables = []
    for metric, (title, losses) in MADE_DATA.items():
        kinds = prefixes(study, f", {losses[0]}")
        values = {}
        for data, loss in product(kinds, losses):
            values[data, loss] = of_seeds(study, f"{data}, {loss}", metric)
        cells = paired(values, losses[0])
        rows = []
        for data in kinds:
            last = values[data, losses[-1]] - values[data, losses[-2]]
            rows.append([data, *(cells[data, loss] for loss in losses), with_half(last, "+.3f")])
        tables.append(markdown([f"synthetic data, by {title}", *losses, f"{losses[-1]} minus {losses[-2]}"], rows))
    return "\n".join(tables)


def label_ranking_sets(study: Study) -> str:
    """Show tau for each set and method, and Wilcoxon and Friedman tests over all sets."""
    sets = [run for run in study.runs if study.has(run, "rows")]
    methods = _methods(study, sets[0])
    shape = ("rows", "features", "labels")
    means, rows = pd.DataFrame(index=methods, columns=sets, dtype=float), []
    for name in sets:
        cells = {}
        for method in methods:
            tau = of_seeds(study, f"{name}, {method}", "kendall")
            means.loc[method, name] = tau.mean()
            cells[method] = with_half(tau)
        best = means[name].idxmax()
        cells[best] = f"**{cells[best]}**"
        rows.append([name, *(mean(study, name, number, ".0f") for number in shape), *cells.values()])
    return f"{markdown(['dataset', *shape, *methods], rows)}\n{_over_sets(study, means)}"


def _over_sets(study: Study, means: pd.DataFrame) -> str:
    """Summarize each method over all sets, from its mean tau on each (methods, sets)."""
    gains = means - means.loc[USUAL_ORDER]
    ranks = pd.Series(rankdata(-means.to_numpy(), axis=0).mean(1), means.index)
    p_values = adjusted({method: float(wilcoxon(gains.loc[method]).pvalue) for method in means.index.drop(USUAL_ORDER)})
    rates, steps = (study.made_by["params"][key] for key in ("rate", "steps"))
    rows = []
    for method in ranks.sort_values(kind="stable").index:
        gain, against = gains.loc[method], ["", "", ""]
        if method in p_values:
            above = f"{(gain > 0).sum()} of {len(gain)}"
            against = [with_half(gain.to_numpy(), "+.3f"), above, small_p(p_values[method])]
        runs = [f"{name}, {method}" for name in means.columns]
        at_ends = np.isin(settings(study, runs, "rate"), [rates[0], rates[-1]])
        longest = np.isin(settings(study, runs, "steps"), steps[-1])
        ends = [f"{at_ends.mean():.0%}", f"{longest.mean():.0%}"]
        rows.append([method, f"{means.loc[method].mean():.3f}", f"{ranks[method]:.1f}", *against, *ends])
    columns = ["method", "mean tau", "mean rank", f"minus {USUAL_ORDER}", f"datasets above {USUAL_ORDER}", "p (Holm)"]
    table = markdown([*columns, "rates at an end", "most steps"], rows)
    return f"Over datasets (Friedman's test: p = {friedmanchisquare(*means.to_numpy()).pvalue:.1e}):\n\n{table}"


# --- Orders from people's votes: folds are random splits, which share rows. ---

VOTERS = {
    "SBU_3DFE": "SBU_3DFE, emotions in faces",
    "emotion6": "Emotion6, emotions evoked by photos",
    "Movie": "Movie, stars",
}
HUMAN_METRICS = {"ranked accuracy": "accuracy", "tau-b": "kendall", "ranked 0-1": "exact_match"}


def human_orders(study: Study) -> str:
    """Show each method on each set, and how much better RLSEP is; p is Holm-adjusted for all sets and methods."""
    methods = _methods(study, "Movie")
    gains, halves, p_values = {}, {}, {}
    for run in study.runs:
        name, _, method = run.partition(", ")
        if method not in ("", "rlsep"):
            gains[run] = _by_split(study, f"{name}, rlsep", "accuracy") - _by_split(study, run, "accuracy")
            halves[run], p_values[run] = over_splits(gains[run])
    p_values = adjusted(p_values)

    tables = []
    for name, title in VOTERS.items():
        rows = []
        for method in methods:
            run = f"{name}, {method}"
            means = [_by_split(study, run, metric).mean() for metric in HUMAN_METRICS.values()]
            against = ["", ""]
            if run in gains:
                against = [f"{gains[run].mean():+.3f} ± {halves[run]:.3f}", small_p(p_values[run])]
            rows.append((means[0], [method, *(f"{value:.3f}" for value in means), *against, *_ends(study, [run])]))
        columns = ["method", *HUMAN_METRICS, "RLSEP minus this", "p (Holm)", "rates at an end", "steps at an end"]
        shape = [study.leaf(name, metric)[0] for metric in ("rows", "features", "labels", "rows with ties")]
        about = "{:,.0f} rows, {:,.0f} features, {:.0f} labels; {:.0%} of the rows have ties".format(*shape)
        tables.append(f"**{title}: {about}.**\n\n{_best_first(columns, rows)}")
    return "\n".join(tables)


def _best_first(columns: list[str], rows: list[tuple[float, list[str]]]) -> str:
    """Return a table of rows, those with the highest value first."""
    return markdown(columns, [cells for _, cells in sorted(rows, key=lambda row: -row[0])])


def _by_split(study: Study, run: str, metric: str) -> pd.Series:
    return pd.Series(study.by_fold(run, metric))


def _ends(study: Study, runs: list[str]) -> list[str]:
    """Return how often the first or the last value was chosen of the grids of rates and of steps."""
    return [at_ends(study, runs, option, study.made_by["params"][option]) for option in ("rate", "steps")]


# --- Run times of algorithms: p is Holm-adjusted here for all comparisons of a table. ---

REGRESSION_OF_TIME = "mse of log time"
TIME_METRICS = {"PAR10 gap closed": "gap", "tau-b": "tau"}


def aslib(study: Study) -> str:
    """Show the complete scenarios, then each method on each, with its difference from regression on log time."""
    scenarios = [run for run in study.runs if study.has(run, "oracle")]
    methods = _methods(study, scenarios[0])
    scenarios = [name for name in scenarios if _methods(study, name) == methods]
    numbers = {"instances": ",.0f", "features": ".0f", "algorithms": ".0f", "unsolved": ".0%", "cutoff": ",.0f",
               "single best": ",.0f", "oracle": ",.0f"}  # fmt: skip
    rows = []
    for name in scenarios:
        rows.append([name, *(mean(study, name, metric, form) for metric, form in numbers.items())])
    columns = [
        "scenario",
        *list(numbers)[:3],
        "unsolved runs",
        "cutoff, s",
        "PAR10 of the single best",
        "of the oracle",
    ]
    tables = [markdown(columns, rows)]
    of_scenarios = [run for run in study.runs if run.partition(", ")[0] in scenarios]
    p_values = holm_p(study, of_scenarios, TIME_METRICS.values(), REGRESSION_OF_TIME)
    for title, metric in TIME_METRICS.items():
        rows = []
        for method in methods:
            runs = [f"{name}, {method}" for name in scenarios]
            average = np.mean([study.leaf(run, metric)[0] for run in runs])
            cells = []
            for run in runs:
                difference = gain(study, run, metric, REGRESSION_OF_TIME)
                if p_values.get((run, metric), 1.0) < 0.05:
                    difference = f"**{difference}**"
                cells.append("; ".join(filter(None, [mean(study, run, metric), difference])))
            rows.append((average, [method, f"{average:.3f}", *cells, *_ends(study, runs)]))
        columns = [f"{title}, by method", "mean", *scenarios, "rates at an end", "steps at an end"]
        tables.append(_best_first(columns, rows))
    return "\n".join(tables)


def four_digits(study: Study) -> str:
    """Show test EM and EW for each n, and EM minus the standard method's with paired t-tests, the best first."""
    lengths = {int(run.rpartition(", n = ")[2]) for run in study.runs if ", n = " in run}
    return "\n".join(f"**n = {n}**\n\n{_of_length(study, f', n = {n}')}" for n in sorted(lengths))


def _of_length(study: Study, suffix: str) -> str:
    names = prefixes(study, suffix)
    em = {name: of_seeds(study, name + suffix, "test.EM") for name in names}
    gains = {name: (em[name] - em[USUAL_DIGITS]).dropna() for name in names if name != USUAL_DIGITS}
    against = compared(gains, "+.1f")
    rows = []
    for name in sorted(names, key=lambda name: -em[name].mean()):
        ew = of_seeds(study, name + suffix, "test.EW")
        setting = mean(study, name + suffix, "setting", "g")
        shown = [with_half(em[name], ".1f"), with_half(ew, ".1f"), *against.get(name, ["", ""])]
        rows.append([name, setting, str(len(ew)), *shown])
    columns = ["method", "setting", "seeds", "EM", "EW", f"EM minus {USUAL_DIGITS}", "p (Holm)"]
    return markdown(columns, rows)


# --- Sorters over their whole range of softness. ---

NOISE = (0.03, 0.1, 0.3)  # standard deviations, for fidelity
ERROR = 0.003  # L1 / d near which sorters are compared


def by_softness(study: Study) -> dict[str, pd.DataFrame]:
    """Return the measures of each sorter by softness, the smallest first, without settings whose gradient is NaN."""
    measured: dict[str, dict[float, dict[str, float]]] = {}
    for row in study.rows:
        sorter, _, softness = row.run.rpartition(", ")
        measured.setdefault(sorter, {}).setdefault(float(softness), {})[row.metric] = row.value
    tables = {}
    for sorter, rows in measured.items():
        tables[sorter] = pd.DataFrame.from_dict(rows, orient="index").dropna().sort_index()
    return tables


def sorter_curves(study: Study) -> str:
    """Show of each sorter its best fidelity at each noise with the error there, and its measures near one error."""
    rows = []
    for sorter, measures in by_softness(study).items():
        row = [sorter]
        for noise in NOISE:
            best = measures.loc[measures[f"fidelity_{noise}"].idxmax()]
            row.append(f"{best[f'fidelity_{noise}']:.3f} ({best['l1']:.4f})")
        near = measures.loc[(np.log(measures["l1"]) - np.log(ERROR)).abs().idxmin()]
        l1, vanishing, wrong, fidelity = near[["l1", "vanishing", "wrong", "fidelity_0.1"]]
        rows.append([*row, f"{l1:.4f}", f"{fidelity:.3f}", f"{100 * vanishing:.1f}%", f"{100 * wrong:.1f}%"])
    columns = ["sorter", *(f"best fidelity at {noise}" for noise in NOISE)]
    return markdown([*columns, f"error near {ERROR}", "fidelity at 0.1", "vanishing", "wrong sign"], rows)


# --- The default run with all of MNIST. ---


def compared_runs(study: Study) -> str:
    """Show each kept difference with its interval."""
    rows = []
    for row in study.rows:
        metric, _, baseline = row.metric.partition(" minus ")
        if baseline and not metric.startswith("p of "):
            values = [f"{run}: {mean(study, run, metric)}" for run in (baseline, row.run)]
            rows.append([metric, *values, cell(*row.interval, sign=True)])
    return markdown(["metric", "baseline", "run", "difference"], rows)


# --- Losses with larger batches: heads as in the default run. ---

HEAD = re.compile(r"heads-(?P<task>\w+)-(?P<loss>\w+)(-\d+)?-batch(?P<batch>\d+)")
BATCHES = {
    ("captions", "item_to_text.recall_at_1"): ("caption R@1", ("triplet", "info_nce", "mean_log_rank")),
    ("captions", "text_to_item.recall_at_1"): ("image R@1", ("triplet", "info_nce", "mean_log_rank")),
    ("scenes", "mean_average_precision"): (
        "mAP",
        ("soft_margin", "average_precision_and_soft_margin", "average_precision", "generalized_cross_entropy"),
    ),
}


def best_of_batches(study: Study, task: str, metric: str) -> dict[tuple[str, int], float]:
    """Return a metric by loss and batch size: the mean over seeds for the run that is best on validation."""
    best: dict[tuple[str, int], tuple[float, float]] = {}  # validation and metric
    for run in study.runs:
        head = HEAD.fullmatch(run)
        if head and head["task"] == task:
            reached = (of_seeds(study, run, "validation").mean(), of_seeds(study, run, metric).mean())
            key = head["loss"], int(head["batch"])
            best[key] = max(best.get(key, reached), reached)
    return {key: measured for key, (_, measured) in best.items()}


def by_batch(study: Study) -> str:
    """Show for each batch size and loss the run that is best on validation, as means over seeds."""
    tables = []
    for (task, metric), (title, losses) in BATCHES.items():
        best = best_of_batches(study, task, metric)
        rows = []
        for batch in sorted({batch for loss, batch in best if loss in losses}):
            cells = [f"{best[loss, batch]:.3f}" if (loss, batch) in best else "" for loss in losses]
            rows.append([f"{batch:,}", *cells])
        tables.append(markdown([f"{title}, rows in a batch", *losses], rows))
    return "\n".join(tables)
