"""The flow that answers what comes in: the newest file of a folder, by the champion."""

from pathlib import Path

from prefect import flow
from prefect.logging import get_run_logger
from prefect.states import Completed, State

from pipelines.flows.monitor import newest
from pipelines.serving.batch import answer_batch
from pipelines.serving.named_model import the_model

__all__ = ["predict"]


@flow(name="predict", flow_run_name="predict: {folder}")
def predict(
    folder: str = "data/incoming", model: str | None = None, out: str = "reports/answers", skip_broken: bool = False
) -> State:
    """Answer the newest file of a folder.

    Args:
        folder: of tables and folders of pictures named by their day, such as 2026-11-21.csv; without it there is
            nothing to answer.
        model: a registered version or a folder; None for the champion of the only model that the params train.
        out: gets a folder for each file, with answers.parquet and made_by.json: version, run, and the hash of the file.
        skip_broken: give rows that cannot be answered an `error`, where one of them fails the run otherwise.

    Returns:
        Completed, with a line about it. A file that the same version answered before is not answered again.
    """
    if not Path(folder).exists():
        return Completed(message=f"nothing to answer: there is no folder {folder}")
    named = the_model(model, "the parameter model: MODEL")
    _, message = answer_batch(newest(folder), named, Path(out), skip_broken=skip_broken)
    get_run_logger().info(message)
    return Completed(message=message)
