"""The `rankops` command line."""

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from ruamel.yaml import YAML
from ruamel.yaml.emitter import Emitter
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scanner import Scanner
from ruamel.yaml.tokens import CommentToken

from pipelines.config.schema import ParamsError, check, load, load_experiments
from pipelines.ops.messages import on_one_line, without_credentials
from rankops.datasets.scenes import mnist
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import load_model, save_model

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
MNIST = Path("data/raw/mnist")
CHAMPION = "models:/label_ranking@champion"


def _fail(message: object) -> None:
    typer.secho(str(message), fg="red", err=True)
    raise typer.Exit(1)


def _in_project() -> None:
    if not Path("dvc.yaml").is_file():
        _fail(f"no dvc.yaml in {Path.cwd()}: run rankops in the project's top folder")


@app.callback()
def main() -> None:
    """RankOps: train on ranking metrics, as a pipeline. `dvc repro` runs it."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of each request


@app.command()
def fetch(
    timeout: Annotated[float, typer.Option(help="seconds that a download may stay silent")] = 10.0,
) -> None:
    """Brings MNIST to data/raw/mnist: from RANKOPS_MNIST_ROOT if it is set, else by download; or goes on without."""
    _in_project()
    if mnist.is_there(MNIST):
        try:
            mnist.check(MNIST)
        except (FileNotFoundError, ValueError) as error:
            typer.echo(f"{error}\nfetching MNIST again")
        else:
            typer.echo(f"MNIST is in {MNIST}, all four files as they should be")
            return
    root = os.environ.get("RANKOPS_MNIST_ROOT")
    try:
        if root:
            mnist.copy(root, MNIST)
        else:
            mnist.download(MNIST, timeout=timeout)
    except (FileNotFoundError, ValueError) as error:
        _fail(error)  # a folder was named, or something came, and it is wrong: that is no reason to go on without
    except OSError as error:
        if root:  # the files are there, and it is the disk
            _fail(error)
        typer.secho(
            f"{error}\nGoing on without MNIST. To bring it: RANKOPS_MNIST_ROOT=<folder of its files> rankops fetch",
            fg="yellow", err=True,
        )  # fmt: skip
        return
    typer.echo(f"MNIST is now in {MNIST}")


@app.command()
def params() -> None:
    """Checks params.yaml: every key known, every value possible, every name a file, every option taken."""
    _in_project()
    try:
        settings = load()
    except ParamsError as error:
        _fail(error)
    if settings.compute.device == "cuda":
        from rankops.training.loop import compute

        try:  # before hours go into data for it
            compute(device="cuda", precision=settings.compute.precision)
        except ValueError as error:
            _fail(f"params.yaml: {error}; `rankops scale laptop` goes back to what a laptop can do")
    typer.echo(f"params.yaml is fine: {len(settings.all_runs)} runs, {len(settings.sorters)} sorters to pretrain")
    try:
        experiments = load_experiments(settings)
    except ParamsError as error:  # which keeps `make experiments` from running, and nothing else
        typer.secho(f"{error}\n`make experiments` will not run until that is mended", fg="yellow", err=True)
    else:
        typer.echo(f"experiments/params.yaml is fine: {len(experiments.comparisons)} comparisons")


class _Emitter(Emitter):
    def write_comment(self, comment: CommentToken, pre: bool = False) -> None:
        """Right behind its value, not in the column where it stood when another scale's value was longer."""
        comment.column = comment.column if pre else 0
        super().write_comment(comment, pre)


