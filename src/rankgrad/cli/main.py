"""The console command `rankgrad`: runs the command line of the checkout in which it is typed."""

import os
import sys
from pathlib import Path

from rankgrad import __version__

__all__ = ["checkout", "main"]


def checkout(folder: Path) -> Path | None:
    """Return the nearest folder, upwards from `folder`, that has dvc.yaml and pipelines/; None if there is none."""
    for parent in (folder, *folder.parents):
        if (parent / "dvc.yaml").is_file() and (parent / "pipelines").is_dir():
            return parent
    return None


def main() -> None:
    """Run the command line of the checkout, in its top folder; the user's paths stay relative to the user's folder."""
    if sys.argv[1:] == ["--version"]:
        print(f"rankgrad {__version__}")
        return
    typed_in = Path.cwd()
    top = checkout(typed_in)
    if top is None:
        _outside(typed_in)
        return
    os.chdir(top)
    # In a new process that imports this checkout's library; the current process may use another checkout's.
    paths = [str(top), str(top / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "RANKGRAD_TYPED_IN": str(typed_in)}
    os.execve(sys.executable, [sys.executable, "-m", "pipelines.cli", *sys.argv[1:]], environment)


def _outside(folder: Path) -> None:
    """Run commands that need no checkout; for other commands, exit with a message."""
    is_registered = any(argument.startswith("models:/") for argument in sys.argv)  # in a checkout's registry
    try:
        if sys.argv[1:2] == ["predict"] and not is_registered:
            from rankgrad.cli.predict import main as predict

            return predict(sys.argv[2:])
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "rankgrad":
            raise
        package = name if name == "matplotlib" else '"rankgrad[tasks]"'
        sys.exit(f"the package {name} is missing: pip install {package}")
    if "_RANKGRAD_COMPLETE" in os.environ:  # Tab completion in another folder
        sys.exit(1)
    sys.exit(
        f"{folder}: not in a RankGrad checkout (no parent folder has dvc.yaml and pipelines/).\n"
        "This command runs the pipeline of a checkout: clone the repository, run `make setup` there, and try again in "
        "that folder.\nWithout a checkout, you can use the library (`from rankgrad.losses import spearman`) and "
        "`rankgrad predict MODEL IMAGE`."
    )


if __name__ == "__main__":
    main()
