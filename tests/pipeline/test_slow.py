"""What takes minutes: a disk that is full, the experiments."""

import json
import os
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

# The experiments wait for a whole pipeline; on a busy machine that takes long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def files_of(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize(
    ("stage", "folder"),
    [
        ("data ranked_mnist", "data"),
        ("train label_ranking-rlsep", ".checkpoints"),
        ("train label_ranking-rlsep", "models"),
    ],
)
def test_a_full_disk_is_told_and_leaves_nothing_half_written(new_project, stage, folder):
    project = new_project("full")
    if not stage.startswith("data"):
        project.run("dvc repro validate@ranked_mnist")
    # What is in the folder already goes onto the small disk, and 60 kB are left.
    project.run(f"mkdir -p {folder} && cp -rL {folder} before")
    kilobytes = int(project.run("du -sk before").split()[0]) + 60
    project.run(f"mount -t tmpfs -o size={kilobytes}k tmpfs {folder} && cp -r before/. {folder}")
    try:
        output = project.run(f"PYTHONPATH=src python -m pipelines.stages {stage}", fails=True)
        assert re.search(rf"^{stage.replace(' ', '@')}: .*no space left on the disk", output, re.MULTILINE)
        assert "Traceback" not in output
        left = files_of(project.folder / folder) - files_of(project.folder / "before")
        assert {path.name for path in left} <= {".lock", "began", "history.csv"}  # whole, of a training that goes on
    finally:
        project.run(f"umount {folder}")
    target = stage.replace(" ", "@")
    assert f"Running stage '{target}'" in project.run(f"dvc repro {target}")


def test_experiments_at_a_tiny_scale(new_project):
    """Every stage over a few runs of each task, the report and the papers' figures, kept results; then nothing."""
    project = new_project("project")
    project.run("dvc repro")
    project.run("rankgrad scale tiny --in studies")
    path = project.folder / "studies/params.yaml"
    values = YAML(typ="safe").load(path)
    more = ("label_ranking-rlsep-averaged_views", "label_ranking-rlsep-by_exact_match")
    drawn = ("_digits", "-label_attention")
    chosen = {*more, *(run for run in values["runs"] if run.endswith(drawn) or run.startswith("points-"))}
    for task in ("score_ranking", "multilabel", "retrieval"):
        chosen |= {values["comparisons"][task]["baseline"], values["comparisons"][task]["runs"][-1]}
    values["runs"] = {name: run | {"grid": {}} for name, run in values["runs"].items() if name in chosen}
    comparisons = values.pop("comparisons")
    values["comparisons"] = {}
    for name, block in comparisons.items():
        runs = [run for run in block["runs"] if run in chosen]
        if block["baseline"] in chosen and runs:
            values["comparisons"][name] = block | {"runs": runs}
    values["datasets"] = {run["dataset"]: values["datasets"][run["dataset"]] for run in values["runs"].values()}
    values["sorters"] = {name: values["sorters"][name] for name in ("lstm", "cnn", "cnn-2_layers", "handcrafted")}
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
