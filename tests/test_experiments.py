"""The tables of the experiments: what is compared with what, and how sure that is."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr, t

from pipelines import digit_scenes, settings
from pipelines.figures import scene_animation
from pipelines.pages import markdown, page
from pipelines.stages import compare_losses, label_ranking_figures, report_experiments
from rankops.boxes import largest_overlap
from rankops.datasets.digits import Digits

ROOT = Path(__file__).parents[1]


@pytest.fixture
def plan():
    params = settings.load(ROOT / "params.yaml")
    return settings.load_experiments(params, ROOT / "experiments/params.yaml").comparisons["memorability"]


def test_differences_are_paired_by_seed_with_students_interval(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(report_experiments, "RESULTS", tmp_path)
    (tmp_path / "comparisons").mkdir()
    tests = {name: [0.70, 0.72, 0.71, 0.69, 0.73] for name in plan.methods}
    tests["spearman-lstm"] = [0.73, 0.74, 0.75, 0.70, 0.78]
    for name, values in tests.items():
        seeds = [{"seed": seed, "test": value, "validation": 0.5} for seed, value in enumerate(values, 1)]
        result = {"tried": [], "chosen": {"loss.args.sigmoid": True}, "seeds": seeds}
        (tmp_path / f"comparisons/memorability-{name}.json").write_text(json.dumps(result))
    table = report_experiments.comparison_table("memorability", plan).set_index("method")
    by_seed = np.array([0.03, 0.02, 0.04, 0.01, 0.05])
    half = t.ppf(0.975, 4) * by_seed.std(ddof=1) / math.sqrt(5)
    row = table.loc["spearman-lstm"]
    assert row["difference"] == pytest.approx(0.03)
    assert (row["low"], row["high"]) == pytest.approx((0.03 - half, 0.03 + half))
    assert row["against"] == "mse"
    assert np.isnan(table.loc["mse", "difference"])


def test_measures_of_sorters_are_joined_with_their_use_in_a_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(report_experiments, "RESULTS", tmp_path)
    (tmp_path / "comparisons").mkdir()
    # In the order of the means: l1 is 2, 1, 4, 3 (squared rank differences 1 + 1 + 1 + 1), fidelity falls.
    tests = {"a": [0.70, 0.72], "b": [0.72, 0.74], "c": [0.75, 0.75], "d": [0.80, 0.82]}
    measured = {
        "d": {"l1": 0.03, "fidelity_0.1": 0.1, "zero": 0.0, "vanishing": None},
        "a": {"l1": 0.02, "fidelity_0.1": 0.9, "zero": 0.0, "vanishing": 0.5},
        "c": {"l1": 0.04, "fidelity_0.1": 0.2, "zero": 0.0, "vanishing": None},
        "b": {"l1": 0.01, "fidelity_0.1": 0.3, "zero": 0.0, "vanishing": 0.7},
    }
    for name, values in tests.items():
        result = {"seeds": [{"seed": seed, "test": value} for seed, value in enumerate(values, 1)]}
        (tmp_path / f"comparisons/memorability_sorters-{name}.json").write_text(json.dumps(result))
    (tmp_path / "sorter_health.json").write_text(json.dumps(measured))
    table = report_experiments.sorter_health()
    assert table.loc["b", ["l1", "test", "deviation"]].tolist() == pytest.approx([0.01, 0.73, 0.02 / math.sqrt(2)])
    found = report_experiments.rank_correlations(table).set_index("measure")
    assert found.index[0] == "fidelity 0.1"
    assert found.loc["fidelity 0.1", "rank correlation"] == "-1.000"
    assert found.loc["l1", "rank correlation"] == f"{1 - 6 * 4 / (4 * 15):+.3f}"
    student = 0.6 * math.sqrt(2 / (1 - 0.6**2))
    assert float(found.loc["l1", "p"]) == pytest.approx(2 * t.sf(student, 2), abs=5e-4)
    # Equal for all, or of two sorters alone: no correlation.
    assert found.loc[["zero", "vanishing"], "rank correlation"].tolist() == ["", ""]
    assert found["sorters"].to_dict() == {"fidelity 0.1": 4, "l1": 4, "zero": 4, "vanishing": 2}

    (tmp_path / "sorter_health.json").write_text(json.dumps({name: measured[name] for name in ("d", "c")}))
    params = settings.load(ROOT / "params.yaml")
    experiments = settings.load_experiments(params, ROOT / "experiments/params.yaml")
    (_, shown), (_, of_two) = report_experiments._health(tmp_path, experiments).values()
    assert shown.loc[0, ["sorter", "test", "l1", "vanishing"]].tolist() == ["d", "0.8100 ± 0.0141", "0.03", ""]
    assert set(of_two["rank correlation"]) == {""}
    assert (tmp_path / "sorter_health.png").stat().st_size > 0


def test_scores_of_other_viewers_follow_the_hidden_probability(tmp_path):
    probability = torch.rand(500, generator=torch.Generator().manual_seed(0)).numpy()
    pd.DataFrame({"probability": probability}).to_parquet(tmp_path / "train.parquet")
    split = torch.zeros(500, 1, 2, 2), torch.zeros(500)
    few, many, again = (compare_losses.noisy(split, tmp_path / "train.parquet", viewers)[1] for viewers in (4, 1000, 4))
    assert few.equal(again)
    assert set((few * 4).unique().tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.abs(many.numpy() - probability).mean() < 0.02 < np.abs(few.numpy() - probability).mean()


def test_a_page_has_every_table_and_picture_and_no_markup_of_its_contents():
    sections = {"A & B": ("x < y", pd.DataFrame({"loss": ["mse"], "test": [0.5]}))}
    text = page("Title", "Text", sections, [Path("figures/one.png")])
    assert "A &amp; B" in text
    assert "x &lt; y" in text
    assert 'src="figures/one.png"' in text
    assert "| mse | 0.5 |" in markdown(sections)


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
        count, digits, 40, canvas=64, scale=(1.0, 4.0), overlap=overlap, generator=generator
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
    centres = torch.stack([recipe.top + recipe.size / 2, recipe.left + recipe.size / 2])[:, :, 1:4]
    assert centres.equal(torch.tensor([[16.0, 16.0, 48.0], [16.0, 48.0, 48.0]]).unsqueeze(1).expand(2, 7, 3))
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


def test_the_animation_is_small_and_the_same_every_time(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 64, 64), dtype=np.uint8)
    for name in ("one.gif", "other.gif"):
        scene_animation(tmp_path / name, frames, {"digit 1": np.array([0.0, 1.0, 2.0])}, title="Title")
    one = (tmp_path / "one.gif").read_bytes()
    assert one == (tmp_path / "other.gif").read_bytes()
    assert len(one) / 3 < 1_000_000 / 30  # of the thirty frames
    with Image.open(tmp_path / "one.gif") as read:
        assert read.n_frames == 3
