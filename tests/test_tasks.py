"""The three tasks of SoDeep: what trains them, what they predict, and how they are scored."""

import gc
import itertools
import json
import math
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from rankops.io.checkpoints import build, save_model, start_from
from rankops.io.parquet import encode_images
from rankops.metrics.bootstrap import interval, intervals
from rankops.metrics.evaluation import compare, evaluate
from rankops.models.layers import similarities
from rankops.models.tokenizer import Vocabulary
from rankops.ranks import ranks
from rankops.sorters.handcrafted import Handcrafted
from rankops.sorters.lstm import LSTM
from rankops.tasks import memorability, multilabel, retrieval
from rankops.training import finetune
from rankops.training.loop import random_batches
from rankops.training.objective import Criterion, grouped

CHANNELS = {"channels": [4, 6]}
CONVNET = {"name": "convnet", "args": CHANNELS}
DUAL = {"name": "dual_encoder", "args": CHANNELS | {"size": 8, "grid": 2, "word_size": 4}}
BESIDE = {"args": {}, "weight": 0.5, "epochs": 1}


def step(epochs: int) -> dict:
    optimizer = {"name": "AdamW", "args": {"lr": 3e-3}}
    return {"epochs": epochs, "patience": 9, "optimizer": optimizer, "schedule": {"name": "cosine"}}


TRAINING = {"batch_size": 8, "least_count": 1, "head": step(2), "everything": step(2) | {"shift": 1}}


@pytest.fixture
def start(tmp_path):
    """Weights of a network like those that are trained here."""
    network = build("models", "convnet", CHANNELS, seed=5, outputs=10)
    save_model(tmp_path / "start/scorer", network)
    return tmp_path / "start"


def small_sorter(length: int = 4) -> nn.Module:
    return build("sorters", "lstm", {"hidden": 4, "layers": 1}, seed=1, length=length).eval().requires_grad_(False)


