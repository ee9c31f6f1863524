"""The gate: whether a challenger becomes champion, decided on the gate split and written down in the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

import mlflow
import numpy as np
import torch
from torch import nn

from pipelines.config import Settings, prefixed
from pipelines.config.rules import SORTER_METRICS
from pipelines.ops.messages import as_markdown, one_line
from pipelines.reporting.results import UNDEFINED, cell, markdown
from pipelines.tracking import registry, slices
from pipelines.tracking.known_rows import learned, read_known
from pipelines.tracking.store import CredentialsRefused, ServerUnreachable, answering, connect
from rankgrad import lookup
from rankgrad.datasets.vectors import score_vectors
from rankgrad.evaluation import Statistic, differences
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import FOLD, columns_of
from rankgrad.io.results import Row
from rankgrad.ranks import exact_ranks
from rankgrad.seeding import derived_seed, generator

__all__ = ["Decision", "choose", "decide_all", "models_of"]

SORTER_LENGTH = 32  # of vectors, where the params do not measure the sorter
SORTER_VECTORS = 5000  # fresh ones: no sorter was trained, chosen or reported on them
KNOWN_SHARE = 0.5  # of what a row holds, from which on it is a row that a version knows
FEWEST = 30  # rows, or groups of them, to judge on: of fewer, resamples find a difference where there is none
ON_VALIDATION = ": judged on validation, on which epochs, seeds and settings were chosen, for there is no gate split"
LONGEST_REASON = 1000  # characters of what is said of slices
CARD = "\n\n<!-- card -->\n\n"  # in a version's description: what stands above is rewritten by each decision


@dataclass(frozen=True)
class Evidence:
    """What versions are judged by: those of each are by its number, the challenger's first."""

    statistics: dict[str, Statistic]
    lower_is_better: dict[str, bool]  # of each metric
    examples: str  # their name
    slices: dict[str, dict[str, tuple[int, Statistic]]] = field(default_factory=dict)  # where they are guarded


@dataclass(frozen=True)
class Decision:
    """What the gate decided."""

    model: str  # registered name
    challenger: str | None  # its version; None if nothing stands against the champion
    champion: str | None  # its version before
    promoted: bool  # whether the challenger is champion now
    reason: str  # in a sentence
    differences: dict[str, Row] = field(default_factory=dict)  # challenger minus champion, of each metric
    failed: bool = False  # whether they could not be judged

    @property
    def state(self) -> str:
        return "error" if self.failed else "promoted" if self.promoted else "stays"


def models_of(params: Settings) -> list[str]:
    """Return the names of the models that the params train; a team's store may have others."""
    trained = [name for name in params.benchmark_sorters if params.sorters[name].training is not None]
    sorters = [prefixed(f"sorter-{name}") for name in trained]
    return sorters + sorted({params.model_of(run) for run in params.runs.values()})


