"""`rankgrad monitor`: silent about more of the same, loud about what has changed, clear about what it cannot read."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from prefect.logging import disable_run_logger
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Failed, Scheduled
from starlette.testclient import TestClient

from pipelines.flows import monitor as flow
from pipelines.monitoring.drift import Comparison, compare, quantities, write
from pipelines.monitoring.measure import Inputs, Measured, measure, prepared
from pipelines.monitoring.reference import GROUP, TrainingData, read_reference, reference_of
from pipelines.serving.server import app_of
from pipelines.tracking.upload import Run, Version, publish
from rankgrad.cli.answers import answers
from rankgrad.datasets.ranked_mnist import RankedMnist
from rankgrad.datasets.scenes import digits
from rankgrad.datasets.tables.ranges import outside_ranges
from rankgrad.datasets.tables.rows import Roles, read
from rankgrad.inputs.features import Features
from rankgrad.inputs.image import Image as ImageInput
from rankgrad.io.checkpoints import save_model
from rankgrad.io.parquet import encode_images

import rows  # isort: skip
from conftest import SUBSET, encoded, small_network, small_ranker  # isort: skip

NAME = "label_ranking-mnist"
SCENES = RankedMnist(
    rows=dict.fromkeys(digits.DIGITS_OF, 2), canvas=32, digits_per_image=(2, 4), scale=(1.0, 3.0), overlap=0.3, seed=1
)


@pytest.fixture(scope="module")
def scenes():
    """Draws scenes, all of the training digits: both sides of a comparison must be able to draw the same."""
    glyphs = digits.load(SUBSET, "train")

    def draw(rows: int, use: int, **options) -> pa.Table:
        dataset = RankedMnist(**vars(SCENES) | {"seed": use} | options)
        return pa.concat_tables(dataset.tables(glyphs, "train", [rows], threads=1))

    return draw


@pytest.fixture(scope="module")
def project(tmp_path_factory, scenes) -> Path:
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "data/ranked_mnist").mkdir(parents=True)
    for use, split in enumerate(("train", "val", "test")):
        pq.write_table(scenes(250, use), folder / f"data/ranked_mnist/{split}.parquet")
    for model in ("ranker", "model"):
        save_model(folder / model, small_ranker())
    TrainingData(folder / "data/ranked_mnist").write(folder / "model", is_refitted=False)
    return folder


@pytest.fixture
def compared(project, monkeypatch):
    """Compares a table of images with the project's data."""
    monkeypatch.chdir(project)

    def run(images: pa.Table, **options) -> Comparison:
        pq.write_table(images, "fresh.parquet")
        return compare("fresh.parquet", **{"model": "model"} | options)

    return run


def measured(images: pa.Table, folder: Path, ranker=None) -> Measured:
    pq.write_table(images, folder / "images.parquet")
    ranker = ranker or small_ranker()
    rows = read([folder / "images.parquet"], ranker.recipe)
    return measure(prepared(rows, ranker.recipe, chosen=range(len(images))), ranker)


def measured_of(inputs: pd.DataFrame, answers: pd.DataFrame, embedding: np.ndarray | None = None) -> Measured:
    """Measurements as they are, without rows and a network."""
    embedding = np.eye(len(inputs), 3) if embedding is None else embedding
    return Measured(Inputs(inputs, set(), inputs, inputs), answers.reset_index(drop=True), embedding)


def drifted(
    train: Measured, val: Measured, fresh: Measured, *, alpha: float, least: float = 0.1, **options
) -> list[str]:
    compared = quantities(reference_of("x", train, val), fresh, alpha=alpha, least_distance=least, **options)
    return [quantity.name for quantity in compared if quantity.drifted]


