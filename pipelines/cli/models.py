"""Commands for trained models: predict, serve, monitor, promote."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.shared import AsJson, errors_in_a_line, fail, model_typed_here, table, typed_here

if TYPE_CHECKING:
    from pipelines.config import Settings
    from pipelines.tracking.gate import Decision

__all__ = ["monitor", "predict", "promote", "serve", "show_decisions"]

SHOWN = 12  # quantities that `monitor` prints

Captions = Annotated[
    bool, typer.Option("--captions", help="Search the captions in the table of --among, not its items.")
]
AmongId = Annotated[
    str | None, typer.Option(help="Column of ids in the table of --among; by default as --id, or as in training.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Of text in tables, such as cp1252 or utf-16; by default as in training.")
]


def predict(
    model: Annotated[
        str,
        typer.Argument(
            callback=model_typed_here,
            help="A registered version (models:/<task>-<dataset>@champion), a folder (models/runs/<run>), or "
            "`shipped`, the digit ranker that comes with the package.",
        ),
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            callback=typed_here,
            help="Images, a folder of images, or a table (.csv, .tsv, .jsonl, .parquet, SVMlight) with your columns.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            callback=typed_here,
            help="Table to write (.csv with commas, .tsv, .jsonl, .parquet); for label rankers also an annotated image "
            "or a folder.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="Column with the input, or caption=COLUMN for retrieval; by default the same as in training.",
        ),
    ] = None,
    among: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here,
            help="Table or folder to search, for retrieval; each answer has the best items.",
        ),
    ] = None,
    among_id: AmongId = None,
    k: Annotated[int | None, typer.Option("--k", help="Results for each row, with --among; by default 10.")] = None,
    captions: Captions = False,
    id_column: Annotated[str | None, typer.Option("--id", help="Column to return with each answer.")] = None,
    query: Annotated[
        str | None, typer.Option(help="Column of queries, for query ranking; the rows of a query are its documents.")
    ] = None,
    encoding: Encoding = None,
    skip_broken: Annotated[
        bool,
        typer.Option(
            "--skip-broken", help="Skip rows that cannot be answered; `error` has the reason, and the exit code is 3."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict with a trained model of any task: labels of images, scores, the order of documents."""
    from tqdm import tqdm

    from pipelines.serving.named_model import model_folder
    from rankgrad.cli.predict import SHIPPED, run
    from rankgrad.datasets.tables.rows import Roles

    with errors_in_a_line():
        roles = Roles(columns or (), id_column, query, encoding=encoding)
        with model_folder(str(SHIPPED) if model == "shipped" else model) as folder:
            code = run(
                folder, inputs, out=out, roles=roles, among=among,
                searched=Roles(id=among_id, captions=captions or None), k=k, skip_broken=skip_broken, as_json=as_json,
                followed=lambda pieces: tqdm(pieces, unit=" pieces", disable=None if out else True),
            )  # fmt: skip
    raise typer.Exit(code)


def serve(
    model: Annotated[
        str | None,
        typer.Argument(
            callback=model_typed_here,
            help="A registered version, or a run's folder, such as models/runs/photos-mse; by default the champion, if "
            "params.yaml trains only one model.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5001,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. For addresses that other machines can reach, such as 0.0.0.0, set the variable "
            "RANKGRAD_TOKEN to a secret, which requests must send as `Authorization: Bearer SECRET`."
        ),
    ] = "127.0.0.1",
    log_to: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here,
            help="Folder, such as data/incoming, for a random sample of each day's requests as input for `rankgrad "
            "monitor`: about 2,000 rows or 128 MB per day; by default no requests are stored.",
        ),
    ] = None,
    among: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here,
            help="Table or folder to search, for retrieval; each answer has the ten best rows. The server reads it "
            "again within a minute after a change.",
        ),
    ] = None,
    among_id: AmongId = None,
    captions: Captions = False,
) -> None:
    """Serve a registered version, or a run's folder, on http://HOST:PORT/invocations until Ctrl-C.

    The server follows an alias such as @champion: it switches to a new champion within a minute, without a restart. It
    also has /health, /version (model, version, and run), and /metrics (for Prometheus).
    """
    from pipelines.serving import server
    from pipelines.serving.named_model import the_model
    from rankgrad.datasets.tables.rows import Roles

    if among is None and (captions or among_id):
        fail("--captions and --among-id are for a search: leave them out, or add --among")
    with errors_in_a_line():
        named = the_model(model, "rankgrad serve MODEL")
        searched = Roles(id=among_id, captions=captions)
        server.serve(named, port=port, host=host, log_to=log_to, among=among, searched=searched)


