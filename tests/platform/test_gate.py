"""The gate: who becomes champion, on what evidence, and that a person's choice is respected."""

import math
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import torch
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from scipy.stats import spearmanr

from pipelines.config import Settings
from pipelines.tracking import evidence, gate
from pipelines.tracking.known_rows import known_rows, learned, write_known
from pipelines.tracking.store import ServerUnreachable
from pipelines.tracking.upload import Run, Version, publish
from rankgrad import lookup
from rankgrad.datasets.files.splits import Split
from rankgrad.evaluation import Statistic
from rankgrad.inputs.features import of_tensor
from rankgrad.io.checkpoints import build, save_model
from rankgrad.io.parquet import encode_images
from rankgrad.io.results import Row
from rankgrad.tasks.score_ranking import ScoreRanking

from conftest import killed_in, small_network, store_in  # isort: skip

SORTER, NETWORK = "sorter-x", "score_ranking"
KNOWN = 25  # rows of the gate split that version 1 of the network has learned
PARAMS = SimpleNamespace(
    gate=SimpleNamespace(
        resamples=200, seed=1, confidence=0.95, minimum_gain=0.0, tolerance=0.01,
        judged={
            "sorter": SimpleNamespace(metric="negative_l1", guarded=["exactly_ordered"], slice_tolerance=None),
            "score_ranking": SimpleNamespace(metric="spearman", guarded=[], slice_tolerance=None),
            "label_ranking": SimpleNamespace(metric="ranked.accuracy", guarded=[], slice_tolerance=0.05),
        },
    ),
    benchmark_sorters={"x": "few"}, score_vectors={"few": SimpleNamespace(length=8)},
    compute=SimpleNamespace(threads=1, memory=4.0),
    sorters={"x": SimpleNamespace(training={}), "laplace": SimpleNamespace(training=None)},
    runs={"mine": SimpleNamespace(task="score_ranking")}, model_of=lambda run: run.task,
    judged_of=lambda *names: Settings.judged_of(PARAMS, *names),
)  # fmt: skip


def sorter(name: str, steepness: float = 1.0, *, kind: str = "handcrafted", **options: int) -> None:
    """Publish a version of a sorter; the steeper a handcrafted one, the better."""
    args = {"steepness": steepness} if kind == "handcrafted" else {"hidden": 2, "layers": 1}
    save_model(Path("made") / name, build("sorters", kind, args, seed=0, **options))
    publish([Run(name, "tests", name, version=Version(SORTER, Path("made") / name))])


def regressor(name: str, seed: int, model: str = NETWORK, **options) -> Run:
    """A run with a version of a network; that of seed 1 is the best there can be."""
    save_model(Path("made") / name, small_network("score_ranking", "features", seed=seed))
    version = Version(model, Path("made") / name, **options)
    return Run(name, "tests", name, tags={"dataset": "clips"}, version=version)


@pytest.fixture(scope="module")
def template(tmp_path_factory, _empty_store) -> Path:
    """A folder with a gate split and two versions of a sorter and of a network, the second of which is better."""
    folder = tmp_path_factory.mktemp("published")
    with store_in(folder, _empty_store):
        features = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            scores = small_network("score_ranking", "features", seed=1)(features).squeeze(1)
        table = pa.table({"features": features.tolist(), "target": scores.numpy()})
        Path("data/clips").mkdir(parents=True)
        for split, rows in {"train": table[: KNOWN - 5], "val": table[KNOWN - 5 : KNOWN], "gate": table}.items():
            pq.write_table(rows, f"data/clips/{split}.parquet")
        sorter("flat", 1.0)
        sorter("steep", 50.0)
        publish([regressor("knows some", 2, write=partial(write_known, known_rows(Path("data/clips"))))])
        publish([regressor("best", 1)])
        Path("mlflow.db").rename("template.db")  # so that copies of it may name the files here
    return folder