def splits(task: str, generator: torch.Generator, rows: int = 20):
    images = torch.randint(0, 256, (rows, 16, 16), generator=generator, dtype=torch.uint8)
    if task == "memorability":
        return images[: rows // 2 * 2].repeat(3, 1, 1).unflatten(0, (rows, 3)), torch.rand(rows, generator=generator)
    if task == "multilabel":
        labels = (torch.rand(rows, 3, generator=generator) < 0.4).long()
        labels[:2] = torch.tensor([[1, 0, 1], [0, 1, 0]])
        return images, labels, torch.zeros(rows, 3, dtype=torch.bool)
    captions = [[f"a {number} above {word}" for word in ("this", "that")] for number in range(rows)]
    return images, captions, torch.arange(rows)


TASKS = {"memorability": memorability, "multilabel": multilabel, "retrieval": retrieval}
CASES = [
    ("memorability", CONVNET, "mse", None, None),
    ("memorability", CONVNET, "spearman", "lstm", "l1"),
    ("memorability", CONVNET, "spearman", "handcrafted", None),
    ("multilabel", CONVNET, "multilabel_soft_margin", None, None),
    ("multilabel", {"name": "wildcat", "args": CHANNELS}, "mean_average_precision", "lstm", "multilabel_soft_margin"),
    ("multilabel", CONVNET, "hinge_ap", None, None),
    ("retrieval", DUAL, "hard_negative_triplet", None, None),
    ("retrieval", DUAL, "recall", "lstm", "hard_negative_triplet"),
    ("retrieval", DUAL, "recall_at_k", "handcrafted", None),
]


def run_of(case, data, start, device="cpu", **options):
    task, model, loss, sorter, beside = case
    made = {"lstm": small_sorter, "handcrafted": Handcrafted, None: lambda: None}[sorter]()
    return TASKS[task].train(
        data, data, model=model, loss={"name": loss, "args": {}}, training=TRAINING, seed=0, device=device,
        start=start, sorter=made, beside=None if beside is None else BESIDE | {"name": beside}, **options,
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}-{case[3]}")
class TestEveryTaskAndLoss:
    def test_trains_in_two_steps_to_what_comes_back_from_disk_and_can_be_scored(self, case, start, generator, tmp_path):
        task, data = TASKS[case[0]], splits(case[0], generator)
        seen = []
        for name, epoch, predictor in run_of(case, data, start):
            seen.append((name, epoch.number))
            assert task.JUDGED_BY in epoch.validation
        assert seen == [("head", 1), ("head", 2), ("everything", 1), ("everything", 2)]
        task.save(tmp_path / "run", predictor)
        table = task.predictions(predictor, data)
        assert table.equals(task.predictions(task.load(tmp_path / "run"), data))
        figures = evaluate(task.figures(table, data), resamples=20, seed=0)
        assert figures == evaluate(task.figures(table, data), resamples=20, seed=0)
        figure = next(iter(figures.values()))
        bounds = figure if "value" in figure else figure["recall_at_1"]
        assert bounds["low"] <= bounds["value"] <= bounds["high"]

    def test_a_killed_training_ends_with_the_same_bits(self, case, start, generator, tmp_path):
        data = splits(case[0], generator)
        fine_tune = {"name": "Adam", "args": {"lr": 1e-2}} if case[3] == "lstm" else None
        options = {"fine_tune": fine_tune} if fine_tune else {}
        whole = [(name, epoch) for name, epoch, _ in run_of(case, data, start, **options)]
        for stop in (1, 3):
            begun = run_of(case, data, start, checkpoint=tmp_path / str(stop), **options)
            for _ in range(stop):
                next(begun)
            begun.close()
            torch.manual_seed(stop)
            again = [(name, e) for name, e, _ in run_of(case, data, start, checkpoint=tmp_path / str(stop), **options)]
            assert again == whole


@pytest.mark.parametrize("rate", [3e-3, 300.0], ids=["learns", "is ruined"])
def test_an_epoch_of_the_second_step_is_best_only_beside_the_heads(start, generator, monkeypatch, rate):
    """The last epoch that is called best has the weights that are kept."""
    data, training = splits("memorability", generator, rows=30), TRAINING | {"everything": step(2) | {"shift": 0}}
    training["everything"]["optimizer"] = {"name": "SGD", "args": {"lr": rate}, "clip": 1.0}
    monkeypatch.setitem(globals(), "TRAINING", training)
    epochs = []
    for _, epoch, regressor in run_of(CASES[0], data, start):
        epochs.append(epoch)
    kept = [epoch.validation["spearman"] for epoch in epochs if epoch.best][-1]
    assert kept == max(epoch.validation["spearman"] for epoch in epochs)
    found = evaluate(memorability.figures(memorability.predictions(regressor, data), data), resamples=2, seed=0)
    assert found["spearman"]["value"] == pytest.approx(kept, abs=1e-5)


def test_the_first_step_leaves_the_convolutions_alone_and_is_left_out_without_a_start(start, generator):
    data = splits("memorability", generator)
    given = build("models", "convnet", CHANNELS, seed=9, outputs=1)
    start_from(given, start)
    for name, _, regressor in run_of(CASES[0], data, start):
        blocks = regressor.network.blocks.state_dict()
        same = all(blocks[key].equal(value) for key, value in given.blocks.state_dict().items())
        assert same == (name == "head")
    assert [name for name, _, _ in run_of(CASES[0], data, None)] == ["everything", "everything"]


def test_the_second_step_draws_anew_and_keeps_no_frozen_features(start, generator, monkeypatch):
    data, training = splits("memorability", generator), TRAINING | {"everything": step(2) | {"shift": 0}}
    monkeypatch.setitem(globals(), "TRAINING", training)
    orders, alive = [], []
    drawn = finetune.random_batches
    monkeypatch.setattr(
        finetune, "random_batches", lambda *args, **options: orders.append(list(drawn(*args, **options))) or orders[-1]
    )
    features = finetune.embedded
    monkeypatch.setattr(finetune, "embedded", lambda *args: alive.append(weakref.ref(made := features(*args))) or made)
    for name, _, _ in run_of(CASES[0], data, start):
        if name == "everything":
            gc.collect()
            assert not any(one() is not None for one in alive[1:3])  # of the training and validation split
    assert len({str(order) for order in orders}) == len(orders) == 4


def test_an_encoder_and_a_vocabulary_that_were_not_saved_together_are_refused(start, generator, tmp_path):
    *_, (_, _, encoder) = run_of(CASES[6], splits("retrieval", generator), start)
    retrieval.save(tmp_path / "run", encoder)
    file = tmp_path / "run/vocabulary.json"
    file.write_text(json.dumps([*encoder.vocabulary.words, "zebra"]))
    with pytest.raises(
        ValueError, match=rf"{len(encoder.vocabulary) + 1} words, but the network .* not saved together"
    ):
        retrieval.load(tmp_path / "run")
    file.write_text('["<padding>",')
    with pytest.raises(ValueError, match=r"vocabulary.json: no list of words"):
        retrieval.load(tmp_path / "run")


def test_weights_to_start_from_must_be_there_and_fit(tmp_path, start):
    network = build("models", "convnet", CHANNELS, seed=0, outputs=1)
    start_from(network, start)
    with pytest.raises(
        FileNotFoundError, match="no weights to start from; expected .*nothing/scorer/model.safetensors"
    ):
        start_from(network, tmp_path / "nothing")
    other = build("models", "convnet", {"channels": [4, 8]}, seed=0, outputs=1)
    with pytest.raises(ValueError, match=r"blocks\.\d+\.weight: found \(6, 4, 3, 3\), expected \(8, 4, 3, 3\)"):
        start_from(other, start)
    (start / "scorer/model.safetensors").write_bytes(b"half")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        start_from(network, start)


def test_torchvisions_own_names_are_understood(tmp_path):
    from safetensors.torch import save_file
    from torchvision.models import mobilenet_v3_small, resnet34

    theirs = resnet34(weights=None)
    save_file(theirs.state_dict(), tmp_path / "resnet34.safetensors")
    ours = build("models", "resnet34", {}, seed=0, outputs=1)
    start_from(ours, tmp_path / "resnet34.safetensors")
    assert ours.blocks.layer4[0].conv1.weight.equal(theirs.layer4[0].conv1.weight)
    save_file(mobilenet_v3_small(weights=None).state_dict(), tmp_path / "mobilenet.safetensors")
    with pytest.raises(ValueError, match="expect images normalized as photographs are"):
        start_from(build("models", "mobilenet_v3_small", {}, seed=0, outputs=1), tmp_path / "mobilenet.safetensors")


class TestCriterion:
    def test_adds_the_loss_beside_it_for_its_epochs(self, generator):
        scores, target = torch.randn(2, 4, generator=generator), torch.rand(2, 4, generator=generator)
        criterion = Criterion(
            {"name": "spearman", "args": {}}, sorter=Handcrafted(), beside=BESIDE | {"name": "l1", "epochs": 2}
        )
        alone = Criterion({"name": "spearman", "args": {}}, sorter=Handcrafted())(scores, target, epoch=1)
        l1 = (scores - target).abs().mean()
        for epoch, expected in ((1, alone + l1 / 2), (2, alone + l1 / 2), (3, alone)):
            assert criterion(scores, target, epoch=epoch).item() == pytest.approx(expected.item())

    def test_fine_tuning_makes_the_sorter_better_on_the_scores_it_gets_and_frozen_leaves_it(self, generator):
        vectors = torch.randn(64, 4, generator=generator) * 0.01
        target = torch.rand(64, 4, generator=generator)
        for fine_tune in (None, {"name": "Adam", "args": {"lr": 1e-2}}):
            sorter = small_sorter()
            before = {key: value.clone() for key, value in sorter.state_dict().items()}
            error = (sorter(vectors) - ranks(vectors)).abs().mean()
            criterion = Criterion({"name": "spearman", "args": {}}, sorter=sorter, fine_tune=fine_tune)
            for _ in range(40):
                scores = vectors.clone().requires_grad_()
                criterion(scores, target, epoch=1).backward()
                assert torch.isfinite(scores.grad).all()
            assert not any(parameter.requires_grad for parameter in sorter.parameters())
            if fine_tune is None:
                assert all(before[key].equal(value) for key, value in sorter.state_dict().items())
                assert criterion.state == []
            else:
                assert (sorter(vectors) - ranks(vectors)).abs().mean() < 0.9 * error
                assert len(criterion.state) == 2

    def test_without_gradients_the_sorter_learns_nothing(self, generator):
        sorter = small_sorter()
        before = {key: value.clone() for key, value in sorter.state_dict().items()}
        fine_tune = {"name": "Adam", "args": {"lr": 1e-2}}
        criterion = Criterion({"name": "spearman", "args": {}}, sorter=sorter, fine_tune=fine_tune)
        scores, target = torch.randn(3, 4, generator=generator), torch.rand(3, 4, generator=generator)
        for off in (torch.no_grad(), torch.inference_mode()):
            with off:
                criterion(scores, target, epoch=1)
        assert all(before[key].equal(value) for key, value in sorter.state_dict().items())

    def test_freezes_a_sorter_that_was_not(self, generator):
        sorter = build("sorters", "cnn", {"channels": 4, "layers": 2}, seed=0, length=4)
        before = {key: value.clone() for key, value in sorter.state_dict().items()}
        scores = torch.randn(3, 4, generator=generator, requires_grad=True)
        Criterion({"name": "spearman", "args": {}}, sorter=sorter)(scores, torch.rand(3, 4), epoch=1).backward()
        assert scores.grad.abs().max() > 0
        assert all(parameter.grad is None for parameter in sorter.parameters())
        assert all(before[key].equal(value) for key, value in sorter.state_dict().items())

    def test_refuses_what_does_not_go_together(self):
        with pytest.raises(ValueError, match="spearman needs a sorter"):
            Criterion({"name": "spearman", "args": {}})
        with pytest.raises(ValueError, match="mse takes no sorter"):
            Criterion({"name": "mse", "args": {}}, sorter=Handcrafted())
        with pytest.raises(ValueError, match="Handcrafted has no weights to fine-tune"):
            Criterion(
                {"name": "spearman", "args": {}}, sorter=Handcrafted(), fine_tune={"name": "Adam", "args": {"lr": 1.0}}
            )


def test_a_frozen_sorter_passes_gradients_in_evaluation_mode(generator):
    sorter = LSTM(length=4, hidden=4, layers=1).eval().requires_grad_(False)
    assert sorter.recurrent.training  # cuDNN has no gradient otherwise
    assert not sorter.training
    scores = torch.randn(3, 4, generator=generator, requires_grad=True)
    sorter(scores).square().sum().backward()
    assert (scores.grad != 0).any()


def test_batches_are_cut_to_whole_groups_and_others_are_left_out_each_time(generator):
    passes = [torch.cat(list(random_batches(21, 8, generator, multiple_of=4))).tolist() for _ in range(30)]
    assert all(len(set(rows)) == 20 for rows in passes)
    assert len({row for rows in passes for row in set(range(21)) - set(rows)}) > 5
    with pytest.raises(ValueError, match="batches of 6 out of 21 rows do not make groups of 4"):
        list(random_batches(21, 6, generator, multiple_of=4))
    with pytest.raises(ValueError, match="batches of 8 out of 3 rows"):
        list(random_batches(3, 8, generator, multiple_of=4))
    with pytest.raises(ValueError, match="7 examples do not make groups of 3"):
        grouped(torch.zeros(7), 3)


class TestFigures:
    def test_spearman_is_scipys_and_the_interval_leaves_out_constant_resamples(self, generator):
        scores, target = torch.randn(6, generator=generator), torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5, 0.7])
        table = pa.table({"id": range(6), "score": scores.numpy(), "target": target.numpy()})
        figure = evaluate(memorability.figures(table, None), resamples=200, seed=0)["spearman"]
        assert figure["value"] == pytest.approx(spearmanr(scores, target).statistic)
        assert np.isfinite(list(figure.values())).all()
        constant = table.set_column(2, "target", pa.array([0.5] * 6))
        with pytest.raises(ValueError, match="Spearman is undefined"):
            evaluate(memorability.figures(constant, None), resamples=20, seed=0)

    def test_a_class_whose_positives_a_resample_lost_is_left_out_of_it(self):
        scores = [[2.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 3.0]]
        labels = [[1, 0], [1, 0], [0, 0], [0, 1]]
        difficult = [[False, False]] * 4
        table = pa.table({"id": range(4), "scores": scores, "labels": labels, "difficult": difficult})
        figures = evaluate(multilabel.figures(table, None), resamples=100, seed=0)
        assert figures["mean_average_precision"] == {"value": 1.0, "low": 1.0, "high": 1.0}
        assert set(figures["average_precision"]) == {"0", "1"}

    def test_recall_is_of_folds_searched_by_themselves(self):
        # Ten images, two a fold: in each fold the first caption points to its own image, the second to the other.
        images = torch.eye(2).repeat(5, 1)
        texts = torch.stack([images, images.flip(1)], dim=1)
        table = pa.table(
            {"id": range(10), "image_embedding": images.tolist(), "text_embeddings": texts.tolist(),
             "captions": [["x", "y"]] * 10}
        )  # fmt: skip
        split = images, [["x", "y"]] * 10, torch.arange(10)
        figures = evaluate(retrieval.figures(table, split), resamples=20, seed=0)
        assert figures["text_to_image"]["recall_at_1"]["value"] == 0.5
        assert figures["text_to_image"]["recall_at_5"]["value"] == 1.0
        # Each image is matched as well by its own first caption as by the other's second: a tie counts against it.
        assert figures["image_to_text"]["recall_at_1"]["value"] == 0.0
        assert figures["image_to_text"]["median_rank"]["value"] == 2.0

    def test_twins_are_drawn_together(self):
        # Five folds of two twins: in the first fold all is found at once, in the others nothing is.
        images = torch.eye(2).repeat(5, 1)
        texts = torch.cat([images[:2], -images[2:]]).unsqueeze(1)
        table = pa.table({"image_embedding": images.tolist(), "text_embeddings": texts.tolist()})
        twins = retrieval.figures(table, (images, [["x"]] * 10, torch.arange(10) // 2))
        assert twins.examples == 5
        place = twins.names.index("text_to_image.recall_at_1")
        assert twins.of_rows(np.array([[0, 0, 1, 2], [4, 3, 2, 1]]))[place].tolist() == [0.5, 0.0]
        with pytest.raises(ValueError, match=r"families of \[1, 3\] images, expected one size"):
            retrieval.figures(table, (images, [["x"]] * 10, torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3])))

    def test_kept_features_of_another_network_are_not_taken(self, tmp_path):
        network = build("models", "convnet", {"channels": [4, 6]}, seed=0, outputs=3, colors=1)
        save_model(tmp_path / "start/scorer", network)
        draws = torch.Generator().manual_seed(0)
        split = torch.randint(0, 256, (12, 2, 16, 16), generator=draws, dtype=torch.uint8), torch.rand(12)
        steps = {"patience": 1, "optimizer": {"name": "SGD", "args": {"lr": 0.1}}, "schedule": {"name": "constant"}}
        features, judged = {}, []
        for seed in (1, 2):
            *_, (_, epoch, regressor) = memorability.train(
                split, split, model={"name": "label_attention", "args": {"channels": [4, 6]}},
                loss={"name": "mse", "args": {}}, seed=seed, start=tmp_path / "start", features=features, device="cpu",
                training={"batch_size": 4, "head": {"epochs": 1, **steps}, "everything": {"epochs": 0, "shift": 0}},
            )  # fmt: skip
            scores = regressor(split[0])
            judged.append((epoch.validation["spearman"], spearmanr(scores, split[1]).statistic))
        for told, found in judged:
            assert told == pytest.approx(found)

    def test_a_difference_is_of_the_same_examples_in_each_resample(self):
        """Two models that err together: their figures are uncertain, their difference is not."""
        target = np.random.default_rng(0).normal(size=60)
        noise = np.random.default_rng(1).normal(size=60)
        tables = [
            pa.table({"id": range(60), "score": target + 0.9 * noise + shift, "target": target})
            for shift in (0.0, 0.01 * noise)
        ]
        first, second = (memorability.figures(table, None) for table in tables)
        alone = evaluate(first, resamples=200, seed=0)["spearman"]
        difference = compare(first, second, resamples=200, seed=0)["spearman"]
        assert difference["value"] == pytest.approx(
            alone["value"] - evaluate(second, resamples=200, seed=0)["spearman"]["value"]
        )
        assert difference["high"] - difference["low"] < 0.2 * (alone["high"] - alone["low"])
        assert compare(first, first, resamples=20, seed=0)["spearman"] == {"value": 0.0, "low": 0.0, "high": 0.0}

    def test_figures_of_other_examples_are_not_compared(self):
        some, more = (
            memorability.figures(pa.table({"score": range(count), "target": range(count)}), None) for count in (5, 6)
        )
        with pytest.raises(ValueError, match="5 examples .* cannot be compared with 6"):
            compare(some, more, resamples=20, seed=0)

    def test_intervals_of_several_statistics_are_those_of_each(self):
        values = np.random.default_rng(0).normal(size=30)
        both = intervals(values, statistic=lambda v, axis: np.stack([v.mean(axis), np.median(v, axis)]),
                         resamples=50, generator=np.random.default_rng(1))  # fmt: skip
        assert both[0] == interval(values, resamples=50, generator=np.random.default_rng(1))
        with pytest.raises(ValueError, match="is not defined for these 30"):
            interval(values, statistic=lambda v, axis: v.mean(axis) * np.nan, resamples=5,
                     generator=np.random.default_rng(1))  # fmt: skip


