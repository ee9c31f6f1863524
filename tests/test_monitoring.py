"""`rankops monitor`: silent about more of the same, loud about what has changed, clear about what it cannot read."""

import copy
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from dvc.repo import Repo
from dvc_data.hashfile.hash_info import HashInfo
from PIL import Image
from prefect.logging import disable_run_logger
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Scheduled
from scipy.stats import chi2_contingency
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.flows import monitor as flow
from pipelines.flows.promote import outcome
from pipelines.monitoring import drift
from pipelines.monitoring.drift import Comparison, Figure, compare, figures, measure
from pipelines.tracking.gate import Decision
from rankops.datasets.scenes import digits, ranked_mnist
from rankops.io.checkpoints import build
from rankops.io.parquet import decode_images, encode_images
from rankops.seeding import generator
from rankops.tasks.label_ranking import LabelRanker, save

SCENES = {"canvas": 32, "digits_per_image": (2, 4), "scale": (1.0, 3.0), "overlap": 0.3}


@pytest.fixture(scope="module")
def glyphs() -> digits.Digits:
    """Bundled ones, all of one split: both sides of a comparison must be able to draw the same."""
    table = digits.tables("bundled", "", seed=1, threads=1)["train"]
    return digits.Digits(
        torch.from_numpy(table["glyph"].to_numpy().copy()),
        torch.from_numpy(decode_images(table["image"], path="digits", threads=1)),
        torch.from_numpy(table["label"].to_numpy().copy()),
    )


@pytest.fixture(scope="module")
def scenes(glyphs):
    def draw(rows: int, *, use: str, **options) -> pa.Table:
        draws = generator(0, "tests of monitoring", use)
        return pa.concat_tables(ranked_mnist.tables(glyphs, rows, threads=1, generator=draws, **SCENES | options))

    return draw


@pytest.fixture(scope="module")
def ranker() -> LabelRanker:
    """Untrained: whether equal distributions look equal is no question of what a network has learnt."""
    scorer = build("models", "convnet", {"channels": [4, 8]}, seed=1, outputs=10, colors=1)
    thresholds = build("models", "threshold_network", {"hidden": 8}, seed=1, features=scorer.embedding_size, outputs=10)
    return LabelRanker(scorer.eval(), thresholds.eval())


@pytest.fixture(scope="module")
def project(tmp_path_factory, scenes, ranker) -> Path:
    """A folder with what the command needs: the dataset and a model."""
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "dvc.yaml").touch()
    (folder / "data/ranked_mnist").mkdir(parents=True)
    for split in ("train", "val"):
        pq.write_table(scenes(250, use=split), folder / f"data/ranked_mnist/{split}.parquet")
    save(folder / "model", ranker)
    return folder


