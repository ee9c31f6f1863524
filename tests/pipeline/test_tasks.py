"""Tasks: their phases, batches, objectives and metrics; what each gives and takes is in contracts/."""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import r2_score
from torch import nn

from rankgrad import lookup
from rankgrad.augmentation import views
from rankgrad.datasets.files.splits import Captions, Labels, Split
from rankgrad.evaluation import evaluate
from rankgrad.inputs import features, frames, image
from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.io.starts import start_from
from rankgrad.ranks import exact_ranks
from rankgrad.sorters import Handcrafted, Sorter
from rankgrad.tasks.score_ranking import ScoreRanking
from rankgrad.training.device import make_accelerator
from rankgrad.training.loop import train

from conftest import objective_of, task_of  # isort: skip
from rows import written  # isort: skip

CONVNET = {"name": "linear", "args": {}, "backbone": {"name": "convnet", "args": {"channels": [4, 6]}}}
ATTENTION = CONVNET | {"name": "label_attention"}
VECTORS = {"name": "linear", "args": {}, "backbone": {"name": "perceptron", "args": {"hidden": []}}}
DUAL = CONVNET | {"args": {"grid": 2}, "text": {"name": "words", "args": {"size": 8, "word_size": 4}}}


def parts(model: dict) -> dict:
    return {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}


def sgd(rate: float, **more) -> dict:
    return {"name": "SGD", "args": {"lr": rate}} | more


def split_of(task: str, folder, rows: int = 20) -> Split:
    """Rows of pictures, or of clips, written and read."""
    written(task, "frames" if task == "score_ranking" else "image", folder, rows)
    return replace(lookup.find("tasks", task)().load(folder, "train", threads=1), weight=None, about=None)


@pytest.fixture
def start(tmp_path):
    """Weights of a network like those that are trained here."""
    save_model(tmp_path / "start", build("models", "network", parts(CONVNET), seed=5, outputs=10))
    return tmp_path / "start"


class Training:
    """A training on one split, also for validation: its task, its network, and what it yields."""

    def __init__(
        self, task, split, *, model=CONVNET, loss="mse", sorter=None, sorter_optimizer=None, start=None, cache=None,
        **options
    ):  # fmt: skip
        self.split, self.start = split, start
        self.task = task_of(task, options, cache=cache)
        self.network = self.task.build(model, split, seed=0)
        if start is not None:
            start_from(self.network, start)
        self.objective = objective_of(loss, sorter=sorter, sorter_optimizer=sorter_optimizer)

    def epochs(self, checkpoint=None):
        return train(
            self.task, self.network, self.split, self.split, objective=self.objective, seed=0,
            started=self.start is not None, device="cpu", checkpoint=checkpoint,
        )  # fmt: skip

    def phase(self, name):
        """The phase of this name, as if those before it were trained."""
        accelerator = make_accelerator(device="cpu", precision="no")
        phases = self.task.phases(
            self.network, self.split, self.split, self.objective, started=False, accelerator=accelerator
        )
        return next(phase for phase in phases if phase.name == name)


def finetune_of(target, *, loss="mse", sorter=None, about=None, weight=None, **options):
    """The phase in which a network learns a number of each row of two features."""
    inputs = features.of_tensor(torch.randn(len(target), 2, generator=torch.Generator().manual_seed(0)))
    split = Split(inputs, torch.tensor(target), about=about and pa.table(about), weight=weight)
    return Training("score_ranking", split, model=VECTORS, loss=loss, sorter=sorter, **options).phase("finetune")


@pytest.mark.parametrize("rate", [3e-3, 300.0], ids=["learns", "is ruined"])
def test_fine_tuning_keeps_the_probes_weights_unless_it_is_better(start, tmp_path, rate):
    phases = {"finetune": {"optimizer": sgd(rate, clip=1.0)}, "probe": {"optimizer": {"args": {"lr": 3e-3}}}}
    training = Training("score_ranking", split_of("score_ranking", tmp_path, rows=30), start=start, **phases)
    epochs = [epoch for _, epoch in training.epochs()]
    kept = [epoch.validation["spearman"] for epoch in epochs if epoch.best][-1]
    assert kept == max(epoch.validation["spearman"] for epoch in epochs)
    scores = training.task.scores(training.network, training.split.inputs)
    assert spearmanr(scores, training.split.truth).statistic == pytest.approx(kept, abs=1e-5)


