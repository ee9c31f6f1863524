"""Run a benchmark by name: `python -m studies.times sorters`."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    names = [file.stem for file in sorted(Path(__file__).parent.glob("[!_]*.py")) if "__main__" in file.read_text()]
    if sys.argv[1:2] == [] or sys.argv[1] not in names:
        sys.exit(f"expected the name of a benchmark: {', '.join(names)}")
    name = sys.argv.pop(1)
    runpy.run_module(f"studies.times.{name}", run_name="__main__", alter_sys=True)