@pytest.fixture
def monitor(project, monkeypatch):
    """Runs the command on a table of images, and gives its exit code and its output."""
    monkeypatch.chdir(project)

    def run(table: pa.Table | str, *options: str) -> tuple[int, str]:
        if isinstance(table, pa.Table):
            pq.write_table(table, "fresh.parquet")
            table = "fresh.parquet"
        done = CliRunner().invoke(app.app, ["monitor", table, "--model", "model", *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def redrawn(table: pa.Table, change) -> pa.Table:
    images = change(decode_images(table["image"], path="scenes", threads=1))
    return pa.table({"image": encode_images(images, threads=1)})


def test_more_of_the_same_is_called_drift_as_rarely_as_alpha_says(scenes, ranker, tmp_path):
    pq.write_table(scenes(1200, use="pool"), tmp_path / "pool.parquet")
    pool = measure(tmp_path / "pool.parquet", ranker, chosen=np.ones(1200, bool))
    assert {len(values) for values in pool.values()} == {1200}
    drifted = []
    for seed in range(40):  # which scenes come to which side is chance
        rows = np.random.default_rng(seed).permutation(1200)
        trial = [{name: values[part] for name, values in pool.items()} for part in np.split(rows, [500, 1000])]
        found = figures(*trial, alpha=0.05, least_distance=0.0)
        # The correction can only make p larger, and keeps their order.
        assert all(figure.p <= figure.adjusted_p <= 1 for figure in found)
        drifted.append(any(figure.drifted for figure in found))
    # By chance, 7 or more of 40 at a rate of 0.05 come in one of 300 such tests.
    assert sum(drifted) < 7


def test_more_of_the_same_ends_with_0_and_a_whole_report(monitor, scenes, project):
    code, output = monitor(scenes(200, use="fresh"))
    assert code == 0, output
    assert "no drift in fresh.parquet (200 images)" in output
    report = json.loads((project / "reports/monitoring/fresh.json").read_text())
    assert report["drifted"] == []
    assert report["images"] == {"train": 250, "val": 250, "fresh": 200}
    assert report["formats"]["fresh"] == {"32 x 32 L": 200}
    names = [figure["name"] for figure in report["figures"]]
    assert len(names) == len(set(names)) == 5 + 6 + 10 + 2
    assert all(name in output for name in names)


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        ("larger", "brightness"),
        ("noise", "sharpness"),
        ("inverted", "ink"),
        ("fewer digits", "contrast"),
        ("another canvas", "format"),
        ("colors", "format"),
    ],
)
def test_a_change_ends_with_3_and_names_the_figure(monitor, scenes, project, change, figure):
    noise = np.random.default_rng(0).normal(0, 12, (150, 32, 32))
    options = {
        "larger": {"scale": (1.5, 4.0)}, "fewer digits": {"digits_per_image": (1, 2)}, "another canvas": {"canvas": 40}
    }  # fmt: skip
    pixels = {
        "noise": lambda images: (images + noise).clip(0, 255).astype(np.uint8),
        "inverted": lambda images: 255 - images,
        "colors": lambda images: np.stack([images] * 3, axis=-1),
    }
    table = scenes(150, use=change, **options.get(change, {}))
    code, output = monitor(redrawn(table, pixels.get(change, lambda images: images)))
    assert code == 3, output
    report = json.loads((project / "reports/monitoring/fresh.json").read_text())
    assert figure in report["drifted"]
    assert output.splitlines()[-1].startswith("drift: ")


def test_scores_that_moved_alone_are_drift(scenes, ranker, tmp_path):
    """As a class that comes more often would move them: pixels stay, and the score of one label does not."""
    pq.write_table(scenes(900, use="scores"), tmp_path / "scenes.parquet")
    found = measure(tmp_path / "scenes.parquet", ranker, chosen=np.ones(900, bool))
    train, val, fresh = ({name: values[part::3] for name, values in found.items()} for part in range(3))
    fresh["scores"] = fresh["scores"].copy()
    fresh["scores"][:, 7] += found["scores"][:, 7].std()
    drifted = {figure.name for figure in figures(train, val, fresh, alpha=0.01, least_distance=0.1) if figure.drifted}
    assert "score 7" in drifted
    assert drifted <= {"score 7", "highest score"}
    fresh["selected"] = fresh["selected"] + 1
    by_name = {figure.name: figure for figure in figures(train, val, fresh, alpha=0.01, least_distance=0.1)}
    counted = by_name["labels selected"]
    assert counted.drifted
    assert counted.test == "chi_squared"
    assert counted.fresh - counted.reference == pytest.approx(1, abs=0.4)


def test_a_small_distance_is_no_drift_however_many_images_there_are(scenes, ranker, tmp_path):
    pq.write_table(scenes(300, use="few"), tmp_path / "few.parquet")
    few = measure(tmp_path / "few.parquet", ranker, chosen=np.ones(300, bool))
    many = {name: np.concatenate([values] * 60) for name, values in few.items()}
    moved = many | {"brightness": many["brightness"] + 0.1 * many["brightness"].std()}
    found = {figure.name: figure for figure in figures(many, many, moved, alpha=0.01, least_distance=0.1)}
    assert found["brightness"].adjusted_p < 1e-6
    assert 0 < found["brightness"].distance < 0.1
    assert not any(figure.drifted for figure in found.values())
    found = {figure.name: figure for figure in figures(many, many, moved, alpha=0.01, least_distance=0.0)}
    assert found["brightness"].drifted


def encoded(size: tuple[int, int]) -> bytes:
    buffer = BytesIO()
    Image.new("L", size).save(buffer, "PNG")
    return buffer.getvalue()


def images(*contents: bytes | None) -> pa.Table:
    return pa.table({"image": [{"bytes": content, "path": None} for content in contents]})


