"""Show the progress of long operations."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tqdm import tqdm

__all__ = ["counted"]

PATIENCE = 2.0  # seconds before showing anything
EVERY = 5.0  # seconds between lines without a terminal


@contextmanager
def counted(name: str, unit: str) -> Generator[Callable[[int, int], None]]:
    """Show progress on standard error: a bar in a terminal, lines otherwise.

    Args:
        name: name of the operation.
        unit: what is counted.

    Yields:
        A function to call with the number done and the total.
    """
    following = time.monotonic() + PATIENCE
    with tqdm(desc=name, unit=f" {unit}", delay=PATIENCE, leave=False, disable=None) as bar:

        def show(done: int, total: int) -> None:
            nonlocal following
            bar.total = total
            bar.update(done - bar.n)
            if bar.disable and time.monotonic() >= following:
                following = time.monotonic() + EVERY
                print(f"{name}: {done} of {total} {unit}", file=sys.stderr, flush=True)

        yield show