@app.command()
def scale(name: Annotated[str, typer.Argument(help="a file in scales/, such as paper or laptop")]) -> None:
    """Writes a scale's values into params.yaml, comments kept, and what it says under experiments into theirs.

    DVC sees these files alone, so the values must stand there. A scale may stand `over` another: then its file says
    what differs.
    """
    _in_project()
    path = Path(f"scales/{name}.yaml")
    if not path.is_file():
        _fail(f"no {path}; there are {', '.join(sorted(file.stem for file in Path('scales').glob('*.yaml')))}")
    yaml = YAML()  # keeps comments and order
    yaml.Emitter = _Emitter
    yaml.preserve_quotes = yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.width = 4096  # no line is broken that was not
    yaml.representer.ignore_aliases = lambda value: True  # what a scale says of several methods is written out for each
    of_scales = YAML()
    of_scales.Scanner, of_scales.preserve_quotes = Scanner, True  # which passes over comments: they are of the scale
    experiments = Path("experiments/params.yaml")
    values, theirs = _layer(yaml, Path("params.yaml")), _layer(yaml, experiments)
    layers = _layers(of_scales, path)

    def merge(said_in: Path, into: dict, changed: dict, place: str, file: str | Path = "params.yaml") -> None:
        for key, value in changed.items():
            if key not in into:
                _fail(f"{said_in}: {place}{key} is not in {file}, which has {', '.join(map(str, into))} there")
            if isinstance(value, dict) and key in ("args", "schedule"):
                # They belong to a name, so they are replaced as a whole; in place, which keeps the comments behind.
                for old in [old for old in into[key] if old not in value]:
                    del into[key][old]
                into[key].update(value)
            elif isinstance(value, dict) and isinstance(into[key], dict):
                merge(said_in, into[key], value, f"{place}{key}.", file)
            else:
                into[key] = value

    for said_in, layer in layers:
        of_experiments = layer.pop("experiments", {})
        merge(said_in, values, layer, "")
        merge(said_in, theirs, of_experiments, "experiments.", experiments)
    with replaced_file("params.yaml") as partial, replaced_file(experiments) as their_partial:
        for written, block in ((partial, values), (their_partial, theirs)):
            with written.open("w") as file:
                yaml.dump(block, file)
        try:
            load_experiments(check(YAML(typ="safe").load(partial), path=path), their_partial)
        except ParamsError as error:  # both files stay as they were
            _fail(_blamed(error, path).replace(str(their_partial), str(experiments)))
    typer.echo(f"params.yaml now has the values of {path}; `git diff params.yaml` shows them, `dvc repro` runs them")


def _blamed(error: ParamsError, path: Path) -> str:
    """What is wrong with params that a scale was written into: what was wrong before is not its doing."""
    try:
        load()
    except ParamsError as before:
        known = {line.removeprefix("params.yaml: ") for line in str(before).splitlines()}
    else:
        known = set()
    lines = [line.removeprefix(f"{path}: ") for line in str(error).splitlines()]
    return "\n".join(f"{'params.yaml' if line in known else path}: {line}" for line in lines)


def _layers(yaml: YAML, path: Path) -> list[tuple[Path, dict]]:
    """What a scale's file says, after what the scale says that it names under `over`, and so on."""
    layers = [(path, _layer(yaml, path))]
    while (over := layers[0][1].pop("over", None)) is not None:
        file = path.with_name(f"{over}.yaml")
        if not file.is_file() or file in dict(layers):
            _fail(f"{layers[0][0]}: over is {over!r}, expected another file in scales/")
        layers.insert(0, (file, _layer(yaml, file)))
    return layers


def _layer(yaml: YAML, path: Path) -> dict:
    try:
        said = yaml.load(path)
    except FileNotFoundError:
        _fail(f"{path}: no such file; run from the project's top folder")
    except YAMLError as error:
        _fail(f"{path}: not YAML: {on_one_line(error)}")
    if not isinstance(said, dict):
        _fail(
            f"{path}: expected keys of params.yaml with their values, found {'nothing' if said is None else repr(said)}"
        )
    return said


@app.command()
def readme() -> None:
    """Copies the report's tables and its example sheet into README.md and docs/."""
    _in_project()
    results = Path("reports/results.md")
    if not results.is_file():
        _fail(f"no {results}: run `dvc repro` first")
    pages = {Path("README.md"): results}
    pictures = [Path("reports/figures/label_ranking-rlsep-examples.png")]
    experiments = Path("reports/experiments")
    if experiments.is_dir():
        pages[Path("docs/experiments.md")] = experiments / "results.md"
        pictures += [experiments / f"{name}.png" for name in ("differences", "average_precision-flipped_labels")]
    if missing := [str(path) for path in (*pages.values(), *pictures) if not path.is_file()]:
        _fail(f"no {', '.join(missing)}, which the pages show: run `dvc repro`, or `make experiments`, first")
    for page, source in pages.items():
        _written(page, source)
    Path("docs").mkdir(exist_ok=True)
    for path in pictures:
        shutil.copyfile(path, Path("docs") / path.name)
    typer.echo("README.md and docs/ now show the results of the last `dvc repro` and `make experiments`")