def test_more_of_the_same_is_called_drift_as_rarely_as_alpha_says(scenes, tmp_path):
    inputs, answers, embedding = measured(scenes(600, 7), tmp_path)

    def of_rows(rows: np.ndarray, inputs: pd.DataFrame = inputs.quantities) -> Measured:
        return measured_of(inputs.iloc[rows], answers.iloc[rows], embedding[rows])

    falsely = 0
    for seed in range(20):  # which scenes come to which side is chance
        trial = [of_rows(side) for side in np.split(np.random.default_rng(seed).permutation(600), [250, 500])]
        falsely += bool(drifted(*trial, alpha=0.05, least=0.0))
    # By chance, 5 or more of 20 at a rate of 0.05 come in one of 400 such tests.
    assert falsely < 5
    many, brightness = np.tile(np.arange(600), 10), inputs.quantities["brightness"]
    moved = of_rows(many, inputs.quantities.assign(brightness=brightness + 0.1 * brightness.std()))
    for least, expected in ((0.0, ["brightness"]), (0.1, [])):  # a small distance is no drift however many rows
        assert drifted(of_rows(many), of_rows(many), moved, alpha=0.01, least=least) == expected


@pytest.mark.parametrize(
    ("options", "change", "name"),
    [({"digits_per_image": (1, 2)}, lambda images: images, "contrast"), ({}, lambda images: 255 - images, "ink")],
)
def test_a_change_is_named(compared, scenes, options, change, name):
    images = change(np.stack(ImageInput.shown(scenes(150, 9, **options)["image"], path=Path(), threads=1)))
    comparison = compared(pa.table({"image": encode_images(images, threads=1)}))
    assert name in comparison.drifted
    assert comparison.verdict.startswith("drift: ")


GOOD = encoded(Image.new("L", (32, 32)))


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        ([GOOD] * 19, {}, "fresh.parquet: 19 rows"),
        ([*[GOOD] * 70, GOOD[:-30], *[GOOD] * 9], {}, "fresh.parquet: row 71"),
        ([GOOD] * 60, {"model": "ranker"}, "ranker: .*no reference"),
        ([GOOD] * 60, {"alpha": 0.0}, "alpha is 0.0"),
    ],
)
def test_what_cannot_be_compared_is_named(compared, images, options, message):
    with pytest.raises((ValueError, OSError), match=message):
        compared(pa.table({"image": rows.of_table(images)}), **options)


def test_a_version_needs_no_data_of_the_checkout_and_a_challenger_answers_the_same_rows(store, project, scenes):
    write = partial(TrainingData(project / "data/ranked_mnist").write, is_refitted=False)
    publish([Run("mine", "tests", "key", version=Version(NAME, project / "ranker", write=write))])
    pq.write_table(scenes(60, 8), "fresh.parquet")

    def compared(challenger: str) -> Comparison:
        return compare("fresh.parquet", model=f"models:/{NAME}@champion", challenger=challenger)

    ours = compared(f"models:/{NAME}/1")
    assert (ours.version, ours.dataset, ours.rows) == ("1", "ranked_mnist", {"train": 250, "test": 250, "fresh": 60})
    assert {agreement.alike for agreement in ours.shadow.agreement} == {1.0}
    assert compared("@challenger").shadow is None  # it is the champion
    ranker = small_ranker()
    for weights in ranker.parameters():
        weights.data = weights.data.roll(1, 0)
    save_model("other", ranker)
    publish([Run("new", "tests", "new", version=Version(NAME, Path("other")))])
    shadow = compared("@challenger").shadow
    assert shadow.model == f"models:/{NAME}/2"
    assert min(agreement.correlation or 0 for agreement in shadow.agreement) < 0.9
    save_model("network", small_network("score_ranking", "image"))
    spared = compared("network")
    assert spared.quantities == ours.quantities
    assert "network: a model for score_ranking, expected" in spared.shadow.verdict


def test_of_several_views_the_first_is_measured(scenes, tmp_path):
    images, ranker = scenes(60, 8), small_ranker()
    once = measured(images, tmp_path, ranker).embedding
    ranker.views = {"count": 3, "shift": 2}
    assert np.array_equal(measured(images, tmp_path, ranker).embedding, once)


