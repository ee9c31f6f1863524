"""Params: the project's own and every scale are fine, and every mistake is named with its place."""

import re
from pathlib import Path

import pytest
import torch
from ruamel.yaml import YAML

from pipelines.config import ParamsError, load, rules, scales
from pipelines.config.plan import differences, merged, resolve
from pipelines.config.schema import prefixed

from conftest import ROOT, params_of  # isort: skip

PARAMS = ROOT / "tests/params"


def test_the_projects_own_params_are_fine_and_numbers_are_read_as_yaml_1_2(tmp_path):
    assert resolve(rules.check(ROOT / "params.yaml"), "memorability-mse").training.probe.epochs == 15
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text().replace("lr: 5.0e-3", "lr: 5e-3"))
    assert load(tmp_path / "params.yaml").sorters["lstm"].training.optimizer.args["lr"] == 0.005


def test_a_scale_changes_a_shared_block_wherever_it_is_used(tmp_path):
    params = params_of({})
    tasks = params["training"]
    tasks["multilabel"]["probe"]["optimizer"] = tasks["score_ranking"]["probe"]["optimizer"]  # written as an anchor
    YAML().dump(params, tmp_path / "params.yaml")
    (tmp_path / "scales").mkdir()
    (tmp_path / "scales/mine.yaml").write_text("training: {score_ranking: {probe: {optimizer: {args: {lr: 0.5}}}}}")
    scales.apply("mine", tmp_path)
    written = load(tmp_path / "params.yaml").training
    for task in ("score_ranking", "multilabel"):
        assert written[task]["probe"]["optimizer"]["args"]["lr"] == 0.5


FEW = ("label_ranking-rlsep", "memorability-mse", "multilabel-multilabel_soft_margin")  # as a start, and of each form


def with_changes(file: Path) -> dict:
    """The project's params, of whose runs few or named ones stay, as the check of each takes long."""
    values, text, needed = params_of({}, runs=True), file.read_text(), {*FEW}
    for name, block in [*values["comparisons"].items()]:
        if name in text:
            needed |= {block["baseline"], *block["runs"]}
        else:
            del values["comparisons"][name]
    values["runs"] = {name: run for name, run in values["runs"].items() if name in needed or name in text}
    return merged(values, YAML(typ="safe").load(file))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("file", sorted((PARAMS / "valid").iterdir()), ids=lambda file: file.stem)
def test_what_is_possible_is_taken_whatever_stood_in_the_memory_of_weights(file, monkeypatch):
    """torch draws truncated normal weights again until all are within bounds: weights nobody draws may never be."""
    for name in ("empty", "empty_like"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *of, make=make, **options: make(*of, **options).detach().fill_(9.0))
    rules.check_values(with_changes(file))


@pytest.mark.parametrize("file", sorted((PARAMS / "invalid").iterdir()), ids=lambda file: file.stem)
def test_a_mistake_is_named_with_its_place(file):
    expected_place, _, named = file.read_text().splitlines()[0].removeprefix("# expect: ").partition(" |")
    with pytest.raises(ParamsError) as error:
        rules.check_values(with_changes(file))
    problems = [problem for problem in error.value.problems if problem.place == expected_place]
    assert any(re.search(named.strip(), str(problem)) for problem in problems), error.value


def test_all_mistakes_are_named_at_once_and_one_in_a_tasks_training_not_for_each_run():
    wrong = {"label_ranking": {"scorer": {"optimizer": {"name": "Adan"}}}}
    changes = {"training": wrong, "gate": {"judged": {"clips": {"metric": "spearman", "guarded": []}}}}
    with pytest.raises(ParamsError) as error:
        rules.check_values(params_of(changes, runs=True))
    places = [problem.place for problem in error.value.problems]
    assert places == ["training.label_ranking.scorer.optimizer.name", "gate.judged.clips"]


@pytest.mark.parametrize("text", ["a: [1", "", "- 1", "compute: 2026-02-31"], ids=["open", "empty", "list", "date"])
def test_a_file_that_holds_no_params_is_named(tmp_path, text):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParamsError, match=r"params\.yaml"):
        load(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match="no such file"):
        load(tmp_path / "elsewhere.yaml")


def test_what_differs_beside_the_loss_is_told_but_not_what_a_grid_chooses():
    params = load(ROOT / "params.yaml")
    assert differences(params, "multilabel-generalized_cross_entropy", "multilabel-multilabel_soft_margin") == {}
    assert differences(params, "retrieval-sodeep_recall-lstm", "retrieval-hard_negative_triplet") == {
        "training.batch_size": (256, 32)
    }


def test_a_variable_of_the_old_name_is_refused_and_not_ignored(monkeypatch):
    monkeypatch.setenv("RANKOPS_PREFIX", "shop-")
    for call in (lambda: load(ROOT / "params.yaml"), lambda: prefixed("label_ranking")):
        with pytest.raises(ValueError, match="RANKGRAD_PREFIX"):
            call()