def _written(page: Path, results: Path) -> None:
    """Puts results between the two lines of a page that are there for it."""
    text = page.read_text()
    begin, end = "<!-- results: written by `rankops readme` -->\n", "<!-- end of results -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    if not rest or not after:
        _fail(f"{page}: no place for the results; expected the lines {begin.strip()} and {end}")
    with replaced_file(page) as partial:
        partial.write_text(f"{before}{begin}{results.read_text()}{end}{after}")


BENCHMARKS = {"sorters": ("sorters",), "losses": ("losses, Spearman of clips", "losses, mAP of long-tailed digits")}


@app.command()
def benchmark(
    names: Annotated[
        list[str] | None, typer.Argument(help="sorters (minutes), losses (needs what dvc repro makes)")
    ] = None,
) -> None:
    """Measures our sorters and losses beside other people's, and writes the tables into docs/sorters.md."""
    _in_project()
    for name in names or BENCHMARKS:
        if name not in BENCHMARKS:
            _fail(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}. All others: `make benchmark`")
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            _fail(f"benchmarks.{name} did not come to its end")
    folder = Path("benchmarks/results")
    tables = [folder / f"{title}.md" for titles in BENCHMARKS.values() for title in titles]
    if missing := [table for table in tables if not table.is_file()]:
        _fail(f"docs/sorters.md stays as it is: it takes all tables, and there is no {', '.join(map(str, missing))}; "
              "run `rankops benchmark`")  # fmt: skip
    together = folder / "together.md"
    with replaced_file(together) as partial:
        partial.write_text("".join(table.read_text() for table in tables))
    _written(Path("docs/sorters.md"), together)
    if (folder / "sorters.png").is_file():
        shutil.copyfile(folder / "sorters.png", "docs/sorters.png")


@app.command()
def ship(name: Annotated[str, typer.Argument(help="a sorter of any length, such as comparator")]) -> None:
    """Puts a pretrained sorter into the package, so that load_sorter(NAME) works offline; with what made it.

    `origin.json` beside the weights holds DVC's entry of the training: its params, and the hashes of code and data.
    """
    _in_project()
    from pipelines.ops import dvc_lock

    source, target = Path("models/sorters") / name, Path("src/rankops/shipped") / name
    try:
        sorter = load_model(source)
        entry = dvc_lock.stages().get(f"pretrain@{name}")
    except (FileNotFoundError, ValueError) as error:
        _fail(error)
    if entry is None:
        _fail(f"dvc.lock: no entry for pretrain@{name}: run `dvc repro pretrain@{name}` first")
    if sorter.length is not None:
        _fail(f"{name} sorts {sorter.length} scores and no other number: expected a sorter of any length")
    save_model(target, sorter)
    with replaced_file(target / "origin.json") as partial:
        partial.write_text(json.dumps(entry, indent=2, sort_keys=True) + "\n")
    typer.echo(f"wrote {target}, {sum(file.stat().st_size for file in target.iterdir())} bytes in all")


@app.command()
def keep(
    name: Annotated[str, typer.Argument(help="of the file in results/paper, such as a scale's")],
    command: Annotated[str, typer.Option(help="what was run")] = "dvc repro experiments/dvc.yaml:compare_label_ranking",
    made_on: Annotated[
        Path | None,
        typer.Option("--machine", help="what python -m pipelines.reporting.archive said where they were made"),
    ] = None,
) -> None:
    """Keeps the results of the comparison of label rankers in git, with what made them, as results/paper/NAME.json.

    Refuses results of different data or code, or that are not those of experiments/dvc.lock, or not of a commit.
    """
    _in_project()
    from pipelines.reporting import archive
    from pipelines.reporting.perfect_ranking import perfect_mean_average_precision

    test = Path("data") / archive.DATASET / "test.parquet"
    try:
        machine = archive.machine() if made_on is None else archive.read_machine(made_on)
        highest = {archive.MEAN_AVERAGE_PRECISION: perfect_mean_average_precision(test)} if test.exists() else {}
        path = archive.keep(name, command=command, made_on=machine, highest=highest)
    except (ValueError, OSError) as error:
        _fail(error)
    typer.echo(f"wrote {path}; `git add {path}`")


