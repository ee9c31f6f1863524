"""Weights of models that are registered in MLflow."""

from pathlib import Path

from rankgrad.io.addresses import without_credentials

__all__ = ["download"]


def download(address: str, to: Path) -> Path:
    """Download the weights of a registered version, such as `models:/sorter-lstm@champion`.

    Args:
        address: address of the version.
        to: an empty folder.

    Returns:
        The folder within `to` with the weights.

    Raises:
        ModuleNotFoundError: mlflow is not installed.
        ValueError: the store at `MLFLOW_TRACKING_URI` has no such model, version, or alias.
    """
    try:
        import mlflow  # only here: the library works without it
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{address} needs mlflow: pip install mlflow, or pass a folder instead") from error
    try:
        folder = Path(mlflow.artifacts.download_artifacts(address, dst_path=str(to)))
    except mlflow.exceptions.MlflowException as error:
        reason = without_credentials(f"not found in {mlflow.get_tracking_uri()} ({error})")
        raise ValueError(f"{address}: {reason}") from error
    return folder / "artifacts" / "weights"
