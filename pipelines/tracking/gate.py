"""The gate: decide on the gate split whether a challenger becomes champion, and record the decision in the registry."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from types import MappingProxyType
from typing import Any, NamedTuple

import mlflow
import numpy as np
import torch
from torch import nn

from pipelines.config import JUDGED, Settings, prefixed
from pipelines.config.rules import SORTER_METRICS, judged_tasks
from pipelines.config.schema import Judged
from pipelines.ops.messages import as_markdown, one_line
from pipelines.reporting.results import UNDEFINED, cell, markdown
from pipelines.tracking import registry, slices
from pipelines.tracking.known_rows import Digests, learned, read_known
from pipelines.tracking.store import CredentialsRefused, ServerUnreachable, answering, connect
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import Statistic, differences
from rankgrad.feature_names import empty_name, fills_of, title_of
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import FOLD, columns_of
from rankgrad.io.results import Row
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import derived_seed, generator

__all__ = ["Decision", "choose", "decide_all", "gain_of", "models_of"]

SORTER_LENGTH = 32  # length of vectors for sorters that the params do not benchmark
SORTER_VECTORS = 5000  # new vectors: no sorter was trained, selected, or reported on them
KNOWN_SHARE = 0.5  # a version knows a row if it knows at least this fraction of the row's contents
ON_VALIDATION = ": judged on validation, on which epochs, seeds and settings were chosen, for there is no gate split"
LONGEST_REASON = 1000  # most characters of the reason about slices
LONGEST_STANDING = 300  # most characters of the gate's decision in the first line of a description
BEST = "gate.best."  # tag of a champion: the version with the best value of a guarded metric so far
CARD = "\n\n<!-- card -->\n\n"  # in a version's description, everything above except the first line is rewritten


@dataclass(frozen=True)
class SlicePair:
    """The main metric of both versions on one slice."""

    name: str
    rows: int
    challenger: Statistic
    champion: Statistic


@dataclass(frozen=True)
class Evidence:
    """The metrics of a challenger and its champion on the same examples."""

    challenger: Statistic
    champion: Statistic
    lower_is_better: dict[str, bool]  # for each metric
    examples: str  # the name of the examples
    slices: list[SlicePair] = field(default_factory=list)  # if the task guards slices
    unit: str = "rows"  # the unit that the bootstrap draws
    judging: int = 0  # number of these that say which version is better


class Bar(NamedTuple):
    """The earlier champion with the best value of a guarded metric, and the challenger minus that version."""

    version: str
    gap: Row


@dataclass(frozen=True)
class Decision:
    """A decision of the gate."""

    model: str  # the registered name
    challenger: str | None  # the challenger's version; None if there is none
    champion: str | None  # the champion's version before the decision
    promoted: bool  # whether the challenger is champion now
    reason: str  # one sentence
    differences: dict[str, Row] = field(default_factory=dict)  # challenger minus champion, for each metric
    failed: bool = False  # whether the versions could not be judged
    runs: Mapping[str, str] = field(default_factory=dict)  # the run that made each version, if its tags have one

    @property
    def state(self) -> str:
        return "error" if self.failed else "promoted" if self.promoted else "stays"


class Compared(NamedTuple):
    """The comparison of a version with the champion."""

    decision: Decision
    where: str  # the examples, in words
    evidence: Evidence
    gain: float  # in the gate's metric; negative infinity if too few examples or no values tell
    best: Mapping[str, str]  # the version with the best value of each guarded metric, once this one is champion

    def rejected(self, why: str) -> "Compared":
        """Return the comparison of a version that is better, but not promoted."""
        reason = f"{self.decision.reason}; but {why}"
        return self._replace(decision=replace(self.decision, promoted=False, reason=reason))


def models_of(params: Settings) -> list[str]:
    """Return the names of the models that the params train; a team's store may have others, too."""
    sorters = [
        prefixed(f"sorter-{name}") for name in params.benchmark_sorters if params.sorters[name].training is not None
    ]
    return sorters + sorted({params.model_of(run) for run in params.runs.values()})