@app.command()
def mend() -> None:
    """Mends locks and lists that an interrupted dvc left half written; `make repro` does so first."""
    _in_project()
    from pipelines.ops import dvc_repair

    try:
        for line in dvc_repair.mend():
            typer.echo(line)
    except ValueError as error:
        _fail(error)


@app.command()
def predict(
    images: Annotated[list[Path], typer.Argument(help="PNG or JPEG files")],
    model: Annotated[str, typer.Option(help="a registered version, or a folder such as models/runs/<run>")] = CHAMPION,
    out: Annotated[Path | None, typer.Option(help="annotated picture: a file, or a folder for several")] = None,
) -> None:
    """Says which labels are in pictures, the most important first."""
    from pipelines.serving.batch import annotate, load_ranker, places_for
    from pipelines.serving.batch import predict as predictions_of

    try:
        places = places_for(images, out) if out else []
        found = predictions_of(load_ranker(model), images)
        for place, one in zip(places, found, strict=False):
            annotate(place, one)
    except (ValueError, OSError, FloatingPointError) as error:
        _fail(error)
    console = Console()
    for one in found:
        console.print(Text(str(one.path) if one.labels else f"{one.path}: no label"), soft_wrap=True)
        table = Table("place", "label", "score")
        for row in zip(one.places, one.labels, one.scores, strict=True):
            table.add_row(str(row[0]), str(row[1]), f"{row[2]:.3f}")
        if one.labels:
            console.print(table)
    for place in places:
        typer.echo(f"drawn: {place}")


@app.command()
def predict_table(
    source: Annotated[Path, typer.Argument(help="Parquet with a column image: {bytes, path}, or bytes")],
    target: Annotated[Path, typer.Argument(help="Parquet that gets id, scores, label_ranks, selected")],
    model: Annotated[str, typer.Option(help="a registered version, or a folder such as models/runs/<run>")] = CHAMPION,
) -> None:
    """Ranks the labels of all pictures of a Parquet file, into another; whole or not at all."""
    from pipelines.serving.batch import load_ranker
    from pipelines.serving.batch import predict_table as write_predictions

    try:
        rows = write_predictions(source, target, load_ranker(model))
    except (ValueError, OSError, FloatingPointError) as error:
        _fail(error)
    typer.echo(f"{target}: predictions of {rows} images")


@app.command()
def serve(
    model: Annotated[str, typer.Option(help="a registered version")] = CHAMPION,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5001,
) -> None:
    """Serves a registered version on http://127.0.0.1:<port>/invocations by `mlflow models serve`."""
    from pipelines.serving import server

    try:
        server.check(model, port=port)
    except (ValueError, OSError) as error:
        _fail(error)
    command = server.command(model, port=port)
    os.execvpe(command[0], command, server.environment())


@app.command()
def monitor(
    fresh: Annotated[Path, typer.Argument(help="Parquet with a column image: {bytes, path}; no labels needed")],
    model: Annotated[str, typer.Option(help="a registered version, or a folder such as models/runs/<run>")] = CHAMPION,
    dataset: Annotated[str, typer.Option(help="below data/, that it was trained on")] = "ranked_mnist",
    alpha: Annotated[float, typer.Option(help="how often files without drift may be called drifted")] = 0.01,
    least_distance: Annotated[float, typer.Option(help="KS distance from which a figure has drifted")] = 0.1,
    rows: Annotated[int, typer.Option(help="images of each file that are looked at, at most")] = 2000,
    report: Annotated[Path | None, typer.Option(help="by default reports/monitoring/<name of FRESH>.json")] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="where there is drift, start Prefect's retrain")] = False,
) -> None:
    """Compares fresh images, and the champion's scores of them, with its training data.

    Ends with 0 where nothing has drifted, with 3 where something has, with 1 after an error.
    """
    _in_project()
    from pipelines.monitoring import drift

    report = report or Path("reports/monitoring") / f"{fresh.stem}.json"
    try:
        comparison = drift.compare(
            fresh, model=model, dataset=dataset, alpha=alpha, least_distance=least_distance, rows=rows
        )
        drift.write(comparison, report)
        Console().print(drift.table(comparison))
        typer.echo(f"{comparison.verdict}; report in {report}")
        if comparison.drifted and retrain:
            from pipelines.flows import monitor as flow

            typer.echo(f"scheduled {flow.DEPLOYMENT} as {flow.retrain(comparison.verdict)}")
    except (ValueError, OSError, FloatingPointError) as error:
        _fail(error)
    if comparison.drifted:
        raise typer.Exit(3)


