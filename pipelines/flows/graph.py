"""DVC's own graph of the stages, which the flows follow."""

from pathlib import Path

import networkx
from dvc.repo import Repo

__all__ = ["stages"]


def stages(folder: str | Path) -> dict[str, list[str]]:
    """The stages of a checkout's `dvc.yaml`, each after all that it needs, with the names of those.

    Args:
        folder: the checkout.
    """
    repo = Repo(str(folder))
    graph = repo.index.graph  # from a stage to what it needs
    chosen = [stage for stage in graph if stage.path_in_repo == "dvc.yaml"]  # experiments are not retrained
    ordered = networkx.lexicographical_topological_sort(graph.subgraph(chosen).reverse(), key=lambda stage: stage.name)
    return {stage.name: sorted(need.name for need in graph.successors(stage)) for stage in ordered}