class TestSplits:
    """What is wrong with a table is named with its row."""

    def write(self, tmp_path, **columns):
        pq.write_table(pa.table(columns), tmp_path / "train.parquet")
        return tmp_path

    def images(self, count):
        return encode_images(np.zeros((count, 4, 4), np.uint8), threads=1)

    def test_clips(self, tmp_path):
        frames = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), self.images(3))
        with pytest.raises(ValueError, match="row 1: 1 frames, expected 2 as in row 0"):
            memorability.load_split(self.write(tmp_path, frames=frames, score=[0.5, 0.5]), "train", threads=1)
        frames = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), self.images(2))
        with pytest.raises(ValueError, match="row 1: score is nan"):
            memorability.load_split(self.write(tmp_path, frames=frames, score=[0.5, np.nan]), "train", threads=1)

    def test_labels(self, tmp_path):
        folder = self.write(tmp_path, image=self.images(2), labels=[[1, 0], [0, 3]], difficult=[[False, False]] * 2)
        with pytest.raises(ValueError, match="row 1: label 1 is 3, expected 0 or 1"):
            multilabel.load_split(folder, "train", threads=1)
        folder = self.write(tmp_path, image=self.images(2), labels=[[1, 0], [0]], difficult=[[False, False]] * 2)
        with pytest.raises(ValueError, match="column labels: lists of different lengths"):
            multilabel.load_split(folder, "train", threads=1)

    @pytest.mark.parametrize(
        ("captions", "message"),
        [([["a", "b"], ["c"]], "row 1: 1 captions, expected 2"), ([["a"], ["?!"]], r"row 1: a caption is '\?!'"),
         ([["a"], [""]], "row 1: a caption is ''"), ([[], []], "row 0: 0 captions")],
    )  # fmt: skip
    def test_captions(self, tmp_path, captions, message):
        folder = self.write(tmp_path, image=self.images(2), captions=pa.array(captions, pa.list_(pa.string())))
        with pytest.raises(ValueError, match=message):
            retrieval.load_split(folder, "train", threads=1)