def test_images_of_many_sizes_are_scored_as_they_are(monitor, project):
    assert monitor(images(*[encoded((32, 24)), encoded((40, 40))] * 30))[0] == 3
    report = json.loads((project / "reports/monitoring/fresh.json").read_text())
    assert report["formats"]["fresh"] == {"32 x 24 L": 30, "40 x 40 L": 30}
    by_name = {figure["name"]: figure for figure in report["figures"]}
    assert (by_name["format"]["reference"], by_name["format"]["fresh"], by_name["format"]["distance"]) == (1, 0, 1)


GOOD = encoded((32, 32))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("nothing.parquet", (), "nothing.parquet: no such file"),
        ("dvc.yaml", (), "dvc.yaml: not a whole Parquet file"),
        (pa.table({"picture": [1] * 60}), (), "fresh.parquet: no column image; it has picture"),
        (pa.table({"image": [1] * 60}), (), "fresh.parquet: column image is of type int64"),
        (images(*[GOOD] * 49), (), "fresh.parquet: 49 images, expected at least 50"),
        (images(*[GOOD] * 70, GOOD[:-30], *[GOOD] * 9), (), "fresh.parquet: row 70: not a readable image"),
        (images(*[GOOD] * 5, None, *[GOOD] * 60), (), "fresh.parquet: row 5: not a readable image"),
        (images(*[GOOD] * 55, encoded((1, 1))), (), "fresh.parquet: row 55: image of 1 x 1 pixels"),
        (images(*[GOOD] * 60), ("--dataset", "none"), "data/none/train.parquet: no such file"),
        (images(*[GOOD] * 60), ("--model", "nowhere"), "nowhere: no such folder"),
        (images(*[GOOD] * 60), ("--model", "data"), "data: has no scorer"),
        (images(*[GOOD] * 60), ("--model", "models:/label_ranking@champion"), "nothing is registered"),
        (images(*[GOOD] * 60), ("--alpha", "0"), "alpha is 0.0, expected above 0"),
        (images(*[GOOD] * 60), ("--least-distance", "1"), "least distance is 1.0"),
        (images(*[GOOD] * 60), ("--rows", "10"), "rows is 10, expected at least 50"),
    ],
)  # fmt: skip
def test_an_error_is_a_line_and_leaves_no_report(monitor, project, monkeypatch, table, options, message):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    report = project / "reports/error.json"
    code, output = monitor(table, "--report", str(report), *options)
    assert code == 1
    assert message in output
    assert len(output.splitlines()) == 1
    assert not report.exists()


def test_a_folder_that_does_not_exist_is_not_made(project, monkeypatch):
    monkeypatch.chdir(project)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        compare("data/ranked_mnist/val.parquet", model="model", dataset="nowhere")
    assert not (project / "data/nowhere").exists()


@pytest.fixture
def retrained(scenes, ranker, tmp_path, monkeypatch):
    """A checkout whose data are others by now than those that the champion, version 2, was trained on, thin digits."""
    monkeypatch.chdir(tmp_path)
    folder = Path("data/ranked_mnist")
    folder.mkdir(parents=True)
    tags = {}
    with Repo.init(".", no_scm=True) as repo:
        for change in ({"scale": (1.0, 1.2)}, {}):
            for split in ("train", "val"):
                path = folder / f"{split}.parquet"
                path.unlink(missing_ok=True)
                pq.write_table(scenes(250, use=split, **change), path)
                (stage,) = repo.add(str(path))
                tags.setdefault(f"input.{path}", stage.outs[0].hash_info.value)
    pq.write_table(scenes(250, use="fresh", scale=(1.0, 1.2)), "fresh.parquet")
    monkeypatch.setattr(drift, "_ranker", lambda model: (ranker, "2", tags))
    return tags


def kept_files() -> list[Path]:
    return [path for path in Path(".dvc/cache/files/md5").rglob("*") if path.is_file()]


def test_a_version_is_held_against_what_it_was_trained_on_not_the_data_of_now(retrained, ranker, monkeypatch):
    found = compare("fresh.parquet", model="models:/label_ranking@champion", dataset="ranked_mnist")
    assert found.drifted == []
    digest = retrained["input.data/ranked_mnist/train.parquet"]
    assert found.reference["train"] == f"data/ranked_mnist/train.parquet, MD5 {digest}, which the model was trained on"
    monkeypatch.setattr(drift, "_ranker", lambda model: (ranker, None, {}))
    of_now = compare("fresh.parquet", model="models/runs/one", dataset="ranked_mnist")
    assert "ink" in of_now.drifted
    assert "as it is now" in of_now.reference["val"]


