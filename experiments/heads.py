"""Heads on frozen features: every loss, width, rate and batch that was tried for the default run, by three seeds.

    python -m experiments.heads  # after `make repro`; an hour on sixteen cores

It learns from the features that the default run's ranker makes of its own data, and writes results/heads. A row of
clips, scenes or captions is scored on the test and the gate split, of which the mean is kept; settings are chosen by
`validation`. What a trial is called: task, loss, width or margin, rate, rows in a batch, and `twins` where they are in
a batch together. Sessions are drawn here as `rankops.datasets.clips` draws them.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch
from joblib import Parallel, delayed
from torch import Tensor, nn

from pipelines.reporting.studies import Row, machine, write
from rankops import lookup, losses, metrics
from rankops.io.checkpoints import build, load_model
from rankops.models._layers import ScoreHead
from rankops.models.heads.linear import pooled
from rankops.sorters import Laplace, Logistic
from rankops.tasks.retrieval import first_ranks
from rankops.vocabulary import Vocabulary

SPLITS = ("train", "val", "test", "gate")
SESSION, LIKENESS, SCALE, PIECE = 32, 0.9, 2.0, 512
EPOCHS = 15
MULTILABEL = partial(losses.multilabel_soft_margin)


class Trial(NamedTuple):
    task: str
    loss: str
    width: float
    rate: float
    batch: int
    twins: bool
    seed: int

    @property
    def name(self) -> str:
        parts = [self.task, self.loss, f"{self.width:g}", f"rate {self.rate:g}", f"batch {self.batch}"]
        return " ".join([*parts, *["twins"] * self.twins])


def trials() -> Iterator[Trial]:
    """Yield what is tried: a grid of three rates and three widths where a loss has one, then other batches."""
    widths: dict[str, dict[str, tuple[float, ...]]] = {
        "clips": {"mse": (0,), "mse standardized": (0,), "mse ranks": (0,), "mse centered": (0,), "ranknet": (0,),
                  "list_mle": (0,), "kendall": (0.2,), "spearman": (0.05, 0.1, 0.2, 0.4),
                  "spearman logistic": (0.1, 0.2)},
        "scenes": {"soft margin": (0,), "focal": (0.5, 1, 2), "asymmetric": (1, 2, 4),
                   "generalized cross-entropy": (0.1, 0.3, 0.7), "AP": (0.1, 0.2, 0.5), "AP + 5 soft margin": (0.2,),
                   "Eq. 7 + soft margin": (0.2,), "hinge_ap": (0,)},
        "captions": {"triplet": (0.1, 0.2, 0.4), "info_nce": (0.025, 0.05, 0.1), "log_rank": (0.1, 0.2, 0.4)},
    }  # fmt: skip
    rates = {"clips": (3e-3, 1e-2, 3e-2), "scenes": (3e-3, 1e-2, 3e-2), "captions": (1e-3, 3e-3, 1e-2)}
    batches = {"clips": (64, 256), "scenes": (64, 256, 1024), "captions": (256,)}
    for task, of_losses in widths.items():
        for (loss, some), rate, batch, seed in product(of_losses.items(), rates[task], batches[task], (1, 2, 3)):
            yield from (Trial(task, loss, width, rate, batch, False, seed) for width in some)
    best = {"triplet": 0.2, "info_nce": 0.1, "log_rank": 0.2}
    for batch, (loss, width), seed in product((32, 64, 128, 512, 1024), best.items(), (1, 2, 3)):
        for rate in (1e-3, 3e-3) if batch <= 128 else (3e-3, 6e-3):
            yield Trial("captions", loss, width, rate, batch, False, seed)
    yield from (Trial("captions", "triplet", 0.4, 1e-3, 32, False, seed) for seed in (1, 2, 3))
    yield from (Trial("captions", loss, width, 3e-3, 256, True, seed) for loss, width in best.items()
                for seed in (1, 2, 3))  # fmt: skip


def loss_of(name: str, width: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss of scores and truth by its name, with its width, margin or temperature."""
    soft = {"sorter": Laplace(softness=width)} if width else {}
    known: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "ranknet": losses.ranknet,
        "list_mle": losses.list_mle,
        "kendall": partial(losses.kendall, **soft),
        "spearman": partial(losses.spearman, **soft),
        "spearman logistic": partial(losses.spearman, sorter=Logistic(softness=width or 1.0)),
        "soft margin": MULTILABEL,
        "focal": partial(losses.focal, gamma=width),
        "asymmetric": partial(losses.asymmetric, gamma_absent=width),
        "generalized cross-entropy": partial(losses.generalized_cross_entropy, q=width),
        "AP": partial(losses.average_precision, dim=-2, **soft),
        "AP + 5 soft margin": lambda s, y: losses.average_precision(s, y, dim=-2, **soft) + 5 * MULTILABEL(s, y),
        "Eq. 7 + soft margin": lambda s, y: (
            losses.mean_average_precision(s, y, dim=-2, weight_by="positives", **soft) + MULTILABEL(s, y)
        ),
        "hinge_ap": partial(losses.hinge_ap, dim=-2),
        "triplet": partial(losses.hard_negative_triplet, margin=width),
        "info_nce": partial(losses.info_nce, temperature=width),
        "log_rank": partial(losses.log_rank, **soft),
    }
    kind, _, within = name.partition(" ")
    return partial(losses.mse, within=within or "nothing") if kind == "mse" else known[name]