def test_the_probe_leaves_the_convolutions_alone_and_needs_a_start(start, tmp_path):
    split = split_of("score_ranking", tmp_path)
    training = Training("score_ranking", split, start=start)
    before = {key: value.clone() for key, value in training.network.backbone.state_dict().items()}
    for name, _ in training.epochs():
        weights = training.network.backbone.state_dict()
        assert all(weights[key].equal(value) for key, value in before.items()) == (name == "probe")
    assert [name for name, _ in Training("score_ranking", split).epochs()] == ["finetune", "finetune"]
    probe_alone = Training("score_ranking", split, finetune={"epochs": 0}, probe={"epochs": 3})
    assert [name for name, _ in probe_alone.epochs()] == ["finetune"] * 3


def test_frozen_features_are_computed_once_and_never_for_another_network(start, tmp_path):
    split = split_of("score_ranking", tmp_path)
    results = []
    for model in (CONVNET, CONVNET, ATTENTION):
        cached, computed = (
            list(Training("score_ranking", split, model=model, start=start, cache=cache).epochs())
            for cache in (tmp_path / "features", None)
        )
        assert cached == computed
        results.append(cached)
    assert results[0] == results[1] != results[2]
    assert len(list((tmp_path / "features").glob("*.safetensors"))) == 2  # training and validation are one split here


def test_the_auxiliary_loss_ends_after_its_epochs_which_count_on(generator):
    scores, target = torch.randn(2, 4, generator=generator), torch.rand(2, 4, generator=generator)
    auxiliary = {"name": "l1", "args": {}, "weight": 0.5, "epochs": 2}
    objective = objective_of("spearman", sorter=Handcrafted(), auxiliary=auxiliary)
    alone = objective_of("spearman", sorter=Handcrafted())
    l1 = (scores - target).abs().mean() / 2
    for epoch, more in ((1, l1), (2, l1), (3, 0.0)):
        objective.epoch = epoch
        assert objective(scores, target).item() == pytest.approx((alone(scores, target) + more).item())


def test_a_sorter_in_the_loss_is_frozen_or_each_of_its_steps_is_down_the_gradient_of_its_own_error(generator):
    class Scaled(Sorter):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(0.5))

        def forward(self, scores):
            return self.factor * scores

    for optimizer in (None, {"name": "SGD", "args": {"lr": 2.0}}):
        sorter, expected = Scaled(), 0.5
        objective = objective_of("spearman", sorter=sorter, sorter_optimizer=optimizer)
        for _ in range(3):
            scores, target = torch.randn(2, 5, generator=generator), torch.rand(2, 5, generator=generator)
            with torch.no_grad():
                objective(scores, target)  # as in validation: nothing is learned
            assert sorter.factor.item() == pytest.approx(expected, rel=1e-5)
            objective(scores.requires_grad_(), target).backward()
            assert (scores.grad != 0).any()
            signs = np.sign(expected * scores.detach().numpy() - exact_ranks(scores).numpy())
            expected -= 2.0 * (signs * scores.detach().numpy()).mean() / 5 * (optimizer is not None)
            assert sorter.factor.item() == pytest.approx(expected, rel=1e-5)
            assert not sorter.factor.requires_grad


