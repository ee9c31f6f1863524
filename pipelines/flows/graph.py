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
    """Return the targets and the stages behind them, in an order in which they can run; without targets all stages."""
    with Repo(str(folder)) as repo:
        graph = repo.index.graph  # from a stage to what it needs
        # Without data that DVC keeps, such as data/raw/mnist.dvc, which have no command.
        graph = graph.subgraph([node for node in graph if isinstance(node, PipelineStage)])
        if targets:
            target_stages = [stage for stage in graph if stage.name in targets]
            graph = graph.subgraph(
                [*target_stages, *(need for target in target_stages for need in networkx.descendants(graph, target))]
            )
        ordered = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: stage.name)
        return {
            stage.name: Stage(sorted(need.name for need in graph.successors(stage)), stage.name.startswith(COMPUTING))
            for stage in ordered
        }
