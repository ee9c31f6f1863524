"""The tables of the experiments: what is compared with what, and how sure that is."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dvc.repo import Repo
from PIL import Image
from playwright.sync_api import sync_playwright
from scipy.stats import t
from typer.testing import CliRunner

from pipelines import kept_results, settings
from pipelines.cli import app
from pipelines.pages import markdown, page
from pipelines.stages import compare_losses, report, report_experiments

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
def test_a_page_fits_a_phone_and_paper_and_shows_every_picture(tmp_path):
    wide = pd.DataFrame([["label_ranking-cross_entropy"] + ["0.883 (0.880 to 0.886)"] * 14]).set_axis(
        ["run", *(f"paper's caption R@{depth}" for depth in range(14))], axis=1
    )
    words = pd.DataFrame({"method": ["mse"], "chosen of the tried": ["training.head.epochs = 60, " * 5]})
    (tmp_path / "figures").mkdir()
    pictures = [Path("figures/one of 100 %.png"), Path("figures/two#.gif")]
    for picture in pictures:
        Image.new("RGB", (1600, 900)).save(tmp_path / picture)
    path = tmp_path / "index.html"
    path.write_text(page("Title", "Text", {"Wide": ("Said.", wide), "Words": ("x" * 300, words)}, pictures))
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
        assert links == [True] * 3
        opened.emulate_media(color_scheme="dark", media="print")
        opened.set_viewport_size({"width": 703, "height": 1000})  # A4 within the margins
        widths = "[...document.querySelectorAll('table')].map(table => table.scrollWidth)"
        assert max(opened.evaluate(widths)) <= 703
        assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        browser.close()


def test_what_is_not_reproduced_follows_from_the_params():
    params = settings.load(ROOT / "params.yaml")
    missing = report.not_reproduced(params)
    assert len(missing) == 7
    assert "5,000 images of 64 px with MNIST digits; convnet" in missing["setting here"].iloc[0]
    scorer = params.training.label_ranking.scorer.model_copy(
        update={"epochs": 300, "shift": 0, "optimiser": settings.Optimiser(name="SGD", args={"lr": 1e-3})}
    )
    network = settings.Named(name="mobilenet_v3_small", args={})
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


EXACT = {"lsep": [0.05, 0.06, 0.07], "rlsep": [0.45, 0.50, 0.43]}
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
            method: {"tried": [], "chosen": {}, "seeds": [
                {"seed": seed, "validation": 0.5, "test": value, "figures": others}
                for seed, value in enumerate(values, 1)
            ]} for method, values in EXACT.items()
        }  # fmt: skip
        plan = {"figure": "ranked.exact_match", "seeds": 3, "baseline": "lsep", "methods": {"lsep": {}, "rlsep": {}}}
        files = {
            "params.yaml": "compute: {threads: 1}\nranked_mnist: {canvas: 112, rows: {train: 5000, test: 10000}}\n",
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
            kept_results.keep("subset", command="make", made_on=MACHINE)
        assert [path.name for path in Path("results/paper").iterdir()] == ["README.md"]

    def test_they_are_written_with_what_made_them_and_shown_beside_the_papers(self, project):
        (project / "machine.json").write_text(json.dumps(MACHINE))
        result = CliRunner().invoke(app, ["keep", "subset", "--machine", "machine.json", "--command", "make it"])
        assert result.exit_code == 0, result.output
        kept = json.loads((project / "results/paper/subset.json").read_text())
        assert (kept["commit"], kept["command"]) == (git("rev-parse", "HEAD"), "make it")
        assert kept["params"]["ranked_mnist"]["canvas"] == 112
        ((title, (text, table)),) = kept_results.sections(project / "results/paper").items()
        assert title == "Kept results: subset"
        for said in ("5,000 training images of 112 px, 10,000 test images", "one abacus", kept["commit"][:10]):
            assert said in text
        lsep, rlsep = table.to_dict("records")
        # 45, 50 and 43: mean 46, deviation the root of (1 + 16 + 9) / 2, over the root of 3.
        assert rlsep["ranked 0-1"] == f"46.0 ± {math.sqrt(13 / 3):.2f}"
        assert (rlsep["paper's ranked 0-1"], rlsep["paper's ranked accuracy"]) == ("45.4", "97.0")
        assert (rlsep["own"], rlsep["seeds"], rlsep["gain in 0-1"], rlsep["over"]) == (
            "25.0 ± 0.00",
            3,
            "+40.0",
            "lsep",
        )
        assert lsep["gain in 0-1"] == ""
        gains = np.array([0.40, 0.44, 0.36])
        assert rlsep["p"] == f"{2 * t.sf(gains.mean() / (gains.std(ddof=1) / math.sqrt(3)), 2):.3f}"
        assert rlsep["lock entry"] == kept["methods"]["rlsep"]["lock_entry"][:8] != lsep["lock entry"]

    def test_data_may_be_elsewhere(self, project):
        shutil.rmtree(project / "data")
        assert kept_results.keep("subset", command="make", made_on=MACHINE).is_file()

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
        path.unlink()
        with pytest.raises(FileNotFoundError, match="no results/comparisons/label_ranking-rlsep.json: run `dvc repro"):
            kept_results.keep("subset", command="make", made_on=MACHINE)

    @pytest.mark.parametrize(("file", "old", "new"), [("src/train.py", "json", " json"), ("params.yaml", "1", "2")])
    def test_results_of_other_code_or_params_than_the_commits_are_refused(self, project, file, old, new):
        (project / file).write_text((project / file).read_text().replace(old, new, 1))
        git("commit", "--quiet", "--all", "--message", "newer")
        self.refused(f"{file} is not that of experiments/dvc.lock")

    def test_a_file_that_is_none_is_named(self, tmp_path):
        (tmp_path / "subset.json").write_text('{"methods": {}}')
        with pytest.raises(ValueError, match=r"subset.json: not what `rankops keep` writes \(KeyError: 'params'\)"):
            kept_results.sections(tmp_path)
