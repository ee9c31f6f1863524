"""Commands for params.yaml."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.shared import AsJson, errors_in_a_line, typed_here

if TYPE_CHECKING:
    from pipelines.config import Settings

__all__ = ["check", "examined", "scale"]

PARAMS = Path("params.yaml")


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(callback=typed_here, help="Params files; by default params.yaml."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check params: keys, values, component names, and their options."""
    from pipelines.ops.leftovers import described, leftovers

    problems_of, valid = dict[str, list[str]](), dict[str, str]()
    for file in files or [PARAMS]:
        settings, problems_of[str(file)] = examined(file)
        if settings is not None:
            valid[str(file)] = f"{file}: valid{_looked_at(settings)}{_own()}"
            for path in leftovers(settings) if file.resolve() == PARAMS.resolve() else ():
                valid[str(file)] += f"\n  {described(path)}"
    if as_json:
        found = {file: {"valid": not lines, "problems": lines} for file, lines in problems_of.items()}
        typer.echo(json.dumps(found, indent=2))
    else:
        for file, lines in problems_of.items():
            typer.secho("\n".join(lines) or valid[file], fg="red" if lines else None, err=bool(lines))
    if any(problems_of.values()):
        raise typer.Exit(1)


def _own() -> str:
    """Return a line on the components in `own`, which params can name; empty if there are none."""
    from rankgrad import lookup

    files = []
    for folder in lookup.OWN_FOLDERS:
        files += [lookup.own_file(folder, name) for name in lookup.own_files(folder)]
    return f"\n  your own components: {', '.join(files)}" if files else ""


def _looked_at(settings: "Settings") -> str:
    """Return a note on how much of the tables in valid params was checked; empty if there are none."""
    from rankgrad.datasets.table import HEAD

    tables = [key for key, block in settings.datasets.items() if block.name == "table"]
    reads = f"`dvc repro {' '.join(f'validate@{key}' for key in tables)}` checks everything"
    return f"; checked the first {HEAD} rows of tables, and no images: {reads}" if tables else ""


def examined(file: Path) -> "tuple[Settings | None, list[str]]":
    """Return the settings of a params file and no problems, or None and its problems, one per line."""
    from pipelines.config import ParamsError, rules
    from pipelines.config.schema import refuse_old_variables
    from rankgrad.training.device import find_device

    try:
        refuse_old_variables()
        settings = rules.check(file)
        find_device(settings.compute.device)  # fail before spending hours on data
    except ParamsError as error:
        return None, str(error).splitlines()
    except ValueError as error:
        return None, [f"{file}: {error}"]
    return settings, []


def scale(
    name: Annotated[
        str, typer.Argument(help="A file in scales/, such as tiny or paper; laptop restores the original.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--in", callback=typed_here, help="Another folder with a params.yaml and scales/.")
    ] = None,
) -> None:
    """Write a scale's values into params.yaml, keeping its comments."""
    from pipelines.config import scales

    with errors_in_a_line():
        typer.echo(scales.apply(name, folder or Path()))
