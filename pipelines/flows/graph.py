"""DVC's graph of the stages, which the flows follow."""

from pathlib import Path

import networkx
from dvc.repo import Repo

__all__ = ["LAST", "stages"]

LAST = "publish"  # the stage that needs all others


def stages(folder: str | Path) -> dict[str, list[str]]:
    """Return the stages behind `publish` in an order in which they can run, each with the names of those that it needs.

    Others are of data from which no run learns.
    """
    with Repo(str(folder)) as repo:
        graph = repo.index.graph  # from a stage to what it needs
        (last,) = (stage for stage in graph if stage.name == LAST)
        graph = graph.subgraph([last, *networkx.descendants(graph, last)])
        ordered = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: stage.name)
        return {stage.name: sorted(need.name for need in graph.successors(stage)) for stage in ordered}
