"""The tables of the experiments: what is compared with what, and how sure that is."""

import json
import math
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from dvc.repo import Repo
from PIL import Image
from pipelines.comparison import measured
from playwright.sync_api import sync_playwright
from rankops.metrics.evaluation import Figures
from scipy.stats import spearmanr, t
from typer.testing import CliRunner

from pipelines import comparison, digit_scenes
from pipelines.cli.app import BENCHMARKS, app
from pipelines.config import schema
from pipelines.reporting import archive
from pipelines.reporting.html import Section, markdown, page
from pipelines.reporting.plots import scene_animation
from pipelines.stages import (
    compare_losses,
    label_ranking_figures,
    pretrain,
    publish_experiments,
    report,
    report_experiments,
)
from rankops.datasets.scenes.digits import Digits
from rankops.datasets.scenes.facts import largest_overlap
from rankops.datasets.vectors import score_vectors

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def plan():
    params = schema.load(ROOT / "params.yaml")
    return schema.load_experiments(params, ROOT / "experiments/params.yaml").comparisons["memorability"]


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


def test_a_finding_says_better_or_worse_only_where_the_interval_leaves_out_0(tmp_path, monkeypatch):
    monkeypatch.setattr(report_experiments, "RESULTS", tmp_path)
    (tmp_path / "comparisons").mkdir()
    tests = {"sgd": [0.20, 0.22, 0.24], "adamw": [0.40, 0.44, 0.48], "shifted": [0.39, 0.46, 0.47]}
    for name, values in tests.items():
        seeds = [{"seed": seed, "test": value} for seed, value in enumerate(values, 1)]
        (tmp_path / f"comparisons/order-{name}.json").write_text(json.dumps({"seeds": seeds}))
    asked = schema.Finding(
        asks="Why?",
        comparison="order",
        pairs=[["sgd", "adamw"], ["adamw", "shifted"], ["shifted", "sgd"]],
        contrasts=[["adamw", "shifted", "sgd", "adamw"]],
    )
    said, table = report_experiments.finding(asked, figure="0-1")
    # Gains by seed of the first pair: 0.20, 0.22, 0.24; of the second -0.01, 0.02, -0.01, so 0 on average.
    half = t.ppf(0.975, 2) * 0.02 / math.sqrt(3)
    assert f"adamw is better than sgd: +0.2200 (+{0.22 - half:.4f} to +{0.22 + half:.4f})." in said
    assert "shifted is not told apart from adamw: +0.0000" in said
    assert "sgd is worse than shifted: -0.2200" in said
    first = table.iloc[0]
    assert (first["method"], first["0-1"], first["over"], first["0-1 of that"]) == ("adamw", "0.4400", "sgd", "0.2200")
    assert first["times"] == "2.00"
    # The first pair's gains less the second's: 0.21, 0.20, 0.25.
    half = t.ppf(0.975, 2) * np.std([0.21, 0.20, 0.25], ddof=1) / math.sqrt(3)
    expected = f"+0.2200 (+{0.22 - half:.4f} to +{0.22 + half:.4f})."
    assert f"The gain of adamw over sgd is more than that of shifted over adamw: {expected}" in said
    assert table.iloc[3][["0-1", "0-1 of that"]].tolist() == ["+0.2200", "+0.0000"]


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
    params = schema.load(ROOT / "params.yaml")
    experiments = schema.load_experiments(params, ROOT / "experiments/params.yaml")
    (_, shown, _), (_, of_two, _) = report_experiments._health(tmp_path, experiments).values()
    assert shown.loc[0, ["sorter", "test", "l1", "vanishing"]].tolist() == ["d", "0.8100 ± 0.0141", "0.03", ""]
    assert set(of_two["rank correlation"]) == {""}
    assert (tmp_path / "sorter_health.png").stat().st_size > 0


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


