"""Sort four-digit MNIST, a standard benchmark, with the same reduced budget for our operators and others'.

    python -m studies.four_digit_mnist [METHOD ...]      # computes what is missing, on a GPU if there is one

It needs MNIST, and the packages diffsort and torchsort for their methods.

Network, optimizer, and losses follow the benchmark (Grover et al. 2019; Petersen et al. 2021), but with 10 sets per
step instead of 100, 1,500 steps instead of 100,000, and the last weights instead of the best. Results are not
comparable with the papers.

A method's setting has the best mean EM on validation over three seeds of complete trainings at n = 5; the ten test
seeds are different. For the same seed, all methods share initial weights and the sequence of images; all seeds of a
method are trained side by side.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from rankgrad import losses
from rankgrad.datasets.scenes.digits import splits
from rankgrad.io.results import Row
from rankgrad.metrics import elementwise_match, exact_match
from rankgrad.seeding import derived_seed
from rankgrad.sorters import Laplace, Logistic, soft_permutation
from studies import kept
from studies.times.peers import isotonic_ranks, missing, neural_sort, soft_sort, sorting_network
from studies.vectorized import Jobs, Loss, adam, by_seed, command, of_each_list, uniform

STUDY = "four_digit_mnist"
SETTINGS, LENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), (5, 3, 9, 15)
SEEDS, SEEDS_OF_CHOICE, LENGTH_OF_CHOICE = range(1, 11), range(11, 14), 5
SETS, STEPS, RATE, ITEMS = 10, 1500, 10**-3.5, 10_000  # validation and test have 10,000 items each, in sets of n
LAYERS = ((32, 1, 5, 5), (64, 32, 5, 5), (64 * 7 * 28, 64), (64, 1))
DIGITS, DEVICE = ("mnist", "data/raw/mnist"), "cuda" if torch.cuda.is_available() else "cpu"

Operator = Callable[[Tensor], Tensor]
Digits = tuple[Tensor, Tensor]  # images (n, 28, 28) uint8 and labels


def binary_cross_entropy(permutation: Tensor, true: Tensor) -> Tensor:
    """Return the benchmark's loss over all entries."""
    return functional.binary_cross_entropy(permutation.clamp(0, 1), true, reduction="none").mean((-2, -1))


def likelihood(permutation: Tensor, true: Tensor) -> Tensor:
    """Return the negative log of the fraction that each rank has of its own score."""
    return -(permutation * true).sum(-1).clamp(min=1e-12).log().mean(-1)


def of_permutation(scores: Tensor, values: Tensor, *, permutation: Operator, loss: Loss) -> Tensor:
    """Compare a soft permutation (..., n, n), ranks by scores, with the true one."""
    true = functional.one_hot(values.argsort(dim=-1, descending=True), values.shape[-1]).float()
    return loss(permutation(scores), true)


# The setting is softness, temperature, or strength; steepness is its inverse. Our sorters, like their peers, do not
# standardize scores: a network becomes more certain by spreading its scores, which standardizing would undo.
PERMUTATIONS: dict[str, Callable[[float], Operator]] = {
    "Laplace": lambda b: partial(soft_permutation, sorter=Laplace(softness=b, standardize=False)),
    "Laplace, standardized": lambda b: partial(soft_permutation, sorter=Laplace(softness=b)),
    "Logistic": lambda b: partial(soft_permutation, sorter=Logistic(softness=b, standardize=False)),
    "NeuralSort": lambda t: partial(neural_sort, temperature=t),
    "SoftSort": lambda t: partial(soft_sort, temperature=t),
    "diffsort, Cauchy": lambda t: partial(sorting_network, kind="odd_even", steepness=1 / t, distribution="cauchy"),
    "diffsort, optimal": lambda t: partial(sorting_network, kind="odd_even", steepness=1 / t, distribution="optimal"),
}
LOSSES: dict[str, Loss] = {"binary cross-entropy": binary_cross_entropy, "likelihood": likelihood}
RANKS: dict[str, Callable[[float], Operator]] = {
    "Laplace": lambda b: Laplace(softness=b, standardize=False),
    "torchsort": lambda strength: partial(isotonic_ranks, kind="l2", strength=strength),
}


def methods() -> dict[str, dict[float | None, Loss]]:
    """Return the losses of each method by setting; the key is None for a method without settings."""
    losses_of: dict[str, dict[float | None, Loss]] = {}
    for (name, make), (title, loss) in product(PERMUTATIONS.items(), LOSSES.items()):
        bound = partial(of_permutation, loss=loss)
        losses_of[f"{name}, {title}"] = {setting: partial(bound, permutation=make(setting)) for setting in SETTINGS}
    for (name, make), loss in product(RANKS.items(), ("spearman", "softsort_cross_entropy")):
        losses_of[f"{name}, {loss}"] = {
            setting: of_each_list(getattr(losses, loss), sorter=make(setting)) for setting in SETTINGS
        }
    for name in ("list_mle", "ranknet"):
        losses_of[name] = {None: of_each_list(getattr(losses, name))}
    return losses_of


METHODS = methods()