def decide_all(
    models: list[str] | None, params: Settings, *, folder: Path = Path("."), over_person: bool = False
) -> list[Decision]:
    """Decide for each model which version becomes champion; continue if a model cannot be judged.

    The challenger and the newest versions of the other runs are each compared with the champion on the same examples.
    A version is better if the main metric improves by at least `minimum_gain`, the paired bootstrap interval of the
    difference, corrected for the number of versions, excludes 0, and no guarded metric is worse by more than
    `tolerance` than that of the best champion so far. If slices are guarded, none may be significantly worse by more
    than `slice_tolerance`. The best of those that are better becomes champion and challenger. Of the first versions,
    none of which is in use yet, it is the best, even if it is not significantly better. Each decision and its evidence
    are written to the version's tags and description. A champion that a person chose stays unless `over_person` is
    set. Running the gate again gives the same decision and changes nothing.

    Args:
        models: registered names; None for all that the params train.
        params: the project's params, with the block `gate`.
        folder: the checkout whose data is used.
        over_person: replace champions that a person chose.
    """
    client, decisions = connect(), []
    for name in models_of(params) if models is None else models:
        try:
            with answering():
                decisions.append(_decide(client, name, params, folder, over_person))
        except ServerUnreachable:
            raise
        except ValueError as error:
            decisions.append(Decision(name, None, None, False, str(error), failed=True))
    return decisions


def _decide(client: mlflow.MlflowClient, name: str, params: Settings, folder: Path, over_person: bool) -> Decision:
    # Find the champion and the versions to compare with it.
    model, task = registry.model_of(client, name), _task_of(name, params)
    champion, challenger = registry.holder(model, "champion"), registry.holder(model, "challenger")
    tags = registry.versions(client, name)
    if champion not in tags:
        raise ValueError(
            f"{name} has no champion: it was deleted. Choose one: {_by_hand(name)} (versions: "
            f"{', '.join(tags) or 'none'})"
        )
    stays = Decision(name, challenger, champion, False, "there is no challenger", runs=_runs_of(tags))
    if challenger is None:
        return stays
    candidates, is_same = _candidates(tags, champion, challenger, params), challenger == champion
    if is_same and all(registry.DECISION in tags[number] for number in candidates):
        return replace(stays, reason="the challenger is the champion already")
    dataset = "" if task == "sorter" else _dataset(name, tags, challenger, champion)
    refitted = [number for number in (champion, *candidates) if "refit" in tags[number]]
    if reason := _cannot_judge(name, folder / "data" / dataset, refitted, is_same=is_same):
        return replace(stays, reason=reason)

    # Compare them, and promote the best of those that are better.
    judged, compared, failed = params.judged_of(task, dataset), list[Compared](), list[str]()
    best = _best_champions(tags, champion, judged)
    for number in candidates:
        pair = replace(stays, challenger=number)
        try:
            compared.append(_compare(pair, task, folder / "data" / dataset, judged, params, best, len(candidates)))
        except ServerUnreachable:
            raise
        except ValueError as error:
            failed.append(str(error))
    if not compared:
        raise ValueError("; ".join(failed))
    # Until the first versions were compared, none is in use.
    was_compared = any(registry.DECISION in of_version for of_version in tags.values())
    is_first = is_same and tags[champion].get(registry.MADE_BY) == "first" and not was_compared
    compared = _with_one_promoted(compared, judged, task, first=1 + len(candidates) if is_first else None)
    if registry.chosen_by_person(client, model) and not over_person:
        objection = f"version {champion} was made champion by a person: `rankgrad promote {name} --over-person`"
        compared = [pair.rejected(objection) if pair.decision.promoted else pair for pair in compared]
    _carry_out(client, compared, judged)
    decision = _decision_on_all(compared, failed, challenger)
    if is_first and not decision.promoted:
        beside_chance = _beside_chance(compared[0].evidence.champion, task, judged.metric)
        reason = f"the best on validation of {1 + len(candidates)} first versions{beside_chance}; {decision.reason}"
        decision = replace(decision, reason=reason)
    return decision


def _best_champions(tags: Mapping[str, Mapping[str, str]], champion: str, judged: Judged) -> dict[str, str]:
    """Return the champion with the best value of each guarded metric so far; the present one if a person chose it."""
    about = tags[champion] if tags[champion].get(registry.MADE_BY) == "gate" else {}
    best = {metric: about.get(f"{BEST}{metric}", champion) for metric in judged.guarded}
    return {metric: version if version in tags else champion for metric, version in best.items()}  # it may be deleted


