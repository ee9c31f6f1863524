"""The gate: whether a challenger becomes champion, decided on the gate split and written down in the registry."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from rankops.metrics.evaluation import Figures, compare, evaluate

from pipelines.config.schema import Settings
from pipelines.ops import dvc_lock
from pipelines.ops.messages import on_one_line
from pipelines.reporting.results import flat
from pipelines.tracking.publish import CHAMPION, MADE_BY, Registry, ServerUnreachable
from rankops import lookup
from rankops.datasets.vectors import score_vectors
from rankops.ranks import ranks
from rankops.seeding import derived_seed, generator
from rankops.sorters import load_sorter
from rankops.sorters.base import Sorter

__all__ = ["Decision", "decide", "decide_all", "known", "promote_by_hand", "roll_back"]

SORTER_VECTORS = 5000  # fresh ones: no sorter was trained, chosen or reported on them


@dataclass(frozen=True)
class Decision:
    """What the gate found, and did.

    Attributes:
        model: registered name.
        challenger, champion: versions; no challenger if nothing stands against the champion.
        promoted: whether the challenger is champion now.
        reason: in a sentence.
        figure: by which they were judged.
        differences: of each figure, challenger minus champion, as `value`, `low`, `high`.
        failed: whether they could not be judged; the reason says why.
    """

    model: str
    challenger: str | None
    champion: str | None
    promoted: bool
    reason: str
    figure: str
    differences: dict[str, dict[str, float]]
    failed: bool = False


@contextmanager
def _alone(model: str) -> Iterator[None]:
    """One decision about a model at a time on this machine."""
    Path(".locks").mkdir(exist_ok=True)
    try:
        with FileLock(f".locks/promote-{model}.lock", timeout=300):
            yield
    except Timeout as error:
        raise ValueError(f"{model}: another promotion of this model goes on; wait for it and try again") from error


def _chosen_by_person(registry: Registry, model: str, champion: str) -> bool:
    """In MLflow's UI, by `rankops promote --version`, or by `rankops rollback`."""
    if registry.tag(model, CHAMPION) not in (None, champion):
        return True
    return registry.version_tags(model, champion).get(MADE_BY) in ("person", "rollback")


def _sorter_figures(sorter: Sorter, length: int, seed: int) -> Figures:
    """The negated L1 / d on fresh vectors, and the share of them that are ordered exactly."""
    vectors, _ = score_vectors.draw(SORTER_VECTORS, length, generator(seed, "gate", "sorters"))
    exact = ranks(vectors)
    with torch.no_grad():
        found = torch.cat([sorter(part) for part in vectors.split(1000)])
    error = (found - exact).abs().mean(1) / length
    ordered = (ranks(-found) == exact).all(1).float()  # the smallest rank is the largest score's
    columns = torch.stack([-error, ordered]).double().numpy()
    return Figures(["negative_l1", "exactly_ordered"], len(vectors), lambda rows: columns[:, rows].mean(-1))


