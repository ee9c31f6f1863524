"""Rerank lists of documents by their features: networks and boosted trees whose settings are chosen in the same way.

Lists are divided into folds. For each fold, the next one chooses the learning rate and the number of steps or trees,
with one model trained on the others. Then several models are trained on all but the test fold. Features are
standardized over all training documents, and again within each list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from rankgrad.io.results import Row
from rankgrad.seeding import generator
from studies.vectorized import Fold, Loss, Search, best_settings, settings_by_fold

__all__ = ["NO_DOCUMENT", "Reranking"]

NO_DOCUMENT = -1.0  # the relevance where a list has no document


@dataclass(frozen=True)
class Reranking:
    """Lists of documents, and the settings to choose from.

    Attributes:
        study: its name, from which folds, first weights, and batches are drawn.
        features: features (q, d, f), float64.
        relevance: relevance (q, d); `NO_DOCUMENT` where a list has no document.
        metric: by which settings are chosen, see `Loss`.
        search: the search of networks.
        tree_rates, trees: the settings of LightGBM.
        tree_options: its other options.
        folds: the number of folds.
    """

    study: str
    features: Tensor
    relevance: Tensor
    metric: Loss
    search: Search
    tree_rates: Sequence[float]
    trees: Sequence[int]
    tree_options: dict[str, Any]
    folds: int

    @property
    def is_there(self) -> Tensor:
        return self.relevance != NO_DOCUMENT

    def parts(self) -> list[Fold]:
        """Return for each fold the lists to train on while choosing settings, to choose by, and to test on."""
        order = torch.randperm(len(self.features), generator=generator(1, self.study, "folds"))
        folds = [*order.tensor_split(self.folds)]
        result = []
        for test in range(self.folds):
            choose = (test + 1) % self.folds
            learn = [folds[fold] for fold in range(self.folds) if fold not in (test, choose)]
            result.append((torch.cat(learn), folds[choose], folds[test]))
        return result

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

    def network_scores(self, run: str, loss: Loss) -> tuple[Tensor, list[Row]]:
        """Choose a setting for each fold, and return scores (seeds, q, d) of test lists and the settings."""
        folds = self.parts()
        of_folds, rates, steps = self.search.scores(
            loss,
            self.metric,
            lambda learned: torch.stack([self.inputs(lists) for lists in learned]),
            self.relevance,
            folds,
            outputs=1,
        )
        result = torch.empty(self.search.seeds, *self.relevance.shape)
        for (_, _, lists), scores in zip(folds, of_folds, strict=True):
            result[:, lists] = scores
        return result, settings_by_fold(run, rates, steps)

    def tree_scores(self, run: str) -> tuple[Tensor, list[Row]]:
        """Return scores (seeds, q, d) from LightGBM's LambdaRank, with settings chosen in the same way."""
        seeds = self.search.seeds
        result, tried = torch.zeros(seeds, *self.relevance.shape), torch.empty(
            len(self.tree_rates), self.folds, len(self.trees)
        )  # fmt: skip
        for fold, (learn, choose, _) in enumerate(self.parts()):
            values = self.inputs(learn)
            for row, rate in enumerate(self.tree_rates):
                booster = self._boosted(values, learn, rate, seed=1)
                for column, trees in enumerate(self.trees):
                    scores = self._predicted(booster, values, choose, trees)
                    tried[row, fold, column] = self.metric(scores, self.relevance[choose]).nanmean()
        rate, step = best_settings(tried)
        for fold, (learn, choose, test) in enumerate(self.parts()):
            both = torch.cat([learn, choose])
            values = self.inputs(both)
            for seed in range(seeds):
                booster = self._boosted(values, both, self.tree_rates[rate[fold]], seed=seed + 1)
                result[seed, test] = self._predicted(booster, values, test, self.trees[step[fold]])
        rates, steps = [self.tree_rates[index] for index in rate], [self.trees[index] for index in step]
        return result, settings_by_fold(run, rates, steps)

    def _boosted(self, values: Tensor, learn: Tensor, rate: float, seed: int) -> Any:
        lightgbm: Any = import_module("lightgbm")
        is_there = self.is_there[learn]
        data = lightgbm.Dataset(
            values[learn][is_there].numpy(), self.relevance[learn][is_there].numpy(), group=is_there.sum(1).numpy()
        )
        return lightgbm.train(self.tree_options | {"learning_rate": rate, "seed": seed}, data, self.trees[-1])

    def _predicted(self, booster: Any, values: Tensor, lists: Tensor, trees: int) -> Tensor:
        is_there = self.is_there[lists]
        scores = torch.zeros(is_there.shape)
        scores[is_there] = torch.tensor(booster.predict(values[lists][is_there].numpy(), num_iteration=trees)).float()
        return scores
