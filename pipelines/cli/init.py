"""`rankgrad init`: write a table of your own into the params, as a dataset, runs and their comparison."""

import os
import re
from io import StringIO
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from pipelines.cli.shared import errors_in_a_line, table, typed_here
from rankgrad import lookup
from rankgrad.lookup import did_you_mean
from rankgrad.numbers import Writing

__all__ = ["blocks_of", "init"]

RAW = Path("data/raw")
STARTING_RUNS = Path(__file__).with_name("starting_runs.yaml")
SEEDS = 3
WIDTH = 70  # of values in the params that DVC leaves on their line
SIZE = 96  # pixels on a side of pictures
SKEWED, GRADES = 1.0, 10  # skewness of targets, and how many different ones, beyond which their log is a rival
HEAD = 1000  # rows whose grades are looked at
JUDGED = 30  # groups without which the gate promotes nothing, see pipelines/tracking/gate.py
SORTERS = {"laplace": {"name": "laplace", "args": {"softness": 0.2}, "vectors": "none"}}  # of runs that init writes
STEPS, MOST_EPOCHS = 800, 300  # a training has so many steps at least, if it needs no more epochs than that
BACKBONES = {  # by what a backbone takes
    "image": {"name": "convnet", "args": {"channels": [32, 64, 96]}},
    "text": {"name": "words", "args": {}},
    "text_pair": {"name": "knrm", "args": {}},
    "features": {"name": "perceptron", "args": {"hidden": [64]}},
}


