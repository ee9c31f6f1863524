"""Sort four-digit MNIST, the field's benchmark, with one reduced budget for all: ours, and whoever is installed.

Network, optimizer and losses are those of the benchmark (Grover et al. 2019; Petersen et al. 2021): 10 sets a step
instead of 100, 1,500 steps instead of 100,000, the last weights instead of the best. Never compare with the papers.

    python -m benchmarks.four_digit_mnist --digits FOLDER                 # all that is missing at n = 5, seeds 1 to 5
    python -m benchmarks.four_digit_mnist --digits FOLDER --n 3 9 --seeds 1
    python -m benchmarks.four_digit_mnist --table                         # the tables of docs/peers.md

Each finished seed is a line of results/four_digit_mnist/seeds.jsonl, so that a run resumes, and can go on elsewhere.
Methods of a seed share initial weights and the sequence of images. Each method's setting is the best on validation of a
short training with seed 0 at n = 5.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import neural_sort, soft_sort
from benchmarks.results import half_width, machine
from pipelines.ops.git import git
from rankops.datasets.scenes.digits import Digits, splits
from rankops.datasets.scenes.four_digit_mnist import draw
from rankops.losses import list_mle, permutation_cross_entropy, ranknet, spearman
from rankops.metrics import elementwise_match, exact_match
from rankops.seeding import derived_seed, generator
from rankops.sorters import Laplace, soft_permutation
from tools.page import markdown, write_results

FILE, PAGE = Path("results/four_digit_mnist/seeds.jsonl"), Path("docs/peers.md")
SETS, STEPS, STEPS_OF_CHOICE, RATE = 10, 1500, 400, 10**-3.5
ITEMS = 10_000  # of validation and of test, in sets of n

Loss = Callable[[Tensor, Tensor], Tensor]


class Network(nn.Module):
    """The benchmark's network; a ReLU after a pooling is one before it, in a quarter of the time."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(1, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
                  nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()]  # fmt: skip
        self.features = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 7 * 28, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Take images (m, 28, 112) uint8 to scores (m,), those of training with convolutions in bfloat16."""
        pixels = (images.unsqueeze(1).float() / 255).to(memory_format=torch.channels_last)
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=self.training):
            features = self.features(pixels)
        return self.head(features.float()).squeeze(-1)


def binary_cross_entropy(scores: Tensor, values: Tensor, *, permutation: Callable[[Tensor], Tensor]) -> Tensor:
    """Compare soft permutations (m, n, n), places by scores, with the true ones: the benchmark's loss."""
    true = nn.functional.one_hot(values.argsort(dim=-1, descending=True), values.shape[-1]).float()
    return nn.functional.binary_cross_entropy(permutation(scores).clamp(0, 1), true)


def methods() -> dict[str, dict[float | None, Loss]]:
    """Return the losses of each method by its setting: those of the project, formulas, and packages that are there."""
    entries = partial(partial, binary_cross_entropy)
    # In the scores' own unit, as the peers: a network grows surer by spreading its scores. With standard deviations as
    # unit it cannot, and a loss on the whole permutation never comes near 0.
    soft = {softness: Laplace(softness=softness, standardize=False) for softness in (0.1, 0.3, 1.0)}
    standardized = {softness: Laplace(softness=softness) for softness in (0.2, 0.5, 1.0)}
    found: dict[str, dict[float | None, Loss]] = {
        "RankOps soft_permutation": {
            b: entries(permutation=partial(soft_permutation, sorter=laplace)) for b, laplace in soft.items()
        },
        "RankOps soft_permutation, standardized": {
            b: entries(permutation=partial(soft_permutation, sorter=laplace)) for b, laplace in standardized.items()
        },
        "RankOps permutation_cross_entropy": {
            b: partial(permutation_cross_entropy, sorter=laplace) for b, laplace in soft.items()
        },
        "RankOps spearman": {b: partial(spearman, sorter=laplace) for b, laplace in soft.items()},
        "RankOps list_mle": {None: list_mle},
        "RankOps ranknet": {None: ranknet},
        "NeuralSort": {t: entries(permutation=partial(neural_sort, temperature=t)) for t in (0.1, 1.0, 5.0)},
        "SoftSort": {t: entries(permutation=partial(soft_sort, temperature=t)) for t in (0.1, 1.0, 5.0)},
    }  # fmt: skip
    try:
        from diffsort import DiffSortNet

        network = cache(DiffSortNet)

        def sorting_network(scores: Tensor, steepness: float) -> Tensor:
            return network("odd_even", scores.shape[-1], steepness=steepness)(-scores)[1].mT

        found["diffsort odd_even"] = {
            s: entries(permutation=partial(sorting_network, steepness=s)) for s in (5.0, 10.0, 20.0)
        }
    except ImportError as error:
        print(f"diffsort left out: {error}")
    try:
        from torchsort import soft_rank

        def isotonic(scores: Tensor, strength: float) -> Tensor:
            return soft_rank(-scores, regularization_strength=strength)

        found["torchsort"] = {s: partial(spearman, sorter=partial(isotonic, strength=s)) for s in (0.1, 1.0, 10.0)}
    except ImportError as error:
        print(f"torchsort left out: {error}")
    try:
        from lapsum.permute import cross_entropy

        def its_own(scores: Tensor, values: Tensor, alpha: float) -> Tensor:
            return cross_entropy(scores, values.argsort(dim=-1).argsort(dim=-1), alpha)

        found["LapSum"] = {a: partial(its_own, alpha=a) for a in (0.1, 1.0, 5.0)}
    except ImportError as error:
        print(f"LapSum left out: {error}")
    return found


