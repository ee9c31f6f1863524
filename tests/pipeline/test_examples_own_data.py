"""The four examples of own data: what their READMEs call, in small, from the file to a difference and an answer."""

import importlib.util
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipelines.config import rules
from pipelines.config.plan import merged
from pipelines.config.schema import NONE
from pipelines.stages import compare, data, evaluate, pretrain, train, validate
from rankgrad.io import results

from conftest import ROOT, rankgrad  # isort: skip

EXAMPLES = {  # the file, how many rows are drawn, the task, and a row to be answered
    "photos": ("photos.csv", 80, "label_ranking"),
    "queries": ("queries.txt", 40, "query_ranking"),
    "embeddings": ("embeddings.parquet", 120, "score_ranking"),
    "captions": ("captions.csv", 60, "retrieval"),
}
SHORT = {"epochs": 1, "patience": 1, "schedule": {"name": "constant", "warm_up_epochs": 0.0}}


def drawn(example: str, folder: Path, rows: int) -> None:
    spec = importlib.util.spec_from_file_location("draw", ROOT / f"examples/own_data/{example}/draw.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.draw(folder, rows)


@pytest.mark.parametrize("example", EXAMPLES)
def test_from_a_file_to_a_difference_and_an_answer(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, rows, task = EXAMPLES[example]
    drawn(example, Path("data/raw") / example, rows)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    rankgrad("init", f"data/raw/{example}/{file}")
    values = YAML(typ="safe").load(Path("params.yaml"))
    assert {run["task"] for run in values["runs"].values()} == {task}
    phases = [name for name, block in values["training"][task].items() if isinstance(block, dict)]
    merged(values, {"training": {task: dict.fromkeys(phases, SHORT)}, "jobs": {"count": 1}, "compute": {"threads": 1}})
    comparison = values["comparisons"][example]  # of the baseline, one ranking loss, and one rival
    comparison["runs"], comparison["rivals"] = comparison["runs"][:1], comparison.get("rivals", [])[:1]
    kept = [comparison["baseline"], *comparison["runs"], *comparison["rivals"]]
    values["runs"] = {name: values["runs"][name] for name in kept}
    for run in values["runs"].values():
        run["seeds"] = 1
        run.pop("training", None)
        if run["model"]["backbone"]["name"] == "convnet":
            run["model"]["backbone"]["args"]["channels"] = [8, 16]
    values["evaluate"]["resamples"] = 20
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
    run = f"models/runs/{list(params.runs)[-1]}"
    rankgrad("predict", run, f"data/raw/{example}/{file}", "-o", "answers.jsonl")
    answers = [json.loads(line) for line in Path("answers.jsonl").read_text().splitlines()]
    assert len(answers) >= rows
    if example == "captions":
        table, images = f"data/raw/{example}/{file}", f"data/raw/{example}/images"
        rankgrad("predict", run, table, "--input", "caption", "--among", images, "-o", "found.jsonl")
        neighbors = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
        assert len(neighbors) == 10 * len(answers)
        assert neighbors[0]["id"].startswith("a ")
        assert Path(neighbors[0]["found"]).is_file()