def decide_all(
    models: list[str] | None, params: Settings, *, folder: Path = Path("."), over_person: bool = False
) -> list[Decision]:
    """Decide for each model whether its challenger becomes champion; a model that cannot be judged stops no other.

    Both are compared on the same examples. The challenger is better if the judged metric is better by `minimum_gain`
    and the paired bootstrap interval of the difference does not hold 0, while no guarded metric is worse by more than
    `tolerance`, nor any slice, where these are guarded, by more than `slice_tolerance` and beyond chance. Decision and
    evidence are written to the challenger's tags and description. A champion that a person chose stays, unless
    `over_person`. Run again, it decides the same and changes nothing.

    Args:
        models: registered names; None for all that the params train.
        params: with the gate's block.
        folder: the checkout whose data are used.
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
    model, gate, task = registry.model_of(client, name), params.gate, _task_of(name, params)
    champion, challenger = registry.holder(model, "champion"), registry.holder(model, "challenger")
    if champion is None:
        there = ", ".join(registry.versions(client, name)) or "none"
        raise ValueError(f"{name} has no champion: it was deleted. Choose one: {_by_hand(name)} (versions: {there})")
    if challenger in (None, champion):
        reason = "the challenger is the champion already" if challenger else "there is no challenger"
        return Decision(name, challenger, champion, False, reason)
    numbers = (challenger, champion)
    data = None if task == "sorter" else folder / "data" / _dataset(client, name, numbers)
    judged, evidence = gate.judged[task], _judge(name, numbers, task, data, params)
    ours, theirs = evidence.statistics.values()
    gaps = _differences(ours, theirs, gate, "gate", name)
    better, reason = _judgement(gaps, judged, gate, evidence)
    objection = ""
    if better and ours.examples < FEWEST:
        objection = f"these are {ours.examples} rows, or groups of them, expected {FEWEST} to tell: {_by_hand(name)}"
    elif better and not over_person and registry.chosen_by_person(client, model):
        objection = f"version {champion} was made champion by a person: `rankgrad promote {name} --over-person`"
    if objection:
        better, reason = False, f"{reason}; but {objection}"
    if registry.holder(registry.model_of(client, name), "champion") != champion:
        raise ValueError(f"{name}: its champion was moved while it was judged; nothing was changed: try again")
    decision = Decision(name, challenger, champion, better, reason, gaps)
    _write_down(client, decision, judged, evidence)
    if better:
        registry.set_champion(client, name, challenger, by="gate")
    return decision


def _differences(ours: Statistic, theirs: Statistic, gate: Any, *use: str, tests: int = 1) -> dict[str, Row]:
    """Return the difference of each metric with its interval, which is as wide as several tests need (Bonferroni)."""
    rows = differences(
        {"challenger": {0: ours}}, {0: theirs}, resamples=gate.resamples, seed=derived_seed(gate.seed, *use),
        confidence=1 - (1 - gate.confidence) / tests,
    )  # fmt: skip
    return {row.metric: row for row in rows if row.metric in ours.names and row.seed is None}


def _judgement(gaps: Mapping[str, Row], judged: Any, gate: Any, evidence: Evidence) -> tuple[bool, str]:
    """Return whether a challenger is better by all that is judged and guarded, and why."""
    better, reason = verdict(gaps, judged, gate, evidence.lower_is_better)
    if better and judged.slice_tolerance is not None:
        better, of_slices = guarded_slices(evidence, judged, gate)
        reason += of_slices
    return better, f"{reason}; on {evidence.examples}{ON_VALIDATION if '/val' in evidence.examples else ''}"


def _task_of(name: str, params: Settings) -> str:
    """Return the task of a registered model, or `sorter`, from its name."""
    for task in params.gate.judged:
        if name == prefixed(task) or name.startswith(prefixed(f"{task}-")):
            return task
    raise ValueError(
        f"{name} is not a model of this project: expected a name that begins with one of "
        f"{', '.join(map(prefixed, params.gate.judged))}; the params have {', '.join(models_of(params))}"
    )


def _by_hand(name: str) -> str:
    return f"`rankgrad promote {name} --version N`"


def _dataset(client: mlflow.MlflowClient, name: str, numbers: tuple[str, str]) -> str:
    """Return the dataset that both versions were trained on."""
    challenger, champion = (client.get_model_version(name, number).tags.get("dataset") for number in numbers)
    if challenger is None or champion not in (None, challenger):
        raise ValueError(
            f"{name}: by their tags, version {numbers[0]} was trained on dataset {challenger} and its champion, "
            f"{numbers[1]}, on {champion}: choose by hand, {_by_hand(name)}"
        )
    return challenger


def _each(name: str, things: dict[str, Any], function: Callable[[Any], Any]) -> dict[str, Any]:
    """Apply a function to something of each version; an error names the version."""
    result = {}
    for number, thing in things.items():
        try:
            result[number] = function(thing)
        except (MemoryError, ServerUnreachable, CredentialsRefused):
            raise
        except Exception as error:  # code that did not make a version fails on it in any way
            raise ValueError(
                f"{name} version {number} cannot be judged here: its files are lost, or this checkout's code is not "
                f"that which made it ({one_line(error)}). To decide without the gate: {_by_hand(name)}"
            ) from error
    return result


def _load(address: str) -> tuple[nn.Module, dict[str, np.ndarray]]:
    """Return the network of a version, and the digests of the rows that it knows, by split."""
    with TemporaryDirectory() as scratch:
        folder = registry.weights_of(address, Path(scratch))
        return load_model(folder), read_known(folder)


def _judge(name: str, numbers: tuple[str, str], task: str, data: Path | None, params: Settings) -> Evidence:
    loaded = _each(name, {number: f"models:/{name}/{number}" for number in numbers}, _load)
    networks = {number: network for number, (network, _) in loaded.items()}
    if data is None:
        return _judge_sorters(name, networks, params)
    # Where a dataset read from disk is told to have no gate; the decision says so.
    judge, split = lookup.find("tasks", task)(), "gate" if (data / "gate.parquet").is_file() else "val"
    try:
        if split == "val" and FOLD in columns_of(data / "val.parquet"):
            raise ValueError("it is cut into folds and has no gate split: give it a gate_share above 0")
        examples = judge.load(data, split, threads=params.compute.threads, memory=params.compute.memory)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be judged on {data.name}, on which its challenger was trained ({error}). To decide without "
            f"the gate: {_by_hand(name)}"
        ) from error
    new, told = _unknown(name, {number: digests for number, (_, digests) in loaded.items()}, data, split)
    predicted = _each(name, networks, lambda network: judge.predict(network, examples).filter(new))
    parts, judged, file = {}, params.gate.judged[task], data / f"{split}.parquet"
    if judged.slice_tolerance is not None:
        parts = {number: slices.statistics(judge, judged.metric, table, file) for number, table in predicted.items()}
    statistics = {number: judge.statistic(table) for number, table in predicted.items()}
    return Evidence(statistics, {metric.name: metric.lower_is_better for metric in judge.metrics}, told, parts)


def _judge_sorters(name: str, sorters: dict[str, Any], params: Settings) -> Evidence:
    lengths = {number: sorter.length for number, sorter in sorters.items() if sorter.length is not None}
    if len(set(lengths.values())) > 1:
        sorted_by = " and ".join(f"{length} (version {number})" for number, length in lengths.items())
        raise ValueError(f"{name}: its versions sort {sorted_by} scores: choose by hand, {_by_hand(name)}")
    measured_on = params.benchmark_sorters.get(name.removeprefix(prefixed("sorter-")))
    usual = SORTER_LENGTH if measured_on is None else params.score_vectors[measured_on].length
    length = next(iter(lengths.values()), usual)  # longer vectors are harder
    vectors, _ = score_vectors.draw(SORTER_VECTORS, length, generator(params.gate.seed, "gate", "sorters"))
    statistics = _each(name, sorters, partial(_of_sorter, vectors))
    return Evidence(statistics, dict.fromkeys(SORTER_METRICS, False), f"{SORTER_VECTORS} fresh vectors")


def _unknown(name: str, digests: dict[str, dict[str, np.ndarray]], data: Path, split: str) -> tuple[np.ndarray, str]:
    """Return which rows of a split both versions know or neither (n,), and the name of these examples.

    Splits that were drawn anew since (another seed or share) would have a version judged on rows that it learned. What
    both know repeats by nature, such as four yes and no features. Every version was chosen on validation.

    Raises:
        ValueError: too few rows are left to judge on.
    """
    told = f"{data.name}/{split}"
    of = ("train",) if split == "val" else ("train", "val")
    learned_by = {
        number: learned(data / f"{split}.parquet", [by_split[one] for one in of if one in by_split], share=KNOWN_SHARE)
        for number, by_split in digests.items()
    }
    ours, theirs = learned_by.values()
    new = ours == theirs
    if new.all():
        return new, told
    alone = {number: (rows & ~new).sum() for number, rows in learned_by.items()}
    counts = ", ".join(f"version {number} was trained on {count}" for number, count in alone.items() if count)
    if new.sum() < min(FEWEST, len(new)):
        raise ValueError(
            f"{name}: of the {len(new)} rows of {told} {counts}, which leaves {new.sum()}, expected {FEWEST}: "
            f"its splits were drawn anew since. To decide without the gate: {_by_hand(name)}"
        )
    return new, f"{new.sum()} of the {len(new)} rows of {told}, the others left out: {counts}"


@torch.no_grad()
def _of_sorter(vectors: torch.Tensor, sorter: nn.Module) -> Statistic:
    """Return `SORTER_METRICS`: minus the L1 of normalized ranks, and the share of vectors that are ordered exactly."""
    exact, soft = exact_ranks(vectors), torch.cat([sorter(part) for part in vectors.split(1000)])
    error = (soft - exact).abs().mean(1) / vectors.shape[1]
    ordered = (exact_ranks(-soft) == exact).all(1)  # the smallest rank is the largest score's
    columns = torch.stack([-error.double(), ordered.double()]).numpy()
    return Statistic(list(SORTER_METRICS), len(vectors), lambda rows: columns[:, rows].mean(-1))


def _interval(gap: Row) -> str:
    return cell(*gap.interval, digits=4, sign=True)


def _gain(gap: Row, *, lower_is_better: bool) -> Row:
    """Return a difference of which more is better."""
    return gap._replace(value=-gap.value, low=-gap.high, high=-gap.low) if lower_is_better else gap


def verdict(gaps: Mapping[str, Row], judged: Any, gate: Any, lower_is_better: Mapping[str, bool]) -> tuple[bool, str]:
    """Return whether a challenger is better and nothing guarded is worse, and why; what is undefined is neither."""
    deciding = [name for name in (judged.metric, *judged.guarded) if name in gaps]
    gains = {name: _gain(gaps[name], lower_is_better=lower_is_better[name]) for name in deciding}
    gain, text = gains[judged.metric], f"{judged.metric} {_interval(gaps[judged.metric])}"
    if np.isnan(gain.value):
        return False, f"{judged.metric} is {UNDEFINED} for one of the versions, or for both"
    if not gain.low > 0:  # NaN is not
        return False, f"{text}: not better beyond chance"
    if gain.value < gate.minimum_gain:
        return False, f"{text}: less than the minimum gain of {gate.minimum_gain:g}"
    for name in judged.guarded:
        # A class that none of the rows has is no metric of theirs.
        if name not in gains or np.isnan(gains[name].value):
            return False, f"{text}, but {name} is {UNDEFINED} for one of the versions, or for both"
        if gains[name].value < -gate.tolerance:
            return False, f"{text}, but {name} is worse by {-gains[name].value:.4f}, more than {gate.tolerance:g}"
    return True, f"{text}: better beyond chance"


def guarded_slices(evidence: Evidence, judged: Any, gate: Any) -> tuple[bool, str]:
    """Return whether no slice is worse by more than its tolerance and beyond chance, and what to say of it.

    Of a dozen slices some differ by chance: the intervals are as wide as so many need (Bonferroni).
    """
    metric, lower = judged.metric, evidence.lower_is_better[judged.metric]
    ours, theirs = evidence.slices.values()
    worse: dict[str, float] = {}
    undefined = []
    for name, (rows, statistic) in ours.items():
        if name not in theirs or statistic.examples < FEWEST:
            continue
        [new], [old] = statistic.of_all(), theirs[name][1].of_all()
        if np.isnan(new) and not np.isnan(old):
            return False, f", but on the slice `{name}` of {rows} rows its {metric} is {UNDEFINED}"
        if np.isnan(new - old):  # as of targets that are all equal, by which no model can be judged
            undefined.append(name)
        else:
            worse[name] = float(new - old if lower else old - new)
    for name in sorted(worse, key=worse.__getitem__, reverse=True):
        if worse[name] <= judged.slice_tolerance:
            break
        rows, statistic = ours[name]
        gap = _differences(statistic, theirs[name][1], gate, name, tests=len(worse))[metric]
        if _gain(gap, lower_is_better=lower).high < 0:  # NaN is not
            by = f"{metric} {_interval(gap)}, worse by more than {judged.slice_tolerance:g}"
            return False, f", but on the slice `{name}` of {rows} rows {by}"
    text = f", and on none of {len(worse)} slices worse by more than {judged.slice_tolerance:g} beyond chance"
    if undefined:
        text += f"; on {len(undefined)} it is {UNDEFINED}: " + ", ".join(f"`{name}`" for name in undefined)
    return True, shorten(text, LONGEST_REASON, placeholder=", ...")


def _write_down(client: mlflow.MlflowClient, decision: Decision, judged: Any, evidence: Evidence) -> None:
    """Write a decision into the challenger's tags and, with all metrics, its description, in place of the last."""
    number, gaps = next(iter(evidence.statistics)), decision.differences  # the challenger's
    word = "promoted" if decision.promoted else "rejected"
    tags = {"decision": word, "reason": decision.reason, "against": decision.champion, "examples": evidence.examples}
    deciding = [metric for metric in (judged.metric, *judged.guarded) if metric in gaps]
    tags |= {metric: _interval(gaps[metric]) for metric in deciding}
    for tag, value in tags.items():
        client.set_model_version_tag(decision.model, number, f"gate.{tag}", value)
    values = [dict(zip(one.names, one.of_all(), strict=True)) for one in evidence.statistics.values()]
    rows = []
    for metric in dict.fromkeys([*deciding, *gaps]):
        title = f"**{metric}**" if metric == judged.metric else metric
        title += " (guarded)" if metric in judged.guarded else ""
        rows.append([title, *(cell(own[metric], digits=4) for own in values), _interval(gaps[metric])])
    table = markdown(["metric", *(f"version {version}" for version in evidence.statistics), "difference"], rows)
    card = (client.get_model_version(decision.model, number).description or "").rpartition(CARD)[2]
    head = f"## Gate: {word}\n\n{as_markdown(decision.reason)}.\n\nOn {evidence.examples}:\n\n{table.rstrip()}"
    client.update_model_version(decision.model, number, description=f"{head}{CARD}{card}")


def choose(name: str, version: str | None = None) -> tuple[str | None, str]:
    """Make a version champion because a person says so; return the champion before, and the one now.

    Args:
        name: registered.
        version: its number; None for the champion before the present one.

    Raises:
        ValueError: there is no such version, or no earlier champion is known, or left.
    """
    client = connect()
    with answering():
        model, every = registry.model_of(client, name), registry.versions(client, name)
        before, now, by = registry.holder(model), version, "person"
        if now is None:
            earlier = [one for one in registry.champions(client, model) if one != before and one in every]
            if not earlier:
                raise ValueError(f"{name}: no earlier champion is known; choose one with {_by_hand(name)}")
            now, by = earlier[-1], "rollback"
        if now not in every:
            raise ValueError(f"{name} has no version {now}; there are {', '.join(every) or 'none'}")
        registry.set_champion(client, name, now, by=by)
    return before, now