COUNTS = [
    (np.arange(60), np.arange(60) + 100),  # of each length one list, so that no number is frequent
    # A number that is rare in training, between two frequent ones, which every other fresh row has.
    (np.repeat([1, 5, 9], [999, 2, 999]), np.repeat([1, 5], [30, 30])),
]


@pytest.mark.parametrize(("learned", "fresh"), COUNTS)
def test_counts_drift_however_rare_each_number_is(learned, fresh):
    before, after = (
        measured_of(pd.DataFrame({"price": np.ones(len(counts))}), pd.DataFrame({"documents": counts}))
        for counts in (learned, fresh)
    )
    assert "documents" in drifted(before, before, after, alpha=0.01)


@pytest.mark.parametrize(
    ("labs", "spread", "shift", "drifts"),
    [(1, 1.0, 9.0, False), (5, 1.0, 1.0, False), (60, 1.0, 0.0, False), (60, 1.0, 1.0, True), (3, 0.0, 0.05, True)],
)
def test_rows_of_few_groups_drift_only_as_far_as_these_groups_show(labs, spread, shift, drifts):
    """If each lab has its own level, 500 rows of five labs say no more of other labs than five numbers do."""
    draws = np.random.default_rng(0)

    def of(count: int, shift: float = 0.0) -> Measured:
        labs = pd.Index(np.repeat(np.arange(count).astype(str), 600 // count), name=GROUP)
        level = np.repeat(draws.normal(shift, spread, size=count), 600 // count)
        ages = pd.DataFrame({"age": level + draws.normal(0, 0.1, size=len(labs))}, labs)
        return measured_of(ages, ages[[]])

    before, fresh = of(60), of(labs, shift)
    assert drifted(before, before, fresh, alpha=0.01) == ["age"] * drifts
    assert drifted(before, before, fresh, alpha=0.01, dates=["age"]) == []  # a date is later in each new file


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publishes a network that learned from a table as the folder `model` of the present folder."""
    monkeypatch.chdir(tmp_path)

    def publish(network, table: pa.Table) -> None:
        save_model("model", network)
        for split in ("train", "val", "test"):
            pq.write_table(table, f"{split}.parquet")
        TrainingData(tmp_path).write(Path("model"), is_refitted=False)

    return publish


def test_rows_without_a_group_do_not_form_one(published):
    network, draws = small_network("score_ranking", "features"), np.random.default_rng(0)
    network.recipe["input"]["group"] = "lab"
    levels = np.repeat(draws.normal(size=(60, 2)), 5, axis=0)  # rows of one lab are equal
    published(network, pa.table({"features": levels.tolist(), "group": np.repeat(np.arange(60), 5).astype(str)}))
    fresh = pd.DataFrame(draws.normal(size=(200, 2)) + [1, 0], columns=["age", "price"])
    for lab, drifted in ((None, True), ("new", False)):
        fresh.assign(lab=lab).to_csv("fresh.csv", index=False)
        assert ("age" in compare("fresh.csv", model="model").drifted) == drifted
    fresh[["age", "price"]], fresh["lab"] = np.repeat(draws.normal(size=(40, 2)), 5, axis=0), np.repeat(range(40), 5)
    tested = []
    for rows_ in (fresh, fresh.sample(frac=1, random_state=1)):  # the order of rows says nothing
        rows_.to_csv("fresh.csv", index=False)
        tested.append({quantity.name: quantity.p for quantity in compare("fresh.csv", model="model").quantities})
    assert tested[0] == pytest.approx(tested[1])
    reference = read_reference(Path("model"), model="model")
    for learned in (reference.inputs, reference.network):
        assert (learned.groupby(GROUP).nunique() == 1).all(axis=None)


@pytest.mark.parametrize(("is_refitted", "rows_"), [(False, 20), (True, 25)])
def test_with_folds_a_network_is_measured_on_rows_that_it_did_not_learn(tmp_path, monkeypatch, is_refitted, rows_):
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    folds = pa.array(np.repeat([1, 2, 3], 20))
    table = pa.table({"features": draws.normal(size=(60, 2)).tolist(), "fold": folds})
    for split in ("train", "val", "test"):
        pq.write_table(table, f"{split}.parquet")
    pq.write_table(pa.table({"features": draws.normal(size=(25, 2)).tolist()}), "gate.parquet")
    save_model("model", small_network("score_ranking", "features"))
    TrainingData(tmp_path).write(Path("model"), is_refitted=is_refitted)
    assert len(read_reference(Path("model"), model="model").network) == rows_


def test_of_a_search_in_texts_the_queries_are_compared(published):
    draws, words = np.random.default_rng(0), ["a", "red", "blue", "hat", "shoes", "dress"]

    def queries(count: int, more: str = "") -> list[str]:
        return [" ".join([*draws.choice(words, draws.integers(2, 6)), more]).strip() for _ in range(count)]

    texts = pa.array([[query] for query in queries(300)])
    published(small_network("retrieval", "text"), pa.table({"text": ["a hat"] * 300, "captions": texts}))
    pd.DataFrame({"caption": [*queries(199), "???"]}).to_csv("same.csv", index=False)
    assert compare("same.csv", model="model").drifted == []
    # The passages are all new, and do not count.
    pd.DataFrame({"caption": queries(200, "bitte"), "text": queries(200, "neu")}).to_csv("other.csv", index=False)
    assert "unknown words" in compare("other.csv", model="model").drifted
    pd.DataFrame({"text": queries(200)}).to_csv("passages.csv", index=False)
    with pytest.raises(ValueError, match="caption"):
        compare("passages.csv", model="model")


@pytest.mark.parametrize("kind", ["features", "text"])
def test_rows_of_features_and_texts_are_compared_by_column_and_by_words(published, kind):
    draws, words = np.random.default_rng(0), ["red", "blue", "old", "new", "hat", "shoe"]

    def rows(count: int, *, price: float = 0.0, more: str = "") -> pd.DataFrame:
        numbers = draws.normal(size=(count, 2)) + [0, price]
        titles = [" ".join([*draws.choice(words, draws.integers(2, 6)), more]).strip() for _ in range(count)]
        return pd.DataFrame(numbers, columns=["age", "price"]).assign(title=titles)

    learned = rows(300)
    inputs = {"features": learned[["age", "price"]].to_numpy().tolist(), "text": learned["title"].tolist()}
    published(small_network("score_ranking", kind), pa.table({kind: inputs[kind]}))
    options = {"model": "model", "roles": Roles(["title"] if kind == "text" else [])}
    same = rows(200)
    same.to_csv("same.csv", index=False)
    assert compare("same.csv", **options).drifted == []
    mixed = pd.concat([same.head(100), rows(200, price=1.0, more="Xylophone")])
    mixed.to_csv("mixed.csv", index=False)
    comparison = compare("mixed.csv", **options)
    name = {"features": "price", "text": "unknown words"}[kind]
    assert name in comparison.drifted
    assert "age" not in comparison.drifted
    write(comparison, "reports/mixed.json")
    to_label = pd.read_csv("reports/mixed-to_label.csv")
    shown = to_label[f"value {name}"]
    assert kind == "text" or shown.tolist() == pytest.approx(mixed["price"].iloc[to_label["row"] - 1].tolist())
    assert (to_label["row"].head(50) > 100).mean() > 0.75  # the rows that differ, of which there are two in three


def test_a_name_of_one_group_is_as_unknown_as_a_new_group_s(tmp_path):
    rows = [[1.0, 1, 0], [2, 1, 0], [3, 0, 1], [4, 0, 1], [5, 0, 0]]  # two bmw, two vw, one empty
    names = ["km", "brand=bmw", "brand=vw"]
    pq.write_table(pa.table({"features": rows}), tmp_path / "rows.parquet")
    pq.write_table(pa.table({"features": [rows[:3], rows[3:]]}), tmp_path / "queries.parquet")
    for groups, lists, expected in (
        (np.array([7, 7, 8, 9, 9]), False, [1, 1, 0, 0, 1]),
        (None, False, [0, 0, 0, 0, 1]),
        (None, True, [2 / 3, 1 / 2]),
    ):
        path = tmp_path / ("queries.parquet" if lists else "rows.parquet")
        unknown = Features.unknown_alone(path, {"names": names}, groups, lists=lists)
        assert unknown["brand: unknown or empty"].tolist() == pytest.approx(expected)


def test_renamed_names_drift_and_a_single_value_outside_the_training_range_is_listed(published, caplog):
    draws = np.random.default_rng(0)
    cells = rows.cells("score_ranking", "features", 300, draws)
    network = rows.untrained("score_ranking", "features", Path(), draws)
    published(network, rows.table("score_ranking", "features", cells, draws))
    fresh = pd.DataFrame({"price": 50.0, "brand": ["red", "blue", ""] * 30, "age": 50.0})
    fresh.loc[16, "price"] = 1e9
    for renamed, drifted in (("red", False), ("Rot", True)):
        fresh["brand"] = fresh["brand"].replace("red", renamed)
        fresh.to_csv("fresh.csv", index=False)
        comparison = compare("fresh.csv", model="model")
        assert ("brand: unknown or empty" in comparison.drifted) == drifted
        assert [(column.name, column.rows, column.first_row) for column in comparison.outside] == [("price", 1, 17)]
    list(answers(Path("model"), [Path("fresh.csv")]))
    assert "price: 1 rows are outside the training range, first: fresh.csv: row 17, price 1e+09 (" in caplog.text
    records = fresh.iloc[15:17].to_dict("records")
    reply = TestClient(app_of(Path("model"))).post("/invocations", json={"dataframe_records": records}).json()
    [outside] = [warning for warning in reply["warnings"] if "outside" in warning]
    assert outside.startswith("price: 1 rows are outside the training range, first: row 2, price 1e+09 (")


def test_a_query_is_outside_by_the_document_that_is_farthest_beyond_a_tenth_of_the_range():
    recipe = {"task": "query_ranking", "input": {"kind": "features", "count": 1, "names": ["age"]}}
    queries = [[[-1.0], [500.0]], [[-1.0], [105.0]], [[-20.0], [50.0]]]
    found = outside_ranges({"age": (0.0, 99.0)}, [{"features": query} for query in queries], recipe)
    assert {index: words["age"].split(" (")[0] for index, words in found.items()} == {0: "age 500", 2: "age -20"}


def test_one_document_outside_the_range_is_listed_and_svmlight_features_are_numbered_as_in_the_file(published, caplog):
    draws = np.random.default_rng(0)
    queries = rows.cells("query_ranking", "features", 60, draws)
    network = rows.untrained("query_ranking", "features", Path(), draws)
    del network.recipe["input"]["names"]
    network.recipe["input"] |= {"columns": ["all"], "lowest": 1, "format": "svmlight"}
    published(network, rows.table("query_ranking", "features", queries, draws))
    lines = [f"0 qid:{row // 4} 1:50 2:0 3:1 4:{row % 2 and 50}" for row in range(240)]
    lines[17] = "0 qid:4 1:50 2:0 3:1 4:1e9"
    Path("fresh.txt").write_text("\n".join(lines))
    [outside] = compare("fresh.txt", model="model").outside
    assert (outside.name, outside.fresh[1], outside.rows, outside.first_row) == ("feature 4", 1e9, 1, 17)
    list(answers(Path("model"), [Path("fresh.txt")]))
    assert "feature 4: 1 rows are outside the training range, first: fresh.txt: qid 4, feature 4 1e+09 (" in caplog.text


class TestFlow:
    @pytest.fixture
    def retrainings(self, monkeypatch):
        """What Prefect's server is asked for, by key."""
        runs = {}

        def run_deployment(name, *, parameters, timeout, idempotency_key):
            assert (name, timeout) == ("retrain/retrain", 0)
            new = SimpleNamespace(name=f"run {len(runs)}", id=f"id of run {len(runs)}", state=Scheduled())
            runs.setdefault(idempotency_key, new).parameters = parameters
            return runs[idempotency_key]

        monkeypatch.setattr(flow, "run_deployment", run_deployment)
        monkeypatch.setattr(flow, "create_table_artifact", lambda **options: None)
        with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}), disable_run_logger():
            yield runs

    def test_one_reason_is_one_retraining_until_that_failed(self, retrainings):
        assert flow.retrain("drift: ink", once="ink") == "run 0"
        for state in (Cancelled(), Scheduled(), Completed(), Failed(name=flow.NOT_JUDGED)):
            [*retrainings.values()][-1].state = state
            assert flow.retrain("drift: ink", once="ink") == "run 1"

    def test_the_newest_file_is_compared_and_drift_asks_once_for_a_retraining(
        self, retrainings, project, scenes, monkeypatch
    ):
        monkeypatch.chdir(project)
        tables = {}
        monkeypatch.setattr(flow, "create_table_artifact", lambda key, table, **_: tables.update({key: table}))

        def monitored(**options):
            return flow.monitor.fn(folder="incoming", model="model", **options)

        assert "incoming" in monitored().message  # there is nothing to compare
        Path("incoming").mkdir()
        pq.write_table(scenes(100, 13, digits_per_image=(1, 1)), "incoming/2026-11-21.parquet")
        pq.write_table(scenes(200, 14), "incoming/2026-11-20.parquet")
        first = monitored(retrain_on_drift=False, challenger=None)
        assert (first.name, len(retrainings), [*tables]) == (flow.DRIFTED, 0, ["monitored", "to-label"])
        for challenger in ("@challenger", "model"):
            state = monitored(challenger=challenger)
            assert state.message.startswith("drift: ")
            assert state.name == "Completed"  # it was reported, and no alert comes twice
        assert {row["alike"] for row in tables["challenger"]} == {1.0}
        assert [run.parameters for run in retrainings.values()] == [{"reason": state.message}]
        Path("incoming/2026-11-21.parquet").unlink()
        assert monitored().message.startswith("no drift")
        assert len(retrainings) == 1

    def test_of_the_files_of_a_day_the_one_written_last_is_the_newest(self, tmp_path):
        for second, name in enumerate(("2026-11-21-a.parquet", "2026-11-22-10.parquet", "2026-11-22-9.parquet")):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (second, second))
            assert flow.newest(tmp_path).name == name
        for other in ("2026-11-23.partial-1.parquet", f"{name}.dvc", "zebra.parquet"):
            (tmp_path / other).touch()
        assert flow.newest(tmp_path).name == name
        pictures = tmp_path / "2026-11-23-v1.2"
        pictures.mkdir()
        (tmp_path / f"{pictures.name}.dvc").touch()
        assert flow.newest(tmp_path) == pictures
        (tmp_path / "2026-11-24.csv.gz").touch()
        with pytest.raises(ValueError, match="2026-11-24.csv.gz: not a table"):
            flow.newest(tmp_path)
        (tmp_path / "2026-99-99.parquet").touch()
        with pytest.raises(ValueError, match="2026-99-99"):
            flow.newest(tmp_path)

    def test_a_prefect_server_that_does_not_answer_is_told_in_a_line(self):
        with (
            temporary_settings({PREFECT_API_URL: "http://user:secret@127.0.0.1:1/api"}),
            pytest.raises(ConnectionError, match=r"http://127\.0\.0\.1:1/api") as error,
        ):
            flow.retrain("drift: ink")
        assert "secret" not in str(error.value)
        with temporary_settings({PREFECT_API_URL: None}), pytest.raises(ConnectionError, match="PREFECT_API_URL"):
            flow.retrain("drift: ink")
