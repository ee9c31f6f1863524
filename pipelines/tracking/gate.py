"""The gate: decide on the gate split whether a challenger becomes champion, and record the decision in the registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import mlflow
import numpy as np

from pipelines.config import JUDGED, Settings, prefixed
from pipelines.config.rules import judged_tasks
from pipelines.config.schema import Judged
from pipelines.ops.messages import as_markdown
from pipelines.reporting.results import UNDEFINED, cell, markdown
from pipelines.tracking import registry
from pipelines.tracking.evidence import Evidence, Judge, by_hand
from pipelines.tracking.store import ServerUnreachable, answering, connect
from rankgrad import lookup
from rankgrad.datasets.files.folds import has_folds
from rankgrad.evaluation import Statistic, differences
from rankgrad.io.results import Row
from rankgrad.seeding import derived_seed

__all__ = ["Decision", "choose", "decide_all", "gain_of", "models_of"]

ON_VALIDATION = ": judged on validation, on which epochs, seeds and settings were chosen, for there is no gate split"
NO_WORSE = "not significantly worse, and learned newer rows"
LONGEST_REASON = 1000  # most characters of the reason about slices
LONGEST_STANDING = 300  # most characters of the gate's decision in the first line of a description
IN_USE = "gate.in_use"  # tag of the first champion, once it was compared with the other first versions
CARD = "\n\n<!-- card -->\n\n"  # in a version's description, everything above except the first line is rewritten


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

    number: str
    is_better: bool  # and no worse in what is guarded
    reason: str
    where: str  # the examples and the intervals, in words
    gain: float  # in the gate's metric; negative infinity if too few examples or no values tell
    gaps: dict[str, Row]  # the version minus the champion, for each metric
    evidence: Evidence


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
    `tolerance`. If slices are guarded, none may be significantly worse by more than `slice_tolerance`. For the
    champion's run with newer rows, `newer_rows: no_worse` asks less, see `verdict`. The best of
    those that are better becomes champion and challenger. Of the first versions, none of which is in use yet, it is the
    best, even if it is not significantly better. With folds, it must be significantly better, since the comparison over
    all folds chose the champion on more rows than the gate has. Each decision and its evidence are written to the
    version's tags and description. A champion that a person chose stays unless `over_person` is set. Running the gate
    again gives the same decision and changes nothing.

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
        numbers = ", ".join(tags) or "none"
        raise ValueError(f"{name} has no champion: it was deleted. Choose one: {by_hand(name)} (versions: {numbers})")
    runs = {number: about["run"] for number, about in tags.items() if "run" in about}
    stays = Decision(name, challenger, champion, False, "there is no challenger", runs=runs)
    if challenger is None:
        return stays
    by_person = ""
    if registry.chosen_by_person(client, model) and not over_person:
        by_person = f"version {champion} was made champion by a person: `rankgrad promote {name} --over-person`"
    is_same, candidates = challenger == champion, _candidates(tags, champion, challenger, params)
    is_first = is_same and tags[champion].get(registry.MADE_BY) == "first" and IN_USE not in tags[champion]
    if is_same:
        stays = replace(stays, reason="the challenger is the champion already")
        are_rejected = all(tags[number].get(registry.DECISION) == "rejected" for number in candidates)
        if are_rejected and not (candidates and over_person):
            return _settled(client, stays, by_person if candidates else "", is_first=is_first)
    dataset = "" if task == "sorter" else _dataset(name, tags, challenger, champion)
    refitted = [number for number in (champion, *candidates) if "refit" in tags[number]]
    if reason := _cannot_judge(name, folder / "data" / dataset, refitted, is_same=is_same):
        return replace(stays, reason=reason)

    # Compare each of them with the champion, and promote the best of those that are better.
    judge = Judge(name, task, folder / "data" / dataset, params, params.judged_of(task, dataset))
    judge.check(champion)
    compared, failed = _compare_all(judge, candidates, champion, params.gate, tags)
    if not compared:
        return _none_compared(stays, failed, is_same=is_same)
    first = 1 + len(candidates) if is_first else None
    decisions = _decisions(stays, compared, by_person, first=first, judge=judge)
    _carry_out(client, decisions, compared, judge.judged)
    if is_first and not any(decision.promoted for decision in decisions):
        client.set_model_version_tag(name, champion, IN_USE, "true")
    return _decision_on_all(stays, decisions, compared, failed, first=first, judge=judge)


def _settled(client: mlflow.MlflowClient, stays: Decision, by_person: str, *, is_first: bool) -> Decision:
    """Return the decision if the challenger is champion and no other version is left to compare.

    Args:
        stays: the decision, without what else is to say.
        by_person: that a person chose the champion; empty if none did, or there are no others.
        is_first: whether it was not in use; from now on it is.
    """
    if is_first:
        client.set_model_version_tag(stays.model, str(stays.champion), IN_USE, "true")
    return replace(stays, reason=f"{stays.reason}; {by_person}") if by_person else stays


def _none_compared(stays: Decision, failed: Mapping[str, str], *, is_same: bool) -> Decision:
    """Return the decision if no version can be judged, or raise ValueError if the challenger is one of them."""
    if not is_same:
        raise ValueError("; ".join(failed.values()))
    return replace(stays, reason="; ".join([stays.reason, *failed.values()]))


def _decisions(
    stays: Decision, compared: Sequence[Compared], by_person: str, *, first: int | None, judge: Judge
) -> list[Decision]:
    """Return the decision on each version: the best of those that are better is promoted.

    Args:
        stays: the decision that promotes none.
        compared: each version's comparison with the champion.
        by_person, first, judge: see `_reason`. Without folds, a first version need not be significantly better,
            whatever is guarded.
    """
    needs_significance = first is None or judge.has_folds
    better = [pair for pair in compared if pair.is_better or (not needs_significance and pair.gain > 0)]
    best = max(better, key=lambda pair: pair.gain, default=None)
    decisions = []
    for pair in compared:
        reason = _reason(pair, best, by_person, first=first, judge=judge)
        promoted = pair is best and not by_person
        decision = replace(stays, challenger=pair.number, promoted=promoted, reason=reason, differences=pair.gaps)
        decisions.append(decision)
    return decisions


def _decision_on_all(
    stays: Decision,
    decisions: Sequence[Decision],
    compared: Sequence[Compared],
    failed: Mapping[str, str],
    *,
    first: int | None,
    judge: Judge,
) -> Decision:
    """Return the decision on the promoted version or, if there is none, on the challenger, with all reasons.

    Args:
        stays: the decision on the challenger, without reasons.
        decisions, compared: of each version that was judged.
        failed: why others were not, by number.
        first, judge: see `_reason`.
    """
    for decision, pair in zip(decisions, compared, strict=True):
        is_only = len(compared) + len(failed) == 1 and first is None
        if decision.promoted or is_only:
            return replace(decision, reason="; ".join([decision.reason, pair.where, *failed.values()]))
    reasons = []
    if first is not None:
        beside_chance = _beside_chance(compared[0].evidence.champion, judge.task, judge.judged.metric)
        tested = "over all folds" if judge.has_folds else "on validation"
        reasons.append(f"the best {tested} of {first} first versions{beside_chance}")
    for decision in decisions:
        version = str(decision.challenger)
        reasons.append(f"version {version} ({stays.runs.get(version, '')}): {decision.reason}")
    reason = "; ".join([*reasons, compared[0].where, *failed.values()])
    return replace(stays, reason=reason, failed=stays.challenger in failed)


def _is_update(tags: Mapping[str, str], champion: Mapping[str, str]) -> bool:
    """Return whether a version is the champion's run and loss with newer deliveries, by the tags of both."""
    is_same = "run" in tags and all(tags.get(name) == champion.get(name) for name in ("run", "loss", "sorter"))
    return is_same and int(tags.get("snapshot", 0)) > int(champion.get("snapshot", 0))


