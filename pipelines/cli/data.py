"""Commands for external data."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.shared import errors_in_a_line, fail, typed_here
from rankgrad import lookup
from rankgrad.io.atomic import replaced_file

__all__ = ["MNIST", "SUBSET", "fetch"]

MNIST, SUBSET, WEIGHTS = Path("data/raw/mnist"), Path("data/raw/subset"), Path("data/raw/weights")
LIBRARIES = ("torchvision", "timm")


def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="mnist, or published weights such as torchvision/resnet50 or timm/resnet50d; by default everything "
            "that the params need."
        ),
    ] = None,
    params: Annotated[Path, typer.Option(callback=typed_here, help="Params file that decides what is needed.")] = Path(
        "params.yaml"
    ),
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a download may stall.")] = 10.0,
) -> None:
    """Fetch MNIST (from RANKGRAD_MNIST_ROOT or by download) or published weights into data/raw.

    MNIST is added to DVC, so that `dvc push` and `dvc pull` transfer it: commit data/raw/mnist.dvc. Published weights
    are written to data/raw/weights/<library>/<network>.safetensors, which you can set as a run's `start`.
    """
    for name in names or ():
        if name != "mnist" and name.partition("/")[0] not in LIBRARIES:
            hint = lookup.did_you_mean(name, ["mnist"]) or "; expected mnist, torchvision/<network> or timm/<network>"
            fail(f"{name}: unknown data{hint}")
    with errors_in_a_line():
        for name in names or _needed(params):
            if name == "mnist":
                _mnist(timeout)
            else:
                _weights(name)


def _needed(params: Path) -> list[str]:
    """Return the data that the params need and this command can fetch.

    Raises:
        FileNotFoundError, ValueError: the params do not exist, or are invalid.
    """
    from pipelines.config import load  # takes a second to import

    settings = load(params)
    digits = ["mnist"] if any(Path(dataset.raw) == MNIST for dataset in settings.datasets.values()) else []
    starts = [Path(run.start) for run in settings.runs.values()]
    weights = [f"{path.parent.name}/{path.stem}" for path in starts if path.parent.parent == WEIGHTS]
    return digits + [*dict.fromkeys(weights)]


def _mnist(timeout: float) -> None:
    """Fetch MNIST unless it exists, and add it to DVC.

    Raises:
        OSError: MNIST cannot be fetched.
        ValueError: the files are not MNIST, or DVC cannot add them.
    """
    from rankgrad.datasets.scenes import mnist

    tracked = MNIST.with_suffix(".dvc")
    try:
        mnist.check(MNIST)
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, ValueError):
            typer.echo(f"{error}\nfetching MNIST again")
        if root := os.environ.get("RANKGRAD_MNIST_ROOT"):
            mnist.copy(root, MNIST)
        else:
            try:
                mnist.download(MNIST, timeout=timeout)
            except OSError as failed:
                advice = "to copy it from a folder, run: RANKGRAD_MNIST_ROOT=<folder> rankgrad fetch mnist"
                pulled = f"; to get it from DVC's remote, run: dvc pull {tracked}" if tracked.is_file() else ""
                reason = str(failed).rstrip(")\n").splitlines()[-1]  # the lines before list all mirrors
                raise OSError(f"MNIST could not be downloaded: {reason}; {advice}{pulled}") from failed
        typer.echo(f"{MNIST}: fetched")
    else:
        typer.echo(f"{MNIST}: all four files are complete")
        if tracked.is_file():
            return
    added = subprocess.run([sys.executable, "-m", "dvc", "add", "--quiet", str(MNIST)], capture_output=True, text=True)
    if added.returncode:
        raise ValueError(f"{MNIST}: `dvc add` failed: {(added.stderr or added.stdout).strip()}")
    typer.echo(f"{tracked}: commit this file, so that `dvc push` and `dvc pull` transfer MNIST")


def _weights(name: str) -> None:
    """Fetch the weights that a library publishes for a network, with the library's own download.

    Raises:
        OSError: the weights cannot be fetched.
        ValueError: the library has no such network, or no weights for it.
    """
    from safetensors.torch import save_file

    library, _, network = name.partition("/")
    file = WEIGHTS / f"{name}.safetensors"
    if file.is_file():
        typer.echo(f"{file}: already exists")
        return
    backbone = lookup.find("models.backbones", library)
    published = {key: value.contiguous() for key, value in backbone.published(network).items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(file) as partial:
        save_file(published, partial)
    typer.echo(f"{file}: fetched")