class TestVocabulary:
    def test_unknown_words_are_one_number_and_empty_captions_are_refused(self):
        vocabulary = Vocabulary.of(["the three", "the seven"], least=1)
        assert vocabulary.encode(["the eight three", "seven"]).tolist() == [[3, 1, 4], [2, 0, 0]]
        with pytest.raises(ValueError, match=r"caption 1 is '\.\.', expected at least one word"):
            vocabulary.encode(["the", ".."])
        assert Vocabulary.split("It's the DOG's, isn't_it?") == ["it's", "the", "dog's", "isn't", "it"]

    def test_padding_changes_nothing_and_order_does(self, generator):
        network = build("models", "dual_encoder", DUAL["args"], seed=0, words=9).eval()
        short, long = torch.tensor([[2, 3]]), torch.tensor([[2, 3, 0, 0]])
        assert network.encode_text(short).allclose(network.encode_text(long))
        assert not network.encode_text(short).allclose(network.encode_text(short.flip(1)))
        with pytest.raises(ValueError, match="caption 0 has no words"):
            network.encode_text(torch.zeros(1, 3, dtype=torch.long))


def test_a_network_that_sees_colored_images(generator):
    images = torch.randint(0, 256, (2, 3, 16, 16), generator=generator, dtype=torch.uint8)
    for name, args in (
        ("convnet", CHANNELS),
        ("wildcat", CHANNELS),
        ("label_attention", CHANNELS),
        ("resnet34", {}),
        ("mobilenet_v3_small", {}),
    ):
        network = build("models", name, args, seed=0, outputs=4, colors=3).eval()
        assert network(images).shape == (2, 4)
        assert network.head(network.embed(images)).allclose(network(images), atol=1e-5)


