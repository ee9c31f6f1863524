"""Params: the project's own and every scale are fine, and every mistake is named with its place."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipelines.config import ParamsError, load, rules, scales
from pipelines.config.schema import check_shapes, merged, prefixed, read

from conftest import ROOT, params_of  # isort: skip

PARAMS = Path(__file__).parent / "params"


def test_the_projects_own_params_are_fine_and_numbers_are_read_as_yaml_1_2(tmp_path):
    assert rules.check(ROOT / "params.yaml").training_of("memorability-mse")["probe"]["epochs"] == 15
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text().replace("lr: 5.0e-3", "lr: 5e-3"))
    assert load(tmp_path / "params.yaml").sorters["lstm"].training.optimizer["args"]["lr"] == 0.005


FEW = ("label_ranking-rlsep", "memorability-mse", "multilabel-multilabel_soft_margin")  # as a start, and of each form


def with_changes(file: Path) -> dict:
    """The project's params, of whose runs few or named ones stay, as the check of each takes long."""
    values, text = params_of({}, runs=True), file.read_text()
    for block in ("runs", "comparisons"):
        values[block] = {name: one for name, one in values[block].items() if name in FEW or name in text}
    named = {run for block in values["comparisons"].values() for run in (block["baseline"], *block["runs"])}
    every = params_of({}, runs=True)["runs"]
    values["runs"] |= {run: every[run] for run in named}
    return merged(values, YAML(typ="safe").load(file))


@pytest.mark.parametrize("file", sorted((PARAMS / "valid").iterdir()), ids=lambda file: file.stem)
def test_what_is_possible_is_taken(file):
    rules.check_values(with_changes(file))


@pytest.mark.parametrize("file", sorted((PARAMS / "invalid").iterdir()), ids=lambda file: file.stem)
def test_a_mistake_is_named_with_its_place(file):
    expected = file.read_text().splitlines()[0].removeprefix("# expect: ")
    with pytest.raises(ParamsError) as error:
        rules.check_values(with_changes(file))
    assert any(re.match(f"params.yaml: (?:{expected})", line) for line in str(error.value).splitlines()), error.value


def test_all_mistakes_are_named_at_once_and_one_in_a_tasks_training_not_for_each_run():
    wrong = {"label_ranking": {"scorer": {"optimizer": {"name": "Adan"}}}}
    changes = {"training": wrong, "gate": {"judged": {"clips": {"metric": "spearman", "guarded": []}}}}
    with pytest.raises(ParamsError) as error:
        rules.check_values(params_of(changes, runs=True))
    places = {line.split(":")[1].strip() for line in str(error.value).splitlines()}
    assert places == {"training.label_ranking.scorer.optimizer.name", "gate.judged.clips"}
    assert len(str(error.value).splitlines()) == 2


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
    own = {"probe": {"optimizer": optimizer, "schedule": {"warm_up_epochs": 2}}}
    changes = {"training": training, "runs": {"memorability-mse": {"training": own}}}
    probe = check_shapes(params_of(changes, runs=True)).training_of("memorability-mse")["probe"]
    assert probe["optimizer"]["args"] == expected
    assert probe["schedule"] == {"name": "cosine", "warm_up_epochs": 2}
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


MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 60))


@pytest.mark.parametrize(
    "text",
    ["a: [1", "", "- 1", "compute: 2026-02-31", "a: &a [*a]", "a: " + "[" * 100_000, MERGED],
    ids=["open", "empty", "list", "date", "circle", "deep", "bomb"],
)
def test_a_file_that_holds_no_params_is_named(tmp_path, text):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParamsError, match=r"params\.yaml"):
        load(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match="no such file"):
        load(tmp_path / "elsewhere.yaml")


def test_a_setting_of_a_grid_is_put_into_the_run():
    grid = {"training.probe.optimizer.args.lr": [0.1, 0.2], "loss.args.sigmoid": [True, False]}
    params = check_shapes(params_of({"runs": {"memorability-mse": {"grid": grid}}}, runs=True))
    settings = params.runs["memorability-mse"].settings
    assert len(settings) == 4
    run = params.run_of("memorability-mse", settings[3])
    assert run["training"]["probe"]["optimizer"]["args"]["lr"] == 0.2
    assert run["loss"]["args"] == {"sigmoid": False}
    assert params.training_of("memorability-mse")["probe"]["optimizer"]["args"]["lr"] == 1e-2


def test_what_differs_beside_the_loss_is_told_but_not_what_a_grid_chooses():
    params = load(ROOT / "params.yaml")
    assert params.beside_the_loss("multilabel-generalized_cross_entropy", "multilabel-multilabel_soft_margin") == {}
    assert params.beside_the_loss("retrieval-sodeep_recall-lstm", "retrieval-hard_negative_triplet") == {
        "settings": (1, 3),
        "training.batch_size": (256, 32),
    }


def test_a_variable_of_the_old_name_is_refused_and_not_ignored(monkeypatch):
    monkeypatch.setenv("RANKOPS_PREFIX", "shop-")
    for call in (lambda: load(ROOT / "params.yaml"), lambda: prefixed("label_ranking")):
        with pytest.raises(ValueError, match="RANKGRAD_PREFIX"):
            call()