def trained(loss: Loss, digits: Digits, *, n: int, seed: int, steps: int) -> Network:
    torch.manual_seed(derived_seed(seed, "four_digit_mnist", "network"))
    network, draws = Network(), generator(seed, "four_digit_mnist", "train", str(n))
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, fused=True)
    for _ in range(steps):
        images, values = draw(digits, SETS * n, draws)
        optimizer.zero_grad()
        loss(network(images).view(SETS, n), values.view(SETS, n)).backward()
        optimizer.step()
    return network.eval()


@torch.no_grad()
def measured(network: Network, digits: Digits, *, n: int, seed: int, split: str) -> dict[str, float]:
    """Return EM and EW, in per cent, of sets that share no item."""
    images, values = draw(digits, ITEMS // n * n, generator(seed, "four_digit_mnist", split, str(n)))
    scores = torch.cat([network(some) for some in images.split(50)]).view(-1, n)
    return {"EM": 100 * exact_match(scores, values.view(-1, n)).mean().item(),
            "EW": 100 * elementwise_match(scores, values.view(-1, n)).mean().item()}  # fmt: skip


def finished() -> dict[tuple, dict]:
    lines = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.is_file() else []
    return {(line["method"], line["setting"], line["n"], line["seed"], line["steps"]): line for line in lines}


def setting_of(method: str, settings: list[float | None], done: dict[tuple, dict]) -> float | None:
    """Return the setting with the highest EM on validation in the short trainings.

    Raises:
        KeyError: one of them is not finished.
    """
    if len(settings) == 1:
        return settings[0]
    return max(settings, key=lambda one: done[method, one, 5, 0, STEPS_OF_CHOICE]["validation"]["EM"])


def run(
    loss: Loss, data: dict[str, Digits], method: str, setting: float | None, *, n: int, seed: int, steps: int
) -> None:
    """Train and measure one seed, and append its line; the test split is measured in whole trainings alone."""
    begin = time.process_time()
    network = trained(loss, data["train"], n=n, seed=seed, steps=steps)
    seconds = time.process_time() - begin
    names = {"validation": "val"} if steps < STEPS else {"validation": "val", "test": "test"}
    figures = {name: measured(network, data[split], n=n, seed=seed, split=split) for name, split in names.items()}
    commit = git(".", "rev-parse", "HEAD")
    command = f"python -m benchmarks.four_digit_mnist --n {n} --seeds {seed} --methods '{method}'"
    line = {"method": method, "setting": setting, "n": n, "seed": seed, "steps": steps, **figures,
            "cpu_seconds": round(seconds, 1), "commit": commit, "command": command, "machine": machine()}  # fmt: skip
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(method, setting, f"n={n} seed={seed}", figures, f"{seconds:.0f} s", flush=True)


def interval(values: list[float]) -> str:
    """Return the mean and the half width of its 95 % interval over seeds (Student's t)."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    half = half_width(values)
    return f"{np.mean(values):.1f} ± {half:.1f}"


def tables() -> str:
    """Return a Markdown table for each n: EM and EW on test, and EM minus the best peer's, over seeds of both."""
    done, pages = finished(), []
    for n in sorted({line["n"] for line in done.values() if line["steps"] == STEPS}):
        rows: dict[str, dict[int, dict]] = {}
        for line in done.values():
            if line["n"] == n and line["steps"] == STEPS:
                rows.setdefault(line["method"], {})[line["seed"]] = line
        mean = {name: float(np.mean([line["test"]["EM"] for line in row.values()])) for name, row in rows.items()}
        best = max((name for name in rows if not name.startswith("RankOps")), key=mean.__getitem__)
        columns = ["method", "setting", "seeds", "EM", "EW", f"EM minus {best}'s", "CPU seconds"]
        lines = []
        for name in sorted(rows, key=mean.__getitem__, reverse=True):
            row = rows[name]
            em, ew = ([line["test"][figure] for line in row.values()] for figure in ("EM", "EW"))
            both = [row[seed]["test"]["EM"] - rows[best][seed]["test"]["EM"] for seed in row if seed in rows[best]]
            setting = next(iter(row.values()))["setting"]
            seconds = np.mean([line["cpu_seconds"] for line in row.values()])
            cells = [name, "" if setting is None else f"{setting:g}", str(len(row)), interval(em), interval(ew),
                     "" if name == best else interval(both), f"{seconds:.0f}"]  # fmt: skip
            lines.append(cells)
        pages.append(f"**n = {n}**\n\n{markdown(columns, lines)}")
    return "\n".join(pages) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=Path, default=Path("data/raw/mnist"), help="folder of the MNIST files")
    parser.add_argument("--n", type=int, nargs="+", default=[5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--table", action="store_true", help="write the tables into docs/peers.md instead")
    given = parser.parse_args()
    if given.table:
        write_results(PAGE, tables())
        return
    torch.set_num_threads(1)
    known = methods()
    if unknown := set(given.methods or ()) - set(known):
        sys.exit(f"{', '.join(unknown)}: no such method; expected {', '.join(known)}")
    chosen = {name: known[name] for name in given.methods or known}
    data = splits("mnist", given.digits)
    for name, losses in chosen.items():
        for setting, loss in losses.items() if len(losses) > 1 else ():
            if (name, setting, 5, 0, STEPS_OF_CHOICE) not in finished():
                run(loss, data, name, setting, n=5, seed=0, steps=STEPS_OF_CHOICE)
    for n in given.n:
        for seed in given.seeds:
            for name, losses in chosen.items():
                setting = setting_of(name, list(losses), finished())
                if (name, setting, n, seed, STEPS) not in finished():
                    run(losses[setting], data, name, setting, n=n, seed=seed, steps=STEPS)


if __name__ == "__main__":
    main()