def _runs_of(tags: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the run that made each version, by number, from the tags of versions."""
    return {number: of_version["run"] for number, of_version in tags.items() if "run" in of_version}


def _candidates(tags: Mapping[str, Mapping[str, str]], champion: str, challenger: str, params: Settings) -> list[str]:
    """Return the versions to compare with the champion: the challenger, and the newest of each run on its dataset.

    Validation, which chose the challenger, also chose epochs, so it favors networks over models fitted in one step.
    Earlier champions were compared already.
    """
    dataset, newest = tags[champion].get("dataset"), dict[str, str]()
    for number, of_version in tags.items():
        run = of_version.get("run", "")
        if run in params.runs and of_version.get("dataset") == dataset:
            newest[run] = number
    others = [number for number in newest.values() if registry.MADE_BY not in tags[number]]
    return [number for number in dict.fromkeys([challenger, *others]) if number != champion]


def _cannot_judge(name: str, data: Path, refitted: Sequence[str], *, is_same: bool) -> str:
    """Return why a dataset's splits cannot judge versions, some of which are refitted; empty if they can."""
    val = data / "val.parquet"
    if (data / "gate.parquet").is_file() or not val.is_file():
        return ""
    by_hand = f"choose by hand: {_by_hand(name)}"
    if FOLD in columns_of(val):
        return f"no rows judge: {data.name} has folds, which train on all rows, but no gate split; {by_hand}"
    if refitted:
        versions = f"version{'s' if len(refitted) > 1 else ''} {', '.join(refitted)}"
        return f"no rows judge: {data.name} has no gate split, and {versions} learned validation rows, too; {by_hand}"
    if is_same:
        return f"the challenger is the champion already; {data.name} has no gate split that compares it with others"
    return ""


def _with_one_promoted(compared: Sequence[Compared], judged: Judged, task: str, *, first: int | None) -> list[Compared]:
    """Return the comparisons, of which only the best is promoted, if any is better than the champion.

    Args:
        compared: each version's comparison with the champion.
        judged: the gate's metric.
        task: the task of all versions.
        first: the number of versions, if none of them is in use yet: the best then need not be significantly better,
            whatever is guarded. None if the champion is in use.
    """
    is_better = [pair.decision.promoted or (first is not None and pair.gain > 0) for pair in compared]
    best = max(range(len(compared)), key=lambda number: (is_better[number], compared[number].gain))
    result = []
    for number, pair in enumerate(compared):
        if number == best and is_better[best]:
            reason = pair.decision.reason
            if first:
                beside_chance = _beside_chance(pair.evidence.challenger, task, judged.metric)
                reason = f"the best on the gate split of {first} first versions{beside_chance}; {reason}"
            pair = pair._replace(decision=replace(pair.decision, promoted=True, reason=reason))
        elif pair.decision.promoted:
            pair = pair.rejected(f"version {compared[best].decision.challenger} gains more")
        result.append(pair)
    return result


def _decision_on_all(compared: Sequence[Compared], failed: Sequence[str], challenger: str) -> Decision:
    """Return the decision on the promoted version or, if there is none, on the challenger, with all reasons."""
    decision, reasons = replace(compared[0].decision, challenger=challenger), list[str]()
    for pair in compared:
        version = str(pair.decision.challenger)
        reasons.append(f"version {version} ({pair.decision.runs.get(version, '')}): {pair.decision.reason}")
    if promoted := [pair.decision for pair in compared if pair.decision.promoted]:
        [decision] = promoted
    if promoted or len(compared) + len(failed) == 1:
        reasons = [decision.reason]
    return replace(decision, reason="; ".join([*reasons, compared[0].where, *failed]))


def _beside_chance(statistic: Statistic, task: str, metric: str) -> str:
    """Return a warning if a metric is no better than that of a model that knows nothing."""
    about = lookup.find("tasks", task).metric_named(metric)
    value = _value(statistic, metric)
    if about.chance is None or (value < about.chance if about.lower_is_better else value > about.chance):
        return ""
    return f", but no better than chance ({metric} {cell(value)}; of a model that knows nothing {about.chance:.3f})"


def _value(statistic: Statistic, metric: str) -> float:
    return float(statistic.of_all()[statistic.names.index(metric)])


def _compare(
    pair: Decision, task: str, data: Path, judged: Judged, params: Settings, best: Mapping[str, str], tests: int
) -> Compared:
    """Compare a version with the champion. Nothing is written.

    Args:
        pair: the decision without a comparison, with both versions.
        task: the task of both, or `sorter`.
        data: the folder of the dataset on which both were trained; not used for sorters.
        judged: the gate's metric for the model, and what it guards.
        params: see `decide_all`.
        best: the version with the best value of each guarded metric so far.
        tests: the number of versions that are compared with the champion, for Bonferroni's correction.
    """
    name, ours, theirs, gate = pair.model, str(pair.challenger), str(pair.champion), params.gate
    evidence = _judge(name, (ours, theirs), task, data, params, judged)
    gaps = _differences(evidence.challenger, evidence.champion, gate, "gate", name, tests=tests)
    bars = {}
    for version in {*best.values()} - {ours, theirs}:
        of_bar = _judge(name, (ours, version), task, data, params, judged)
        gaps_to_bar = _differences(of_bar.challenger, of_bar.champion, gate, "gate", name)
        for metric, gap in gaps_to_bar.items():
            if best.get(metric) == version:
                bars[metric] = Bar(version, gap)
    better, reason = verdict(gaps, judged, gate, evidence.lower_is_better, bars)
    if better and judged.slice_tolerance is not None:
        better, of_slices = guarded_slices(evidence, judged, gate)
        reason += of_slices
    if evidence.judging < JUDGED and judged.metric in gaps:
        few = f"{_too_few(evidence, gaps[judged.metric], judged)}, or choose by hand: {_by_hand(name)}"
        better, reason = False, f"{reason}; but {few}"
    best_now = {}
    for metric, version in best.items():
        gap = bars[metric].gap if metric in bars else gaps.get(metric)
        gain = -np.inf if gap is None else gain_of(gap, lower_is_better=evidence.lower_is_better[metric]).value
        best_now[metric] = ours if gain >= 0 else version
    where = f"on {evidence.examples}{ON_VALIDATION if '/val' in evidence.examples else ''}"
    if tests > 1:
        where += f", with {1 - (1 - gate.confidence) / tests:.1%} intervals, because {tests} versions were judged"
    decision = replace(pair, promoted=better, reason=reason, differences=gaps)
    return Compared(decision, where, evidence, _gain_of(evidence, gaps, judged.metric), best_now)


def _gain_of(evidence: Evidence, gaps: Mapping[str, Row], metric: str) -> float:
    """Return how much better a challenger is; negative infinity if too few examples or no values tell."""
    if metric not in gaps or evidence.judging < JUDGED:
        return -np.inf
    ours, theirs = (_value(side, metric) for side in (evidence.challenger, evidence.champion))
    if np.isnan(ours):
        return -np.inf
    return np.inf if np.isnan(theirs) else gain_of(gaps[metric], lower_is_better=evidence.lower_is_better[metric]).value


def _carry_out(client: mlflow.MlflowClient, compared: Sequence[Compared], judged: Judged) -> None:
    """Write the decisions to the registry, and promote the version that is better."""
    name, champion = compared[0].decision.model, compared[0].decision.champion
    if registry.holder(registry.model_of(client, name), "champion") != champion:
        raise ValueError(f"{name}: its champion changed while it was judged; nothing was promoted: try again")
    for pair in compared:
        _write_down(client, pair, judged)
        if pair.decision.promoted:
            promoted = str(pair.decision.challenger)
            client.set_registered_model_alias(name, "challenger", promoted)
            registry.set_champion(client, name, promoted, by="gate")


def _too_few(evidence: Evidence, gap: Row, judged: Any) -> str:
    """Return the message that there are too few examples to promote anything, and what to do."""
    gain = gain_of(gap, lower_is_better=evidence.lower_is_better[judged.metric])
    least = "" if np.isnan(gain.low) else f"a difference would have to exceed about {gain.value - gain.low:.4f}, and "
    return (
        f"only {evidence.judging} {evidence.unit} judge: {least}fewer than {JUDGED} promote nothing. Add "
        f"{evidence.unit}, raise `split.gate` or `gate_share` in the dataset's args"
    )


def _differences(ours: Statistic, theirs: Statistic, gate: Any, *use: str, tests: int = 1) -> dict[str, Row]:
    """Return the difference of each metric with its interval, Bonferroni-corrected for the number of tests."""
    rows = differences(
        {"challenger": {0: ours}}, {0: theirs}, resamples=gate.resamples, seed=derived_seed(gate.seed, *use),
        confidence=1 - (1 - gate.confidence) / tests,
    )  # fmt: skip
    return {row.metric: row for row in rows if row.metric in ours.names and row.seed is None}


def _task_of(name: str, params: Settings) -> str:
    """Return the task of a registered model, or `sorter`, from its name."""
    for task in judged_tasks():
        if name == prefixed(task) or name.startswith(prefixed(f"{task}-")):
            return task
    raise ValueError(
        f"{name} is not a model of this project: expected a name that starts with one of "
        f"{', '.join(map(prefixed, judged_tasks()))}; the params have {', '.join(models_of(params))}"
    )


def _by_hand(name: str) -> str:
    return f"`rankgrad promote {name} --version N`"


def _dataset(name: str, tags: Mapping[str, Mapping[str, str]], challenger: str, champion: str) -> str:
    """Return the dataset that both versions were trained on, by the tags of each."""
    ours, theirs = tags[challenger].get("dataset"), tags[champion].get("dataset")
    if ours is None or theirs not in (None, ours):
        raise ValueError(
            f"{name}: by their tags, version {challenger} was trained on dataset {ours}, but the champion, version "
            f"{champion}, on {theirs}; choose by hand: {_by_hand(name)}"
        )
    return ours


@contextmanager
def _judging(name: str, number: str) -> Generator[None]:
    """Name the version in any error that occurs because its files are lost or other code made them."""
    try:
        yield
    except (MemoryError, ServerUnreachable, CredentialsRefused):
        raise
    except Exception as error:
        raise ValueError(
            f"{name} version {number} cannot be judged here: its files are lost, or it was made by different code "
            f"than this checkout's ({one_line(error)}). To decide without the gate: {_by_hand(name)}"
        ) from error


def _load(name: str, numbers: tuple[str, str]) -> tuple[dict[str, Any], dict[str, Digests]]:
    """Return the networks of both versions, and the digests of the rows that each one knows, by number."""
    networks, known = {}, {}
    for number in numbers:
        with _judging(name, number), TemporaryDirectory() as scratch:
            folder = registry.weights_of(f"models:/{name}/{number}", Path(scratch))
            networks[number], known[number] = load_model(folder), read_known(folder)
    return networks, known


def _judge(name: str, numbers: tuple[str, str], task: str, data: Path, params: Settings, judged: Judged) -> Evidence:
    if task == "sorter":
        return _judge_sorters(name, numbers, params)
    networks, known = _load(name, numbers)
    # A dataset read from disk may have no gate split; the decision then says so.
    judge, split = lookup.find("tasks", task)(), "gate" if (data / "gate.parquet").is_file() else "val"
    file = data / f"{split}.parquet"
    try:
        examples = judge.load(data, split, threads=params.compute.threads, memory=params.compute.memory)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be judged on {data.name}, the dataset of its challenger ({error}). To decide without the "
            f"gate: {_by_hand(name)}"
        ) from error
    is_fair, described = _fair_rows(name, known, data, split)
    tables = []
    for number, network in networks.items():
        require_classes(f"{name} version {number}", network.recipe.get("classes"), examples.classes)
        with _judging(name, number):
            tables.append(judge.predict(network, with_features_of(network.recipe["input"], examples)).filter(is_fair))
    pairs = []
    if judged.slice_tolerance is not None:
        ours, theirs = (slices.statistics(judge, judged.metric, table, file) for table in tables)
        for name_of_slice in sorted(ours):  # of the same rows, so both have the same slices
            pairs.append(SlicePair(name_of_slice, *ours[name_of_slice], theirs[name_of_slice][1]))
    lower_is_better = {metric.name: metric.lower_is_better for metric in judge.all_metrics()}
    unit = "groups" if judge.group_of(tables[0]) is not None else "queries" if judge.reads.lists else "rows"
    ours, theirs = map(judge.statistic, tables)
    have_own_values = judge.reads.lists or "within" in tables[0].column_names
    count = judging(ours, judged.metric) if have_own_values else ours.examples
    return Evidence(ours, theirs, lower_is_better, described, pairs, unit, count)


