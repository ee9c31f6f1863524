"""`rankgrad init`: write your own table into the params, as a dataset, runs, and their comparison."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipelines.cli.shared import errors_in_a_line, table, typed_here
from rankgrad.numbers import WRITINGS, Writing

__all__ = ["init"]

RAW = Path("data/raw")
SMALL = 300  # rows or groups; a test split of fewer than 60 leaves wide intervals


def init(
    file: Annotated[Path, typer.Argument(callback=typed_here, help="CSV, TSV, JSON lines, Parquet or SVMlight.")],
    task: Annotated[
        str | None,
        typer.Option(
            help="label_ranking, multilabel, score_ranking, query_ranking, retrieval, preferences (a query_ranking), "
            "or search (a retrieval); by default recognized from the columns."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Name of the dataset; by default the name of its folder.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Column to predict: a number, grades, labels, captions, or a margin.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column with the input text.")] = None,
    rejected: Annotated[
        str | None, typer.Option(help="Column with the rejected answer, for preferences; --text is the chosen one.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column of groups; all rows of a group stay in one split.")] = None,
    within: Annotated[
        bool, typer.Option("--within", help="Compare only rows of the same group, such as one laboratory.")
    ] = False,
    query: Annotated[str | None, typer.Option(help="Column of queries; the rows of a query are its documents.")] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="Column with a name for each row.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Column of dates; rows after the file's last month are later deliveries.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column with the weight of each row.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric for comparing runs and for the gate.")] = None,
    folds: Annotated[
        int | None, typer.Option(min=3, help="Number of folds, for a small table: each row is tested once.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the file.")] = "utf-8",
    empty: Annotated[
        list[str] | None, typer.Option(help="Text that means a missing value, such as n/a; may be repeated.")
    ] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal separator in numbers: . or ,")] = None,
    thousands: Annotated[str | None, typer.Option(help="Thousands separator in numbers: . , ' or a space.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the generated datasets and their runs in the params.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a dataset of the same name, its runs, and its comparison.")
    ] = False,
    link: Annotated[
        bool, typer.Option("--link", help="Link the file's folder into data/raw if it is somewhere else.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the blocks without writing them.")] = False,
    params: Annotated[Path, typer.Option(callback=typed_here, help="Params file to write.")] = Path("params.yaml"),
) -> None:
    """Inspect your own table, and write its dataset, runs, and their comparison into the params.

    The generated datasets and their runs are removed from the params, so that `dvc repro compare` trains only yours.
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
        home = (
            file.parent.parent if file.parent.name == "first" else file.parent
        )  # the first delivery has its own folder
        key = _key(key or (home.name if _below_raw(home) else file.stem))
        raw = _raw(home, file, key, link=link, dry_run=dry_run)
        blocks = blocks_of(key, raw, guessed.task, guessed.options, folder=file.parent, metric=metric)
        dataset = blocks["datasets"][key]
        gate = _gate_of(file.parent, dataset)
        if gate.is_out_of_reach:
            dataset["args"] |= _without_gate(dataset["args"])
        if folds is not None:
            _check_folds(file.parent, dataset, folds)
            dataset["folds"] = folds
        typer.echo(f"{file}: {guessed.task}")
        lines = [*guessed.lines, *_lines_on(blocks, key), *_lines_on_gate(gate, dataset)]
        table("understood", rows=[[line] for line in lines])
        if dry_run:
            typer.echo(as_yaml(blocks))
            return
        left_out, judged_before = write(params, blocks, keep=keep, replace=replace)
    typer.echo(f"wrote to {params}: the dataset {key}, the runs {', '.join(blocks['runs'])}, and the comparison {key}")
    for judged_task, before in judged_before.items():
        now = blocks["judged"][judged_task]["metric"]
        typer.echo(
            f"gate.judged.{judged_task}: the metric changed from {before} to {now}, for all datasets of this task; "
            f"`--metric {before}` keeps the old one"
        )
    if left_out:
        typer.echo(f"removed from {params}: {left_out}" + ("" if keep else "; --keep keeps generated datasets"))
    count = sum(run["seeds"] for run in blocks["runs"].values()) * (1 + (folds or 0))
    typer.echo(
        f"next: review {params}, then run\n  rankgrad check\n"
        f"  dvc repro compare  # trains {count} models; each run prints how long it took\n"
        "  dvc repro && rankgrad promote\n"
        f"  git commit {params} dvc.lock --message {key}  # retraining uses only committed files\n"
        f"reports/data/{key}.html shows how the data was interpreted; metrics/comparisons has the results."
    )


