"""Simple rivals: models that are fitted at once, and BM25, against scikit-learn and formulas; how they are compared."""

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import rankdata, spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge

from pipelines.cli.starting_runs import MODELS
from pipelines.config import load
from pipelines.config.schema import Comparison, Resampling, Run, typed
from pipelines.rivals import RIVALS, SETTINGS, bm25, lsa, word_map
from pipelines.stages.compare import against_rival, compared, read_statistics, statistics_of, strongest_rival
from pipelines.stages.rivals import _predicted
from rankgrad import lookup
from rankgrad.datasets.files.splits import Captions, Split
from rankgrad.evaluation import Statistic
from rankgrad.fitted import FittedBackbone
from rankgrad.inputs import Inputs
from rankgrad.inputs.features import of_tensor
from rankgrad.inputs.image import of_tensor as pictures_of
from rankgrad.io.checkpoints import load_model, save_model
from rankgrad.io.results import Row, minus
from rankgrad.models.backbones._gradients import oriented_gradients
from rankgrad.models.network import made
from rankgrad.plain_text import PAIR
from rankgrad.training.loop import train
from rankgrad.training.progress import copied
from rankgrad.vocabulary import Vocabulary

from conftest import ROOT, objective_of, task_of  # isort: skip
from rows import TRAINING, TWO, written  # isort: skip

PARAMS = load(ROOT / "params.yaml")
PERCEPTRON = {"name": "perceptron", "args": {}}


def split_of(kind: str, items, truth, sizes=None) -> Split:
    return Split(of_tensor(items) if kind == "features" else Inputs({"kind": kind}, items), truth, sizes)


def fitted(name: str, split: Split, **options):
    words = Vocabulary.of(split.inputs.items).words if name.startswith("word") else None
    runtime = {"features": 3, "words": words, "outputs": 1}
    backbone = made("models.backbones", {"name": name, "args": options}, **runtime)
    backbone.fit(split)
    return backbone


@pytest.mark.parametrize(("name", "task"), [(name, task) for name in RIVALS for task in RIVALS[name].takes])
def test_a_simple_way_to_search_is_judged_as_a_network_is(name, task, tmp_path):
    written(task, RIVALS[name].takes[task], tmp_path)
    judge = lookup.find("tasks", task)()
    val = judge.load(tmp_path, "val", threads=1)
    table = _predicted(name, judge, {"train": val, "val": val, "test": val}, judge.metrics[0].name)
    assert np.isfinite(judge.statistic(table).of_all()[0])


NAMES = ("boosted_trees", "hog_ridge", "ridge", "word_counts")
FITTED = [(name, task) for name in NAMES for task in FittedBackbone.tasks]


QUERIES = [(name, "query_ranking") for name in ("word_pair_ridge", "lambdarank_trees")]


@pytest.mark.parametrize(("name", "task"), [*FITTED, *QUERIES])
def test_a_fitted_model_is_trained_validated_and_loaded_as_a_network_is(name, task, tmp_path):
    kind = {"word_counts": "text", "word_pair_ridge": "text_pair", "hog_ridge": "image"}.get(name, "features")
    written(task, kind, tmp_path)
    judge = task_of(task, TRAINING.get(task, TWO))
    train_split, val = (judge.load(tmp_path, split, threads=1) for split in ("train", "val"))
    model = {"name": "identity", "args": {}, "backbone": {"name": name, "args": {}}}
    network = judge.build(model, train_split, seed=0)
    before = copied(network)
    objective = objective_of({"multilabel": "multilabel_soft_margin"}.get(task, "mse"))
    epochs = list(train(judge, network, train_split, val, objective=objective, seed=0, device="cpu"))
    assert [(epoch.number, epoch.best) for phase, epoch in epochs if phase != "thresholds"] == [(1, True)], kind
    for key, weight in network.state_dict().items():
        assert weight.equal(before[key]) or key.startswith("thresholds"), key
    save_model(tmp_path / "model", network)
    predicted = judge.predict(load_model(tmp_path / "model"), val)
    statistic, metric = judge.statistic(predicted), epochs[0][1].monitor
    place = [name.removeprefix("ranked.") for name in statistic.names].index(metric)
    assert statistic.of_all()[place] == pytest.approx(epochs[0][1].value)