class _Judge:
    """Figures of versions on the same examples: one split, loaded once, or vectors of one length."""

    def __init__(self, registry: Registry, model: str, params: Settings, dataset: str | None, data: Path):
        self.registry, self.params, self.model = registry, params, model
        task = None if dataset is None else _task(model, params)
        self.task = None if task is None else lookup.module("tasks", task)
        if dataset is None:
            self.judged, self.examples = params.gate.judged["sorter"], f"{SORTER_VECTORS} fresh vectors"
        else:
            # Datasets read from disk have no gate split of their own; epochs are chosen on val.
            split = "gate" if (data / dataset / "gate.parquet").is_file() else "val"
            self.judged, self.examples = params.gate.judged[task], f"{dataset}/{split}"
            try:
                self.split = self.task.load_split(data / dataset, split, threads=params.compute.threads)
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{model} cannot be judged on {dataset}, on which its challenger was trained ({error}). To do "
                    f"without its judgement: {self._by_hand}"
                ) from error

    @property
    def _by_hand(self) -> str:
        return f"`rankops promote {self.model} --version N`"

    def __call__(self, versions: Sequence[str]) -> dict[str, Figures]:
        loaded, figures = {}, {}
        for version in versions:
            with TemporaryDirectory() as scratch:
                folder = self._weights(version, Path(scratch))
                with self._named(version):
                    loaded[version] = load_sorter(folder) if self.task is None else self.task.load(folder)
        length = self._length(loaded) if self.task is None else None
        for version, one in loaded.items():
            with self._named(version):
                if length is None:
                    figures[version] = self.task.figures(self.task.predictions(one, self.split), self.split)
                else:
                    figures[version] = _sorter_figures(one, length, self.params.gate.seed)
        return figures

    def _weights(self, version: str, to: Path) -> Path:
        try:
            return self.registry.weights(self.model, version, to)
        except ServerUnreachable:
            raise
        except ValueError as error:
            raise ValueError(f"{error}. To do without its judgement: {self._by_hand}") from error

    @contextmanager
    def _named(self, version: str) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # code that did not make a version fails on it in any way
            raise ValueError(
                f"{self.model} version {version} cannot be judged by this checkout's code, which may not be the one "
                f"that made it ({on_one_line(error)}). To do without its judgement: {self._by_hand}"
            ) from error

    def _length(self, loaded: dict[str, Sorter]) -> int:
        """Of the vectors: what the sorters were made for, as longer ones are harder."""
        fixed = {version: sorter.length for version, sorter in loaded.items() if sorter.length is not None}
        if len(set(fixed.values())) > 1:
            raise ValueError(
                f"{self.model} versions {' and '.join(fixed)} sort {' and '.join(map(str, fixed.values()))} scores, so "
                f"they cannot be compared: choose by hand, {self._by_hand}"
            )
        return next(iter(fixed.values()), self.params.score_vectors.length)


def decide(
    registry: Registry, model: str, params: Settings, *, folder: Path = Path("."), over_person: bool = False
) -> Decision:
    """Compares the challenger with the champion on the same examples, and moves `champion` if it is better.

    It is better if the judged figure is higher by `minimum_gain` at least and the paired bootstrap interval of the
    difference lies above 0, while no guarded figure is lower by more than `tolerance`. The decision and its evidence
    are written to the challenger's tags and description. A champion that a person set, in the UI, by `promote_by_hand`
    or by `roll_back`, is not replaced unless `over_person`. Run again, it decides the same and changes nothing.

    Args:
        registry: of models.
        model: registered name.
        params: with the gate's block.
        folder: the checkout whose data and `dvc.lock` are looked at.
        over_person: replace a champion that a person set.

    Raises:
        ServerUnreachable: the store failed.
        ValueError: the model is not ours, it or its champion is not there, a version lacks what it takes to judge it,
            the versions cannot be compared, or the champion was moved in the meantime. No champion is changed then.
    """
    with _alone(model):
        aliases = registry.aliases(model)
        if _task(model, params) is None:
            raise ValueError(
                f"{model} is no model of this project: expected a name that begins with one of "
                f"{', '.join(params.gate.judged)}; the params have {', '.join(known(params))}"
            )
        champion, challenger = aliases.get("champion"), aliases.get("challenger")
        if champion is None:
            raise ValueError(
                f"{model} has no champion: it was deleted. Choose one: `rankops promote {model} --version N` "
                f"(versions: {', '.join(registry.versions(model)) or 'none'})"
            )
        if challenger is None:
            return Decision(model, None, champion, False, "there is no challenger", "", {})
        dataset = None if model.startswith("sorter-") else _dataset(registry, model, challenger)
        if challenger == champion:
            if not registry.description(model, challenger).startswith(_title(model, challenger)):
                _write_card(registry, model, challenger, folder)
            return Decision(model, challenger, champion, False, "the challenger is the champion already", "", {})
        other = registry.run_params(model, champion).get("dataset", dataset) if dataset else None
        if other != dataset:
            raise ValueError(
                f"{model} version {challenger} was trained on {dataset} and its champion, {champion}, on {other}, so "
                f"they cannot be compared: choose by hand, `rankops promote {model} --version N`"
            )
        judge = _Judge(registry, model, params, dataset, folder / "data")
        figures = judge((challenger, champion))
        options = params.gate
        differences = compare(
            figures[challenger], figures[champion], resamples=options.resamples, confidence=options.confidence,
            seed=derived_seed(options.seed, "gate", model),
        )  # fmt: skip
        better, reason = _verdict(differences, judge.judged, options)
        if better and not over_person and _chosen_by_person(registry, model, champion):
            better = False
            reason += f"; but version {champion} was made champion by a person: `rankops promote {model} --over-person`"
        evidence = {
            "gate.decision": "promoted" if better else "rejected",
            "gate.reason": reason,
            "gate.against": champion,
            "gate.examples": judge.examples,
            "gate.figure": judge.judged.figure,
            **{
                f"gate.{name}": f"{d['value']:+.4f} ({d['low']:+.4f} to {d['high']:+.4f})"
                for name, d in differences.items()
                if name in (judge.judged.figure, *judge.judged.guarded)
            },
        }
        values = evaluate(figures[challenger], resamples=options.resamples, seed=derived_seed(options.seed, "gate"))
        if registry.aliases(model).get("champion") != champion:
            raise ValueError(f"{model}: its champion was moved while it was judged; nothing was changed: try again")
        registry.tag_version(model, challenger, evidence)
        _write_card(registry, model, challenger, folder, judge.examples, values, evidence)
        if better:
            try:
                registry.set_champion(model, challenger, by="gate", instead_of=champion)
            except ValueError as error:
                registry.tag_version(model, challenger, {"gate.decision": "not carried out", "gate.reason": str(error)})
                raise
        return Decision(model, challenger, champion, better, reason, judge.judged.figure, differences)


