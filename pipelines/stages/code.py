"""Write which code each stage uses: checks/code/<stage>@<key>.txt, on which alone the stage depends."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipelines import code
from pipelines.config import Settings
from rankgrad.io.atomic import replaced_folder

__all__ = ["main"]


def _keys(params: Settings, name: str) -> Iterable[str]:
    """Return the keys of a block of the params, such as `runs`; none of a block that is left out."""
    block: Any = params
    for key in name.split("."):
        block = getattr(block, key, {})
    return block


def main(params: Settings) -> None:
    declared = YAML(typ="safe").load(Path("dvc.yaml"))["stages"]
    with replaced_folder("checks/code") as folder:
        for stage, block in declared.items():
            if stage == "code":
                continue
            keys = _keys(params, block["foreach"].strip("${}")) if "foreach" in block else [""]
            for key in keys:
                name = f"{stage}@{key}" if key else stage
                lines = code.lines_of(params, stage, key)
                (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        for file in sorted(Path().glob("*/dvc.yaml")):  # of experiments: their stages are scripts beside it
            if (file.parent / ".dvc").is_dir():  # a project of its own
                continue
            for script in sorted(file.parent.glob("[!_]*.py")):
                lines = code.lines_of_script(params, script.resolve())
                (folder / f"{file.parent.name}.{script.stem}.txt").write_text("\n".join(lines) + "\n")