@pytest.mark.parametrize("name", ["convnet", "wildcat", "label_attention", "resnet34", "mobilenet_v3_small"])
def test_scores_in_half_precision_are_not_rounded_to_ties(name, generator):
    network = build("models", name, {}, seed=0, outputs=500).eval().requires_grad_(False)
    images = torch.randint(0, 256, (2, 1, 64, 64), generator=generator, dtype=torch.uint8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = network(images)
    assert scores.dtype == torch.float32
    assert all(len(set(row.tolist())) > 490 for row in scores)
    assert network.half()(images.half()).dtype in (torch.float16, torch.float32)  # all of it in half works too


def test_similarities_in_half_precision_are_not_rounded_to_ties(generator):
    network = build("models", "dual_encoder", DUAL["args"] | {"size": 32}, seed=0, words=50)
    images = torch.randint(0, 256, (40, 1, 16, 16), generator=generator, dtype=torch.uint8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = similarities(network(images), network.encode_text(torch.randint(1, 50, (40, 3), generator=generator)))
    assert all(len(set(row.tolist())) == 40 for row in found)


def test_label_attention_scores_what_each_label_looks_at(generator):
    network = build("models", "label_attention", CHANNELS, seed=0, outputs=3).eval().requires_grad_(False)
    network.attention.weight.mul_(100)  # or else each looks everywhere
    network.bias.normal_(generator=generator)
    images = torch.randint(0, 256, (2, 1, 16, 16), generator=generator, dtype=torch.uint8)
    found, maps = network(images), network.backbone.maps(images)
    for image, label in itertools.product(range(2), range(3)):
        places = [maps[image, :, row, column] for row in range(maps.shape[2]) for column in range(maps.shape[3])]
        weights = [math.exp(network.attention.weight[label, :, 0, 0] @ place) for place in places]
        scores = [float(network.weight[label] @ place + network.bias[label]) for place in places]
        expected = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
        assert found[image, label].item() == pytest.approx(expected, abs=1e-5)


def test_features_are_those_of_a_network_that_does_not_learn_and_it_is_left_as_it_was():
    network = build("models", "convnet", {"channels": [4, 6]}, seed=0, outputs=1).train()
    before = {name: values.clone() for name, values in network.state_dict().items()}
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (3, 1, 16, 16), generator=draws, dtype=torch.uint8)
    features = finetune.embedded(network, images)
    assert network.training
    assert not features.requires_grad
    assert all(values.equal(before[name]) for name, values in network.state_dict().items())
    with torch.no_grad():
        assert features.equal(network.eval().embed(images))


def test_similarities_of_double_precision_stay_in_it():
    apart = torch.tensor([[1.0], [1.0 + 1e-12]], dtype=torch.float64)
    found = similarities(apart, apart[:1])
    assert found.dtype == torch.float64
    assert found[1] > found[0]


class TestParts:
    """What a task hands to `finetune.train`, which here trains nothing."""

    @pytest.fixture
    def parts(self, monkeypatch):
        given = {}
        monkeypatch.setattr(finetune, "train", lambda **options: given.update(options) or [])

        def of(task, train, val=None):
            model = DUAL if task == "retrieval" else CONVNET
            list(TASKS[task].train(train, val or train, model=model, loss={}, training=TRAINING, seed=0))
            return given

        return of

    def drawn(self, parts):
        """Numbers of images, and what is known of each, of many batches of rows 4, 0 and 2."""
        draws = torch.Generator().manual_seed(0)
        return [parts["draw"](torch.tensor([4, 0, 2]), draws) for _ in range(30)]

    def test_each_clip_is_seen_by_any_of_its_frames_with_its_own_score(self, parts):
        frames, target = torch.arange(18, dtype=torch.uint8).view(6, 3, 1, 1).expand(6, 3, 4, 4), torch.arange(6.0)
        given = parts("memorability", (frames, target))
        seen = [set(), set(), set()]
        for numbers, known in self.drawn(given):
            assert known.tolist() == [4, 0, 2]
            for frame, place in zip(given["images"][numbers][:, 0, 0, 0].tolist(), seen, strict=True):
                place.add(frame)
        assert seen == [{12, 13, 14}, {0, 1, 2}, {6, 7, 8}]

    def test_each_image_is_seen_with_its_own_labels(self, parts, generator):
        images, labels, _ = split = splits("multilabel", generator)
        given = parts("multilabel", split)
        for numbers, known in self.drawn(given):
            assert known.equal(labels[[4, 0, 2]])
            assert given["images"][numbers].equal(images[[4, 0, 2]].unsqueeze(1))

    def test_each_image_is_seen_with_any_of_its_own_captions(self, parts):
        captions = [[f"picture{number} {which}" for which in ("one", "two", "three")] for number in range(6)]
        given = parts("retrieval", (torch.zeros(6, 4, 4, dtype=torch.uint8), captions, torch.arange(6)))
        vocabulary = Vocabulary.of([caption for several in captions for caption in several])
        seen = [set(), set(), set()]
        for numbers, known in self.drawn(given):
            assert numbers.tolist() == [4, 0, 2]
            for words, place in zip(known.tolist(), seen, strict=True):
                place.add(" ".join(vocabulary.words[word] for word in words))
        assert seen == [set(captions[4]), set(captions[0]), set(captions[2])]

    def test_difficult_objects_are_skipped_in_validation(self, parts, generator):
        scores = torch.tensor([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]])
        labels = torch.tensor([[1, 0], [1, 1], [0, 0]])
        images = torch.zeros(3, 4, 4, dtype=torch.uint8)
        judged = []
        for difficult in ([0, 0], [1, 0]):  # in the first image
            split = images, labels, torch.tensor([difficult, [0, 0], [0, 0]]).bool()
            judged.append(parts("multilabel", split)["figures"](None, scores)[multilabel.JUDGED_BY])
        assert judged == pytest.approx([((1 + 2 / 3) / 2 + 1 / 3) / 2, (1 + 1 / 3) / 2])

    def test_retrieval_is_judged_by_the_mean_of_both_directions(self, parts):
        # Each image finds its first caption at once; its second caption finds the other image.
        texts = torch.tensor([[1.0, 0.0], [0.0, 0.5], [0.0, 1.0], [0.5, 0.0]])
        given = parts("retrieval", (torch.zeros(2, 4, 4, dtype=torch.uint8), [["a", "b"], ["c", "d"]], torch.arange(2)))

        class Told(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(1))

            def encode_text(self, words):
                return texts

        found = given["figures"](Told(), torch.eye(2))
        assert found == {"recall_at_1": 0.75, "image_to_text": 1.0, "text_to_image": 0.5}

    def test_a_difficult_positive_counts_in_no_figure(self):
        table = pa.table(
            {"scores": [[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]], "labels": [[1, 0], [1, 1], [0, 0]],
             "difficult": [[True, False], [False, True], [False, False]]}
        )  # fmt: skip
        figures = multilabel.figures(table, None)
        assert figures.names == ["mean_average_precision", "average_precision.0"]  # the other has none that counts
        assert figures.of_rows(np.arange(3)).tolist() == [1.0, 1.0]


