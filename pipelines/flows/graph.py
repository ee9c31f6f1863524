"""DVC's graph of the stages, which the flows follow."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import networkx
from dvc.repo import Repo
from dvc.stage import PipelineStage

__all__ = ["Stage", "stages"]

COMPUTING = ("pretrain@", "train@", "evaluate@")  # stages that put a network on compute.device


@dataclass(frozen=True)
class Stage:
    """A stage of DVC's graph.

    Attributes:
        needs: the stages that it needs.
        computes: whether a GPU is of use to it.
    """

    needs: list[str]
    computes: bool


def stages(folder: str | Path, targets: Collection[str] = ()) -> dict[str, Stage]:
    """Return the targets and the stages behind them, each after those that it needs; without targets all stages."""
    with Repo(str(folder)) as repo:
        graph = repo.index.graph  # from a stage to what it needs
        # Without data that DVC keeps, such as data/raw/mnist.dvc, which have no command.
        graph = graph.subgraph([node for node in graph if isinstance(node, PipelineStage)])
        if targets:
            behind = {stage for stage in graph if stage.name in targets}
            for stage in [*behind]:
                behind |= networkx.descendants(graph, stage)
            graph = graph.subgraph(behind)
        ordered = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: stage.name)
        result = {}
        for stage in ordered:
            needs = sorted(need.name for need in graph.successors(stage))
            result[stage.name] = Stage(needs, stage.name.startswith(COMPUTING))
        return result