def judging(statistic: Statistic, metric: str) -> int:
    """Return how many units have a value of a metric; ties and queries without a relevant document have none.

    Args:
        statistic: of a task whose metrics are means over its units, such as queries.
        metric: a metric's name.
    """
    if metric not in statistic.names:
        return 0
    each_unit = np.arange(statistic.examples)[:, None]
    return int((~np.isnan(statistic.of_rows(each_unit)[statistic.names.index(metric)])).sum())


def require_classes(version: str, known: Sequence[str] | None, now: Sequence[str] | None) -> None:
    """Raise ValueError if a network scores other classes than those of the current data, or in another order."""
    if known and now and list(known) != list(now):
        other = sorted({*known} ^ {*now})
        difference = f"{other[0]!r} is only in one of them" if other else "in another order"
        raise ValueError(
            f"{version} scores {len(known)} classes, and the data has {len(now)}; {difference}. To decide without the "
            f"gate: {_by_hand(version.partition(' ')[0])}"
        )


def with_features_of(about: Mapping[str, Any], examples: Split) -> Split:
    """Return examples with a network's features, which may come from other values of the same columns.

    The feature of a value that no example has is 0. An empty number gets the network's fill value.

    Args:
        about: the network's `recipe["input"]`.
        examples: examples with the features of the current data.

    Raises:
        ValueError: the current data lacks the column of a feature.
    """
    names, now = about.get("names"), examples.inputs.about.get("names")
    if not names or not now or names == now:
        return examples
    items = {name: examples.inputs.items[:, number] for number, name in enumerate(now)}
    columns = [_feature(name, items, fills_of(tuple(names))) for name in names]
    inputs = replace(examples.inputs, items=torch.stack(columns, 1), about=dict(about))
    return replace(examples, inputs=inputs)


