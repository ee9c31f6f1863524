"""The flow that monitors incoming data: compare the newest file with the training data; drift starts a retraining."""

import json
import logging
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import httpx
from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.deployments import run_deployment
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.settings import get_current_settings
from prefect.states import Completed, State

from pipelines.flows.promote import NOT_JUDGED
from pipelines.monitoring import drift
from pipelines.monitoring.drift import Comparison, Quantity
from pipelines.monitoring.shadow import Agreement
from pipelines.ops.messages import as_markdown, first_line, without_credentials
from pipelines.serving.named_model import the_model
from rankgrad.datasets.tables.formats import FORMATS
from rankgrad.datasets.tables.rows import table_of

__all__ = ["DEPLOYMENT", "DRIFTED", "monitor", "newest", "retrain"]

DEPLOYMENT = "retrain/retrain"
DRIFTED = "Drifted"  # the state of a run that found drift, used by alerts


def retrain(reason: str, *, once: str | None = None) -> str:
    """Schedule a retraining, without waiting for it, and return the name of its flow run.

    Args:
        reason: a parameter of the run.
        once: a key; another call with the same key returns the same run, unless that run failed or was canceled.

    Raises:
        ConnectionError: PREFECT_API_URL is not set, or the server does not respond, rejects the request, or has no such
            deployment.
    """
    address = get_current_settings().api.url
    if not address:  # Prefect would start its own server, without deployments
        raise ConnectionError(
            "no retraining: PREFECT_API_URL is not set; `make up` starts a server at http://127.0.0.1:4200/api"
        )
    try:
        while True:
            run: Any = run_deployment(DEPLOYMENT, parameters={"reason": reason}, timeout=0, idempotency_key=once)
            failed = run.state is not None and run.state.is_final() and not run.state.is_completed()
            # Do not repeat a training because the gate could not compare its model.
            if once is None or not failed or run.state.name == NOT_JUDGED:
                return run.name
            once = f"{once}; after {run.id}"
    except (httpx.HTTPError, PrefectException, RuntimeError, OSError) as error:
        raise ConnectionError(
            f"no retraining: the Prefect server {without_credentials(address)} did not schedule {DEPLOYMENT} "
            f"({first_line(error)}); check PREFECT_API_URL, and run `make deploy` if you have not"
        ) from error


def newest(folder: str | Path) -> Path:
    """Return the newest table or folder of images whose name begins with a date, such as `2026-11-21.csv`.

    If several have the latest date, return the one written last. Ignore files that are still being copied
    (`.partial-`), folders with a table's suffix, and files that belong to another, such as 2026-11-21.csv.dvc.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a name begins with an invalid date, or the newest file is not a table.
    """
    files, dated = [*Path(folder).glob("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*")], []
    for file in files:
        owners = (other for other in files if table_of(file) is None or table_of(other) is not None)
        belongs_to_another = any(file.name.startswith(f"{owner.name}.") for owner in owners)  # 2026-11-21.csv.dvc
        if ".partial-" in file.name or belongs_to_another or (file.is_dir() and table_of(file) is not None):
            continue
        try:
            day = date.fromisoformat(file.name[:10])
        except ValueError as error:
            raise ValueError(
                f"{file}: {file.name[:10]} is not a date, expected a name such as 2026-11-21.csv"
            ) from error
        dated.append((day, file.stat().st_mtime_ns, file))
    if not dated:
        raise FileNotFoundError(f"{folder}: no table or folder with a date as its name, such as 2026-11-21.csv")
    newest_file = max(dated)[-1]
    if newest_file.is_file() and table_of(newest_file) is None:
        raise ValueError(
            f"{newest_file}: not a table, expected {', '.join(FORMATS)}, or a folder of images: convert it, or move it "
            "away"
        )
    return newest_file


def _row(measured: Quantity | Agreement) -> dict[str, Any]:
    """Return a row of a table with rounded numbers; 17 digits would push the last column off the page."""
    row = asdict(measured)
    return row | {name: float(f"{value:.4g}") for name, value in row.items() if isinstance(value, float)}


def _is_news(comparison: Comparison, fresh: Path, report: Path) -> bool:
    """Return whether the file, the version, or the verdict changed since the last report, to avoid repeated alerts."""
    if not report.is_file() or report.stat().st_mtime < fresh.stat().st_mtime:
        return True
    last = json.loads(report.read_text())
    now = (comparison.model, comparison.version, comparison.drifted)
    return (last["model"], last["version"], last["drifted"]) != now


@flow(name="monitor", flow_run_name="monitor: {folder}")
def monitor(
    folder: str = "data/incoming",
    model: str | None = None,
    alpha: float = 0.01,
    least_distance: float = 0.1,
    retrain_on_drift: bool = True,
    challenger: str | None = "@challenger",
) -> State:
    """Compare the newest file of a folder with the training data.

    Args:
        folder: see `newest`; if it does not exist, there is nothing to compare.
        model: a registered version or a folder; None for the champion of the only model that the params train.
        alpha, least_distance: see `pipelines.monitoring.drift.compare`.
        retrain_on_drift: schedule a retraining if there is drift.
        challenger: a second model to run on the same rows: a registered version or a folder; by default the version
            with the alias challenger, if there is one; None for no model. It does not change the verdict or the state.

    Returns:
        Completed, or Drifted (a form of Completed), with the verdict. Drift that was already reported is Completed.
    """
    if not Path(folder).exists():
        return Completed(message=f"nothing to compare: there is no folder {folder}")
    model, fresh = the_model(model, "the parameter model: MODEL"), newest(folder)
    comparison = drift.compare(fresh, model=model, alpha=alpha, least_distance=least_distance, challenger=challenger)
    report = drift.report_of(fresh, model)
    is_news = _is_news(comparison, fresh, report)
    drift.write(comparison, report)
    create_table_artifact(
        key="monitored",
        table=[*map(_row, comparison.quantities)],
        description=f"**{as_markdown(comparison.verdict)}**: {comparison.model}, version "
        f"{comparison.version or 'none'}, trained on {comparison.dataset}. "
        f"Rows: {comparison.rows}.",
    )
    get_run_logger().info(comparison.verdict)
    if comparison.to_label:
        rows = [row | {"id": str(row["id"])} for row in comparison.to_label]
        create_table_artifact(
            key="to-label", table=rows, description=f"Rows worth labeling, also in {drift.list_of(report)}"
        )
    if comparison.outside:
        rows = comparison.outside_in_words
        create_table_artifact(key="outside", table=rows, description="Values outside the range of the training rows")
    if shadow := comparison.shadow:
        rows = [*map(_row, shadow.agreement)]
        create_table_artifact(key="challenger", table=rows, description=f"**{as_markdown(shadow.verdict)}**")
        get_run_logger().log(logging.WARNING if shadow.failed else logging.INFO, shadow.verdict)
    if comparison.drifted and retrain_on_drift:
        # The same file and version schedule only one retraining, even if compared several times.
        once = f"{comparison.verdict}; {comparison.model}, version {comparison.version}"
        get_run_logger().info("scheduled %s as %s", DEPLOYMENT, retrain(comparison.verdict, once=once))
    return Completed(name=DRIFTED if comparison.drifted and is_news else None, message=comparison.verdict)
