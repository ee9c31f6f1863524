"""Errors in the params: their fields, and the one place that turns them into text."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from reprlib import Repr

from pydantic import TypeAdapter, ValidationError

from rankgrad.lookup import nearest

__all__ = ["SHORT", "ParamsError", "Problem", "described", "unknown"]

SHORT = Repr()  # shortens long values in messages
SHORT.maxstring = SHORT.maxother = 200
# Keys that were renamed: the last part of the old key, and what to write now.
RENAMED = {
    "transfer_runs": "runs, each with `start: models/runs/<run>`",
    "sorter_runs": "runs, each with `sorter: <key of sorters>`",
    "synthetic_ranks": "score_vectors",
    "digits": "datasets.<key>; generated scenes with `raw: data/raw/subset` or `raw: data/raw/mnist`",
    "vectors": "sorters.<key>.vectors, a key of score_vectors; `epoch_size` generates new ones each epoch",
    "train_processes": "compute.processes",
    "optimiser": "optimizer",
    "beside": "auxiliary",
    "head": "probe",
    "everything": "finetune",
    "fine_tune": "sorter_optimizer",
    "judged_by": "monitor",
    "standardise": "standardize",
    "figure": "metric",
    "real_data": "datasets, each `<any key>: {name: table, raw: data/raw/photos, args: {...}, size: 64, seed: 1}`",
}


@dataclass(frozen=True)
class Problem:
    """A problem with one setting.

    Attributes:
        place: keys, joined by dots.
        found: the current value, or a component's error message.
        expected: the allowed values.
        advice: what to do.
    """

    place: str
    found: str
    expected: str = ""
    advice: str = ""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        expected = f", expected {self.expected}" if self.expected else ""
        return f"{place}{self.found}{expected}{'; ' if self.advice else ''}{self.advice}"


class ParamsError(ValueError):
    """All problems in a params file, one per line."""

    def __init__(self, *problems: Problem, path: object = ""):
        super().__init__(*problems)
        self.problems, self.path = problems, path

    def __str__(self) -> str:
        file = f"{self.path}: " if self.path else ""
        return "\n".join(f"{file}{line}" for line in dict.fromkeys(map(str, self.problems)))

    def within(self, place: str) -> "ParamsError":
        """Return the same problems with their keys below `place`."""
        moved = [replace(problem, place=".".join(filter(None, [place, problem.place]))) for problem in self.problems]
        return ParamsError(*moved)


def unknown(place: str, name: str, known: Collection[str], *, what: str = "") -> Problem:
    """Return the problem of a name that does not exist."""
    near = nearest(name, known)
    expected = f"one of {', '.join(known)}" if known else "no name here: none is defined"
    return Problem(place, f"unknown {what}{name!r}", expected, f"did you mean {near}?" if near else "")


def described(error: ValidationError, shape: type) -> Iterable[Problem]:
    """Yield the problems in a pydantic validation error; `shape` is the type that was expected."""
    for problem in error.errors():
        keys = [str(key) for key in problem["loc"] if key != "[key]"]
        place, kind = ".".join(keys), problem["type"]
        cause = problem.get("ctx", {}).get("error")
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            *parents, key = keys
            if key in RENAMED:
                yield Problem(place, "was renamed", RENAMED[key])
            else:
                yield replace(unknown(place, key, _keys(shape, parents)), found="unknown key")
        elif kind == "missing":
            yield Problem(place, "missing")
        elif isinstance(cause, ParamsError):
            yield from cause.within(place).problems
        elif isinstance(cause, ValueError):
            yield Problem(place, str(cause))
        else:
            yield Problem(place, f"{problem['msg']} (found {SHORT.repr(problem['input'])})")


def _keys(shape: type, keys: list[str]) -> list[str]:
    """Return the keys that a type allows below `keys`, from its JSON schema."""
    schema = block = TypeAdapter(shape).json_schema()
    for key in [None, *keys]:
        if key is not None:
            block = block.get("properties", {}).get(key) or block.get("additionalProperties", {})
        block = next((choice for choice in block.get("anyOf", ()) if "$ref" in choice), block)  # X | None
        block = schema["$defs"][block["$ref"].rpartition("/")[2]] if "$ref" in block else block
    return list(block.get("properties", ()))