def test_the_backbone_learns_at_a_part_of_the_heads_rate_or_its_last_blocks_alone(tmp_path):
    split = split_of("score_ranking", tmp_path)
    moved = {}
    kinds = {"whole": {}, "slowly": {"lr_factor": 0.1}, "last": {"freeze": 1}, "head": {"freeze": "all"}}
    first, last, head = names = ("backbone.0.weight", "backbone.10.weight", "head.score.1.weight")
    for kind, options in kinds.items():
        finetune = {"epochs": 1, "optimizer": sgd(1e-3)} | options
        training = Training("score_ranking", split, batch_size=20, finetune=finetune)
        before = {name: training.network.get_parameter(name).clone() for name in names}
        list(training.epochs())
        moved[kind] = {name: (training.network.get_parameter(name) - before[name]).norm().item() for name in names}
        assert all(weights.requires_grad for weights in training.network.parameters())
    rates = {first: 0.1, last: 0.1, head: 1}
    assert moved["slowly"] == pytest.approx(
        {name: rates[name] * step for name, step in moved["whole"].items()}, rel=1e-3
    )
    assert {name for name, step in moved["last"].items() if step > 0} == {last, head}
    assert {name for name, step in moved["head"].items() if step > 0} == {head}


def test_a_sorter_that_is_learned_jointly_goes_down_the_gradient_of_the_loss_itself(start, generator, tmp_path):
    split = split_of("score_ranking", tmp_path, rows=8)
    probe = {"epochs": 1, "optimizer": sgd(0.1), "schedule": {"name": "constant"}}

    def training():
        sorter = build("sorters", "lstm", {"hidden": 4, "layers": 1}, seed=1, length=4)
        jointly = {"loss": "spearman", "sorter": sorter, "sorter_optimizer": {"name": "jointly"}}
        return Training("score_ranking", split, start=start, **jointly, probe=probe, finetune={"epochs": 0})

    first = training()
    sorter = first.objective.learned
    before = [weights.detach().clone() for weights in sorter]
    scores, target = torch.randn(2, 4, generator=generator), torch.rand(2, 4, generator=generator)
    slopes = torch.autograd.grad(first.objective(scores, target), sorter)
    assert any((slope != 0).any() for slope in slopes)
    list(first.epochs(tmp_path / "epochs"))
    assert not all(old.equal(new) for old, new in zip(before, sorter, strict=True))
    again = training()
    list(again.epochs(tmp_path / "epochs"))  # which is done: what was learned of the sorter comes back too
    assert all(learned.equal(other) for learned, other in zip(sorter, again.objective.learned, strict=True))


def statistic_of(scores, labels, difficult):
    """Of predictions of labels."""
    table = pa.table({"id": range(len(scores)), "scores": scores, "labels": labels, "difficult": difficult})
    return lookup.find("tasks", "multilabel")().statistic(table)


