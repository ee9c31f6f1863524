"""The flow that predicts for incoming data: it runs the champion on the newest file of a folder."""

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
    """Predict for the newest file of a folder.

    Args:
        folder: folder with tables and folders of images named by date, such as 2026-11-21.csv; if it does not exist,
            there is nothing to do.
        model: a registered version or a folder; None for the champion of the only model that the params train.
        out: gets one folder per file, with answers.parquet and made_by.json (version, run, and the hash of the file).
        skip_broken: write an `error` for rows that cannot be answered; otherwise, such a row fails the run.

    Returns:
        Completed, with a message. A file that the same version already answered is skipped.
    """
    if not Path(folder).exists():
        return Completed(message=f"nothing to predict: there is no folder {folder}")
    named = the_model(model, "the parameter model: MODEL")
    message = answer_batch(newest(folder), named, Path(out), skip_broken=skip_broken)
    get_run_logger().info(message)
    return Completed(message=message)
