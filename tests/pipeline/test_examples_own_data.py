"""The four examples of own data: what their READMEs call, in small, from the file to a difference and an answer."""

import json
import runpy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipelines.config import rules
from pipelines.config.plan import merged
from pipelines.config.schema import NONE
from pipelines.stages import compare, data, evaluate, pretrain, train, validate
from rankgrad.io import results
from rankgrad.lookup import find

from conftest import ROOT, rankgrad  # isort: skip

EXAMPLES = {  # the file, how many rows are drawn, the task, and a row to be answered
    "photos": ("photos.csv", 80, "label_ranking"),
    "queries": ("queries.txt", 40, "query_ranking"),
    "embeddings": ("embeddings.parquet", 120, "score_ranking"),
    "captions": ("captions.csv", 60, "retrieval"),
}
SHORT = {"epochs": 1, "patience": 1, "schedule": {"name": "constant", "warm_up_epochs": 0.0}}


@pytest.mark.parametrize("example", EXAMPLES)
def test_from_a_file_to_a_difference_and_an_answer(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, rows, task = EXAMPLES[example]
    raw = Path("data/raw", example)
    runpy.run_path(str(ROOT / f"examples/own_data/{example}/draw.py"))["draw"](raw, rows)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    rankgrad("init", raw / file)
    values = YAML(typ="safe").load(Path("params.yaml"))
    assert {run["task"] for run in values["runs"].values()} == {task}
    short = dict.fromkeys(find("tasks", task).blocks(), SHORT)
    few = {"jobs": {"count": 1}, "compute": {"threads": 1}, "evaluate": {"resamples": 20}, "training": {task: short}}
    merged(values, few)
    comparison = values["comparisons"][example]  # of the baseline, one ranking loss, and one rival
    comparison["runs"], comparison["rivals"] = comparison["runs"][:1], comparison.get("rivals", [])[:1]
    kept = [comparison["baseline"], *comparison["runs"], *comparison["rivals"]]
    values["runs"] = {name: values["runs"][name] | {"seeds": 1, "training": {}} for name in kept}
    for run in values["runs"].values():
        if run["model"]["backbone"]["name"] == "convnet":
            run["model"]["backbone"]["args"]["channels"] = [8, 16]
    if "size" in values["datasets"][example]:
        values["datasets"][example]["size"] = 48
    YAML().dump(values, Path("params.yaml"))
    params = rules.check()
    data.main(params, example)
    validate.main(params, example)
    assert Path(f"reports/data/{example}.html").is_file()
    for name, run in params.runs.items():
        if run.sorter != NONE:
            pretrain.main(params, run.sorter)
        train.main(params, name)
        evaluate.main(params, name)
    compare.main(params)
    (comparison,) = Path("metrics/comparisons").iterdir()
    gains = [row for row in results.read(comparison).rows if " minus " in row.metric]
    assert any(row.low <= row.value <= row.high for row in gains)
    run = f"models/runs/{kept[-1]}"
    rankgrad("predict", run, raw / file, "-o", "answers.jsonl")
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text().splitlines()]
    assert len(answers) >= rows
    if example == "captions":
        rankgrad("predict", run, raw / file, "--input", "caption", "--among", raw / "images", "-o", "found.jsonl")
        neighbors = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
        assert len(neighbors) == 10 * len(answers)
        assert neighbors[0]["id"].startswith("a ")
        assert Path(neighbors[0]["found"]).is_file()
