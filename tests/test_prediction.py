"""What consumers get: pictures from files, tables from Parquet to Parquet, and MLflow's server over HTTP."""

import base64
import json
import re
import socket
import struct
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

import pipelines.serving.batch
import rankops.tasks.predict
from pipelines.cli.app import app
from pipelines.monitoring import drift
from pipelines.serving import server
from pipelines.serving.batch import Prediction, annotate, load_ranker, places_for, predict_table
from pipelines.serving.memorability import Memorability
from pipelines.serving.multilabel import MultiLabel
from pipelines.serving.retrieval import Retrieval
from pipelines.tracking import publish
from rankops.io.checkpoints import build
from rankops.io.images import PIXELS, picture
from rankops.models.tokenizer import Vocabulary
from rankops.tasks import memorability, multilabel, retrieval
from rankops.tasks.label_ranking import LabelRanker, predictions, save
from rankops.tasks.predict import colors_of, order_of, predicted

SERVING = Path(__file__).parents[1] / "pipelines/serving"

K = 4  # labels


def ranker_of(colors: int = 1) -> LabelRanker:
    scorer = build("models", "convnet", {"channels": [4, 6]}, seed=3, outputs=K, colors=colors)
    thresholds = build("models", "threshold_network", {"hidden": 4}, seed=3, features=12, outputs=K)
    return LabelRanker(scorer.eval(), thresholds.eval())


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(generator: torch.Generator, *size: int) -> Image.Image:
    """Height, width, and 3 for a colored one."""
    return Image.fromarray(torch.randint(0, 256, size, generator=generator, dtype=torch.uint8).numpy())


def bomb(width: int, height: int) -> bytes:
    """A PNG of some hundred bytes that claims to be of any size, and would unpack to it as far as it goes."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(10_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder as a run writes it, of gray images."""
    folder = tmp_path_factory.mktemp("run")
    save(folder, ranker_of())
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory, run):
    """A store of its own with that model as champion."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        finished = publish.Finished(
            name="label_ranking-rlsep", experiment="label_ranking", key="tiny", params={}, metrics={}, tags={},
            history=pd.DataFrame({"epoch": [1]}), files={},
            version=publish.Version(
                model="label_ranking", script=Path(publish.__file__).parents[1] / "serving/label_ranking.py", weights=run,
                signature=publish.task_signature("label_ranking"), requirements=publish.requirements("mlflow"),
            ),
        )  # fmt: skip
        with publish.store() as client:
            client.create_experiment("label_ranking", artifact_location=f"{folder}/artifacts")
            publish.publish(client, [finished])
        yield folder
    mlflow.set_tracking_uri(None)
    mlflow.set_registry_uri(None)


def rankops_says(*words: object, code: int = 0) -> str:
    """What the command prints; errors are one line."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    if code:
        assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.output