def test_what_it_was_trained_on_is_fetched_or_missed_in_a_line(retrained, tmp_path_factory):
    remote = tmp_path_factory.mktemp("remote")
    with Repo(".") as repo, repo.config.edit() as config:
        config["remote"]["shared"] = {"url": str(remote)}
        config["core"]["remote"] = "shared"
    with Repo(".") as repo:
        repo.cloud.push([HashInfo("md5", digest) for digest in retrained.values()])
    for path in kept_files():
        path.unlink()
    options = {"model": "models:/label_ranking@champion", "dataset": "ranked_mnist"}
    assert compare("fresh.parquet", **options).drifted == []
    for path in [*kept_files(), *(path for path in remote.rglob("*") if path.is_file())]:
        path.unlink()
    with pytest.raises(
        FileNotFoundError,
        match=r"train.parquet: .* another version .* not in DVC's cache and could not be fetched",
    ):
        compare("fresh.parquet", **options)
    with pytest.raises(ValueError, match="trained on ranked_mnist, not on arc: name that as the dataset"):
        compare("fresh.parquet", **options | {"dataset": "arc"})


def test_drift_asks_for_a_retraining_and_says_why(monitor, scenes, monkeypatch):
    asked = []
    monkeypatch.setattr(
        flow, "run_deployment", lambda name, **options: asked.append((name, options)) or Run("tiny-otter")
    )
    inverted = redrawn(scenes(100, use="inverted"), lambda images: 255 - images)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        assert monitor(scenes(200, use="fresh"), "--retrain")[0] == 0
        assert asked == []
        code, output = monitor(inverted, "--retrain")
    assert code == 3, output
    ((name, options),) = asked
    assert name == "retrain/retrain"
    assert options["timeout"] == 0
    assert options["parameters"]["reason"].startswith("drift: ")
    assert "brightness" in options["parameters"]["reason"]
    assert "scheduled retrain/retrain as tiny-otter" in output


class Run:
    """As Prefect has it, in a state."""

    def __init__(self, name: str):
        self.name, self.id, self.state = name, f"id of {name}", Scheduled()


def test_one_reason_is_one_retraining_until_that_failed(monkeypatch):
    runs = {}
    monkeypatch.setattr(
        flow, "run_deployment",
        lambda name, idempotency_key, **options: runs.setdefault(idempotency_key, Run(f"run {len(runs)}")),
    )  # fmt: skip
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        assert flow.retrain("drift: ink", once="ink") == flow.retrain("drift: ink", once="ink") == "run 0"
        runs["ink"].state = Cancelled()
        assert flow.retrain("drift: ink", once="ink") == flow.retrain("drift: ink", once="ink") == "run 1"
        for good in (Completed(), outcome([Decision("clips", "2", "1", False, "no data", "", {}, failed=True)])):
            runs["ink; after id of run 0"].state = good
            assert flow.retrain("drift: ink", once="ink") == "run 1"


def test_nothing_has_come_in_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with disable_run_logger():
        state = flow.monitor.fn()
    assert state.is_completed()
    assert "no folder data/incoming" in state.message


def test_a_prefect_server_that_does_not_answer_is_told_in_a_line(monitor, scenes):
    inverted = redrawn(scenes(100, use="inverted"), lambda images: 255 - images)
    with temporary_settings({PREFECT_API_URL: "http://user:secret@127.0.0.1:1/api"}):
        code, output = monitor(inverted, "--retrain")
    assert code == 1
    assert "no retraining: the Prefect server http://127.0.0.1:1/api does not take it" in output.splitlines()[-1]
    with (
        temporary_settings({PREFECT_API_URL: None}),
        pytest.raises(ConnectionError, match="PREFECT_API_URL is not set"),
    ):
        flow.retrain("drift: ink")


