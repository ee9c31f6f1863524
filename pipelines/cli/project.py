"""Commands on the checkout."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.shared import errors_in_a_line

__all__ = ["repair", "watch"]


def watch(every: Annotated[float, typer.Option(min=1, help="Seconds between looks.")] = 10.0) -> None:
    """Send epochs of running trainings to MLflow, beside `dvc repro`, until Ctrl-C. Flows do so by themselves."""
    import threading

    from pipelines.config import load
    from pipelines.tracking.live import watch as follow

    ended = threading.Event()
    with errors_in_a_line():
        settings = load()
        try:
            typer.echo("watching trainings until Ctrl-C")
            follow(settings, Path(".checkpoints"), ended, every=every)
        except KeyboardInterrupt:
            ended.set()
            follow(settings, Path(".checkpoints"), ended, every=0)


def repair() -> None:
    """Repair locks and lists that an interrupted dvc left half-written. `make repro` does so too."""
    from pipelines.ops import dvc_repair

    with errors_in_a_line():
        for line in dvc_repair.repair() or ["nothing to repair"]:
            typer.echo(line)