@pytest.fixture
def published(tmp_path, template):
    """The present folder has a copy of that store; its client."""
    with store_in(tmp_path, template / "template.db") as client:
        shutil.copytree(template / "data", "data")
        yield client


@pytest.fixture(autouse=True)
def _few_vectors(monkeypatch):
    monkeypatch.setattr(evidence, "SORTER_VECTORS", 500)


def decide(model: str = SORTER, *, over_person: bool = False) -> gate.Decision:
    (decision,) = gate.decide_all([model], PARAMS, over_person=over_person)
    return decision


def champion(store, model: str = SORTER) -> str:
    return str(store.get_model_version_by_alias(model, "champion").version)


def test_a_better_challenger_becomes_champion_a_worse_one_does_not_and_its_version_says_why(published):
    decision = decide()
    assert (decision.promoted, decision.challenger, decision.champion) == (True, "2", "1")
    assert decision.runs == {"1": "flat", "2": "steep"}
    assert decision.differences["negative_l1"].low > 0.1
    version = published.get_model_version_by_alias(SORTER, "champion")
    assert (str(version.version), version.tags["gate.decision"], version.tags["gate.against"]) == ("2", "promoted", "1")
    assert {"gate.negative_l1", "gate.exactly_ordered", "gate.reason"} <= {*version.tags}
    first, _, rest = version.description.partition("\n\n")
    assert " [made champion by the gate: negative_l1 +" in first
    assert rest.startswith("## Gate: promoted")
    assert "| **negative_l1** | -0.0" in rest
    again = decide()
    assert again.reason == "the challenger is the champion already"
    assert published.get_model_version(SORTER, "2").description == version.description
    sorter("flat again", 1.0)
    for _ in range(2):
        decision = decide()
        assert not decision.promoted
        assert "significantly worse" in decision.reason
    version = published.get_model_version(SORTER, "3")
    assert version.tags["gate.decision"] == "rejected"
    assert version.description.count("[rejected by the gate") == version.description.count("## Gate: rejected") == 1
    assert champion(published) == "2"
    gate.choose(SORTER, "3")
    first = published.get_model_version(SORTER, "3").description.partition("\n\n")[0]
    assert first.endswith(" [made champion by a person]")


@pytest.mark.parametrize(("run", "newer_rows", "promoted"), [
    ("best", "no_worse", True), ("best", "better", False), ("another", "no_worse", False),
])  # fmt: skip
def test_the_champion_s_run_with_newer_rows_need_not_be_better(published, monkeypatch, run, newer_rows, promoted):
    monkeypatch.setattr(PARAMS, "runs", dict.fromkeys(("best", "another"), PARAMS.runs["mine"]))
    gate.choose(NETWORK, "2")
    publish([replace(regressor(run, 1), key="newer", tags={"dataset": "clips", "snapshot": "2"})])
    judged = SimpleNamespace(metric="spearman", guarded=[], slice_tolerance=None, newer_rows=newer_rows)
    monkeypatch.setitem(PARAMS.gate.judged, "score_ranking", judged)
    decision = decide(NETWORK, over_person=True)
    assert decision.promoted == promoted, decision.reason
    assert ("`newer_rows: no_worse`" in decision.reason) == (run == "best" and not promoted)


def test_a_champion_that_is_chosen_while_it_is_judged_stays(published, monkeypatch):
    verdict = gate.verdict

    def meanwhile(*arguments, **options):
        published.set_registered_model_alias(SORTER, "champion", "2")
        return verdict(*arguments, **options)

    monkeypatch.setattr(gate, "verdict", meanwhile)
    assert "changed while it was judged" in decide().reason