class TestMetrics:
    def test_spearman_within_groups_is_the_mean_of_scipys_and_resamples_are_of_groups(self, generator):
        group = np.array([0] * 30 + [1] * 5 + [2] * 4 + [3] + [4] * 3 + [5] * 4)
        scores, quality = torch.randn(2, len(group), generator=generator).double().numpy()
        target = quality * 10.0**group + 1000 * group
        target[group == 4], scores[group == 5] = 7.0, 1.0  # nothing to order; an order that a model does not see
        columns = {"score": scores, "target": target, "group": [f"lab {number}" for number in group]}
        table = pa.table({"id": range(len(group)), **columns, "within": ["lab"] * len(group), "fold": group % 2 + 1})
        task = lookup.find("tasks", "score_ranking")()
        expected = [spearmanr(scores[group == number], target[group == number]).statistic for number in range(3)] + [0]
        statistic = task.statistic(table)
        assert statistic.examples == 6
        assert statistic.of_all() == pytest.approx([np.mean(expected)])
        resamples = statistic.of_rows(np.array([[0, 0, 1], [2, 3, 4], [3, 4, 4]]))[0]
        assert resamples[:2] == pytest.approx([np.mean([expected[0]] * 2 + expected[1:2]), expected[2]])
        assert np.isnan(resamples[2])
        weighed = table.append_column("weight", pa.array(np.where(group == 0, 3.0, 1.0)))
        assert task.statistic(weighed).of_all() == pytest.approx(np.average(expected, weights=[3, 1, 1, 1]))
        rows = np.flatnonzero(group == 1)
        assert task.of_slices(table)(rows).of_all() == pytest.approx(expected[1:2])

    def test_a_class_whose_positives_a_resample_lost_is_left_out_and_difficult_labels_count_nowhere(self):
        scores, labels = [[2.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 3.0]], [[1, 0], [1, 0], [0, 0], [0, 1]]
        rows = evaluate("", {1: statistic_of(scores, labels, [[0, 0]] * 4)}, resamples=100, seed=0)
        measured = {row.metric: row.interval for row in rows if row.seed is None}
        assert measured["mean_average_precision"] == (1.0, 1.0, 1.0)
        assert measured.keys() > {"average_precision.0", "average_precision.1"}
        scores = [[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]
        statistic = statistic_of(scores, [[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 0]])
        assert statistic.names == ["mean_average_precision", "average_precision.0"]
        assert statistic.of_rows(np.arange(3)).tolist() == [1.0, 1.0]

    def test_recall_is_of_galleries_searched_by_themselves_and_families_are_drawn_together(self, generator):
        counts, family, gallery = np.array([[3, 1, 2, 1, 2, 1], [0, 0, 1, 1, 2, 3], [0, 0, 0, 1, 1, 1]])
        item_of = np.repeat(range(6), counts)
        items, captions = torch.randint(-1, 2, (16, 4), generator=generator).float().split([6, 10])  # with ties
        truth = Captions(["a"] * 10, *map(torch.tensor, (counts, family, gallery)))
        task, split = lookup.find("tasks", "retrieval")(), Split(features.of_tensor(items), truth)
        statistic = task.statistic(task.table_of(split, (items, captions, ())))
        assert statistic.examples == 4
        draws = np.array([[0, 1, 2, 3], [3, 1, 1, 3]])
        values = dict(zip(statistic.names, statistic.of_rows(draws), strict=True))
        assert values["gallery"].tolist() == [3, 3]
        scores, galleries = (items @ captions.T).numpy(), gallery[:, None] == gallery[item_of]
        item_ranks, caption_ranks = np.zeros(6), np.zeros(10)
        for item, caption in np.ndindex(6, 10):  # how many wrong ones are at least as near, and one
            is_wrong = galleries[item, caption] and item_of[caption] != item
            item_ranks[item] += is_wrong and scores[item, caption] >= scores[item, item_of == item].max()
            caption_ranks[caption] += is_wrong and scores[item, caption] >= scores[item_of[caption], caption]
        for name, ranks, families in (
            ("item_to_text", item_ranks, family),
            ("text_to_item", caption_ranks, family[item_of]),
        ):
            drawn = [np.concatenate([1 + ranks[families == number] for number in draw]) for draw in draws]
            assert values[f"{name}.median_rank"] == pytest.approx([*map(np.median, drawn)])
            assert values[f"{name}.recall_at_1"] == pytest.approx(
                [np.mean(ranks_of_draw == 1) for ranks_of_draw in drawn]
            )


FAULTS = [  # tasks, columns, and what is said of them; values are validated before any training
    ("score_ranking", {"features": [[1.0], [1.0, 2.0]], "target": [0.5, 0.5]}, "lists of different lengths"),
    ("score_ranking", {"features": [], "target": []}, "no rows"),
    (
        "multilabel",
        {"features": [[1.0]] * 2, "labels": [[1, 0]] * 2, "difficult": [[False]] * 2},
        "column difficult: .*expected 2 values",
    ),
]


@pytest.mark.parametrize(("task", "columns", "message"), FAULTS)
def test_a_split_that_fits_no_task_is_refused_by_its_column(tmp_path, task, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=message):
        lookup.find("tasks", task)().load(tmp_path, "train", threads=1)


class TestBatches:
    """What an epoch sees: each example with its own truth."""

    def batches(self, training):
        phase, draws = training.phase("finetune"), torch.Generator().manual_seed(0)
        return [phase.batch(torch.tensor([4, 0, 2]), draws) for _ in range(30)]

    def test_each_clip_is_seen_by_any_of_its_frames_moved_with_its_own_score(self):
        clips = frames.of_tensor(torch.arange(18, dtype=torch.uint8).view(6, 3, 1, 1).expand(6, 3, 16, 16))
        batches = self.batches(Training("score_ranking", Split(clips, torch.arange(6.0)), finetune={"shift": 2}))
        assert all(batch.truth[0].tolist() == [4, 0, 2] for batch in batches)
        pixels = torch.stack([batch.inputs[0][:, 0, 8, 8] for batch in batches])
        assert [column.unique().tolist() for column in pixels.T] == [[12, 13, 14], [0, 1, 2], [6, 7, 8]]

    @pytest.mark.parametrize("length", [4, 9])
    def test_lists_are_of_one_group_and_only_they_are_compared(self, length, generator):
        lists = {"list_length": length, "batch_size": 2 * length, "about": {"group": ["a", "b", "c"] * 9}}
        finetune = finetune_of([float(row) for row in range(27)], loss="spearman", sorter=Handcrafted(), **lists)
        rows = finetune.order(generator)
        assert len(rows) == len(set(rows.tolist())) == finetune.rows == 9 // length * length * 3
        assert (rows.view(-1, length) % 3 == rows[::length].unsqueeze(1) % 3).all()
        target = rows % 3 * 100.0 + rows  # the order of groups is nothing to be learned
        loss = finetune.loss((rows.float().unsqueeze(1),), (target, None), generator)
        assert loss.item() == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize(("loss", "sorter"), [("mse", None), ("spearman", Handcrafted())])
    def test_within_groups_a_loss_compares_rows_of_one_and_a_loss_of_single_scores_is_as_ever(
        self, loss, sorter, generator
    ):
        groups, target = ["a", "b", "a", "c", "b", "a"], [0.1, 0.9, 0.3, 0.5, 0.2, 0.6]
        finetune = finetune_of(target, loss=loss, sorter=sorter, about={"group": groups, "within": ["lab"] * 6})
        rows = finetune.order(generator)
        assert sorted(rows.tolist()) == list(range(6))
        in_order = [groups[row] for row in rows]
        assert len([*groupby(in_order)]) == 3
        rows, scores = torch.tensor([0, 2, 5, 3, 1, 4]), torch.randn(6, 1, generator=generator)

        def value(chosen):
            batch = finetune.batch(rows[chosen], generator)
            return finetune.loss((scores[chosen],), batch.truth, generator)

        if loss == "mse":
            expected = (scores.squeeze(1) - torch.tensor(target)[rows]).square().mean()
        else:  # the list of one row has no order
            expected = (value(torch.arange(3)) + value(torch.tensor([4, 5]))) / 2
        torch.testing.assert_close(value(torch.arange(6)), expected, check_dtype=False)

    @pytest.mark.parametrize(
        ("target", "options", "learned"),
        [
            ([1e5, 2e5, 1e5, 2e5], {}, [-1, 1, -1, 1]),  # far from 0: the deviations, standardized
            ([0.0, 0.5, 1.0, 0.25], {}, [0, 0.5, 1, 0.25]),
            ([0.0, 0.9, 9.9, 99.9], {"log_plus": 0.1}, np.array([-3, -1, 1, 3]) / 5**0.5),  # equally far apart
        ],
    )
    def test_what_a_loss_learns_of_targets(self, target, options, learned):
        finetune = finetune_of(target, **options)
        _, truth = finetune.compare(torch.zeros(4, 1), torch.tensor(target), length=4)
        assert truth.flatten().tolist() == pytest.approx(learned)

    @pytest.mark.parametrize(("loss", "sorter"), [("spearman", Handcrafted()), ("mse", None), ("ndcg", Handcrafted())])
    def test_a_list_counts_as_much_as_its_rows_do(self, loss, sorter, generator):
        scores, target = torch.randn(6, generator=generator), torch.rand(6, generator=generator)
        weight = torch.tensor([0.9, 0.9, 0.9, 0.3, 0.3, 0.3])
        lists = {"list_length": 3, "batch_size": 6, "about": {"group": ["a"] * 3 + ["b"] * 3}}
        finetune = finetune_of(target.tolist(), loss=loss, sorter=sorter, weight=weight, **lists)

        def value(rows, weight):
            return finetune.loss((scores[rows].unsqueeze(1),), (target[rows], weight), generator)

        thrice = torch.tensor([0, 1, 2] * 3 + [3, 4, 5])
        torch.testing.assert_close(value(torch.arange(6), weight), value(thrice, None))
        torch.testing.assert_close(value(torch.arange(6), torch.ones(6)), value(torch.arange(6), None))

    @pytest.mark.parametrize(
        ("options", "columns", "error", "message"),
        [
            ({"list_length": 4}, {"group": ["a", "b", "c", "d"] * 2}, ValueError, "no group has more than 2 rows"),
            ({"list_length": 4}, None, ValueError, "no column group"),
            ({"list_length": 4}, {"group": ["a"] * 7 + [None]}, ValueError, "1 rows of the training table have no"),
            ({"list_length": 4}, {"group": ["a"] * 5 + ["b", "c", "c"]}, UserWarning, "3 of 8 training rows"),
            ({}, {"group": [*"abcdefgg"], "within": ["lab"] * 8}, ValueError, "no group of the 8 training rows has"),
            ({"log_plus": 0.0}, None, ValueError, "log_plus is 0, but the smallest training target is 0"),
        ],
    )
    @pytest.mark.filterwarnings("error:list_length")
    def test_what_cannot_be_compared_is_refused_or_reported(self, options, columns, error, message):
        with pytest.raises(error, match=message):
            finetune_of([0.0, 1, 2, 3, 4, 5, 6, 6], about=columns, **options)

    def test_weights_that_a_loss_does_not_use_are_refused(self):
        labels = Labels(torch.ones(7, 2).bool(), torch.zeros(7, 2).bool())
        split = Split(features.of_tensor(torch.zeros(7, 2)), labels, weight=torch.ones(7))
        with pytest.raises(ValueError, match="column weight"):
            next(Training("multilabel", split, model=VECTORS, loss="hinge_ap").epochs())

    @pytest.mark.parametrize(("least", "frequent"), [(1, True), (4, False)])
    def test_each_image_is_seen_with_any_of_its_own_captions_in_frequent_words(self, least, frequent):
        texts = [f"picture{row} {which}" for row in range(6) for which in ("first", "second")]
        captions = Captions(texts, torch.full((6,), 2), torch.arange(6), torch.zeros(6, dtype=torch.int64))
        split = Split(image.of_tensor(torch.zeros(6, 16, 16, dtype=torch.uint8)), captions)
        training = Training("retrieval", split, model=DUAL, loss="info_nce", size=8, least_count=least)
        words = training.network.captions.backbone.vocabulary.words
        assert ("picture0" in words) == frequent  # which is in two captions, and each other word in six
        seen = {tuple(batch.inputs[1][0].tolist()) for batch in self.batches(training)}
        unknown = words.index("picture4") if frequent else 1
        assert seen == {(unknown, words.index("first")), (unknown, words.index("second"))}

    def test_thresholds_learn_to_lie_below_the_scores_of_labels_that_are_there(self, generator, tmp_path):
        split = split_of("label_ranking", tmp_path, rows=8)
        training = Training("label_ranking", split, loss="multilabel_cross_entropy", thresholds={"hidden": 4})
        thresholds = training.phase("thresholds")
        _, truth = thresholds.batch(torch.arange(8), generator)
        below = torch.where(split.truth > 0, -99.0, 99.0)
        assert thresholds.loss((below,), truth, generator).item() == pytest.approx(0, abs=1e-6)
        assert thresholds.loss((-below,), truth, generator).item() > 50
        assert thresholds.validate(lambda _: below) == {"unranked_accuracy": 1, "unranked_exact_match": 1}


def test_a_ranker_averages_scores_and_thresholds_over_views(tmp_path, generator):
    images = torch.randint(0, 256, (7, 1, 32, 32), generator=generator, dtype=torch.uint8)
    moves, args = {"count": 3, "shift": 2, "zoom": 1.1, "rotation": 5.0}, parts(CONVNET) | {"hidden": 4}
    ranker, one_view = (build("models", "label_ranker", args | more, seed=0, outputs=10, colors=1).eval()
                        for more in ({"views": moves}, {}))  # fmt: skip
    save_model(tmp_path, ranker)
    with torch.no_grad():
        of_views = zip(*(one_view(view) for view in views(images, **moves)), strict=True)
        for index, values in enumerate(of_views):
            assert torch.allclose(load_model(tmp_path)(images)[index], torch.stack(values).mean(0), atol=1e-5)
        assert not ranker(images)[0].allclose(one_view(images)[0])
    with pytest.raises(ValueError, match=r"zoom is 0\.5"):
        build("models", "label_ranker", args | {"views": moves | {"zoom": 0.5}}, seed=0, outputs=10)


@pytest.mark.parametrize("has_short_ends", [False, True])
def test_an_estimate_is_the_isotonic_regression_of_targets_with_ties_and_weights(generator, has_short_ends):
    scores = torch.randint(0, 12, (60,), generator=generator) / 2  # up to 5.5
    targets, weight = scores + 4 * torch.randn(60, generator=generator), torch.rand(60, generator=generator)
    scores[0], targets[0], weight[0] = 99.0, 1e6, 0.0  # counts nowhere
    if has_short_ends:
        scores[1:3], targets[1:3] = torch.tensor([-1.0, 6.0]), torch.tensor([-90.0, 90.0])
    network = build("models", "network", parts(VECTORS), seed=0, outputs=1, features=1)
    network.head.score = nn.Linear(1, 1, bias=False)
    nn.init.ones_(network.head.score.weight)  # a score is the feature
    ScoreRanking().finish(network, Split(features.of_tensor(scores.unsqueeze(1)), targets, weight=weight))
    asked = torch.arange(-6.0, 6.0, 0.25)  # features of more than 6 are clipped
    answers = ScoreRanking().answers(network, features.of_tensor(asked.unsqueeze(1)), torch.ones(48))
    scores, targets, weight = (values.double().numpy()[1:] for values in (scores, targets, weight))
    fitted = IsotonicRegression().fit(scores, targets, sample_weight=weight).predict(scores)
    steps = [np.flatnonzero(np.abs(fitted - target) < 1e-4) for target in np.unique(fitted.round(6))]
    assert 4 < len(steps) < len(np.unique(scores))
    assert (min(len(steps[0]), len(steps[-1])) < 5) == has_short_ends
    for end, inner in ((0, 1), (-1, -2)):  # the ends have at least five rows
        while len(steps[end]) < 5:
            steps[inner] = np.concatenate([steps[end], steps[inner]])
            del steps[end]
    # The curve is straight between the means of steps.
    points = [[np.average(values[step], weights=weight[step]) for step in steps] for values in (scores, targets)]
    expected, asked = np.interp(asked.numpy(), *points), asked.numpy()
    explained = r2_score(targets, np.interp(scores, *points), sample_weight=weight)
    for end, inner, extreme in ((0, 1, targets.min()), (-1, -2, targets.max())):  # then goes on with less slope
        score, target = points[0][end], points[1][end]
        slope = explained * (target - points[1][inner]) / (score - points[0][inner])
        beyond = asked < score if end == 0 else asked > score
        toward = target + slope * (asked - score)
        expected[beyond] = (np.maximum if end == 0 else np.minimum)(toward, extreme)[beyond]
    assert [answer["estimate"] for answer in answers] == pytest.approx(expected.tolist(), abs=1e-3)


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_curve_of_estimates_rises_though_the_means_of_equal_targets_differ_by_rounding(generator, has_weights):
    network = build("models", "network", parts(VECTORS), seed=0, outputs=1, features=1)
    network.head.score = nn.Linear(1, 1, bias=False)
    nn.init.ones_(network.head.score.weight)
    scores = torch.arange(60.0).double() / 20
    targets = ((scores * 4).floor() / 10).clamp(0.1, 0.9)
    weight = torch.rand(60, generator=generator).double() if has_weights else None
    ScoreRanking().finish(network, Split(features.of_tensor(scores.float().unsqueeze(1)), targets, weight=weight))
    curve = network.recipe["estimate"]
    assert np.isfinite(curve["scores"]).all()
    assert (np.diff(curve["scores"]) > 0).all()
    assert curve["targets"] == pytest.approx(sorted(curve["targets"]))
    assert [min(curve["targets"]), max(curve["targets"])] == pytest.approx([0.1, 0.9])


def test_estimates_reach_the_extreme_targets_of_training_and_one_wrong_target_of_validation_does_little(generator):
    x = torch.randn(400, 1, generator=generator)
    targets = (2 * x.squeeze(1)).exp()
    train, val = (Split(features.of_tensor(x[part]), targets[part]) for part in (slice(300), slice(300, None)))
    val.truth[5] = 1e6
    ranking = task_of("score_ranking", {})
    network = ranking.build(VECTORS | {"text": None}, train, seed=0)
    ranking.finish(network, val)
    assert network.recipe["extremes"] == [targets[:300].min(), targets[:300].max()]
    assert max(network.recipe["estimate"]["targets"]) <= targets[:300].max()
    # The targets of training may come from a column of their own, `train_target`, on another scale.
    ranking.finish(network, replace(val, truth=(2 * x[300:].squeeze(1)).exp() + 1000))
    assert min(network.recipe["estimate"]["targets"]) >= 1000


def test_estimates_are_carried_over_to_scores_on_another_scale(generator):
    x = torch.randn(200, 1, generator=generator)
    train = Split(features.of_tensor(x), 3 * x.squeeze(1) + torch.randn(200, generator=generator))
    networks = []
    for factor, shift in ((1.0, 0.0), (2.5, -4.0)):
        network = build("models", "network", parts(VECTORS), seed=0, outputs=1, features=1)
        network.head.score = nn.Linear(1, 1)
        nn.init.constant_(network.head.score.weight, factor)
        nn.init.constant_(network.head.score.bias, shift)
        networks.append(network)
    chosen, refitted = networks
    ranking = ScoreRanking()
    ranking.finish(chosen, train)
    ranking.carry_over(refitted, chosen, train)
    of_both = [[answer["estimate"] for answer in ranking.answers(network, train.inputs, torch.ones(200))]
               for network in networks]  # fmt: skip
    assert of_both[1] == pytest.approx(of_both[0], abs=1e-3)


def test_estimates_of_equal_targets_have_no_r2():
    columns = {"score": [0.0, 1.0, 2.0], "estimate": [1.0, 2.0, 3.0], "target": [5.1] * 3, "weight": [0.7, 1.1, 2.3]}
    for names in (("score", "estimate", "target"), columns):
        statistic = ScoreRanking().statistic(pa.table({name: columns[name] for name in names}))
        assert np.isnan(statistic.of_rows(np.array([[0, 1, 2]]))).all()


def test_estimates_are_judged_by_the_r2_of_scikit_learn():
    predicted = pa.table({"score": [0.0, 1.0, 2.0], "estimate": [1.0, 2.0, 3.0], "target": [1.0, 2.0, 6.0]})
    statistic = ScoreRanking().statistic(predicted)
    r2 = statistic.of_rows(np.array([[0, 1, 2], [1, 2, 2], [0, 0, 0]]))[statistic.names.index("estimate_r2")]
    expected = [r2_score([1, 2, 6], [1, 2, 3]), r2_score([2, 6, 6], [2, 3, 3]), np.nan]
    assert r2 == pytest.approx(expected, nan_ok=True)