class TestPicture:
    def test_is_gray_or_colored_as_the_network_wants_it_and_upright(self, generator, tmp_path):
        colors = noise(generator, 5, 7, 3)
        assert picture(encoded(colors), colors=3, where="").numpy().tolist() == [
            np.asarray(colors).transpose(2, 0, 1).tolist()
        ]
        assert picture(encoded(colors), colors=1, where="").numpy().tolist() == [
            np.asarray(colors.convert("L")).tolist()
        ]
        (tmp_path / "file.png").write_bytes(encoded(colors))
        assert picture(tmp_path / "file.png", colors=3, where="").shape == (1, 3, 5, 7)
        sideways = Image.Exif()
        sideways[0x0112] = 6  # the camera was turned
        assert picture(encoded(colors, "JPEG", exif=sideways), colors=3, where="").shape == (1, 3, 7, 5)

    def test_opaque_pictures_with_an_alpha_channel_are_taken(self, generator):
        gray = noise(generator, 4, 4)
        alpha = gray.convert("RGBA")
        assert picture(encoded(alpha), colors=1, where="").equal(picture(encoded(gray), colors=1, where=""))

    @pytest.mark.parametrize(
        ("contents", "found"),
        [
            (b"", "no PNG or JPEG"),
            (None, "no PNG or JPEG"),
            ("aGFsbG8=", "a bytes-like object is required"),
            (b"GIF89a what it is not", "no PNG or JPEG"),
            (encoded(Image.new("L", (64, 64), 9))[:60], "runcated|broken|unrecognized"),
            (encoded(Image.new("RGBA", (4, 4), (1, 2, 3, 128))), "transparent in places"),
            (encoded(Image.fromarray(np.full((4, 4), 40_000, np.uint16))), "16 bits a pixel"),
            (encoded(Image.new("L", (4, 4)), "GIF"), "no PNG or JPEG"),
            (bomb(2049, 2048), "2049 x 2048 pixels"),
            (bomb(50_000, 50_000), "Image size .2500000000 pixels. exceeds limit"),
        ],
        ids=lambda value: None if value is None else f"{len(value)} bytes" if isinstance(value, bytes) else value[:20],
    )
    def test_refuses_others_and_says_what_was_found_and_expected(self, contents, found):
        with pytest.raises(ValueError, match=rf"row 3: not a readable image \(.*({found}).*\); expected a whole PNG"):
            picture(contents, colors=1, where="row 3")

    def test_a_bomb_is_refused_before_it_is_unpacked(self, monkeypatch):
        monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was unpacked"))
        with pytest.raises(ValueError, match="9000 x 9000 pixels"):
            picture(bomb(9000, 9000), colors=1, where="row 0")

    def test_every_damage_to_a_file_ends_in_an_answer_or_in_the_same_error(self, generator):
        draws = np.random.default_rng(0)
        whole = [encoded(noise(generator, 12, 12), kind) for kind in ("PNG", "JPEG")]
        endings = []
        for _ in range(400):
            damaged = bytearray(whole[draws.integers(2)])
            for place in draws.integers(len(damaged), size=draws.integers(1, 6)):
                damaged[place] = draws.integers(256)
            try:
                endings.append(str(picture(bytes(damaged), colors=1, where="x").dtype))
            except ValueError as error:
                endings.append(str(error)[:25])
        assert set(endings) == {"torch.uint8", "x: not a readable image ("}
        assert min(endings.count(one) for one in set(endings)) > 20


def test_a_network_whose_colors_were_never_said_has_its_default():
    for model, colors in (("convnet", 1), ("mobilenet_v3_small", 3)):
        scorer = build("models", model, {}, seed=0, outputs=K)
        assert colors_of(scorer) == colors


def served(task: str, folder: Path):
    """The model of a task as MLflow's server runs it, on weights of a small network for gray images."""
    options = {"channels": [4, 6]}
    if task == "retrieval":
        vocabulary = Vocabulary.of(["a large three"])
        network = build("models", "dual_encoder", options, seed=3, words=len(vocabulary), colors=1)
        retrieval.save(folder, retrieval.Encoder(network.eval(), vocabulary))
    else:
        outputs = K if task == "multilabel" else 1
        network = build("models", "convnet", options, seed=3, outputs=outputs, colors=1).eval()
        {"multilabel": lambda: multilabel.save(folder, multilabel.Classifier(network)),
         "memorability": lambda: memorability.save(folder, memorability.Regressor(network))}[task]()  # fmt: skip
    model = {"multilabel": MultiLabel, "memorability": Memorability, "retrieval": Retrieval}[task]()
    model.load_context(SimpleNamespace(artifacts={"weights": str(folder)}))
    return model