@pytest.mark.parametrize("kind", MODELS)
def test_the_network_that_init_writes_is_fitted_to_the_training_split_and_scores(kind, tmp_path):
    name = "query_ranking" if kind == "text_pair" else "score_ranking"
    written(name, kind, tmp_path)
    task = task_of(name, TRAINING.get(name, TWO))
    split = task.load(tmp_path, "train", threads=1)
    predicted = task.predict(task.build(MODELS[kind], split, seed=1), split)
    assert np.isfinite(task.statistic(predicted).of_all()).all()


def test_trees_score_as_those_of_scikit_learn(generator):
    items = torch.randn(500, 3, generator=generator)
    items[:, 2] = items[:, 2].round()  # ties at thresholds
    truth = items[:, 0] * items[:, 1] + items[:, 2]
    usual = HistGradientBoostingRegressor(
        learning_rate=0.2, max_iter=40, max_leaf_nodes=7, early_stopping=False, random_state=0
    )
    sizes = torch.full((250,), 2)
    usual.fit(items.double().numpy(), truth.double().numpy())
    ours = fitted("boosted_trees", split_of("features", items, truth, sizes), trees=40, rate=0.2, leaves=7)
    expected = usual.predict(items.double().numpy())
    np.testing.assert_allclose(ours(items).squeeze(1).detach().numpy(), expected, atol=1e-6)


def test_trees_for_ndcg_score_as_those_of_lightgbm(generator):
    items = torch.randn(600, 3, generator=generator)
    items[:, 2] = items[:, 2].round()  # ties at thresholds
    relevance = (items[:, 0] * items[:, 1] + items[:, 2]).round().clamp(0, 4)
    sizes = torch.tensor([1, 29, 70]).repeat(6)
    options = {"objective": "lambdarank", "learning_rate": 0.2, "num_leaves": 7, "num_threads": 1, "verbosity": -1}
    documents = lightgbm.Dataset(items.double().numpy(), relevance.numpy(), group=sizes.numpy())
    usual = lightgbm.train(options | {"deterministic": True, "force_col_wise": True}, documents, 40)
    ours = fitted("lambdarank_trees", split_of("features", items, relevance, sizes), trees=40, rate=0.2, leaves=7)
    expected = usual.predict(items.double().numpy())
    np.testing.assert_allclose(ours(items).squeeze(1).detach().numpy(), expected, atol=1e-6)


