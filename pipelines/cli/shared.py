"""Code that commands share: errors in one line, tables, and paths relative to the user's folder."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from rankgrad.io.written import printable

__all__ = ["AsJson", "errors_in_a_line", "fail", "model_typed_here", "table", "typed_here"]

WIDE = 160  # width of a table without a terminal, in characters


def fail(message: object) -> NoReturn:
    """Print an error and end with exit code 1."""
    typer.secho("\n".join(map(printable, str(message).split("\n"))), fg="red", err=True)
    raise typer.Exit(1)


@contextmanager
def errors_in_a_line() -> Generator[None]:
    """Print the project's errors as messages, without a traceback."""
    try:
        yield
    except (ValueError, OSError, FloatingPointError) as error:
        fail(error)
    except MemoryError as error:
        fail(f"not enough memory ({error}): expected smaller files, or more memory")


def table(*columns: str, rows: Iterable[Iterable[object]]) -> None:
    """Print rows as a table, with - for None; cells are plain text, not markup."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    grid = Table(*(Column(column, overflow="fold") for column in columns))
    for row in rows:
        grid.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(grid)


def typed_here(context: typer.Context, value: Any) -> Any:
    """Convert a path that the user typed in another folder to one relative to the project's top folder."""
    folder: Path | None = context.obj  # the user's folder; None if the caller did not change folders
    if isinstance(value, list | tuple):
        return [typed_here(context, path) for path in value]
    if value is None or folder is None or folder == Path.cwd() or ":/" in str(value) or os.path.isabs(value):
        return value
    return type(value)(os.path.relpath(folder / value))


def model_typed_here(context: typer.Context, value: str) -> str:
    """Convert the path of a model as `typed_here` does; do not change `shipped` and aliases."""
    return value if value == "shipped" or str(value).startswith("@") else typed_here(context, value)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
