"""Every command of docs/sweeps.md, in order, in a project of two runs; then a colleague's clone."""

import json
import re
import time

import pytest
from ruamel.yaml import YAML

from conftest import ROOT  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
KEPT = {
    "datasets": ["ranked_mnist", "clips"], "comparisons": ["score_ranking"],
    "sorters": ["laplace"], "benchmark_sorters": ["laplace"],
    "runs": ["label_ranking-rlsep", "memorability-mse", "memorability-mse-centered"],
}  # fmt: skip
BATCH = "runs.memorability-mse.training.batch_size"


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_commands_of_the_page(new_project):
    project = new_project("sweeps")
    yaml, path = YAML(), project.folder / "params.yaml"
    params = yaml.load(path)
    for block, kept in KEPT.items():
        for name in [name for name in params[block] if name not in kept]:
            del params[block][name]
    params["comparisons"]["score_ranking"]["runs"][:] = KEPT["runs"][2:]
    yaml.dump(params, path)
    project.run("dvc repro")
    project.run("git add --all && git commit --quiet --message made")

    outputs = {}
    for command in commands():
        if command == "dvc pull":
            project.run("git commit --quiet --all --message applied && git clone --quiet . ../colleague")
            project.folder = project.folder.parent / "colleague"
        outputs[command] = project.run(command, COLUMNS="120")
        if command == "dvc queue status":
            while "Running" in outputs[command] or "Queued" in outputs[command]:
                time.sleep(2)
                outputs[command] = project.run(command)

    changes = [line for line in outputs["git diff params.yaml"].splitlines() if re.match(r"[+-] ", line)]
    assert changes == ["-    training: {batch_size: 16}", "+    training: {batch_size: 32}"]
    (row,) = outputs["dvc metrics diff"].splitlines()[1:]
    assert row.startswith("scores/memorability-mse.json  value")
    page = next(output for command, output in outputs.items() if command.startswith("dvc plots"))
    assert "WARNING" not in page
    assert outputs["dvc queue status"].count("Success") == 2
    table = next(output for command, output in outputs.items() if command.startswith("dvc exp show"))
    assert max(map(len, table.splitlines())) <= 120
    assert BATCH in table
    assert dict(re.findall(r"\[([\w-]+)\] .* (\d+) ", table)) == {"small": "32", "batch-1": "32", "batch-2": "64"}
    assert "small" not in project.run("dvc exp list --all-commits")
    assert "Running stage" not in outputs["dvc repro summarize"]
    assert "didn't change" in outputs["dvc repro summarize"]
    assert json.loads(project.read("scores/memorability-mse.json"))["metric"] == "spearman"
