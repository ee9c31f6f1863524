"""Functions in place of sorters: tried once, and refused where they would train backwards."""

import pytest
import torch

from rankgrad import losses
from rankgrad.io.checkpoints import build
from rankgrad.sorters import Handcrafted, Laplace, Sorter


def sigmoids(scores: torch.Tensor) -> torch.Tensor:
    return 0.5 + torch.sigmoid(5 * (scores.unsqueeze(-2) - scores.unsqueeze(-1))).sum(-1)


SCORES = torch.tensor([[0.3, -0.2, 1.5, 0.9, -1.0]])
TARGET = torch.tensor([[3.0, 1.0, 5.0, 4.0, 2.0]])
THREE = SCORES.expand(3, -1), TARGET.expand(3, -1)


class Sigmoids(torch.nn.Module):
    def forward(self, scores):
        return sigmoids(scores)


class AscendingSorter(Sorter):
    def soft_ranks(self, scores, mask):
        return sigmoids(-scores)


class Holder:
    def __init__(self, sign):
        self.sign = sign

    def rank(self, scores):
        return sigmoids(self.sign * scores)


WRONG = {
    "ascending": (lambda scores: sigmoids(-scores), "largest rank"),
    "ascending sorter": (AscendingSorter(), "largest rank"),
    "ascending method": (Holder(-1).rank, "largest rank"),
    "scores": (lambda scores: 3 * scores, "largest rank"),
    "from 0": (lambda scores: sigmoids(scores) - 1, "begin at 0"),
    "divided by d": (lambda scores: sigmoids(scores) / scores.shape[-1], "divided by the length"),
    "right of eight alone": (lambda scores: sigmoids(scores) * 8 / scores.shape[-1], "ranks of 5 scores"),
    "ascending but of eight": (lambda scores: sigmoids(scores if scores.shape[-1] == 8 else -scores), "largest rank"),
    "one rank for all": (lambda scores: 0 * scores + (scores.shape[-1] + 1) / 2, "the same rank"),
    "mixed groups": (lambda scores: sigmoids(scores * scores.abs().amax()), "mixes groups"),
    "all groups at once": (lambda scores: sigmoids(scores.flatten()).view_as(scores), "ranks of 5 scores"),
}


@pytest.mark.parametrize(("sorter", "message"), WRONG.values(), ids=WRONG)
def test_what_ranks_otherwise_is_refused(sorter, message):
    for _ in range(2):  # what was refused is not taken the second time
        with pytest.raises(ValueError, match=message):
            losses.spearman(*THREE, sorter=sorter)
    with pytest.raises(ValueError, match=message):
        losses.ndcg(*THREE, sorter=sorter, check_finite=False)


def fixed(scores: torch.Tensor) -> torch.Tensor:
    assert scores.shape == SCORES.shape, "only that shape"
    return sigmoids(scores)


RIGHT = {
    "sigmoids": sigmoids,
    "module": torch.nn.Sequential(Handcrafted(steepness=5.0)),
    "method": Holder(1).rank,
    "of one shape": fixed,
    "soft": lambda scores: sigmoids(scores / 100),
    "in float64": lambda scores: sigmoids(scores.double()),
    "untrained, may learn it": build("sorters", "lstm", {"hidden": 4}, seed=0, length=5),
}


@pytest.mark.parametrize("sorter", RIGHT.values(), ids=RIGHT)
def test_what_ranks_as_expected_is_taken(sorter):
    scores = SCORES.clone().requires_grad_()
    losses.spearman(scores, TARGET, sorter=sorter).backward()
    assert scores.grad.isfinite().all()


def test_a_trial_changes_nothing_of_a_module():
    class Normalized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(1)

        def forward(self, scores):
            return sigmoids(self.norm(scores.reshape(-1, 1)).reshape(scores.shape))

    module, alone = Normalized(), Normalized()
    losses.spearman(SCORES, TARGET, sorter=module)
    alone(SCORES)
    assert module.training
    assert module.norm.training
    assert module.norm.num_batches_tracked == 1
    assert module.norm.running_mean.equal(alone.norm.running_mean)


LABELS = torch.tensor([[1, 0, 1, 0, 0]])
MATRIX = torch.linspace(-1, 1, 40).view(4, 10)
PAIRS = torch.eye(4, 10)


@pytest.mark.parametrize(
    ("loss", "truth", "options"),
    [
        ("average_precision", LABELS, {}),
        ("spearman", TARGET, {"mask": TARGET > 1}),
        *((name, PAIRS, {}) for name in ("mean_log_rank", "sodeep_recall", "hit_rate")),
    ],
)
def test_a_mask_needs_a_function_that_takes_one(loss, truth, options):
    scores = MATRIX if truth is PAIRS else SCORES
    for sorter in (sigmoids, Sigmoids(), Holder(1).rank):
        with pytest.raises(TypeError, match=r"takes no mask.*write f\(scores, mask=None\)"):
            getattr(losses, loss)(scores, truth, sorter=sorter, **options)
    value = getattr(losses, loss)(scores, truth, sorter=lambda scores, **any_: Laplace()(scores, **any_), **options)
    assert value.isfinite()