def test_a_page_has_every_table_and_picture_and_no_markup_of_its_contents():
    sections = {
        "A & B": Section("x < y", pd.DataFrame({"loss": ["mse"], "test": [0.5]}), (Path("figures/one.png"),)),
        "C": Section("", pd.DataFrame({"loss": ["l1"]})),
    }
    text = page("Title", "Text", sections)
    assert text.index("mse") < text.index("one.png") < text.index("l1")
    assert "A &amp; B" in text
    assert "x &lt; y" in text
    assert 'src="figures/one.png"' in text
    assert "| mse | 0.5 |" in markdown(sections)
    bars = {"One": Section("", pd.DataFrame({"mean |error|": ["a|b"]}))}
    assert "| mean \\|error\\| |\n| --- |\n| a\\|b |" in markdown(bars)


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


def test_the_animation_is_small_and_the_same_every_time(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 64, 64), dtype=np.uint8)
    for name in ("one.gif", "other.gif"):
        scene_animation(tmp_path / name, frames, {"digit 1": np.array([0.0, 1.0, 2.0])}, title="Title")
    one = (tmp_path / "one.gif").read_bytes()
    assert one == (tmp_path / "other.gif").read_bytes()
    assert len(one) / 3 < 1_000_000 / 30  # of the thirty frames
    with Image.open(tmp_path / "one.gif") as read:
        assert read.n_frames == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
def test_a_page_fits_a_phone_and_paper_and_shows_every_picture(tmp_path):
    wide = pd.DataFrame([["label_ranking-cross_entropy"] + ["0.883 (0.880 to 0.886)"] * 14]).set_axis(
        ["run", *(f"paper's caption R@{depth}" for depth in range(14))], axis=1
    )
    words = pd.DataFrame({"method": ["mse"], "chosen of the tried": ["training.head.epochs = 60, " * 5]})
    (tmp_path / "figures").mkdir()
    pictures = (Path("figures/one of 100 %.png"), Path("figures/two#.gif"))
    for picture in pictures:
        Image.new("RGB", (1600, 900)).save(tmp_path / picture)
    path = tmp_path / "index.html"
    path.write_text(
        page("Title", "Text", {"Wide": Section("Said.", wide, pictures), "Words": Section("x" * 300, words)})
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 360, "height": 740})
        asked = []
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(path.as_uri(), wait_until="load")
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360
        assert opened.evaluate("document.querySelector('.table').scrollWidth") > 360  # which scrolls by itself
        assert opened.evaluate("[...document.images].map(image => image.naturalWidth)") == [1600, 1600]
        assert opened.evaluate("getComputedStyle(document.querySelector('td.number')).textAlign") == "right"
        assert all(url.startswith("file://") for url in asked)
        links = opened.evaluate("[...document.querySelectorAll('nav a')].map(a => !!document.querySelector(a.hash))")
        assert links == [True] * 2
        opened.emulate_media(color_scheme="dark", media="print")
        opened.set_viewport_size({"width": 703, "height": 1000})  # A4 within the margins
        widths = "[...document.querySelectorAll('table')].map(table => table.scrollWidth)"
        assert max(opened.evaluate(widths)) <= 703
        assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        browser.close()


def test_what_is_not_reproduced_follows_from_the_params():
    params = schema.load(ROOT / "params.yaml")
    missing = report.not_reproduced(params)
    assert len(missing) == 7
    assert "5,000 images of 64 px with MNIST digits; convnet" in missing["setting here"].iloc[0]
    scorer = params.training.label_ranking.scorer.model_copy(
        update={"epochs": 300, "shift": 0, "optimizer": schema.Optimizer(name="SGD", args={"lr": 1e-3})}
    )
    network = schema.Named(name="mobilenet_v3_small", args={})
    task = params.training.label_ranking.model_copy(update={"scorer": scorer})
    changes = {
        "ranked_mnist": params.ranked_mnist.model_copy(update={"canvas": 224}),
        "runs": {name: run.model_copy(update={"model": network}) for name, run in params.runs.items()},
        "training": params.training.model_copy(update={"label_ranking": task}),
    }
    subset = params.model_copy(update=changes)
    items = set(missing["the paper's"])
    assert items - set(report.not_reproduced(subset)["the paper's"]) == {"RLSEP, Table 1, subset"}
    bundled = report.not_reproduced(subset, digits="scikit-learn's bundled digits, not MNIST")
    assert set(bundled["the paper's"]) == items
    clips = params.transfer_runs["memorability-mse"]
    filmed = {"memorability-mse-videomem": clips.model_copy(update={"dataset": "videomem"})}
    with_videos = report.not_reproduced(params.model_copy(update={"transfer_runs": params.transfer_runs | filmed}))
    assert items - set(with_videos["the paper's"]) == {"SoDeep, Table 2: memorability"}


