"""SoDeep's Table 1: how far sorters of 100 scores are from exact ranks, on 10,000 vectors of the paper's ten kinds.

    python -m benchmarks.sodeep_table_1 [SORTER ...]      # by default all that results/sodeep_table_1.json lacks

The comparator ships with the package, and weights of LSTMs are written down by a formula. Others are trained: those of
the paper's size on a GPU, if there is one; the rest for three quarters of an hour on one core. A stopped training
resumes. The table is in docs/sodeep_table_1.md.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.results import machine
from pipelines.ops.git import git
from pipelines.reporting import papers
from pipelines.reporting.results import number
from pipelines.stages.pretrain import Imitation
from rankops.bootstrap import interval
from rankops.datasets.vectors.score_vectors import draw
from rankops.io.atomic import replaced_file
from rankops.ranks import ranks
from rankops.seeding import derived_seed, generator
from rankops.sorter_quality import gradient_health
from rankops.sorters import CNN, LSTM, Handcrafted, Laplace, Sigmoid, Sorter, load_sorter
from rankops.training.device import find_device
from rankops.training.loop import fit
from tools.page import markdown, write_results

RESULTS, PAGE = Path("results/sodeep_table_1.json"), Path("docs/sodeep_table_1.md")
ROWS, ROWS_OF_GRADIENTS = 10_000, 64
EPOCH = 100_000  # vectors, as the paper
PAPERS_KERNELS = [2, 3, 5, 7, 10, 7, 5, 68]
ADAM = {"optimizer": {"name": "Adam", "args": {"lr": 1e-3}}}
COSINE = {"schedule": {"name": "cosine", "warm_up_epochs": 1}}
TRAINED: dict[str, tuple[type[Sorter], dict[str, Any], dict[str, Any]]] = {
    "LSTM, the paper's": (
        LSTM,
        {"hidden": 512, "layers": 2, "projection": "full"},
        {"epochs": 40, **ADAM, **COSINE},
    ),
    "CNN, the paper's": (
        CNN,
        {"channels": 64, "kernels": PAPERS_KERNELS},
        {"epochs": 300, **ADAM, "schedule": {"name": "step", "factor": 0.5, "every_epochs": 75}},
    ),
    "CNN, the paper's kernels, 32 channels": (
        CNN,
        {"channels": 32, "kernels": PAPERS_KERNELS},
        {"epochs": 100, "optimizer": {"name": "AdamW", "args": {"lr": 3e-3}}, **COSINE},
    ),
    "CNN, dilated, 32 channels": (
        CNN,
        {"channels": 32, "standardize": True},
        {"epochs": 15, "optimizer": {"name": "AdamW", "args": {"lr": 5e-3}}, **COSINE},
    ),
}
CELLS = (512, 256, 128, 64)  # of LSTMs that are written down
UNIT = 2000.0  # a cell counts in steps of 1 / UNIT, where tanh is a line


@torch.no_grad()
def written_down(hidden: int, *, length: int = papers.LENGTH) -> LSTM:
    """Return an LSTM sorter whose weights are a formula.

    There are hidden / 2 thresholds at quantiles of the normal distribution, each with two cells. Both count the scores
    so far above the threshold: the input gate tells which are, and the forget gate stays open. One's output gate opens
    above the midpoint to the threshold below, the other's above the midpoint to the threshold above. Their difference,
    which the projection takes, is the count at the score's own threshold. Both directions together count all scores.

    Args:
        hidden: cells of each direction, an even number.
        length: d.
    """
    sorter = LSTM(length=length, hidden=hidden, layers=1, projection="shared", standardize=True)
    count = hidden // 2
    thresholds = torch.special.ndtri((torch.arange(count, dtype=torch.float64) + 0.5) / count)
    gaps, middles = thresholds.diff(), (thresholds[1:] + thresholds[:-1]) / 2
    above = 2.2 / torch.cat([gaps, gaps[-1:]])
    slopes, places = 4.4 / gaps, -4.4 / gaps * middles  # of the output gates; the first is always open, the last never
    opened, closed = torch.tensor([60.0]).double(), torch.tensor([-60.0]).double()
    none = torch.zeros(1).double()
    for direction in ("", "_reverse"):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weight, recurrent, bias, other = (getattr(sorter.recurrent, f"{name}_l0{direction}") for name in names)
        recurrent.zero_()
        other.zero_()
        # Gates in PyTorch's order: input, forget, candidate, output.
        still = torch.zeros(2 * hidden).double()
        weight[:, 0] = torch.cat([above, above, still, none, slopes, slopes, none])
        candidate = torch.full((hidden,), math.atanh(1 / UNIT)).double()
        counted = -above * thresholds
        bias.copy_(torch.cat([counted, counted, opened.expand(hidden), candidate, opened, places, places, closed]))
    linear = sorter.projection[0]
    assert isinstance(linear, nn.Linear)
    row = torch.cat([torch.full((count,), UNIT / length), torch.full((count,), -UNIT / length)])
    linear.weight.copy_(torch.cat([row, row]))
    linear.bias.fill_(-0.5)  # which the class adds
    return sorter.eval()


def trained(name: str) -> Sorter:
    """Train a sorter to imitate sorting, on vectors that are drawn anew."""
    kind, args, training = TRAINED[name]
    torch.manual_seed(derived_seed(1, "sodeep_table_1", name))
    sorter = kind(length=papers.LENGTH, **args)
    device = find_device("auto")
    scores, _ = draw(2000, papers.LENGTH, generator(1, "sodeep_table_1", "val"))
    val = (scores.to(device), ranks(scores).to(device))
    epochs = training["epochs"]
    checkpoint = Path(".checkpoints/sodeep_table_1") / f"{name}, {epochs} epochs".replace(" ", "_")
    finished = fit(
        Imitation(sorter, val, val, rows=EPOCH, fresh=True), {"batch_size": 512, "patience": epochs} | training,
        seed=1, name=name, checkpoint=checkpoint,
    )  # fmt: skip
    for epoch in finished:
        print(name, f"epoch {epoch.number} of {epochs}, L1 {epoch.validation['l1']:.4f}", flush=True)
    return sorter.eval()


# What makes a sorter, and the paper's sorter that it stands beside.
SORTERS: dict[str, tuple[Callable[[], Sorter], str | None]] = {
    "comparator, trained at d = 32, ships": (partial(load_sorter, "comparator"), None),
    **{f"LSTM written down, {cells} cells each way": (partial(written_down, cells), "lstm") for cells in CELLS},
    **{name: (partial(trained, name), name.split(",")[0].lower()) for name in TRAINED},
    "sigmoid": (Sigmoid, None),
    "Laplace, softness 0.05": (partial(Laplace, softness=0.05), None),
    "Laplace, softness 0.2": (partial(Laplace, softness=0.2), None),
    "handcrafted, steepness 10": (partial(Handcrafted, steepness=10.0), "handcrafted"),
}


def measured(sorter: Sorter, scores: Tensor) -> dict[str, Any]:
    """Return L1 / d with its interval over vectors, the health of gradients, weights, and CPU seconds, if on a CPU."""
    device = next(sorter.parameters(), torch.empty(0)).device
    begin = time.process_time()
    with torch.no_grad():
        soft = torch.cat([sorter(part.to(device)).cpu() for part in scores.split(500)])
    seconds = time.process_time() - begin
    errors = (soft - ranks(scores)).abs().double()
    health = gradient_health(sorter, scores[:ROWS_OF_GRADIENTS].to(device))
    return {
        "l1": interval(errors.mean(-1).numpy() / scores.shape[-1], resamples=1000, seed=1),
        "exact_ranks": (errors < 0.5).double().mean().item(),
        "wrong_signs_of_others": health["wrong_signs_of_others"],
        "vanishing": health["vanishing"],
        "parameters": sum(one.numel() for one in sorter.parameters()),
        "cpu_seconds": round(seconds, 2) if device.type == "cpu" else None,
    }


def row(name: str) -> dict[str, Any]:
    """Return what is kept of a sorter."""
    torch.set_num_threads(1)
    make, beside = SORTERS[name]
    scores, _ = draw(ROWS, papers.LENGTH, generator(1, "sodeep_table_1"))
    kept = measured(make(), scores) | {"paper": papers.SORTERS[beside] if beside else None}
    if name in TRAINED:
        _, args, training = TRAINED[name]
        kept |= {"args": args, "training": training}
    return kept | {"machine": machine()}


def table(kept: dict[str, Any]) -> str:
    columns = ["sorter", "parameters", "L1", "the paper's L1"]
    columns += ["exact ranks", "vanishing gradients", "wrong signs", "CPU seconds"]
    rows = []
    for name in SORTERS:
        if (one := kept.get(name)) is None:
            continue
        error = number(one["l1"]["value"], one["l1"]["low"], one["l1"]["high"], digits=4)
        shares = [number(one[key]) for key in ("exact_ranks", "vanishing", "wrong_signs_of_others")]
        seconds = "" if one["cpu_seconds"] is None else f"{one['cpu_seconds']:g}"
        rows.append([name, f"{one['parameters']:,}", error, one["paper"] or "", *shares, seconds])
    return markdown(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SORTER", choices=[[], *SORTERS], help="sorters to measure anew")
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in parser.parse_args().names or [name for name in SORTERS if name not in kept]:
        kept[name] = row(name) | {"commit": git(".", "rev-parse", "HEAD")}
        print(name, f"{kept[name]['l1']['value']:.4f}", flush=True)
        with replaced_file(RESULTS) as partly:
            partly.write_text(json.dumps(kept, indent=1) + "\n")
    write_results(PAGE, table(kept))


if __name__ == "__main__":
    main()