class TestServedTasks:
    def test_answer_as_their_networks_do(self, generator, tmp_path):
        images = [noise(generator, 16, 16) for _ in range(3)]
        pixels = torch.stack([torch.from_numpy(np.array(image)) for image in images])
        rows = pd.DataFrame({"image": [encoded(image) for image in images]})
        model = served("multilabel", tmp_path / "multilabel")
        found = np.stack(model.predict(None, rows)["scores"])
        assert np.allclose(found, model.classifier(pixels), atol=1e-5)
        model = served("memorability", tmp_path / "memorability")
        frames = pd.DataFrame({"frames": [list(rows["image"])]})
        assert model.predict(None, frames)["score"][0] == pytest.approx(model.regressor(pixels.unsqueeze(0)).item())
        model = served("retrieval", tmp_path / "retrieval")
        mixed = pd.DataFrame([{"image": rows["image"][0]}, {"caption": "a large three"}])
        found = np.stack(model.predict(None, mixed)["embedding"])
        expected = torch.cat([model.encoder.images(pixels[:1]), model.encoder.captions(["a large three"])])
        assert np.allclose(found, expected, atol=1e-5)

    @pytest.mark.filterwarnings("ignore:.*input example was not provided")
    @pytest.mark.parametrize(
        ("task", "row"),
        [("multilabel", {"image": 0}), ("memorability", {"frames": [0, 1]}), ("retrieval", {"image": 0}),
         ("retrieval", {"caption": "a large three"})],
    )  # fmt: skip
    def test_the_server_answers_json_as_the_model_does(self, task, row, generator, tmp_path):
        images = [encoded(noise(generator, 16, 16)) for _ in range(2)]

        def with_images(made) -> dict:
            return {name: [made(images[one]) for one in value] if isinstance(value, list) else made(images[value])
                    if isinstance(value, int) else value for name, value in row.items()}  # fmt: skip

        expected = (
            served(task, tmp_path / "weights").predict(None, pd.DataFrame([with_images(bytes)])).to_dict("records")
        )
        mlflow.pyfunc.save_model(
            tmp_path / "model", python_model=str(SERVING / f"{task}.py"), pip_requirements=["mlflow"],
            artifacts={"weights": str(tmp_path / "weights")}, signature=publish.task_signature(task),
        )  # fmt: skip
        server = TestClient(scoring_server.init(mlflow.pyfunc.load_model(str(tmp_path / "model"))))
        sent = with_images(lambda image: base64.b64encode(image).decode())
        for body in ({"dataframe_records": [sent]},
                     {"dataframe_split": {"columns": list(sent), "data": [list(sent.values())]}}):  # fmt: skip
            answer = server.post("/invocations", json=body)
            assert answer.status_code == 200, answer.text
            for name, value in expected[0].items():
                assert answer.json()["predictions"][0][name] == pytest.approx(value, abs=1e-5)

    @pytest.mark.parametrize("task", ["multilabel", "memorability", "retrieval"])
    @pytest.mark.parametrize("contents", [b"", b"GIF89a", bomb(60_000, 60_000)], ids=["empty", "other", "bomb"])
    def test_refuse_what_is_no_picture_or_a_bomb(self, task, contents, tmp_path):
        whole = encoded(Image.new("L", (16, 16)))
        rows = {"frames": [[whole], [whole, contents]]} if task == "memorability" else {"image": [whole, contents]}
        with pytest.raises(MlflowException, match="row 1.*: not a readable image") as refused:
            served(task, tmp_path).predict(None, pd.DataFrame(rows))
        assert refused.value.get_http_status_code() == 400

    @pytest.mark.parametrize(
        ("task", "rows", "message"),
        [
            ("memorability", {"frames": [[]]}, "row 0: no frames"),
            ("memorability", {"frames": [[(16, 16), (16, 20)]]}, r"row 0: frames of sizes \[\(16, 16\), \(20, 16\)\]"),
            ("memorability", {"frames": [[(1500, 1500), (1500, 1500)]]}, "row 0: frames of more than 4,194,304 pixels"),
            ("retrieval", {"image": [None], "caption": [None]}, "row 0: expected either an image or a caption"),
            ("retrieval", {"image": [b"GIF"], "caption": ["a"]}, "row 0: expected either an image or a caption"),
        ],
    )  # fmt: skip
    def test_refuse_rows_that_say_too_little_or_too_much(self, task, rows, message, tmp_path):
        if task == "memorability":
            rows = {"frames": [[encoded(Image.new("L", size)) for size in clip] for clip in rows["frames"]]}
        with pytest.raises(MlflowException, match=message):
            served(task, tmp_path).predict(None, pd.DataFrame(rows))

    @pytest.mark.parametrize("task", ["multilabel", "memorability", "retrieval"])
    def test_refuse_what_is_too_small_for_the_network_by_its_row(self, task, tmp_path):
        large, small = (encoded(Image.new("L", (side, side))) for side in (16, 2))
        rows = {"frames": [[large], [small]]} if task == "memorability" else {"image": [large, small]}
        with pytest.raises(MlflowException, match=r"row 1: .*[Oo]utput size is too small") as refused:
            served(task, tmp_path).predict(None, pd.DataFrame(rows))
        assert refused.value.get_http_status_code() == 400
        if task == "retrieval":
            with pytest.raises(MlflowException, match=r"row 1: caption 0 is .*expected at least one word"):
                served(task, tmp_path).predict(None, pd.DataFrame({"caption": ["a three", "?!"]}))


