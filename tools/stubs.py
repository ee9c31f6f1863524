"""Write the stubs from which editors and type checkers know the flat names of the library: `python -m tools.stubs`."""

from pathlib import Path

from rankops import lookup
from rankops.io.atomic import replaced_file

__all__ = ["main", "stub"]


def stub(folder: str) -> str:
    """Return the text of `rankops/FOLDER/__init__.pyi`.

    >>> stub("sorters").splitlines()[1]
    'from rankops.sorters.base import Sorter as Sorter'
    """
    modules = lookup.public(folder)
    lines = [f"from {module} import {name} as {name}" for name, module in modules.items()]
    return "\n".join(["# Written by `python -m tools.stubs`.", *sorted(lines)]) + "\n"


def main() -> None:
    for folder in lookup.FLAT:
        with replaced_file(Path("src/rankops") / folder / "__init__.pyi") as partial:
            partial.write_text(stub(folder))


if __name__ == "__main__":
    main()
