"""What a clone that has trained nothing can do: the quick start."""

import re
from pathlib import Path

import pytest
from PIL import Image

from examples import quickstart
from examples.demo.server import load_rankers
from rankgrad.cli.answers import answers
from rankgrad.cli.predict import SHIPPED

from conftest import SUBSET  # isort: skip


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """A folder without anything, and a quick start of seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(quickstart, "SUBSET", SUBSET)
    monkeypatch.setattr(quickstart, "CHANNELS", (4, 8))
    monkeypatch.setattr(quickstart, "EPOCHS", {"scorer": 1, "thresholds": 1})
    monkeypatch.setattr(quickstart, "ROWS", {"train": 130, "val": 20, "test": 30})
    return tmp_path


def test_two_losses_stand_side_by_side_and_nothing_else_is_written(empty, capsys):
    (empty / ".checkpoints").mkdir()
    (empty / "dvc.lock").write_text("schema: '2.0'\nsta")  # of a run that was killed
    quickstart.main()
    output, epochs = capsys.readouterr()
    # Where there is no terminal each epoch is a line.
    epochs = re.findall(r"^(\w+): (\w+), epoch (\d) of 2: ", epochs, re.MULTILINE)
    phases = [("scorer", "1"), ("thresholds", "2")]
    assert epochs == [(loss, *phase) for loss in quickstart.LOSSES for phase in phases]
    row = next(line for line in output.splitlines() if "ranked accuracy" in line)
    values = [float(value) for value in re.findall(r"\d\.\d{3}", row)]
    for value, low, high in (values[:3], values[3:]):
        assert 0 <= low <= value <= high <= 1
    files = {path.relative_to(empty).as_posix() for path in empty.rglob("*") if path.is_file()}
    models = {file for file in files if file.startswith("reports/quickstart/")}
    assert files - models == {"dvc.lock", "reports/quickstart.png", "reports/quickstart-picture.png"}
    assert list(load_rankers()) == ["RLSEP", "Cross-entropy"]  # the demo shows both
    with Image.open("reports/quickstart.png") as sheet:
        assert min(sheet.size) > 1000
    assert f"predict shipped {quickstart.PICTURE}" in output
    ((answer,),) = answers(SHIPPED, [quickstart.PICTURE])
    assert answer["id"] == str(quickstart.PICTURE)
