"""The gate: who becomes champion, on what evidence, and that a person's choice is respected."""

import math
import re
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import torch
from hypothesis import given, strategies
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from pipelines.tracking import gate
from pipelines.tracking.known_rows import known_rows, learned, write_known
from pipelines.tracking.store import ServerUnreachable
from pipelines.tracking.upload import Run, Version, publish
from rankgrad.evaluation import Statistic
from rankgrad.io.checkpoints import build, save_model
from rankgrad.io.parquet import encode_images
from rankgrad.io.results import Row
from rankgrad.tasks.score_ranking import ScoreRanking

MODEL = "sorter-x"
NETWORK = {"backbone": {"name": "convnet", "args": {"channels": [4, 6]}}, "head": {"name": "linear", "args": {}}}
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
)  # fmt: skip


def sorters(*steepness: float) -> None:
    for number, value in enumerate(steepness, 1):
        sorter(f"of {number}", value)


def sorter(name: str, steepness: float = 1.0, *, kind: str = "handcrafted", **options: int) -> None:
    """Publish a version of a sorter; the steeper a handcrafted one, the better."""
    args = {"steepness": steepness} if kind == "handcrafted" else {"hidden": 2, "layers": 1}
    save_model(Path("made") / name, build("sorters", kind, args, seed=0, **options))
    publish([Run(name, "tests", name, version=Version(MODEL, Path("made") / name))])


def regressor(name: str, seed: int, *, dataset="clips", model="score_ranking", colors=1, data=None) -> None:
    network = build("models", "network", NETWORK, seed=seed, outputs=1, colors=colors)
    frames = {"kind": "frames", "colors": colors, "height": 16, "width": 16}
    network.recipe |= {"task": "score_ranking", "input": frames}
    save_model(Path("made") / name, network)
    write = None if data is None else partial(write_known, known_rows(data))
    version = Version(model, Path("made") / name, write=write)
    publish([Run(name, "tests", name, tags={"dataset": dataset}, version=version)])