def test_the_newest_file_is_the_one_of_the_latest_day(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file there that is named by its day"):
        flow.newest(tmp_path)
    for name in ("2026-09-30", "2026-11-02", "2026-10-31", "zebra", "2026-13-01", "latest"):
        (tmp_path / f"{name}.parquet").touch()
    (tmp_path / "2026-12-24.parquet.partial-7").touch()
    assert flow.newest(tmp_path).name == "2026-11-02.parquet"


def measured(**changed: np.ndarray) -> dict[str, np.ndarray]:
    """Of 60 images that are all alike, as `measure` has it."""
    pixels = {name: np.zeros(60, np.float32) for name in ("brightness", "contrast", "ink", "sharpness")}
    network = {"embedding": np.zeros((60, 3), np.float32), "scores": np.zeros((60, 2), np.float32)}
    return {"format": np.array(["8 x 8 L"] * 60), **pixels, **network, "selected": np.ones(60, int)} | changed


def test_pixels_are_held_against_training_images_and_the_network_against_validation_images():
    spread = np.linspace(-1, 1, 60, dtype=np.float32)
    of_training, of_validation = (np.outer(spread, np.eye(3, dtype=np.float32)[axis]) for axis in (0, 1))
    train = measured(brightness=spread + 2, embedding=of_training, scores=np.full((60, 2), 3, np.float32))
    val = measured(brightness=spread + 5, embedding=of_validation, scores=np.full((60, 2), 7, np.float32))
    beside = 2 * of_training + np.array([1, 0, 0], np.float32)
    fresh = measured(brightness=spread + 2, embedding=beside, scores=np.full((60, 2), 7, np.float32))
    found = {figure.name: figure for figure in figures(train, val, fresh, alpha=0.01, least_distance=0.1)}
    assert (found["brightness"].reference, found["brightness"].distance) == (pytest.approx(2), 0)
    assert (found["score 0"].reference, found["score 0"].distance) == (7, 0)
    # In the direction in which training images vary, validation images lie at 0, and fresh ones from -1 to 3.
    direction = found["embedding 1"]
    assert (direction.reference, abs(direction.fresh)) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6))
    assert direction.distance == pytest.approx(0.75)


def test_rare_formats_are_tested_as_one():
    def formats(*counts: int, rare: str) -> np.ndarray:
        several = [kind for kind, count in zip("LP", counts, strict=True) for _ in range(count)]
        return np.array(several + [f"{number} x 8 {rare}" for number in range(60 - len(several))])

    train, fresh = (measured(format=formats(*counts, rare=rare)) for counts, rare in (((36, 18), "L"), ((24, 24), "P")))
    found = figures(train, measured(), fresh, alpha=0.01, least_distance=0.1)[0]
    assert (found.name, found.p) == ("format", pytest.approx(chi2_contingency([[36, 18, 6], [24, 24, 12]]).pvalue))
    assert found.distance == pytest.approx((12 + 6 + 6 + 12) / 60 / 2)  # no rare one is on both sides


def test_what_is_compared_is_what_the_ranker_says_of_the_images(scenes, ranker, tmp_path):
    table = scenes(60, use="said")
    pq.write_table(table, tmp_path / "scenes.parquet")
    high = LabelRanker(ranker.scorer, copy.deepcopy(ranker.thresholds))
    high.thresholds.layers[-1].bias.data += torch.linspace(-1, 3, 10)  # so that fewer labels are selected than not
    found = measure(tmp_path / "scenes.parquet", high, chosen=np.ones(60, bool))
    pixels = torch.from_numpy(decode_images(table["image"], path="scenes", threads=1))
    scores, thresholds = high(pixels)
    assert np.allclose(found["scores"], scores, atol=1e-5)
    assert found["selected"].tolist() == (scores > thresholds).sum(1).tolist()
    assert max(found["selected"]) < 5
    assert np.allclose(found["brightness"], pixels.float().mean((1, 2)) / 255, atol=1e-6)
    assert np.allclose(found["ink"], (pixels > 127).float().mean((1, 2)), atol=1e-6)