@cache
def data(task: str) -> dict[str, Any]:
    """Return features and truth of each split, as the default run's ranker and task see them."""
    dataset, kind, grid, maximum = {
        "clips": ("clips", "score_ranking", 1, True),
        "scenes": ("long_tailed_mnist", "multilabel", 1, True),
        "captions": ("captions", "retrieval", 4, False),
    }[task]
    backbone, found = load_model("models/runs/label_ranking-rlsep/seed1").backbone.eval(), {}
    reader = lookup.find("tasks", kind)()
    for split in SPLITS:
        read = reader.load(Path("data") / dataset, split, threads=1)
        with torch.no_grad():
            parts = [pooled(backbone(part), grid=grid, maximum=maximum) for part in read.inputs.parts()]
        features = torch.cat(parts)
        found[split] = (features.view(len(read), -1, features.shape[1]) if task == "clips" else features, read.truth)
    if task == "clips":
        table = pq.read_table("data/clips/train.parquet", columns=["probability", "share"])
        chances, share = (torch.from_numpy(table[name].to_numpy().copy()) for name in ("probability", "share"))
        found["sessions"] = sessions(chances.logit(), share)
    return found


def sessions(logit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of each session (sessions, 32), and the standardized scores of all rows."""
    draws, scores, lists = torch.Generator().manual_seed(0), share.clone(), []
    for piece in torch.arange(len(logit)).split(PIECE):
        noise = torch.randn(len(piece), generator=draws)
        alike = LIKENESS * (logit[piece] - logit.mean()) / logit.std() + math.sqrt(1 - LIKENESS**2) * noise
        for rows in piece[alike.argsort()].split(SESSION):
            factor = SCALE ** (2 * torch.rand(1, generator=draws).item() - 1)
            scores[rows] = factor * (share[rows] - share[rows].mean())
            lists += [rows] if len(rows) == SESSION else []
    return torch.stack(lists), (scores - scores.mean()) / scores.std()


class Learner:
    """A head, how a batch of it is made, and how it is scored; one class for all tasks, told apart by `task`."""

    def __init__(self, trial: Trial):
        self.trial, self.task, self.data = trial, trial.task, data(trial.task)
        self.draws, self.loss = torch.Generator().manual_seed(trial.seed), loss_of(trial.loss, trial.width)
        torch.manual_seed(trial.seed)
        features = self.data["train"][0]
        self.module: Any
        if self.task == "captions":
            self.module = self._encoder()
        else:
            self.module = ScoreHead(
                features.shape[-1], 1 if self.task == "clips" else self.data["train"][1].labels.shape[1]
            )
        self.rows = len(self.data["sessions"][0]) if self.task == "clips" else len(features)
        self.size = max(1, trial.batch // SESSION) if self.task == "clips" else trial.batch

    def _encoder(self) -> nn.Module:
        texts = self.data["train"][1].texts
        words = Vocabulary.of(texts, least=1).words
        parts = {"backbone": {"name": "convnet", "args": {"channels": [32, 64, 96]}},
                 "head": {"name": "linear", "args": {"grid": 4}}, "text": {"name": "words", "args": {}},
                 "size": 128}  # fmt: skip
        network = build("models", "dual_encoder", parts, seed=self.trial.seed, colors=1, words=words)
        network.backbone.requires_grad_(False)
        self.tokens = {split: network.tokenize(self.data[split][1].texts) for split in SPLITS}
        return network

    def order(self) -> Tensor:
        if self.trial.twins:
            return torch.stack(
                [2 * (some := torch.randperm(self.rows // 2, generator=self.draws)), 2 * some + 1], 1
            ).flatten()
        return torch.randperm(self.rows, generator=self.draws)

    def loss_of(self, chosen: Tensor) -> Tensor:
        features, truth = self.data["train"]
        if self.task == "clips":
            lists, scores = self.data["sessions"]
            rows = lists[chosen]
            frames = torch.randint(features.shape[1], (rows.numel(),), generator=self.draws)
            return self.loss(self.module(features[rows.flatten(), frames]).view(rows.shape), scores[rows])
        if self.task == "scenes":
            return self.loss(self.module(features[chosen]), truth.labels[chosen])
        captions = 5 * chosen + torch.randint(5, (len(chosen),), generator=self.draws)
        words = self.tokens["train"][captions]
        texts = self.module.encode_text(words[:, : int((words != 0).sum(1).max())])
        return self.loss(self.module.head(features[chosen]) @ texts.T, torch.eye(len(chosen), dtype=torch.bool))

    @torch.no_grad()
    def score(self, split: str) -> list[float]:
        """Return the task's metrics: Spearman, mAP, or R@1 of captions and of images."""
        self.module.eval()
        features, truth = self.data[split]
        if self.task == "clips":
            return [metrics.spearman(self.module(features.flatten(0, 1)).view(len(features), -1).mean(1), truth).item()]
        if self.task == "scenes":
            return [metrics.average_precision(self.module(features), truth.labels, dim=-2).mean().item()]
        texts = torch.cat([self.module.encode_text(part) for part in self.tokens[split].split(1024)])
        ranks = first_ranks(self.module.head(features), texts, truth.counts)
        return [(one <= 1).double().mean().item() for one in ranks]


METRICS = {"clips": ("spearman",), "scenes": ("mean_average_precision",),
           "captions": ("image_to_text.recall_at_1", "text_to_image.recall_at_1")}  # fmt: skip


def tried(trial: Trial) -> list[Row]:
    """Train a trial, and return what its best epoch scores."""
    torch.set_num_threads(1)
    learner = Learner(trial)
    learned = [weights for weights in learner.module.parameters() if weights.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=trial.rate, weight_decay=1e-2)
    steps = math.ceil(learner.rows / learner.size) * EPOCHS
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    best, weights = -1.0, {}
    for _ in range(EPOCHS):
        learner.module.train()
        for chosen in learner.order().split(learner.size):
            optimizer.zero_grad()
            learner.loss_of(chosen).backward()
            optimizer.step()
            rates.step()
        if (value := fmean(learner.score("val"))) > best:
            best, weights = value, {name: one.clone() for name, one in learner.module.state_dict().items()}
    learner.module.load_state_dict(weights)
    both = zip(learner.score("test"), learner.score("gate"), strict=True)
    found = {"validation": best} | dict(zip(METRICS[trial.task], map(fmean, both), strict=True))
    return [Row(trial.name, metric, round(value, 5), seed=trial.seed) for metric, value in found.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True, help="of the code")
    parser.add_argument("--count", type=int, default=2, help="trials at once")
    asked = parser.parse_args()
    rows = Parallel(n_jobs=asked.count)(delayed(tried)(trial) for trial in trials())
    made_by = {"commit": asked.commit, "command": "python -m experiments.heads", "params": {"epochs": EPOCHS},
               "hashes": {}, "machine": machine()}  # fmt: skip
    write("heads", [row for some in rows for row in some], made_by)
