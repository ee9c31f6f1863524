"""All commands of `rankgrad`, in the order of `rankgrad --help`."""

import logging
from typing import Annotated

import typer

from pipelines.cli import data, doctor, init, models, params, repro, retrain
from rankgrad import __version__

PANELS = {
    "Use": (
        doctor.doctor,
        init.init,
        params.check,
        params.scale,
        repro.repro,
        data.fetch,
        models.predict,
        models.serve,
    ),
    "Operate": (models.monitor, models.promote, retrain.retrain),
}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"rankgrad {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train on ranking metrics. `make repro` runs the whole pipeline; these commands use and operate it."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request


for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
