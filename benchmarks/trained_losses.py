"""Losses on ranks, ours and others', in short trainings with one budget: heads on frozen features of made images.

Each method is trained with every learning rate on one seed; the best on validation is trained with five, and the table
has the mean on the test split with its 95 % interval (Student's t over seeds). Needs what `dvc repro` makes.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import peers
from benchmarks.results import half_width, write
from rankops.io.checkpoints import load_model
from rankops.io.parquet import as_batch
from rankops.losses.average_precision import average_precision
from rankops.losses.kendall import kendall
from rankops.losses.mean_average_precision import mean_average_precision
from rankops.losses.mse import mse
from rankops.losses.multilabel_soft_margin import multilabel_soft_margin
from rankops.losses.spearman import spearman
from rankops.metrics.mean_average_precision import mean_average_precision as exact_mean_average_precision
from rankops.metrics.spearman import spearman as exact_spearman
from rankops.sorters import load_sorter
from rankops.sorters.laplace import Laplace
from rankops.sorters.straight_through import StraightThrough
from rankops.tasks._two_phases import embedded
from rankops.tasks.multilabel import MultiLabel
from rankops.tasks.score_ranking import ScoreRanking

START = Path("models/runs/label_ranking-rlsep")
RATES = (1e-3, 3e-3, 1e-2)
SEEDS, STEPS, EVERY, BATCH, HIDDEN = 5, 400, 20, 256, 128

Loss = Callable[[Tensor, Tensor], Tensor]


def features(splits: dict[str, tuple[Tensor, Tensor]]) -> dict[str, tuple[Tensor, Tensor]]:
    """What the label ranker's network sees in images (n, height, width), standardized over the training split."""
    network = load_model(START).scorer
    found = {split: embedded(network, as_batch(images).split(256)) for split, (images, _) in splits.items()}
    mean, deviation = found["train"].mean(0), found["train"].std(0).clamp(min=1e-6)
    return {split: ((found[split] - mean) / deviation, wanted) for split, (_, wanted) in splits.items()}


def trained(loss: Loss, data: dict, figure: Callable[[Tensor, Tensor], float], *, rate: float, seed: int) -> dict:
    """The best validation figure of a training, and the test figure of that moment."""
    torch.manual_seed(seed)
    (inputs, wanted), outputs = data["train"], data["train"][1].shape[1:].numel()
    head = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(0.2), nn.Linear(HIDDEN, outputs))
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    best = {"validation": -1.0, "test": -1.0}
    for step in range(STEPS):
        rows = torch.randint(len(inputs), (BATCH,))
        optimizer.zero_grad()
        loss(head(inputs[rows]).view(BATCH, *wanted.shape[1:]), wanted[rows]).backward()
        if not torch.isfinite(nn.utils.clip_grad_norm_(head.parameters(), 10.0)):
            break  # the training has diverged: what it had reached counts
        optimizer.step()
        schedule.step()
        if (step + 1) % EVERY == 0:
            head.eval()
            with torch.no_grad():
                found = {
                    name: figure(head(data[split][0]).view_as(data[split][1]), data[split][1])
                    for name, split in (("validation", "val"), ("test", "test"))
                }
            head.train()
            if found["validation"] > best["validation"]:
                best = found
    return best


def compared(losses: dict[str, Loss], data: dict, figure: Callable[[Tensor, Tensor], float]) -> dict[str, dict]:
    rows = {}
    for name, loss in losses.items():
        found = {rate: trained(loss, data, figure, rate=rate, seed=0)["validation"] for rate in RATES}
        rate = max(found, key=found.get)
        values = [trained(loss, data, figure, rate=rate, seed=seed)["test"] for seed in range(1, SEEDS + 1)]
        spread = half_width(values)
        rows[name] = {"test": float(np.mean(values)), "±": float(spread), "rate": rate}
        print(f"{name}: {np.mean(values):.4f} ± {spread:.4f}", flush=True)
    return rows


def torchsorts_recipe(scores: Tensor, target: Tensor, *, ranking: Callable[[Tensor], Tensor]) -> Tensor:
    """Its README: 1 - the correlation of soft ranks of the scores and of the target."""
    found, wanted = (ranking(values.unsqueeze(0)).squeeze(0) for values in (scores, target))
    found, wanted = found - found.mean(), wanted - wanted.mean()
    return 1 - (found / found.norm() * (wanted / wanted.norm())).sum()


def smooth_ap(scores: Tensor, labels: Tensor, *, temperature: float) -> Tensor:
    r"""Brown et al. 2020, Eq. 6, exactly:

    $1 - \frac1P \sum_{i \in P} \frac{1 + \sum_{j \in P} \sigma((s_j - s_i) / \tau)}
    {1 + \sum_j \sigma((s_j - s_i) / \tau)}$, j other than i; averaged over classes that have a positive and a negative.
    """
    positive = labels.bool()
    above = torch.sigmoid((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / temperature)  # [c, i, j]
    above = above * (1 - torch.eye(scores.shape[-1]))
    among_positives = 1 + (above * positive.unsqueeze(-2)).sum(-1)
    precision = (among_positives / (1 + above.sum(-1)) * positive).sum(-1) / positive.sum(-1).clamp(min=1)
    defined = positive.any(-1) & ~positive.all(-1)
    return (1 - precision)[defined].mean()


def main() -> None:
    others, notes = peers()
    ours = {
        "laplace 0.2": Laplace(softness=0.2),
        "straight_through 0.2": StraightThrough(),
        "comparator": load_sorter("comparator"),
    }
    clips = {split: ScoreRanking().load("data/clips", split, threads=1) for split in ("train", "val", "test")}
    middle = {split: one.inputs.items.unflatten(0, (len(one), -1))[:, 3] for split, one in clips.items()}  # of 7 frames
    data = features({split: (middle[split], one.truth) for split, one in clips.items()})
    losses: dict[str, Loss] = {"mse": mse}
    for name, sorter in ours.items():
        losses[f"spearman, {name}"] = partial(spearman, sorter=sorter)
    losses["kendall, laplace 0.2"] = partial(kendall, sorter=ours["laplace 0.2"])
    for name, ranking in others.items():
        if not name.startswith("diffsort"):  # seconds a step
            losses[f"torchsort's recipe, {name}"] = partial(torchsorts_recipe, ranking=ranking)
    found = compared(losses, data, lambda scores, target: exact_spearman(scores, target).item())
    write("losses, Spearman of clips", found)

    images = {
        split: MultiLabel().load("data/long_tailed_mnist", split, threads=1) for split in ("train", "val", "test")
    }
    data = features({split: (one.inputs.items, one.truth.labels.float()) for split, one in images.items()})
    as_labels = lambda loss, **options: lambda scores, labels: loss(scores.mT, labels.mT, **options)  # noqa: E731
    losses = {"multilabel_soft_margin": as_labels(multilabel_soft_margin)}
    for name, sorter in ours.items():
        losses[f"average_precision, {name}"] = as_labels(average_precision, sorter=sorter)
        losses[f"mean_average_precision, {name}"] = as_labels(mean_average_precision, sorter=sorter)
    for temperature in (0.01, 0.1, 1.0):
        losses[f"SmoothAP {temperature}"] = as_labels(smooth_ap, temperature=temperature)
    found = compared(losses, data, lambda scores, labels: exact_mean_average_precision(scores, labels, dim=-2).item())
    write("losses, mAP of long-tailed digits", found)
    for note in notes:
        print(note)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