class TestVerdict:
    """The law of the gate, against a simulation that shares no code with it."""

    def test_of_equal_models_chance_promotes_one_in_forty(self):
        draws, won = np.random.default_rng(0), 0
        judged = SimpleNamespace(metric="m", guarded=[])
        options = SimpleNamespace(**vars(PARAMS.gate) | {"resamples": 100})
        for repeat in range(150):
            rows = draws.normal(size=400)
            statistics = []
            for _ in range(2):
                values = rows + draws.normal(0, 0.5, 400)
                statistics.append(Statistic(["m"], 400, lambda rows, values=values: values[rows].mean(-1)[None]))
            gaps = gate._differences(*statistics, options, str(repeat))
            won += gate.verdict(gaps, judged, options, {"m": False})[0]
        assert won <= 13

    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("low", [-0.1, 0.0, 0.1])
    @pytest.mark.parametrize("value", [0.1, 0.2])
    @pytest.mark.parametrize("guarded", [None, math.nan, -0.3, -0.1, 0.1])
    def test_it_is_beyond_chance_beyond_the_least_gain_and_nothing_guarded_is_much_worse(
        self, sign, low, value, guarded
    ):
        expected = low > 0 and value >= 0.15 and guarded is not None and guarded >= -0.2  # NaN is not
        gaps = {"main": Row("new", "main", sign * value, *sorted((sign * low, sign * 0.3)))}
        if guarded is not None:
            gaps["guarded"] = Row("new", "guarded", sign * guarded)
        judged = SimpleNamespace(metric="main", guarded=["guarded"])
        options = SimpleNamespace(minimum_gain=0.15, tolerance=0.2)
        lower = dict.fromkeys(("main", "guarded"), sign < 0)
        better, reason = gate.verdict(gaps, judged, options, lower)
        assert better == expected
        assert ("lower is better" in reason) == lower["main"]
        assert not gate.verdict(gaps | {"main": Row("new", "main")}, judged, options, lower)[0]

    @pytest.mark.parametrize(
        ("low", "value", "high", "expected"),
        [
            (-0.3, -0.1, 0.1, True), (-0.5, -0.3, 0.1, False), (-0.3, -0.1, -0.05, False), (0.1, 0.12, 0.3, True),
            (math.nan, 0.1, math.nan, False),
        ],
    )  # fmt: skip
    def test_an_update_may_lose_what_is_within_chance_and_tolerance(self, low, value, high, expected):
        judged = SimpleNamespace(metric="main", guarded=[], newer_rows="no_worse")
        options = SimpleNamespace(minimum_gain=0.15, tolerance=0.2)
        gaps = {"main": Row("new", "main", value, low, high)}
        assert gate.verdict(gaps, judged, options, {"main": False}, is_update=True)[0] == expected
        assert not gate.verdict(gaps, judged, options, {"main": False})[0]

    @pytest.mark.parametrize(
        ("challenger", "champion", "held"),
        [("reversed", "right", True), ("constant", "right", True), ("right", "constant", False)],
    )
    def test_a_slice_on_which_the_challenger_is_much_worse_or_undefined_holds_it(
        self, monkeypatch, challenger, champion, held
    ):
        tested, differences = [], gate._differences

        def counted(*arguments, tests=1):
            tested.append(tests)
            return differences(*arguments, tests=tests)

        monkeypatch.setattr(gate, "_differences", counted)
        target = np.random.default_rng(0).normal(size=40)
        scores = {"right": target, "reversed": -target, "constant": np.ones(40)}
        slices = []
        for shop, ours, theirs in (("a", target, target), ("b", scores[challenger], scores[champion])):
            tables = [pa.table({"id": range(40), "score": score, "target": target}) for score in (ours, theirs)]
            slices.append(evidence.SlicePair(f"shop: {shop}", 40, *map(ScoreRanking().statistic, tables)))
        judged = SimpleNamespace(metric="spearman", guarded=[], slice_tolerance=0.05)
        pair = evidence.Evidence(None, None, {"spearman": False}, "rows", slices)
        better, reason = gate.guarded_slices(pair, judged, PARAMS.gate)
        assert better != held
        assert "`shop: b`" in reason
        assert {*tested} <= {2}  # Bonferroni's: as many as there are slices