class TestTwoSteps:
    def train(self, start, **changed):
        draws = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (8, 1, 16, 16), generator=draws, dtype=torch.uint8)
        return finetune.train(**{
            "model": CONVNET, "outputs": {"outputs": 1}, "loss": {"name": "mse", "args": {}}, "training": TRAINING,
            "rows": 8, "images": images, "val_images": images, "judged_by": "figure", "seed": 0, "name": "test",
            "draw": lambda rows, draws: (rows, rows.float()), "start": start, "device": "cpu",
            "compared": lambda network, outputs, known, length: (outputs.squeeze(1), known),
            "figures": lambda network, outputs: {"figure": 0.5},
        } | changed)  # fmt: skip

    def test_of_equal_epochs_the_first_of_the_second_step_is_best_and_kept(self, start):
        best = []
        for step, epoch, network in self.train(start):
            if epoch.best:
                best.append((step, epoch.number))
                kept = {key: value.clone() for key, value in network.state_dict().items()}
        assert best == [("head", 1), ("everything", 1)]
        assert all(kept[key].equal(value) for key, value in network.state_dict().items())

    def test_epochs_count_on_so_that_a_loss_beside_ends_once_and_images_move_in_the_second_step(
        self, start, monkeypatch
    ):
        counted, moved, called = [], [], Criterion.__call__

        def call(self, *args, epoch):
            counted.append(epoch)
            return called(self, *args, epoch=epoch)

        shifted = finetune.shifted
        monkeypatch.setattr(Criterion, "__call__", call)
        monkeypatch.setattr(
            finetune,
            "shifted",
            lambda images, most, draws: moved.append((len(counted), most)) or shifted(images, most, draws),
        )
        training = TRAINING | {"everything": step(2) | {"shift": 3}}
        assert len(list(self.train(start, training=training))) == 4  # of one batch each
        assert counted == [1, 2, 3, 4]
        assert moved == [(2, 3), (3, 3)]

    @pytest.mark.parametrize("place", [None, "start"])
    def test_what_is_validated_are_the_validation_images(self, start, place):
        levels = torch.tensor([10, 250, 90], dtype=torch.uint8)
        images = levels.view(3, 1, 1, 1).expand(3, 1, 16, 16)
        seen = []
        one = step(1) | {"shift": 0}
        training = TRAINING | ({"head": one, "everything": one | {"epochs": 0}} if place else {"everything": one})
        *_, (_, _, network) = self.train(
            start if place else None, training=training, val_images=images,
            figures=lambda network, outputs: seen.append(outputs.clone()) or {"figure": 0.5},
        )  # fmt: skip
        assert len(seen) == 1
        assert seen[0].allclose(network(images), atol=1e-5)