@pytest.mark.parametrize(
    ("images", "dataset", "papers"), [(5_000, "ranked_mnist", "0.454"), (60_000, "ranked_mnist", "0.726"),
                                      (7_000, "ranked_mnist", None), (5_000, "arc", "0.140")],
)  # fmt: skip
def test_label_rankers_stand_beside_the_papers_of_as_many_images(tmp_path, monkeypatch, images, dataset, papers):
    monkeypatch.chdir(tmp_path)
    params = schema.load(ROOT / "params.yaml")
    name, figure = "label_ranking-rlsep", {"value": 0.5, "low": 0.4, "high": 0.6}
    figures = {"ranked": dict.fromkeys(("accuracy", "exact_match", "mean_average_precision"), figure)}
    Path("metrics/runs").mkdir(parents=True)
    Path(f"metrics/runs/{name}.json").write_text(json.dumps(figures | {"unranked": {"f1": figure}}))
    rows = params.ranked_mnist.rows.model_copy(update={"train": images})
    changed = params.model_copy(
        update={
            "ranked_mnist": params.ranked_mnist.model_copy(update={"rows": rows}),
            "runs": {name: params.runs[name].model_copy(update={"dataset": dataset})},
            "transfer_runs": {}, "sorter_runs": {},
        }
    )  # fmt: skip
    (row,) = report.run_table(changed, "label_ranking", dataset).to_dict("records")
    assert row["ranked 0-1"] == "0.500 (0.400 to 0.600)"
    assert row["seed"] == "1"
    table = report.all_label_ranking_figures(changed, dataset).set_index(["labels", "trained"])
    here = f"here, {images:,} images" if dataset == "ranked_mnist" else "here"
    assert table.loc[("ranked", here), "0-1"] == "50.0 (40.0 to 60.0)"
    assert table.loc[("unranked", here), ["Pr", "F1"]].tolist() == ["", "50.0 (40.0 to 60.0)"]
    if dataset == "ranked_mnist":
        assert table.loc[("ranked", "the paper's, 60,000 images"), ["Pr", "0-1"]].tolist() == ["98.5", "72.6"]
        assert table.loc[("unranked", "the paper's, 5,000 images"), "0-1"] == "82.7 ± 4.9"
    else:
        assert len(table) == 4
        assert table.loc[("ranked", "the paper's"), ["Pr", "0-1", "mAP"]].tolist() == ["80.4", "14.0", "76.8"]
        assert table.loc[("unranked", "the paper's"), ["Acc", "0-1"]].tolist() == ["77.8", "9.3"]
    assert row.get("paper's ranked 0-1") == papers
    later = changed.model_copy(update={"data": params.data.model_copy(update={"snapshot": 3})})
    if dataset == "ranked_mnist":  # a tenth came in with each snapshot
        assert report._data(later, "label_ranking").startswith(f"{images * 12 // 10:,} training images")
        assert "paper's ranked 0-1" not in report.run_table(later, "label_ranking", dataset)


def test_runs_of_one_task_on_several_datasets_have_a_title_and_a_registered_name_each():
    params = schema.load(ROOT / "params.yaml")
    run = params.runs["label_ranking-rlsep"]
    assert report._title(params, "label_ranking", "ranked_mnist") == "Label ranking"
    read = schema.RealData(size=64, args={}, seed=1)
    other = params.model_copy(update={
        "runs": params.runs | {f"label_ranking-rlsep-{name}": run.model_copy(update={"dataset": name})
                               for name in ("captions", "arc")},
        "real_data": {"arc": read},
    })  # fmt: skip
    titles = {report._title(other, "label_ranking", name) for name in ("ranked_mnist", "captions", "arc")}
    assert len(titles) == 3
    assert other.model_of(run) == "label_ranking"
    assert other.model_of(other.runs["label_ranking-rlsep-arc"]) == "label_ranking-arc"


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


