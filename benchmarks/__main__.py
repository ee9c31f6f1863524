"""`python -m benchmarks [NAME ...]`: run benchmarks, each in its own process."""

import subprocess
import sys
from pathlib import Path

NOT_BENCHMARKS = {"__init__", "__main__", "peers", "results"}


def run(name: str) -> None:
    """Run one benchmark.

    Raises:
        CalledProcessError: it failed.
    """
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    known = sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - NOT_BENCHMARKS)
    if unknown := set(sys.argv[1:]) - set(known):
        sys.exit(f"{', '.join(unknown)}: no such benchmark; expected {', '.join(known)}")
    for name in sys.argv[1:] or known:
        run(name)
