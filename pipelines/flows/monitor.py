"""The flow that watches what comes in: the newest file beside the training data; drift starts a retraining."""

from dataclasses import asdict
from datetime import date
from pathlib import Path

import httpx
from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.logging import get_run_logger
from prefect.settings import get_current_settings
from prefect.states import Completed, State

from pipelines.flows.promote import NOT_JUDGED
from pipelines.monitoring import drift
from pipelines.ops.messages import in_a_line, without_credentials

__all__ = ["DEPLOYMENT", "monitor", "newest", "retrain"]

DEPLOYMENT = "retrain/retrain"


def retrain(reason: str, *, once: str | None = None) -> str:
    """Has a retraining scheduled, and does not wait for it.

    Args:
        reason: for which; the run has it as a parameter.
        once: a key; asked for again with the same one, it is the same run, unless that came to no good end.

    Returns:
        The name of the flow run.

    Raises:
        ConnectionError: no Prefect server is named, it does not answer, refuses the credentials or the parameters, or
            has no such deployment.
    """
    address = get_current_settings().api.url
    if not address:  # Prefect would start a server of its own, which knows of no deployment
        raise ConnectionError(
            "no retraining: PREFECT_API_URL is not set, so there is no Prefect server with the deployment "
            f"{DEPLOYMENT}; that of `make server` is PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    address = without_credentials(address)
    try:
        while True:
            run = run_deployment(DEPLOYMENT, parameters={"reason": reason}, timeout=0, idempotency_key=once)
            ended = once is not None and run.state is not None and run.state.is_final()
            # What was trained is not trained again because the gate could not judge it.
            if not ended or run.state.is_completed() or run.state.name == NOT_JUDGED:
                return run.name
            once = f"{once}; after {run.id}"  # that one was cancelled, or it failed
    except ObjectNotFound as error:
        raise ConnectionError(f"no retraining: {address} has no deployment {DEPLOYMENT}; deploy it there") from error
    except (httpx.HTTPError, PrefectException, RuntimeError, OSError) as error:
        raise ConnectionError(
            f"no retraining: the Prefect server {address} does not take it ({in_a_line(error)}); see that it runs and "
            "that PREFECT_API_URL names it"
        ) from error


def newest(folder: str | Path) -> Path:
    """The newest of a folder's Parquet files that are named by a date first, such as `2026-11-21.parquet`.

    Raises:
        FileNotFoundError: no such folder, or no such file in it.
    """
    dated = []
    for path in Path(folder).glob("*.parquet"):
        try:
            dated.append((date.fromisoformat(path.name[:10]), path.name, path))
        except ValueError:
            continue
    if not dated:
        raise FileNotFoundError(f"{folder}: no file there that is named by its day, such as 2026-11-21.parquet")
    return max(dated)[-1]


@flow(name="monitor")
def monitor(
    folder: str = "data/incoming",
    model: str = "models:/label_ranking@champion",
    dataset: str = "ranked_mnist",
    alpha: float = 0.01,
    least_distance: float = 0.1,
    retrain_on_drift: bool = True,
) -> State:
    """Compares the newest file of a folder of dated ones with the training data; see `pipelines.monitoring.drift.compare`.

    Args:
        folder: see `newest`.
        model, dataset, alpha, least_distance: see `pipelines.monitoring.drift.compare`.
        retrain_on_drift: have a retraining scheduled where there is drift.

    Returns:
        Completed, with the verdict in a line.
    """
    if not Path(folder).exists():
        said = f"nothing to compare: no folder {folder}, in which files named by their day come in"
        get_run_logger().info(said)
        return Completed(message=said)
    fresh = newest(folder)
    comparison = drift.compare(fresh, model=model, dataset=dataset, alpha=alpha, least_distance=least_distance)
    drift.write(comparison, Path("reports/monitoring") / f"{fresh.stem}.json")
    create_table_artifact(
        key="monitored-figures", table=[asdict(one) for one in comparison.quantities], description=comparison.verdict
    )
    version = f", version {comparison.version}" if comparison.version else ""
    create_markdown_artifact(
        key="monitored",
        markdown=f"**{comparison.verdict}**\n\n{comparison.model}{version}, beside {comparison.dataset}. "
        f"Images: {comparison.images}. Formats: {comparison.formats}.",
    )
    get_run_logger().info(comparison.verdict)
    if comparison.drifted and retrain_on_drift:
        # The same file beside the same version, however often it is looked at, is one reason.
        once = f"{comparison.verdict}; {comparison.model}, version {comparison.version}"
        get_run_logger().info("scheduled %s as %s", DEPLOYMENT, retrain(comparison.verdict, once=once))
    return Completed(message=comparison.verdict)
