"""Checks params.yaml before anything is made: every name, option and agreement; every component is built once."""

from pathlib import Path

from pipelines.config import Settings, rules
from rankops.io.atomic import replaced_file


def main(params: Settings) -> None:
    rules.check()
    with replaced_file(Path("checks/params.passed")) as partial:
        partial.write_text("passed\n")