def known(params: Settings) -> list[str]:
    """The registered names of what the params train: a team's store may have other models, not ours to judge."""
    return [f"sorter-{name}" for name in params.sorters] + sorted(set(map(params.model_of, params.all_runs.values())))


def decide_all(registry: Registry, models: list[str], params: Settings, **options: Any) -> list[Decision]:
    """Each model's decision; one that cannot be judged keeps none of the others from it.

    Args:
        registry, params, options: see `decide`.
        models: registered names.

    Raises:
        ServerUnreachable: the store failed; decisions that were made stand, and are found made by the next call.
    """
    decisions = []
    for model in models:
        try:
            decisions.append(decide(registry, model, params, **options))
        except ServerUnreachable:
            raise
        except ValueError as error:
            decisions.append(Decision(model, None, None, False, str(error), "", {}, failed=True))
    return decisions


def _task(model: str, params: Settings) -> str | None:
    """Which of the gate's blocks a registered name goes by, see `Settings.model_of`; None if by none of them.

    Models of runs that the params no longer have are judged too.
    """
    return next((task for task in params.gate.judged if model == task or model.startswith(f"{task}-")), None)


def _dataset(registry: Registry, model: str, version: str) -> str:
    known = registry.run_params(model, version)
    if "dataset" not in known:
        raise ValueError(
            f"{model} version {version} has no run that says on which dataset it was trained, so it cannot be judged: "
            "publish it by the pipeline, or promote it by hand with --version"
        )
    return known["dataset"]


def _verdict(differences: dict[str, dict[str, float]], judged: Any, options: Any) -> tuple[bool, str]:
    gain = differences[judged.figure]
    said = f"{judged.figure} {gain['value']:+.4f} ({gain['low']:+.4f} to {gain['high']:+.4f})"
    if gain["low"] <= 0:
        return False, f"{said}: not better beyond chance"
    if gain["value"] < options.minimum_gain:
        return False, f"{said}: less than the minimum gain of {options.minimum_gain:g}"
    for name in judged.guarded:
        if differences[name]["value"] < -options.tolerance:
            return False, f"{said}, but {name} fell by {-differences[name]['value']:.4f}, over {options.tolerance:g}"
    return True, f"{said}: better beyond chance"


