"""Write the tables of the docs from the kept results: `python -m studies.pages [NAME ...]`.

pages.yaml says which page shows what. Each place is between the lines `<!-- results: NAME -->` and
`<!-- end of results -->`. The place `report` is of the last `dvc repro` instead, written if it is named, with the
sheet of images.
"""

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ruamel.yaml import YAML
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

PAGES = Path(__file__).with_suffix(".yaml")
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


def over_rivals(study: Study) -> str:
    """Show RLSEP's margins over each rival, in each metric."""
    titles = {metric: title for title, metric in METRICS.items()}
    rows = [[titles[rival[0]], LOSSES[rival[1]], *margins(study)[rival]] for rival in RIVALS]
    columns = ["metric", "over", "margin", "p, paired by seed", "p, Welch", "the paper's margin"]
    return f"{MARGINS}\n\n{markdown(columns, rows)}"


# --- The papers' figures. ---

RANKER = "label_ranking-rlsep-label_attention"


def both_ends(metric: str, digits: str) -> Cell:
    """Show what a metric is in the first and in the last frame; the key of a row is a digit."""

    def cell(study: Study, digit: str) -> str:
        first, last = (study.leaf(RANKER, f"digit_{digit}.{metric}.{end}")[0] for end in ("first", "last"))
        return f"{first:.{digits}f} to {last:.{digits}f}"

    return cell


def of_digit(metric: str) -> Cell:
    """Show a metric of a digit."""
    return lambda study, digit: mean(f"digit_{digit}.{metric}")(study, RANKER)


def of_scale(study: Study, scale: str) -> str:
    """Show the scores of a scale, mean ± deviation."""
    if scale == "exactly_ordered":
        return cell(*study.leaf(RANKER, scale))
    return "{:.1f} ± {:.1f}".format(*(study.leaf(RANKER, f"scale_{scale}.{one}")[0] for one in ("mean", "deviation")))


def accuracy(run: str) -> Cell:
    """Show the accuracy in images of so many digits, which may be part of the run's name."""
    return lambda study, digits: cell(*study.leaf(run.format(digits), f"accuracy.{digits}_digits"))


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


# --- Real data. ---


def over_folds(metric: str, best: str) -> Cell:
    """Show by how much a run exceeds another one, with Student's t over folds, each a mean over its seeds."""

    def by_fold(study: Study, run: str) -> pd.Series:
        rows = [row for row in study.rows if row.run == run and row.metric == metric]
        folds = pd.Series([row.value for row in rows], [row.fold for row in rows])
        return folds.groupby(level=0).mean()  # rows without a fold, which are of all, are left out

    def cell(study: Study, run: str) -> str:
        return "" if run == best else with_half(by_fold(study, best) - by_fold(study, run), "+.3f")

    return cell


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


# --- From pages.yaml to tables. ---


def in_sodeep(study: Study, run: str) -> str:
    """Show the L1 that SoDeep prints for a sorter."""
    return SORTERS.get(run.split("-")[0], "")


CELLS: dict[str, Cell] = {
    "at_an_end": at_an_end,
    "in_sodeep": in_sodeep,
    "of_scale": of_scale,
    "ranked_apart": ranked_apart,
    "tau_apart": tau_apart,
}
COLUMNS: dict[str, Callable[..., Cell]] = {
    make.__name__: make
    for make in (
        accuracy, at_ends_of_splits, both_ends, gain, in_the_paper, mean, of_both, of_digit, of_split, over_folds, p_of,
        percent, spread, value,
    )
}  # fmt: skip
COMPUTED: dict[str, Callable[[Study], str]] = {
    make.__name__: make
    for make in (
        by_batch, compared_runs, four_digits, human_orders, label_ranking_sets, made_data, of_points, over_rivals,
    )
}  # fmt: skip


def _cell(text: str) -> Cell:
    """Return what makes the cells of a column: a cell's name, or the name of what makes one, with its arguments."""
    name, *arguments = text.split()
    return CELLS[name] if name in CELLS else COLUMNS[name](*arguments)


def _table(block: dict[str, Any]) -> Table | Computed:
    if "computed" in block:
        return Computed(block["study"], COMPUTED[block["computed"]])
    columns = {title: _cell(text) for title, text in block["columns"].items()}
    return Table(block["study"], block["first"], list(block["rows"].items()), columns, block.get("title", ""))


def _places() -> dict[str, tuple[str, Sequence[Table | Computed | Results]]]:
    """Return the page of each place, and its tables from top to bottom."""
    places: dict[str, tuple[str, Sequence[Table | Computed | Results]]] = {}
    for paper, results in PAPERS.items():
        places[paper] = ("docs/papers.md", [Results(results)])
    for name, block in YAML(typ="safe").load(PAGES).items():
        places[name] = (block["page"], [_table(table) for table in block["tables"]])
    return places


PLACES = _places()


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
