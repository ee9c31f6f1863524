"""Measure all our sorters and all installed peers by ten measures: docs/sorters.md, Parquet, and two plots.

Scores are of the ten kinds on which sorters are trained, with d = 100 unless stated otherwise; trained sorters of fixed
length are measured at their length.

    python -m studies.times sorters --add my.py:MySorter

adds your own sorter to the table: a class, or a function from scores (..., d) to ranks (..., d), 1 for the largest. The
table is then written to studies/times/results, and docs/sorters.md does not change.
"""

import argparse
import importlib.util
import shutil
import time
from itertools import count
from pathlib import Path
from weakref import WeakValueDictionary, finalize

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankgrad import lookup
from rankgrad.datasets.vectors.score_vectors import draw
from rankgrad.sorters import _quality as measures
from rankgrad.sorters import load_sorter
from studies import pages
from studies.times.measuring import OURS, median_seconds, ours
from studies.times.peers import Ranking, peers
from studies.times.results import FOLDER, write

PAGE = Path("docs/sorters.md")
LENGTH, ROWS, VECTORS = 100, 1000, 40
LENGTHS = (10, 100, 1000, 10_000, 100_000, 1_000_000)
MOST_PAIRS = 10_000 * 10_000
# Longer vectors would take gigabytes or minutes each.
LONGEST = {"logistic": 10_000, "handcrafted": 1000, "NeuralSort": 1000, "SoftSort": 1000, "diffsort": 100}
# Stop measuring an added sorter at the length at which ten times as many scores would take longer, if it is quadratic.
MOST_SECONDS, MOST_MB = 2.0, 2000.0
SHOWN = (
    "l1", "exactly_ordered", "vanishing", "wrong_signs_of_others", "equivariance", "l1_at_scale_0.01", "l1_of_tied",
    "l1_cauchy", "fidelity_0.1", "adam_steps_from_0.01", "ms_at_100", "ms_at_10000", "ms_at_1000000",
    "mb_at_1000000",
)  # fmt: skip


def added(address: str) -> tuple[str, Ranking]:
    """Return the name and the sorter of `my.py:MySorter`; a class is created with its default options.

    Raises:
        ValueError: there is no such file or name, or it does not rank.
    """
    path, _, name = address.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path) if Path(path).is_file() else None
    if spec is None or spec.loader is None:
        raise ValueError(f"{address}: no Python file {path!r}; expected a file and a name, such as my.py:MySorter")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    component = getattr(module, name, None)
    if not callable(component):
        raise ValueError(f"{address}: {path} defines no class or function {name!r}")
    ranking: Ranking = component() if isinstance(component, type) else component
    scores = torch.tensor([[0.0, 3.0, -2.0, 1.0]], requires_grad=True)
    ranks = ranking(scores)
    if not torch.is_tensor(ranks) or ranks.shape != scores.shape or not ranks.requires_grad:
        raise ValueError(f"{address}: expected ranks in the shape of the scores, with a gradient")
    if ranks[0].argmin() != 1:
        raise ValueError(
            f"{address}: the largest of the scores 0, 3, -2, 1 does not get the smallest rank; rank -scores instead"
        )
    return name, ranking


def rankings() -> dict[str, Ranking]:
    """Return the sorters to measure by name, and print which are left out."""
    rankings: dict[str, Ranking] = {name: ours(name) for name in OURS} | peers()
    for name in ("lstm", "cnn"):
        folder = Path("models/sorters") / name
        if (folder / "model.json").is_file():
            sorter = load_sorter(folder)
            rankings[f"{name}, d = {sorter.length}"] = sorter
        else:
            print(f"{name} left out: {folder} is not there; `dvc repro pretrain@{name}` makes it")
    return rankings


def quality(ranking: Ranking, length: int) -> dict[str, float]:
    """Return measures 1 to 6, 8, and 9."""
    scores, _ = draw(ROWS, length, seeded(0))
    few = scores[:VECTORS]
    figures = measures.accuracy(ranking, scores)
    figures |= measures.gradient_health(ranking, few)
    figures |= measures.invariance(ranking, scores, seeded(1))
    figures |= measures.ties(ranking, few)
    figures |= measures.out_of_distribution(ranking, 200, length, seeded(2))
    figures |= measures.fidelity(ranking, few, seeded(3))
    figures["spearman_after_a_step"] = measures.drop_of_spearman(ranking, few, seeded(4))
    for deviation in (1.0, 0.01):
        steps = measures.adam_steps(ranking, 20, length, seeded(5), deviation=deviation)
        figures[f"adam_steps_from_{deviation:g}"] = steps
    return figures


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Held(TorchDispatchMode):
    """Count the bytes of live tensors that operations have created, and their peak."""

    def __init__(self):
        super().__init__()
        self.held = self.most = 0
        self.storages = WeakValueDictionary()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf) and leaf.untyped_storage()._cdata not in self.storages:
                storage = leaf.untyped_storage()
                self.storages[storage._cdata] = storage
                self.held += storage.nbytes()
                self.most = max(self.most, self.held)
                finalize(storage, self.release, storage.nbytes())
        return result

    def release(self, size: int) -> None:
        self.held -= size


