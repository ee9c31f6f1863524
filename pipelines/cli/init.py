"""`rankgrad init`: write a table of your own into the params, as a dataset, runs and their comparison."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.shared import errors_in_a_line, table, typed_here
from rankgrad.numbers import WRITINGS, Writing

__all__ = ["init"]

RAW = Path("data/raw")
JUDGED = 30  # groups without which the gate promotes nothing, see pipelines/tracking/gate.py


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
        bool, typer.Option("--within", help="Compare only rows of the same group, such as one laboratory.")
    ] = False,
    query: Annotated[str | None, typer.Option(help="Column whose rows are the documents of a query.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="Column that names each row.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Column of days: rows of later months than the file's are deliveries.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of how much a row counts.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric by which runs are compared and versions judged.")] = None,
    encoding: Annotated[str, typer.Option(help="Of text.")] = "utf-8",
    empty: Annotated[
        list[str] | None, typer.Option(help="Text that stands for a missing value, such as n/a; may be repeated.")
    ] = None,
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
    from pipelines.cli.edited_params import as_yaml, write
    from pipelines.cli.guess import guess
    from pipelines.cli.starting_runs import blocks_of, check_name, starting_runs

    roles = {
        "target": target, "text": text, "rejected": rejected, "group": group, "query": query, "id": row_id,
        "date": date, "weight": weight,
    }  # fmt: skip
    named = {role: name for role, name in roles.items() if name is not None}
    with errors_in_a_line():
        check_name("--task", task, starting_runs())
        writing = _writing(decimal, thousands)
        guessed = guess(
            file, task=task, encoding=encoding, empty=empty or (), writing=writing, named=named, within=within
        )
        home = file.parent.parent if file.parent.name == "first" else file.parent  # a first delivery is in a folder
        key = _key(key or (home.name if _below_raw(home) else file.stem))
        raw = _raw(home, file, key, link=link, dry_run=dry_run)
        blocks = blocks_of(key, raw, guessed.task, guessed.options, folder=file.parent, metric=metric)
        typer.echo(f"{file}: {guessed.task}")
        lines = [*guessed.lines, *_lines_on(blocks, key), *_lines_on_gate(file, blocks["datasets"][key])]
        table("understood", rows=[[line] for line in lines])
        if dry_run:
            typer.echo(as_yaml(blocks))
            return
        left_out, judged_before = write(params, blocks, keep=keep)
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


def _writing(decimal: str | None, thousands: str | None) -> Writing | None:
    """Return how numbers are written, None if nothing was said."""
    if decimal is None and thousands is None:
        return None
    writing = Writing(decimal or ("," if thousands == "." else "."), thousands or "")
    if writing not in WRITINGS:
        raise ValueError(
            f"--decimal {decimal!r} --thousands {thousands!r}: expected . or , and one of . , ' or a space"
        )
    return writing


def _key(name: str) -> str:
    """Return a name as a key of the params: letters, digits, _ and -."""
    return re.sub(r"[^\w-]+", "_", name, flags=re.ASCII).strip("-_")[:60] or "table"


def _below_raw(home: Path) -> Path | None:
    """Return a folder as one below data/raw, links followed or not; None if it lies elsewhere."""
    folder, raw = Path(os.path.abspath(home)), Path(os.path.abspath(RAW))
    return RAW / folder.relative_to(raw) if raw in folder.parents else None


def _raw(home: Path, file: Path, key: str, *, link: bool, dry_run: bool) -> Path:
    """Return the folder below data/raw that has the data, or will have them by a link.

    Raises:
        ValueError: it lies elsewhere, and is not to be linked.
    """
    below, folder = _below_raw(home), RAW / key
    if below is not None or dry_run:
        return below or folder
    if not link:
        raise ValueError(
            f"{file}: stages read below {RAW}: `mkdir {folder}`, move the file and its pictures there, and `rankgrad "
            f"init {folder / file.relative_to(home)}`; or --link makes {folder} a link to {home}"
        )
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: is there already; expected no such name: choose another by --key")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(home.resolve(), target_is_directory=True)
    typer.echo(f"{folder}: links to {home.resolve()}")
    return folder


def _lines_on(blocks: dict[str, Any], key: str) -> list[str]:
    """Return what the blocks say of structure, splits and runs, for a person to look over."""
    from pipelines.cli.starting_runs import SEEDS, SIZE
    from rankgrad.datasets.tables.roles import SHARES

    dataset, options = blocks["datasets"][key], blocks["datasets"][key]["args"]
    lines = []
    structure = [f"{role} from {options[role]}" for role in ("group", "weight", "id") if role in options]
    if structure:
        structure[0] += ", and only rows of one are compared" if "within" in options else ""
        lines.append(f"structure: {', '.join(structure)}; else: --group, --id")
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
        lines.append(f"pictures: the middle square, {SIZE} pixels on a side (`size`); `pad: true` keeps the rest")
    return lines


def _lines_on_gate(file: Path, block: dict[str, Any]) -> list[str]:
    """Return a line on how many groups are in the gate, or on too few rows, which a share of their number estimates."""
    from pipelines.cli.starting_runs import examples_column, read_column
    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.cells import converted, missing_in
    from rankgrad.datasets.tables.deliveries import drawn_splits
    from rankgrad.plain_text import key_in

    dataset = Table(**block["args"])
    # Read what is counted, of the split whose rows become the gate.
    column, is_shared = (dataset.group, True) if dataset.group else examples_column(dataset)
    split = "gate" if "gate" in dataset.files else "val"
    sheet, cells = read_column(dataset, file.parent, column, split=split)
    is_there = ~missing_in(cells, numeric=False)
    if isinstance(dataset.split, str):
        _, splits = read_column(dataset, file.parent, dataset.split)
        splits = splits.map(str).str.strip()
        split = "gate" if (splits == "gate").any() else "val"
        is_there &= (splits == split).to_numpy()
    counted = cells[is_there]
    if is_shared:
        counted = converted(sheet, counted, key_in) if dataset.group else counted.map(str)
        counted = counted.drop_duplicates()
    total = len(counted)

    # How many of them are the gate.
    unit = dataset.group or "rows"
    if not dataset.drawn:
        count = total if split == "gate" else round(total * dataset.gate_share)
        line = f"gate: {count} {unit}" if split == "gate" else f"gate: about {count} of the {total} {unit} of val"
        advice = "give more rows the split `gate`" if split == "gate" else "raise `gate_share`"
    elif dataset.group:
        count = drawn_splits(dataset, counted, block["seed"]).count("gate")
        line, advice = f"gate: {count} of {total} {unit}", "raise `split.gate`"
    else:
        count = round(total * dataset.shares["gate"])
        line, advice = f"gate: about {count} of {total} {unit}", "raise `split.gate`"
    if count < JUDGED:
        line += f"; with fewer than {JUDGED} it promotes no version: {advice}, or add more {unit}"
    return [line]
