"""`rankgrad init`: write your own table into the params, as a dataset, runs, and their comparison."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.shared import errors_in_a_line, table, typed_here
from rankgrad.numbers import WRITINGS, Writing

__all__ = ["init"]

RAW = Path("data/raw")


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
    group: Annotated[
        str | None, typer.Option(help="Column of groups; all rows of a group stay in one split. `none`: no groups.")
    ] = None,
    within: Annotated[
        bool, typer.Option("--within", help="Compare only rows of the same group, such as one laboratory.")
    ] = False,
    negatives: Annotated[
        str | None, typer.Option(help="Column of passages that do not answer the query of their row, for search.")
    ] = None,
    collection: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here,
            help="File of further passages to search, such as those that answer no query, for search.",
        ),
    ] = None,
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
    seeds: Annotated[int, typer.Option(min=1, help="Models to train for each run; 1 is quick.")] = 3,
    link: Annotated[
        bool, typer.Option("--link", help="Link the file's folder into data/raw if it is somewhere else.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the blocks without writing them.")] = False,
    params: Annotated[Path, typer.Option(callback=typed_here, help="Params file to write.")] = Path("params.yaml"),
) -> None:
    """Inspect your own table, and write its dataset, runs, and their comparison into the params.

    The generated datasets and their runs are removed from the params, so that `rankgrad repro compare` trains only
    yours.
    """
    from pipelines.cli.edited_params import as_yaml, write
    from pipelines.cli.guess import guess
    from pipelines.cli.splits import check_splits, draw_splits, line_on_gate, settle_refit, trainings, units_of
    from pipelines.cli.starting_runs import blocks_of, check_name, starting_runs
    from pipelines.config.schema import read
    from rankgrad.datasets.table import Table

    grouped = group != "none"
    roles = {
        "target": target, "text": text, "rejected": rejected, "negatives": negatives, "query": query, "id": row_id,
        "group": group if grouped else None, "date": date, "weight": weight,
    }  # fmt: skip
    named = {role: name for role, name in roles.items() if name is not None}
    with errors_in_a_line():
        check_name("--task", task, starting_runs())
        writing = _writing(decimal, thousands)
        if task is None and (collection is not None or negatives is not None):
            task = "search"
        guessed = guess(
            file, task=task, encoding=encoding, empty=empty or (), writing=writing, named=named, within=within,
            grouped=grouped,
        )  # fmt: skip
        if collection is not None:
            guessed.options["collection"] = _name_below(file.parent, collection)
            Table(**guessed.options).check_head(file.parent)
        home = (
            file.parent.parent if file.parent.name == "first" else file.parent
        )  # the first delivery has its own folder
        key = _key(key or (home.name if _below_raw(home) else file.stem))
        raw = _raw(home, file, key, link=link, dry_run=dry_run)
        blocks = blocks_of(key, raw, guessed.task, guessed.options, folder=file.parent, metric=metric, seeds=seeds)
        dataset = blocks["datasets"][key]
        options = Table(**dataset["args"])
        check_splits(file.parent, options, folds)
        units = units_of(file.parent, options)
        before = (read(params).get("datasets") or {}).get(key) if replace else None
        are_kept = draw_splits(dataset, units, folds, before=before)
        if folds is not None:
            dataset["folds"] = folds
        is_refitted = settle_refit(blocks["runs"], dataset, units)
        typer.echo(f"{file}: {guessed.task}")
        lines = [
            *guessed.lines,
            *_lines_on(blocks, key, is_refitted=is_refitted),
            line_on_gate(units, dataset, is_refitted=is_refitted, seeds=seeds),
        ]
        if are_kept:
            lines.append(f"seed and shares: those of the dataset {key} in {params}, so that rows stay in their splits")
        table("understood", rows=[[line] for line in lines])
        if dry_run:
            typer.echo(as_yaml(blocks))
            return
        left_out = write(params, blocks, keep=keep, replace=replace)
    typer.echo(f"wrote to {params}: the dataset {key}, the runs {', '.join(blocks['runs'])}, and the comparison {key}")
    if left_out:
        typer.echo(f"removed from {params}: {left_out}" + ("" if keep else "; --keep keeps generated datasets"))
    times = trainings(folds, is_refitted=is_refitted)
    count = sum(run["seeds"] for run in blocks["runs"].values()) * times
    quick = f", {len(blocks['runs']) * times} with --seeds 1" if seeds > 1 else ""
    typer.echo(
        f"next: review {params}, then run\n  rankgrad check\n"
        f"  rankgrad repro compare  # trains {count} models{quick}; each run prints how long it takes\n"
        "  rankgrad repro && rankgrad promote\n"
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
        ValueError: the data are somewhere else, and `link` is not set; or a link would put this project into itself.
    """
    below, folder = _below_raw(home), RAW / key
    if below is not None or dry_run:
        return below or folder
    holds_project = Path.cwd().resolve().is_relative_to(home.resolve())
    if holds_project or not link:
        moved = folder / file.relative_to(home)
        or_link = "" if holds_project else f"; or pass --link to make {folder} a link to {home}"
        raise ValueError(
            f"{file}: is outside {RAW}, where stages read data: `mkdir -p {moved.parent} && mv {file} {moved}`, its "
            f"images too, then `rankgrad init {moved}`{or_link}"
        )
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: already exists, expected a new name: choose another with --key")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(home.resolve(), target_is_directory=True)
    typer.echo(f"{folder}: links to {home.resolve()}")
    return folder


