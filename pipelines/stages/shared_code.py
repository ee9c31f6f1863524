"""Write the digests of code that many stages use, which dvc.yaml lists as dependencies of one."""

from hashlib import sha256
from pathlib import Path

from ruamel.yaml import YAML

from pipelines.config import Settings
from rankops.io.atomic import replaced_file

__all__ = ["main"]


def main(params: Settings, stage: str) -> None:
    files = YAML(typ="safe").load(Path("dvc.yaml"))["stages"][stage]["deps"]
    lines = [f"{sha256(Path(file).read_bytes()).hexdigest()}  {file}\n" for file in files if file.startswith("src/")]
    with replaced_file(f"checks/{stage}.txt") as partial:
        partial.write_text("".join(lines))
