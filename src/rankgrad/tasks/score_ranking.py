"""Score ranking: a number for each example, measured only by the order of the scores (SoDeep, Section 4.2.1)."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.checks import check_finite, check_scores
from rankgrad.datasets.files.splits import MEMORY, Split, padded, target_of
from rankgrad.evaluation import Statistic
from rankgrad.inputs import Inputs
from rankgrad.io.parquet import FOLD
from rankgrad.metrics.spearman import spearman
from rankgrad.ragged import pad_groups
from rankgrad.tasks._base import Examples, Lists, Metric, Reads, mean_over, network_of, weight_of
from rankgrad.tasks._own import judging, of_lists
from rankgrad.tasks._phases import GroupPhase, TwoPhases
from rankgrad.training.batches import in_groups
from rankgrad.training.objective import grouped
from rankgrad.training.options import Training, check_lists
from rankgrad.training.phase import Batch

__all__ = ["ScoreRanking"]

RESOLVED = 1e-9  # of the range of targets
UNLIKE = 0.1  # fraction of targets beyond those of training from which on they are on another scale
STEP = 5  # fewest validation rows of the first and of the last step of the curve of estimates


@dataclass(frozen=True, kw_only=True)
class ScoreTraining(Training):
    """The targets of losses, and the lists that they compare.

    `list_length`: batches have lists of this number of rows of one group (the column `group`), and a loss compares only
    the rows of a list; None to compare all rows of a batch.
    `log_plus`: losses learn the log of the target plus this number, for prices and counts; None for the target itself.
    """

    list_length: int | None = None
    log_plus: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lists("list_length", self.list_length, self.batch_size)


class ScorePhase(GroupPhase):
    """Compare scores with targets.

    If only rows of the same group are compared, a batch has whole groups one after another, cut where the batch ends,
    and the loss gets one list per group.

    Attributes:
        lists: the group number of each training row (n,) if losses get one list per group; else None.
    """

    monitor = "spearman"
    lists: Tensor | None = None

    def __init__(self, task: TwoPhases, name: str, module: Any, train: Split, *arguments: Any, **options: Any):
        super().__init__(task, name, module, train, *arguments, **options)
        if train.within and self.length is None:
            self.lists = _group_numbers(train)
            self.order = partial(in_groups, self.lists)

    def together(self, training: ScoreTraining) -> tuple[str, int, Tensor] | None:
        if (length := training.list_length or (self.length if self.train.within else None)) is None:
            return None
        if self.length not in (None, length):
            raise ValueError(f"list_length is {length}, expected {self.length}, the sorter's length")
        self.length, about = length, self.train.about
        if about is None or "group" not in about.column_names:
            raise ValueError(
                f"list_length is {length}, but the training table has no column group: add one, or set list_length to "
                "null"
            )
        if missing := about["group"].null_count:
            raise ValueError(
                f"list_length is {length}, but {missing} rows of the training table have no group, expected one in each"
            )
        return "list_length", length, _group_numbers(self.train)

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        batch = super().batch(rows, generator)
        return batch if self.lists is None else Batch(batch.inputs, (self.lists[rows], *batch.truth))

    def loss(self, outputs: tuple[Tensor, ...], truth: tuple[Any, ...], generator: torch.Generator) -> Tensor:
        if self.lists is None:
            return super().loss(outputs, truth, generator)
        lists, target, weight = truth
        sizes = lists.unique_consecutive(return_counts=True)[1]
        scores, learned = self.compare(*outputs, target, length=len(target))
        (scores, mask), (learned, _) = padded(scores.squeeze(0), sizes), padded(learned.squeeze(0), sizes)
        counts = {}
        if weight is not None:  # see `weigh`
            weights, _ = padded(weight, sizes)
            means = weights.sum(-1) / mask.sum(-1)
            counts = {"weights": weights / means.unsqueeze(-1), "of_groups": means}
        return self.objective(scores, learned, mask=mask, **counts, generator=generator)

    def compare(self, *values: Tensor, length: int) -> tuple[Tensor, Tensor]:
        outputs, truth = values
        scores, target = grouped(outputs.squeeze(1), length), grouped(truth, length)
        if (scale := self.module.recipe.get("target")) is not None:
            target = _standardized(target, **scale)  # float64, so that small differences remain
        return scores, target

    def measure(self, network: Any, outputs: Tensor) -> dict[str, float]:
        scores, target, weights = outputs.cpu().squeeze(1), self.val.truth, self.val.weight
        check_scores(scores)
        if self.val.within:
            return {"spearman": _within(scores, target, _group_numbers(self.val), weights).of_all().item()}
        # Equal scores have no order, so the correlation is 0.
        is_constant = bool((scores == scores[0]).all())
        return {"spearman": 0.0 if is_constant else _correlation(scores, target, weights).item()}


class ScoreRanking(TwoPhases):
    """Score examples. A clip is one random frame per epoch in training, and the mean of all frames in prediction.

    Losses get standardized targets if targets are not between 0 and 1, if float32 would make many of them equal, or if
    they are logs: outputs of a new network are near 0, and a loss on values would take long to reach prices of
    thousands. Their order stays. The mean and the deviation are those of the training split; if only rows of the same
    group are compared, the deviation is the one within groups.

    If a dataset has `within`, only rows of the same group are compared: a metric is the mean over groups, and intervals
    resample groups. A group with one row, or with equal targets, is not measured; the log reports their number.

    A truth is targets (n,), float32 or float64.
    """

    title = "Score ranking"
    metrics = (
        Metric("spearman", "Spearman", limits=(-1, 1), chance=0.0),
        Metric("estimate_r2", "R² of estimates", shown=False, limits=(-math.inf, 1)),
    )
    learns = ("target",)
    judged = "target"
    reads = Reads(("target",), target_of)
    Training = ScoreTraining
    phase = ScorePhase

    def load(self, folder: str | Path, split: str, *, threads: int, memory: float = MEMORY) -> Split:
        rows = super().load(folder, split, threads=threads, memory=memory)
        if rows.within:
            groups = _group_numbers(rows)
            has_order = _with_order(rows.truth, groups)  # of each group
            if not has_order.all():
                logging.warning(
                    "%s/%s.parquet: %d of %d groups have one row or equal targets and are not compared",
                    folder, split, len(has_order) - has_order.sum(), len(has_order),
                )  # fmt: skip
        return rows

    def build(self, model: dict[str, Any], split: Split, *, seed: int) -> Any:
        network = network_of("network", model, split, seed=seed, task=self.name, outputs=1)
        if split.about is not None and split.within:
            network.recipe["within"] = split.about["within"][0].as_py()
        target, scale = split.truth.double(), {}
        if (plus := self.training.log_plus) is not None:
            if (smallest := target.min().item()) + plus <= 0:
                raise ValueError(
                    f"training.log_plus is {plus:g}, but the smallest training target is {smallest:g}: expected more "
                    f"than {-smallest:g}, or null"
                )
            target, scale = (target + plus).log(), {"plus": plus}
        if bool((target == target[0]).all()):
            what = "training targets" if plus is None else f"logs of training targets plus {plus:g}"
            raise ValueError(
                f"all {len(split)} {what} are {target[0].item():g}, expected at least two different values"
            )
        measured = {"mean": target.mean().item(), "deviation": _deviation(target, split)}
        if scale or bool(((target < 0) | (target > 1)).any()) or _too_near(target, **measured):
            network.recipe["target"] = measured | scale
        network.recipe["extremes"] = [split.truth.min().item(), split.truth.max().item()]
        return network

    def splits_for(self, network: Any, train: Split, val: Split) -> tuple[Split, Split]:
        """Return both splits as they are; raise a ValueError if one has nothing to order."""
        is_constant = bool((val.truth == val.truth[0]).all())
        if is_constant:
            raise ValueError(
                f"all {len(val)} validation targets are {val.truth[0].item():g}, so Spearman is undefined: expected "
                "at least two different targets"
            )
        for name, split in (("training", train), ("validation", val)):
            if not split.within:
                continue
            has_order = _with_order(split.truth, _group_numbers(split))  # of each group
            if not has_order.any():
                raise ValueError(
                    f"no group of the {len(split)} {name} rows has two different targets, so there is nothing to "
                    "compare: expected such a group, or no `within`"
                )
        return train, val

    def scores(self, network: Any, inputs: Inputs) -> Tensor:
        """Return the score of each row, (n,) on the CPU."""
        return self.outputs(network, inputs).squeeze(1)

    def predict(self, network: Any, split: Split) -> pa.Table:
        """Return one row per example: `id`, `score` (meaningful only by its order) and `target`.

        The column `estimate` is there if the network has a curve, see `finish`.
        """
        scores = self.scores(network, split.inputs)
        table = self.table_of(split, scores)
        if (estimates := _estimates(network, scores)) is not None:
            table = table.append_column("estimate", pa.array(estimates))
        return table

    def table_of(self, split: Split, scores: Tensor) -> pa.Table:
        check_finite(scores, "score")
        return split.table({"score": pa.array(scores.numpy()), "target": pa.array(split.truth.cpu().numpy())})

    def of_slices(self, table: pa.Table) -> Callable[[np.ndarray], Statistic]:
        if "within" not in table.column_names:
            return super().of_slices(table)
        score, target = _scores_and_targets(table)
        weights, group = weight_of(table), np.asarray(table["group"].to_pylist())

        def of_slice(rows: np.ndarray) -> Statistic:
            numbers = torch.from_numpy(np.unique(group[rows], return_inverse=True)[1])
            weight = None if weights is None else torch.from_numpy(weights[rows])
            return _within(score[rows], target[rows], numbers, weight, own=list(judging(self.judged)))

        return of_slice

    def scored(self, table: pa.Table) -> Statistic:
        """Return Spearman's correlation, and R² of the column `estimate`, if there.

        Spearman's correlation is NaN if all scores or all targets are equal, and R² if all targets are.
        """
        score, target = _scores_and_targets(table)
        weight, names, estimate = weight_of(table), ["spearman"], None
        if "estimate" in table.column_names:
            names, estimate = [*names, "estimate_r2"], torch.tensor(table["estimate"].to_numpy())

        def of_rows(rows: np.ndarray) -> np.ndarray:
            resamples = rows.reshape(-1, rows.shape[-1])  # undefined resamples become NaN
            weights = None if weight is None else torch.from_numpy(weight[resamples])
            values = [spearman(score[resamples], target[resamples], weights=weights)]
            if estimate is not None:
                values.append(_r2(estimate[resamples], target[resamples], weights))
            return torch.stack(values).numpy().reshape(-1, *rows.shape[:-1])

        return Statistic(names, len(score), of_rows)

    def lists(self, table: pa.Table) -> Iterator[Lists]:
        """Yield one list, of all rows."""
        score, target = _scores_and_targets(table)
        yield Lists(score.unsqueeze(0), target.unsqueeze(0))

    def answers(self, network: Any, inputs: Inputs, sizes: Tensor) -> list[dict[str, Any]]:
        """Return the `score` of each row, and its `estimate` of the target, if scores compare across all rows."""
        scores = self.scores(network, inputs)
        if (estimates := _estimates(network, scores)) is None:
            return [{"score": score} for score in scores.tolist()]
        pairs = zip(scores.tolist(), estimates.tolist(), strict=True)
        return [{"score": score, "estimate": estimate} for score, estimate in pairs]

    @torch.no_grad()
    def finish(self, network: Any, val: Split) -> None:
        """Fit the curve that turns a score into an estimate of the target, on the validation split.

        The curve connects the means of the steps of an isotonic regression, so it never falls. The first and the last
        step have at least `STEP` rows: one extreme target would otherwise be the estimate of all scores beyond it.
        Beyond them, it goes on to the extreme targets of training with its slope there times its R² on validation, so
        that a weak model, whose steps are due to chance, says little more. Single targets of validation beyond these
        extremes, such as one with a lost decimal comma, count as the extremes; if there are many, the extremes are
        those of validation. Within groups, scores compare only rows of a group, and there is no curve.
        """
        if val.within:
            return
        from scipy.optimize import isotonic_regression  # takes a third of a second to import

        network.eval()
        scores, target = self.scores(network, val.inputs).double().numpy(), val.truth.double().cpu().numpy()
        weights = np.ones(len(val)) if val.weight is None else val.weight.double().cpu().numpy()
        scores, target, weights = (values[weights > 0] for values in (scores, target, weights))
        lowest, highest = network.recipe.get("extremes", (target.min(), target.max()))
        if ((target < lowest) | (target > highest)).mean() > UNLIKE:  # those of training are on another scale
            lowest, highest = target.min(), target.max()
        target = target.clip(lowest, highest)
        levels, level_of_row = np.unique(scores, return_inverse=True)
        weight_of_level = np.bincount(level_of_row, weights)
        mean_of_level = np.bincount(level_of_row, weights * target) / weight_of_level
        fitted = isotonic_regression(mean_of_level, weights=weight_of_level)
        firsts = _with_ends(fitted.blocks[:-1], np.bincount(level_of_row))
        means = np.add.reduceat(weight_of_level * levels, firsts) / np.add.reduceat(weight_of_level, firsts)
        targets = np.add.reduceat(weight_of_level * mean_of_level, firsts) / np.add.reduceat(weight_of_level, firsts)
        error, spread = (target - np.interp(scores, means, targets)), target - np.average(target, weights=weights)
        explained = 1 - (weights * error**2).sum() / max((weights * spread**2).sum(), np.finfo(float).tiny)
        means, targets = _continued(means, targets, explained, lowest, highest)
        network.recipe["estimate"] = {"scores": means.tolist(), "targets": targets.tolist()}

    @torch.no_grad()
    def carry_over(self, network: Any, chosen: Any, train: Split) -> None:
        if (curve := chosen.recipe.get("estimate")) is None:
            return
        (mean, spread), (mean_before, spread_before) = (
            (scores.mean().item(), scores.std(correction=0).item())
            for scores in (self.scores(model.eval(), train.inputs).double() for model in (network, chosen))
        )
        factor = spread / spread_before if min(spread, spread_before) > 0 else 1.0
        scores = [mean + factor * (score - mean_before) for score in curve["scores"]]
        network.recipe["estimate"] = {"scores": scores, "targets": curve["targets"]}

    def draw(self, plots: Any, path: Path, examples: Examples) -> bool:
        # Scores compare only within a group, if the data say so, and never between the networks of two folds.
        unit = "group" if examples.has("within") else FOLD if examples.has(FOLD) else None
        if unit is None:
            table, within = examples.predicted("score", "target"), {}
        else:
            table = examples.predicted("score", "target", unit)
            within = {"within": table[unit].to_pylist(), "unit": unit}
        plots.predicted(path, table["score"].to_numpy(), table["target"].to_numpy(), **within)
        return True


def _with_ends(firsts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the first level of each step; steps join the first and the last one until these have `STEP` rows.

    Args:
        firsts: the first level of each step.
        rows: the number of rows of each level.

    >>> _with_ends(np.array([0, 1, 3, 7]), np.ones(8, int))
    array([0])
    >>> _with_ends(np.array([0, 1, 6, 9]), np.ones(12, int))
    array([0, 6])
    """
    before, total = np.cumsum(rows)[firsts] - rows[firsts], rows.sum()
    is_kept = (before >= STEP) & (total - before >= STEP)
    is_kept[0] = True
    return firsts[is_kept]


