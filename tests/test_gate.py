"""The gate: who becomes champion, on what evidence, and that nobody else's choice is lost."""

import json
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import torch
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from typer.testing import CliRunner

from pipelines.cli.app import app
from pipelines.config.schema import FIGURES, load
from pipelines.tracking.publish import (
    CHAMPION,
    MOVING,
    Finished,
    Registry,
    ServerUnreachable,
    Version,
    gate,
    publish,
    sorter_signature,
    store,
    task_signature,
)
from rankops.datasets.vectors.score_vectors import draw
from rankops.io.checkpoints import build, save_model
from rankops.io.parquet import encode_images
from rankops.metrics import sorter_quality as measures
from rankops.ranks import ranks
from rankops.seeding import derived_seed, generator
from rankops.tasks import memorability

from conftest import ROOT  # isort: skip

LENGTH = 8


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """Tables take longer to make than a test."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        with store():
            pass
    return path


@pytest.fixture
def project(tmp_path, monkeypatch, empty_store):
    """A folder with a store of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(empty_store, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / "dvc.lock").write_text("stages: {}\n")
    yield tmp_path
    mlflow.set_tracking_uri(None)


@pytest.fixture
def params():
    return load(ROOT / "params.yaml")


@pytest.fixture
def registry(project):
    with store() as client:
        yield Registry(client)


def registered(name: str, weights, *, model: str, script: str, signature, params=None) -> str:
    """Publishes a version as the pipeline does, and returns its number."""
    version = Version(model, ROOT / f"pipelines/serving/{script}.py", weights, signature, ["mlflow"])
    one = Finished(
        name, "tests", name, params or {}, {"figure": 0.5}, {"stage": f"train@{name}"},
        pd.DataFrame({"epoch": [1], "figure": [0.5]}), {}, version,
    )  # fmt: skip
    with store() as client:
        publish(client, [one])
        return str(max(int(found.version) for found in client.search_model_versions(f"name = '{model}'")))


def sorter(project, name: str, args: dict, *, kind: str = "handcrafted", **runtime: int) -> str:
    folder = project / "made" / name
    save_model(folder, build("sorters", kind, args, seed=0, **runtime))
    return registered(name, folder, model="sorter-x", script="sorter", signature=sorter_signature(LENGTH))


def regressor(
    project, name: str, seed: int, *, colors: int = 1, dataset: str = "clips", model: str = "memorability"
) -> str:
    folder = project / "made" / name
    network = build("models", "convnet", {"channels": [4, 6]}, seed=seed, outputs=1, colors=colors)
    memorability.save(folder, memorability.Regressor(network.eval()))
    return registered(
        name, folder, model=model, script="memorability", signature=task_signature("memorability"),
        params={"dataset": dataset, "task": "memorability"},
    )  # fmt: skip