def _feature(name: str, items: Mapping[str, torch.Tensor], fills: Mapping[str, float]) -> torch.Tensor:
    """Return a feature (n,) from the current data's features; `fills` has the network's fill values by column."""
    if name in items:
        return items[name]
    column = title_of(name)
    by_title = {title_of(other): values for other, values in items.items()}
    # No row has this name, letter, or empty cell. A word without a feature now is rare, or in every row: it gets 0.
    if "=" in column or name in map(empty_name, fills):
        return torch.zeros_like(next(iter(items.values())))
    if column not in by_title:
        raise ValueError(f"the current data has no column {column}, which is a feature of this version")
    was_empty = items.get(empty_name(column))
    if was_empty is None or column not in fills:
        return by_title[column]
    return by_title[column].where(was_empty == 0, fills[column])


def _judge_sorters(name: str, numbers: tuple[str, str], params: Settings) -> Evidence:
    sorters, _ = _load(name, numbers)
    # Longer vectors are harder, so both versions sort vectors of the same length: their own, or the default.
    lengths = {sorter.length for sorter in sorters.values()} - {None}
    if len(lengths) > 1:
        lengths_of = " and ".join(f"{sorter.length} (version {number})" for number, sorter in sorters.items())
        raise ValueError(f"{name}: its versions sort {lengths_of} scores; choose by hand: {_by_hand(name)}")
    measured_on = params.benchmark_sorters.get(name.removeprefix(prefixed("sorter-")))
    usual = SORTER_LENGTH if measured_on is None else params.score_vectors[measured_on].length
    length = lengths.pop() if lengths else usual
    vectors, _ = score_vectors.draw(SORTER_VECTORS, length, generator(params.gate.seed, "gate", "sorters"))
    statistics = []
    for number, sorter in sorters.items():
        with _judging(name, number):
            statistics.append(_of_sorter(vectors, sorter))
    ours, theirs = statistics
    examples = f"{SORTER_VECTORS} fresh vectors"
    return Evidence(ours, theirs, dict.fromkeys(SORTER_METRICS, False), examples, judging=SORTER_VECTORS)


