"""Models out of the MLflow registry: the one place of the core that imports mlflow, inside a function."""

from pathlib import Path

__all__ = ["download"]


def download(address: str, to: Path) -> Path:
    """A local copy of the weights of a registered version, such as `models:/sorter-lstm@champion`.

    Args:
        address: of the version.
        to: an empty folder for it.

    Returns:
        The folder within `to` that has the weights.

    Raises:
        ModuleNotFoundError: mlflow is not installed.
        ValueError: no such model, version or alias in the store that `MLFLOW_TRACKING_URI` names.
    """
    try:
        import mlflow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{address} needs mlflow: pip install mlflow, or give a folder instead") from error
    try:
        folder = Path(mlflow.artifacts.download_artifacts(address, dst_path=str(to)))
    except mlflow.exceptions.MlflowException as error:
        raise ValueError(f"{address}: not found in {mlflow.get_tracking_uri()} ({error})") from error
    return folder / "artifacts" / "weights"