def test_a_persons_choice_stays_until_the_gate_may_replace_it_and_can_be_taken_back(published):
    assert decide().promoted
    published.set_registered_model_alias(SORTER, "champion", "1")  # in MLflow's pages
    decision = decide()
    assert not decision.promoted
    assert "version 1 was made champion by a person" in decision.reason
    assert decide(over_person=True).promoted
    assert gate.choose(SORTER) == ("2", "1")
    assert "by a person" in decide().reason
    assert gate.choose(SORTER, "2") == ("1", "2")
    for before, after in (("2", "1"), ("1", "2"), ("2", "1")):
        assert gate.choose(SORTER) == (before, after)
    with pytest.raises(ValueError, match="no earlier champion"):
        gate.choose(SORTER)


@pytest.mark.parametrize(
    ("call", "argument"),
    [("set_registered_model_tag", SORTER), ("set_registered_model_alias", SORTER),
     ("set_model_version_tag", "ranking.made_champion_by")],
)  # fmt: skip
def test_a_promotion_that_was_killed_is_carried_out_by_the_next(published, call, argument):
    with killed_in(call, lambda *arguments: argument in arguments):
        decide()
    assert decide().promoted == (call != "set_model_version_tag")
    assert champion(published) == "2"
    assert gate.choose(SORTER) == ("2", "1")


class TestWhatCannotBeJudged:
    def test_is_said_and_changes_nothing(self, published):
        assert "no registered model 'sorter-y'; there are score_ranking, sorter-x" in decide("sorter-y").reason
        with pytest.raises(ValueError, match="no version 9; there are 1, 2"):
            gate.choose(SORTER, "9")
        published.delete_model_version(SORTER, "1")
        decision = decide()
        assert decision.failed
        assert "no champion: it was deleted" in decision.reason
        assert "(versions: 2)" in decision.reason

    def test_another_teams_models_are_left_alone(self, published):
        published.create_registered_model("their_model")
        decisions = gate.decide_all(None, PARAMS)
        assert [decision.model for decision in decisions] == gate.models_of(PARAMS) == [SORTER, NETWORK]
        assert "starts with one of sorter" in decide("their_model").reason

    def test_a_version_that_this_code_cannot_load_is_named_and_stops_no_other_model(self, store):
        sorter("flat")
        sorter("steep", 50.0)
        for recipe in Path("mlruns").rglob("model.json"):
            recipe.write_text(recipe.read_text().replace("steepness", "sharpness"))
        decision, other = gate.decide_all([SORTER, NETWORK], PARAMS)
        assert decision.failed
        assert f"{SORTER} version 2 cannot be judged here" in decision.reason
        assert other.reason.startswith("no registered model 'score_ranking'")

    def test_a_lost_connection_is_not_a_decision(self, published, monkeypatch):
        def lost(*_, **__):
            raise requests.ConnectionError("Connection aborted")

        monkeypatch.setattr(LocalArtifactRepository, "download_artifacts", lost)
        with pytest.raises(ServerUnreachable, match="the MLflow store failed.*aborted"):
            decide()

    def test_sorters_of_different_lengths_are_not_compared(self, store):
        sorter("short", kind="lstm", length=4)
        sorter("long", kind="lstm", length=8)
        assert "8 (version 2) and 4 (version 1)" in decide().reason
        sorter("any", 50.0)  # is judged on what the champion sorts
        assert decide().promoted


