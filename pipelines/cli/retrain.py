"""`rankgrad retrain`: run the nightly retraining in a terminal, without a server."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.models import show_decisions
from pipelines.cli.shared import errors_in_a_line

__all__ = ["retrain"]


def retrain(
    reason: Annotated[str, typer.Option(help="Reason, for the commit message.")] = "by hand",
    advance: Annotated[bool, typer.Option(help="Use the next delivery or snapshot of the data.")] = True,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A run in params.yaml to train, publish, and put to the gate; by default all."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="A changed setting for this retraining, such as runs.mine.loss.args.pairs=10."),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(help="A git remote to push the branch to, after pushing the data to DVC's default remote."),
    ] = None,
) -> None:
    """Retrain what changed in a clone of the current commit, publish it, and let the gate promote better models.

    The checkout does not change: params and dvc.lock go to a branch `retrain/<time>`. The next retraining resumes one
    that was killed. Exit code: 1 if a stage failed or the gate could not compare a model.
    """
    from pipelines.flows.retraining import Request, retrain_here

    with errors_in_a_line():
        request = Request(reason, advance, only or [], changes or [], push)
        decisions, branch = retrain_here(Path.cwd(), request)
    typer.echo(branch if branch == "nothing new" else f"saved as branch {branch}; to use it, run: git merge {branch}")
    show_decisions(decisions)
