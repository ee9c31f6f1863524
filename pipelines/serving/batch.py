"""Predict for a whole file, and store the model version and the file's hash with the answers."""

import json
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from pipelines.serving.named_model import at_version, model_folder
from rankgrad.cli.answers import answers, write
from rankgrad.io.atomic import replaced_folder
from rankgrad.io.recipes import recipe_of

__all__ = ["answer_batch"]

ANSWERS, RECORD = "answers.parquet", "made_by.json"


def answer_batch(fresh: Path, model: str, out: Path, *, skip_broken: bool = False) -> str:
    """Answer all rows of a file, and write `answers.parquet` and `made_by.json` to a folder atomically.

    Args:
        fresh: raw rows in a form that `rankgrad predict` takes: a table, or a folder of pictures.
        model: a registered version or a folder.
        out: the parent of the new folder, which is named like the file.
        skip_broken: give rows that cannot be answered an `error`, instead of raising.

    Returns:
        One line on what was done: nothing, if the same version has already answered the same file.

    Raises:
        FileNotFoundError, ValueError: see `rankgrad.cli.answers.answers`.
        OSError: the answers cannot be written.
    """
    address, version = at_version(model)
    if version is None:  # a folder, whose contents may change
        origin = {"model": f"{address} {_digest(Path(address))}", "run": ""}
    else:
        origin = {"model": address, "run": version.tags.get("run", "")}
    origin |= {"file": str(fresh), "sha256": _digest(fresh)}
    target = out / fresh.name
    if target.exists():
        before = _record(target)
        if before.get("file") != str(fresh):
            raise ValueError(
                f"{target}: is not a folder of answers for {fresh} and would be replaced: choose another `out`"
            )
        if before.items() >= origin.items():
            return f"{target}: {address} already answered this file"
    with model_folder(address) as folder, replaced_folder(target) as partial:
        pieces = answers(folder, [fresh], skip_broken=skip_broken)
        classes = recipe_of(folder).get("classes")
        count, broken = write(partial / ANSWERS, pieces, classes=classes, errors=skip_broken, names=pieces.names)
        record = origin | {"rows": count, "broken": len(broken)}
        (partial / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    return f"{target}: {address} answered {count - len(broken)} of {count} rows"


def _record(target: Path) -> dict[str, Any]:
    """Return the record of a folder of answers; empty for any other folder."""
    try:
        return json.loads((target / RECORD).read_text())
    except (OSError, ValueError):
        return {}


def _digest(path: Path) -> str:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{file.relative_to(path)} {_digest(file)}\n" for file in files]
        return sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