class TestPredicted:
    def pictures(self, generator, sizes):
        return [
            (f"row {row}", torch.randint(0, 256, (1, *size), generator=generator, dtype=torch.uint8))
            for row, size in enumerate(sizes)
        ]

    def test_sizes_may_differ_and_the_order_stays(self, generator, monkeypatch):
        ranker = ranker_of()
        pictures = self.pictures(generator, [(16, 16), (20, 16), (16, 16), (16, 24), (20, 16)])
        alone = [predictions(ranker, (image, None)).to_pylist()[0] for _, image in pictures]
        for pixels in (PIXELS, 16 * 16 + 20 * 16, 1):  # together, some at a time, one at a time
            monkeypatch.setattr(rankops.tasks.predict, "PIXELS", pixels)
            for row, (one, expected) in enumerate(
                zip(predicted(ranker, iter(pictures)).to_pylist(), alone, strict=True)
            ):
                assert one["id"] == row
                assert one["scores"] == pytest.approx(expected["scores"], abs=1e-5)
                assert (one["label_ranks"], one["selected"]) == (expected["label_ranks"], expected["selected"])

    def test_no_more_than_the_limit_is_held_at_once(self, generator, monkeypatch):
        ranker, seen = ranker_of(), []
        monkeypatch.setattr(rankops.tasks.predict, "PIXELS", 4 * 16 * 16)
        monkeypatch.setattr(
            rankops.tasks.predict,
            "predictions",
            lambda ranker, split: seen.append(len(split[0])) or predictions(ranker, split),
        )
        assert len(predicted(ranker, self.pictures(generator, [(16, 16)] * 10))) == 10
        assert seen == [4, 4, 2]

    def test_a_picture_that_is_too_small_is_named(self, generator):
        with pytest.raises(ValueError, match="row 1: the network does not take an image of 1 x 1 pixels"):
            predicted(ranker_of(), self.pictures(generator, [(64, 64), (1, 1)]))


