"""Write the digests of code that many stages use, and the params that they share: what dvc.yaml lists for one stage."""

import json
from hashlib import sha256
from pathlib import Path

from ruamel.yaml import YAML

from pipelines.config import Settings
from rankops.io.atomic import replaced_file

__all__ = ["main"]


def main(params: Settings, stage: str) -> None:
    listed = YAML(typ="safe").load(Path("dvc.yaml"))["stages"][stage]
    code = [Path(path) for path in listed["deps"] if path.startswith("src/")]
    files = [file for path in code for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    lines = [f"{sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files]
    shared = params.model_dump(mode="json", include=set(listed.get("params", ())))
    with replaced_file(f"checks/{stage}.txt") as partial:
        partial.write_text("".join([*lines, *(f"{json.dumps(shared)}\n" if shared else "")]))
