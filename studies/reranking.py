"""Rerank lists of documents by their features: networks and boosted trees whose settings are chosen in the same way.

Lists are divided into folds. For each fold, the next one chooses the learning rate and the number of steps or trees,
with one model trained on the others. Then several models are trained on all but the test fold. Features are
standardized over all training documents, and again within each list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies.vectorized import Fold, Loss, Search, of_every_fold, settings_by_fold

FOLDS = 5
HIDDEN = 32
BATCH = 8  # lists per step
TREE_RATES = (0.0125, 0.025, 0.05, 0.1, 0.2)
TREES = (25, 50, 100, 200, 400)
NO_DOCUMENT = -1.0  # the relevance where a list has no document

# From lists to train on, other lists, a rate and a seed to the other lists' scores after each number of steps.
Train = Callable[[Tensor, Tensor, float, int], list[Tensor]]


def params_of(rates: Sequence[float], steps: Sequence[int], seeds: int) -> dict[str, Any]:
    """Return the settings of a study, to keep with its results."""
    return {
        "rate": rates, "steps": steps, "tree_rate": TREE_RATES, "trees": TREES, "folds": FOLDS, "seeds": seeds,
        "hidden": HIDDEN, "batch": BATCH,
    }  # fmt: skip


def drawn_parts(study: str, count: int) -> list[Fold]:
    """Divide a number of lists into folds at random; see `Reranking.parts`."""
    order = torch.randperm(count, generator=generator(1, study, "folds"))
    folds = [*order.tensor_split(FOLDS)]
    result = []
    for test in range(FOLDS):
        choose = (test + 1) % FOLDS
        learn = [folds[fold] for fold in range(FOLDS) if fold not in (test, choose)]
        result.append((torch.cat(learn), folds[choose], folds[test]))
    return result


@dataclass(frozen=True)
class Reranking:
    """Lists of documents, and the settings to choose from.

    Attributes:
        study: its name, from which folds, first weights, and batches are drawn.
        features: features (q, d, f), float64.
        relevance: relevance (q, d); `NO_DOCUMENT` where a list has no document.
        metric: by which settings are chosen, see `Loss`.
        methods: the losses of networks, by run.
        rates, steps: the settings of networks.
        seeds: the number of models of each fold that are tested.
        tree_options: options of LightGBM besides its settings.
    """

    study: str
    features: Tensor
    relevance: Tensor
    metric: Loss
    methods: Mapping[str, Loss]
    rates: Sequence[float]
    steps: Sequence[int]
    seeds: int
    tree_options: dict[str, Any]

    @property
    def is_there(self) -> Tensor:
        return self.relevance != NO_DOCUMENT

    def parts(self) -> list[Fold]:
        """Return for each fold the lists to train on while choosing settings, to choose by, and to test on."""
        return drawn_parts(self.study, len(self.features))

    def inputs(self, learn: Tensor) -> Tensor:
        """Return features (q, d, 2 f) standardized over the training lists' documents, and within lists."""
        is_there = self.is_there.unsqueeze(-1)
        values = []
        for rows, dims in ((learn, (0, 1)), (slice(None), (1,))):
            known, here = self.features[rows], is_there[rows]
            count = here.sum(dims, keepdim=True)
            mean = known.where(here, 0.0).sum(dims, keepdim=True) / count
            squares = (known - mean).where(here, 0.0).square().sum(dims, keepdim=True)
            spread = (squares / (count - 1).clamp(min=1)).sqrt()
            values.append((self.features - mean) / spread.where(spread > 1e-9, 1.0))
        return torch.cat(values, -1).where(is_there, 0.0).float()

    def scores(self, run: str) -> tuple[Tensor, list[Row]]:
        """Choose a setting for each fold, and return scores (seeds, q, d) of test lists and the settings.

        A run without a loss is LightGBM's LambdaRank.
        """
        if run not in self.methods:
            return self.chosen_scores(run, self._tree_scores, TREE_RATES, TREES)
        folds = self.parts()
        search = Search(self.study, self.rates, self.steps, HIDDEN, BATCH, 1, self.seeds)
        scores, settings = search.scores(
            run,
            self.methods[run],
            self.metric,
            lambda learned: torch.stack([self.inputs(lists) for lists in learned]),
            self.relevance,
            folds,
            outputs=1,
        )
        return of_every_fold(scores, folds), settings

    def chosen_scores(
        self, run: str, train: Train, rates: Sequence[float], steps: Sequence[int]
    ) -> tuple[Tensor, list[Row]]:
        """Choose a setting for each fold with one model, and return scores (seeds, q, d) of test lists, and settings.

        Args:
            run: the name in the rows.
            train: trains a model, see `Train`.
            rates, steps: the settings.
        """
        result = torch.zeros(self.seeds, *self.relevance.shape)
        best_rates, best_steps = [], []
        for learn, choose, test in self.parts():
            tried = []
            for rate in rates:
                for scores in train(learn, choose, rate, 1):
                    tried.append(self.metric(scores, self.relevance[choose]).nanmean().item())
            rate, step = divmod(int(torch.tensor(tried).argmax()), len(steps))
            best_rates.append(rates[rate])
            best_steps.append(steps[step])
            both = torch.cat([learn, choose])
            for seed in range(self.seeds):
                result[seed, test] = train(both, test, rates[rate], seed + 1)[step]
        return result, settings_by_fold(run, best_rates, best_steps)

    def _tree_scores(self, learn: Tensor, tested: Tensor, rate: float, seed: int) -> list[Tensor]:
        """Train LightGBM's LambdaRank, and return its scores for other lists with each number of trees."""
        lightgbm: Any = import_module("lightgbm")
        values, is_there = self.inputs(learn), self.is_there[learn]
        data = lightgbm.Dataset(
            values[learn][is_there].numpy(), self.relevance[learn][is_there].numpy(), group=is_there.sum(1).numpy()
        )
        booster = lightgbm.train(self.tree_options | {"learning_rate": rate, "seed": seed}, data, TREES[-1])
        is_there = self.is_there[tested]
        documents, result = values[tested][is_there].numpy(), []
        for trees in TREES:
            scores = torch.zeros(is_there.shape)
            scores[is_there] = torch.tensor(booster.predict(documents, num_iteration=trees)).float()
            result.append(scores)
        return result
