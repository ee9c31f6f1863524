"""Params: the project's own and every scale are fine, and every mistake is named with its place."""

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from ruamel.yaml import YAML

from pipelines.config import ParamsError, load, rules, scales
from pipelines.config.plan import differences, merged, resolve
from pipelines.config.schema import check_shapes, prefixed, read, typed
from rankgrad import lookup

from conftest import ROOT, params_of  # isort: skip

PARAMS = ROOT / "tests/params"


def test_the_projects_own_params_are_fine_and_numbers_are_read_as_yaml_1_2(tmp_path):
    assert resolve(rules.check(ROOT / "params.yaml"), "memorability-mse").training.probe.epochs == 15
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text().replace("lr: 5.0e-3", "lr: 5e-3"))
    assert load(tmp_path / "params.yaml").sorters["lstm"].training.optimizer.args["lr"] == 0.005


FEW = ("label_ranking-rlsep", "memorability-mse", "multilabel-multilabel_soft_margin")  # as a start, and of each form


def with_changes(file: Path) -> dict:
    """The project's params, of whose runs few or named ones stay, as the check of each takes long."""
    values, text = params_of({}, runs=True), file.read_text()
    for block in ("runs", "comparisons"):
        values[block] = {name: value for name, value in values[block].items() if name in FEW or name in text}
    named = {run for block in values["comparisons"].values() for run in (block["baseline"], *block["runs"])}
    every = params_of({}, runs=True)["runs"]
    values["runs"] |= {run: every[run] for run in named}
    return merged(values, YAML(typ="safe").load(file))


@pytest.mark.parametrize("file", sorted((PARAMS / "valid").iterdir()), ids=lambda file: file.stem)
def test_what_is_possible_is_taken(file):
    rules.check_values(with_changes(file))


@pytest.mark.timeout(60)
def test_a_check_ends_whatever_stood_in_the_memory_of_weights(monkeypatch):
    """torch draws truncated normal weights again until all are within bounds: weights nobody draws may never be."""
    for name in ("empty", "empty_like"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *of, make=make, **options: make(*of, **options).detach().fill_(9.0))
    rules.check_values(with_changes(PARAMS / "valid/networks_of_libraries.yaml"))


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


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ({"args": {"lr": 0.03}}, {"lr": 0.03, "weight_decay": 0.5}),
        ({"name": "AdamW", "args": {"lr": 0.03}}, {"lr": 0.03, "weight_decay": 0.5}),
        ({"name": "SGD", "args": {"lr": 0.03}}, {"lr": 0.03}),
    ],
)
def test_a_run_or_a_scale_that_changes_one_option_of_an_optimizer_keeps_the_others(
    optimizer, expected, tmp_path, monkeypatch
):
    usual = {"name": "AdamW", "args": {"lr": 0.1, "weight_decay": 0.5}}
    training = {"score_ranking": {"probe": {"optimizer": usual}}}
    of_run = {"probe": {"optimizer": optimizer, "schedule": {"warm_up_epochs": 2}}}
    changes = {"training": training, "runs": {"memorability-mse": {"training": of_run}}}
    probe = resolve(check_shapes(params_of(changes, runs=True)), "memorability-mse").training.probe
    assert probe.optimizer.args == expected
    assert (probe.schedule.name, probe.schedule.warm_up_epochs) == ("cosine", 2)
    if "name" not in optimizer:  # a scale writes a block that it names whole
        monkeypatch.setattr(scales, "check_values", lambda *arguments, **options: None)
        (tmp_path / "scales").mkdir()
        values = merged(read(ROOT / "params.yaml"), {"training": changes["training"]})
        (tmp_path / "params.yaml").write_text(json.dumps(values))
        mine = {"training": {"score_ranking": {"probe": {"optimizer": optimizer}}}}
        (tmp_path / "scales/mine.yaml").write_text(json.dumps(mine))
        scales.apply("mine", tmp_path)
        written = read(tmp_path / "params.yaml")["training"]["score_ranking"]["probe"]["optimizer"]
        assert written == {"name": "AdamW", "args": expected}


@pytest.mark.parametrize("text", ["a: [1", "", "- 1", "compute: 2026-02-31"], ids=["open", "empty", "list", "date"])
def test_a_file_that_holds_no_params_is_named(tmp_path, text):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParamsError, match=r"params\.yaml"):
        load(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match="no such file"):
        load(tmp_path / "elsewhere.yaml")


def options_in(shape: type, *keys: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The keys of each option of a dataclass and of those within it, and its default."""
    for field in fields(shape):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        yield (*keys, field.name), default
        for kind in (field.type, *get_args(field.type)):
            if is_dataclass(kind):
                yield from options_in(kind, *keys, field.name)


OPTIONS = [(task, keys, default) for task in lookup.names("tasks")
           for keys, default in options_in(lookup.find("tasks", task).Training)]  # fmt: skip


@pytest.mark.parametrize(("task", "keys", "default"), OPTIONS)
def test_an_option_that_is_left_out_has_its_default_or_is_refused_by_its_place(task, keys, default):
    """Training reads what is parsed here and nothing else, so that what the check takes has every option."""
    shape = lookup.find("tasks", task).Training
    views = {"views": {"count": 2}} if task == "label_ranking" else {}
    block = complete = asdict(typed(shape, params_of({})["training"][task] | views))
    for key in keys[:-1]:
        block = block[key]
    del block[keys[-1]]
    if default is MISSING:
        with pytest.raises(ParamsError) as error:
            typed(shape, complete)
        assert ".".join(keys) in [problem.place for problem in error.value.problems]
    else:
        value = typed(shape, complete)
        for key in keys:
            value = getattr(value, key)
        assert value == default


def test_a_setting_of_a_grid_is_put_into_the_run():
    grid = {"training.probe.optimizer.args.lr": [0.1, 0.2], "loss.args.sigmoid": [True, False]}
    params = check_shapes(params_of({"runs": {"memorability-mse": {"grid": grid}}}, runs=True))
    settings = params.runs["memorability-mse"].settings
    assert len(settings) == 4
    plan = resolve(params, "memorability-mse", settings[3])
    assert plan.training.probe.optimizer.args["lr"] == 0.2
    assert plan.loss.args == {"sigmoid": False}
    assert resolve(params, "memorability-mse").training.probe.optimizer.args["lr"] == 3e-3


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
