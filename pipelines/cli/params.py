"""Commands on params.yaml."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.shared import AsJson, errors_in_a_line, print_json, typed_here

__all__ = ["check", "problems", "scale"]

PARAMS = Path("params.yaml")


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(callback=typed_here, help="By default params.yaml."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check params: keys, values, names of components and their options."""
    problems_of = {str(file): problems(file) for file in files or [PARAMS]}
    if as_json:
        print_json({file: {"valid": not lines, "problems": lines} for file, lines in problems_of.items()})
    else:
        for file, lines in problems_of.items():
            typer.secho(
                "\n".join(lines) or f"{file}: valid{_looked_at(Path(file))}",
                fg="red" if lines else None,
                err=bool(lines),
            )
    if any(problems_of.values()):
        raise typer.Exit(1)


def _looked_at(file: Path) -> str:
    """Return how much of the tables of a valid params file was looked at; nothing if there are none."""
    from pipelines.config import load
    from rankgrad.datasets.table import HEAD

    tables = [key for key, block in load(file).datasets.items() if block.name == "table"]
    reads = f"`dvc repro {' '.join(f'validate@{key}' for key in tables)}` reads all"
    return f"; of tables the first {HEAD} rows were looked at, and no picture: {reads}" if tables else ""


def problems(file: Path) -> list[str]:
    """Return what is wrong with a params file, a line each."""
    from pipelines.config import ParamsError, rules
    from pipelines.config.schema import refuse_old_variables
    from rankgrad.training.device import find_device

    try:
        refuse_old_variables()
        find_device(rules.check(file).compute.device)  # raises before hours go into data for it
    except ParamsError as error:
        return str(error).splitlines()
    except ValueError as error:
        return [f"{file}: {error}"]
    return []


def scale(
    name: Annotated[str, typer.Argument(help="A file in scales/, such as tiny or paper; laptop goes back.")],
    folder: Annotated[
        Path | None, typer.Option("--in", callback=typed_here, help="Folder with another params.yaml and scales/.")
    ] = None,
) -> None:
    """Write a scale's values into params.yaml; comments are kept."""
    from pipelines.config import scales

    with errors_in_a_line():
        typer.echo(scales.apply(name, folder or Path()))
