"""Imports that a stage can do without: half of its seconds go into modules that it never uses."""

import gc
import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__all__ = ["put_off", "uncollected", "without"]

DYNAMO = "torch._dynamo"


@contextmanager
def uncollected() -> Generator[None]:
    """Import without the garbage collector, which would look through everything that was imported, again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # modules stay
        gc.enable()


class _Hidden:
    """Finds no module of some packages, before anyone else looks for it."""

    def __init__(self, packages: tuple[str, ...]):
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)


@contextmanager
def without(*packages: str) -> Generator[None]:
    """Let optional packages look as if they were not installed; those that were imported before stay."""
    hidden = _Hidden(packages)
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


class _Deferred(ModuleType):
    """Stands for `torch._dynamo` until more is asked of it than every training asks, which is nothing."""

    @staticmethod
    def graph_break(*_: Any, **__: Any) -> None:
        """Break no graph: none is being compiled."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """Return a function as it is: nobody compiles it."""
        return function

    class eval_frame:
        """Of it accelerate asks whether a module is compiled."""

        class OptimizedModule:
            """No module is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # what the import system looks for
            raise AttributeError(name)
        if sys.modules.get(DYNAMO) is self:
            del sys.modules[DYNAMO]
        return getattr(importlib.import_module(DYNAMO), name)


def put_off(*, compiled: bool) -> None:
    """Keep libraries from importing what this process has not asked for; it still gets that once it does.

    PyTorch's optimizers import its compiler, which takes longer than PyTorch itself, to say that they are not to be
    compiled. PyArrow imports pandas at the first array, to see that it is no series.

    Args:
        compiled: whether this process compiles networks: then it needs the compiler.
    """
    if not compiled and DYNAMO not in sys.modules and (torch := sys.modules.get("torch")):
        sys.modules[DYNAMO] = _Deferred(DYNAMO)
        vars(torch)["_dynamo"] = sys.modules[DYNAMO]
    import pyarrow

    with without("pandas"):
        pyarrow.array([0])  # looks for pandas once