class TestTasks:
    @pytest.mark.parametrize("split", ["gate", "val"])
    def test_versions_are_compared_on_the_gate_split_or_on_validation_without_rows_that_one_of_them_knows(
        self, published, split
    ):
        if split == "val":
            Path("data/clips/gate.parquet").rename("data/clips/val.parquet")
        decision = decide(NETWORK)
        assert decision.promoted
        assert decision.differences["spearman"].low > 0
        fair = f"on 35 of the 60 rows of clips/gate, the others left out: version 1 was trained on {KNOWN}"
        assert (fair if split == "gate" else "of clips/val") in decision.reason
        assert ("judged on validation" in decision.reason) == (split == "val")
        assert published.get_model_version(NETWORK, "2").tags["gate.reason"] == decision.reason

    def test_a_dataset_may_have_a_metric_of_its_own(self, published, monkeypatch):
        judged = PARAMS.gate.judged
        monkeypatch.setitem(judged, "score_ranking-clips", judged["score_ranking"])
        monkeypatch.setitem(judged, "score_ranking", SimpleNamespace(metric="of other datasets", guarded=[]))
        assert decide(NETWORK).reason.startswith("spearman")

    def test_too_few_rows_that_no_version_knows_judge_none(self, published):
        table, data = pq.read_table("data/clips/gate.parquet"), Path("data/clips")
        pq.write_table(table[:31], data / "train.parquet")
        with pytest.raises(ValueError, match="version 1 was trained on 31, which leaves 29"):
            evidence._fair_rows(NETWORK, {"1": known_rows(data), "2": {}}, data, "gate")

    @pytest.mark.parametrize("groups", [29, 30])
    def test_fewer_than_30_groups_promote_nothing_and_the_reason_says_so(self, published, groups):
        table = pq.read_table("data/clips/gate.parquet")
        numbers = [row % groups for row in range(60)]
        pq.write_table(table.append_column("group", pa.array(numbers)), "data/clips/gate.parquet")
        decision = decide(NETWORK)
        assert decision.promoted == (groups == 30)
        assert ("only 29 groups judge" in decision.reason) == (groups == 29)

    @pytest.mark.parametrize(
        ("first", "second", "state", "reason"),
        [
            ("clips", "lamem", "error", "version 2 .* dataset lamem,.* version 1, on clips"),
            ("lamem", "lamem", "error", "cannot be judged on lamem.*lamem/val.parquet: no such file"),
            ("folded", "folded", "stays", "folded has folds"),
        ],
    )
    def test_versions_that_do_not_go_with_the_data_here_or_with_folds_are_not_judged(
        self, published, first, second, state, reason
    ):
        Path("data/folded").mkdir()
        table = pq.read_table("data/clips/gate.parquet")
        pq.write_table(table.append_column("fold", pa.array([1] * len(table))), "data/folded/val.parquet")
        for version, dataset in (("1", first), ("2", second)):
            published.set_model_version_tag(NETWORK, version, "dataset", dataset)
        decision = decide(NETWORK)
        assert decision.state == state
        assert re.search(reason, decision.reason)
        assert champion(published, NETWORK) == "1"


def test_versions_that_learned_validation_rows_are_not_judged_on_them(published):
    Path("data/clips/gate.parquet").rename("data/clips/val.parquet")
    published.set_model_version_tag(NETWORK, "2", "refit", "true")
    decision = decide(NETWORK)
    assert decision.state == "stays"
    assert "no gate split, and version 2 learned validation rows, too" in decision.reason


def _pictures(size: int, folder: str = "") -> pa.Table:
    made = encode_images(np.random.default_rng(0).integers(0, 256, (40, size, size), dtype=np.uint8), threads=1)
    return pa.table(
        {"frames": pa.FixedSizeListArray.from_arrays(made, 2), "name": [f"{folder}{row}" for row in range(20)]}
    )


def _passages(query: str) -> pa.Table:
    """Return ten queries with three passages each, of which there are six."""
    lists = [[[f"{query}{row}", f"passage {(row + place) % 6}"] for place in range(3)] for row in range(10)]
    return pa.table({"text_pair": pa.array(lists, pa.list_(pa.list_(pa.string(), 2)))})


QUERIES = np.random.default_rng(0).normal(size=(20, 4, 3))


def _vectors(width: int, **names: str) -> pa.Table:
    """Return five rows of vectors with names; numbers in them tell rows apart."""
    vectors = (np.arange(5.0 * width).reshape(5, width) + width / 10).tolist()
    return pa.table(
        {"features": vectors} | {column: [f"{name}{row}" for row in range(5)] for column, name in names.items()}
    )


