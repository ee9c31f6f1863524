"""A new input type is a file, and a line of tests/rows.py: trained, predicted, served, monitored and described."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from laws.test_answers import check_doors

from contracts import test_inputs_tasks as contracts
from pipelines.monitoring.drift import compare
from pipelines.monitoring.reference import TrainingData
from pipelines.tracking.card import card
from pipelines.tracking.known_rows import read_known
from pipelines.tracking.signature import example_of, signature_of
from rankgrad import lookup
from rankgrad.cli.answers import answers
from rankgrad.io.checkpoints import load_model, save_model

from rows import TYPES, cells, folder_of, table  # isort: skip

AUDIO = """
from base64 import b64decode

import numpy as np
import torch

from rankgrad.inputs import Inputs, InputType

__all__ = ["Audio"]


def bands(sound):
    samples = np.frombuffer(sound, np.uint8)
    return torch.tensor([float(part.mean()) for part in np.array_split(samples, 4)])


class Audio(InputType):
    name, backbones, cell, files, suffixes = "audio", ("features",), bytes, True, (".pcm",)

    @staticmethod
    def stored(*, width=None, single=False):
        import pyarrow as pa

        return pa.binary()

    @staticmethod
    def read(path, *, lists, threads, memory):
        from rankgrad.io.parquet import flat, read_table

        column, counts = read_table(path, ["audio"])["audio"], None
        if lists:
            column, counts = flat(column)
        return Inputs({"kind": "audio", "bands": 4}, torch.stack([bands(one) for one in column.to_pylist()])), counts

    @staticmethod
    def runtime(inputs):
        return {"features": 4}

    @staticmethod
    def check(about):
        if about.get("bands") != 4:
            raise ValueError(f"input.bands is {about.get('bands')}, expected 4")

    @staticmethod
    def checked(cell, place):
        return cell if isinstance(cell, bytes) else b64decode(cell, validate=True)

    @staticmethod
    def prepared(cells, about, *, where):
        return torch.stack([bands(cell) for cell in cells])

    @staticmethod
    def values(cell, about):
        return len(cell)

    @staticmethod
    def example(about):
        return bytes(8)

    @staticmethod
    def described(about):
        return "a sound of any length"

    @staticmethod
    def quantities(items, about):
        return {"loudness": items.mean().item()}
"""


@pytest.fixture
def audio(tmp_path, monkeypatch):
    (tmp_path / "audio.py").write_text(AUDIO)
    monkeypatch.syspath_prepend(tmp_path)
    files = lookup._modules
    monkeypatch.setattr(
        lookup, "_modules", lambda folder: files(folder) | ({"audio": "audio"} if folder == "inputs" else {})
    )
    monkeypatch.setitem(TYPES, "audio", (TYPES["features"][0], lambda draws: draws.bytes(draws.integers(8, 30))))


@pytest.mark.parametrize("task", contracts.LOSSES)
def test_it_is_trained_and_has_one_answer_by_every_door(task, audio, tmp_path):
    contracts.test_an_input_and_a_task_are_trained_and_judged_or_say_why_not(task, "audio", tmp_path)
    check_doors(task, "audio", 1)


def test_it_is_described_published_and_monitored(audio, tmp_path):
    folder, draws = tmp_path / "model", np.random.default_rng(0)
    save_model(folder, load_model(folder_of("score_ranking of audio")))
    for split in ("train", "val", "test"):
        rows = cells("score_ranking", "audio", 60, draws)
        pq.write_table(table("score_ranking", "audio", rows, draws), tmp_path / f"{split}.parquet")
    assert "a sound of any length" in card(
        "score_ranking-shop", folder, params={}, metrics={}, tags={"git_commit": "x"}
    )
    assert json.loads(signature_of(folder).to_dict()["inputs"])[0]["type"] == "binary"
    assert example_of(folder)["audio"].tolist() == [bytes(8)]
    TrainingData(tmp_path).write(folder, is_refitted=False)
    assert {*read_known(folder)} == {"train", "val"}
    (tmp_path / "sounds").mkdir()
    for number in range(60):
        (tmp_path / f"sounds/{number}.pcm").write_bytes(bytes([200]) * 9)
    assert "loudness" in compare(tmp_path / "sounds", model=str(folder)).drifted
    [[first, *_], *_] = answers(folder, [tmp_path / "sounds"])
    assert first["id"].endswith("0.pcm")
