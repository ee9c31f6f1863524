"""Where programs are found."""

import os
import sys
from pathlib import Path

__all__ = ["search_path"]


def search_path() -> str:
    """This process's PATH, with the programs of the environment that it runs in before all others."""
    return os.pathsep.join(filter(None, [str(Path(sys.executable).parent), os.environ.get("PATH")]))
