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
    """Become the command line of the checkout, in its top folder; paths that the user types stay relative to theirs."""
    if sys.argv[1:] == ["--version"]:
        print(f"rankgrad {__version__}")
        return
    typed_in = Path.cwd()
    top = checkout(typed_in)
    if top is None:
        _outside(typed_in)
        return
    os.chdir(top)
    # In a new process, which imports the library of this checkout: the one at work here may be of another.
    paths = [str(top), str(top / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "RANKGRAD_TYPED_IN": str(typed_in)}
    os.execve(sys.executable, [sys.executable, "-m", "pipelines.cli", *sys.argv[1:]], environment)


def _outside(folder: Path) -> None:
    """Run the commands that need no checkout; of any other, say that it needs one."""
    try:
        if sys.argv[1:2] == ["predict"]:
            from rankgrad.cli.predict import main as predict

            return predict(sys.argv[2:])
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "rankgrad":
            raise
        package = name if name == "matplotlib" else '"rankgrad[tasks]"'
        sys.exit(f"the package {name} is missing: pip install {package}")
    if "_RANKGRAD_COMPLETE" in os.environ:  # Tab in another folder
        sys.exit(1)
    sys.exit(
        f"{folder}: not in a RankGrad checkout (no folder upwards has dvc.yaml and pipelines/).\n"
        "The command runs that checkout's pipeline: clone the repository, run `make setup` there, and try again in "
        "it.\nWithout a checkout there are the library (`from rankgrad.losses import spearman`), "
        "`rankgrad predict MODEL PICTURE`."
    )


if __name__ == "__main__":
    main()
