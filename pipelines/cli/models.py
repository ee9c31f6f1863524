"""Commands on trained models: predict, demo, serve, monitor, promote."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.shared import CHAMPION, AsJson, ModelOption, errors_in_a_line, fail, print_json, table, typed_here

__all__ = ["demo", "monitor", "predict", "promote", "serve"]


def predict(
    sources: Annotated[
        list[Path],
        typer.Argument(callback=typed_here, help="PNG or JPEG files, or one Parquet file with a column image."),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            callback=typed_here,
            help="A registered version, or a folder such as models/runs/<run>; by default the registered champion, "
            "or, if there is none, the ranker that comes with the package.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=typed_here,
            help="For pictures: an annotated picture, or a folder for several. For a table: the Parquet file to write.",
        ),
    ] = None,
    skip_broken: Annotated[
        bool,
        typer.Option(
            "--skip-broken",
            help="For a table: leave out images that cannot be read. The column error says why; the exit code is 3.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the labels in pictures, the most important first."""
    if any(source.suffix.lower() == ".parquet" for source in sources):
        if len(sources) > 1 or out is None:
            fail(f"{len(sources)} files, {out=!s}: expected one Parquet file and --out predictions.parquet")
        _predict_table(sources[0], out, model, skip_broken=skip_broken, as_json=as_json)
        return
    if skip_broken:
        fail("--skip-broken: is for a Parquet file; leave out the pictures that cannot be read")
    from pipelines.serving.ranker import ranker_folder
    from rankops.cli.predict import annotate, annotated_paths, check_files
    from rankops.cli.predict import predict as predictions_of

    with errors_in_a_line():
        check_files(sources)  # before MLflow is asked
        places = annotated_paths(sources, out) if out else []
        with ranker_folder(model) as folder:
            found = predictions_of(sources, folder)
        for place, one in zip(places, found, strict=False):
            annotate(place, one)
    if as_json:
        print_json([one.as_json() for one in found])
        return
    for one in found:
        typer.echo(one.path if one.labels else f"{one.path}: no label")
        if one.labels:
            scores = [f"{score:.3f}" for score in one.scores]
            table("place", "label", "score", rows=zip(one.places, one.names or one.labels, scores, strict=True))
    for place in places:
        typer.echo(f"drawn: {place}")


def _predict_table(source: Path, target: Path, model: str | None, *, skip_broken: bool, as_json: bool) -> None:
    from rankops.cli.predict import check_files

    with errors_in_a_line():
        check_files([source])
        from pipelines.serving.batch import load_ranker, predict_table

        rows, broken = predict_table(source, target, load_ranker(model), skip_broken=skip_broken)
    if as_json:
        print_json({"out": str(target), "rows": rows} | ({"broken": broken} if skip_broken else {}))
    else:
        typer.echo(f"{target}: predictions for {rows - len(broken)} images")
    if broken:
        named = ", ".join(map(str, broken[:10])) + (", ..." if len(broken) > 10 else "")
        typer.echo(f"{source}: {len(broken)} of {rows} images cannot be read: rows {named}", err=True)
        raise typer.Exit(3)


def demo(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            callback=typed_here,
            help="Folders of label rankers, such as models/runs/<run>; by default RLSEP beside cross-entropy if both "
            "are trained, or else the ranker that comes with the package.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5002,
) -> None:
    """Move digits on a local page, and see how label rankers rank them, until Ctrl-C."""
    from rankops.cli.demo import serve

    with errors_in_a_line():
        serve(models or (), port=port)


def serve(
    model: Annotated[str, typer.Option(help="A registered version.")] = CHAMPION,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5001,
) -> None:
    """Serve a registered version on http://127.0.0.1:PORT/invocations until Ctrl-C."""
    from pipelines.serving import server

    with errors_in_a_line():
        server.serve(model, port=port)


def monitor(
    fresh: Annotated[
        Path, typer.Argument(callback=typed_here, help="Parquet with a column image: {bytes, path}; labels not needed.")
    ],
    model: ModelOption = CHAMPION,
    dataset: Annotated[
        str | None, typer.Option(help="Folder below data/; by default what a registered version was trained on.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="False-positive rate.")] = 0.01,
    least_distance: Annotated[float, typer.Option(help="Smallest KS distance that counts as drift.")] = 0.1,
    rows: Annotated[int, typer.Option(help="Largest number of images to compare from each file.")] = 2000,
    report: Annotated[
        Path | None,
        typer.Option(callback=typed_here, help="JSON to write; default: reports/monitoring/<name of FRESH>.json."),
    ] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="On drift, schedule a retraining.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare fresh images, and the model's scores of them, with its training data.

    Exit code: 0 without drift, 3 with drift, 1 after an error.
    """
    from pipelines.monitoring import drift

    report = report or Path("reports/monitoring") / f"{fresh.stem}.json"
    with errors_in_a_line():
        comparison = drift.compare(
            fresh, model=model, dataset=dataset, alpha=alpha, least_distance=least_distance, rows=rows
        )
        drift.write(comparison, report)
        if as_json:
            typer.echo(report.read_text(), nl=False)
        else:
            from rich.console import Console

            Console().print(drift.table(comparison))
            typer.echo(f"{comparison.verdict}; report in {report}")
        if comparison.drifted and retrain:
            from pipelines.flows import monitor as flow

            typer.echo(f"scheduled {flow.DEPLOYMENT} as {flow.retrain(comparison.verdict)}", err=as_json)
    if comparison.drifted:
        raise typer.Exit(3)


def promote(
    models: Annotated[
        list[str] | None, typer.Argument(help="Registered models; by default all that params.yaml defines.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Make this version champion, bypassing the gate.")] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Make the previous champion champion again.")] = False,
    over_person: Annotated[
        bool, typer.Option("--over-person", help="Let the gate replace a champion that a person chose.")
    ] = False,
) -> None:
    """Let the gate promote challengers that beat the champion, or choose a champion by hand.

    The gate compares both on the gate split, example by example; see the block gate in params.yaml.
    """
    if version is not None and rollback:
        fail("--version and --rollback: expected one of them")
    if (version is not None or rollback) and len(models or []) != 1:
        fail("--version and --rollback need one model, as in `rankops promote sorter-lstm --version 2`")
    from pipelines.config import load
    from pipelines.tracking import gate

    with errors_in_a_line():
        if models and (version is not None or rollback):
            model, now = models[0], version
            if now is None:
                before, now = gate.roll_back(model)
            else:
                before = gate.promote_by_hand(model, now)
            typer.echo(f"{model}: version {now} is champion; before: {before or 'none'}")
            return
        decisions = gate.decide_all(models or None, load(), over_person=over_person)
    rows = [
        (one.model, one.challenger or "-", one.champion or "-",
         "error" if one.failed else "promoted" if one.promoted else "stays", one.reason)
        for one in decisions
    ]  # fmt: skip
    table("model", "challenger", "champion", "decision", "reason", rows=rows)
    if any(one.failed for one in decisions):
        raise typer.Exit(1)