def init(
    file: Annotated[Path, typer.Argument(callback=typed_here, help="CSV, TSV, JSON lines, Parquet or SVMlight.")],
    task: Annotated[
        str | None,
        typer.Option(
            help="label_ranking, multilabel, score_ranking, query_ranking, retrieval; or preferences, search: forms of "
            "the last two."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Name of the dataset; by default its folder's.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Column to learn: a number, grades, labels, captions or a margin.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text that is read.")] = None,
    rejected: Annotated[str | None, typer.Option(help="Column of what --text was preferred to.")] = None,
    group: Annotated[str | None, typer.Option(help="Column whose rows stay in one split.")] = None,
    within: Annotated[
        bool, typer.Option("--within", help="Compare only rows of one group, such as those of one laboratory.")
    ] = False,
    query: Annotated[str | None, typer.Option(help="Column whose rows are the documents of a query.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="Column that names each row.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Column of days: rows of later months than the file's are deliveries.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of how much a row counts.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric by which runs are compared and versions judged.")] = None,
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

    The drawn datasets leave the params with their runs, so that `dvc repro compare` trains only yours.
    """
    from pipelines.cli.guess import guess
    from rankgrad.datasets.table import Table

    roles = {
        "target": target, "text": text, "rejected": rejected, "group": group, "query": query, "id": row_id,
        "date": date, "weight": weight,
    }  # fmt: skip
    named = {role: name for role, name in roles.items() if name is not None}
    with errors_in_a_line():
        _check_name("--task", task, _starting())
        roles_of_columns = guess(
            file, task=task, encoding=encoding, writing=_writing(decimal, thousands), named=named, within=within
        )
        key = _key(key or (file.parent.name if _below_raw(file) else file.stem))
        raw = _raw(file, key, link=link, dry_run=dry_run)
        blocks = blocks_of(key, raw, roles_of_columns.task, roles_of_columns.options, folder=file.parent, metric=metric)
        typer.echo(f"{file}: {roles_of_columns.task}")
        lines = [*roles_of_columns.lines, *_lines_on(blocks, key)]
        lines += _lines_on_gate(file, Table(**roles_of_columns.options), seed=blocks["datasets"][key]["seed"])
        table("understood", rows=[[line] for line in lines])
        if dry_run:
            typer.echo(_as_yaml(blocks))
            return
        left_out, judged_before = _write(params, blocks, keep=keep)
    typer.echo(f"{params}: the dataset {key}, the runs {', '.join(blocks['runs'])} and the comparison {key}")
    for judged_task, before in judged_before.items():
        now = blocks["judged"][judged_task]["metric"]
        typer.echo(
            f"gate.judged.{judged_task}: the metric was {before} and is {now} now, for all datasets of this task; "
            f"`--metric {before}` keeps it"
        )
    if left_out:
        typer.echo(f"left out of {params}: {left_out}; git has them, and --keep keeps them")
    typer.echo(
        f"next: look over {params}, then\n  rankgrad check\n  dvc repro compare\n  dvc repro && rankgrad promote\n"
        f"  git commit {params} dvc.lock --message {key}  # a retraining takes only what is committed\n"
        f"reports/data/{key}.html shows how the data was understood; metrics/comparisons has the difference."
    )


def _starting() -> dict[str, Any]:
    """Return what is written for a table, by task or by a form of its truth."""
    from ruamel.yaml import YAML

    return YAML(typ="safe").load(STARTING_RUNS)


def _check_name(option: str, name: str | None, names: Any) -> None:
    if name is not None and name not in names:
        raise ValueError(f"{option}: no {name!r}; there are {', '.join(names)}{did_you_mean(name, [*names])}")


def _writing(decimal: str | None, thousands: str | None) -> Writing | None:
    """Return how numbers are written, None if nothing was said."""
    if decimal is None and thousands is None:
        return None
    writing = Writing(decimal or ("," if thousands == "." else "."), thousands or "")
    if writing.decimal not in (".", ",") or writing.thousands not in ("", ".", ",", " ", "'"):
        raise ValueError(
            f"--decimal {decimal!r} --thousands {thousands!r}: expected . or , and one of . , ' or a space"
        )
    return writing


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


def blocks_of(
    key: str,
    raw: Path,
    task: str,
    options: dict[str, Any],
    *,
    folder: Path | None = None,
    metric: str | None = None,
) -> dict[str, Any]:
    """Return the blocks of the params for a table: `datasets`, `runs`, `rivals`, `comparisons`, and `judged` of `gate`.

    Args:
        key: of the dataset, and what its runs begin with.
        raw: its folder.
        task: of its runs.
        options: of `rankgrad.datasets.table.Table`.
        folder: that has the file now; None for `raw`.
        metric: by which runs are compared and versions are judged; None for the task's.
    """
    from pipelines.config.plan import merged
    from pipelines.rivals import fitting

    form = task
    if "rejected" in options:
        form = "preferences"
    elif "captions" in options and "text" in options:
        form = "search"
    starting = _starting_of(form)
    _check_name("--metric", metric, [named.name for named in lookup.find("tasks", task).all_metrics()])
    input_type = _input_type(options)
    dataset: dict[str, Any] = {"name": "table", "raw": str(raw), "args": options, "seed": 1}
    if input_type.pictures:
        dataset["size"] = SIZE
    head = starting["head"] if input_type.files else {"name": "linear", "args": {}}
    model = starting.get("models", {}).get(input_type.name, {**head, "backbone": BACKBONES[input_type.backbones[0]]})
    common = {
        "task": task,
        "dataset": key,
        "model": model,
        "start": "models/runs/none",
        "loss": {},
        "sorter": "none",
        "auxiliary": {"name": "none"},
        "seeds": SEEDS,
    }
    truth = _numbers_of_truth(folder or raw, options)
    conditions = _conditions(options, truth)
    by_loss = _fitting(starting["runs"], conditions, options, truth)
    count = _training_count(folder or raw, options)
    for run in by_loss.values():
        run["training"] = _long_enough(run["training"], count)
    runs = {f"{key}-{name}": common | run for name, run in by_loss.items()}
    if metric is None:
        metric = "mean_average_precision" if "binary" in conditions else starting["metric"]
    if monitor := _monitor_of(task, metric):
        for run in runs.values():
            run["training"] = merged(run.get("training", {}), monitor)
    usual, *others = by_loss
    comparison = {
        "question": f"Does {' or '.join(others)} rank {key} better than {usual}?",
        "baseline": f"{key}-{usual}",
        "runs": [f"{key}-{other}" for other in others],
        "metric": metric,
    }
    rivals = {}
    for name in fitting(task, input_type.name, pairs=form == "preferences"):
        rivals[f"{key}-{name}"] = {"name": name, "task": task, "dataset": key}
    if rivals:
        comparison["rivals"] = [*rivals]
    return {
        "datasets": {key: dataset},
        "runs": runs,
        "rivals": rivals,
        "comparisons": {key: comparison},
        "judged": {task: {"metric": metric}},
    }


def _monitor_of(task: str, metric: str) -> dict[str, Any]:
    """Return the option of training by which the metric decides on the best epoch, where it is not the usual one.

    >>> _monitor_of("query_ranking", "ndcg_at_10"), _monitor_of("score_ranking", "spearman")
    ({'ranker': {'monitor': 'ndcg_at_10'}}, {})
    """
    training = lookup.find("tasks", task).Training
    for phase, options in ({"": training} | get_type_hints(training)).items():
        if not hasattr(options, "monitor"):
            continue
        for choice in get_args(get_type_hints(options)["monitor"]):
            if choice in (metric, *metric.split(".")) and choice != options.monitor:
                return {phase: {"monitor": choice}} if phase else {"monitor": choice}
    return {}


def _input_type(options: dict[str, Any]) -> Any:
    from rankgrad.datasets.table import Table

    return lookup.find("inputs", Table(**options).input)


def _starting_of(task: str) -> dict[str, Any]:
    """Return what is written for a table of a task.

    Raises:
        ValueError: nothing is known for it.
    """
    starting = _starting()
    if task not in starting:
        raise ValueError(
            f"init has no runs for the task {task}, only for {', '.join(starting)}: write its blocks by hand, or add "
            f"{task} to {STARTING_RUNS.name}"
        )
    return starting[task]


def _conditions(options: dict[str, Any], truth: Any) -> set[str]:
    """Return which conditions, by which a run of `starting_runs.yaml` is asked for, hold for a table."""
    conditions = set()
    if "relevance" in options:
        conditions.add("binary" if truth.isin([0, 1]).all() else "graded")
    if options.get("within"):
        conditions.add("within")
    if "target" in options and truth.nunique() > GRADES and truth.min() >= 0 and _clipped(truth).skew() > SKEWED:
        conditions.add("skewed")
    return conditions


def _clipped(truth: Any) -> Any:
    return truth.clip(upper=truth.quantile(0.99))  # a row of totals makes no tail


def _fitting(runs: dict[str, Any], conditions: set[str], options: dict[str, Any], truth: Any) -> dict[str, Any]:
    """Return the runs of a task that fit a table: the standard loss, then its rivals."""
    fitting = {}
    for name, run in runs.items():
        if run.get("when") in {None, *conditions}:
            fitting[name] = {key: value for key, value in run.items() if key not in ("when", "advice")}
    if "target" in options:
        fitting["mse"]["loss"]["args"]["sigmoid"] = bool(truth.between(0, 1).all())
    if "skewed" in conditions:
        fitting["mse_log"]["training"]["log_plus"] = 10.0 ** floor(log10(_clipped(truth).mean())) / 100
    return fitting


def _long_enough(options: dict[str, Any], count: float, batch_size: int = 0) -> dict[str, Any]:
    """Return the options of a training, or of a phase of it, with enough epochs to learn from so many examples.

    >>> _long_enough({"batch_size": 64, "finetune": {"epochs": 30, "patience": 10}}, 640)["finetune"]
    {'epochs': 80, 'patience': 40}
    """
    batch_size = options.get("batch_size", batch_size)
    longer = {}
    for name, value in options.items():
        longer[name] = _long_enough(value, count, batch_size) if isinstance(value, dict) else value
    if "epochs" in options:
        epochs = min(ceil(STEPS / ceil(count / batch_size)), MOST_EPOCHS)
        longer["epochs"] = max(options["epochs"], epochs)
        longer["patience"] = max(options["patience"], longer["epochs"] // 2)
    return longer


def _training_count(folder: Path, options: dict[str, Any]) -> float:
    """Return about how many examples are for training: rows, queries with their documents, or items with captions."""
    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.files import columns_like, read_sheet
    from rankgrad.datasets.tables.roles import SHARES

    dataset = Table(**options)
    role = dataset.truth_role
    if dataset.relevance is not None:
        role = "group"
    elif dataset.text is not None and dataset.captions is not None:
        role = "text"
    columns = options[role]
    column = columns if isinstance(columns, str) else columns[0]
    has_files = isinstance(options["file"], dict)
    path = folder / Path(options["file"]["train"] if has_files else options["file"]).name
    sheet = read_sheet(
        [path], lambda names: columns_like(column, names)[:1], kind=dataset.format, encoding=dataset.encoding
    )
    cells = sheet.frame.iloc[:, 0]
    is_shared = dataset.relevance is not None or dataset.captions is not None
    count = cells.map(str).nunique() if is_shared else len(cells)
    return count if has_files else count * (1 - sum(SHARES.values()))


def _numbers_of_truth(folder: Path, options: dict[str, Any]) -> Any:
    """Return the targets of a table, or the grades in its first rows, of the training file: a series; else None."""
    column = options.get("target") or options.get("relevance")
    if column is None:
        return None
    import pandas as pd

    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.cells import as_numbers, missing_in
    from rankgrad.datasets.tables.files import read_sheet

    dataset = Table(**options)
    name = options["file"]["train"] if isinstance(options["file"], dict) else options["file"]
    sheet = read_sheet(
        [folder / Path(name).name], lambda _: [column], kind=dataset.format, encoding=dataset.encoding,
        writing=dataset.writing, head=HEAD if "relevance" in options else None,
    )  # fmt: skip
    cells = sheet.frame[column]
    cells = cells[~missing_in(cells, numeric=True)]
    return pd.Series(as_numbers(sheet, cells), cells.index)


def _lines_on(blocks: dict[str, Any], key: str) -> list[str]:
    """Return what the blocks say of structure, splits and runs, for a person to look over."""
    from rankgrad.datasets.tables.roles import SHARES

    dataset, options = blocks["datasets"][key], blocks["datasets"][key]["args"]
    structure = [f"{role} from {options[role]}" for role in ("group", "weight", "id") if role in options]
    if "within" in options:
        structure[0] += ", and only rows of one are compared"
    lines = [f"structure: {', '.join(structure)}; else: --group, --id"] if structure else []
    split = options.get("split")
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in SHARES.items())
    if isinstance(split, dict):
        lines.append(f"splits: by a hash of {split['hash_of']}: {shares}; rows never change sides")
    elif isinstance(options["file"], dict):
        lines.append("splits: by files; half of val is the gate, by a hash")
    elif split:
        lines.append(f"splits: from the column {split}")
    else:
        lines.append(
            f"splits: by a hash of each row's input: {shares}; to edit the input of a row moves it, nothing else does"
        )
    if "date" in options:
        column, first = options["date"]["column"], options["date"]["first"]
        lines.append(f"date: from {column}: rows after {first} are deliveries for training, one each month (`every`)")
    lines.append(f"runs: {', '.join(blocks['runs'])}, {SEEDS} seeds each")
    if blocks["rivals"]:
        names = ", ".join(rival["name"] for rival in blocks["rivals"].values())
        lines.append(f"rivals: {names}: simple models, with which the runs are compared")
    lines.append(f"metric: {blocks['comparisons'][key]['metric']}, of the comparison and the gate; else: --metric")
    if "size" in dataset:
        lines.append(
            f"pictures: the middle square, {SIZE} pixels on a side (`size`); `pad: true` keeps what is beside it"
        )
    return lines


def _lines_on_gate(file: Path, dataset: Any, *, seed: int) -> list[str]:
    """Return a line on how many groups are in the gate, where splits follow from a hash of groups."""
    from rankgrad.datasets.tables.cells import converted, missing_in
    from rankgrad.datasets.tables.deliveries import drawn_splits
    from rankgrad.datasets.tables.files import read_sheet
    from rankgrad.plain_text import key_in

    if not dataset.drawn or dataset.group is None:
        return []
    sheet = read_sheet([file], lambda _: [dataset.group], kind=dataset.format, encoding=dataset.encoding)
    cells = sheet.frame[dataset.group]
    groups = converted(sheet, cells[~missing_in(cells, numeric=False)], key_in).drop_duplicates()
    count = drawn_splits(dataset, groups, seed).count("gate")
    line = f"gate: {count} of {len(groups)} {dataset.group}"
    if count < JUDGED:
        line += f"; with fewer than {JUDGED} it promotes no version by itself: raise `split.gate` or add rows"
    return [line]


# The params.


def _laid_out(value: Any, depth: int = 0) -> Any:
    """Return plain values as ruamel.yaml writes them: entries and options in lines, short values on one."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

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


def _as_yaml(blocks: dict[str, Any]) -> str:
    from pipelines.config.scales import round_trip

    text = StringIO()
    round_trip().dump(_laid_out(_nested(blocks)), text)
    return text.getvalue()


def _nested(blocks: dict[str, Any]) -> dict[str, Any]:
    """Return blocks as the params have them."""
    return {name: block for name, block in blocks.items() if block and name != "judged"} | {
        "gate": {"judged": blocks["judged"]}
    }


def _write(params: Path, blocks: dict[str, Any], *, keep: bool) -> tuple[str, dict[str, str]]:
    """Write blocks into the params, which keep their comments and order.

    Nothing is written if the params would not pass the check.

    Returns:
        What left the params, and, by task, the metric that the gate had for other runs that stay.
    """
    from pipelines.config.errors import ParamsError, Problem
    from pipelines.config.rules import check_values
    from pipelines.config.scales import round_trip
    from pipelines.config.schema import read
    from rankgrad.io.atomic import replaced_file

    yaml = round_trip()
    values: Any = read(params, yaml)
    comments = _comments_behind(values)
    removed = {} if keep else _remove_showcase(values)
    tasks_of_others = {run["task"] for run in values["runs"].values()}
    judged_before = {}
    if blocks["rivals"] and "rivals" not in values:
        values.insert([*values].index("comparisons"), "rivals", type(values)())
    for block in ("datasets", "runs", "rivals", "comparisons"):
        for name, entry in _laid_out(blocks[block], depth=1).items():
            if name in values[block]:
                advice = "remove it, or choose another name by --key"
                raise ParamsError(Problem(f"{block}.{name}", "is there already", advice=advice), path=params)
            values[block][name] = entry
    for run in blocks["runs"].values():
        if run["sorter"] in SORTERS and run["sorter"] not in values["sorters"]:  # an earlier `init` had no use for it
            values["sorters"][run["sorter"]] = _laid_out(SORTERS[run["sorter"]], depth=3)
    for task, judged in blocks["judged"].items():
        block = values["gate"]["judged"].setdefault(task, {"metric": judged["metric"], "guarded": []})
        if task in tasks_of_others and block["metric"] != judged["metric"]:
            judged_before[task] = block["metric"]
        block["metric"] = judged["metric"]
        if judged["metric"] in block.get("guarded", []):
            block["guarded"].remove(judged["metric"])
    if not keep:
        removed["sorters that no run names"] = _remove_sorters(values)
    for key, comment in comments.items():
        if comment and key in values:
            values.yaml_set_comment_before_after_key(key, before=comment)
    with replaced_file(params) as partial:
        with partial.open("w") as written:
            yaml.dump(values, written)
        check_values(read(partial), path=params)  # as DVC will read it
    return ", ".join(f"{count} {name}" for name, count in removed.items() if count), judged_before


def _comments_behind(values: Any) -> dict[str, str]:
    """Take away and return the comment before each block, which ruamel.yaml keeps at the last value of the one before.

    It would be lost with this value.
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


def _remove_showcase(values: Any) -> dict[str, int]:
    """Remove the datasets that are drawn, with their runs and comparisons; return how many of each."""
    drawn = [name for name, dataset in values["datasets"].items() if dataset.get("rows")]
    runs = [name for name, run in values["runs"].items() if run["dataset"] in drawn]
    comparisons = []
    for name, comparison in values["comparisons"].items():
        if {comparison["baseline"], *comparison["runs"]} & {*runs}:
            comparisons.append(name)
    for block, names in (("datasets", drawn), ("runs", runs), ("comparisons", comparisons)):
        for name in names:
            del values[block][name]
    return {"drawn datasets": len(drawn), "runs": len(runs), "comparisons": len(comparisons)}


def _remove_sorters(values: Any) -> int:
    """Remove the sorters that no run names, since they take minutes to train, with their vectors and measurement."""
    named = {run["sorter"] for run in values["runs"].values()}
    unused = [name for name in values["sorters"] if name not in named]
    for name in unused:
        del values["sorters"][name]
    values.pop("benchmark_sorters", None)
    if not any(sorter["vectors"] in values.get("score_vectors", {}) for sorter in values["sorters"].values()):
        values.pop("score_vectors", None)
    return len(unused)