class TestPredictCommand:
    @pytest.fixture
    def images(self, generator, tmp_path):
        paths = [tmp_path / "first.png", tmp_path / "second.jpg"]
        paths[0].write_bytes(encoded(noise(generator, 16, 16)))
        paths[1].write_bytes(encoded(noise(generator, 20, 24, 3), "JPEG"))
        return paths

    def test_prints_the_labels_in_order_and_draws_them(self, run, images, tmp_path, monkeypatch):
        thresholds = lambda self, features: torch.full((len(features), K), -9.0)  # noqa: E731 -- every label is there
        monkeypatch.setattr("rankops.models.threshold_network.ThresholdNetwork.forward", thresholds)
        said = rankops_says("predict", *images, "--model", run, "--out", tmp_path / "drawn")
        ranker = load_ranker(str(run))
        for path in images:
            scores = predictions(ranker, (picture(path, colors=1, where=""), None))["scores"][0].as_py()
            rows = said.split(path.name)[1].splitlines()[4 : 4 + K]
            found = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
            order = sorted(range(K), key=lambda label: -scores[label])
            assert found == [[str(n + 1), str(label), f"{scores[label]:.3f}"] for n, label in enumerate(order)]
            with Image.open(tmp_path / f"drawn/{path.stem}.png") as drawn:
                assert drawn.size == (700, 340)
                assert len(drawn.convert("RGB").getcolors(2**20)) > 50
        assert said.count("drawn: ") == 2

    def test_a_single_picture_goes_to_a_file_and_the_registry_is_the_default(self, store, images, tmp_path):
        said = rankops_says("predict", images[0], "--out", tmp_path / "one.jpg")
        assert images[0].name in said
        with Image.open(tmp_path / "one.jpg") as drawn:
            assert drawn.format == "JPEG"

    def test_a_version_from_a_server_leaves_no_copy_behind_and_the_store_keeps_its_own(
        self, store, tmp_path, monkeypatch
    ):
        # As what comes over a network: copied, into a temporary folder where none is named.
        monkeypatch.setattr(LocalArtifactRepository, "download_artifacts", ArtifactRepository.download_artifacts)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        kept = sorted(store.rglob("*"))
        address = "models:/label_ranking@champion"
        assert load_ranker(address)
        assert drift._ranker(address)[1] == "1"
        server.check(address, port=server.free_port())
        assert list(tmp_path.iterdir()) == []
        assert sorted(store.rglob("*")) == kept

    def test_pictures_without_labels_and_with_equal_ones(self, tmp_path):
        path = tmp_path / "a $ name.png"
        path.write_bytes(encoded(Image.new("L", (8, 8))))
        for places, labels in (([], []), ([1, 1, 2], [0, 3, 2])):
            scores = [2.0, 2.0, -1.0][: len(labels)]
            annotate(tmp_path / "x.png", Prediction(path, places, labels, scores))
            with Image.open(tmp_path / "x.png") as drawn:
                drawn.load()
        assert order_of([2, 0, 1, 2]) == [0, 3, 2]

    def test_says_in_a_line_what_is_wrong_with_a_picture_and_draws_nothing(self, run, images, tmp_path):
        broken = tmp_path / "broken.png"
        for contents, found in (
            (None, "broken.png: no such file"),
            (b"no image", "broken.png: not a readable image (no PNG or JPEG)"),
            (bomb(40_000, 40_000), "broken.png: not a readable image (Image size (1600000000 pixels)"),
            (bomb(3000, 2000), "broken.png: not a readable image (3000 x 2000 pixels)"),
            (encoded(Image.new("L", (1, 1))), "broken.png: the network does not take an image of 1 x 1 pixels"),
        ):
            if contents is not None:
                broken.write_bytes(contents)
            said = rankops_says("predict", images[0], broken, "--model", run, "--out", tmp_path / "drawn", code=1)
            assert found in said
            assert not (tmp_path / "drawn").exists()

    def test_says_in_a_line_what_is_wrong_with_the_model(self, images, run, store, tmp_path, monkeypatch):
        def said(model):
            return rankops_says("predict", images[0], "--model", model, code=1)

        assert "nowhere: no such folder" in said("nowhere")
        assert "has no scorer, so it is no label ranker" in said(tmp_path)
        assert "models:/label_ranking@nobody: not found in sqlite" in said("models:/label_ranking@nobody")
        assert "models:/nothing@champion: not found in sqlite" in said("models:/nothing@champion")
        with socket.socket() as taken:  # nothing answers there
            taken.bind((server.HOST, 0))
            address = f"http://person:secret@{server.HOST}:{taken.getsockname()[1]}"
            monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
            unreachable = said("models:/label_ranking@champion")
        assert "does not answer" in unreachable
        assert "secret" not in unreachable
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        monkeypatch.chdir(tmp_path)
        assert "mlflow.db: no such file, so nothing is registered" in said("models:/label_ranking@champion")
        assert not (tmp_path / "mlflow.db").exists()

    def test_says_where_annotated_pictures_cannot_go(self, tmp_path):
        one, other, same = (tmp_path / name for name in ("a/x.png", "b/y.png", "b/x.jpg"))
        for path in (one, other, same):
            path.parent.mkdir(exist_ok=True)
            path.touch()
        assert places_for([one, other], tmp_path / "out") == [tmp_path / "out/x.png", tmp_path / "out/y.png"]
        assert places_for([one], tmp_path) == [tmp_path / "x.png"]
        for paths, out, message in (
            ([one], tmp_path / "out.xyz", "not a kind of picture that can be drawn"),
            ([one, other], other, "a file; expected a folder for the 2"),
            ([one, same], tmp_path / "out", "would both become"),
            ([one], one, "would take the place of a picture that is read"),
            ([one, other], one.parent, "would take the place of a picture that is read"),
        ):
            with pytest.raises(ValueError, match=message):
                places_for(paths, out)