def _title(model: str, version: str) -> str:
    return f"# {model}, version {version}"


def _hash_of_lock(folder: Path, tags: dict[str, str]) -> str | None:
    """Of the checkout's `dvc.lock`, if that is of the data that made a version with these tags."""
    path = folder / "dvc.lock"
    if not path.is_file():
        return None
    try:
        entries = dvc_lock.stages(path)
    except ValueError:  # half merged, say: no reason to judge nothing
        return None
    parts = (part for entry in entries.values() for part in entry.get("deps", []))
    known = {f"{dvc_lock.INPUT}{part['path']}": part.get("md5") for part in parts}
    inputs = {name: value for name, value in tags.items() if name.startswith(dvc_lock.INPUT)}
    return sha256(path.read_bytes()).hexdigest()[:16] if inputs.items() <= known.items() else None


def _write_card(
    registry: Registry, model: str, version: str, folder: Path, examples: str = "", values: dict | None = None,
    evidence: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """The version's description: what it is, from what, how good, and by which decision."""
    tags, run = registry.version_tags(model, version), registry.run_params(model, version)
    lines = [f"{_title(model, version)}: {tags.get('run', 'by hand')}", ""]
    lines += [f"Trained by `{tags.get('stage', '?')}` on {run.get('dataset', 'synthetic vectors')}."]
    lines += ["", "| figure | value | 95 % |", "|---|---|---|"] if values else []
    found = flat(values or {})
    for name in (place.removesuffix(".value") for place in found if place.endswith(".value")):
        if np.isfinite(found[f"{name}.value"]):
            low, high = found[f"{name}.low"], found[f"{name}.high"]
            lines.append(f"| {name} | {found[f'{name}.value']:.4f} | {low:.4f} to {high:.4f} |")
    if values:
        known = "on which epochs were chosen" if examples.endswith("/val") else "which training never saw"
        lines += ["", f"On {examples}, {known}, apart from the reported test."]
    if evidence:
        lines += ["", f"Gate: {evidence['gate.decision']}; {evidence['gate.reason']}."]
    commit = registry.run_tags(model, version).get("git_commit", "unknown")
    lines += ["", f"Lineage: commit {commit}"]
    if of_lock := _hash_of_lock(folder, tags):
        lines[-1] += f", dvc.lock {of_lock}"
    if page := registry.run_page(model, version):
        lines[-1] += f"; its plots and files: [run]({page}/artifacts)"
    lines += [f"- {name}: {value}" for name, value in sorted(tags.items()) if name.startswith(dvc_lock.INPUT)]
    lines += ["", "Params: " + ", ".join(f"{name}={value}" for name, value in sorted(run.items()))]
    registry.describe(model, version, "\n".join(lines)[:5000])


def promote_by_hand(registry: Registry, model: str, version: str) -> str | None:
    """Makes a version champion because a person says so; returns the one it replaced.

    Raises:
        ValueError: there is no such version.
    """
    with _alone(model):
        if version not in registry.versions(model):
            there = ", ".join(registry.versions(model)) or "none"
            raise ValueError(f"{model} has no version {version}; there are {there}")
        replaced = registry.aliases(model).get("champion")
        registry.set_champion(model, version, by="person")
        return replaced


def roll_back(registry: Registry, model: str) -> tuple[str | None, str]:
    """Gives `champion` back to the version that held it before; returns the one it was taken from, and that one.

    Raises:
        ValueError: no earlier champion is known, or left.
    """
    with _alone(model):
        now = registry.aliases(model).get("champion")
        there = set(registry.versions(model))
        earlier = [version for version in registry.champions(model) if version != now and version in there]
        if not earlier:
            raise ValueError(
                f"{model}: no earlier champion is known; choose one with `rankops promote {model} --version N`"
            )
        registry.set_champion(model, earlier[-1], by="rollback")
        return now, earlier[-1]