def _compare_all(
    judge: Judge, candidates: Sequence[str], champion: str, gate: Any, tags: Mapping[str, Mapping[str, str]]
) -> tuple[list[Compared], dict[str, str]]:
    """Return the comparison of each version with the champion, and why others cannot be judged, by number."""
    evidence, failed = dict[str, Evidence](), dict[str, str]()
    for number in candidates:
        try:
            evidence[number] = judge.evidence(number, champion)
        except ServerUnreachable:
            raise
        except ValueError as error:
            failed[number] = str(error)
    compared = []
    for number, pair in evidence.items():
        is_update = _is_update(tags[number], tags[champion])
        compared.append(_compare(judge, number, pair, gate, tests=len(evidence), is_update=is_update))
    return compared, failed


def _reason(pair: Compared, best: Compared | None, by_person: str, *, first: int | None, judge: Judge) -> str:
    """Return why a version is promoted, or is not.

    Args:
        pair: its comparison with the champion.
        best: the best of those that are better; None if none is.
        by_person: that a person chose the champion, so that no version is promoted; empty if one may be.
        first: the number of versions, if none was in use before; else None.
        judge: what judged them.
    """
    reason = pair.reason
    if pair is best and first is not None:
        beside_chance = _beside_chance(pair.evidence.challenger, judge.task, judge.judged.metric)
        reason = f"the best on the gate split of {first} first versions{beside_chance}; {reason}"
    if pair is best and by_person:
        return f"{reason}; but {by_person}"
    if pair.is_better and pair is not best and best is not None:
        return f"{reason}; but version {best.number} gains more"
    return reason


