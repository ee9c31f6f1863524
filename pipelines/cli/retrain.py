"""`rankgrad retrain`: run the nightly retraining in a terminal, without a server."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.models import show_decisions
from pipelines.cli.shared import errors_in_a_line, fail

__all__ = ["retrain"]


def retrain(
    reason: Annotated[str, typer.Option(help="Why, for the commit.")] = "by hand",
    advance: Annotated[bool, typer.Option(help="Take the next delivery or snapshot of the data.")] = True,
    only: Annotated[
        list[str] | None, typer.Option(help="A run of params.yaml to train, publish and judge; by default all.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="A changed param of this retraining, such as runs.mine.loss.args.pairs=10."),
    ] = None,
    push: Annotated[
        str | None, typer.Option(help="A git remote that gets the branch, after DVC's default remote got the data.")
    ] = None,
) -> None:
    """Train what changed in a clone of the present commit, publish it, and let the gate promote what is better.

    The checkout stays as it is: params and dvc.lock become a branch `retrain/<time>`. A killed retraining is resumed by
    the next one. Exit code: 1 if a stage failed or a model could not be judged.
    """
    from pipelines.flows.processes import CommandFailed
    from pipelines.flows.retraining import Request, retrain_here

    with errors_in_a_line():
        try:
            request = Request(reason, advance, only or [], changes or [], push)
            decisions, branch = retrain_here(Path.cwd(), request)
        except CommandFailed as error:
            fail(error)
    typer.echo(branch if branch == "nothing new" else f"kept as {branch}; to take it over: git merge {branch}")
    show_decisions(decisions)