@pytest.fixture
def clips(store):
    """A gate split whose scores are those of the network of seed 1, which is the best there can be."""
    images = torch.randint(0, 256, (60, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    network = build("models", "network", NETWORK, seed=1, outputs=1, colors=1).eval()
    with torch.no_grad():
        scores = network(images.unsqueeze(1)).squeeze(1)
    frames = pa.FixedSizeListArray.from_arrays(encode_images(images.numpy(), threads=1), 1)
    Path("data/clips").mkdir(parents=True)
    pq.write_table(pa.table({"frames": frames, "target": scores.numpy()}), "data/clips/gate.parquet")


def decide(model: str = MODEL, *, over_person: bool = False, **options) -> gate.Decision:
    params = SimpleNamespace(**(vars(PARAMS) | {"gate": SimpleNamespace(**(vars(PARAMS.gate) | options))}))
    (decision,) = gate.decide_all([model], params, over_person=over_person)
    return decision


def champion(store, model: str = MODEL) -> str:
    return str(store.get_model_version_by_alias(model, "champion").version)


def test_a_better_challenger_becomes_champion_a_worse_one_does_not_and_its_version_says_why(store):
    sorter("flat", 1.0)
    assert decide().reason == "the challenger is the champion already"
    sorter("steep", 50.0)
    decision = decide()
    assert (decision.promoted, decision.challenger, decision.champion) == (True, "2", "1")
    assert decision.differences["negative_l1"].low > 0.1
    version = store.get_model_version_by_alias(MODEL, "champion")
    assert (str(version.version), version.tags["gate.decision"], version.tags["gate.against"]) == ("2", "promoted", "1")
    assert "significantly better" in version.tags["gate.reason"]
    first, _, rest = version.description.partition("\n\n")
    assert first.endswith("significantly better; on 5000 fresh vectors]")
    assert " [made champion by the gate: negative_l1 +" in first
    assert rest.startswith("## Gate: promoted")
    assert "| **negative_l1** | -0.0" in version.description
    assert not decide().promoted
    assert store.get_model_version(MODEL, "2").description == version.description
    sorter("flat again", 1.0)
    for _ in range(2):
        decision = decide()
        assert not decision.promoted
        assert "not significantly better" in decision.reason
    version = store.get_model_version(MODEL, "3")
    assert version.tags["gate.decision"] == "rejected"
    first, _, rest = version.description.partition("\n\n")
    assert first.count(" [rejected by the gate") == 1
    assert rest.startswith("## Gate: rejected")
    assert rest.count("not significantly better") == 1
    assert champion(store) == "2"
    gate.choose(MODEL, "3")
    assert store.get_model_version(MODEL, "3").description.partition("\n\n")[0].endswith(" [made champion by a person]")


class TestVerdict:
    """The law of the gate, against a simulation that shares no code with it."""

    @pytest.mark.parametrize(("gain", "promoted"), [(0.0, (0, 0.09)), (0.2, (0.95, 1))])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_equal_models_are_rarely_promoted_and_better_ones_nearly_always(self, gain, promoted, sign):
        """Two models of 400 rows; of equal ones chance promotes one in forty."""
        draws, repeats, won = np.random.default_rng(0), 150, 0
        judged, options = SimpleNamespace(metric="m", guarded=[]), vars(PARAMS.gate) | {"resamples": 100}
        for repeat in range(repeats):
            rows = draws.normal(size=400)
            ours, theirs = (rows + draws.normal(sign * more, 0.5, 400) for more in (gain, 0))
            statistics = [Statistic(["m"], 400, lambda rows_, values=values: values[rows_].mean(-1)[None])
                    for values in (ours, theirs)]  # fmt: skip
            gate_options = SimpleNamespace(**options)
            gaps = gate._differences(*statistics, gate_options, str(repeat))
            better, _ = gate.verdict(gaps, judged, gate_options, {"m": sign < 0})
            error = np.std(ours - theirs) / 20  # the paired error, by hand
            assert gaps["m"].high - gaps["m"].low == pytest.approx(2 * 1.96 * error, rel=0.5)
            won += better
        assert promoted[0] <= won / repeats <= promoted[1]

    @pytest.mark.parametrize("sign", [1, -1])
    @given(
        main=strategies.tuples(*[strategies.floats(-1, 1)] * 3).map(sorted),
        guarded=strategies.floats(-1, 1) | strategies.just(math.nan) | strategies.none(),
        least=strategies.floats(0, 0.2), tolerance=strategies.floats(0, 0.2),
    )  # fmt: skip
    def test_it_is_beyond_chance_beyond_the_least_gain_and_nothing_guarded_is_much_worse(
        self, sign, main, guarded, least, tolerance
    ):
        low, value, high = main
        expected = low > 0 and value >= least and guarded is not None and guarded >= -tolerance  # NaN is not
        gaps = {"main": Row("new", "main", sign * value, *sorted((sign * low, sign * high)))}
        if guarded is not None:
            gaps["guarded"] = Row("new", "guarded", sign * guarded)
        judged = SimpleNamespace(metric="main", guarded=["guarded"])
        options = SimpleNamespace(minimum_gain=least, tolerance=tolerance)
        lower = dict.fromkeys(("main", "guarded"), sign < 0)
        assert gate.verdict(gaps, judged, options, lower)[0] == expected
        undefined = gaps | {"main": Row("new", "main")}
        assert not gate.verdict(undefined, judged, options, lower)[0]

    @pytest.mark.parametrize(
        ("challenger", "champion", "held"),
        [
            ("reversed", "right", True),
            ("constant", "right", True),
            ("right", "constant", False),
            ("right", "right", False),
        ],
    )
    def test_a_slice_on_which_the_challenger_is_much_worse_or_undefined_holds_it(self, challenger, champion, held):
        target = np.random.default_rng(0).normal(size=40)
        scores = {"right": target, "reversed": -target, "constant": np.ones(40)}
        slices = []
        for shop, ours, theirs in (("a", target, target), ("b", scores[challenger], scores[champion])):
            tables = [pa.table({"id": range(40), "score": score, "target": target}) for score in (ours, theirs)]
            slices.append(gate.SlicePair(f"shop: {shop}", 40, *map(ScoreRanking().statistic, tables)))
        judged = SimpleNamespace(metric="spearman", guarded=[], slice_tolerance=0.05)
        evidence = gate.Evidence(None, None, {"spearman": False}, "rows", slices)
        better, reason = gate.guarded_slices(evidence, judged, PARAMS.gate)
        assert better != held
        assert ("`shop: b`" in reason) == (challenger != champion)


class TestAPersonsChoice:
    def test_in_the_ui_is_not_overwritten_silently(self, store):
        sorters(1.0, 50.0, 2.0)
        store.set_registered_model_alias(MODEL, "champion", "3")
        store.set_registered_model_alias(MODEL, "challenger", "2")
        decision = decide()
        assert not decision.promoted
        assert "version 3 was made champion by a person" in decision.reason
        assert champion(store) == "3"
        assert decide(over_person=True).promoted
        assert gate.choose(MODEL) == ("2", "3")  # the person's choice was the one before

    def test_by_hand_and_back_stays_until_the_gate_may_replace_it(self, store):
        sorters(1.0, 2.0, 50.0)
        assert gate.choose(MODEL, "2") == ("1", "2")
        assert "by a person" in decide().reason
        assert gate.choose(MODEL, "3") == ("2", "3")
        assert gate.choose(MODEL) == ("3", "2")
        assert "by a person" in decide().reason
        assert gate.choose(MODEL) == ("2", "1")
        with pytest.raises(ValueError, match="no earlier champion"):
            gate.choose(MODEL)
        assert decide(over_person=True).promoted


@pytest.mark.parametrize("call", ["set_registered_model_tag", "set_registered_model_alias", "set_model_version_tag"])
def test_a_promotion_that_was_killed_is_carried_out_by_the_next(store, monkeypatch, call):
    sorters(1.0, 50.0)
    original = getattr(mlflow.MlflowClient, call)

    def killed(self, name, *arguments):
        if call != "set_model_version_tag" or arguments[1] == "ranking.made_champion_by":
            raise SystemExit
        return original(self, name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, call, killed)
        with pytest.raises(SystemExit):
            decide()
    assert decide().promoted == (call != "set_model_version_tag")
    assert champion(store) == "2"
    assert gate.choose(MODEL) == ("2", "1")


class TestWhatCannotBeJudged:
    def test_is_said_and_changes_nothing(self, store):
        sorters(1.0, 50.0)
        assert "no registered model 'sorter-y'; there are sorter-x" in decide("sorter-y").reason
        with pytest.raises(ValueError, match="no version 9; there are 1, 2"):
            gate.choose(MODEL, "9")
        store.delete_model_version(MODEL, "1")
        decision = decide()
        assert decision.failed
        assert "no champion: it was deleted" in decision.reason
        assert "(versions: 2)" in decision.reason

    def test_another_teams_models_are_left_alone(self, store):
        sorter("flat", 1.0)
        store.create_registered_model("their_model")
        decisions = gate.decide_all(None, PARAMS)
        assert [decision.model for decision in decisions] == gate.models_of(PARAMS) == ["sorter-x", "score_ranking"]
        assert "expected a name that begins with one of sorter, score_ranking" in decide("their_model").reason

    def test_a_version_that_this_code_cannot_load_is_named_and_stops_no_other_model(self, store, clips):
        sorters(1.0, 50.0)
        for name, seed in (("worse", 2), ("best", 1)):
            regressor(name, seed)
        (recipe,) = [file for file in Path("mlruns").rglob("model.json") if '"steepness": 1.0' in file.read_text()]
        recipe.write_text(recipe.read_text().replace("steepness", "sharpness"))
        broken, fine = gate.decide_all([MODEL, "score_ranking"], PARAMS)
        assert (broken.failed, fine.failed, fine.promoted) == (True, False, True)
        assert "sorter-x version 1 cannot be judged here" in broken.reason
        assert "`rankgrad promote sorter-x --version N`" in broken.reason
        shutil.rmtree(recipe.parent)
        assert "version 1 cannot be judged here: its files are lost" in decide().reason

    def test_a_lost_connection_is_not_a_decision(self, store, monkeypatch):
        def lost(*_, **__):
            raise requests.ConnectionError("Connection aborted")

        sorters(1.0, 50.0)
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
    @pytest.mark.parametrize(("dataset", "split"), [("clips", "gate"), ("lamem", "val")])
    def test_versions_are_compared_on_the_gate_split_or_without_one_on_validation_which_the_decision_says(
        self, store, clips, dataset, split
    ):
        model = "score_ranking" if dataset == "clips" else f"score_ranking-{dataset}"
        Path(f"data/{dataset}").mkdir(exist_ok=True)
        shutil.copyfile("data/clips/gate.parquet", f"data/{dataset}/val.parquet")
        for name, seed in (("worse", 2), ("best", 1)):
            regressor(name, seed, dataset=dataset, model=model)
        decision = decide(model)
        assert decision.promoted
        assert decision.differences["spearman"].low > 0
        tags = store.get_model_version(model, "2").tags
        assert tags["gate.examples"] == f"{dataset}/{split}"
        assert f"on {dataset}/{split}" in tags["gate.reason"]
        assert ("judged on validation" in tags["gate.reason"]) == (split == "val")

    @pytest.mark.parametrize(
        ("learned", "reason"),
        [
            (25, "on 35 of the 60 rows of clips/gate, the others left out: version 1 was trained on 25"),
            (31, "version 1 was trained on 31, which leaves 29, expected 30"),
        ],
    )
    def test_rows_that_a_version_was_trained_on_do_not_judge_it(self, store, clips, learned, reason):
        table = pq.read_table("data/clips/gate.parquet")
        for split, rows in (("train", slice(0, learned - 5)), ("val", slice(learned - 5, learned))):
            pq.write_table(table.slice(rows.start, rows.stop - rows.start), f"data/clips/{split}.parquet")
        regressor("knows some", 2, data=Path("data/clips"))
        regressor("best", 1)
        decision = decide("score_ranking")
        assert (decision.promoted, decision.failed) == (learned == 25, learned == 31)
        assert reason in decision.reason

    @pytest.mark.parametrize("groups", [None, 29, 30])
    def test_fewer_than_30_groups_show_no_difference(self, store, clips, groups):
        if groups:
            table = pq.read_table("data/clips/gate.parquet")
            grouped = table.append_column("group", pa.array([row % groups for row in range(60)]))
            pq.write_table(grouped, "data/clips/gate.parquet")
        for name, seed in (("worse", 2), ("best", 1)):
            regressor(name, seed)
        decision = decide("score_ranking")
        assert decision.promoted == (groups != 29)
        assert ("these are 29 rows, or groups of them, expected 30" in decision.reason) == (groups == 29)

    @pytest.mark.parametrize(
        ("first", "second", "reason"),
        [
            ({"colors": 3}, {}, "score_ranking version 1 cannot be judged here.*3 channels"),
            ({}, {"dataset": "lamem"}, "version 2 was trained on dataset lamem and its champion, 1, on clips"),
            ({"dataset": "lamem"}, {"dataset": "lamem"}, "cannot be judged on lamem.*lamem/val.parquet: no such file"),
            # All rows are learned from.
            ({"dataset": "folded"}, {"dataset": "folded"}, "folds and has no gate split: give it a gate_share"),
        ],
    )
    def test_versions_that_do_not_go_with_the_data_here_are_told(self, store, clips, first, second, reason):
        Path("data/folded").mkdir()
        table = pq.read_table("data/clips/gate.parquet")
        pq.write_table(table.append_column("fold", pa.array([1] * len(table))), "data/folded/val.parquet")
        regressor("first", 2, **first)
        regressor("second", 1, **second)
        decision = decide("score_ranking")
        assert decision.failed
        assert re.search(reason, decision.reason)
        assert "`rankgrad promote score_ranking --version N`" in decision.reason
        assert champion(store, "score_ranking") == "1"


def _pictures(size: int, folder: str = "") -> pa.Table:
    made = encode_images(np.random.default_rng(0).integers(0, 256, (40, size, size), dtype=np.uint8), threads=1)
    return pa.table(
        {"frames": pa.FixedSizeListArray.from_arrays(made, 2), "name": [f"{folder}{row}" for row in range(20)]}
    )


QUERIES = np.random.default_rng(0).normal(size=(20, 4, 3))


@pytest.mark.parametrize(
    ("train", "later", "known"),
    [
        (QUERIES, QUERIES[:, ::-1], True),
        (QUERIES, QUERIES[:, 1:], True),
        (QUERIES[:, 1:], QUERIES, True),
        (QUERIES, np.concatenate([QUERIES[:, :1], QUERIES[:, 1:] + 1], 1), False),
        (np.arange(20).reshape(10, 2), np.arange(20.0).reshape(10, 2), True),
        (_pictures(8, "photos/a"), _pictures(16, "photos/a"), True),
        (_pictures(8), _pictures(8), True),
        (_pictures(8), _pictures(16), False),
    ],
)
def test_rows_are_known_in_another_order_as_another_number_and_by_the_names_of_their_pictures(
    tmp_path, train, later, known
):
    for split, rows in (("train", train), ("val", later[:1]), ("gate", later)):
        table = rows if isinstance(rows, pa.Table) else pa.table({"features": rows.tolist()})
        pq.write_table(table, tmp_path / f"{split}.parquet")
    overlap = learned(tmp_path / "gate.parquet", [known_rows(tmp_path)["train"]], share=gate.KNOWN_SHARE)
    assert (overlap == known).all()