def answer(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    return response


@pytest.fixture
def clips(project):
    """A gate split whose scores are what the network of seed 1 says, so that it is the best there can be."""
    images = torch.randint(0, 256, (60, 2, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    network = build("models", "convnet", {"channels": [4, 6]}, seed=1, outputs=1, colors=1)
    scores = memorability.Regressor(network.eval())(images)
    frames = pa.FixedSizeListArray.from_arrays(encode_images(images.flatten(0, 1).numpy(), threads=1), 2)
    (project / "data/clips").mkdir(parents=True)
    pq.write_table(pa.table({"frames": frames, "score": scores.numpy()}), project / "data/clips/gate.parquet")


class TestDecision:
    def test_a_better_challenger_becomes_champion_and_says_why(self, project, clips, registry, params):
        assert (regressor(project, "worse", 2), regressor(project, "best", 1)) == ("1", "2")
        assert registry.aliases("memorability") == {"champion": "1", "challenger": "2"}
        decision = gate.decide(registry, "memorability", params)
        assert decision.promoted
        assert (decision.challenger, decision.champion) == ("2", "1")
        assert decision.differences["spearman"]["low"] > 0
        assert registry.aliases("memorability")["champion"] == "2"
        tags = registry.version_tags("memorability", "2")
        assert tags["gate.decision"] == "promoted"
        assert (tags["gate.against"], tags["gate.examples"]) == ("1", "clips/gate")
        assert tags["rankops.made_champion_by"] == "gate"
        card = registry._client.get_model_version("memorability", "2").description
        for said in (
            "spearman | 1.0000",
            "Gate: promoted",
            "dvc.lock ",
            "Lineage: commit",
            "dataset=clips",
            "[run](#/",
        ):
            assert said in card
        # Later decisions, with nothing against it or in a checkout of other data, take nothing from its card.
        assert not gate.decide(registry, "memorability", params).promoted
        assert registry._client.get_model_version("memorability", "2").description == card

    def test_of_data_read_from_disk_it_is_judged_on_them(self, project, clips, registry, params):
        (project / "data/clips").rename(project / "data/lamem")
        (project / "data/lamem/gate.parquet").rename(project / "data/lamem/val.parquet")  # it has no gate split
        for name, seed in (("first", 2), ("second", 1)):
            regressor(project, name, seed, dataset="lamem", model="memorability-lamem")
        decision = gate.decide(registry, "memorability-lamem", params)
        assert (decision.promoted, decision.challenger, decision.figure) == (True, "2", "spearman")
        assert registry.version_tags("memorability-lamem", "2")["gate.examples"] == "lamem/val"

    def test_a_card_names_no_lock_of_other_data(self, project, clips, registry, params):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        registry.tag_version("memorability", "2", {"input.data/clips": "123"})
        gate.decide(registry, "memorability", params)
        assert "dvc.lock" not in registry.description("memorability", "2")

    def test_a_champion_moved_while_it_is_judged_stays(self, project, clips, registry, params, monkeypatch):
        for name, seed in (("worse", 2), ("other", 3), ("best", 1)):
            regressor(project, name, seed)
        write_card = gate._write_card

        def meanwhile(*arguments):
            write_card(*arguments)
            registry._client.set_registered_model_alias("memorability", "champion", "2")  # in the UI

        monkeypatch.setattr(gate, "_write_card", meanwhile)
        with pytest.raises(ValueError, match="version 2 was made champion while 3 was judged against 1"):
            gate.decide(registry, "memorability", params)
        assert registry.aliases("memorability")["champion"] == "2"
        assert registry.version_tags("memorability", "3")["gate.decision"] == "not carried out"

    def test_all_are_those_of_the_params_and_another_teams_are_left_alone(self, project, registry, params):
        folder = project / "made/theirs"
        save_model(folder, build("sorters", "handcrafted", {}, seed=0))
        for name in ("theirs", "theirs, newer"):
            registered(name, folder, model="their_model", script="sorter", signature=sorter_signature(LENGTH),
                       params={"dataset": "theirs"})  # fmt: skip
        before = registry.description("their_model", "2")
        for file in ("params.yaml", "dvc.yaml"):
            shutil.copyfile(ROOT / file, project / file)
        shown = CliRunner().invoke(app, ["promote"], env={"COLUMNS": "200"}, catch_exceptions=False).output
        assert [line.split()[1] for line in shown.splitlines() if "error" in line] == gate.known(params)
        assert registry.description("their_model", "2") == before
        with pytest.raises(
            ValueError, match="their_model is no model of this project: expected .*; the params have sorter-cnn, "
        ):
            gate.decide(registry, "their_model", params)

    def test_a_worse_one_does_not_and_says_why(self, project, clips, registry, params):
        regressor(project, "best", 1)
        regressor(project, "worse", 2)
        for _ in range(2):  # again, the same comes out
            decision = gate.decide(registry, "memorability", params)
            assert not decision.promoted
            assert "not better beyond chance" in decision.reason
        assert registry.aliases("memorability")["champion"] == "1"
        assert registry.version_tags("memorability", "2")["gate.decision"] == "rejected"

    @pytest.mark.parametrize(("fall", "promoted"), [(-0.005, True), (-0.02, False)])
    def test_a_guarded_figure_must_not_fall_by_more_than_the_tolerance(
        self, project, registry, params, monkeypatch, fall, promoted
    ):
        sorter(project, "flat", {"steepness": 1.0})
        sorter(project, "steep", {"steepness": 50.0})
        gain = {"value": 0.1, "low": 0.05, "high": 0.15}
        fallen = {"value": fall, "low": fall, "high": fall}
        monkeypatch.setattr(gate, "compare", lambda *_, **__: {"negative_l1": gain, "exactly_ordered": fallen})
        guarding = params.gate.judged["sorter"].model_copy(update={"guarded": ["exactly_ordered"]})
        judged = params.gate.judged | {"sorter": guarding}
        some = params.model_copy(update={"gate": params.gate.model_copy(update={"judged": judged})})
        decision = gate.decide(registry, "sorter-x", some)
        assert decision.promoted == promoted
        assert ("exactly_ordered fell by 0.0200, over 0.01" in decision.reason) != promoted
        assert registry.aliases("sorter-x")["champion"] == ("2" if promoted else "1")

    def test_sorters_are_judged_on_vectors_that_none_has_seen_and_leave_no_copy(
        self, project, registry, params, monkeypatch
    ):
        sorter(project, "flat", {"steepness": 1.0})
        sorter(project, "steep", {"steepness": 50.0})
        # As from a server: copied, into a temporary folder where none is named.
        monkeypatch.setattr(LocalArtifactRepository, "download_artifacts", ArtifactRepository.download_artifacts)
        (project / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(project / "temporary"))
        decision = gate.decide(registry, "sorter-x", params)
        assert decision.promoted
        assert decision.differences["negative_l1"]["low"] > 0.1
        assert list((project / "temporary").iterdir()) == []

    def test_a_minimum_gain_is_asked_for(self, project, clips, registry, params):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        strict = params.model_copy(update={"gate": params.gate.model_copy(update={"minimum_gain": 2.5})})
        assert "less than the minimum gain of 2.5" in gate.decide(registry, "memorability", strict).reason
        assert registry.aliases("memorability")["champion"] == "1"


class TestAPersonsChoice:
    def test_is_not_overwritten_silently(self, project, clips, registry, params):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        regressor(project, "other", 3)
        # As the MLflow UI does it.
        registry._client.set_registered_model_alias("memorability", "champion", "3")
        registry._client.set_registered_model_alias("memorability", "challenger", "2")
        decision = gate.decide(registry, "memorability", params)
        assert not decision.promoted
        assert "was made champion by a person" in decision.reason
        assert registry.aliases("memorability")["champion"] == "3"
        assert gate.decide(registry, "memorability", params, over_person=True).promoted
        assert registry.aliases("memorability")["champion"] == "2"
        # The one that the person chose is the one before.
        assert gate.roll_back(registry, "memorability") == ("2", "3")

    def test_by_hand_and_back_and_back_again(self, project, registry):
        for steepness in (1.0, 2.0, 3.0):
            sorter(project, f"steepness {steepness}", {"steepness": steepness})
        assert gate.promote_by_hand(registry, "sorter-x", "2") == "1"
        assert gate.promote_by_hand(registry, "sorter-x", "3") == "2"
        assert gate.roll_back(registry, "sorter-x") == ("3", "2")
        assert gate.roll_back(registry, "sorter-x") == ("2", "1")
        with pytest.raises(ValueError, match="no earlier champion is known"):
            gate.roll_back(registry, "sorter-x")
        assert registry.aliases("sorter-x")["champion"] == "1"

    @pytest.mark.parametrize("how", ["promoted by hand", "rolled back"])
    def test_by_hand_stays_until_the_gate_may_replace_it(self, project, clips, registry, params, how):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        if how == "rolled back":
            assert gate.decide(registry, "memorability", params).promoted
            gate.roll_back(registry, "memorability")
        else:
            gate.promote_by_hand(registry, "memorability", "1")
        decision = gate.decide(registry, "memorability", params)
        assert not decision.promoted
        assert "`rankops promote memorability --over-person`" in decision.reason
        assert registry.aliases("memorability")["champion"] == "1"
        assert gate.decide(registry, "memorability", params, over_person=True).promoted


class TestWhatIsWrong:
    def test_is_said_and_changes_nothing(self, project, clips, registry, params):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        with pytest.raises(ValueError, match="no registered model 'memorabilty'; there are memorability"):
            gate.decide(registry, "memorabilty", params)
        with pytest.raises(ValueError, match="memorability has no version 9; there are 1, 2"):
            gate.promote_by_hand(registry, "memorability", "9")
        registry._client.delete_model_version("memorability", "1")
        with pytest.raises(ValueError, match=r"memorability has no champion: it was deleted.*\(versions: 2\)"):
            gate.decide(registry, "memorability", params)
        assert registry.aliases("memorability") == {"challenger": "2"}

    def test_a_version_without_a_run_cannot_be_judged(self, project, clips, registry, params):
        regressor(project, "one", 2)
        made = registry._client.create_model_version("memorability", str(project / "made/one"))
        registry._client.set_registered_model_alias("memorability", "challenger", made.version)
        with pytest.raises(ValueError, match="version 2 has no run that says on which dataset"):
            gate.decide(registry, "memorability", params)
        assert registry.aliases("memorability")["champion"] == "1"

    def test_a_champion_that_this_code_cannot_load_is_named_and_keeps_no_other_model_from_its_decision(
        self, project, clips, registry, params
    ):
        regressor(project, "worse", 2)
        regressor(project, "best", 1)
        sorter(project, "one", {"steepness": 1.0})
        sorter(project, "two", {"steepness": 50.0})
        (weights,) = [
            file for file in (project / "mlruns").rglob("model.json") if '"steepness": 1.0' in file.read_text()
        ]
        weights.write_text(weights.read_text().replace("steepness", "sharpness"))
        broken, fine = gate.decide_all(registry, ["sorter-x", "memorability"], params)
        assert (broken.failed, broken.promoted, fine.failed, fine.promoted) == (True, False, False, True)
        assert "sorter-x version 1 cannot be judged by this checkout's code" in broken.reason
        assert "`rankops promote sorter-x --version N`" in broken.reason
        assert registry.aliases("sorter-x")["champion"] == "1"

    @pytest.mark.parametrize(
        ("error", "lost"),
        [
            (requests.ConnectionError("Connection aborted"), True),
            (requests.HTTPError("503 Server Error", response=answer(503)), True),
            (requests.HTTPError("404 Client Error", response=answer(404)), False),
        ],
        ids=["connection", "server", "file"],
    )
    def test_a_connection_lost_in_a_download_is_tried_again_and_lost_files_are_told(
        self, project, registry, params, monkeypatch, error, lost
    ):
        def download_artifacts(*_, **__):
            raise error

        sorter(project, "one", {"steepness": 1.0})
        sorter(project, "two", {"steepness": 50.0})
        monkeypatch.setattr(LocalArtifactRepository, "download_artifacts", download_artifacts)
        if lost:
            with pytest.raises(ServerUnreachable, match="the MLflow store failed: .*(aborted|503)"):
                gate.decide_all(registry, ["sorter-x"], params)
        else:
            (decision,) = gate.decide_all(registry, ["sorter-x"], params)
            assert decision.failed
            assert "sorter-x version 2: its files cannot be fetched (404 Client Error)" in decision.reason
            assert "`rankops promote sorter-x --version N`" in decision.reason

    @pytest.mark.parametrize(
        ("champion", "challenger", "said"),
        [
            ({"colors": 3}, {}, r"memorability version 1 cannot be judged by .* 3 channels"),
            (
                {},
                {"dataset": "lamem"},
                "version 2 was trained on lamem and its champion, 1, on clips, so they cannot be",
            ),
            (
                {"dataset": "lamem"},
                {"dataset": "lamem"},
                r"memorability cannot be judged on lamem, .*lamem/val.parquet: no such file",
            ),
        ],
    )
    def test_versions_that_do_not_go_with_the_data_here_keep_no_other_model_from_its_decision(
        self, project, clips, registry, params, champion, challenger, said
    ):
        regressor(project, "first", 2, **champion)
        regressor(project, "second", 1, **challenger)
        sorter(project, "one", {"steepness": 1.0})
        sorter(project, "two", {"steepness": 50.0})
        broken, fine = gate.decide_all(registry, ["memorability", "sorter-x"], params)
        assert (broken.failed, broken.promoted, fine.failed, fine.promoted) == (True, False, False, True)
        assert re.search(said, broken.reason)
        assert "`rankops promote memorability --version N`" in broken.reason
        assert registry.aliases("memorability")["champion"] == "1"

    def test_sorters_of_different_lengths_are_not_compared(self, project, registry, params):
        sorter(project, "short", {"hidden": 2, "layers": 1}, kind="lstm", length=4)
        sorter(project, "long", {"hidden": 2, "layers": 1}, kind="lstm", length=8)
        with pytest.raises(
            ValueError, match="versions 2 and 1 sort 8 and 4 scores, so they cannot be compared: choose"
        ):
            gate.decide(registry, "sorter-x", params)
        assert registry.aliases("sorter-x")["champion"] == "1"
        sorter(project, "of any length", {"steepness": 50.0})  # which is judged on what the other one sorts
        assert gate.decide(registry, "sorter-x", params).promoted

    def test_a_promotion_killed_in_between_is_finished_by_the_next_look(self, project, registry):
        sorter(project, "one", {"steepness": 1.0})
        sorter(project, "two", {"steepness": 2.0})
        sorter(project, "three", {"steepness": 3.0})
        move = {"version": "2", "by": "gate", "history": ["1", "2"], "before": "1"}
        registry._client.set_registered_model_tag("sorter-x", MOVING, json.dumps(move))
        assert registry.aliases("sorter-x")["champion"] == "2"
        assert registry.tag("sorter-x", CHAMPION) == "2"
        assert registry.tag("sorter-x", MOVING) is None
        # Unless a person chose another one before that look.
        registry._client.set_registered_model_tag("sorter-x", MOVING, json.dumps(move))
        registry._client.set_registered_model_alias("sorter-x", "champion", "3")
        assert registry.aliases("sorter-x")["champion"] == "3"
        assert registry.tag("sorter-x", MOVING) is None

    def test_two_promotions_at_once_leave_one_champion(self, project, registry):
        for steepness in (1.0, 2.0, 3.0):
            sorter(project, f"steepness {steepness}", {"steepness": steepness})

        def promote(version):
            with store() as client:
                return gate.promote_by_hand(Registry(client), "sorter-x", version)

        with ThreadPoolExecutor(2) as pool:
            replaced = list(pool.map(promote, ["2", "3"]))
        champion = registry.aliases("sorter-x")["champion"]
        history = json.loads(registry.tag("sorter-x", "rankops.champions"))
        assert registry.tag("sorter-x", CHAMPION) == champion == history[-1]
        assert sorted(history) == ["1", "2", "3"]
        assert sorted(replaced) == sorted(history[:2])


class TestVerdict:
    def better(self, *, minimum_gain: float = 0.05, **differences: tuple[float, float, float]) -> bool:
        """By (low, value, high) of each figure, the judged one first."""
        found = {name: dict(zip(("low", "value", "high"), bounds, strict=True)) for name, bounds in differences.items()}
        judged = SimpleNamespace(figure="gain", guarded=list(found)[1:])
        return gate._verdict(found, judged, SimpleNamespace(minimum_gain=minimum_gain, tolerance=0.01))[0]

    def test_the_same_predictions_are_not_better(self):
        assert not self.better(minimum_gain=0.0, gain=(0.0, 0.0, 0.0))

    def test_the_gain_itself_must_be_large_enough_and_its_interval_above_0(self):
        assert self.better(gain=(0.02, 0.06, 0.1))
        assert not self.better(gain=(0.02, 0.04, 0.06))
        assert not self.better(gain=(-0.01, 0.06, 0.1))

    def test_no_guarded_figure_may_fall_itself(self):
        assert self.better(gain=(0.06, 0.07, 0.08), guarded=(-0.03, -0.005, 0.02))
        assert not self.better(gain=(0.06, 0.07, 0.08), fine=(0.0, 0.0, 0.0), fallen=(-0.04, -0.02, -0.01))

    def test_level_seed_and_resamples_are_those_of_the_params(self, project, registry, params, monkeypatch):
        sorter(project, "flat", {"steepness": 1.0})
        sorter(project, "steep", {"steepness": 50.0})
        seen, none = [], {name: dict.fromkeys(("value", "low", "high"), 0.0) for name in FIGURES["sorter"]}
        monkeypatch.setattr(gate, "compare", lambda *_, **options: seen.append(options) or none)
        own = params.gate.model_copy(update={"confidence": 0.8, "seed": 7, "resamples": 30})
        gate.decide(registry, "sorter-x", params.model_copy(update={"gate": own}))
        assert seen == [{"resamples": 30, "confidence": 0.8, "seed": derived_seed(7, "gate", "sorter-x")}]


def test_sorters_with_ties_where_there_are_none_are_not_exactly_ordered():
    figures = gate._sorter_figures(lambda scores: ranks((scores * 20).round()), 32, 1)
    values = dict(zip(figures.names, figures.of_rows(np.arange(figures.examples)), strict=True))
    vectors, _ = draw(gate.SORTER_VECTORS, 32, generator(1, "gate", "sorters"))
    measured = measures.accuracy(lambda scores: ranks((scores * 20).round()), vectors)
    assert 0 < values["exactly_ordered"] < 1
    assert values["exactly_ordered"] == pytest.approx(measured["exactly_ordered"])


def test_the_gates_own_split_is_taken_where_there_is_a_validation_split_too(project, clips, registry, params):
    shutil.copyfile("data/clips/gate.parquet", "data/clips/val.parquet")
    regressor(project, "worse", 2)
    regressor(project, "best", 1)
    gate.decide(registry, "memorability", params)
    assert registry.version_tags("memorability", "2")["gate.examples"] == "clips/gate"


def test_a_champion_that_was_moved_while_it_was_judged_stops_the_decision(project, registry, params, monkeypatch):
    for steepness in (50.0, 1.0, 2.0):
        sorter(project, f"steepness {steepness}", {"steepness": steepness})
    compare = gate.compare

    def moved(*given, **options):
        registry._client.set_registered_model_alias("sorter-x", "champion", "2")
        return compare(*given, **options)

    monkeypatch.setattr(gate, "compare", moved)
    with pytest.raises(ValueError, match="its champion was moved while it was judged; nothing was changed"):
        gate.decide(registry, "sorter-x", params)
    assert "gate.decision" not in registry.version_tags("sorter-x", "3")


def test_rolling_back_leaves_out_a_version_that_was_deleted(project, registry):
    for steepness in (1.0, 2.0, 3.0):
        sorter(project, f"steepness {steepness}", {"steepness": steepness})
    for version in ("2", "3"):
        gate.promote_by_hand(registry, "sorter-x", version)
    registry._client.delete_model_version("sorter-x", "2")
    assert gate.roll_back(registry, "sorter-x") == ("3", "1")