@pytest.mark.parametrize(("name", "folder"), [("wildcat", "network"), ("convnet", "scorer"), ("convnet", ".")])
def test_a_run_of_any_task_gives_its_convolutions(name, folder, tmp_path):
    theirs, ours = (build("models", one, CHANNELS, seed=seed, outputs=2) for seed, one in enumerate((name, "convnet")))
    save_model(tmp_path / folder, theirs)
    start_from(ours, tmp_path)
    given = (theirs.backbone if name == "wildcat" else theirs).blocks.state_dict()
    assert all(given[key].equal(value) for key, value in ours.blocks.state_dict().items())


def losses_of(data, start, training, **options) -> list[float]:
    trained = memorability.train(
        data, data, model=CONVNET, loss={"name": "mse", "args": {}}, training=training, seed=0, device="cpu",
        start=start, **options,
    )  # fmt: skip
    return [epoch.loss for _, epoch, _ in trained]


def test_the_second_step_teaches_the_convolutions_themselves(start, generator):
    """Statistics of batch normalization change without a step of theirs."""
    given = build("models", "convnet", CHANNELS, seed=9, outputs=1)
    start_from(given, start)
    for name, _, regressor in run_of(CASES[0], splits("memorability", generator), start):
        assert regressor.network.blocks[0].weight.equal(given.blocks[0].weight) == (name == "head")