def test_hog_ridge_is_ridge_regression_on_oriented_gradients_and_hues_averaged_over_cells(generator):
    pictures = torch.randint(0, 256, (80, 3, 16, 16), generator=generator, dtype=torch.uint8)
    truth = torch.randint(0, 3, (80, 2), generator=generator)
    red, green, blue = pictures.double().numpy().transpose(1, 0, 2, 3) / 255
    chroma = red - (green + blue) / 2 + 1j * math.sqrt(3) / 2 * (green - blue)
    hues = []
    for hue in range(12):  # each counts as much as the pixel's own hue is near, up to the next one
        distance = np.abs((12 * np.angle(chroma) / (2 * math.pi) - hue + 6) % 12 - 6)
        hues.append(np.abs(chroma) * (1 - distance).clip(0))
    gradients = oriented_gradients(pictures, 2).double().numpy()  # 8 x 8
    cells = gradients.reshape(80, -1, 2, 4, 2, 4).mean((3, 5)).reshape(80, -1)
    cells_of_hues = np.stack(hues, 1).reshape(80, 12, 2, 8, 2, 8).mean((3, 5)).reshape(80, -1)
    features = np.concatenate([cells, np.sqrt(cells_of_hues)], 1)
    features = (features - features.mean(0)) / features.std(0)
    expected = Ridge(0.05 * len(truth)).fit(features, truth.numpy()).predict(features)
    model = made("models.backbones", {"name": "hog_ridge", "args": {"cells": 2, "penalty": 0.05}}, colors=3, outputs=2)
    model.fit(Split(pictures_of(pictures), truth))
    np.testing.assert_allclose(model(pictures).detach().numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("ridge", None),
        ("ridge", torch.full((30,), 2)),
        ("boosted_trees", None),
        ("lambdarank_trees", torch.full((30,), 2)),
    ],
)
def test_only_proportions_of_weights_count(name, sizes, generator):
    items, weight = (
        torch.randn(60, 3, generator=generator),
        torch.rand(60 if sizes is None else 30, generator=generator),
    )
    scores = []
    for factor in (1e-3, 1.0, 1e3):
        split = replace(
            split_of("features", items, (items[:, 0].round() + items[:, 1]).clamp(min=0), sizes), weight=factor * weight
        )
        scores.append(fitted(name, split)(items).detach())
    torch.testing.assert_close(scores[0], scores[1], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(scores[2], scores[1], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("tf_idf", [False, True])
def test_word_counts_are_those_of_scikit_learn(tf_idf):
    draws = np.random.default_rng(0)
    texts = [" ".join(draws.choice(list("abcdefghij"), 8)) for _ in range(60)]
    truth = torch.tensor([text.count("a") - 0.5 * text.count("b") for text in texts])
    words = {"token_pattern": r"\w+"}
    vectorizer = TfidfVectorizer(**words, sublinear_tf=True) if tf_idf else CountVectorizer(**words)
    counts = vectorizer.fit_transform(texts).astype(float)
    ranks = ndtri((rankdata(truth) - 0.5) / len(truth))
    expected = Ridge(0.05 * len(texts), tol=1e-10).fit(counts, ranks).predict(counts)
    ours = fitted("word_counts", split_of("text", texts, truth), penalty=0.05, tf_idf=tf_idf)
    found = ours(ours.tokenize([f"{text} unknown" if not tf_idf else text for text in texts]))
    np.testing.assert_allclose(found.squeeze(1).detach().numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("tf_idf", [False, True])
def test_word_counts_of_preferences_learn_from_the_differences_of_answers(tf_idf):
    draws, pairs = np.random.default_rng(0), []
    for number in range(200):
        better, worse = f"x word{draws.integers(9)}", f"y word{draws.integers(9)}"
        pairs.append((f"prompt {number}{PAIR}{better}", f"prompt {number}{PAIR}{worse}"))
    texts = [text for pair in pairs for text in pair]
    relevance, sizes = torch.tensor([1.0, 0.0] * 200), torch.full((200,), 2)
    model = fitted("word_counts", split_of("text_pair", texts, relevance, sizes), tf_idf=tf_idf)
    better, worse = model(model.tokenize(texts)).view(-1, 2).T
    assert (better > worse).all()


def test_a_word_map_is_ridge_regression_from_a_query_s_pieces_of_words_to_those_of_its_passage():
    words = {"bill": "invoice", "telly": "television", "fridge": "refrigerator", "phone": "telephone"}
    train = _search([(f"{word} {number}", f"about the {words[word]}") for word in words for number in range(3)])
    split = _search([(f"{word}s", f"help {words[word]}") for word in words])
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    asked, answers = train.truth.texts, train.inputs.items
    vectorizer.fit([*asked, *answers])
    of = [vectorizer.transform(texts).toarray() for texts in (asked, answers, split.truth.texts, split.inputs.items)]
    expected = Ridge(alpha=10.0, fit_intercept=False).fit(of[0], of[1]).predict(of[2]) @ of[3].T
    [(own, queries, further)] = word_map(train, split, [10.0])
    np.testing.assert_allclose(queries @ own.T, expected, atol=2e-3)
    assert ((queries @ own.T).argmax(1) == torch.arange(4)).all()
    assert not list(further)


def test_latent_semantic_analysis_finds_passages_by_their_past_queries():
    words = {"bill": "invoice", "telly": "television", "fridge": "refrigerator", "phone": "handset"}
    train = _search([(f"{word} {number}", f"about the {words[word]}") for word in words for number in range(3)])
    split = _search([(f"{word}s", f"About  the {words[word]}") for word in words])  # case and spaces do not count
    split = replace(split, truth=split.truth._replace(others=["help yourself"] * 3))
    joined = [f"about the {words[word]} {word} 0 {word} 1 {word} 2" for word in words]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    counts = vectorizer.fit_transform([*joined, *["help yourself"] * 3]).toarray()
    directions = np.linalg.svd(counts)[2][:3].T
    found, asked = counts @ directions, vectorizer.transform(split.truth.texts).toarray() @ directions
    expected = asked @ found.T / np.linalg.norm(asked, axis=1)[:, None] / np.linalg.norm(found, axis=1)
    [(own, queries, further)] = lsa(train, split, [3])
    np.testing.assert_allclose(queries @ torch.cat([own, *further]).T, expected, atol=2e-3)
    [(own, queries, _)] = lsa(train, split, [200])
    assert ((queries @ own.T).argmax(1) == torch.arange(4)).all()


def _search(pairs: list[tuple[str, str]]) -> Split:
    queries, passages = map(list, zip(*pairs, strict=True))
    ones = torch.ones(len(pairs), dtype=torch.int64)
    truth = Captions(queries, ones, ones, ones)
    return Split(Inputs({"kind": "text"}, passages), truth)


def test_bm25_is_the_formula_of_the_field():
    documents = ["a b b c", "b d", "e e e a f g", "c"]
    queries = ["b a", "b a", "e b e", "b c"]
    pairs = [f"{query}{PAIR}{document}" for query, document in zip(queries, documents, strict=True)]
    split = Split(Inputs({"kind": "text_pair"}, pairs), torch.ones(4), torch.full((2,), 2))
    lengths = [len(document.split()) for document in documents]
    for scores, (saturation, by_length) in zip(bm25(split), SETTINGS, strict=True):
        expected = []
        for query, document, length in zip(queries, documents, lengths, strict=True):
            total = 0.0
            for word in query.split():
                having = sum(word in other.split() for other in documents)
                rarity = math.log(1 + (4 - having + 0.5) / (having + 0.5))
                count = document.split().count(word)
                normal = saturation * (1 - by_length + by_length * length * 4 / sum(lengths))
                total += rarity * count * (saturation + 1) / (count + normal)
            expected.append(total)
        np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-6)


def test_a_rival_without_seeds_is_compared_with_each_seed(tmp_path):
    target, draws = np.arange(40.0), np.random.default_rng(0)
    rival = pa.table({"id": range(40), "score": target, "target": target})
    ours = []
    for seed in (1, 2):
        table = pa.table({"id": range(40), "score": target + draws.normal(0, 9, 40), "target": target})
        ours.append(table.add_column(1, "seed", pa.array([seed] * 40)))
    pq.write_table(rival, tmp_path / "rival.parquet")
    pq.write_table(pa.concat_tables(ours), tmp_path / "ours.parquet")
    statistics = {"ours": statistics_of("score_ranking", tmp_path / "ours.parquet")}
    statistics["rival"] = statistics_of("score_ranking", tmp_path / "rival.parquet", seeds=statistics["ours"])
    comparison = Comparison(question="?", metric="spearman", baseline="ours", runs=["ours"], rivals=["rival"])
    rows = compared(comparison, statistics, Resampling(resamples=50))
    values = {row.seed: row.value for row in rows if row.run == "rival" and row.metric == minus("spearman", "ours")}
    for seed, table in zip((1, 2), ours, strict=True):
        assert values[seed] == pytest.approx(1 - spearmanr(table["score"], target).statistic)
    assert values[None] == pytest.approx((values[1] + values[2]) / 2)


@pytest.mark.parametrize("column", ["id", "target"])
@pytest.mark.parametrize("index", [False, True])
def test_a_rival_of_other_rows_is_refused(tmp_path, column, index):
    table = pa.table({"id": [0, 1, 2], "score": [0.5, 0.1, 0.7], "target": [3.0, 2.0, 1.0]})
    pq.write_table(table, tmp_path / "ours.parquet")
    shuffled = table.set_column(table.column_names.index(column), column, table[column].take([0, 2, 1]))
    frame = shuffled.to_pandas()
    (frame.set_index(column) if index else frame).to_parquet(tmp_path / "rival.parquet")
    predictions = {name: tmp_path / f"{name}.parquet" for name in ("ours", "rival")}
    comparison = Comparison(question="?", metric="spearman", baseline="ours", runs=["ours"], rivals=["rival"])
    params = SimpleNamespace(runs={"ours": SimpleNamespace(task="score_ranking", seeds=[0])})
    with pytest.raises(ValueError, match=f"rival.parquet: row 2: {column} has"):
        read_statistics(params, comparison, predictions, {})


@pytest.mark.parametrize(
    ("relevance", "message"),
    [([[2, 0], [0, 1, 1]], "row 2: relevance has 1, expected 3"), ([[2], [0, 3, 1]], "row 1: relevance has 1 numbers")],
)
def test_a_rival_with_other_grades_is_refused(tmp_path, relevance, message):
    ours = {"id": [0, 1], "scores": [[0.5, 0.1], [0.7, 0.2, 0.1]], "relevance": [[2, 0], [0, 3, 1]]}
    scores = [[0.1] * len(grades) for grades in relevance]
    pq.write_table(pa.table(ours), tmp_path / "ours.parquet")
    pq.write_table(pa.table(ours | {"scores": scores, "relevance": relevance}), tmp_path / "rival.parquet")
    predictions = {name: tmp_path / f"{name}.parquet" for name in ("ours", "rival")}
    comparison = Comparison(question="?", metric="ndcg", baseline="ours", runs=["ours"], rivals=["rival"])
    params = SimpleNamespace(runs={"ours": SimpleNamespace(task="query_ranking", seeds=[0])})
    with pytest.raises(ValueError, match=message):
        read_statistics(params, comparison, predictions, {})


@pytest.mark.parametrize(("metric", "strongest"), [("ndcg", "good"), ("rank_of_last", "bad")])
def test_the_strongest_rival_is_chosen_and_a_network_is_compared_with_it(metric, strongest):
    values = {"mse": 0.75, "ours": 0.5, "good": 0.75, "bad": 0.0, "undefined": np.nan}
    statistics = {}
    for name, value in values.items():
        constant = Statistic([metric], 4, lambda rows, value=value: np.full((1, *rows.shape[:-1]), value))
        statistics[name] = {1: constant, 2: constant}
    rivals = ["undefined", "bad", "good"]
    comparison = Comparison(question="?", metric=metric, baseline="mse", runs=["ours"], rivals=rivals)
    block = {"task": "query_ranking", "dataset": "lists", "model": {"name": "linear", "backbone": PERCEPTRON}}
    block |= {"start": "models/runs/none", "loss": {"name": "mse"}, "sorter": "none", "auxiliary": {"name": "none"}}
    params = PARAMS.model_copy(update={"runs": {"mse": typed(Run, block | {"seeds": 2})}})
    assert strongest_rival(params, comparison, statistics) == strongest
    first, *of_seeds = against_rival(comparison, statistics, "ours", "good", Resampling(resamples=20))
    assert first == Row("ours", minus(metric, "good"), -0.25, -0.25, -0.25)
    assert [row.seed for row in of_seeds] == [1, 2]


def numbers_by_hand(texts: list[str]) -> list[dict[str, float]]:
    """Return what `word_pair_ridge` reads in pairs of texts that it is fitted to, by name."""
    pairs = []
    for text in texts:
        first, _, second = text.partition(PAIR)
        pairs.append((first.split(), second.split()))
    rarities = []
    for side in (0, 1):
        different = {" ".join(pair[side]) for pair in pairs}
        having = Counter(word for text in different for word in set(text.split()))
        rarities.append({word: math.log((1 + len(different)) / (1 + count)) for word, count in having.items()})
    of_first, of_second = rarities
    mean_length = np.mean([len(second) for _, second in pairs])
    rows = []
    for first, second in pairs:
        equal, rarest = set(first) & set(second), math.log(1 + len({" ".join(second) for _, second in pairs}))
        normal = 1.2 * (0.25 + 0.75 * len(second) / mean_length)
        bm25 = sum(of_second[word] * second.count(word) * 2.2 / (second.count(word) + normal) for word in equal)
        total = sum(of_second.get(word, rarest) for word in set(first))
        share = sum(of_second[word] for word in equal) / total
        values = {f"{a} {b}": (of_first[a] * of_second[b]) ** 2 for a in set(first) for b in set(second)}
        length = math.sqrt(sum(value**2 for value in values.values())) or 1.0
        row = {"bm25": bm25, "share": share, "length": math.log(len(second))}
        words = {word: (1 + math.log(second.count(word))) * of_second[word] for word in set(second)}
        of_words = math.sqrt(sum(value**2 for value in words.values())) or 1.0
        row |= {word: value / of_words for word, value in words.items()}
        rows.append(row | {name: value / length for name, value in values.items()})
    return rows


def test_pairs_of_words_are_those_of_a_ridge_regression_by_hand():
    draws = np.random.default_rng(0)
    texts = []
    for _ in range(80):
        query, passage = (draws.choice([*"abcdefgh"], size) for size in (3, draws.integers(3, 9)))
        texts.append(f"{' '.join(query)}{PAIR}{' '.join(passage)}")
    truth = torch.tensor(draws.integers(0, 4, 80), dtype=torch.float32)
    numbers = pd.DataFrame(numbers_by_hand(texts)).fillna(0.0)
    matches = numbers[["bm25", "share", "length"]]
    standardized = (matches - matches.mean()) / matches.std(ddof=0)
    numbers[matches.columns] = 3 * standardized
    of_queries = []
    for text in texts:
        words = {*text.partition(PAIR)[0].split()}
        of_queries.append(dict.fromkeys((f"length after {word}" for word in words), 1 / math.sqrt(len(words))))
    by_length = pd.DataFrame(of_queries).fillna(0.0)
    numbers = numbers.join(by_length.mul(standardized["length"], axis=0))
    expected = Ridge(0.01 * 80).fit(numbers, truth).predict(numbers)
    model = fitted(
        "word_pair_ridge", split_of("text_pair", texts, truth, torch.full((20,), 4)), penalty=0.01, answers=True
    )
    scores = model(model.tokenize(texts)).squeeze(1).detach().numpy()
    np.testing.assert_allclose(scores, expected, atol=2e-3)


def test_a_passage_of_related_words_is_ranked_above_one_of_unknown_words_at_any_length():
    texts, relevance = [], []
    for query in range(12):
        for reply in range(12):
            texts.append(f"please ask{query}{PAIR}reply{reply} is on this page")
            relevance.append(float(query == reply))
    model = fitted("word_pair_ridge", split_of("text_pair", texts, torch.tensor(relevance), torch.full((12,), 12)))
    passages = [f"now reply{reply} was here" for reply in range(12)] + ["zebra", "zebra " * 500]
    scores = model(model.tokenize([f"please ask3{PAIR}{passage}" for passage in passages]))
    assert scores.argmax() == 3


def test_a_number_that_only_one_query_has_does_not_weaken_the_pairs_of_other_words():
    def pairs(query: str) -> list[str]:
        return [f"{query}{PAIR}{passage}" for passage in ("an invoice", "a parcel", "a photo")]

    queries = [f"{word} {number}" for number in range(1000, 1008) for word in ("bill", "package")]
    queries += [f"bill {number}" for number in (2000, 2001, 2002)] + ["bill 7", "bill 7 now"]
    relevance = [[1.0, 0.0, 0.0] if query.startswith("bill") else [0.0, 1.0, 0.0] for query in queries]
    texts = [text for query in queries for text in pairs(query)]
    split = split_of("text_pair", texts, torch.tensor(relevance).flatten(), torch.full((21,), 3))
    model = fitted("word_pair_ridge", split)
    of_one, unknown, of_two = (model(model.tokenize(pairs(f"bill {number}"))) for number in (2000, 5555, 7))
    assert unknown.argmax() == 0
    torch.testing.assert_close(of_one, unknown)
    assert not torch.allclose(of_two, unknown)


def test_a_long_passage_whose_words_are_equally_rare_has_the_same_score_in_every_batch():
    draws, vocabulary = np.random.default_rng(0), np.array([f"word{number}" for number in range(300)])
    texts = []
    for _ in range(60):
        query, passage = draws.choice(vocabulary, 20), draws.choice(vocabulary, 90)
        texts.append(f"{' '.join(query)}{PAIR}{' '.join(passage)}")
    truth = torch.tensor(draws.integers(0, 2, 60), dtype=torch.float32)
    model = fitted("word_pair_ridge", split_of("text_pair", texts, truth, torch.full((15,), 4)))
    together = model(model.tokenize([*texts, texts[0] + " word1" * 200]))[:60]
    torch.testing.assert_close(torch.cat([model(model.tokenize([text])) for text in texts]), together)
    assert model.half()(model.tokenize([f"a{PAIR}b"])).isfinite().all()
