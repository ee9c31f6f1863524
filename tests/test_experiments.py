"""The tables of the experiments: what is compared with what, and how sure that is."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from pipelines.comparison import measured
from rankops.metrics.evaluation import Figures
from scipy.stats import spearmanr
from typer.testing import CliRunner

from pipelines import comparison, digit_scenes
from pipelines.cli.app import BENCHMARKS, app
from pipelines.config import schema
from pipelines.stages import (
    compare_losses,
    label_ranking_figures,
    pretrain,
    publish_experiments,
)
from rankops.datasets.scenes.digits import Digits
from rankops.datasets.scenes.facts import largest_overlap
from rankops.datasets.vectors import score_vectors

ROOT = Path(__file__).parents[1]


@pytest.fixture
def plan():
    params = schema.load(ROOT / "params.yaml")
    return schema.load_experiments(params, ROOT / "experiments/params.yaml").comparisons["memorability"]


def test_methods_of_two_comparisons_with_the_same_results_are_two_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "experiments", "experiments", ignore=shutil.ignore_patterns("models"))
    params = schema.load(ROOT / "params.yaml")
    result = {"chosen": {}, "seeds": [{"seed": seed, "validation": 0.5, "test": 0.5} for seed in (1, 2)]}
    Path("results/comparisons").mkdir(parents=True)
    for name, plan in schema.load_experiments(params).comparisons.items():
        for method in plan.methods:
            Path(f"results/comparisons/{name}-{method}.json").write_text(json.dumps(result))
    keys = [one.key for one in publish_experiments.comparisons(params)]
    assert len(set(keys)) == len(keys) > 50


def test_scores_of_other_viewers_follow_the_hidden_probability(tmp_path):
    probability = torch.rand(500, generator=torch.Generator().manual_seed(0)).numpy()
    pd.DataFrame({"probability": probability}).to_parquet(tmp_path / "train.parquet")
    split = torch.zeros(500, 1, 2, 2), torch.zeros(500)
    few, many, again = (compare_losses.noisy(split, tmp_path / "train.parquet", viewers)[1] for viewers in (4, 1000, 4))
    assert few.equal(again)
    assert set((few * 4).unique().tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.abs(many.numpy() - probability).mean() < 0.02 < np.abs(few.numpy() - probability).mean()


@pytest.fixture
def digits():
    """Two full glyphs of each class, so that ink shows where boxes are."""
    images = torch.full((20, 28, 28), 200, dtype=torch.uint8)
    return Digits(torch.arange(100, 120), images, torch.arange(20) % 10)


def assert_inside(recipe, canvas):
    there = recipe.size > 0
    for start in (recipe.top, recipe.left):
        assert (start[there] >= 0).all()
        assert (start + recipe.size)[there].max() <= canvas + 1e-4


def test_calibration_scenes_have_four_digits_of_exact_scales_apart(digits, generator):
    recipe = digit_scenes.calibration_recipes(digits, 200, canvas=64, generator=generator)
    by_size = recipe.size.sort(1).values
    assert by_size.equal(torch.tensor([0.0] * 6 + [8.0, 16.0, 24.0, 32.0]).expand(200, 10))
    assert recipe.label_ranks.equal((recipe.size / 8).long())
    assert largest_overlap(recipe.size, recipe.top, recipe.left).max() == 0
    assert_inside(recipe, 64)
    row, label = (recipe.size > 0).nonzero(as_tuple=True)
    assert (digits.labels[digits.rows_of(recipe.glyph[row, label])] == label).all()
    # Which class has which size is chance: each of ten has each of four scales.
    assert len(set(zip(label.tolist(), recipe.size[row, label].tolist(), strict=True))) == 40
    ink = (digit_scenes.pictures(recipe, digits, canvas=64) > 0).flatten(1).sum(1)
    assert (ink - 30 * 64).abs().max() <= 2 * (8 + 16 + 24 + 32)  # whole pixels at the edges


@pytest.mark.parametrize(("count", "overlap"), [(2, 0.0), (6, 0.0), (10, 0.5)])
def test_scenes_have_exactly_so_many_digits(digits, generator, count, overlap):
    images, label_ranks = digit_scenes.scenes_of(
        digits, 40, canvas=64, digits_per_image=(count, count), scale=(1.0, 4.0), overlap=overlap, generator=generator
    )
    assert images.shape == (40, 64, 64)
    assert label_ranks.sort(1).values.equal(torch.tensor([0] * (10 - count) + list(range(1, count + 1))).expand(40, 10))


def test_in_the_frames_digit_1_grows_digit_3_shrinks_and_digit_2_stays(digits, generator):
    recipe = digit_scenes.frame_recipes(digits, 7, canvas=64, generator=generator)
    assert (recipe.size > 0).any(0).nonzero().flatten().tolist() == [1, 2, 3]
    steps = recipe.size[:, 1:4].diff(dim=0)
    assert steps.equal(torch.tensor([4.0, 0.0, -4.0]).expand(6, 3))  # from 8 to 32 pixels and back
    assert recipe.size[0, 1:4].tolist() == [8.0, 20.0, 32.0]
    assert (recipe.glyph == recipe.glyph[0]).all()
    centers = torch.stack([recipe.top + recipe.size / 2, recipe.left + recipe.size / 2])[:, :, 1:4]
    assert centers.equal(torch.tensor([[16.0, 16.0, 48.0], [16.0, 48.0, 48.0]]).unsqueeze(1).expand(2, 7, 3))
    assert largest_overlap(recipe.size, recipe.top, recipe.left).max() == 0
    assert_inside(recipe, 64)


def test_calibration_measures_scores_by_true_scale():
    size = 8.0 * torch.tensor([[1, 2, 3, 4, 0], [4, 3, 0, 2, 1]])
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0, -1.0], [4.0, 5.0, -3.0, 2.0, 2.0]])  # the second image is out of order
    found = label_ranking_figures.calibration(scores, size, canvas=64, resamples=20, seed=1)
    scales = found["scales"]
    assert [scales[name]["mean"] for name in ("1", "2", "3", "4", "absent")] == [1.5, 2.0, 4.0, 4.0, -2.0]
    assert [scales[name]["deviation"] for name in ("1", "2", "3", "4", "absent")] == [0.5, 0.0, 1.0, 0.0, 1.0]
    assert {group["count"] for group in scales.values()} == {2}
    assert np.sum([group["histogram"] for group in scales.values()]) == 10
    assert found["exactly_ordered"]["value"] == 0.5
    there = size > 0
    assert found["spearman"] == pytest.approx(spearmanr(scores[there], size[there]).statistic)


def test_benchmarks_are_written_between_the_lines_of_their_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("docs", "benchmarks/results"):
        Path(folder).mkdir(parents=True)
    Path("dvc.yaml").touch()
    page = Path("docs/sorters.md")
    page.write_text("before\n<!-- results: written by `rankops readme` -->\nold\n<!-- end of results -->\nafter\n")

    def measured(command: list[str], **_) -> SimpleNamespace:
        Path(f"benchmarks/results/{command[-1].removeprefix('benchmarks.')}.md").write_text("| new |\n")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", measured)
    for title in BENCHMARKS["losses"]:
        Path(f"benchmarks/results/{title}.md").write_text("| earlier |\n")
    done = CliRunner().invoke(app, ["benchmark", "sorters"], catch_exceptions=False)
    assert done.exit_code == 0
    lines = [
        "before",
        "<!-- results: written by `rankops readme` -->",
        "| new |",
        "| earlier |",
        "| earlier |",
        "<!-- end of results -->",
        "after",
    ]
    assert page.read_text().splitlines() == lines


def test_tables_that_were_not_measured_do_not_go_from_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("docs", "benchmarks/results"):
        Path(folder).mkdir(parents=True)
    Path("dvc.yaml").touch()
    Path("docs/sorters.md").write_text("old tables")
    Path("benchmarks/results/sorters.md").write_text("| new |")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: SimpleNamespace(returncode=0))
    done = CliRunner().invoke(app, ["benchmark", "sorters"])
    assert done.exit_code == 1
    assert "there is no benchmarks/results/losses, Spearman of clips.md" in done.output
    assert Path("docs/sorters.md").read_text() == "old tables"


def test_a_figure_that_is_not_defined_is_refused_where_it_is_asked_for():
    figures = Figures(["a", "b.c"], 4, lambda rows: np.array([0.5, np.nan]))
    assert measured(figures, ["a"]) == {"a": 0.5}
    with pytest.raises(ValueError, match="b.c: not defined for these 4 examples"):
        measured(figures, ["a", "b.c"])


@pytest.mark.parametrize(("rows", "epoch_size", "batches"), [(9, 9, 2), (9, 6, 2), (9, 4, 1), (3, 9, 1), (8, 8, 2)])
def test_a_sorters_epoch_has_as_many_batches_as_its_schedule_counts(rows, epoch_size, batches, tmp_path, monkeypatch):
    params = schema.load(ROOT / "params.yaml")
    vectors = torch.rand(rows, 6, generator=torch.Generator().manual_seed(0))
    asked = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(score_vectors, "load", lambda folder, split: (vectors, vectors, None))
    monkeypatch.setattr(pretrain, "fit", lambda sorter, **options: asked.update(options) or [])
    monkeypatch.setattr(pretrain, "checkpoint_folder", lambda *names, **parts: tmp_path)
    options = params.sorters["comparator"].model_copy(
        update={"vectors": "stored", "epoch_size": epoch_size, "batch_size": 4}
    )
    pretrain.pretrained(params, options, "comparator")
    drawn = list(asked["batches"](torch.Generator().manual_seed(0)))
    assert asked["batches_per_epoch"] == len(drawn) == batches


class TestCompared:
    """A comparison of trainings whose figures are known: a method of eight settings, each seed of the best tested."""

    VALIDATIONS = (-0.5, -0.25, -0.125, -0.75, -0.25, -1.0, -0.375, -0.5)  # the third is the best

    @pytest.fixture
    def carried_out(self, plan, tmp_path, monkeypatch):
        params = schema.load(ROOT / "params.yaml")
        monkeypatch.chdir(tmp_path)
        for split in comparison.SPLITS:
            path = Path("data") / plan.dataset / f"{split}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(split)
        one_by_one = plan.model_copy(update={"together": 1})

        def run(*, dies_at: int | None = None) -> list[tuple]:
            """Trials that were begun, and whether each found epochs of an earlier one."""
            trials = []

            def train(trial, epochs):
                trials.append((*trial, epochs.is_dir()))
                epochs.mkdir(exist_ok=True)
                if len(trials) == dies_at:
                    raise KeyboardInterrupt
                number, seed, tested = trial
                return {"validation": self.VALIDATIONS[number]} | ({"test": seed / 10} if tested else {})

            with suppress(KeyboardInterrupt):
                comparison.compared(
                    params, "memorability", "mse", one_by_one, stage="compare_losses", inputs=[],
                    begin=lambda *given: train,
                )  # fmt: skip
            return trials

        return run

    def test_the_best_on_validation_is_trained_with_every_seed_and_tested(self, plan, carried_out):
        trials = carried_out()
        assert trials == [(number, 1, False, False) for number in range(8)] + [
            (2, seed, True, seed == 1)
            for seed in range(1, plan.seeds + 1)  # whose first is trained already
        ]
        found = json.loads(Path("results/comparisons/memorability-mse.json").read_text())
        assert found["chosen"] == plan.settings("mse")[2]
        assert [one["validation"] for one in found["tried"]] == list(self.VALIDATIONS)
        assert [one["setting"] for one in found["tried"]] == plan.settings("mse")
        assert found["seeds"] == [
            {"validation": -0.125, "test": seed / 10, "seed": seed} for seed in range(1, plan.seeds + 1)
        ]
        assert list(Path(".checkpoints/compare_losses/memorability-mse").iterdir()) == []

    def test_killed_it_goes_on_with_the_trial_that_was_under_way(self, plan, carried_out):
        assert len(carried_out(dies_at=4)) == 4
        assert carried_out(dies_at=6)[0] == (3, 1, False, True)
        again = carried_out()
        assert again[0] == (2, 1, True, True)
        assert len(again) == plan.seeds
        assert json.loads(Path("results/comparisons/memorability-mse.json").read_text())["seeds"][0]["test"] == 0.1

    def test_on_other_data_it_begins_anew(self, plan, carried_out):
        carried_out(dies_at=4)
        (Path("data") / plan.dataset / "test.parquet").write_text("other")
        assert carried_out()[0] == (0, 1, False, False)
