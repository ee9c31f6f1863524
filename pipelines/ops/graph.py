"""DVC's graph of the stages, by which flows and `make repro` run stages side by side."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import networkx
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.stage import PipelineStage

from pipelines.ops.messages import one_line
from pipelines.ops.processes import PUBLISH
from rankgrad.lookup import did_you_mean

__all__ = ["Stage", "changed_outputs", "stages", "stale"]

LOCK = "dvc.lock"
COMPUTING = ("pretrain@", "train@", "evaluate@")  # stages that run a network on compute.device


@dataclass(frozen=True)
class Stage:
    """A stage of DVC's graph.

    Attributes:
        needs: the stages that it depends on.
        computes: whether it can use a GPU.
    """

    needs: list[str]
    computes: bool


def stages(folder: str | Path, targets: Collection[str] = ()) -> dict[str, Stage]:
    """Return the targets and the stages they depend on, in topological order; without targets, all stages.

    A target is a stage, such as `train@mine`, or the stages of a kind, such as `train`.

    Of stages that could run now, evaluations come first, because they are short and print a result; then those on
    which most others depend.

    Raises:
        ValueError: no stage has this name. Targets of other files, such as `figures/dvc.yaml:kanji`, are left out.
    """
    with Repo(str(folder)) as repo:
        graph = repo.index.graph  # from a stage to its dependencies
        # Skip tracked data, such as data/raw/mnist.dvc, which have no command.
        graph = graph.subgraph([node for node in graph if isinstance(node, PipelineStage)])
        if targets:
            _check_targets(targets, [stage.name for stage in graph])
            behind = {stage for stage in graph if {stage.name, stage.name.partition("@")[0]} & {*targets}}
            for stage in [*behind]:
                behind |= networkx.descendants(graph, stage)
            graph = graph.subgraph(behind)
        following = graph.reverse()  # from a stage to its dependents
        rank = {}
        for stage in following:
            dependents = len(networkx.descendants(following, stage))
            rank[stage] = not stage.name.startswith("evaluate@"), -dependents, stage.name
        ordered = networkx.lexicographical_topological_sort(following, key=rank.__getitem__)
        result = {}
        for stage in ordered:
            needs = sorted(need.name for need in graph.successors(stage))
            result[stage.name] = Stage(needs, stage.name.startswith(COMPUTING))
        return result


def _check_targets(targets: Collection[str], names: Collection[str]) -> None:
    known = {*names} | {name.partition("@")[0] for name in names}
    for target in targets:
        if target not in known and not {*target} & {":", "/", "."}:
            hint = did_you_mean(target, sorted(known)) or "; see `dvc stage list --name-only`"
            raise ValueError(f"{target}: no such stage{hint}")


def stale(folder: str | Path, targets: Collection[str] = ()) -> dict[str, Stage]:
    """Return the stages that changed and those that depend on them, except `publish`, in topological order.

    With targets, only these and the stages they depend on are returned.
    """
    with Repo(str(folder)) as repo:
        changed = {*repo.status()}
    result = dict[str, Stage]()
    for name, stage in stages(folder, targets).items():
        needs = [need for need in stage.needs if need in result]
        if name != PUBLISH and (needs or name in changed):
            result[name] = Stage(needs, stage.computes)
    return result


def changed_outputs(folder: str | Path) -> set[str]:
    """Return the outputs with other contents than in dvc.lock, such as after a merge; none without this file.

    Raises:
        ValueError: DVC cannot tell, for example because another command locks the project.
    """
    if not (Path(folder) / LOCK).is_file():
        return set()
    try:
        with Repo(str(folder)) as repo:
            states = repo.status().values()
    except DvcException as error:
        raise ValueError(f"{folder}: DVC cannot compare outputs with {LOCK}: {one_line(error)}") from error
    paths = set[str]()
    for state in chain.from_iterable(states):
        if isinstance(state, dict):  # otherwise a word, such as `changed command`
            outputs = state.get("changed outs", {})
            paths |= {path for path, change in outputs.items() if change == "modified"}  # not those that are missing
    return paths
