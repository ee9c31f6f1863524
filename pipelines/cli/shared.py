"""What the commands share: errors in a line, JSON, and paths relative to where they were typed."""

import json
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from rankgrad.io.written import printable

__all__ = ["AsJson", "errors_in_a_line", "fail", "model_typed_here", "print_json", "table", "typed_here"]

WIDE = 160  # columns of a table where there is no terminal


def fail(message: object) -> NoReturn:
    """Print an error and end with exit code 1."""
    typer.secho("\n".join(map(printable, str(message).split("\n"))), fg="red", err=True)
    raise typer.Exit(1)


@contextmanager
def errors_in_a_line() -> Generator[None]:
    """Print what the project refuses as a message, without a traceback."""
    try:
        yield
    except (ValueError, OSError, FloatingPointError) as error:
        fail(error)
    except MemoryError as error:
        fail(f"not enough memory ({error}): expected smaller files, or more memory")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def table(*columns: str, rows: Iterable[Iterable[object]]) -> None:
    """Print rows as a table, with a - for None; nothing in a cell is markup."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    grid = Table(*(Column(column, overflow="fold") for column in columns))
    for row in rows:
        grid.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(grid)


def typed_here(context: typer.Context, value: Any) -> Any:
    """Make a path that was typed in another folder relative to the project's top folder, where commands run."""
    folder: Path | None = context.obj  # where the command was typed; None if the caller did not change folders
    if isinstance(value, list | tuple):
        return [typed_here(context, path) for path in value]
    if value is None or folder is None or folder == Path.cwd() or ":/" in str(value) or os.path.isabs(value):
        return value
    return type(value)(os.path.relpath(folder / value))


def model_typed_here(context: typer.Context, value: str) -> str:
    """Make the folder of a model relative as `typed_here` does; `shipped` and aliases stay as they are."""
    return value if value == "shipped" or str(value).startswith("@") else typed_here(context, value)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