@pytest.mark.parametrize(
    ("train", "later", "known"),
    [
        (QUERIES, QUERIES[:, ::-1], True),
        (QUERIES, QUERIES[:, 1:], True),
        (_passages("a"), _passages("a"), True),
        (_passages("a"), _passages("b"), False),  # other queries among the same passages
        (QUERIES, np.concatenate([QUERIES[:, :1], QUERIES[:, 1:] + 1], 1), False),
        (np.arange(20).reshape(10, 2), np.arange(20.0).reshape(10, 2), True),
        (_pictures(8, "photos/a"), _pictures(16, "photos/a"), True),
        (_pictures(8), _pictures(16), False),
        (_vectors(3, name="row"), _vectors(4, name="row"), True),  # with another feature
        (_vectors(3, name="0", key="row"), _vectors(4, name="0", key="row"), True),
        (_vectors(3, name="0"), _vectors(4, name="0"), False),
    ],
)
def test_rows_are_known_in_another_order_as_another_number_and_by_the_names_of_their_pictures(
    tmp_path, train, later, known
):
    for split, rows in (("train", train), ("val", later[:1]), ("gate", later)):
        table = rows if isinstance(rows, pa.Table) else pa.table({"features": rows.tolist()})
        pq.write_table(table, tmp_path / f"{split}.parquet")
    overlap = learned(tmp_path / "gate.parquet", [known_rows(tmp_path)["train"]], share=evidence.KNOWN_SHARE)
    assert (overlap == known).all()


def test_a_version_is_judged_on_its_features_where_the_data_have_other_values_now():
    now = ["km", "brand=bmw", "brand=lada", "age[empty=50.0]", "age[empty]"]
    rows = torch.tensor([[1.0, 1.0, 0.0, 50.0, 1.0], [2.0, 0.0, 1.0, 7.0, 0.0]])
    examples = Split(of_tensor(rows, now))
    about = {"kind": "features", "count": 5, "names": ["age[empty=40.0]", "age[empty]", "brand=bmw", "brand=vw", "km"]}
    judged = evidence.with_features_of(about, examples)
    assert judged.inputs.items.tolist() == [[40.0, 1.0, 1.0, 0.0, 1.0], [7.0, 0.0, 0.0, 0.0, 2.0]]
    assert judged.inputs.about == about
    assert evidence.with_features_of({"names": now}, examples) is examples
    with pytest.raises(ValueError, match="no column height"):
        evidence.with_features_of({"names": ["km", "height"]}, examples)


def test_only_units_that_say_which_version_is_better_judge():
    statistic = lookup.find("tasks", "query_ranking")().statistic(
        pa.table({"id": range(3), "scores": [[1.0, 0.0]] * 3, "relevance": [[1, 0], [0, 0], [0, 1]]})
    )
    assert evidence.judging(statistic, "pair_accuracy") == 2