@app.command()
def watch(
    every: Annotated[float, typer.Option(min=1, help="seconds between looks")] = 10.0,
) -> None:
    """Shows trainings in MLflow while they go on, beside a `dvc repro`; until Ctrl-C. The flows do so by themselves."""
    _in_project()
    import threading

    from pipelines.tracking.live import watch as follow

    ended = threading.Event()
    try:
        follow(load(), Path(".checkpoints"), ended, every=every)
    except ValueError as error:
        _fail(error)
    except KeyboardInterrupt:
        ended.set()
        follow(load(), Path(".checkpoints"), ended, every=0)


@app.command()
def servers(
    action: Annotated[str, typer.Argument(help="start, stop or status")],
    prefect_port: Annotated[int, typer.Option(min=1, max=65535)] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
) -> None:
    """Starts, stops or looks at Prefect's and MLflow's servers, in the background, on 127.0.0.1."""
    _in_project()
    from pipelines.ops import servers as both

    known = both.servers(prefect_port=prefect_port, mlflow_port=mlflow_port)
    try:
        if action == "start":
            for said in both.start_all(known):
                typer.echo(said)
        elif action == "stop":
            for server in known:
                typer.echo(both.stop(server))
        elif action == "status":
            for server in known:
                found = "is up" if both.answering(server) else "does not answer"
                typer.echo(f"{server.name} {found} at {server.address}")
        else:
            _fail(f"servers {action}: expected start, stop or status")
    except (ValueError, OSError) as error:
        _fail(error)


@app.command()
def deploy() -> None:
    """Brings the Prefect server to what prefect.yaml says: pools, deployments, schedules, and what finds dead runs."""
    _in_project()
    from pipelines.flows.deploy import deploy as bring

    try:
        typer.echo(bring())
    except (ValueError, OSError) as error:
        _fail(error)


@app.command()
def promote(
    models: Annotated[
        list[str] | None, typer.Argument(help="registered models; all of params.yaml, if none is named")
    ] = None,
    version: Annotated[str | None, typer.Option(help="make this one champion, whatever the gate says")] = None,
    over_person: Annotated[
        bool, typer.Option("--over-person", help="let the gate replace a champion that a person set")
    ] = False,
) -> None:
    """Lets the gate decide whether challengers become champions, or makes one champion by hand.

    The gate compares challenger and champion on the gate split, example by example; see the block gate in params.yaml.
    Sorters are compared on fresh vectors, models of data from disk on its validation split.
    """
    _in_project()
    from pipelines.tracking import gate
    from pipelines.tracking.publish import Registry, store

    if version is not None and (models is None or len(models) != 1):
        _fail(
            f"--version {version} is a version of one model: name it, as in `rankops promote sorter-lstm --version 2`"
        )
    try:
        params = load()
        with store() as client:
            registry = Registry(client)
            if version is not None:
                replaced = gate.promote_by_hand(registry, models[0], version)
                typer.echo(f"{models[0]}: version {version} is champion now; before: {replaced or 'none'}")
                return
            decisions = gate.decide_all(registry, models or gate.known(params), params, over_person=over_person)
    except (ValueError, OSError) as error:
        _fail(error)
    table = Table("model", "challenger", "champion", "decision", "why")
    for one in decisions:
        decided = "error" if one.failed else "promoted" if one.promoted else "stays"
        table.add_row(one.model, one.challenger or "-", one.champion or "-", decided, Text(one.reason))
    Console().print(table)
    if any(one.failed for one in decisions):
        raise typer.Exit(1)


@app.command()
def rollback(model: Annotated[str, typer.Argument(help="a registered model, such as label_ranking")]) -> None:
    """Gives `champion` back to the version that held it before."""
    _in_project()
    from pipelines.tracking import gate
    from pipelines.tracking.publish import Registry, store

    try:
        with store() as client:
            taken, given = gate.roll_back(Registry(client), model)
    except (ValueError, OSError) as error:
        _fail(error)
    typer.echo(f"{model}: version {given} is champion again; before: {taken or 'none'}")