def _fair_rows(name: str, known: dict[str, Digests], data: Path, split: str) -> tuple[np.ndarray, str]:
    """Return which rows of a split (n,) are known to both versions or to neither, and the name of these examples.

    If the splits changed (another seed or fraction), a version would otherwise be judged on rows that it learned. Rows
    that both know may repeat by nature, such as four yes-or-no features. Validation rows were used to select every
    version.

    Raises:
        ValueError: too few rows are left.
    """
    examples, learned_by = f"{data.name}/{split}", {}
    for number, digests in known.items():
        splits = [digests[used] for used in ("train", "val") if used in digests and used != split]
        learned_by[number] = learned(data / f"{split}.parquet", splits, share=KNOWN_SHARE)
    ours, theirs = learned_by.values()
    is_fair = ours == theirs
    if is_fair.all():
        return is_fair, examples
    unfair = {number: (rows & ~is_fair).sum() for number, rows in learned_by.items()}
    counts = ", ".join(f"version {number} was trained on {count}" for number, count in unfair.items() if count)
    if is_fair.sum() < min(JUDGED, len(is_fair)):
        raise ValueError(
            f"{name}: of the {len(is_fair)} rows of {examples}, {counts}, which leaves {is_fair.sum()}, expected at "
            f"least {JUDGED}: the splits have changed since. To decide without the gate: {_by_hand(name)}"
        )
    return is_fair, f"{is_fair.sum()} of the {len(is_fair)} rows of {examples}, the others left out: {counts}"