class TestPredictTable:
    ROWS = 150  # more than are read at once

    @pytest.fixture
    def images(self, generator):
        return [encoded(noise(generator, 16, 16)) for _ in range(self.ROWS)]

    @pytest.fixture
    def expected(self, images):
        pixels = torch.cat([picture(one, colors=1, where="") for one in images])
        return predictions(ranker_of(), (pixels, None))

    def write(self, path, image, **columns):
        pq.write_table(pa.table({**columns, "image": image}), path)
        return path

    def check(self, path, expected, ids=None):
        found = pq.read_table(path)
        assert found.drop_columns("id").schema == expected.drop_columns("id").schema
        assert found["id"].to_pylist() == (ids or list(range(len(expected))))
        for column in ("label_ranks", "selected"):
            assert found[column].to_pylist() == expected[column].to_pylist()
        assert np.allclose(found["scores"].to_pylist(), expected["scores"].to_pylist(), atol=1e-5)

    def test_is_what_the_stage_predicts_whatever_the_form_of_the_column(self, run, images, expected, tmp_path):
        form = pa.array([{"bytes": one, "path": None} for one in images], rankops.io.parquet.IMAGE)
        source = self.write(tmp_path / "in.parquet", form, label=list(range(self.ROWS)))
        said = rankops_says("predict-table", source, tmp_path / "out.parquet", "--model", run)
        assert f"out.parquet: predictions of {self.ROWS} images" in said
        self.check(tmp_path / "out.parquet", expected)
        for number, kind in enumerate((pa.binary(), pa.large_binary())):
            names = [f"photo {row}" for row in range(self.ROWS)]
            self.write(source, pa.array(images, kind), id=names)
            assert predict_table(source, tmp_path / f"{number}.parquet", load_ranker(str(run))) == self.ROWS
            self.check(tmp_path / f"{number}.parquet", expected, names)

    def test_row_groups_are_large_however_few_rows_are_read_at_once(self, run, images, expected, tmp_path, monkeypatch):
        monkeypatch.setattr(pipelines.serving.batch, "READ", 7)
        monkeypatch.setattr(pipelines.serving.batch, "WRITTEN", 100)
        source = self.write(tmp_path / "in.parquet", images)
        predict_table(source, tmp_path / "out.parquet", load_ranker(str(run)))
        self.check(tmp_path / "out.parquet", expected)
        assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 2

    def test_memory_does_not_grow_with_the_file(self, run, tmp_path, monkeypatch):
        few = [encoded(Image.effect_noise((64, 64), 99)) for _ in range(16)]
        count = 4000  # of 4 kilobytes each, in one row group
        form = pa.array([{"bytes": few[row % 16] + bytes([row % 251]), "path": None} for row in range(count)])
        source = tmp_path / "in.parquet"
        pq.write_table(
            pa.table({"image": form}), source, use_dictionary=False, compression="none", row_group_size=count
        )
        del form
        one, held = predictions(ranker_of(), (torch.zeros(1, 16, 16, dtype=torch.uint8), None)), []

        def instead(ranker, pictures):
            held.append(pa.total_allocated_bytes())
            return pa.concat_tables([one] * len(list(pictures)))

        monkeypatch.setattr(pipelines.serving.batch, "predicted", instead)
        before = pa.total_allocated_bytes()
        assert predict_table(source, tmp_path / "out.parquet", load_ranker(str(run))) == count
        assert source.stat().st_size > 12 * 2**20
        assert max(held) - before < 6 * 2**20

    def test_an_empty_table_stays_one(self, run, expected, tmp_path):
        source = self.write(tmp_path / "in.parquet", pa.array([], rankops.io.parquet.IMAGE))
        assert predict_table(source, tmp_path / "out.parquet", load_ranker(str(run))) == 0
        assert pq.read_schema(tmp_path / "out.parquet") == expected.schema

    @pytest.mark.parametrize("broken", [b"no image", None, bomb(30_000, 30_000)], ids=["text", "none", "bomb"])
    def test_a_broken_image_is_named_and_the_old_file_stays(self, run, images, broken, tmp_path):
        images[131] = broken
        source = self.write(tmp_path / "in.parquet", pa.array([one and {"bytes": one, "path": None} for one in images]))
        target = tmp_path / "out.parquet"
        target.write_bytes(b"old")
        said = rankops_says("predict-table", source, target, "--model", run, code=1)
        assert "in.parquet: row 131: not a readable image (" in said
        assert target.read_bytes() == b"old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]

    def test_says_in_a_line_what_is_wrong_with_the_files(self, run, images, tmp_path):
        source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"

        def said(source=source, target=target):
            return rankops_says("predict-table", source, target, "--model", run, code=1)

        assert "in.parquet: no such file" in said()
        source.write_bytes(b"PAR1 no parquet")
        assert "in.parquet: not a whole Parquet file" in said()
        pq.write_table(pa.table({"picture": images}), source)
        assert "in.parquet: no column image; it has picture" in said()
        self.write(source, ["a.png", "b.png"])
        assert "column image is of type string, expected struct<bytes: binary" in said()
        self.write(source, images)
        assert "the file that is read; name another" in said(target=source)
        assert "a folder; name another" in said(target=tmp_path)
        pages = bytearray(source.read_bytes())
        pages[40:20_000] = bytes(19_960)  # the end, which says what is where, stays
        source.write_bytes(pages)
        assert "in.parquet: not a whole Parquet file" in said()
        assert not target.exists()

    def test_a_full_disk_is_told_and_leaves_nothing(self, run, images, tmp_path, monkeypatch):
        def full(*arguments):
            raise OSError("error writing bytes to file")

        source = self.write(tmp_path / "in.parquet", images)
        monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
        said = rankops_says("predict-table", source, tmp_path / "out.parquet", "--model", run, code=1)
        assert "[Errno 28] could not be written" in said
        assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


