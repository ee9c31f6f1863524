"""Compare the losses of RLSEP's Tables 1 and 2, over seeds: `python -m tools.table_1` writes docs/table_1.md."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from pipelines.reporting.papers import printed
from pipelines.reporting.results import number
from rankops.bootstrap import holm
from rankops.tasks.label_ranking import LabelRanking
from tools.page import markdown, write_results

PAGE = Path("docs/table_1.md")
AT_64_PX, AT_224_PX, OF_60_000 = (Path("results") / name for name in ("table_1", "subset_224", "full_224"))
LOSSES = {"cross_entropy": "cross-entropy", "lsep": "LSEP", "rlsep": "RLSEP"}
METRICS = {metric.name: metric.title for metric in LabelRanking.metrics}
PAPER = "RLSEP in the paper"


def tables() -> str:
    """Return all that the page shows."""
    parts = {
        "The paper's network, 224 px, 5,000 images": table(AT_224_PX, "shifted"),
        "The same, 60,000 images": one_seed(OF_60_000, "shifted"),
        "A smaller network, 64 px, 5,000 images": table(AT_64_PX, "label_attention"),
    }
    return "\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def table(folder: Path, kind: str) -> str:
    """Return the metrics of the three losses, and RLSEP's margins with their p values.

    Args:
        folder: of kept results.
        kind: how the runs' names end.

    Raises:
        FileNotFoundError: a loss was not kept.
        ValueError: the losses have different seeds.
    """
    kept = {loss: _kept(folder, loss, kind) for loss in LOSSES}
    seeds = {loss: sorted(metrics["ranked.exact_match"]["seeds"], key=int) for loss, metrics in kept.items()}
    if len({tuple(one) for one in seeds.values()}) > 1:
        raise ValueError(f"{folder}: the losses have different seeds, expected the same: {seeds}")
    values = {
        (loss, name): np.array([kept[loss][name]["seeds"][seed] for seed in seeds[loss]])
        for loss in LOSSES
        for name in METRICS
    }
    theirs = {loss: _printed(loss, "5,000") for loss in LOSSES}
    percent = {key: f"{100 * one.mean():.1f} ± {100 * one.std(ddof=1):.1f}" for key, one in values.items()}
    shown = [
        [title, *(percent[loss, name] for loss in LOSSES), f"{theirs['rlsep'][name]:.1f}"]
        for name, title in METRICS.items()
    ]
    rivals = [(name, loss) for name in METRICS for loss in ("cross_entropy", "lsep")]
    pairs = [(values["rlsep", name], values[loss, name]) for name, loss in rivals]
    paired = holm([float(ttest_rel(ours, other).pvalue) for ours, other in pairs])
    welch = holm([float(ttest_ind(ours, other, equal_var=False).pvalue) for ours, other in pairs])
    margins = []
    for (name, loss), (ours, other), p, q in zip(rivals, pairs, paired, welch, strict=True):
        margin, papers = f"{100 * (ours - other).mean():+.1f}", f"{theirs['rlsep'][name] - theirs[loss][name]:+.1f}"
        margins.append([METRICS[name], LOSSES[loss], margin, _shown(p), _shown(q), papers])
    about = ["metric", "over", "margin", "p, paired by seed", "p, Welch", "the paper's margin"]
    return (
        f"Per cent, mean ± standard deviation over {len(seeds['rlsep'])} seeds.\n\n"
        f"{markdown(['metric', *LOSSES.values(), PAPER], shown)}\n"
        "RLSEP's margins, in points; p by t-tests over seeds, paired and Welch's, adjusted for all rows (Holm).\n\n"
        f"{markdown(about, margins)}"
    )


def one_seed(folder: Path, kind: str) -> str:
    """Return the metrics of the three losses of one seed each, trained on 60,000 images; arguments as of `table`.

    Raises:
        FileNotFoundError: a loss was not kept.
    """
    kept, theirs = {loss: _kept(folder, loss, kind) for loss in LOSSES}, _printed("rlsep", "60,000")
    rows = []
    for name, title in METRICS.items():
        ours = [[100 * kept[loss][name][key] for key in ("value", "low", "high")] for loss in LOSSES]
        rows.append([title, *(number(*one, digits=1) for one in ours), f"{theirs[name]:.1f}"])
    return (
        "Per cent, with a 95 % interval over test images; one seed.\n\n"
        f"{markdown(['metric', *LOSSES.values(), PAPER], rows)}"
    )


def _kept(folder: Path, loss: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return each metric of a run by its name: `value`, `low`, `high` and `seeds`."""
    path = folder / f"label_ranking-{loss}-{kind}.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; results/README.md says how it is made")
    metrics = json.loads(path.read_text())["metrics"]
    return {f"{part}.{name}": metrics[part][name] for part, name in (metric.split(".") for metric in METRICS)}


def _printed(loss: str, images: str) -> dict[str, float]:
    """Return the paper's metrics in per cent."""
    shares = printed("label_ranking", "ranked_mnist", loss)[images]
    return {name: 100 * float(share.split(" ± ")[0]) for name, share in shares.items()}


def _shown(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


if __name__ == "__main__":
    try:
        write_results(PAGE, tables())
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