def test_a_color_is_as_bright_as_its_three_parts(tmp_path):
    scorer = build("models", "convnet", {"channels": [4, 8]}, seed=1, outputs=2, colors=3)
    thresholds = build("models", "threshold_network", {"hidden": 8}, seed=1, features=scorer.embedding_size, outputs=2)
    red = BytesIO()
    Image.new("RGB", (16, 16), (255, 0, 0)).save(red, "PNG")
    pq.write_table(images(red.getvalue()), tmp_path / "red.parquet")
    found = measure(tmp_path / "red.parquet", LabelRanker(scorer.eval(), thresholds.eval()), chosen=np.ones(1, bool))
    assert found["brightness"].tolist() == [pytest.approx(1 / 3)]
    assert found["ink"].tolist() == [0]


def test_scores_that_are_not_finite_are_told_with_the_row_that_is_looked_at(ranker, tmp_path):
    broken = build("models", "convnet", {"channels": [4, 8]}, seed=1, outputs=10, colors=1).eval()
    for weights in broken.parameters():
        weights.data.fill_(torch.nan)
    pq.write_table(images(*[GOOD] * 4), tmp_path / "four.parquet")
    with pytest.raises(FloatingPointError, match=r"four.parquet: row 2: the model's scores of it are not finite"):
        measure(tmp_path / "four.parquet", LabelRanker(broken, ranker.thresholds), chosen=np.arange(4) >= 2)


def test_of_more_images_than_rows_so_many_are_drawn_by_the_seed(project, monkeypatch):
    monkeypatch.chdir(project)
    found = [
        compare("data/ranked_mnist/val.parquet", model="model", dataset="ranked_mnist", rows=60, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert [one.images for one in found] == [{"train": 60, "val": 60, "fresh": 60}] * 3
    assert found[0] == found[1]
    brightness = [[(figure.reference, figure.fresh) for figure in one.figures][1] for one in found]
    assert brightness[0][0] != brightness[2][0]
    assert brightness[0][1] != brightness[2][1]


def comparison(*drifted: float, version: str = "3") -> Comparison:
    """Of some figures that have drifted so far."""
    moved = [Figure(f"score {k}", "", 0, 0, far, 0, 0, True) for k, far in enumerate(drifted)]
    rest = [Figure("ink", "", 0, 0, 0.99, 1, 1, False)]
    return Comparison(
        "x.parquet", "models:/one@champion", version, "ranked_mnist", 0.01, 0.1, {}, {"fresh": 70}, {}, moved + rest
    )


def test_a_verdict_names_the_four_that_moved_furthest():
    assert comparison(0.2, 0.6, 0.3, 0.5, 0.4).drifted == ["score 1", "score 3", "score 4", "score 2", "score 0"]
    assert comparison(0.2, 0.6, 0.3, 0.5, 0.4).verdict == (
        "drift: score 1, score 3, score 4, score 2 and 1 more in x.parquet (70 images)"
    )
    four = comparison(0.2, 0.3, 0.4, 0.5).verdict
    assert four == "drift: score 3, score 2, score 1, score 0 in x.parquet (70 images)"
    assert comparison(0.2, 0.3).verdict == "drift: score 1, score 0 in x.parquet (70 images)"
    assert comparison().verdict == "no drift in x.parquet (70 images)"


def test_the_flow_asks_once_for_a_file_and_a_version_where_there_is_drift_and_it_may(tmp_path, monkeypatch):
    asked, written = [], []
    monkeypatch.setattr(flow, "retrain", lambda reason, once: asked.append((reason, once)))
    monkeypatch.setattr(flow.monitoring, "write", lambda found, path: written.append(path))
    for name in ("create_table_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(flow, name, lambda **options: None)
    (tmp_path / "2026-11-21.parquet").touch()
    for found, may in (
        (comparison(), True), (comparison(0.4), False), (comparison(0.4), True), (comparison(0.4), True),
        (comparison(0.4, version="4"), True), (comparison(0.5, 0.4), True),
    ):  # fmt: skip
        monkeypatch.setattr(flow.monitoring, "compare", lambda fresh, found=found, **options: found)
        with disable_run_logger():
            state = flow.monitor.fn(folder=str(tmp_path), retrain_on_drift=may)
        assert state.message == found.verdict
    assert [reason for reason, _ in asked] == [comparison(0.4).verdict] * 3 + [comparison(0.5, 0.4).verdict]
    (_, first), (_, again), (_, of_version), (_, of_figures) = asked
    assert first == again
    assert len({first, of_version, of_figures}) == 3
    assert set(written) == {Path("reports/monitoring/2026-11-21.json")}