def _writing(decimal: str | None, thousands: str | None) -> Writing | None:
    """Return how numbers are written; None if neither option is set."""
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
    """Return a folder's path below data/raw without resolving links; None if it is somewhere else."""
    folder, raw = Path(os.path.abspath(home)), Path(os.path.abspath(RAW))
    return RAW / folder.relative_to(raw) if raw in folder.parents else None


def _raw(home: Path, file: Path, key: str, *, link: bool, dry_run: bool) -> Path:
    """Return the folder in data/raw with the data; create it as a link if `link` is set.

    Raises:
        ValueError: the data are somewhere else, and `link` is not set.
    """
    below, folder = _below_raw(home), RAW / key
    if below is not None or dry_run:
        return below or folder
    if not link:
        raise ValueError(
            f"{file}: is outside {RAW}, where stages read data: `mkdir {folder}`, move the file and its images there, "
            f"and `rankgrad init {folder / file.relative_to(home)}`; or pass --link to make {folder} a link to {home}"
        )
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: already exists, expected a new name: choose another with --key")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(home.resolve(), target_is_directory=True)
    typer.echo(f"{folder}: links to {home.resolve()}")
    return folder


def _lines_on(blocks: dict[str, Any], key: str) -> list[str]:
    """Return lines on structure, splits, and runs of the blocks, for the user to review."""
    from pipelines.cli.starting_runs import SEEDS, SIZE
    from rankgrad.datasets.table import Table

    dataset, options = blocks["datasets"][key], blocks["datasets"][key]["args"]
    lines = []
    structure = [f"{role} from {options[role]}" for role in ("group", "weight", "id") if role in options]
    if structure:
        structure[0] += " (only rows of the same group are compared)" if "within" in options else ""
        lines.append(f"structure: {', '.join(structure)}; to change: --group, --id")
    split = options.get("split")
    read = Table(**options)
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in read.shares.items() if share)
    if "folds" in dataset:
        folds = dataset["folds"]
        lines.append(
            f"splits: {folds} folds{' and a gate' if 'gate' in read.splits else ''}; each row of a fold is tested "
            f"once; each run trains {folds + 1} times: the model to register learns from all folds but one"
        )
    elif isinstance(split, dict):
        lines.append(f"splits: by a hash of {split['hash_of']}: {shares}; rows never change splits")
    elif isinstance(options["file"], dict):
        of_gate = "; a hash puts half of val into the gate split" if read.gate_share else ""
        lines.append(f"splits: one file each{of_gate}")
    elif split:
        lines.append(f"splits: from the column {split}")
    else:
        lines.append(
            f"splits: by a hash of each row's input: {shares}; a row changes splits only if its input is edited"
        )
    if "date" in options:
        column, first = options["date"]["column"], options["date"]["first"]
        lines.append(f"date: from {column}: rows after {first} are monthly deliveries for training (`every`)")
    comparison = blocks["comparisons"][key]
    lines.append(f"runs: {', '.join([comparison['baseline'], *comparison['runs']])}, {SEEDS} seeds each")
    if rivals := comparison.get("rivals", []):
        lines.append(f"rivals: {', '.join(rivals)}: simple models to compare the runs with")
    lines.append(f"metric: {comparison['metric']}, for the comparison and the gate; to change: --metric")
    if "size" in dataset:
        lines.append(
            f"images: cropped to the central square, {SIZE} pixels per side (`size`); `pad: true` pads instead"
        )
    return lines


@dataclass(frozen=True)
class _Gate:
    """How many rows are in the gate split, or how many groups, if the table has them.

    Attributes:
        unit: `rows`, or the column of groups.
        total: their number; for given splits, in the split that is the gate, or of which the gate becomes a part.
        count: their number in the gate.
        split: the split that `total` counts: `gate`, `val`, or `all`.
        examples: the number of rows, queries, or items in it.
    """

    unit: str
    total: int
    count: int
    split: Literal["gate", "val", "all"]
    examples: int

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the gate cannot get enough rows, even if it gets half of them, or all of those for validation."""
        from pipelines.config import JUDGED

        return self.total < {"gate": 0, "val": JUDGED, "all": 2 * JUDGED}[self.split]


def _gate_of(folder: Path, block: dict[str, Any]) -> _Gate:
    """Count the gate of a dataset; a share of their number estimates its rows, if it has no groups."""
    from pipelines.cli.starting_runs import examples_column, read_column
    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.cells import converted, missing_in
    from rankgrad.datasets.tables.deliveries import drawn_splits
    from rankgrad.plain_text import key_in

    dataset = Table(**block["args"])
    # Read what is counted, of the split whose rows become the gate.
    example_column, is_example = examples_column(dataset)
    group = dataset.split_group
    column, is_shared = (group, True) if group else (example_column, is_example)
    split = "gate" if "gate" in dataset.files else "val"
    sheet, cells = read_column(dataset, folder, column, split=split)
    is_there = ~missing_in(cells, numeric=False)
    if isinstance(dataset.split, str):
        _, splits = read_column(dataset, folder, dataset.split)
        splits = splits.map(str).str.strip()
        split = "gate" if (splits == "gate").any() else "val"
        is_there &= (splits == split).to_numpy()
    counted = cells[is_there]
    if group:
        counted = converted(sheet, counted, key_in)
    elif is_shared:
        counted = counted.map(str)
    examples = len(counted)
    if is_example:
        _, names = read_column(dataset, folder, example_column, split=split)
        examples = names[is_there].map(str).nunique()
    if is_shared:
        counted = counted.drop_duplicates()
    total = len(counted)

    # How many of them are the gate.
    if not dataset.drawn:
        count = total if split == "gate" else round(total * dataset.gate_share)
    elif group:
        count = drawn_splits(dataset, counted, block["seed"]).count("gate")
    else:
        count = round(total * dataset.shares["gate"])
    return _Gate(group or "rows", total, count, "all" if dataset.drawn else split, examples)


def _without_gate(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a table that gives no rows to the gate."""
    if isinstance(options.get("split"), dict):
        return {"split": options["split"] | {"gate": 0}}
    return {} if "split" not in options and isinstance(options["file"], str) else {"gate_share": 0}


