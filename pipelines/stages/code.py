"""Write the code that each stage uses to checks/code/<stage>@<key>.txt, the only code dependency of the stage.

The files also contain params that DVC's run cache ignores: it takes `size` and `nfiles`, at any depth, for properties
of files, and would restore results of other values.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipelines import code
from pipelines.config import Settings
from pipelines.config.schema import read
from pipelines.running.sources import declared, value_at
from rankgrad.io.atomic import replaced_folder

__all__ = ["main", "uncounted"]

UNCOUNTED = ("size", "nfiles")  # `exclude` in dvc/stage/cache.py


def uncounted(values: Any, name: str) -> Iterator[str]:
    """Yield a line for each param below a dotted name that DVC's run cache does not count.

    >>> [*uncounted({"raw": "photos", "size": 96, "args": {"size": [1, 2]}}, "datasets.photos")]
    ['datasets.photos.args.size [1, 2]', 'datasets.photos.size 96']
    """
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(values, dict):
        items = sorted(values.items())
    elif isinstance(values, list):
        items = enumerate(values)
    for key, value in items:
        if key in UNCOUNTED:
            yield f"{name}.{key} {json.dumps(value, sort_keys=True)}"
        else:
            yield from uncounted(value, f"{name}.{key}")


def main(params: Settings) -> None:
    values, stages = read("params.yaml"), read("dvc.yaml")["stages"]
    with replaced_folder("checks/code") as folder:
        for stage, block in stages.items():
            if stage == "code":
                continue
            keys = value_at(params.model_dump(), block["foreach"].strip("${}")) if "foreach" in block else [""]
            for key in keys:
                name = f"{stage}@{key}" if key else stage
                lines = code.lines_of(params, stage, key)
                for param, value in declared(values, block, key)[0].items():
                    lines += uncounted(value, param)
                (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        for file in sorted(Path().glob("*/dvc.yaml")):  # experiments, whose stages are scripts next to it
            if (file.parent / ".dvc").is_dir():  # a separate DVC project
                continue
            for script in sorted(file.parent.glob("[!_]*.py")):
                lines = code.lines_of_script(params, script.resolve())
                (folder / f"{file.parent.name}.{script.stem}.txt").write_text("\n".join(lines) + "\n")