EXACT = {"lsep": [0.05, 0.06, 0.07], "rlsep": [0.45, 0.50, 0.43]}
CHOSEN = {"lsep": {"training.scorer.shift": 0, "training.scorer.zoom": 1.0}, "rlsep": {
    "training.scorer.shift": 7, "training.scorer.zoom": 1.1, "training.scorer.rotation": 5.0,
    "model": {"name": "wildcat", "args": {"backbone": "convnet", "channels": [4, 8]}},
    "training.views": {"count": 8, "shift": 3, "zoom": 1.1, "rotation": 5.0},
}}  # fmt: skip
MACHINE = {"hardware": "one abacus", "python": "3.11", "torch": "2.15"}
STAGE = "experiments/dvc.yaml:compare_label_ranking"
STAGES = """
stages:
  compare_label_ranking:
    foreach: ${comparisons.label_ranking.methods}
    do:
      wdir: ..
      cmd: python src/train.py ${key} results/comparisons/label_ranking-${key}.json
      deps: [data/ranked_mnist, src/train.py]
      params:
        - compute
        - experiments/params.yaml: ["comparisons.label_ranking.methods.${key}", comparisons.label_ranking.seeds]
      metrics:
        - results/comparisons/label_ranking-${key}.json: {cache: false}
"""


