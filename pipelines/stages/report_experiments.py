"""Tables and plots of the experiments, from what their stages wrote."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy import stats

from pipelines.config.schema import Experiments, Finding, Settings, load_experiments
from pipelines.reporting import archive, papers
from pipelines.reporting.html import Section, markdown, page
from pipelines.reporting.plots import accuracies, against, curves, differences, scene_animation, score_histograms
from pipelines.stages.runner import refuse_leftovers, run
from rankops.io.atomic import replaced_folder

RESULTS = Path("results")
METRICS = {"memorability": "Spearman", "multilabel": "mAP", "retrieval": "caption R@1"}  # of the paper's margins
EXPLAINED = (
    "Written by make experiments. Of label ranking, ranked figures are of the order of labels, from scores; unranked "
    "ones of which labels are there, after label selection; exact_match is what the paper calls 0-1: the share of "
    "images without any mistake. rlsep-fresh_scenes sees new scenes in each epoch, so more data than the others in as "
    "many steps."
)
SORTERS = "memorability_sorters"  # the comparison whose sorters are measured by themselves too


def _result(comparison: str, method: str) -> dict[str, Any]:
    return json.loads((RESULTS / "comparisons" / f"{comparison}-{method}.json").read_text())


def _networks(plan: Any, method: str) -> set[str]:
    """The networks of a method that are not the comparison's."""
    return {model["name"] for model in plan.methods[method].grid.get("model", [])} - {plan.model.name}


def _tests(comparison: str, method: str) -> np.ndarray:
    """A method's test figure by seed."""
    return np.array([seed["test"] for seed in _result(comparison, method)["seeds"]])