def _continued(
    scores: np.ndarray, targets: np.ndarray, share: float, lowest: float, highest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a rising curve, continued at both ends with a share of the slope to the extreme targets.

    >>> _continued(np.array([0.0, 1.0]), np.array([2.0, 4.0]), 0.5, 2.0, 7.0)
    (array([0., 1., 4.]), array([2., 4., 7.]))
    """
    least = RESOLVED * (highest - lowest)  # a smaller difference may be rounding
    if len(scores) == 1 or share <= 0:
        return scores, targets
    below, above = targets[0] - lowest, highest - targets[-1]
    first, last = targets[1] - targets[0], targets[-1] - targets[-2]
    if above > least and last > least:
        score = scores[-1] + above * (scores[-1] - scores[-2]) / (share * last)
        scores, targets = np.append(scores, score), np.append(targets, highest)
    if below > least and first > least:
        score = scores[0] - below * (scores[1] - scores[0]) / (share * first)
        scores, targets = np.insert(scores, 0, score), np.insert(targets, 0, lowest)
    return scores, targets


def _estimates(network: Any, scores: Tensor) -> np.ndarray | None:
    """Return the targets (n,) that a network's curve gives for scores (n,), or None if it has no curve."""
    curve = network.recipe.get("estimate")
    return None if curve is None else np.interp(scores.double().numpy(), curve["scores"], curve["targets"])


def _r2(estimate: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    """Return the fraction of the targets' variance that estimates explain (resamples,), from (resamples, n).

    It is NaN where all targets are equal; the rounding of their mean would give them a tiny variance.

    >>> _r2(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 2.0, 6.0]]), None)
    tensor([0.3571])
    """
    weights = torch.ones_like(target) if weights is None else weights
    mean = (weights * target).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    error, spread = (weights * (target - value).square() for value in (estimate, mean))
    differ = (target != target[..., :1]).any(-1)
    return (1 - error.sum(-1) / spread.sum(-1)).where(differ, torch.nan)


def _scores_and_targets(table: pa.Table) -> tuple[Tensor, Tensor]:
    """Return both columns of predictions (n,), float64."""
    score, target = (torch.from_numpy(table[name].to_numpy().astype(np.float64)) for name in ("score", "target"))
    return score, target


def _deviation(target: Tensor, split: Split) -> float:
    """Return the standard deviation of targets (n,), from the mean of their group if only these are compared.

    Offsets of groups may be many times larger than the differences to learn within them.
    """
    if split.within:
        groups = _group_numbers(split)
        apart = target - (torch.bincount(groups, target) / torch.bincount(groups))[groups]
        if bool((apart != 0).any()):  # else nothing can be compared, see `splits_for`
            return apart.std(correction=0).item()
    return target.std(correction=0).item()


def _group_numbers(split: Split) -> Tensor:
    """Return the number of the group of each row (n,)."""
    assert split.about is not None
    return torch.tensor(split.about["group"].combine_chunks().dictionary_encode().indices.to_numpy())


def _with_order(target: Tensor, groups: Tensor) -> Tensor:
    """Return whether each group has two different targets (groups,), from the group number of each row (n,)."""
    empty = target.new_zeros(int(groups.max()) + 1)
    largest = empty.scatter_reduce(0, groups, target, "amax", include_self=False)
    return largest != empty.scatter_reduce(0, groups, target, "amin", include_self=False)


def _within(
    scores: Tensor, target: Tensor, groups: Tensor, weights: Tensor | None, *, own: Sequence[str] = ()
) -> Statistic:
    """Return the mean of Spearman's correlation over the groups that have two different targets.

    The correlation of equal scores is 0. The weight of a group is the mean weight of its rows.

    Args:
        scores, target, weights: one value per row (n,).
        groups: the group number of each row (n,), from 0; each group has a row.
        own: names of metrics of `own/metrics`; return their means too.
    """
    names, sizes, is_weighted = ["spearman", *own], groups.bincount(), weights is not None
    weights = torch.ones(len(target), dtype=torch.float64) if weights is None else weights.double()
    values = torch.empty(len(names), len(sizes), dtype=torch.float64)
    counts = torch.empty(len(sizes), dtype=torch.float64)
    # Pad groups of similar sizes together: the largest may be much larger than the others.
    for chunk in sizes.argsort().split(1024):
        is_in_chunk = torch.isin(groups, chunk)
        query, chunk = groups[is_in_chunk], chunk.sort().values
        padded_scores, mask = pad_groups(scores[is_in_chunk], query=query)
        padded_target, _ = pad_groups(target[is_in_chunk], query=query)
        padded_weights, _ = pad_groups(weights[is_in_chunk], query=query)
        correlations = spearman(padded_scores, padded_target, mask=mask, weights=padded_weights)
        values[0, chunk] = correlations.nan_to_num(0.0)
        lists = Lists(padded_scores, padded_target, mask)
        for number, name in enumerate(own, 1):
            values[number, chunk] = of_lists(name, lists, padded_weights if is_weighted else None)
        counts[chunk] = padded_weights.sum(-1) / sizes[chunk]
    values = values.where(_with_order(target, groups), torch.nan)
    return Statistic(names, len(sizes), partial(mean_over, values.numpy(), weight=counts.numpy()))


def _too_near(target: Tensor, **measured: float) -> bool:
    """Return whether float32 merges more than 1 % of the targets that remain different after standardizing."""
    standardized = _standardized(target, **measured)
    return len(target.float().unique()) < 0.99 * len(standardized.float().unique())


def _standardized(target: Tensor, *, mean: float, deviation: float, plus: float | None = None) -> Tensor:
    value = target.double()
    return ((value if plus is None else (value + plus).log()) - mean) / deviation


def _correlation(scores: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    """Return Spearman's correlation; raise a ValueError if all scores or all targets are equal."""
    value = spearman(scores, target, weights=weights)
    if bool(value.isnan()):
        equal = "scores" if bool((scores == scores[0]).all()) else "targets that count"
        raise ValueError(f"Spearman is undefined: all {len(scores)} {equal} are equal, expected different ones")
    return value
