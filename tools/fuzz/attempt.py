"""One case of a target, bounded in time: what went wrong with it, if anything did."""

import re
import signal
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["TARGETS", "WrongAnswer", "failure", "refused"]

TARGETS = ("losses", "pictures", "tables", "requests", "folders", "params")
SECONDS = 20  # of a processor: what takes longer hangs
OURS = re.compile(r"(?:src/rankops|pipelines)/\S+\.py$")


class WrongAnswer(AssertionError):
    """What came back is not what went in."""


class Hangs(BaseException):
    """Not caught by what catches every exception."""


@contextmanager
def refused(place: str) -> Generator[None]:
    """Take an error that a person can read: a ValueError or TypeError, whose message names the place (a pattern)."""
    try:
        yield
    except (ValueError, TypeError, FileNotFoundError) as error:
        if not re.search(place, str(error)):
            raise WrongAnswer(f"a message without the place: {error}") from error


def failure(target: str, case: dict[str, Any]) -> tuple[str, str] | None:
    """Return what and where went wrong with a case, and the whole story; None if nothing did."""

    def stop(*_: object) -> None:
        raise Hangs(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(f"tools.fuzz.{target}").check(**case)
    except (Exception, Hangs) as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
        ours = [frame for frame in frames if OURS.search(frame.filename)] or frames
        last = f"{'/'.join(ours[-1].filename.split('/')[-2:])}:{ours[-1].name}"
        said = re.sub(r"[\d.]+(e[-+]?\d+)?", "0", f"{type(error).__name__}: {error}".splitlines()[0])[:60]
        return f"{last}: {said}", "".join(traceback.format_exception(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None
