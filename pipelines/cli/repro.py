"""`rankgrad repro`: run the stages of the pipeline that changed."""

from typing import Annotated

import typer

from pipelines.cli.shared import errors_in_a_line

__all__ = ["repro"]


def repro(
    stages: Annotated[
        list[str] | None,
        typer.Argument(help="Stages to run with all that they need, such as compare; by default all, then publish."),
    ] = None,
) -> None:
    """Run the stages that changed, side by side on all cores or GPUs; `dvc repro` runs the same, one after another."""
    from pipelines.ops.repro import main

    with errors_in_a_line():
        main(*(stages or ()))