def test_epochs_of_a_loss_beside_it_are_counted_through_both_steps(start, generator):
    data = splits("memorability", generator)
    # One batch an epoch, so that the second epoch's loss is of the weights that the first one left.
    training = {"batch_size": 20, "head": step(1), "everything": step(1) | {"shift": 0}}
    throughout, first, both = (
        losses_of(data, start, training, beside=BESIDE | {"name": "l1", "epochs": epochs}) for epochs in (None, 1, 2)
    )
    assert throughout == both
    assert throughout[0] == first[0]
    assert throughout[1] > first[1]


def test_the_learning_rate_moves_by_the_batches_that_make_whole_groups(generator):
    rates = {"name": "step", "factor": 0.5, "every_epochs": 1.0}
    training = {"batch_size": 4, "head": step(0), "everything": step(3) | {"shift": 0, "schedule": rates}}
    data = splits("memorability", generator, rows=6)  # one batch of four in an epoch; two rows make no group
    trained = memorability.train(
        data, data, model=CONVNET, loss={"name": "spearman", "args": {}}, training=training, seed=0, device="cpu",
        sorter=small_sorter(4),
    )  # fmt: skip
    assert [epoch.learning_rate for _, epoch, _ in trained] == pytest.approx([3e-3, 1.5e-3, 0.75e-3])


def test_each_step_of_a_fine_tuned_sorter_is_down_the_gradient_of_its_own_error_alone(generator):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(0.5))

        def forward(self, scores):
            return self.factor * scores

    sorter = Scaled()
    criterion = Criterion(
        {"name": "spearman", "args": {}}, sorter=sorter, fine_tune={"name": "SGD", "args": {"lr": 2.0}}
    )
    expected = 0.5
    for _ in range(3):
        scores, target = torch.randn(2, 5, generator=generator), torch.rand(2, 5, generator=generator)
        criterion(scores, target, epoch=1)
        # |factor * s - rk(s)|, in the mean, on ranks from 0 to 1
        signs = np.sign(expected * scores.numpy() - ranks(scores).numpy())
        expected -= 2.0 * (signs * scores.numpy()).mean() / 5
        assert sorter.factor.item() == pytest.approx(expected, rel=1e-5)


def retrieving(train_split, val_split, **training):
    return retrieval.train(
        train_split, val_split, model=DUAL, loss={"name": "hard_negative_triplet", "args": {}}, seed=0, device="cpu",
        training=TRAINING | {"head": step(0), "everything": step(1) | {"shift": 0}} | training,
    )  # fmt: skip


def test_the_vocabulary_is_of_frequent_words_of_the_training_captions(generator):
    images, _, families = splits("retrieval", generator, rows=8)
    captions = [[f"three odd{row}", f"a seven {'twice' if row < 2 else ''}"] for row in range(8)]
    split = images, captions, families
    val = images, [["zebra three", "zebra"]] * 8, families
    for least, known in ((2, ["a", "seven", "three", "twice"]), (3, ["a", "seven", "three"])):
        ((_, _, encoder),) = retrieving(split, val, least_count=least)
        assert encoder.vocabulary.words[2:] == known


def test_validated_recall_is_that_of_each_direction_and_judged_by_the_mean(generator):
    """Captions that are all the same: no image finds its own before the others', and all captions find one image."""
    images, _, families = splits("retrieval", generator, rows=8)
    split = images, [["a three above a seven"]] * 8, families
    ((_, epoch, _),) = retrieving(split, split)
    assert epoch.validation == {"image_to_text": 0.0, "text_to_image": 1 / 8, "recall_at_1": 1 / 16}


def test_families_of_images_are_read_where_the_table_has_them(tmp_path):
    columns = {"image": encode_images(np.zeros((4, 4, 4), np.uint8), threads=1), "captions": [["a three"]] * 4}
    for more, expected in (({}, [0, 1, 2, 3]), ({"family": [7, 7, 2, 2]}, [7, 7, 2, 2])):
        pq.write_table(pa.table(columns | more), tmp_path / "test.parquet")
        assert retrieval.load_split(tmp_path, "test", threads=1)[2].tolist() == expected