def seconds_and_bytes(ranking: Ranking, length: int) -> tuple[float, int]:
    """Return the median time of seven forward and backward passes of one vector, and the peak memory."""
    scores = torch.randn(1, length, generator=seeded(0)).requires_grad_()

    def step() -> None:
        ranking(scores).square().sum().backward()

    step()
    seconds = median_seconds(step, clock=time.perf_counter, most=7, limit=10.0)
    with Held() as memory:
        step()
    return seconds, memory.most


def costs(name: str, ranking: Ranking, lengths: tuple[int, ...], *, careful: bool = False) -> dict[str, float]:
    """Return measures 7 and 10; if `careful`, skip lengths that might take too long, see `MOST_SECONDS`."""
    figures, seconds, held = {}, 0.0, 0
    for length in lengths:
        if length > LONGEST.get(name.split()[0], length):
            continue
        if careful and (100 * seconds > MOST_SECONDS or held / 1e4 > MOST_MB):
            break
        scores, _ = draw(200 if length <= 1000 else 5, length, seeded(length))
        with torch.no_grad():
            ranks = torch.cat([ranking(piece) for piece in scores.split(max(1, MOST_PAIRS // length**2 // 20))])
        figures[f"places_off_at_{length}"] = (ranks - measures.exact_ranks(scores)).abs().double().mean().item()
        seconds, held = seconds_and_bytes(ranking, length)
        figures |= {f"ms_at_{length}": 1000 * seconds, f"mb_at_{length}": held / 1e6}
    return figures


def label(axes: Axes, points: dict[str, tuple[float, float]]) -> None:
    """Write names next to points, without overlap."""
    taken: list[Bbox] = []
    for name, point in points.items():
        for across, up in ((7, -3), (7, 6), (7, -12), (-7, -3), (-7, 6), (-7, -12), (7, 15)):
            side = "left" if across > 0 else "right"
            text = axes.annotate(name, point, (across, up), textcoords="offset points", ha=side, fontsize=8)
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                break
            text.remove()
        else:
            text = axes.annotate(name, point, (7, -21), textcoords="offset points", fontsize=8)
        taken.append(text.get_window_extent())


def plots(table: pd.DataFrame) -> None:
    """Plot all measured sorters, ours in color; times are those of the first setting of each kind."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2))
    figure.subplots_adjust(left=0.06, right=0.98, bottom=0.1, top=0.93, wspace=0.16)
    spots, ends, colors = {}, {}, {}
    palette = (f"C{number}" for number in count())
    for name, row in table.iterrows():
        family = str(name).replace(",", "").split()[0]
        is_ours = family in lookup.names("sorters")
        is_first = family not in colors
        if is_first:
            colors[family] = next(palette) if is_ours else "0.55"
        spots[name] = max(row["l1"], 1e-6), max(100 * row["vanishing"], 1e-2)
        left.scatter(*spots[name], s=60, color=colors[family], marker="o" if is_ours else "s")
        lengths = [length for length in LENGTHS if pd.notna(row.get(f"ms_at_{length}"))]
        if is_first and lengths:
            times = [float(row[f"ms_at_{length}"]) for length in lengths]
            right.plot(lengths, times, "o-" if is_ours else "s--", color=colors[family], markersize=4)
            ends[family] = (lengths[-1], times[-1])
    left.set(xscale="log", yscale="log", xlabel="L1 / d (1e-6: that or less)", xlim=(5e-7, 5))
    left.set(ylabel="vanishing gradients, % (0.01: that or less)", title=f"accuracy against gradients, d = {LENGTH}")
    right.set(xscale="log", yscale="log", xlabel="d", ylabel="ms, forward and backward, one vector", xlim=(7, 2e7))
    right.set(title=f"time, {torch.get_num_threads()} thread(s); circles: ours, squares: others")
    figure.canvas.draw()
    label(left, spots)
    label(right, ends)
    figure.savefig(FOLDER / "sorters.png", dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--add", action="append", default=[], metavar="FILE.py:NAME", help="a sorter of yours")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        extra = dict(added(address) for address in options.add)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    rows = {}
    for name, ranking in (extra | rankings()).items():
        print(f"{name} ...", flush=True)
        length = getattr(ranking, "length", None)  # of a trained one
        lengths = (length,) if length else LENGTHS
        rows[name] = quality(ranking, length or LENGTH) | costs(name, ranking, lengths, careful=name in extra)
        weights = ranking.parameters() if isinstance(ranking, torch.nn.Module) else ()
        rows[name]["parameters"] = sum(weight.numel() for weight in weights)
    write("sorters_with_yours" if extra else "sorters", rows, SHOWN)
    if extra:
        return
    table = pd.DataFrame(rows).T
    table.to_parquet(FOLDER / "sorters.parquet")
    plots(table)
    pages.write(PAGE, "sorters", (FOLDER / "sorters.md").read_text())
    shutil.copyfile(FOLDER / "sorters.png", PAGE.with_suffix(".png"))


if __name__ == "__main__":
    main()