def generators(seeds: range, *use: str) -> list[torch.Generator]:
    return [torch.Generator(DEVICE).manual_seed(derived_seed(seed, STUDY, *use)) for seed in seeds]


@cache
def digits(split: str) -> Digits:
    of_split = splits(*DIGITS)[split]
    return of_split.images.to(DEVICE), of_split.labels.to(DEVICE)


def draw(digits: Digits, items: int, draws: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
    """Draw items of four digits next to each other, with replacement.

    Returns:
        Images (B, items, 28, 112) uint8 and values (B, items), 0 to 9999, for B generators.
    """
    images, labels = digits
    rows = torch.stack([torch.randint(len(images), (items, 4), generator=draw, device=draw.device) for draw in draws])
    tens = torch.tensor([1000, 100, 10, 1], device=labels.device)
    return images[rows].transpose(2, 3).flatten(3), (labels[rows] * tens).sum(-1)


def initial(seeds: range) -> list[Tensor]:
    """Return a network's weights and biases for each seed, uniform within 1 / sqrt(number of inputs)."""
    weights, draws = [], generators(seeds, "network")
    for shape in LAYERS:
        inputs, bias = (shape[0], (1, shape[1])) if len(shape) == 2 else (math.prod(shape[1:]), (shape[0],))
        for size in (shape, bias):
            weights.append(torch.stack([uniform(size, inputs, generator) for generator in draws]))
    return weights


def scores(weights: list[Tensor], images: Tensor, *, training: bool = False) -> Tensor:
    """Return scores (B, m) of images (B, m, 28, 112) from the benchmark's network; training convolves in bfloat16.

    ReLU after max pooling gives the same result as before it, in a quarter of the time.
    """
    maps = (images.transpose(0, 1).float() / 255).to(memory_format=torch.channels_last)
    with torch.autocast(images.device.type, torch.bfloat16, enabled=training):
        for weight, bias in (weights[:2], weights[2:4]):
            maps = functional.conv2d(maps, weight.flatten(0, 1), bias.flatten(), padding=2, groups=len(images))
            maps = functional.max_pool2d(maps, 2).relu()
    hidden = maps.float().unflatten(1, (len(images), -1)).transpose(0, 1).flatten(2)
    hidden = torch.baddbmm(weights[5], hidden, weights[4]).relu()
    return torch.baddbmm(weights[7], hidden, weights[6]).squeeze(-1)


def trained(loss: Loss, n: int, seeds: range) -> list[Tensor]:
    weights, draws = initial(seeds), generators(seeds, "train", str(n))

    def value() -> Tensor:
        images, values = draw(digits("train"), SETS * n, draws)
        ranked = scores(weights, images, training=True)
        return loss(ranked.unflatten(1, (SETS, n)), values.unflatten(1, (SETS, n))).mean(-1)

    list(adam(weights, value, rates=torch.full((len(seeds),), RATE, device=DEVICE), steps=(STEPS,)))
    return weights


def rows(run: str, loss: Loss, n: int, seeds: range, tested: Sequence[str]) -> list[Row]:
    """Train all seeds, and return EM and EW of each in percent, on disjoint sets."""
    weights, rows = trained(loss, n, seeds), []
    for split in tested:
        images, values = draw(digits(split), ITEMS // n * n, generators(seeds, split, str(n)))
        with torch.no_grad():
            ranked = torch.cat([scores(weights, piece) for piece in images.split(100, 1)], 1).nan_to_num(0.0)
        for name, metric in (("EM", exact_match), ("EW", elementwise_match)):
            percent = 100 * metric(ranked.unflatten(1, (-1, n)), values.unflatten(1, (-1, n))).mean(-1)
            rows += by_seed(run, f"{split}.{name}", percent.tolist(), seeds)
    return rows


def jobs(method: str) -> Jobs:
    """Return the trials of a method's settings, and then a run for each length with the best setting."""
    runs: Jobs = {}
    for setting, loss in METHODS[method].items():
        if setting is not None:
            run = trial(method, setting)
            runs[run] = partial(rows, run, loss, LENGTH_OF_CHOICE, SEEDS_OF_CHOICE, ["val"])
    for n in LENGTHS:
        runs[f"{method}, n = {n}"] = partial(tested, method, n)
    return runs


def trial(method: str, setting: float) -> str:
    return f"{method}, setting = {setting}"


def tested(method: str, n: int) -> list[Row]:
    """Return the rows of a run with the setting that is best in the kept trials."""
    run, by_setting, reached = f"{method}, n = {n}", METHODS[method], {}
    for setting in by_setting:
        if setting is None:
            return rows(run, by_setting[None], n, SEEDS, ["val", "test"])
        reached[setting] = sum(kept.read(STUDY).by_seed(trial(method, setting), "val.EM").values())
    best = max(reached, key=lambda setting: reached[setting])
    return [Row(run, "setting", best), *rows(run, by_setting[best], n, SEEDS, ["val", "test"])]


if __name__ == "__main__":
    params = {"settings": SETTINGS, "sets": SETS, "steps": STEPS, "rate": RATE, "items": ITEMS}
    installed = [name for name in METHODS if name.split(",")[0] not in missing()]
    command(STUDY, {name: jobs(name) for name in installed}, params=params, hashes={})
