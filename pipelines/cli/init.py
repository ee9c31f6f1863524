"""Write a table of one's own into the params: its dataset, runs and their comparison."""

import json
import os
import re
from copy import copy, deepcopy
from io import StringIO
from math import floor, log10
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.shared import errors_in_a_line, table, typed_here
from rankgrad.lookup import did_you_mean
from rankgrad.numbers import Writing

__all__ = ["blocks_of", "init"]

RAW = Path("data/raw")
SEEDS = 3
WIDTH = 70  # of values in the params that DVC leaves on their line
SIZE = 96  # pixels on a side of pictures
SKEWED, GRADES = 1.0, 10  # skewness of targets, and how many different ones, beyond which their log is a rival
# From random weights, of a table that may be small: steps enough to learn. Those of drawn data would be a few.
FROM_SCRATCH = {"batch_size": 64, "finetune": {"epochs": 30, "patience": 10}}
CONVNET = {"name": "convnet", "args": {"channels": [32, 64, 96]}}


def _learns(
    loss: str, args: dict[str, Any] | None = None, *, sorter: str = "none", auxiliary: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a run learns from, as the params have it."""
    return {"loss": {"name": loss, "args": args or {}}, "sorter": sorter, "auxiliary": auxiliary or {"name": "none"}}


MARGIN = {"name": "multilabel_soft_margin", "args": {}, "weight": 5.0, "epochs": None}
# Of each task: the metric that is compared, then the usual loss and the ranking losses that win most often.
LOSSES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "label_ranking": ("ranked.accuracy", [_learns("multilabel_cross_entropy"), _learns("rlsep", {"pairs": None})]),
    "multilabel": (
        "mean_average_precision",
        [_learns("multilabel_soft_margin"), _learns("average_precision", sorter="laplace", auxiliary=MARGIN)],
    ),
    "score_ranking": ("spearman", [_learns("mse"), _learns("spearman", sorter="laplace"), _learns("ranknet")]),
    "query_ranking": ("ndcg", [_learns("mse"), _learns("lambdarank")]),
    "retrieval": (
        "image_to_text.recall_at_1",
        [_learns("hard_negative_triplet", {"margin": 0.4}), _learns("mean_log_rank", sorter="laplace")],
    ),
}


def init(
    file: Annotated[Path, typer.Argument(callback=typed_here, help="CSV, TSV, JSON lines, Parquet or SVMlight.")],
    task: Annotated[
        str | None, typer.Option(help="label_ranking, multilabel, score_ranking, query_ranking, retrieval.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="What the dataset is to be called; by default as its folder.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the number to rank by.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text that is read.")] = None,
    group: Annotated[str | None, typer.Option(help="Column whose rows stay in one split.")] = None,
    query: Annotated[str | None, typer.Option(help="Column whose rows are the documents of a query.")] = None,
    own: Annotated[str | None, typer.Option("--id", help="Column that names each row.")] = None,
    encoding: Annotated[str, typer.Option(help="Of text.")] = "utf-8",
    decimal: Annotated[str | None, typer.Option(help="The point or comma in numbers that are text.")] = None,
    thousands: Annotated[str | None, typer.Option(help="What groups three digits in them: . , ' or a space.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the drawn datasets and their runs in the params.")] = False,
    link: Annotated[
        bool, typer.Option("--link", help="Link the file's folder into data/raw, if it lies elsewhere.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the blocks, write nothing.")] = False,
    params: Annotated[Path, typer.Option(callback=typed_here, help="The params to write.")] = Path("params.yaml"),
) -> None:
    """Look at a table of your own, and write its dataset, runs and their comparison into the params.

    The drawn datasets leave the params with their runs, so that `dvc repro compare` trains yours alone.
    """
    roles = {"target": target, "text": text, "group": group, "query": query, "id": own}
    with errors_in_a_line():
        if task is not None and task not in LOSSES:
            raise ValueError(f"--task: no {task!r}; there are {', '.join(LOSSES)}{did_you_mean(task, [*LOSSES])}")
        writing = None if decimal is None and thousands is None else _writing(decimal, thousands)
        named = {role: name for role, name in roles.items() if name is not None}
        _init(
            file,
            {"task": task, "encoding": encoding, "writing": writing, "named": named},
            key,
            keep,
            link,
            dry_run,
            params,
        )


def _writing(decimal: str | None, thousands: str | None) -> Writing:
    writing = Writing(decimal or ("," if thousands == "." else "."), thousands or "")
    if writing.decimal not in (".", ",") or writing.thousands not in ("", ".", ",", " ", "'"):
        raise ValueError(
            f"--decimal {decimal!r} --thousands {thousands!r}: expected . or , and one of . , ' or a space"
        )
    return writing


def _init(
    file: Path, known: dict[str, Any], key: str | None, keep: bool, link: bool, dry_run: bool, params: Path
) -> None:
    from pipelines.cli.guess import guess

    key = _key(key or (file.parent.name if _below_raw(file) else file.stem))
    found = guess(file, **known)
    raw = _raw(file, key, link=link, dry_run=dry_run)
    blocks = blocks_of(key, raw, found.task, found.options, folder=file.parent)
    typer.echo(f"{file}: {found.task}")
    table("understood", rows=[[line] for line in [*found.told, *_told(blocks, key)]])
    if dry_run:
        typer.echo(_as_yaml(blocks))
        return
    left_out = _write(params, blocks, keep=keep)
    typer.echo(f"{params}: the dataset {key}, the runs {', '.join(blocks['runs'])} and the comparison {key}")
    if left_out:
        typer.echo(f"left out of {params}: {left_out}; git has them, and --keep keeps them")
    typer.echo(
        f"next: look over {params}, then\n  rankgrad check\n  dvc repro compare\n  dvc repro && rankgrad promote\n"
        f"  git commit {params} dvc.lock --message {key}  # a retraining takes what is committed alone\n"
        f"reports/data/{key}.html says what was understood of the data; metrics/comparisons has the difference."
    )


def _key(name: str) -> str:
    """Return a name as a key of the params: letters, digits, _ and -."""
    return re.sub(r"[^\w-]+", "_", name, flags=re.ASCII).strip("-_")[:60] or "table"


def _below_raw(file: Path) -> Path | None:
    """Return the folder of a file, if that is one below data/raw, links followed or not; else None."""
    folder, raw = Path(os.path.abspath(file)).parent, Path(os.path.abspath(RAW))
    return RAW / folder.relative_to(raw) if raw in folder.parents else None


def _raw(file: Path, key: str, *, link: bool, dry_run: bool) -> Path:
    """Return the folder below data/raw that has the file, or will have it by a link.

    Raises:
        ValueError: it lies elsewhere, and is not to be linked.
    """
    below, folder = _below_raw(file), RAW / key
    if below is not None or dry_run:
        return below or folder
    if not link:
        raise ValueError(
            f"{file}: stages read below {RAW}: `mkdir {folder}`, move the file and its pictures there, and `rankgrad "
            f"init {folder / file.name}`; or --link makes {folder} a link to {file.parent}"
        )
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: is there already; expected no such name: choose another by --key")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(file.parent.resolve(), target_is_directory=True)
    typer.echo(f"{folder}: links to {file.parent.resolve()}")
    return folder


def blocks_of(key: str, raw: Path, task: str, options: dict[str, Any], *, folder: Path | None = None) -> dict[str, Any]:
    """Return the blocks of the params for a table: `datasets`, `runs` and `comparisons`.

    Args:
        key: of the dataset, and what its runs begin with.
        raw: its folder.
        task: of its runs.
        options: of `rankgrad.datasets.table.Table`.
        folder: that has the file now; None for `raw`.
    """
    pictures = "image" in options or "frames" in options
    dataset = {"name": "table", "raw": str(raw), "args": options, **({"size": SIZE} if pictures else {}), "seed": 1}
    metric, learned = LOSSES[task]
    usual = learned[0]["loss"]["name"]
    runs, targets = {}, _targets(folder or raw, options) if task == "score_ranking" else None
    for learns in deepcopy(learned):
        if targets is not None and learns["loss"]["name"] == "mse":
            learns["loss"]["args"] = {"sigmoid": bool(targets.between(0, 1).all())}
        runs[f"{key}-{learns['loss']['name']}"] = {
            "task": task,
            "dataset": key,
            "model": _model(task, options),
            "start": "models/runs/none",
            **learns,
            "seeds": SEEDS,
            **({"training": deepcopy(FROM_SCRATCH)} if task in ("score_ranking", "multilabel", "retrieval") else {}),
        }
    if targets is not None and _are_skewed(targets) and targets.min() >= 0:
        logs = deepcopy(runs[f"{key}-mse"])
        logs["loss"]["args"]["sigmoid"] = False
        logs["training"]["log_plus"] = 10.0 ** floor(log10(targets.mean())) / 100
        runs[f"{key}-mse_log"] = logs
    first, *others = runs
    ranking = " or ".join(name.removeprefix(f"{key}-") for name in others)
    question = f"Does {ranking} rank {key} better than {usual}?"
    comparison = {"question": question, "baseline": first, "runs": others, "metric": metric}
    return {"datasets": {key: dataset}, "runs": runs, "comparisons": {key: comparison}}


def _model(task: str, options: dict[str, Any]) -> dict[str, Any]:
    if "text" in options:
        return {"name": "linear", "args": {}, "backbone": {"name": "words", "args": {}}}
    if "image" not in options and "frames" not in options:
        return {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": [64]}}}
    head = {
        "label_ranking": ("label_attention", {}),
        "retrieval": ("linear", {"grid": 4}),
    }.get(task, ("linear", {"maximum": True}))
    return {"name": head[0], "args": head[1], "backbone": CONVNET}


def _are_skewed(targets: Any) -> bool:
    """Whether targets are numbers, not a few grades, with a tail of large ones."""
    return targets.nunique() > GRADES and targets.skew() > SKEWED


def _targets(folder: Path, options: dict[str, Any]) -> Any:
    """Return the targets of a table, or of the file of its training rows: a series of pandas."""
    import pandas as pd

    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.cells import as_numbers, missing_in
    from rankgrad.datasets.tables.files import read_sheet

    table = Table(**options)
    name = options["file"]["train"] if isinstance(options["file"], dict) else options["file"]
    sheet = read_sheet(
        [folder / Path(name).name], lambda _: [options["target"]],
        kind=table.format, encoding=table.encoding, writing=table.writing,
    )  # fmt: skip
    cells = sheet.frame.iloc[:, 0]
    cells = cells[~missing_in(cells, numeric=True)]
    return pd.Series(as_numbers(sheet, cells), cells.index)


def _told(blocks: dict[str, Any], key: str) -> list[str]:
    from rankgrad.datasets.tables.roles import SHARES

    dataset = blocks["datasets"][key]
    options = dataset["args"]
    structure = ", ".join(f"{role} from {options[role]}" for role in ("group", "weight", "id") if role in options)
    split = options.get("split")
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in SHARES.items())
    if isinstance(split, dict):
        splits = f"by a hash of {split['hash_of']}: {shares}; rows never change sides"
    elif isinstance(options["file"], dict):
        splits = "by files; half of val is the gate, by a hash"
    elif split:
        splits = f"from the column {split}"
    else:
        splits = f"by a hash of each row's input: {shares}; to edit the input of a row moves it, nothing else does"
    lines = [f"splits: {splits}", f"runs: {', '.join(blocks['runs'])}, {SEEDS} seeds each"]
    if "size" in dataset:
        lines.append(f"pictures: the middle square, {SIZE} pixels on a side (`size`)")
    return ([f"structure: {structure}"] if structure else []) + lines


def _flow(value: Any) -> Any:
    """Return plain values as ruamel.yaml writes them on one line."""
    from ruamel.yaml import YAML

    return YAML().load(json.dumps(value, ensure_ascii=False))


def _laid_out(blocks: dict[str, Any]) -> dict[str, Any]:
    """Return blocks whose entries, and the options of a dataset, are a line each; lists and long ones are more."""
    from ruamel.yaml.comments import CommentedMap

    def value_of(value: Any) -> Any:
        if isinstance(value, dict) and len(str(value)) > WIDTH:
            return CommentedMap({one: _flow(inner) for one, inner in value.items()})
        return value if isinstance(value, list) else _flow(value)

    def entry_of(entry: dict[str, Any]) -> Any:
        options = {"args": CommentedMap({one: _flow(value) for one, value in entry.get("args", {}).items()})}
        lines = {one: value_of(value) for one, value in entry.items()}
        return CommentedMap(lines | (options if "args" in entry else {}))

    return {
        name: CommentedMap({key: entry_of(entry) for key, entry in block.items()}) for name, block in blocks.items()
    }


def _as_yaml(blocks: dict[str, Any]) -> str:
    from pipelines.config.scales import round_trip

    text = StringIO()
    round_trip().dump(_laid_out(blocks), text)
    return text.getvalue()


def _comment_behind(block: Any) -> Any:
    """Take away and return the comment behind a block: it is at its last value, but of the next one."""
    while isinstance(block, dict) and block:
        last = next(reversed(block))
        tokens = block.ca.items.get(last)
        line, _, rest = tokens[2].value.partition("\n") if tokens and tokens[2] else ("", "", "")
        if rest.strip():
            token = copy(tokens[2])
            token.value, tokens[2].value = f"\n{rest}", f"{line}\n"
            return token
        block = block[last]
    return None


def _write(params: Path, blocks: dict[str, Any], *, keep: bool) -> str:
    """Write blocks into the params, which keep their comments and order; return what left them.

    Nothing is written if the params would not pass the check.
    """
    from pipelines.config.errors import ParamsError, Problem
    from pipelines.config.rules import check_values
    from pipelines.config.scales import round_trip
    from pipelines.config.schema import read
    from rankgrad.io.atomic import replaced_file

    yaml = round_trip()
    values: Any = read(params, yaml)
    gone = {} if keep else _drawn_in(values)
    behind = {block: _comment_behind(values[block]) for block in blocks}
    _remove(values, gone)
    for block, entries in _laid_out(blocks).items():
        if twice := [name for name in entries if name in values[block]]:
            advice = "remove it, or choose another name by --key"
            raise ParamsError(Problem(f"{block}.{twice[0]}", "is there already", advice=advice), path=params)
        values[block].update(entries)
        if behind[block] is not None:
            last = entries[next(reversed(entries))]
            last.ca.items[next(reversed(last))] = [None, None, behind[block], None]
    named = {run["sorter"] for run in values["runs"].values()}
    unused = {} if keep else {"sorters": [name for name in values["sorters"] if name not in named]}
    _remove(values, unused)  # some take minutes to train
    if not keep:
        _empty(values, "benchmark_sorters")
        used = {sorter["vectors"] for sorter in values["sorters"].values()}
        if not used & {*values.get("score_vectors", {})}:
            _empty(values, "score_vectors")
    with replaced_file(params) as partial:
        with partial.open("w") as written:
            yaml.dump(values, written)
        check_values(read(partial), path=params)  # as DVC will read it
    told = {"datasets": "drawn datasets", "sorters": "sorters that no run names"}
    return ", ".join(f"{len(names)} {told.get(block, block)}" for block, names in (gone | unused).items() if names)


def _empty(values: Any, block: str) -> None:
    """Leave nothing in an optional block but the comment behind it, which is about the next block."""
    if values.get(block):
        comment = _comment_behind(values[block])
        values[block] = {}
        if comment is not None:
            values.ca.items[block] = [None, None, comment, None]


def _remove(values: dict[str, Any], gone: dict[str, list[str]]) -> None:
    for block, names in gone.items():
        for name in names:
            del values[block][name]


def _drawn_in(values: dict[str, Any]) -> dict[str, list[str]]:
    """Return the datasets that are drawn, with their runs and comparisons, by their block."""
    drawn = [name for name, dataset in values["datasets"].items() if dataset.get("rows")]
    runs = [name for name, run in values["runs"].items() if run["dataset"] in drawn]
    comparisons = [name for name, one in values["comparisons"].items() if {one["baseline"], *one["runs"]} & {*runs}]
    return {"datasets": drawn, "runs": runs, "comparisons": comparisons}