def _lines_on_gate(gate: _Gate, block: dict[str, Any]) -> list[str]:
    """Return a line on the size of the gate, on too few rows for validation, and on folds."""
    from pipelines.config import JUDGED
    from rankgrad.datasets.table import Table

    dataset, unit = Table(**block["args"]), gate.unit
    by_hand = "promote by hand with `rankgrad promote MODEL --version N`"
    if "gate" not in dataset.splits:
        line = f"gate: none, because {gate.total} {unit} are too few (it needs {JUDGED}): add {unit}, or {by_hand}"
    else:
        advice = "raise `split.gate`"
        if gate.split == "all":
            line = f"gate: {'' if dataset.group else 'about '}{gate.count} of {gate.total} {unit}"
        elif gate.split == "gate":
            line, advice = f"gate: {gate.count} {unit}", "give more rows the split `gate`"
        else:
            line, advice = f"gate: about {gate.count} of the {gate.total} {unit} of val", "raise `gate_share`"
        if gate.count < JUDGED:
            advice = f"{advice}, add more {unit}" if gate.total >= 2 * JUDGED else f"add more {unit}"
            line += f"; with fewer than {JUDGED} it promotes no version: {advice}, or {by_hand}"
    if gate.split != "gate" and "folds" not in block:  # folds replace validation
        line += _advice_on_validation(dataset, gate.examples)
    if gate.total < SMALL and dataset.foldable and "folds" not in block:
        folds = 5 if gate.total >= JUDGED else 3
        line += f"; `--folds {folds}` compares the runs on all rows outside the gate, not only on the test split"
    return [line]


def _check_folds(folder: Path, block: dict[str, Any], folds: int) -> None:
    """Raise ValueError if a table has so few rows or groups that a fold has none."""
    from pipelines.cli.starting_runs import examples_column, read_column
    from rankgrad.datasets.files.folds import fold_of
    from rankgrad.datasets.table import Table
    from rankgrad.datasets.tables.cells import converted, missing_in
    from rankgrad.plain_text import key_in

    dataset = Table(**block["args"])
    column, unit = dataset.split_group or examples_column(dataset)[0], dataset.split_group or "rows"
    count, groups = 0, set[str]()
    for split in dataset.files.keys() - {"gate"}:
        sheet, cells = read_column(dataset, folder, column, split=split)
        cells = cells[~missing_in(cells, numeric=False)]
        count += len(cells)
        if dataset.split_group:
            groups |= {*converted(sheet, cells, key_in)}
            count = len(groups)
    filled = len({fold_of(group, folds=folds, seed=block["seed"]) for group in groups}) if groups else count
    if filled < folds:
        raise ValueError(f"--folds {folds}: {count} {unit} fill only {filled} folds; pass fewer folds, or add {unit}")


def _advice_on_validation(dataset: Any, examples: int) -> str:
    """Return what to do about too few examples for validation, of the number of which it gets a share, or ""."""
    from pipelines.config import MONITORED

    share, way_out = 1 - dataset.gate_share, "give more rows the split `val`"
    if dataset.drawn:
        share, way_out = dataset.shares["val"], "raise `split.val`"
    if (count := round(examples * share)) >= MONITORED:
        return ""
    return (
        f"; val: about {count}, too few to choose the champion by, and `rankgrad monitor` needs {MONITORED}: {way_out}"
    )