@torch.no_grad()
def _of_sorter(vectors: torch.Tensor, sorter: nn.Module) -> Statistic:
    """Return `SORTER_METRICS`: negative L1 error of normalized ranks, and fraction of vectors in exact order."""
    exact, soft = exact_ranks(vectors), torch.cat([sorter(batch) for batch in vectors.split(1000)])
    error = (soft - exact).abs().mean(1) / vectors.shape[1]
    ordered = (exact_ranks(-soft) == exact).all(1)  # the largest score has the smallest rank
    columns = torch.stack([-error.double(), ordered.double()]).numpy()
    return Statistic(list(SORTER_METRICS), len(vectors), lambda rows: columns[:, rows].mean(-1))


def _interval(gap: Row) -> str:
    return cell(*gap.interval, digits=4, sign=True)


def gain_of(row: Row, *, lower_is_better: bool) -> Row:
    """Return a row of which a larger value is always better: with the other sign if a lower value is better."""
    return row._replace(value=-row.value, low=-row.high, high=-row.low) if lower_is_better else row


def verdict(
    gaps: Mapping[str, Row],
    judged: Any,
    gate: Any,
    lower_is_better: Mapping[str, bool],
    bars: Mapping[str, Bar] = MappingProxyType({}),
) -> tuple[bool, str]:
    """Return whether a challenger is better and no guarded metric is worse, and why; undefined metrics reject it.

    Args:
        gaps: the challenger minus the champion, for each metric.
        judged: the gate's metric, and what it guards.
        gate: the block `gate` of the params.
        lower_is_better: for each metric.
        bars: the best earlier champion in a guarded metric, if the champion is not: many small losses, each within the
            tolerance, would otherwise add up.
    """
    if judged.metric not in gaps:
        return False, f"{judged.metric} is {UNDEFINED} on these data"
    gap, is_lower_better = gaps[judged.metric], lower_is_better[judged.metric]
    gain = gain_of(gap, lower_is_better=is_lower_better)
    text = f"{judged.metric} {_interval(gap)}{', lower is better' if is_lower_better else ''}"
    if np.isnan(gain.value):
        return False, f"{judged.metric} is {UNDEFINED} for one of the versions, or for both"
    if gain.high < 0:
        return False, f"{text}: significantly worse"
    if not gain.low > 0:  # NaN is not
        return False, f"{text}: not significantly better"
    if gain.value < gate.minimum_gain:
        return False, f"{text}: less than the minimum gain of {gate.minimum_gain:g}"
    for name in judged.guarded:
        gap = bars[name].gap if name in bars else gaps.get(name)
        if gap is None or np.isnan(gap.value):  # no row may have a class that is guarded
            return False, f"{text}, but {name} is {UNDEFINED} for one of the versions, or for both"
        loss = -gain_of(gap, lower_is_better=lower_is_better[name]).value
        if loss > gate.tolerance:
            than = f" than that of version {bars[name].version}, the best champion so far" if name in bars else ""
            return False, f"{text}, but {name} is worse by {loss:.4f}{than}, more than {gate.tolerance:g}"
    return True, f"{text}: significantly better"


