"""The commands of docs/sweeps.md are DVC's, and each param that they set is a line of params.yaml."""

import re
import shlex
import shutil

from dvc.cli import parse_args
from dvc.utils.serialize import modify_yaml

from pipelines.config.schema import read

from conftest import ROOT  # isort: skip

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)
ASKED = [shlex.split(line)[1:] for block in BLOCKS for line in block.splitlines() if line.startswith("dvc ")]


def test_the_commands_of_the_page_exist_and_name_stages_that_exist():
    targets = set[str]()
    for words in ASKED:
        targets |= {*(getattr(parse_args(words), "targets", None) or ())}
    assert targets
    assert targets <= {*read(ROOT / "dvc.yaml")["stages"]}


def test_a_param_that_a_command_sets_changes_its_line_alone(tmp_path):
    settings = {setting.partition("=")[0] for words in ASKED for setting in words if setting.startswith("runs.")}
    for setting in settings:
        shutil.copy(ROOT / "params.yaml", tmp_path)
        *blocks, option = setting.split(".")
        with modify_yaml(str(tmp_path / "params.yaml")) as values:
            for block in blocks:
                values = values[block]
            assert option in values
            values[option] = 4321
        lines = [(file / "params.yaml").read_text().splitlines() for file in (ROOT, tmp_path)]
        changed = [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]]
        assert [line.split() for _, line in changed] == [[f"{option}:", "4321"]]
