"""Write the blocks of a table into params.yaml, keeping its comments and order."""

import re
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from pipelines.config.errors import ParamsError, Problem
from pipelines.config.rules import check_values
from pipelines.config.scales import round_trip
from pipelines.config.schema import read
from rankgrad.io.atomic import replaced_file

__all__ = ["as_yaml", "write"]

WIDTH = 70  # longest value that DVC does not break into lines
SORTERS = {
    "laplace": {"name": "laplace", "args": {"softness": 0.2}, "vectors": "none"}
}  # for runs that `rankgrad init` writes


def as_yaml(blocks: dict[str, Any]) -> str:
    """Return blocks as YAML text, in the layout of the params."""
    nested = {name: block for name, block in blocks.items() if block and name != "judged"}
    text = StringIO()
    round_trip().dump(_laid_out(nested | {"gate": {"judged": blocks["judged"]}}), text)
    return text.getvalue()


def write(params: Path, blocks: dict[str, Any], *, keep: bool, replace: bool = False) -> str:
    """Write blocks into the params, keeping comments and order.

    Nothing is written if the new params would fail the check.

    Args:
        params: path of the params file.
        blocks: from `pipelines.cli.starting_runs.blocks_of`.
        keep: whether to keep the generated datasets and their runs.
        replace: whether to remove datasets of the same names first, with all that uses them.

    Returns:
        A description of the removed blocks.
    """
    yaml = round_trip()
    values: Any = read(params, yaml)
    for block in ("datasets", "sorters", "runs", "comparisons", "gate"):  # the check below names what else is missing
        if values.get(block) is None:
            values[block] = CommentedMap()
    if values["gate"].get("judged") is None:
        values["gate"]["judged"] = CommentedMap()
    comments = _comments_behind(values)
    datasets = []
    for name, dataset in values["datasets"].items():
        if (dataset.get("rows") and not keep) or (replace and name in blocks["datasets"]):
            datasets.append(name)
    removed = _remove_datasets(values, datasets)
    _add(values, blocks, params)
    if not keep:
        removed["sorters that no run uses"] = _remove_sorters(values)
    for key, comment in comments.items():
        if comment and key in values:
            values.yaml_set_comment_before_after_key(key, before=comment)
    with replaced_file(params) as partial:
        with partial.open("w") as written:
            yaml.dump(values, written)
        check_values(read(partial), path=params)  # read like DVC does
    return ", ".join(f"{count} {name}" for name, count in removed.items() if count)


def _add(values: Any, blocks: dict[str, Any], params: Path) -> None:
    """Add the blocks, and the sorters of their runs; raise a ParamsError if a name exists."""
    if blocks["rivals"] and values.get("rivals") is None:
        values.pop("rivals", None)
        values.insert([*values].index("comparisons"), "rivals", CommentedMap())
    for block in ("datasets", "runs", "rivals", "comparisons"):
        for name, entry in _laid_out(blocks[block], depth=1).items():
            if name in values[block]:
                advice = "pass --replace to overwrite it and its runs, or choose another name with --key"
                raise ParamsError(Problem(f"{block}.{name}", "already exists", advice=advice), path=params)
            values[block][name] = entry
    for model, entry in blocks["judged"].items():
        of_task = values["gate"]["judged"].get(model.partition("-")[0], {})
        guarded = [metric for metric in of_task.get("guarded", []) if metric != entry["metric"]]
        values["gate"]["judged"][model] = _laid_out({**of_task, **entry, "guarded": guarded}, depth=3)
    for sorter in {run["sorter"] for run in blocks["runs"].values()} & SORTERS.keys():
        # An earlier `init` may have removed it.
        values["sorters"].setdefault(sorter, _laid_out(SORTERS[sorter], depth=3))


def _laid_out(value: Any, depth: int = 0) -> Any:
    """Return plain values in a layout for ruamel.yaml: entries and options on separate lines, short values on one."""
    if isinstance(value, list):
        block = CommentedSeq(_laid_out(item, depth + 1) for item in value)
        is_short = depth > 3
    elif isinstance(value, dict):
        block = CommentedMap({name: _laid_out(item, depth + 1) for name, item in value.items()})
        is_short = depth > 2 and len(str(value)) <= WIDTH
    else:
        return value
    if is_short or not value:
        block.fa.set_flow_style()
    return block


def _comments_behind(values: Any) -> dict[str, str]:
    """Remove and return the comment before each block, which ruamel.yaml attaches to the end of the previous block.

    Otherwise it would be lost together with that block.
    """
    comments = {}
    for key, following in pairwise(values):
        block = values[key]
        while isinstance(block, dict) and block:
            last = next(reversed(block))
            tokens = block.ca.items.get(last)
            if tokens and tokens[2] and "\n" in tokens[2].value:
                line, _, comment = tokens[2].value.partition("\n")
                tokens[2].value = f"{line}\n"
                comments[following] = re.sub(r"^# ?", "", comment.rstrip(), flags=re.MULTILINE)
            block = block[last]
    return comments


def _remove_datasets(values: Any, datasets: list[str]) -> dict[str, int]:
    """Remove datasets with their runs, rivals, and comparisons; return the number of each."""
    rivals = values.get("rivals") or {}
    runs = [name for name, run in values["runs"].items() if run["dataset"] in datasets]
    comparisons, of_other_programs = [], set[str]()
    for name, comparison in values["comparisons"].items():
        if {comparison["baseline"], *comparison["runs"]} & {*runs}:
            comparisons.append(name)
            of_other_programs |= {*comparison.get("rivals", [])} - values["runs"].keys() - rivals.keys()
    _remove(values["datasets"], datasets)
    _remove(values["runs"], runs)
    _remove(rivals, [name for name, rival in rivals.items() if rival["dataset"] in datasets])
    _remove(values["comparisons"], comparisons)
    judged = values["gate"]["judged"]
    _remove(judged, [model for model in judged if model.partition("-")[2] in datasets])
    removed = {"datasets": len(datasets), "runs": len(runs), "comparisons": len(comparisons)}
    if of_other_programs:
        names = ", ".join(sorted(of_other_programs))
        removed[f"rivals of other programs, to add to the new comparison again: {names}"] = len(of_other_programs)
    return removed


def _remove_sorters(values: Any) -> int:
    """Remove sorters that no run uses, which take minutes to train, with their vectors and benchmarks."""
    named = {run["sorter"] for run in values["runs"].values()}
    unused = [name for name in values["sorters"] if name not in named]
    _remove(values["sorters"], unused)
    values.pop("benchmark_sorters", None)
    if not any(sorter["vectors"] in (values.get("score_vectors") or {}) for sorter in values["sorters"].values()):
        values.pop("score_vectors", None)
    return len(unused)


def _remove(block: Any, names: list[str]) -> None:
    for name in names:
        del block[name]
