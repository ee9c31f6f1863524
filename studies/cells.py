"""Cells of the tables of kept results: each function takes a study, the key of a row, and arguments from pages.yaml.

The key is a run unless the docstring says otherwise. A cell is empty if a run lacks the metric.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import product

import pandas as pd

from pipelines.reporting.results import cell
from rankgrad.io.results import minus
from studies import papers
from studies.intervals import adjusted, check_seeds, of_seeds, small_p, with_half
from studies.kept import Study

RANKER = "label_ranking-rlsep-label_attention"
GB1_SPLITS = {"two_vs_rest": "two", "three_vs_rest": "three", "low_vs_high": "low", "sampled": "sampled"}


def value(study: Study, run: str, metric: str, digits: str | None = None, *, sign: bool = False) -> str:
    """Show a metric with its interval, if it has one."""
    if not study.has(run, metric):
        return ""
    return cell(*study.leaf(run, metric), digits=int(digits) if digits else None, sign=sign)


def mean(study: Study, run: str, metric: str, form: str = ".3f") -> str:
    """Show a metric without its interval."""
    return format(study.leaf(run, metric)[0], form) if study.has(run, metric) else ""


def of_package(study: Study, metric: str, package: str, figure: str, form: str) -> str:
    """Show a figure of a package for a metric, which is the key of the row."""
    return mean(study, f"{metric}, {package}", figure, form)


def gain(study: Study, run: str, metric: str, baseline: str, digits: str | None = None) -> str:
    """Show the difference from a baseline with its interval."""
    return value(study, run, minus(metric, baseline), digits, sign=True)


def p_of(study: Study, run: str, metric: str, baseline: str) -> str:
    """Show p of the difference from a baseline, paired by seed and test example, Holm-adjusted for all runs."""
    name = f"p of {minus(metric, baseline)}"
    return small_p(study.leaf(run, name)[0]) if study.has(run, name) else ""


def p_among(study: Study, run: str, metric: str, baseline: str, *others: str) -> str:
    """Show p of the difference from a baseline, Holm-adjusted for all runs, and for other metrics of the table."""
    p = holm_p(study, study.runs, [metric, *others], baseline).get((run, metric))
    return "" if p is None else small_p(p)


def holm_p(study: Study, runs: Iterable[str], metrics: Iterable[str], baseline: str) -> dict[tuple[str, str], float]:
    """Return p of differences from a baseline by run and metric, Holm-adjusted for all that the study has."""
    p_values = {}
    for run, metric in product(runs, metrics):
        name = f"p of {minus(metric, baseline)}"
        if study.has(run, name):
            p_values[run, metric] = study.leaf(run, name)[0]
    return adjusted(p_values)


def at_an_end(study: Study, run: str) -> str:
    """Show for each option of the run's grid in how many folds its lowest or its highest value was chosen."""
    return "; ".join(filter(None, (at_ends(study, [run], option, grid) for option, grid in _grids(study, run).items())))


def _grids(study: Study, run: str) -> dict[str, Sequence[float]]:
    """Return the values from which a run chose each option; empty for a rival."""
    return study.made_by["params"]["runs"].get(run, {}).get("grid", {})


def at_an_end_of(study: Study, run: str, option: str, of_trees: str) -> str:
    """Show in how many folds the lowest or the highest value was chosen of a grid of networks, or of trees."""
    return at_ends(study, [run], option, study.made_by["params"][of_trees if run == "lightgbm" else option])


def at_ends(study: Study, runs: Collection[str], option: str, grid: Sequence[float]) -> str:
    """Return how often the lowest or the highest value of a grid was chosen; empty if nothing was chosen."""
    chosen = settings(study, runs, option)
    return f"{sum(setting in (min(grid), max(grid)) for setting in chosen)} of {len(chosen)}" if chosen else ""


def settings(study: Study, runs: Collection[str], option: str) -> list[float]:
    """Return the values that runs chose for an option."""
    return [row.value for row in study.rows if row.run in runs and row.metric == f"setting.{option}"]


# --- RLSEP's Tables 1 and 2: the key of a row is a metric. ---


def spread(study: Study, metric: str, run: str) -> str:
    """Show a metric in percent, with its standard deviation over seeds."""
    values = 100 * of_seeds(study, run, metric)
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"


