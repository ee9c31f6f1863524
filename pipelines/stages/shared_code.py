"""Write the digests of the code that every training and every evaluation uses, which dvc.yaml lists."""

from hashlib import sha256
from pathlib import Path

from ruamel.yaml import YAML

from pipelines.config import Settings
from rankops.io.atomic import replaced_file

__all__ = ["main"]


def main(params: Settings) -> None:
    files = YAML(typ="safe").load(Path("dvc.yaml"))["stages"]["shared_code"]["deps"]
    lines = [f"{sha256(Path(file).read_bytes()).hexdigest()}  {file}\n" for file in files if file.startswith("src/")]
    with replaced_file("checks/shared_code.txt") as partial:
        partial.write_text("".join(lines))