def _candidates(tags: Mapping[str, Mapping[str, str]], champion: str, challenger: str, params: Settings) -> list[str]:
    """Return the versions to compare with the champion: the challenger, and the newest of each run on its dataset.

    Validation, which chose the challenger, also chose epochs, so it favors networks over models fitted in one step.
    Earlier champions were compared already.
    """
    dataset, newest = tags[champion].get("dataset"), dict[str, str]()
    for number, about in tags.items():
        run = about.get("run", "")
        if run in params.runs and about.get("dataset") == dataset:
            newest[run] = number
    others = [number for number in newest.values() if registry.MADE_BY not in tags[number]]
    return [number for number in dict.fromkeys([challenger, *others]) if number != champion]


def _cannot_judge(name: str, data: Path, refitted: Sequence[str], *, is_same: bool) -> str:
    """Return why a dataset's splits cannot judge versions, some of which are refitted; empty if they can."""
    val = data / "val.parquet"
    if (data / "gate.parquet").is_file() or not val.is_file():
        return ""
    advice = f"choose by hand: {by_hand(name)}"
    if has_folds(data):
        return f"no rows judge: {data.name} has folds, which train on all rows, but no gate split; {advice}"
    if refitted:
        versions = f"version{'s' if len(refitted) > 1 else ''} {', '.join(refitted)}"
        return f"no rows judge: {data.name} has no gate split, and {versions} learned validation rows, too; {advice}"
    if is_same:
        return f"the challenger is the champion already; {data.name} has no gate split that compares it with others"
    return ""


def _beside_chance(statistic: Statistic, task: str, metric: str) -> str:
    """Return a warning if a metric is no better than that of a model that knows nothing."""
    about = lookup.find("tasks", task).metric_named(metric)
    value = _value(statistic, metric)
    if about.chance is None or (value < about.chance if about.lower_is_better else value > about.chance):
        return ""
    return f", but no better than chance ({metric} {cell(value)}; of a model that knows nothing {about.chance:.3f})"


def _value(statistic: Statistic, metric: str) -> float:
    """Return the value of a metric on all examples; NaN if they have none."""
    return float(statistic.of_all()[statistic.names.index(metric)]) if metric in statistic.names else np.nan


def _compare(judge: Judge, number: str, evidence: Evidence, gate: Any, *, tests: int, is_update: bool) -> Compared:
    """Compare a version with the champion.

    Args:
        judge: what judged them.
        number: the version.
        evidence: both on the same examples.
        gate: the block `gate` of the params.
        tests: the number of versions that are compared with the champion, for Bonferroni's correction.
        is_update: whether the version is the champion's run with newer rows.
    """
    name, judged = judge.name, judge.judged
    gaps = _differences(evidence.challenger, evidence.champion, gate, "gate", name, tests=tests)
    better, reason = verdict(gaps, judged, gate, evidence.lower_is_better, is_update=is_update)
    if better and judged.slice_tolerance is not None:
        better, of_slices = guarded_slices(evidence, judged, gate)
        reason += of_slices
    if evidence.judging < JUDGED and judged.metric in gaps:
        few = f"only {evidence.judging} {evidence.unit} judge, and fewer than {JUDGED} promote nothing"
        advice = f"Add {evidence.unit}, raise `split.gate` or `gate_share` in the dataset's args"
        better, reason = False, f"{reason}; but {few}. {advice}, or choose by hand: {by_hand(name)}"
    where = f"on {evidence.examples}{ON_VALIDATION if '/val' in evidence.examples else ''}"
    if tests > 1:
        where += f", with {1 - (1 - gate.confidence) / tests:.1%} intervals, because {tests} versions were judged"
    return Compared(number, better, reason, where, _gain(evidence, gaps, judged.metric), gaps, evidence)


def _gain(evidence: Evidence, gaps: Mapping[str, Row], metric: str) -> float:
    """Return how much better a challenger is; negative infinity if too few examples or no values tell."""
    ours, theirs = (_value(side, metric) for side in (evidence.challenger, evidence.champion))
    if metric not in gaps or evidence.judging < JUDGED or np.isnan(ours):
        return -np.inf
    return np.inf if np.isnan(theirs) else gain_of(gaps[metric], lower_is_better=evidence.lower_is_better[metric]).value


