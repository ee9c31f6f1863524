"""DVC's graph of the stages, which the flows follow."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import networkx
from dvc.dependency.param import ParamsDependency
from dvc.repo import Repo
from dvc.stage import PipelineStage

__all__ = ["LAST", "Stage", "stages"]

LAST = "publish"  # the stage that needs all others


@dataclass(frozen=True)
class Stage:
    """A stage of DVC's graph.

    Attributes:
        needs: the stages that it needs.
        computes: whether a GPU is of use to it: it depends on the params `compute`.
    """

    needs: list[str]
    computes: bool


def stages(folder: str | Path, targets: Collection[str] = (LAST,)) -> dict[str, Stage]:
    """Return some stages and those behind them, in an order in which they can run.

    Behind `publish` are all but those of data from which no run learns.
    """
    with Repo(str(folder)) as repo:
        graph = repo.index.graph  # from a stage to what it needs
        wanted = [stage for stage in graph if stage.name in targets]
        graph = graph.subgraph([*wanted, *(need for one in wanted for need in networkx.descendants(graph, one))])
        ordered = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: stage.name)
        return {
            stage.name: Stage(sorted(need.name for need in graph.successors(stage)), _computes(stage))
            for stage in ordered
        }


def _computes(stage: PipelineStage) -> bool:
    return any("compute" in one.params for one in stage.deps if isinstance(one, ParamsDependency))