def _name_below(folder: Path, file: Path) -> str:
    """Return a file's name relative to the folder of the table, from which it may be named, too."""
    file = folder / file if not file.exists() and (folder / file).is_file() else file
    path, folder = Path(os.path.abspath(file)), Path(os.path.abspath(folder))
    if folder not in path.parents:
        raise ValueError(f"{file}: is outside {folder}, the folder of the table: move it there")
    return path.relative_to(folder).as_posix()


def _lines_on(blocks: dict[str, Any], key: str, *, is_refitted: bool) -> list[str]:
    """Return lines on structure, splits, and runs of the blocks, for the user to review."""
    from pipelines.cli.splits import trainings
    from rankgrad.datasets.table import Table

    dataset, options = blocks["datasets"][key], blocks["datasets"][key]["args"]
    lines = []
    structure = [f"{role} from {options[role]}" for role in ("group", "weight", "id") if role in options]
    if structure:
        structure[0] += " (only rows of the same group are compared)" if "within" in options else ""
        lines.append(f"structure: {', '.join(structure)}; to change: --group, --id")
    split = options.get("split")
    read = Table(**options)
    if read.is_one_collection:
        further = f", and those of {read.collection}" if read.collection else "; to add passages: --collection FILE"
        lines.append(f"searched: the passages of all splits{further}")
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in read.shares.items() if share)
    if "folds" in dataset:
        folds = dataset["folds"]
        lines.append(
            f"splits: {folds} folds{' and a gate' if 'gate' in read.splits else ''}; each row of a fold is tested "
            f"once; each run trains {trainings(folds, is_refitted=is_refitted)} times: the model to register learns "
            f"from all folds{'' if is_refitted else ' but one'}"
        )
    elif read.hashed is not None:
        lines.append(f"splits: by a hash of {read.hashed}: {shares}; rows never change splits")
    elif isinstance(options["file"], dict):
        of_gate = "; a hash puts half of val into the gate split" if read.gate_share else ""
        lines.append(f"splits: one file each{of_gate}")
    elif isinstance(split, str):
        lines.append(f"splits: from the column {split}")
    else:
        lines.append(
            f"splits: by a hash of each row's input: {shares}; a row changes splits only if its input is edited"
        )
    if dataset["seed"] > 1:
        lines.append(
            f"seed: {dataset['seed']}, whose hash leaves no split or fold empty, and draws them nearest to their size"
        )
    if "date" in options:
        column, first = options["date"]["column"], options["date"]["first"]
        lines.append(
            f"date: from {column}: rows after {first} are monthly deliveries, for training and the gate (`every`)"
        )
    lines += _lines_on_runs(blocks, key, is_refitted=is_refitted)
    if "size" in dataset:
        lines.append(
            f"images: cropped to the central square, {dataset['size']} pixels per side (`size`; larger is slower); "
            "`pad: true` pads instead"
        )
    return lines


def _lines_on_runs(blocks: dict[str, Any], key: str, *, is_refitted: bool) -> list[str]:
    """Return lines on the runs, what they are compared with, and the metrics that decide."""
    comparison = blocks["comparisons"][key]
    baseline = blocks["runs"][comparison["baseline"]]
    seeds = baseline["seeds"]
    names = [comparison["baseline"], *comparison["runs"]]
    lines = [f"runs: {', '.join(names)}; seeds: {seeds} each, see --seeds"]
    if is_refitted:
        trained = "all runs train again, on validation rows too"
        if "folds" in blocks["datasets"][key]:
            trained = "the models to register train again, on all folds"
        lines.append(f"refit: once validation has chosen their epochs, {trained}")
    if rivals := comparison.get("rivals", []):
        reader, has_pairs = f"{key}-word_pair_ridge", "rejected" in blocks["datasets"][key]["args"]
        only = f"; only {reader} reads the prompt" if has_pairs and reader in rivals else ""
        lines.append(f"rivals: {', '.join(rivals)}: simple models to compare the runs with{only}")
    metric, [judged] = comparison["metric"], blocks["judged"].values()
    used = f"{metric}, for the comparison and the gate"
    if judged["metric"] != metric:
        used = f"{metric}, for the comparison; {judged['metric']}, which tells more from few pairs, for the gate"
    chosen_by = ""
    if baseline["training"].get("ranker", {}).get("monitor") == "log_loss":
        chosen_by = "; log loss on validation chooses epochs and settings"
    lines.append(f"metric: {used}{chosen_by}; to change: --metric")
    return lines