def _carry_out(
    client: mlflow.MlflowClient, decisions: Sequence[Decision], compared: Sequence[Compared], judged: Judged
) -> None:
    """Write the decisions to the registry, and make the promoted version champion and challenger."""
    name, champion = decisions[0].model, decisions[0].champion
    if registry.holder(registry.model_of(client, name), "champion") != champion:
        raise ValueError(f"{name}: its champion changed while it was judged; nothing was promoted: try again")
    for decision, pair in zip(decisions, compared, strict=True):
        _write_down(client, replace(decision, reason=f"{decision.reason}; {pair.where}"), judged, pair.evidence)
    for decision in decisions:
        if decision.promoted:
            promoted = str(decision.challenger)
            registry.set_champion(client, name, promoted, by="gate")
            client.set_registered_model_alias(name, "challenger", promoted)


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


def _dataset(name: str, tags: Mapping[str, Mapping[str, str]], challenger: str, champion: str) -> str:
    """Return the dataset that both versions were trained on, by the tags of each."""
    ours, theirs = tags[challenger].get("dataset"), tags[champion].get("dataset")
    if ours is None or theirs not in (None, ours):
        raise ValueError(
            f"{name}: by their tags, version {challenger} was trained on dataset {ours}, but the champion, version "
            f"{champion}, on {theirs}; choose by hand: {by_hand(name)}"
        )
    return ours


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
    *,
    is_update: bool = False,
) -> tuple[bool, str]:
    """Return whether a challenger is better and no guarded metric is worse, and why; undefined metrics reject it.

    If `judged.newer_rows` is `no_worse`, an update need not be better: it may be worse by up to the gate's tolerance,
    if that is not significant.

    Args:
        gaps: the challenger minus the champion, for each metric.
        judged: the gate's metric, and what it guards.
        gate: the block `gate` of the params.
        lower_is_better: for each metric.
        is_update: whether the challenger is the champion's run with newer rows.
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
    may_lose = is_update and judged.newer_rows == "no_worse" and gain.high >= 0  # NaN is not
    is_significant = gain.low > 0
    if not is_significant and not may_lose:
        return False, f"{text}: not significantly better{_advice_on_chance(gain, judged, is_update=is_update)}"
    if not may_lose and gain.value < gate.minimum_gain:
        return False, f"{text}: less than the minimum gain of {gate.minimum_gain:g}"
    held = [judged.metric, *judged.guarded] if may_lose else judged.guarded
    for name in held:
        if name not in gaps or np.isnan(gaps[name].value):  # no row may have a class that is guarded
            return False, f"{text}, but {name} is {UNDEFINED} for one of the versions, or for both"
        loss = -gain_of(gaps[name], lower_is_better=lower_is_better[name]).value
        if loss > gate.tolerance:
            return False, f"{text}, but {name} is worse by {loss:.4f}, more than {gate.tolerance:g}"
    return True, f"{text}: {'significantly better' if is_significant else NO_WORSE}"


def _advice_on_chance(gain: Row, judged: Any, *, is_update: bool) -> str:
    """Return what would be significant, and what asks less; empty if neither is known."""
    least, advice = gain.value - gain.low, ""
    if not np.isnan(least):
        advice = f"; on these examples, a gain is significant from about {least:.4f} on"
    if is_update and judged.newer_rows == "better":
        advice += "; it learned newer rows: `newer_rows: no_worse` in `gate.judged` asks less"
    return advice


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


def _write_down(client: mlflow.MlflowClient, decision: Decision, judged: Judged, evidence: Evidence) -> None:
    """Write a decision to the challenger's tags and, with all metrics, to its description, replacing the last one."""
    model, challenger, gaps = decision.model, str(decision.challenger), decision.differences
    word = "promoted" if decision.promoted else "rejected"
    deciding = [metric for metric in (judged.metric, *judged.guarded) if metric in gaps]
    tags = {"reason": decision.reason, "against": decision.champion, "examples": evidence.examples}
    tags |= {metric: _interval(gaps[metric]) for metric in deciding}
    tags = {f"gate.{tag}": value for tag, value in tags.items()} | {registry.DECISION: word}
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
    head = f"## Gate: {word}\n\n{as_markdown(decision.reason)}.\n\nOn {evidence.examples}:\n\n"
    first, _, others = (client.get_model_version(model, challenger).description or "").partition("\n\n")
    text = f"{first}\n\n{head}{markdown(columns, rows).rstrip()}{CARD}{others.rpartition(CARD)[2]}"
    standing = f"{'made champion' if decision.promoted else 'rejected'} by the gate: {as_markdown(decision.reason)}"
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
                raise ValueError(f"{name}: no earlier champion is known; choose one with {by_hand(name)}")
            now, by = earlier[-1], "rollback"
        if now not in every:
            raise ValueError(f"{name} has no version {now}; there are {', '.join(every) or 'none'}")
        registry.set_champion(client, name, now, by=by)
    return before, now