def guarded_slices(evidence: Evidence, judged: Any, gate: Any) -> tuple[bool, str]:
    """Return whether no slice is significantly worse by more than the tolerance, and the reason in words.

    Of a dozen slices, some differ by chance, so the intervals are Bonferroni-corrected for the number of slices.
    """
    metric, lower = judged.metric, evidence.lower_is_better[judged.metric]
    measured, undefined = [], []
    for pair in evidence.slices:
        if pair.challenger.examples < JUDGED:
            continue
        [ours], [theirs] = pair.challenger.of_all(), pair.champion.of_all()
        if np.isnan(ours) and not np.isnan(theirs):
            return False, f", but on the slice `{pair.name}` of {pair.rows} rows its {metric} is {UNDEFINED}"
        if np.isnan(ours - theirs):  # for example, all targets are equal
            undefined.append(f"`{pair.name}`")
        else:
            measured.append((float(ours - theirs if lower else theirs - ours), pair))
    for loss, pair in sorted(measured, key=lambda entry: -entry[0]):
        if loss <= judged.slice_tolerance:
            break
        gap = _differences(pair.challenger, pair.champion, gate, pair.name, tests=len(measured))[metric]
        if gain_of(gap, lower_is_better=lower).high < 0:  # NaN is not
            by = f"{metric} {_interval(gap)}, worse by more than {judged.slice_tolerance:g}"
            return False, f", but on the slice `{pair.name}` of {pair.rows} rows {by}"
    text = f", and on none of {len(measured)} slices significantly worse by more than {judged.slice_tolerance:g}"
    if undefined:
        text += f"; on {len(undefined)} it is {UNDEFINED}: {', '.join(undefined)}"
    return True, shorten(text, LONGEST_REASON, placeholder=", ...")


def _write_down(client: mlflow.MlflowClient, pair: Compared, judged: Any) -> None:
    """Write a decision to the challenger's tags and, with all metrics, to its description, replacing the last one."""
    decision, evidence = pair.decision, pair.evidence
    model, challenger, gaps = decision.model, str(decision.challenger), decision.differences
    word = "promoted" if decision.promoted else "rejected"
    deciding = [metric for metric in (judged.metric, *judged.guarded) if metric in gaps]
    reason = f"{decision.reason}; {pair.where}"
    tags = {"reason": reason, "against": decision.champion, "examples": evidence.examples}
    tags |= {metric: _interval(gaps[metric]) for metric in deciding}
    tags = {f"gate.{tag}": value for tag, value in tags.items()} | {registry.DECISION: word}
    if decision.promoted:
        tags |= {f"{BEST}{metric}": version for metric, version in pair.best.items()}
    for tag, value in tags.items():
        client.set_model_version_tag(model, challenger, tag, value)

    # The table has one metric per row, with the deciding metrics first.
    statistics = (evidence.challenger, evidence.champion)
    ours, theirs = (dict(zip(statistic.names, statistic.of_all(), strict=True)) for statistic in statistics)
    rows = []
    for metric in dict.fromkeys([*deciding, *gaps]):
        title = f"**{metric}**" if metric == judged.metric else metric
        title += " (guarded)" if metric in judged.guarded else ""
        rows.append([title, cell(ours[metric], digits=4), cell(theirs[metric], digits=4), _interval(gaps[metric])])
    columns = ["metric", f"version {challenger}", f"version {decision.champion}", "difference"]
    head = f"## Gate: {word}\n\n{as_markdown(reason)}.\n\nOn {evidence.examples}:\n\n"
    first, _, others = (client.get_model_version(model, challenger).description or "").partition("\n\n")
    text = f"{first}\n\n{head}{markdown(columns, rows).rstrip()}{CARD}{others.rpartition(CARD)[2]}"
    standing = f"{'made champion' if decision.promoted else 'rejected'} by the gate: {as_markdown(reason)}"
    description = registry.with_standing(text, shorten(standing, LONGEST_STANDING, placeholder=" ..."))
    client.update_model_version(model, challenger, description=description)


def choose(name: str, version: str | None = None) -> tuple[str | None, str]:
    """Make a version champion on a person's request; return the previous and the new champion.

    Args:
        name: the registered name.
        version: the version's number; None for the champion before the current one.

    Raises:
        ValueError: there is no such version, or no earlier champion is known or still exists.
    """
    client = connect()
    with answering():
        model, every = registry.model_of(client, name), registry.versions(client, name)
        before, now, by = registry.holder(model), version, "person"
        if now is None:
            earlier = [number for number in registry.champions(client, model) if number != before and number in every]
            if not earlier:
                raise ValueError(f"{name}: no earlier champion is known; choose one with {_by_hand(name)}")
            now, by = earlier[-1], "rollback"
        if now not in every:
            raise ValueError(f"{name} has no version {now}; there are {', '.join(every) or 'none'}")
        registry.set_champion(client, name, now, by=by)
    return before, now
