"""How many examples a law is tried on: few and always the same ones, or many of a seed (`make fuzz`)."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

COUNT = os.environ.get("RANKGRAD_LAW_EXAMPLES")  # of `make fuzz`
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def law(few: int, *, most: int = 10**6) -> settings:
    """Settings of a law that is tried on so many examples in `make test`; one that takes long, on `most` at most."""
    if COUNT is None:
        return settings(max_examples=few, derandomize=True, database=None, deadline=None, suppress_health_check=CHECKS)
    return settings(max_examples=min(int(COUNT), most), print_blob=True, deadline=None, suppress_health_check=CHECKS)


@contextmanager
def refused_at(place: str) -> Generator[None]:
    """Take an error that a person can read: its message names the place, a pattern. Anything else is a failure."""
    try:
        yield
    except (ValueError, TypeError, FileNotFoundError) as error:
        if not re.search(place, str(error)):
            raise AssertionError(f"a message without {place}: {error}") from error
