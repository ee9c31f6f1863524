"""The experiments, which take minutes."""

import json

import pytest
from ruamel.yaml import YAML

# The experiments wait for a whole pipeline; on a busy machine that takes long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_experiments_at_a_tiny_scale(new_project):
    """Every stage over a few runs of each task, the report and the papers' figures, kept results; then nothing."""
    project = new_project("project")
    project.run("dvc repro")
    project.run("rankgrad scale tiny --in studies")
    path = project.folder / "studies/params.yaml"
    values = YAML(typ="safe").load(path)
    chosen = {"label_ranking-rlsep-averaged_views", "label_ranking-rlsep-by_exact_match"}
    for task in ("score_ranking", "multilabel", "retrieval"):
        block = values["comparisons"][task]
        block["runs"] = block["runs"][-1:]
        chosen |= {block["baseline"], *block["runs"]}
    drawn = ("_digits", "-label_attention")
    chosen |= {run for run in values["runs"] if run.endswith(drawn) or run.startswith("points-")}
    values["runs"] = {name: run | {"grid": {}} for name, run in values["runs"].items() if name in chosen}
    values["comparisons"] = {task: values["comparisons"][task] for task in ("score_ranking", "multilabel", "retrieval")}
    values["datasets"] = {run["dataset"]: values["datasets"][run["dataset"]] for run in values["runs"].values()}
    used = {run["sorter"] for run in values["runs"].values()} | {"lstm", "cnn", "cnn-2_layers", "handcrafted"}
    for block in ("sorters", "benchmark_sorters"):
        values[block] = {name: value for name, value in values[block].items() if name in used}
    path.write_text(json.dumps(values))
    # Rivals learn from data that are left out here; the report would wait for them.
    (project.folder / "studies/rivals/dvc.yaml").unlink()
    project.run("git add --all && git commit --quiet --message experiments")
    targets = "report figures/dvc.yaml:draw"
    project.run("python -m studies.points")
    assert "Running stage" in project.run(f"cd studies && dvc repro {targets}")
    assert "label_ranking-rlsep-by_exact_match" in project.read("studies/reports/index.html")
    assert len(list((project.folder / "studies/reports/paper_figures").glob("*.png"))) == 6
    assert "Running stage" not in project.run(f"cd studies && dvc repro {targets}")
    assert "up to date" in project.run("dvc status")
    project.run("python -m studies.keep tiny --in studies")
    kept = project.read("studies/made/tiny/results.csv").splitlines()
    assert chosen <= {line.partition(",")[0] for line in kept}