@pytest.mark.parametrize(("now", "message"), [(["a", "c"], "'b' is only in one"), (["b", "a"], "in another order")])
def test_models_of_other_classes_are_not_judged(now, message):
    evidence.require_classes("m version 1", ["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match=f"m version 1.*{message}.*rankgrad promote m --version"):
        evidence.require_classes("m version 1", ["a", "b"], now)


FIRST = "score_ranking-clips"
LATER = f"{FIRST}-later"


def decide_first(runs: list[Run], model: str = FIRST, *, over_person: bool = False) -> gate.Decision:
    """Decide on the model that these runs were the first to make, and whose champion is the best on validation."""
    judged = {"runs": dict.fromkeys((run.name for run in runs), PARAMS.runs["mine"]), "model_of": lambda run: model}
    (decision,) = gate.decide_all([model], SimpleNamespace(**vars(PARAMS) | judged), over_person=over_person)
    return decision


def test_the_first_champion_is_compared_with_the_other_first_versions(published):
    runs = [regressor("worse", 2, FIRST, quality=1.0), regressor("best", 1, FIRST, quality=0.5)]  # validation was wrong
    publish(runs)
    decisions = [decide_first(runs) for _ in range(2)]
    assert [decision.promoted for decision in decisions] == [True, False]
    assert decisions[0].runs == {decisions[0].champion: "worse", decisions[0].challenger: "best"}
    assert champion(published, FIRST) == decisions[0].challenger == decisions[1].champion
    gate.choose(FIRST, decisions[0].champion)  # the gate leaves a person's choice alone
    assert not decide_first(runs).promoted
    assert champion(published, FIRST) == decisions[0].champion


def _reached() -> dict[int, float]:
    """Return Spearman's correlation on the gate split of networks by their seeds, the worst first."""
    gate_split, reached = pq.read_table("data/clips/gate.parquet").to_pandas(), {}
    for seed in range(2, 12):
        network = small_network("score_ranking", "features", seed=seed)
        scores = network(torch.tensor(np.stack(gate_split["features"])).float()).squeeze(1)
        reached[seed] = spearmanr(scores.detach(), gate_split["target"]).statistic
    return dict(sorted(reached.items(), key=lambda entry: entry[1]))


@pytest.mark.parametrize("above_chance", [True, False])
def test_the_best_of_the_first_versions_needs_no_significance_but_is_held_against_chance(published, above_chance):
    reached = _reached()
    of_kind = [seed for seed in reached if (reached[seed] > 0) == above_chance]
    worse, better, added = of_kind[:3]
    runs = [regressor("first", worse, FIRST, quality=1.0), regressor("other", better, FIRST, quality=0.5)]
    publish(runs)
    decision = decide_first(runs)
    assert decision.promoted
    assert decision.runs[decision.challenger] == "other"
    assert ("no better than chance" in decision.reason) != above_chance
    runs = [regressor("first", better, LATER, quality=1.0), regressor("other", worse, LATER, quality=0.5)]
    publish(runs)
    assert not decide_first(runs, LATER).promoted
    runs.append(regressor("added", added, LATER, quality=0.7))  # while a champion is in use
    publish(runs[-1:])
    decision = decide_first(runs, LATER)
    assert decision.promoted == ("significantly better" in decision.reason and "not sig" not in decision.reason)


def test_of_first_versions_that_were_compared_over_all_folds_only_a_significantly_better_one_is_promoted(published):
    gate_split, reached = pq.read_table("data/clips/gate.parquet"), [*_reached()]
    pq.write_table(gate_split.append_column("fold", pa.array([1] * len(gate_split))), "data/clips/val.parquet")
    for name, best, promoted in ((FIRST, reached[1], False), (LATER, reached[-1], True)):
        runs = [regressor("first", reached[0], name, quality=1.0), regressor("other", best, name, quality=0.5)]
        publish(runs)
        decision = decide_first(runs, name)
        assert decision.promoted == promoted
        assert ("best over all folds" in decision.reason) != promoted


def test_a_first_version_that_is_lost_or_not_better_is_told_and_the_champion_stays(published, monkeypatch):
    runs = [regressor(name, seed, FIRST, quality=1.0 - seed) for name, seed in (("best", 1), ("lost", 2), ("worse", 3))]
    publish(runs)
    number = champion(published, FIRST)
    versions = published.search_model_versions(f"name='{FIRST}'")
    number_of = {version.tags["run"]: str(version.version) for version in versions}
    weights_of = gate.registry.weights_of

    def some_are_lost(address: str, folder: Path) -> Path:
        if address.endswith(f"/{number_of['lost']}"):
            raise OSError("no such file")
        return weights_of(address, folder)

    monkeypatch.setattr(gate.registry, "weights_of", some_are_lost)
    decision = decide_first(runs)
    assert (decision.promoted, champion(published, FIRST)) == (False, number)
    assert f"version {number_of['worse']} (worse): spearman" in decision.reason
    assert f"{FIRST} version {number_of['lost']} cannot be judged" in decision.reason
    assert "cannot be judged" in decide_first(runs).reason  # what was not compared is asked again
    monkeypatch.setattr(gate.registry, "weights_of", weights_of)
    assert not decide_first(runs).promoted
    assert decide_first(runs).reason == "the challenger is the champion already"


def test_every_new_version_of_a_run_is_judged_and_the_best_of_those_that_are_better_is_promoted(published):
    worst, *_, good = _reached()
    before = [regressor("ridge", worst, FIRST, quality=1.0)]
    publish(before)
    after = [
        regressor("network", good, FIRST, quality=1.0),  # the best on validation
        Run("ridge", "tests", "again", tags={"dataset": "clips"}, version=regressor("ridge", 1, FIRST).version),
    ]
    publish(after)
    decision = decide_first(after)
    assert decision.promoted
    assert (decision.runs[decision.challenger], decision.challenger) == ("ridge", champion(published, FIRST))
    assert "with 97.5% intervals, because 2 versions were judged" in decision.reason
    other = published.get_model_version(FIRST, next(v for v, run in decision.runs.items() if run == "network"))
    assert other.tags["gate.decision"] == "rejected"
    assert "significantly better" in other.tags["gate.reason"]
    assert f"but version {decision.challenger} gains more" in other.tags["gate.reason"]
    assert decide_first(after).reason == "the challenger is the champion already"


def test_a_killed_first_promotion_of_a_version_that_is_not_the_challenger_is_carried_out_by_the_next(published):
    runs = [regressor("worse", 2, FIRST, quality=1.0), regressor("best", 1, FIRST, quality=0.5)]
    publish(runs)
    with killed_in("set_registered_model_alias", lambda *arguments: "champion" in arguments):
        decide_first(runs)
    assert decide_first(runs).promoted


def test_what_a_person_may_replace_is_judged_again(published):
    runs = [regressor("worse", 2, FIRST, quality=1.0), regressor("best", 1, FIRST, quality=0.5)]
    publish(runs)
    gate.choose(FIRST, champion(published, FIRST))
    assert all("by a person" in decide_first(runs).reason for _ in range(2))
    assert decide_first(runs, over_person=True).promoted


def test_a_first_version_that_stands_alone_is_in_use_once_it_was_asked_about(published):
    runs = [regressor("alone", 2, LATER)]
    publish(runs)
    assert decide_first(runs, LATER).reason == "the challenger is the champion already"
    runs = [regressor("alone", 2, LATER), regressor("added", 3, LATER, quality=-1.0)]
    publish(runs[1:])
    published.set_registered_model_alias(LATER, "challenger", "1")
    assert "first versions" not in decide_first(runs, LATER).reason


def test_a_challenger_that_cannot_be_judged_is_an_error_though_another_version_was(published, monkeypatch):
    runs = [regressor(name, seed, FIRST) for name, seed in (("first", 1), ("other", 2), ("lost", 3))]
    publish(runs[:1])
    publish(runs[1:])
    number = published.get_registered_model(FIRST).aliases["challenger"]
    load = evidence._load

    def lost(name, version):
        if version == str(number):
            raise ValueError("lost")
        return load(name, version)

    monkeypatch.setattr(evidence, "_load", lost)
    decision = decide_first(runs)
    assert (decision.state, decision.promoted) == ("error", False)
    assert decision.reason.endswith("; lost")


def test_a_champion_that_cannot_be_judged_is_an_error(published, monkeypatch):
    runs = [regressor("first", 2, FIRST, quality=1.0), regressor("other", 1, FIRST, quality=0.5)]
    publish(runs)
    shutil.rmtree("data/clips")
    decision = decide_first(runs)
    assert decision.state == "error"
    assert "cannot be judged on clips" in decision.reason
