"""SoDeep's Table 1: how far sorters of 100 scores are from exact ranks, on 10,000 vectors of the paper's ten kinds.

    python -m benchmarks.sodeep_table_1             # results/sodeep_table_1.json, docs/sodeep_table_1.md

The comparator ships with the package, and the weights of the LSTM are written down. Only the CNNs are trained, for
about three quarters of an hour on one core; a stopped training resumes.
"""

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.results import machine
from pipelines.ops.git import git
from pipelines.reporting import papers
from pipelines.reporting.results import number
from pipelines.stages.pretrain import Imitation
from rankops.datasets.vectors.score_vectors import draw
from rankops.io.atomic import replaced_file
from rankops.metrics.bootstrap import interval
from rankops.metrics.sorter_quality import gradient_health
from rankops.ranks import ranks
from rankops.seeding import derived_seed, generator
from rankops.sorters import CNN, LSTM, Handcrafted, Laplace, Sigmoid, load_sorter
from rankops.training.loop import fit
from tools.page import markdown, write_results

RESULTS, PAGE = Path("results/sodeep_table_1.json"), Path("docs/sodeep_table_1.md")
ROWS, ROWS_OF_GRADIENTS = 10_000, 64
EPOCH = 100_000  # vectors, as the paper
CNNS: dict[str, dict[str, Any]] = {
    "CNN, the paper's kernels, 32 channels": {
        "args": {"channels": 32, "kernels": [2, 3, 5, 7, 10, 7, 5, 68]},
        "epochs": 100,
        "rate": 3e-3,
    },
    "CNN, dilated, 32 channels": {"args": {"channels": 32, "standardize": True}, "epochs": 15, "rate": 5e-3},
}
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


def trained(name: str) -> CNN:
    """Train a CNN to imitate sorting, on vectors that are drawn anew."""
    args, epochs, rate = (CNNS[name][key] for key in ("args", "epochs", "rate"))
    torch.manual_seed(derived_seed(1, "sodeep_table_1", name))
    sorter = CNN(length=papers.LENGTH, **args)
    scores, _ = draw(2000, papers.LENGTH, generator(1, "sodeep_table_1", "val"))
    val = (scores, ranks(scores))
    training = {"batch_size": 512, "epochs": epochs, "patience": epochs}
    training |= {"optimizer": {"name": "AdamW", "args": {"lr": rate}}}
    training |= {"schedule": {"name": "cosine", "warm_up_epochs": 1}}
    checkpoint = Path(".checkpoints/sodeep_table_1") / f"{name}, {epochs} epochs".replace(" ", "_")
    finished = fit(
        Imitation(papers.LENGTH, fresh=True), "imitation", sorter, val, val, options=training, rows=EPOCH, seed=1,
        device="cpu", checkpoint=checkpoint, name=name,
    )  # fmt: skip
    for epoch in finished:
        print(name, f"epoch {epoch.number} of {epochs}, L1 {epoch.validation['l1']:.4f}", flush=True)
    return sorter.eval()


def sorters() -> dict[str, tuple[nn.Module, str | None]]:
    """Return what is measured, with the paper's sorter that it stands beside."""
    written = {
        f"LSTM written down, {cells} cells each way": (written_down(cells), "lstm") for cells in (512, 256, 128, 64)
    }
    return {
        "comparator, trained at d = 32, ships": (load_sorter("comparator"), None),
        **written,
        **{name: (trained(name), "cnn") for name in CNNS},
        "sigmoid": (Sigmoid(), None),
        "Laplace, softness 0.05": (Laplace(softness=0.05), None),
        "Laplace, softness 0.2": (Laplace(softness=0.2), None),
        "handcrafted, steepness 10": (Handcrafted(steepness=10.0), "handcrafted"),
    }  # fmt: skip


def measured(sorter: nn.Module, scores: Tensor) -> dict[str, Any]:
    """Return L1 / d with its interval over vectors, the health of gradients, weights, and CPU seconds."""
    begin = time.process_time()
    with torch.no_grad():
        soft = torch.cat([sorter(part) for part in scores.split(500)])
    seconds = time.process_time() - begin
    errors = (soft - ranks(scores)).abs().double()
    health = gradient_health(sorter, scores[:ROWS_OF_GRADIENTS])
    return {
        "l1": interval(errors.mean(-1).numpy() / scores.shape[-1], resamples=1000, seed=1),
        "exact_ranks": (errors < 0.5).double().mean().item(),
        "wrong_signs_of_others": health["wrong_signs_of_others"],
        "vanishing": health["vanishing"],
        "parameters": sum(one.numel() for one in sorter.parameters()),
        "cpu_seconds": round(seconds, 2),
    }


def table(kept: dict[str, Any]) -> str:
    columns = ["sorter", "parameters", "L1", "the paper's L1"]
    columns += ["exact ranks", "vanishing gradients", "wrong signs", "CPU seconds"]
    rows = []
    for name, one in kept["sorters"].items():
        error = number(one["l1"]["value"], one["l1"]["low"], one["l1"]["high"], digits=4)
        shares = [number(one[key]) for key in ("exact_ranks", "vanishing", "wrong_signs_of_others")]
        rows.append([name, f"{one['parameters']:,}", error, one["paper"] or "", *shares, f"{one['cpu_seconds']:g}"])
    return markdown(columns, rows)


def main() -> None:
    torch.set_num_threads(1)
    scores, _ = draw(ROWS, papers.LENGTH, generator(1, "sodeep_table_1"))
    kept: dict[str, Any] = {"commit": git(".", "rev-parse", "HEAD"), "command": "python -m benchmarks.sodeep_table_1"}
    kept |= {"machine": machine(), "length": papers.LENGTH, "rows": ROWS, "cnns": CNNS, "sorters": {}}
    for name, (sorter, beside) in sorters().items():
        kept["sorters"][name] = measured(sorter, scores) | {"paper": papers.SORTERS[beside] if beside else None}
        print(name, f"{kept['sorters'][name]['l1']['value']:.4f}", flush=True)
    with replaced_file(RESULTS) as partial:
        partial.write_text(json.dumps(kept, indent=1) + "\n")
    write_results(PAGE, table(kept))


if __name__ == "__main__":
    main()