def git(*arguments: str) -> str:
    person = ["-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    return subprocess.run(["git", *person, *arguments], capture_output=True, text=True, check=True).stdout.strip()


class TestKeptResults:
    """In a small project of its own, whose two methods write figures that are known."""

    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("kept")
        others = {"ranked.accuracy": 0.9, "own": 0.25}
        results = {
            method: {"tried": [], "chosen": CHOSEN[method], "seeds": [
                {"seed": seed, "validation": 0.5, "test": value, "figures": others}
                for seed, value in enumerate(values, 1)
            ]} for method, values in EXACT.items()
        }  # fmt: skip
        scorer = {"optimizer": {"name": "SGD", "args": {"lr": 0.01}}, "epochs": 30, "schedule": {"name": "constant"}}
        plan = {
            "figure": "ranked.exact_match", "seeds": 3, "baseline": "lsep", "methods": {"lsep": {}, "rlsep": {}},
            "dataset": "ranked_mnist", "model": {"name": "convnet"}, "training": {"scorer": scorer},
        }  # fmt: skip
        files = {
            "params.yaml": "compute: {threads: 1}\nranked_mnist: {canvas: 112, rows: {train: 5000, test: 10000}}\n"
            "data: {snapshot: 1}\n",
            "experiments/params.yaml": json.dumps({"comparisons": {"label_ranking": plan}}),
            "experiments/dvc.yaml": STAGES,
            "dvc.yaml": "stages: {}\n",
            "src/train.py": f"import json, sys\njson.dump({results}[sys.argv[1]], open(sys.argv[2], 'w'))\n",
            ".gitignore": "/data/\n/results/comparisons/\n",
            "data/ranked_mnist/train.parquet": "scenes",
            "results/comparisons/.keep": "",
            "results/paper/README.md": "",
        }
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        # Without a mistake mAP is 1 of the first image, and 0 of the others: no pair there has its first label above.
        ranks = pa.array([[2, 1], [1, 2], [0, 3]], pa.list_(pa.int64(), 2))
        pq.write_table(pa.table({"label_ranks": ranks}), folder / "data/ranked_mnist/test.parquet")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            git("init", "--quiet", "--initial-branch", "main")
            with Repo.init(str(folder)) as repo:
                repo.reproduce(STAGE)
            git("add", "--all")
            git("commit", "--quiet", "--message", "made")
        return folder

    @pytest.fixture
    def project(self, made, tmp_path, monkeypatch):
        shutil.copytree(made, tmp_path / "project")
        monkeypatch.chdir(tmp_path / "project")
        return tmp_path / "project"

    def refused(self, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            archive.keep("subset", command="make", made_on=MACHINE)
        assert [path.name for path in Path("results/paper").iterdir()] == ["README.md"]

    def test_results_of_fewer_seeds_than_are_planned_are_refused(self, project):
        path = project / "results/comparisons/label_ranking-rlsep.json"
        found = json.loads(path.read_text())
        path.write_text(json.dumps(found | {"seeds": found["seeds"][:2]}))
        self.refused(r"label_ranking-rlsep.json: has the seeds \[1, 2\], expected 1 to 3")

    def test_methods_with_other_common_params_are_refused(self):
        entries = {name: {"deps": [], "params": {"params.yaml": {"compute.precision": value}}}
                   for name, value in (("lsep", "no"), ("rlsep", "bf16"))}  # fmt: skip
        with pytest.raises(ValueError, match="params.yaml: compute.precision of lsep is not that of rlsep"):
            archive._refuse_mixture(entries)

    def test_they_are_written_with_what_made_them_and_shown_beside_the_papers(self, project):
        (project / "machine.json").write_text(json.dumps(MACHINE))
        result = CliRunner().invoke(app, ["keep", "subset", "--machine", "machine.json", "--command", "make it"])
        assert result.exit_code == 0, result.output
        kept = json.loads((project / "results/paper/subset.json").read_text())
        assert (kept["commit"], kept["command"]) == (git("rev-parse", "HEAD"), "make it")
        assert kept["params"]["ranked_mnist"]["canvas"] == 112
        ((title, (text, table, _)),) = archive.sections(project / "results/paper").items()
        assert title == "Kept results: subset"
        for said in (
            "5,000 training images of 112 px, 10,000 test images, convnet", "one abacus", kept["commit"][:10],
            "A ranking without any mistake has a ranked mAP of 33.33 there.",
        ):  # fmt: skip
            assert said in text
        lsep, rlsep = table.to_dict("records")
        # 45, 50 and 43: mean 46, deviation the root of (1 + 16 + 9) / 2, over the root of 3.
        assert rlsep["ranked 0-1"] == f"46.0 ± {math.sqrt(13 / 3):.2f}"
        assert (rlsep["paper's ranked 0-1"], rlsep["paper's ranked accuracy"]) == ("45.4 ± 5.6", "97.0 ± 0.4")
        assert (rlsep["own"], rlsep["seeds"], rlsep["gain in 0-1"], rlsep["over"]) == (
            "25.0 ± 0.00",
            3,
            "+40.0",
            "lsep",
        )
        assert lsep["gain in 0-1"] == ""
        assert lsep["scorer trained by"] == "SGD at 0.01, up to 30 epochs, constant"
        assert rlsep["scorer trained by"] == (
            "SGD at 0.01, up to 30 epochs, constant, moved by up to 7 px, zoomed by up to 1.1, turned by up to 5°, "
            "model wildcat backbone convnet channels 4-8, scores are means over 8 views"
        )
        gains = np.array([0.40, 0.44, 0.36])
        assert rlsep["p"] == f"{2 * t.sf(gains.mean() / (gains.std(ddof=1) / math.sqrt(3)), 2):.3f}"
        assert rlsep["lock entry"] == kept["methods"]["rlsep"]["lock_entry"][:8] != lsep["lock entry"]

    def test_a_recipe_names_what_a_grid_chose(self):
        planned = {
            "optimizer": {"name": "SGD", "args": {"lr": 0.1}}, "epochs": 3, "schedule": {"name": "constant"},
        }  # fmt: skip
        chosen = {
            "training.scorer.optimizer.args.lr": 0.3, "training.scorer.average": 0.99,
            "training.scorer.judged_by": "exact_match",
        }  # fmt: skip
        assert archive._recipe(planned, chosen) == (
            "SGD at 0.3, up to 3 epochs, constant, averaged weights (0.99 a step), epoch chosen by exact_match"
        )
        assert planned["optimizer"]["args"]["lr"] == 0.1
        planned["optimizer"] = {"name": "Adadelta", "args": {}}
        assert archive._recipe(planned, {}) == "Adadelta, up to 3 epochs, constant"

    def test_data_may_be_elsewhere(self, project):
        shutil.rmtree(project / "data")
        assert CliRunner().invoke(app, ["keep", "subset", "--command", "make"]).exit_code == 0
        ((_, (text, _, _)),) = archive.sections(project / "results/paper").items()
        assert "without any mistake" not in text

    @pytest.mark.parametrize("file", ["src/train.py", "params.yaml", "experiments/dvc.lock", "pipelines/new.py"])
    def test_what_is_in_no_commit_is_refused(self, project, file):
        (project / file).parent.mkdir(exist_ok=True)
        with (project / file).open("a") as appended:
            appended.write("# changed\n")
        self.refused(f"not in a commit: {file.removesuffix('new.py')}.*commit these")

    @pytest.mark.parametrize("file", ["data/ranked_mnist/train.parquet", "src/train.py"])
    def test_methods_of_different_data_or_code_are_refused(self, project, file):
        with (project / file).open("a") as appended:
            appended.write("\n")
        with Repo(".") as repo:
            repo.reproduce(f"{STAGE}@rlsep", single_item=True)
        git("commit", "--quiet", "--all", "--message", "one of the two")
        self.refused(f"{file.removesuffix('/train.parquet')} of lsep is not that of rlsep .*run `dvc repro {STAGE}`")

    def test_results_that_the_lock_does_not_know_are_refused(self, project):
        path = project / "results/comparisons/label_ranking-rlsep.json"
        path.write_text(path.read_text() + " ")
        self.refused("label_ranking-rlsep.json is not that of experiments/dvc.lock .*modified.*dvc repro")

    def test_results_on_another_dataset_are_refused(self, project):
        file = project / "experiments/params.yaml"
        file.write_text(file.read_text().replace('"ranked_mnist"', '"arc"'))
        git("commit", "--quiet", "--all", "--message", "other pictures")
        self.refused("comparisons.label_ranking.dataset is arc, expected ranked_mnist: .* beside the paper's")

    def test_results_of_images_that_came_in_later_are_refused(self, project):
        file = project / "params.yaml"
        file.write_text(file.read_text().replace("snapshot: 1", "snapshot: 2"))
        git("commit", "--quiet", "--all", "--message", "more pictures")
        self.refused("data.snapshot is 2, expected 1")

    def test_nothing_is_not_kept(self, project):
        for path in Path("results/comparisons").glob("*.json"):
            path.unlink()
        with pytest.raises(FileNotFoundError, match=r"no results/comparisons/label_ranking-\*.json: run `dvc repro"):
            archive.keep("subset", command="make", made_on=MACHINE)

    @pytest.mark.parametrize(("method", "other"), [("lsep", "rlsep"), ("rlsep", "lsep")])
    def test_a_method_that_was_not_run_is_left_out_and_named(self, project, method, other):
        Path(f"results/comparisons/label_ranking-{other}.json").unlink()
        archive.keep("subset", command="make", made_on=MACHINE)
        ((_, (text, table, _)),) = archive.sections(project / "results/paper").items()
        assert table["method"].tolist() == [method]
        assert "gain in 0-1" not in table  # over the baseline lsep
        assert text.endswith(f"Not run: {other}.")

    @pytest.mark.parametrize(("file", "old", "new"), [("src/train.py", "json", " json"), ("params.yaml", "1", "2")])
    def test_results_of_other_code_or_params_than_the_commits_are_refused(self, project, file, old, new):
        (project / file).write_text((project / file).read_text().replace(old, new, 1))
        git("commit", "--quiet", "--all", "--message", "newer")
        self.refused(f"{file} is not that of experiments/dvc.lock")

    def test_a_file_that_is_none_is_named(self, tmp_path):
        (tmp_path / "subset.json").write_text('{"methods": {}}')
        with pytest.raises(ValueError, match=r"subset.json: not what `rankops keep` writes \(KeyError: 'params'\)"):
            archive.sections(tmp_path)


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