class TestServer:
    """MLflow's own server, as `rankops serve` starts it, asked over HTTP."""

    @pytest.fixture(scope="class")
    def address(self, store):
        port = server.free_port()
        with server.running("models:/label_ranking@champion", port=port) as address:
            yield address
        with socket.socket() as probe:
            assert probe.connect_ex((server.HOST, port)) != 0  # it has ended

    def ask(self, address, body, kind="application/json"):
        """Status and answer."""
        contents = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(f"{address}/invocations", contents, {"Content-Type": kind})
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)["predictions"]
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def test_answers_with_ordered_labels_and_scores_in_both_forms(self, address, generator, run):
        images = [encoded(noise(generator, 16, 16)), encoded(noise(generator, 20, 24, 3), "JPEG")]
        sent = [base64.b64encode(one).decode() for one in images]
        expected = predicted(
            load_ranker(str(run)), [("", picture(one, colors=1, where="")) for one in images]
        ).to_pylist()
        for body in (
            {"dataframe_records": [{"image": one} for one in sent]},
            {"dataframe_split": {"columns": ["image"], "data": [[one] for one in sent]}},
        ):
            status, answers = self.ask(address, body)
            assert status == 200
            for answer, row in zip(answers, expected, strict=True):
                assert answer["scores"] == pytest.approx(row["scores"], abs=1e-5)
                assert answer["label_ranks"] == row["label_ranks"]
                assert answer["labels"] == order_of(row["label_ranks"])

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"dataframe_records": [{"image": base64.b64encode(b"no image").decode()}]}, "row 0: not a readable image"),
            ({"dataframe_records": [{"image": "%%% no base64"}]}, "row 0: not a readable image|Failed to convert"),
            ({"dataframe_records": [{"image": base64.b64encode(bomb(9000, 9000)).decode()}]}, "9000 x 9000 pixels"),
            ({"dataframe_records": [{"image": base64.b64encode(bomb(60_000, 60_000)).decode()}]}, "exceeds limit"),
            ({"dataframe_records": [{"image": None}]}, "Failed to convert column image"),
            ({"dataframe_records": [{"image": 7}]}, "Failed to convert column image"),
            ({"dataframe_records": [{"picture": "aGk="}]}, r"missing inputs \['image'\]"),
            ({"dataframe_split": {"columns": ["image"], "data": []}}, "no rows, expected at least one"),
            ({"dataframe_records": []}, r"missing inputs \['image'\]|no rows"),
            ({}, "exactly one of the input fields"),
            (b"", "valid JSON"),
            (b"{", "valid JSON"),
        ],
    )
    def test_a_malformed_request_gets_a_4xx_that_says_why(self, address, body, message):
        status, answer = self.ask(address, body)
        assert 400 <= status < 500
        assert "stack_trace" not in answer
        assert "Traceback" not in json.dumps(answer)
        assert re.search(message, answer["message"]), answer["message"]

    def test_forms_that_do_not_decode_base64_are_refused_too(self, address):
        for body, kind in ((b"image\naGFsbG8=", "text/csv"), ({"inputs": {"image": ["aGFsbG8="]}}, "application/json")):
            status, answer = self.ask(address, body, kind)
            assert status == 400
            assert "row 0: not a readable image" in answer["message"]
            assert "stack_trace" not in answer

    def test_one_bad_row_is_named(self, address, generator):
        good = base64.b64encode(encoded(noise(generator, 16, 16))).decode()
        status, answer = self.ask(address, {"dataframe_records": [{"image": good}, {"image": "aGk="}]})
        assert status == 400
        assert "row 1: not a readable image" in answer["message"]

    def test_many_at_once_are_all_answered_as_one_alone(self, address, generator):
        bodies = [
            {"dataframe_records": [{"image": base64.b64encode(encoded(noise(generator, 16, 16))).decode()}]}
            for _ in range(100)
        ]
        alone = [self.ask(address, body) for body in bodies[:5]]
        with ThreadPoolExecutor(100) as pool:
            together = list(pool.map(lambda body: self.ask(address, body), bodies))
        assert {status for status, _ in together} == {200}
        for (_, one), (_, other) in zip(alone, together, strict=False):
            assert one[0]["scores"] == pytest.approx(other[0]["scores"], abs=1e-5)

    def test_a_port_that_is_taken_and_a_missing_version_are_told_before_it_starts(self, store):
        with socket.socket() as taken:
            taken.bind((server.HOST, 0))
            taken.listen()
            port = taken.getsockname()[1]
            assert f"port {port} of 127.0.0.1: " in rankops_says("serve", "--port", port, code=1)
        assert "not found in sqlite" in rankops_says("serve", "--model", "models:/label_ranking@nobody", code=1)
        assert "serves what is registered" in rankops_says("serve", "--model", "models/runs/x", code=1)

    def test_is_started_for_this_machine_alone_and_without_pickle(self, monkeypatch):
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        words = " ".join(server.command("models:/x@champion", port=5))
        assert "models serve --env-manager local --model-uri models:/x@champion --host 127.0.0.1 --port 5" in words
        variables = server.environment()
        assert variables["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"
        assert variables["MLFLOW_DISABLE_TELEMETRY"] == "true"
        assert variables["MLFLOW_TRACKING_URI"] == publish.DEFAULT_STORE
