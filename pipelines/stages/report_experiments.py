"""Tables and plots of the experiments, from what their stages wrote."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pipelines import kept_results
from pipelines.figures import curves, differences
from pipelines.pages import markdown, page
from pipelines.settings import Experiments, Settings, load_experiments
from pipelines.stage import refuse_leftovers, run
from rankops.atomic_writes import replaced_folder

RESULTS = Path("results")
# The papers' margins, in the task's own metric.
PAPER = {"memorability": "+0.024 (Spearman)", "multilabel": "+0.008 (mAP)", "retrieval": "+0.017 (caption R@1)"}


def comparison_table(name: str, plan: Any) -> pd.DataFrame:
    """One row a method: its figure over seeds, and the paired difference from the baseline with a 95 % interval.

    The interval is Student's over the seeds' differences: it says what training at random decides, the test set fixed.
    """
    found = {
        method: json.loads((RESULTS / "comparisons" / f"{name}-{method}.json").read_text()) for method in plan.methods
    }
    test_of = {method: np.array([seed["test"] for seed in result["seeds"]]) for method, result in found.items()}
    rows = []
    for method, result in found.items():
        tests, baseline = test_of[method], plan.methods[method].baseline or plan.baseline
        row = {
            "method": method,
            "test": f"{tests.mean():.4f}",
            "deviation over seeds": f"{tests.std(ddof=1):.4f}",
            "validation": f"{np.mean([seed['validation'] for seed in result['seeds']]):.4f}",
            "chosen of the tried": ", ".join(
                f"{place.removeprefix('training.head.optimiser.args.')} = {value}"
                for place, value in result["chosen"].items()
            ),
        }
        row |= {"against": "", "difference": np.nan, "low": np.nan, "high": np.nan}
        if method != baseline:
            by_seed = tests - test_of[baseline]
            bounds = stats.ttest_rel(tests, test_of[baseline]).confidence_interval(0.95)
            row |= {"against": baseline, "difference": by_seed.mean(), "low": bounds.low, "high": bounds.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _precision(folder: Path, experiments: Experiments) -> pd.DataFrame:
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
    return pd.DataFrame(rows)


def _depth(folder: Path, experiments: Experiments) -> pd.DataFrame:
    rows = []
    for layers in experiments.sorter_depth:
        figures = json.loads((RESULTS / "sorter_depth" / f"{layers}.json").read_text())
        l1 = figures["l1"]
        rows.append({"layers": layers, "L1": l1["value"], "low": l1["low"], "high": l1["high"]})
    table = pd.DataFrame(rows)
    table.to_csv(folder / "sorter_depth.csv", index=False)
    line = table["layers"].to_numpy(), table["L1"].to_numpy()
    curves(folder / "sorter_depth.png", {"CNN": {"L1": line}}, x="layers", y="test L1 / d", title="Depth")
    return table.round(4)


def _sweep(folder: Path) -> None:
    table = pd.read_csv(RESULTS / "score_sweep.csv")
    table.to_csv(folder / "score_sweep.csv", index=False)
    score, exact = table["score"].to_numpy(), table["exact"].to_numpy()
    lines = {name: (score, table[name].to_numpy()) for name in table if name != "score"}
    errors = {name: (score, ranks - exact) for name, (_, ranks) in lines.items() if name != "exact"}
    curves(folder / "score_sweep.png", {"its rank": lines}, x="the moved score", y="rank", title="One score swept")
    curves(folder / "score_sweep-errors.png", {"rank minus exact rank": errors}, x="the moved score", y="positions",
           title="One score swept")  # fmt: skip


def main(params: Settings) -> None:
    experiments = load_experiments(params)
    methods = [f"{name}-{method}" for name, plan in experiments.comparisons.items() for method in plan.methods]
    refuse_leftovers(
        {
            "results": ["comparisons", "synthetic_precision", "sorter_depth", "score_sweep", "paper"],
            "results/comparisons": methods,
            "results/synthetic_precision": experiments.synthetic_precision.methods,
            "results/sorter_depth": [str(layers) for layers in experiments.sorter_depth],
        }
    )
    parts: dict[str, tuple[str, pd.DataFrame]] = {}
    with replaced_folder("reports/experiments") as folder:
        panels = {}
        for name, plan in experiments.comparisons.items():
            table = comparison_table(name, plan)
            panels[name] = table.dropna(subset=["difference"])
            shown = table.assign(
                difference=[
                    "baseline" if np.isnan(d) else f"{d:+.4f} ({low:+.4f} to {high:+.4f})"
                    for d, low, high in zip(table["difference"], table["low"], table["high"], strict=True)
                ]
            ).drop(columns=["low", "high"])
            text = (
                f"{plan.figure} on the test split of {plan.dataset}; {plan.settings_each} settings a method on "
                f"validation, then {plan.seeds} seeds; differences are paired by seed, 95 % Student interval. "
            )
            paper = f"The paper's margin: {PAPER[name]}." if name in PAPER else ""
            parts[f"Comparison: {name}"] = (text + paper, shown)
        differences(
            folder / "differences.png", panels, title="Differences from the baseline, 95 % intervals over seeds"
        )
        precision = _precision(folder, experiments)
        parts["Average precision on synthetic points"] = ("Mean and deviation over seeds.", precision)
        parts["Depth of the CNN sorter"] = ("L1 / d on the test vectors.", _depth(folder, experiments))
        _sweep(folder)
        parts |= kept_results.sections()
        (folder / "results.md").write_text(markdown(parts))
        pictures = [Path(path.name) for path in sorted(folder.glob("*.png"))]
        (folder / "index.html").write_text(
            page("RankOps: experiments", "Written by make experiments.", parts, pictures)
        )


if __name__ == "__main__":
    run(main)
