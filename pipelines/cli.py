"""The `rankops` command line."""

import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from pipelines.settings import ParamsError, check, load, load_experiments
from rankops.atomic_writes import replaced_file
from rankops.datasets import mnist

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
MNIST = Path("data/raw/mnist")


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


@app.command()
def fetch(
    timeout: Annotated[float, typer.Option(help="seconds that a download may stay silent")] = 10.0,
) -> None:
    """Brings MNIST to data/raw/mnist: from RANKOPS_MNIST_ROOT, or by download. Goes on without where neither works."""
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
    typer.echo(f"params.yaml is fine: {len(settings.all_runs)} runs, {len(settings.sorters)} sorters to pretrain")
    try:
        experiments = load_experiments(settings)
    except ParamsError as error:  # which keeps `make experiments` from running, and nothing else
        typer.secho(f"{error}\n`make experiments` will not run until that is mended", fg="yellow", err=True)
    else:
        typer.echo(f"experiments/params.yaml is fine: {len(experiments.comparisons)} comparisons")


@app.command()
def scale(name: Annotated[str, typer.Argument(help="a file in scales/, such as paper or laptop")]) -> None:
    """Writes a scale's values into params.yaml, comments kept, and what it says under experiments into theirs.

    DVC sees these files alone, so the values must stand there.
    """
    _in_project()
    path = Path(f"scales/{name}.yaml")
    if not path.is_file():
        _fail(f"no {path}; there are {', '.join(sorted(file.stem for file in Path('scales').glob('*.yaml')))}")
    yaml = YAML()  # keeps comments and order
    yaml.preserve_quotes = True
    yaml.width = 120
    values, changes = yaml.load(Path("params.yaml")), yaml.load(path)
    experiments = Path("experiments/params.yaml")
    theirs, their_changes = yaml.load(experiments), changes.pop("experiments", {})

    def merge(into: dict, changed: dict, place: str, file: str | Path = "params.yaml") -> None:
        for key, value in changed.items():
            if key not in into:
                _fail(f"{path}: {place}{key} is not in {file}, which has {', '.join(map(str, into))} there")
            if isinstance(value, dict) and key in ("args", "schedule"):
                # They belong to a name, so they are replaced as a whole; in place, which keeps the comments behind.
                for old in [old for old in into[key] if old not in value]:
                    del into[key][old]
                into[key].update(value)
            elif isinstance(value, dict) and isinstance(into[key], dict):
                merge(into[key], value, f"{place}{key}.", file)
            else:
                into[key] = value

    merge(values, changes, "")
    merge(theirs, their_changes, "experiments.", experiments)
    with replaced_file("params.yaml") as partial, replaced_file(experiments) as their_partial:
        for written, block in ((partial, values), (their_partial, theirs)):
            with written.open("w") as file:
                yaml.dump(block, file)
        try:
            load_experiments(check(YAML(typ="safe").load(partial), path=path), their_partial)
        except ParamsError as error:
            _fail(error)  # both files stay as they were
    typer.echo(f"params.yaml now has the values of {path}; `git diff params.yaml` shows them, `dvc repro` runs them")


@app.command()
def readme() -> None:
    """Copies the report's tables and its example sheet into README.md and docs/."""
    _in_project()
    results = Path("reports/results.md")
    if not results.is_file():
        _fail(f"no {results}: run `dvc repro` first")
    _written("README.md", results)
    Path("docs").mkdir(exist_ok=True)
    shutil.copyfile("reports/figures/label_ranking-rlsep-examples.png", "docs/label_ranking-rlsep-examples.png")
    experiments = Path("reports/experiments")
    if experiments.is_dir():
        _written("docs/experiments.md", experiments / "results.md")
        for name in ("differences", "average_precision-flipped_labels"):
            shutil.copyfile(experiments / f"{name}.png", f"docs/{name}.png")
    typer.echo("README.md and docs/ now show the results of the last `dvc repro` and `make experiments`")


def _written(page: str, results: Path) -> None:
    """Puts results between the two lines of a page that are there for it."""
    text = Path(page).read_text()
    begin, end = "<!-- results: written by `rankops readme` -->\n", "<!-- end of results -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    if not rest or not after:
        _fail(f"{page}: no place for the results; expected the lines {begin.strip()} and {end}")
    with replaced_file(page) as partial:
        partial.write_text(f"{before}{begin}{results.read_text()}{end}{after}")


@app.command()
def mend() -> None:
    """Removes DVC's list of running stages where an interrupt left it half written; `make repro` does so first."""
    _in_project()
    path = Path(".dvc/tmp/rwlock")
    for _ in range(10):  # a running dvc writes it within milliseconds
        try:
            json.loads(path.read_text())
        except FileNotFoundError:
            return
        except ValueError:
            time.sleep(0.1)
        else:
            return
    path.unlink(missing_ok=True)
    typer.echo(f"{path} was half written, by an interrupted dvc; removed it")


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
    rows.append(("MLflow store", os.environ.get("MLFLOW_TRACKING_URI") or "mlflow.db here -> make ui"))
    table = Table(show_header=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    app()