def _difference(tests: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """What `tests` have more than `others`, by seed, with Student's 95 % interval."""
    bounds = stats.ttest_rel(tests, others).confidence_interval(0.95)
    return {"difference": (tests - others).mean(), "low": bounds.low, "high": bounds.high}


def comparison_table(name: str, plan: Any) -> pd.DataFrame:
    """One row a method: its figure over seeds, and the paired difference from the baseline with a 95 % interval.

    The interval is Student's over the seeds' differences: it says what training at random decides, the test set fixed.
    """
    rows = []
    for method in plan.methods:
        result, baseline = _result(name, method), plan.methods[method].baseline or plan.baseline
        tests = _tests(name, method)
        row = {
            "method": method,
            "test": f"{tests.mean():.4f}",
            "deviation over seeds": f"{tests.std(ddof=1):.4f}",
            "validation": f"{np.mean([seed['validation'] for seed in result['seeds']]):.4f}",
        }
        for figure in plan.shown:
            values = np.array([seed["figures"][figure] for seed in result["seeds"]])
            row[figure] = f"{values.mean():.4f} ± {values.std(ddof=1):.4f}"
        if plan.settings_each > 1:
            row["chosen of the tried"] = ", ".join(
                f"{place.removeprefix('training.head.optimizer.args.')} = {value}"
                for place, value in result["chosen"].items()
            )
        row |= {"against": "", "difference": np.nan, "low": np.nan, "high": np.nan}
        if method != baseline:
            row |= {"against": baseline} | _difference(tests, _tests(name, baseline))
        rows.append(row)
    return pd.DataFrame(rows)


def finding(asked: Finding, *, figure: str) -> tuple[str, pd.DataFrame]:
    """A sentence and a row for each pair of methods: both figures over seeds, and the paired difference.

    For each contrast the same of two pairs' differences. It is called better or worse, more or less, where Student's
    95 % interval of the seeds' differences leaves 0 out.
    """
    sentences, rows = [], []
    for first, second in asked.pairs:
        before, after = _tests(asked.comparison, first), _tests(asked.comparison, second)
        gain = _difference(after, before)
        word = "better than" if gain["low"] > 0 else "worse than" if gain["high"] < 0 else "not told apart from"
        sentences.append(f"{second} is {word} {first}: {_with_signs(gain)}.")
        row = {
            "method": second,
            figure: f"{after.mean():.4f}",
            "over": first,
            f"{figure} of that": f"{before.mean():.4f}",
        }
        rows.append(row | {"times": f"{after.mean() / before.mean():.2f}" if before.mean() > 0 else ""} | gain)
    for contrast in asked.contrasts:
        tests = [_tests(asked.comparison, method) for method in contrast]
        one, other = tests[1] - tests[0], tests[3] - tests[2]
        gain, names = _difference(other, one), [f"{contrast[place + 1]} over {contrast[place]}" for place in (0, 2)]
        word = "more than" if gain["low"] > 0 else "less than" if gain["high"] < 0 else "not told apart from"
        sentences.append(f"The gain of {names[1]} is {word} that of {names[0]}: {_with_signs(gain)}.")
        row = {
            "method": names[1],
            figure: f"{other.mean():+.4f}",
            "over": names[0],
            f"{figure} of that": f"{one.mean():+.4f}",
        }
        rows.append(row | {"times": ""} | gain)
    sentences.append(
        "Differences are paired by seed; their 95 % intervals are over seeds alone, of one test set, and not corrected "
        "for the number of pairs."
    )
    return " ".join([asked.asks, *sentences]), pd.DataFrame(rows)


def _with_signs(row: Any) -> str:
    """A difference and its interval."""
    return f"{row['difference']:+.4f} ({row['low']:+.4f} to {row['high']:+.4f})"


def _findings(folder: Path, experiments: Experiments) -> dict[str, Section]:
    """What the pairs of each finding say, with a table and a plot."""
    result = {}
    for name, asked in experiments.findings.items():
        figure = experiments.comparisons[asked.comparison].figure
        said, table = finding(asked, figure=figure)
        between = [" over "] * len(asked.pairs) + ["\nmore than "] * len(asked.contrasts)  # of gains, with long names
        labels = [
            f"{one}{word}{other}" for one, word, other in zip(table["method"], between, table["over"], strict=True)
        ]
        panel = table.assign(method=labels)
        differences(folder / f"finding-{name}.png", {f"{asked.comparison}: {figure}": panel}, title=asked.asks)
        shown = table.assign(difference=[_with_signs(row) for _, row in table.iterrows()]).drop(columns=["low", "high"])
        result[f"Finding: {name.replace('_', ' ')}"] = Section(said, shown, (Path(f"finding-{name}.png"),))
    return result


def _precision(folder: Path, experiments: Experiments) -> Section:
    """Fig. 6: both panels, and a table of the last epoch by share of flipped labels."""
    plan = experiments.synthetic_precision
    by_iteration, by_flips, rows, points = {}, {}, [], []
    for method in plan.methods:
        result = json.loads((RESULTS / "synthetic_precision" / f"{method}.json").read_text())
        table = pd.DataFrame(result["curves"])
        clean = np.array(table.loc[table["flipped"] == plan.flipped[0], "average_precision"].tolist())
        iterations = result["iterations_per_epoch"] * np.arange(1, clean.shape[1] + 1)
        by_iteration[method] = iterations, clean.mean(0)
        points.append(pd.Series(clean.mean(0), index=pd.Index(iterations, name="iteration"), name=method))
        last = table.assign(last=table["average_precision"].str[-1]).groupby("flipped")["last"]
        by_flips[method] = last.mean().index.to_numpy(), last.mean().to_numpy()
        figures = zip(last.mean().items(), last.std(ddof=1), strict=True)
        rows.append({"method": method} | {f"{share:.0%} flipped": f"{v:.3f} ± {d:.3f}" for (share, v), d in figures})
    pd.concat(points, axis=1).to_csv(folder / "average_precision.csv")
    panels = {
        f"{plan.flipped[0]:.0%} of the labels flipped": by_iteration,
    }
    curves(folder / "average_precision-iterations.png", panels, x="iterations", y="test average precision",
           title="Average precision on synthetic points")  # fmt: skip
    curves(folder / "average_precision-flipped_labels.png", {"after the last iteration": by_flips},
           x="share of flipped training labels", y="test average precision", title="Label noise")  # fmt: skip
    plots = (Path("average_precision-iterations.png"), Path("average_precision-flipped_labels.png"))
    return Section(f"After the last epoch; mean and deviation over {plan.seeds} seeds.", pd.DataFrame(rows), plots)


def _depth(folder: Path, experiments: Experiments) -> Section:
    rows = []
    for layers in experiments.sorter_depth:
        figures = json.loads((RESULTS / "sorter_depth" / f"{layers}.json").read_text())
        l1 = figures["l1"]
        rows.append({"layers": layers, "L1": l1["value"], "low": l1["low"], "high": l1["high"]})
    table = pd.DataFrame(rows)
    table.to_csv(folder / "sorter_depth.csv", index=False)
    shown = table.assign(**{name: table[name].map("{:.4f}".format) for name in ("L1", "low", "high")})
    line = table["layers"].to_numpy(), table["L1"].to_numpy()
    curves(folder / "sorter_depth.png", {"CNN": {"L1": line}}, x="layers", y="test L1 / d", title="Depth")
    return Section("L1 / d on the test vectors.", shown, (Path("sorter_depth.png"),))


def _sweep(folder: Path) -> Section:
    table = pd.read_csv(RESULTS / "score_sweep.csv")
    table.to_csv(folder / "score_sweep.csv", index=False)
    score, exact = table["score"].to_numpy(), table["exact"].to_numpy()
    lines = {name: (score, table[name].to_numpy()) for name in table if name != "score"}
    errors = {name: (score, ranks - exact) for name, (_, ranks) in lines.items() if name != "exact"}
    curves(folder / "score_sweep.png", {"its rank": lines}, x="the moved score", y="rank", title="One score swept")
    curves(folder / "score_sweep-errors.png", {"rank minus exact rank": errors}, x="the moved score", y="positions",
           title="One score swept")  # fmt: skip
    rows = []
    for name, (_, error) in errors.items():
        off = np.abs(error)
        rows.append({"sorter": name, "mean |error|": f"{off.mean():.3f}", "largest |error|": f"{off.max():.3f}"})
    text = f"The rank that each sorter gives to one score, moved from {score.min():g} to {score.max():g}; in positions."
    return Section(text, pd.DataFrame(rows), (Path("score_sweep.png"), Path("score_sweep-errors.png")))


def sorter_health() -> pd.DataFrame:
    """One row a sorter: what the stage sorter_health measured of it, and `test` and its `deviation` over seeds."""
    rows = {}
    for method, measured in json.loads((RESULTS / "sorter_health.json").read_text()).items():
        tests = _tests(SORTERS, method)
        named = {name.replace("_", " "): value for name, value in measured.items()}
        rows[method] = named | {"test": tests.mean(), "deviation": tests.std(ddof=1)}
    return pd.DataFrame.from_dict(rows, orient="index", dtype=float)


def rank_correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of each measure in a table of `sorter_health` with `test`, the furthest from 0 first.

    Empty where it is not defined: fewer than three sorters have both, or all of them the same.
    """
    rows = []
    for measure in table.columns.drop(["test", "deviation"]):
        both = table[[measure, "test"]].dropna()
        row = {"measure": measure, "rank correlation": "", "p": "", "sorters": len(both)}
        if len(both) > 2 and (both.nunique() > 1).all():
            found = stats.spearmanr(both[measure], both["test"])
            row |= {"rank correlation": f"{found.statistic:+.3f}", "p": f"{found.pvalue:.3f}"}
        rows.append(row)
    return pd.DataFrame(sorted(rows, key=lambda row: -abs(float(row["rank correlation"] or 0))))


def _health(folder: Path, experiments: Experiments) -> dict[str, Section]:
    """What was measured of each sorter beside its use in a loss, how far the one tells the other, and plots of it."""
    plan, table = experiments.comparisons[SORTERS], sorter_health()
    measures = list(table.columns.drop(["test", "deviation"]))
    against(folder / "sorter_health.png", table, x=measures, y="test", error="deviation",
            title=f"Test {plan.figure} of a loss, by what is measured of its sorter")  # fmt: skip
    shown = table[measures].map(lambda value: "" if np.isnan(value) else f"{value:.3g}")
    tests = zip(table["test"], table["deviation"], strict=True)
    shown.insert(0, "test", [f"{mean:.4f} ± {deviation:.4f}" for mean, deviation in tests])
    of_seeds = np.sqrt(table["deviation"].pow(2).mean() / plan.seeds)
    text = (
        f"Test: {plan.figure} with this sorter in the loss, mean and deviation over {plan.seeds} seeds. The rest is of "
        "the sorter by itself, on the test vectors of score_vectors. Of the gradients of ranks with respect to "
        "scores: vanishing is the share below 1e-3 of d over the standard deviation, zero that of none, median norm "
        "and variation of norms their size and unevenness; a wrong sign says that a higher score would worsen its own "
        "rank, or better another's; fidelity is their cosine with those of ranks under noise of so many deviations; "
        "spearman after a step: along them, with the wanted ranks; adam steps: until free scores are in order."
    )
    correlations = (
        "Spearman's correlation of each measure with the test figure, over the sorters; p is of that measure alone. "
        "Less is better of L1, vanishing, zero, variation of norms, wrong signs and Adam's steps: a good predictor "
        f"is negative there. Over sorters the test figures deviate by {table['test'].std():.4f}; seeds alone would "
        f"make that {of_seeds:.4f}."
    )
    return {
        "Sorters: measured, and in a loss": Section(text, shown.rename_axis("sorter").reset_index()),
        "Which measure tells how useful a sorter is": Section(
            correlations, rank_correlations(table), (Path("sorter_health.png"),)
        ),
    }


def _label_ranking(folder: Path, experiments: Experiments) -> dict[str, Section]:
    """RLSEP's Figs. 1, 3 and 5: plots, and for each a text and a table."""
    plan, results = experiments.label_ranking_figures, RESULTS / "label_ranking_figures"
    frames = pd.read_csv(results / "frames.csv")
    with Image.open(results / "frames.png") as strip:
        scenes = np.stack(np.split(np.asarray(strip), len(frames), axis=1))
    scores = {f"digit {name[-1]}": frames[name].to_numpy() for name in frames if name.startswith("score_")}
    scene_animation(folder / "label_ranking-sizes.gif", scenes, scores, title="Scores while sizes change (RLSEP)")
    lines = {name: (frames["frame"].to_numpy(), values) for name, values in scores.items()}
    curves(folder / "label_ranking-sizes.png", {"RLSEP": lines}, x="frame", y="score", title="Sizes that change")
    moves = []
    for name, values in scores.items():
        size = frames[f"size_{name[-1]}"].to_numpy()
        agree = f"{stats.spearmanr(size, values).statistic:.3f}" if np.ptp(size) else ""
        moves.append(
            {
                "digit": name[-1],
                "side (px)": f"{size[0]:.3g} to {size[-1]:.3g}",
                "first score": f"{values[0]:.3f}",
                "last score": f"{values[-1]:.3f}",
                "lowest to highest": f"{values.min():.3f} to {values.max():.3f}",
                "Spearman of score and size": agree,
            }
        )

    calibration = json.loads((results / "calibration.json").read_text())
    groups = {name if name == "absent" else f"scale {name}": group for name, group in calibration["scales"].items()}
    score_histograms(folder / "label_ranking-calibration.png", np.array(calibration["bin_edges"]), groups,
                     title="RLSEP's scores by true scale, and normal fits")  # fmt: skip
    fits = [
        {"labels": name, "number": group["count"], "mean score": f"{group['mean']:.3f}",
         "deviation": f"{group['deviation']:.3f}"} for name, group in groups.items()
    ]  # fmt: skip
    ordered = calibration["exactly_ordered"]

    table = pd.read_csv(results / "digits_per_image.csv")
    table.to_csv(folder / "digits_per_image.csv", index=False)
    table = table.rename(columns={"digits": "digits per image", "accuracy": "ranked accuracy"})
    accuracies(folder / "label_ranking-digits_per_image.png", table, x="digits per image", y="ranked accuracy",
               title="Ranked accuracy, 95 % intervals")  # fmt: skip
    cells = [f"{row.accuracy:.3f} ({row.low:.3f} to {row.high:.3f})"
             for row in table.rename(columns={"ranked accuracy": "accuracy"}).itertuples()]  # fmt: skip
    wide = table.assign(cell=cells).pivot(index="digits per image", columns="model", values="cell")
    wide = wide[table["model"].unique()].reset_index()
    return {
        "Scores while sizes change (RLSEP, Fig. 1)": Section(
            f"{plan.frames} frames of one scene: digit 1 grows, digit 3 shrinks, digit 2 stays; the scores of "
            "label_ranking-rlsep.",
            pd.DataFrame(moves),
            (Path("label_ranking-sizes.gif"), Path("label_ranking-sizes.png")),
        ),
        "Calibration of scores against size (Fig. 3)": Section(
            f"{plan.calibration_rows} images of four digits of scales 1, 2, 3 and 4; scores of label_ranking-rlsep. "
            f"Spearman of score and size over all digits: {calibration['spearman']:.3f}; the four scores are in the "
            f"exact order in {ordered['value']:.3f} ({ordered['low']:.3f} to {ordered['high']:.3f}) of the images.",
            pd.DataFrame(fits),
            (Path("label_ranking-calibration.png"),),
        ),
        "Ranked accuracy against digits per image (Fig. 5)": Section(
            f"{plan.rows} test images of exactly so many digits, 95 % intervals; boxes of more than six may overlap by "
            f"{plan.overlap:.0%} of the smaller one. The runs are those of params.yaml, trained on ranked_mnist (the "
            "paper trains RLSEP and LSEP anew for each number); three_digits is RLSEP trained on as many images of "
            "exactly three digits.",
            wide,
            (Path("label_ranking-digits_per_image.png"),),
        ),
    }


def main(params: Settings) -> None:
    experiments = load_experiments(params)
    methods = [f"{name}-{method}" for name, plan in experiments.comparisons.items() for method in plan.methods]
    refuse_leftovers(
        {
            "results": [
                "comparisons",
                "synthetic_precision",
                "sorter_depth",
                "score_sweep",
                "sorter_health",
                "label_ranking_figures",
                "paper",
            ],
            "results/comparisons": methods,
            "results/synthetic_precision": experiments.synthetic_precision.methods,
            "results/sorter_depth": [str(layers) for layers in experiments.sorter_depth],
        }
    )
    sections: dict[str, Section] = {}
    with replaced_folder("reports/experiments") as folder:
        sections |= _findings(folder, experiments)
        panels = {}
        for name, plan in experiments.comparisons.items():
            table = comparison_table(name, plan)
            panels[name] = table.dropna(subset=["difference"])
            plot = Path(f"differences-{name}.png")
            differences(folder / plot, {name: panels[name]}, title="Differences from the baseline, 95 % intervals")
            shown = table.assign(
                difference=["baseline" if np.isnan(row["difference"]) else _with_signs(row)
                            for _, row in table.iterrows()]
            ).drop(columns=["low", "high"])  # fmt: skip
            tuned = (
                f"{plan.settings_each} settings a method on validation, then {plan.seeds} seeds"
                if plan.settings_each > 1
                else f"nothing is tuned; {plan.seeds} seeds"
            )
            text = (
                f"{plan.figure} on the test split of {plan.dataset}; {tuned}; differences are paired by seed, 95 % "
                "Student interval. "
            )
            if of_others := {method: name for method in plan.methods for name in _networks(plan, method)}:
                named = ", ".join(f"{method} has {name}" for method, name in of_others.items())
                text += f"The network is {plan.model.name}, but {named}. "
            if plan.task == "retrieval":
                text += (
                    "On validation, by which settings are chosen, it is another figure, recall@1 both ways in one "
                    "gallery, so it stands lower. "
                )
            if tested_with := [method for method, options in plan.methods.items() if "training.views" in options.grid]:
                text += f"On validation {', '.join(tested_with)} has no views, so that figure is of another model. "
            paper = f"The paper's margin: {papers.margin(name):+.3f} ({METRICS[name]})." if name in METRICS else ""
            sections[f"Comparison: {name}"] = Section(text + paper, shown, (plot,))
        differences(  # for docs/experiments.md
            folder / "differences.png", panels, title="Differences from the baseline, 95 % intervals over seeds"
        )
        sections["Average precision on synthetic points (SoDeep, Fig. 6)"] = _precision(folder, experiments)
        sections["Depth of the CNN sorter (SoDeep, Fig. 4)"] = _depth(folder, experiments)
        sections["One score swept among others (SoDeep, Fig. 5)"] = _sweep(folder)
        sections |= _health(folder, experiments)
        sections |= _label_ranking(folder, experiments)
        sections |= archive.sections()
        (folder / "results.md").write_text(markdown(sections))
        (folder / "index.html").write_text(
            page(
                "RankOps: experiments",
                EXPLAINED,
                sections,
                links={"The runs of make repro": "../index.html"},
            )
        )


if __name__ == "__main__":
    run(main)