@app.command()
def sweep(
    runs: Annotated[list[str], typer.Argument(help="in params.yaml: each has a task and a loss")],
    seeds: Annotated[str | None, typer.Option(help="such as 1,2,3; each run's own, if none is given")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="KEY=VALUE,VALUE,...: a key of params.yaml, or of the runs' blocks; may be repeated"
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="points that run at once")] = 1,
    dask: Annotated[str | None, typer.Option(help="`local` for a Dask cluster here, or a scheduler's address")] = None,
    name: Annotated[str | None, typer.Option(help="of the sweep in MLflow")] = None,
) -> None:
    """Trains every combination of runs, seeds and values, each as a DVC experiment, and compares them in MLflow.

    rankops sweep label_ranking-rlsep label_ranking-lsep --seeds 1,2,3
    --set training.label_ranking.scorer.optimizer.args.lr=0.001,0.003 --workers 2

    Run again after an interrupt, it goes on.
    """
    _in_project()
    # Prefect reads these when it is imported: it reports to nobody, and the server of its own, which it starts where
    # PREFECT_API_URL names none, may take a while on a busy machine.
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "180")
    from pipelines.flows.points import points

    tried = {}
    for change in changes or []:
        key, _, values = change.partition("=")
        if not values or key in tried:
            _fail(f"--set {change}: expected KEY=VALUE,VALUE,... with a key for each")
        tried[key] = _values(f"--set {key}", values)
    numbers = _values("--seeds", seeds) if seeds is not None else None
    try:
        points(runs, tried, numbers)  # before a server is started for nothing
    except ParamsError as error:
        _fail(error)
    from httpx import HTTPError
    from prefect.exceptions import PrefectException
    from prefect.settings import get_current_settings

    from pipelines.flows import sweep as flow

    failure = None
    try:
        results = flow.sweep(runs, changes=tried, seeds=numbers, workers=workers, dask=dask, name=name)
    except flow.SweepIncomplete as error:
        results, failure = error.results, error
    except (ValueError, OSError) as error:
        _fail(error)
    except (HTTPError, PrefectException, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith("Failed to reach API"):  # as Prefect says it
            raise
        server = f"the Prefect server {address}" if (address := get_current_settings().api.url) else "Prefect"
        said = on_one_line(error)
        _fail(
            without_credentials(
                f"sweep: {server} does not take it ({said}); see that it runs and that PREFECT_API_URL names it, or is "
                "not set; the same sweep again goes on"
            )
        )
    for task, rows in flow.tables(results).items():
        last = [column.split(".")[-1] for column in rows]
        shown = [short if last.count(short) == 1 else column for short, column in zip(last, rows, strict=True)]
        table = Table(*(Column(one, overflow="fold") for one in shown), title=Text(task), title_justify="left")
        for row in rows.itertuples(index=False):
            table.add_row(*map(Text, row), end_section=row.seed.startswith("mean"))
        Console().print(table)
    if failure:
        _fail(failure)


def _values(option: str, text: str) -> list:
    """`0.001,[2, 8],null` as values, as they would stand in params.yaml."""
    try:
        return YAML(typ="safe").load(f"[{text}]")
    except (YAMLError, ValueError):  # the latter of a day that there is not
        _fail(f"{option}: {text!r} is no list of values, such as 1,2 or [2, 8],[3, 6]")


@app.command()
def doctor() -> None:
    """Says what this checkout has: Python, packages, GPU, MNIST, params, the MLflow store."""
    _in_project()
    rows = [("python", sys.version.split()[0]), ("torch", torch.__version__)]
    rows.append(("GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none: training on the CPU"))
    try:
        mnist.check(MNIST)
        rows.append(("MNIST", f"in {MNIST}"))
    except (FileNotFoundError, ValueError) as error:
        rows.append(("MNIST", f"{error} -> rankops fetch"))
    try:
        load()
        rows.append(("params.yaml", "fine"))
    except ParamsError as error:
        rows.append(("params.yaml", str(error)))
    store = "mlflow.db here -> make ui"
    if address := os.environ.get("MLFLOW_TRACKING_URI"):
        store = without_credentials(address)
    rows.append(("MLflow store", store))
    table = Table(show_header=False)
    for name, said in rows:
        table.add_row(name, Text(said))
    Console().print(table)


if __name__ == "__main__":
    app()