def percent(study: Study, metric: str, run: str) -> str:
    """Show a metric in percent, with its interval."""
    number, low, high = study.leaf(run, metric)
    return cell(100 * number, 100 * low, 100 * high, digits=1)


def in_the_paper(study: Study, metric: str, images: str) -> str:
    return papers.printed(images, metric, "rlsep").split(" ± ")[0]


# --- The papers' figures. ---


def in_sodeep(study: Study, run: str) -> str:
    """Show the L1 that SoDeep prints for a sorter."""
    return papers.content()["sorters"].get(run.split("-")[0], "")


def both_ends(study: Study, digit: str, metric: str, digits: str) -> str:
    """Show a metric for a digit in the first and in the last frame."""
    first, last = (study.leaf(RANKER, f"digit_{digit}.{metric}.{end}")[0] for end in ("first", "last"))
    return f"{first:.{digits}f} to {last:.{digits}f}"


def of_digit(study: Study, digit: str, metric: str) -> str:
    """Show a metric for a digit."""
    return mean(study, RANKER, f"digit_{digit}.{metric}")


def of_scale(study: Study, scale: str) -> str:
    """Show the scores of a scale as mean ± standard deviation."""
    if scale == "exactly_ordered":
        return value(study, RANKER, scale)
    average, deviation = (study.leaf(RANKER, f"scale_{scale}.{moment}")[0] for moment in ("mean", "deviation"))
    return f"{average:.1f} ± {deviation:.1f}"


def accuracy(study: Study, digits: str, run: str) -> str:
    """Show the accuracy on images with a given number of digits, which may be part of the run's name."""
    return value(study, run.format(digits), f"accuracy.{digits}_digits")


# --- RLSEP and GaussianMLR: the key of a row is the property that determines ranks. ---


def _runs_of_both(key: str) -> tuple[str, str]:
    return f"label_ranking-rlsep-shaded-{key}", f"label_ranking-gaussian_mlr-shaded-{key}"


def of_both(study: Study, key: str, metric: str) -> str:
    """Show a metric of RLSEP and of GaussianMLR."""
    return ", ".join(mean(study, run, metric) for run in _runs_of_both(key))


def ranked_apart(study: Study, key: str) -> str:
    """Show the ranked 0-1 of GaussianMLR minus RLSEP, with Student's t over seeds."""
    ours, theirs = (of_seeds(study, run, "ranked.exact_match") for run in _runs_of_both(key))
    check_seeds(ours, theirs)
    return with_half(theirs - ours, "+.3f")


def tau_apart(study: Study, key: str) -> str:
    """Show the tau of GaussianMLR minus RLSEP."""
    ours, theirs = _runs_of_both(key)
    return gain(study, theirs, "answer.kendall", ours)


# --- Real data. ---


def over_folds(study: Study, run: str, metric: str, best: str) -> str:
    """Show the difference of another run minus this one, with Student's t over folds (means over seeds)."""
    if run == best:
        return ""
    return with_half(_of_folds(study, best, metric) - _of_folds(study, run, metric), "+.3f")


def _of_folds(study: Study, run: str, metric: str) -> pd.Series:
    rows = [row for row in study.rows if row.run == run and row.metric == metric and row.fold is not None]
    return pd.Series([row.value for row in rows], [row.fold for row in rows]).groupby(level=0).mean()


def of_split(study: Study, loss: str, network: str, split: str, metric: str = "spearman") -> str:
    """Show a metric and its differences from MSE and from MSE of logs; the key of a row is a loss."""
    run = f"{network}-{loss}-{split}"
    cells = [mean(study, run, metric)]
    for rival in ("mse", "mse_log"):
        cells.append(gain(study, run, metric, f"{network}-{rival}-{split}"))
    return "; ".join(filter(None, cells))


def at_ends_of_splits(study: Study, loss: str, network: str) -> str:
    """List the splits in which a loss chose the lowest or the highest value of its grid, with the options."""
    splits = []
    for split, key in GB1_SPLITS.items():
        run, options = f"{network}-{loss}-{key}", []
        for option, grid in _grids(study, run).items():
            if study.leaf(run, f"setting.{option}")[0] in (min(grid), max(grid)):
                options.append(option.rpartition(".")[2].replace("_", " "))
        if options:
            splits.append(f"{split} ({' and '.join(options)})")
    return ", ".join(splits)
