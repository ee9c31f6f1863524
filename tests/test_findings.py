"""What reviews found and the redesign is to mend: each test is expected to fail, by the number of its finding.

Once one passes, pytest says so: take its mark away with the change that mends it, and move it to the tests of its
subject.
Letters are those of the reviews: A security, F architecture, G public bug reports, N operations, O own data, R readers,
S science.
"""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.cli.guess import guess
from pipelines.cli.starting_runs import blocks_of
from pipelines.config import check_shapes
from pipelines.expectations import ExpectationsFailed
from pipelines.stages import data, validate
from rankgrad import lookup
from rankgrad.datasets.table import Table

from conftest import ROOT, params_of  # isort: skip

ROWS = 120
NUMBERS = np.random.default_rng(7).normal(size=(ROWS, 3)).round(4)
FEATURES = {f"f_{column}": NUMBERS[:, column] for column in range(3)}
PRICE = {"price": NUMBERS[:, 0] + 10}
QUERIES = {"query_id": np.arange(ROWS) // 6, "x": NUMBERS[:, 0], "y": NUMBERS[:, 1]}


def missing(finding: str, *raises: type[BaseException]):
    """Mark a finding that is not mended, with what its test fails by."""
    return pytest.mark.xfail(strict=True, raises=raises or (AssertionError, pytest.fail.Exception), reason=finding)


def csv(folder: Path, columns: dict, *, name: str = "a.csv", separator: str = ",") -> Path:
    pd.DataFrame(columns).to_csv(folder / name, index=False, sep=separator)
    return folder / name


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("checks", "data/raw/mine", "reports/data"):
        Path(folder).mkdir(parents=True)
    return tmp_path


class TestInit:
    """What `rankgrad init` takes a table for, where it must refuse, or take it for something else."""

    def test_preferences_are_a_kind_of_data(self, tmp_path):
        texts = pd.Series(range(ROWS)).map("with the words {}".format)
        columns = {name: f"{name} " + texts for name in ("prompt", "chosen", "rejected")}
        assert guess(csv(tmp_path, columns)).task == "query_ranking"

    def test_a_simple_rival_is_compared(self, tmp_path):
        found = guess(csv(tmp_path, {**FEATURES, **PRICE}))
        blocks = blocks_of("mine", tmp_path, found.task, found.options, folder=tmp_path)
        assert blocks["comparisons"]["mine"].get("rivals")


class TestSplits:
    @pytest.mark.parametrize(("columns", "options"), [
        ({"words": ["one of two texts", "the other text"] * 60}, {"text": "words", "target": "price"}),
        ({f"f_{column}": np.arange(ROWS) % 5 for column in range(2)}, {"features": "f_*", "target": "price"}),
        ({"words": np.repeat([f"query {row}" for row in range(20)], 6)},
         {"text": "words", "relevance": "grade", "group": "query"}),
    ])  # fmt: skip
    def test_an_input_that_is_in_two_splits_or_alike_in_a_query_is_reported(self, columns, options, project):
        keys = {"key": np.arange(ROWS), "query": np.arange(ROWS) // 6, "grade": np.arange(ROWS) % 3}
        csv(project / "data/raw/mine", {**keys, **columns, **PRICE})
        by = {"group": "query"} if "relevance" in options else {"id": "key", "split": {"hash_of": "key"}}
        settings = {"name": "table", "raw": "data/raw/mine", "seed": 1, "args": {"file": "a.csv", **options, **by}}
        params = check_shapes(params_of({"datasets": {"mine": settings}}))
        data.main(params, "mine")
        try:
            validate.main(params, "mine")
        except ExpectationsFailed:
            return
        page = (project / "reports/data/mine.html").read_text()
        assert re.search("same_input|same_text|same_features|constant", page)


class TestCode:
    @missing("R2.6: a loss of one's own has no way into a run", ValueError)
    def test_a_loss_of_ones_own_is_found(self, tmp_path, monkeypatch):
        (tmp_path / "own/losses").mkdir(parents=True)
        source = (ROOT / "src/rankgrad/losses/rlsep.py").read_text().replace("def rlsep", "def footrule")
        (tmp_path / "own/losses/footrule.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        assert lookup.find("losses", "footrule")


class TestLibrary:
    @missing("R2.5: the mean of batches is not the metric of the set", AttributeError)
    def test_a_metric_gathers_batches(self):
        from rankgrad import metrics

        assert metrics.Gathered

    def test_the_metric_of_grouped_rows_can_be_that_within_groups(self):
        assert "within" in {field.name for field in fields(Table)}


class TestPlatform:
    def test_the_prefect_server_waits_for_its_database(self):
        assert "PREFECT_SERVER_DATABASE_TIMEOUT" in (ROOT / "Makefile").read_text()

    def test_a_worker_keeps_its_retrainings(self):
        assert ".retrain" in (ROOT / "compose.yaml").read_text()

    def test_the_docs_say_how_a_team_shares_experiments(self):
        assert "default_permission" in (ROOT / "docs/fleet.md").read_text()

    def test_a_folder_of_a_run_is_served(self):
        assert "models/runs" in CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300"}).output
