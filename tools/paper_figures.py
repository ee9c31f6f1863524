"""Show what was measured for the papers' figures: `python -m tools.paper_figures [PROJECT]` writes docs/experiments.md.

With the folder of the project that made them (`cd experiments && dvc repro paper_figures`), it first keeps them in
results/paper_figures.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks.results import machine, paired
from pipelines.config import load
from pipelines.config.schema import required
from pipelines.ops.git import git
from pipelines.reporting.results import number
from rankops.io.atomic import replaced_file
from tools.page import difference, markdown, write_results

RESULTS, PAGE = Path("results/paper_figures.json"), Path("docs/experiments.md")
PAIRS = Path("results/pairs/comparisons/label_ranking-pairs.json")
USUAL = "hinge_ap"
LINES = {"rlsep": "RLSEP", "partial": "RLSEP, trained on three digits", "lsep": "LSEP"}


def measured(project: Path) -> dict[str, Any]:
    """Return what the stages of a project measured for the papers' figures.

    Raises:
        FileNotFoundError: a stage did not run.
    """
    params, metrics = load(project / "params.yaml"), project / "metrics"
    layers = {one.args["layers"]: name for name, one in params.sorters.items() if one.name == "cnn"}
    ranks = pd.read_csv(metrics / "score_sweep.csv", index_col="score")
    errors = ranks.drop(columns="exact").sub(ranks["exact"], axis=0).abs()
    methods = required(params.synthetic_precision, "synthetic_precision").methods
    precision = {
        method: json.loads((metrics / f"synthetic_precision/{method}.json").read_text())["curves"] for method in methods
    }
    figures = metrics / "label_ranking_figures"
    frames = pd.read_csv(figures / "frames.csv")
    digits = [name.removeprefix("size_") for name in frames if name.startswith("size_")]
    scales = json.loads((figures / "calibration.json").read_text())
    return {
        "commit": git(project, "rev-parse", "HEAD"),
        "machine": machine(),
        "depth": {
            count: json.loads((metrics / f"sorters/{name}.json").read_text())["l1"]
            for count, name in sorted(layers.items())
        },
        "score_sweep": {name: {"mean": float(one.mean()), "largest": float(one.max())} for name, one in errors.items()},
        "average_precision": {
            method: {
                str(share): [curve["average_precision"][-1] for curve in curves if curve["flipped"] == share]
                for share in sorted({curve["flipped"] for curve in curves})
            }
            for method, curves in precision.items()
        },
        "sizes": {digit: frames[[f"size_{digit}", f"score_{digit}"]].to_numpy().tolist() for digit in digits},
        "calibration": {
            "exactly_ordered": scales["exactly_ordered"],
            "spearman": scales["spearman"],
            "scales": {
                name: {key: one[key] for key in ("count", "mean", "deviation")}
                for name, one in scales["scales"].items()
            },
        },
        "digits_per_image": pd.read_csv(figures / "digits_per_image.csv").to_dict("records"),
    }


def tables() -> str:
    """Return a table for each figure.

    Raises:
        FileNotFoundError: nothing was kept.
    """
    kept = json.loads(RESULTS.read_text())
    depth = [[layers, number(**leaf, digits=4)] for layers, leaf in kept["depth"].items()]
    sweep = [[name, f"{one['mean']:.3f}", f"{one['largest']:.3f}"] for name, one in kept["score_sweep"].items()]
    usual = kept["average_precision"][USUAL]
    precision = [
        [
            method,
            *(
                f"{np.mean(found[share]):.3f}" if method == USUAL else paired(found[share], usual[share])
                for share in usual
            ),
        ]
        for method, found in kept["average_precision"].items()
    ]
    shares = [f"{100 * float(share):.0f} %" for share in usual]
    sizes = [_size(digit, *np.array(steps).T) for digit, steps in kept["sizes"].items()]
    scores = [
        [name, f"{one['mean']:.1f} ± {one['deviation']:.1f}"] for name, one in kept["calibration"]["scales"].items()
    ]
    scores.append(["*images in exact order*", number(**kept["calibration"]["exactly_ordered"])])
    accuracy: dict[int, dict[str, str]] = {}
    for row in kept["digits_per_image"]:
        accuracy.setdefault(row["digits"], {})[row["line"]] = number(row["accuracy"], row["low"], row["high"])
    parts = {
        "SoDeep's Fig. 4: L1 / d by the depth of a CNN sorter": (["layers", "L1 / d"], depth),
        "SoDeep's Fig. 5: errors of the rank of a score that moves from -1 to 1, in positions": (
            ["sorter", "mean", "largest"],
            sweep,
        ),
        "SoDeep's Fig. 6: average precision by the share of flipped labels, and the difference from Hinge-AP": (
            ["method", *shares],
            precision,
        ),
        "RLSEP's Fig. 1: scores while sizes change": (["digit", "side, px", "score", "Spearman of both"], sizes),
        "RLSEP's Fig. 3: scores by scale in images of four digits of scales 1 to 4, mean ± deviation": (
            ["scale", "score"],
            scores,
        ),
        "RLSEP's Fig. 5: ranked accuracy by the number of digits in an image": (
            ["digits", *LINES.values()],
            [[str(digits), *(found[line] for line in LINES)] for digits, found in sorted(accuracy.items())],
        ),
    }
    pairs = json.loads(PAIRS.read_text())["metrics"]["runs"]
    parts["RLSEP's t, random pairs of each image: ranked 0-1, and its difference from all pairs"] = (
        ["run", "ranked 0-1", "difference", "p (Holm)"],
        [
            [run.removeprefix("label_ranking-"), number(found["value"]), *difference(found)]
            for run, found in pairs.items()
        ],
    )
    text = {title: markdown(columns, rows) for title, (columns, rows) in parts.items()}
    return "\n".join(f"**{title}.**\n\n{shown}" for title, shown in text.items())


def _size(digit: str, side: np.ndarray, score: np.ndarray) -> list[str]:
    agreement = "" if side[0] == side[-1] else f"{spearmanr(side, score).statistic:.3f}"
    return [digit, f"{side[0]:.0f} to {side[-1]:.0f}", f"{score[0]:.1f} to {score[-1]:.1f}", agreement]


if __name__ == "__main__":
    try:
        for project in map(Path, sys.argv[1:]):
            with replaced_file(RESULTS) as partial:
                partial.write_text(json.dumps(measured(project), indent=1) + "\n")
        write_results(PAGE, tables(), by="tools.paper_figures")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
