"""Compare the losses of RLSEP's Table 1 over thirty seeds: `python -m tools.table_1` writes docs/table_1.md."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from pipelines.reporting.papers import printed
from pipelines.reporting.results import number
from rankops.metrics.bootstrap import holm
from rankops.tasks.label_ranking import LabelRanking
from tools.page import markdown, write_results

RESULTS, PAGE = Path("results/table_1"), Path("docs/table_1.md")
AT_224 = Path("results/subset_224/label_ranking-rlsep-shifted.json")
LOSSES = {"cross_entropy": "cross-entropy", "lsep": "LSEP", "rlsep": "RLSEP"}
IMAGES = "5,000"


def read(loss: str) -> dict[str, dict[str, float]]:
    """Return each metric of a loss by seed.

    Raises:
        FileNotFoundError: it was not kept.
    """
    kept = _kept(RESULTS / f"label_ranking-{loss}-label_attention.json")["metrics"]
    names = [metric.name.split(".") for metric in LabelRanking.metrics]
    return {f"{kind}.{name}": kept[kind][name]["seeds"] for kind, name in names}


def table() -> str:
    """Return the metrics of the three losses, and RLSEP's margins with their p values.

    Raises:
        FileNotFoundError: a loss was not kept.
        ValueError: the losses have different seeds.
    """
    kept = {loss: read(loss) for loss in LOSSES}
    theirs = {loss: printed("label_ranking", "ranked_mnist", loss)[IMAGES] for loss in LOSSES}
    names = [metric.name for metric in LabelRanking.metrics if metric.name in theirs["rlsep"]]
    titles = {metric.name: metric.title for metric in LabelRanking.metrics}
    seeds = {loss: sorted(metrics[names[0]], key=int) for loss, metrics in kept.items()}
    if len({tuple(one) for one in seeds.values()}) > 1:
        raise ValueError(f"{RESULTS}: the losses have different seeds, expected the same: {seeds}")
    values = {
        (loss, name): np.array([kept[loss][name][seed] for seed in seeds[loss]]) for loss in LOSSES for name in names
    }
    percent = {key: f"{100 * one.mean():.1f} ± {100 * one.std(ddof=1):.1f}" for key, one in values.items()}
    shown = [[titles[name], *(percent[loss, name] for loss in LOSSES)] for name in names]
    rivals = [(name, loss) for name in names for loss in ("cross_entropy", "lsep")]
    pairs = [(values["rlsep", name], values[loss, name]) for name, loss in rivals]
    paired = holm([float(ttest_rel(ours, other).pvalue) for ours, other in pairs])
    welch = holm([float(ttest_ind(ours, other, equal_var=False).pvalue) for ours, other in pairs])
    margins = []
    for (name, loss), (ours, other), p, q in zip(rivals, pairs, paired, welch, strict=True):
        papers = 100 * (_mean(theirs["rlsep"][name]) - _mean(theirs[loss][name]))
        margin = f"{100 * (ours - other).mean():+.1f}"
        margins.append([titles[name], LOSSES[loss], margin, _shown(p), _shown(q), f"{papers:+.1f}"])
    about = ["metric", "over", "margin", "p, seeds paired", "p, Welch", "the paper's margin"]
    return (
        f"Per cent, mean ± standard deviation over {len(seeds['rlsep'])} seeds.\n\n"
        f"{markdown(['metric', *LOSSES.values()], shown)}\n"
        "RLSEP's margins, in points; p by a t-test over seeds, adjusted for all rows (Holm).\n\n"
        f"{markdown(about, margins)}"
    )


def tables() -> str:
    """Return all that the page shows."""
    return f"{table()}\n## At 224 px, with the paper's network\n\n{at_224()}"


def at_224() -> str:
    """Return RLSEP's metrics with the paper's network at 224 px, beside the paper's.

    Raises:
        FileNotFoundError: they were not kept.
    """
    kept, theirs = _kept(AT_224), printed("label_ranking", "ranked_mnist", "rlsep")[IMAGES]
    rows = []
    for metric in LabelRanking.metrics:
        if metric.name in theirs:
            kind, name = metric.name.split(".")
            ours = (100 * kept["metrics"][kind][name][key] for key in ("value", "low", "high"))
            rows.append([metric.title, number(*ours, digits=1), number(100 * _mean(theirs[metric.name]), digits=1)])
    seeds, images = len(kept["training"]["seeds"]), kept["params"]["dataset"]["rows"]["test"]
    return (
        f"Per cent, with a 95 % interval over {images:,} test images; seeds: {seeds}.\n\n"
        f"{markdown(['metric', 'RLSEP', 'the paper'], rows)}"
    )


def _kept(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; results/README.md says how it is made")
    return json.loads(path.read_text())


def _mean(share: str) -> float:
    return float(share.split(" ± ")[0])


def _shown(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


if __name__ == "__main__":
    try:
        write_results(PAGE, tables())
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