def monitor(
    model_and_rows: Annotated[
        list[str],
        typer.Argument(
            callback=typed_here,
            metavar="[MODEL] FRESH",
            help="A registered version, or its folder; by default the champion, if params.yaml trains only one model. "
            "Then new raw rows, as for `rankgrad predict`: a table or a folder; labels are not needed.",
        ),
    ],
    alpha: Annotated[float, typer.Option(help="False-positive rate.")] = 0.01,
    least_distance: Annotated[float, typer.Option(help="Smallest KS distance that counts as drift.")] = 0.1,
    rows: Annotated[int, typer.Option(help="Largest number of rows to compare from each file.")] = 2000,
    challenger: Annotated[
        str | None,
        typer.Option(
            callback=model_typed_here,
            help="A second model of the same task to run on the new rows: a registered version, a folder, or "
            "@challenger, the model's version with that alias.",
        ),
    ] = None,
    encoding: Encoding = None,
    report: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here, help="JSON file to write; by default reports/monitoring/<model>/<path of FRESH>.json."
        ),
    ] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="On drift, schedule a retraining.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare new rows, and the model's predictions for them, with the training data.

    Exit code: 0 without drift, 3 with drift, 1 after an error.
    """
    from pipelines.monitoring import drift
    from pipelines.serving.named_model import the_model
    from rankgrad.datasets.tables.rows import Roles

    if len(model_and_rows) > 2:
        fail(f"{', '.join(model_and_rows)}: expected a model and one table or folder of new rows")
    fresh = Path(model_and_rows[-1])
    with errors_in_a_line():
        model = the_model(next(iter(model_and_rows[:-1]), None), f"rankgrad monitor MODEL {fresh}")
        report = report or drift.report_of(fresh, model)
        comparison = drift.compare(
            fresh, model=model, alpha=alpha, least_distance=least_distance, rows=rows,
            challenger=challenger, roles=Roles(encoding=encoding),
        )  # fmt: skip
        drift.write(comparison, report)
        if as_json:
            typer.echo(report.read_text(), nl=False)
        else:
            typer.echo(f"{comparison.verdict}; training data: {comparison.dataset}; report in {report}")
            _show(comparison)
            if comparison.to_label:
                typer.echo(f"{len(comparison.to_label)} rows worth labeling: {drift.list_of(report)}")
        if comparison.drifted and retrain:
            from pipelines.flows import monitor as flow

            typer.echo(f"scheduled {flow.DEPLOYMENT} as {flow.retrain(comparison.verdict)}", err=as_json)
    if comparison.shadow and comparison.shadow.failed:
        fail(comparison.shadow.verdict)
    if comparison.drifted:
        raise typer.Exit(3)


def _show(comparison: Any) -> None:
    by_distance = sorted(comparison.quantities, key=lambda row: (not row.drifted, -row.distance))
    hidden = by_distance[SHOWN:]
    rows = [
        (row.name, comparison.shown(row.name, row.reference, ".3f"), comparison.shown(row.name, row.fresh, ".3f"),
         f"{row.distance:.3f}", f"{row.adjusted_p:.2g}",
         "yes" if row.drifted else "a date" if row.name in comparison.dates else "no")
        for row in by_distance[:SHOWN]
    ]  # fmt: skip
    table("quantity", "training", "fresh", "KS distance", "adjusted p", "drifted", rows=rows)
    if hidden:
        typer.echo(f"and {len(hidden)} more in the report, {sum(row.drifted for row in hidden)} of them drifted")
    if comparison.outside:
        rows = [column.values() for column in comparison.outside_in_words]
        table("outside the training range", "training", "fresh", "rows", "first row", rows=rows)
    if (shadow := comparison.shadow) and not shadow.failed:
        rows = [
            (row.name, f"{row.champion:.3f}", f"{row.challenger:.3f}",
             None if row.correlation is None else f"{row.correlation:.3f}", f"{row.alike:.0%}")
            for row in shadow.agreement
        ]  # fmt: skip
        table("answers", "model", "challenger", "rank correlation", "rows alike", rows=rows)
        typer.echo(shadow.verdict)


def promote(
    models: Annotated[
        list[str] | None, typer.Argument(help="Registered models; by default all models that params.yaml defines.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Make this version champion, bypassing the gate.")] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Make the previous champion champion again.")] = False,
    over_person: Annotated[
        bool, typer.Option("--over-person", help="Let the gate replace a champion that a person chose.")
    ] = False,
) -> None:
    """Let the gate promote challengers that beat the champion, or choose a champion yourself.

    The gate compares both models on the same examples of the gate split; see the block `gate` in params.yaml.
    """
    by_hand, models = version is not None or rollback, models or []
    if version is not None and rollback:
        fail("--version and --rollback are both set, expected only one of them")
    if by_hand and len(models) != 1:
        fail("--version and --rollback need exactly one model, as in `rankgrad promote sorter-lstm --version 2`")
    from pipelines.config import load
    from pipelines.tracking import gate

    with errors_in_a_line():
        if by_hand:
            before, now = gate.choose(models[0], version)
            typer.echo(f"{models[0]}: version {now} is champion; previous: {before or 'none'}")
            return
        params = load()
        _require_recorded_data(params, models or gate.models_of(params))
        decisions = gate.decide_all(models or None, params, over_person=over_person)
    show_decisions(decisions)


def _require_recorded_data(params: "Settings", models: list[str]) -> None:
    """Raise ValueError if the data by which models are judged is not what dvc.lock records."""
    from pipelines.ops.graph import changed_outputs

    judging = {f"data/{run.dataset}" for run in params.runs.values() if params.model_of(run) in models}
    if judging and (changed := sorted(judging & changed_outputs("."))):
        raise ValueError(
            f"{', '.join(changed)}: not the data that dvc.lock records, as after `git merge`: run `dvc checkout "
            f"{' '.join(changed)}` first, or `rankgrad repro` if it was edited"
        )


def show_decisions(decisions: "list[Decision]") -> None:
    """Print the gate's decisions; exit with 1 if the gate could not compare a model."""
    rows = []
    for decision in decisions:
        versions = []
        for version in (decision.challenger, decision.champion):
            run = decision.runs.get(version or "")
            versions.append(f"{version} ({run})" if run else version)
        rows.append((decision.model, *versions, decision.state, decision.reason))
    table("model", "challenger", "champion before", "decision", "reason", rows=rows)
    if any(decision.failed for decision in decisions):
        raise typer.Exit(1)
