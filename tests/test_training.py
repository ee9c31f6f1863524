"""Training: resumes bit for bit, keeps the best, stops early, and says where it went wrong."""

import math
import shutil

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.ndimage import affine_transform
from torch import nn

from rankops.checks import check_scores
from rankops.io.checkpoints import build
from rankops.metrics.label_ranking import ranked
from rankops.tasks import label_ranking
from rankops.training.augmentation import shifted, views, warped
from rankops.training.loop import Epoch, batch_count, compute, fit, random_batches
from rankops.training.objective import Criterion

OPTIONS = {
    "judged_by": "error",
    "lower_is_better": True,
    "patience": 10,
    "optimizer": {"name": "AdamW", "args": {"lr": 0.05}, "clip": 1.0},
    "schedule": {"name": "cosine", "warm_up_epochs": 1},
    "seed": 3,
    "device": "cpu",
}


def problem():
    """A network with dropout and batch normalization, so that random state and buffers count."""
    draws = torch.Generator().manual_seed(0)
    inputs, outputs = torch.randn(64, 5, generator=draws), torch.randn(64, 1, generator=draws)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
    return network, {
        "batches": lambda generator: random_batches(64, 16, generator),
        "loss": lambda network, rows: (network(inputs[rows]) - outputs[rows]).square().mean(),
        "validate": lambda network: {"error": (network(inputs) - outputs).square().mean().item()},
        "batches_per_epoch": 4,
    }


def copied(network):
    return {key: value.detach().clone() for key, value in network.state_dict().items()}


def weights_of(network):
    return torch.cat([value.double().flatten() for value in network.state_dict().values()])


@pytest.mark.parametrize("interrupted_in", [1, 9, 14, 20], ids=lambda batch: f"batch {batch}")
def test_a_killed_training_ends_with_the_same_bits(tmp_path, interrupted_in):
    whole, parts = problem()
    expected = list(fit(whole, epochs=6, **parts, **OPTIONS))

    network, parts = problem()
    seen = 0

    def dies(network, rows):
        nonlocal seen
        seen += 1
        if seen == interrupted_in:
            raise KeyboardInterrupt
        return honest(network, rows)

    honest = parts["loss"]
    with pytest.raises(KeyboardInterrupt):
        list(fit(network, epochs=6, checkpoint=tmp_path, **parts | {"loss": dies}, **OPTIONS))
    torch.manual_seed(99)  # a new process has another random state
    resumed, parts = problem()
    steps = []
    parts["loss"] = lambda network, rows: steps.append(1) or honest(network, rows)
    found = list(fit(resumed, epochs=6, checkpoint=tmp_path, **parts, **OPTIONS))
    assert found == expected
    assert weights_of(resumed).equal(weights_of(whole))
    assert len(steps) == 24 - (interrupted_in - 1) // 4 * 4  # whole epochs were not done again


def test_averaged_weights_are_judged_kept_and_resumed(tmp_path):
    """Against the average written out: every step keeps 0.9 of it; statistics are those of its own activations."""
    honest = problem()[1]["loss"]

    # The steps of one network, without an average, are the same; so its weights after each step make the average.
    trained, parts = problem()
    states = []
    parts["loss"] = lambda network, rows: states.append(copied(network)) or honest(network, rows)
    list(fit(trained, epochs=1, **parts, **OPTIONS))
    states = [*states[1:], copied(trained)]
    expected = states[0]  # it begins with the weights after the first step
    for state in states[1:]:
        for key, value in state.items():
            if value.is_floating_point():
                expected[key] = 0.9 * expected[key] + 0.1 * value

    averaged, parts = problem()
    found = list(fit(averaged, epochs=1, checkpoint=tmp_path, average=0.9, **parts, **OPTIONS))
    for key, value in averaged.named_parameters():
        assert torch.allclose(value, expected[key], atol=1e-6), key
    order = torch.randperm(64, generator=torch.Generator().manual_seed(3 * 1_000_003 + 1))
    inputs = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    seen = averaged[0](inputs[order]).unflatten(0, (4, 16))  # what the normalization sees of the epoch's four batches
    assert torch.allclose(averaged[1].running_mean, seen.mean((0, 1)), atol=1e-6)
    assert torch.allclose(averaged[1].running_var, seen.var(1).mean(0), atol=1e-6)
    assert found[0].validation == parts["validate"](averaged.eval())

    whole, parts = problem()
    list(fit(whole, epochs=3, average=0.9, **parts, **OPTIONS | {"schedule": {"name": "constant"}}))
    resumed, parts = problem()
    options = OPTIONS | {"schedule": {"name": "constant"}}
    list(fit(resumed, epochs=1, checkpoint=tmp_path / "second", average=0.9, **parts, **options))
    resumed, parts = problem()
    list(fit(resumed, epochs=3, checkpoint=tmp_path / "second", average=0.9, **parts, **options))
    assert weights_of(resumed).equal(weights_of(whole))
    with pytest.raises(ValueError, match=r"average is 1\.0, expected a number between 0 and 1"):
        list(fit(resumed, epochs=1, average=1.0, **parts, **OPTIONS))


def test_a_finished_training_is_not_trained_again(tmp_path):
    network, parts = problem()
    expected = list(fit(network, epochs=3, checkpoint=tmp_path, **parts, **OPTIONS))
    again, parts = problem()
    parts["loss"] = None
    assert list(fit(again, epochs=3, checkpoint=tmp_path, **parts, **OPTIONS)) == expected
    assert weights_of(again).equal(weights_of(network))
    assert not again.training
    assert not network.training


def test_a_half_written_checkpoint_is_passed_over(tmp_path):
    network, parts = problem()
    list(fit(network, epochs=2, checkpoint=tmp_path, **parts, **OPTIONS))
    (tmp_path / "epoch-000009.partial-123").mkdir()
    again, parts = problem()
    assert len(list(fit(again, epochs=3, checkpoint=tmp_path, **parts, **OPTIONS))) == 3


def test_the_best_epoch_is_kept_and_patience_ends_it():
    network, parts = problem()
    figures = iter([5.0, 3.0, 4.0, 3.0, 9.0, 1.0])
    states = []

    def validate(network):
        states.append(weights_of(network))
        return {"error": next(figures)}

    epochs = list(fit(network, epochs=6, **parts | {"validate": validate}, **OPTIONS | {"patience": 3}))
    assert [epoch.best for epoch in epochs] == [True, True, False, False, False]
    assert weights_of(network).equal(states[1])


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_the_last_good_epoch(tmp_path):
    network, parts = problem()
    honest, seen = parts["loss"], []

    def diverges(network, rows):
        seen.append(1)
        return honest(network, rows) * (float("nan") if len(seen) == 7 else 1)

    with pytest.raises(
        FloatingPointError, match=r"mine: the loss became nan in batch 3 of epoch 2; epoch 1 is kept in"
    ):
        list(fit(network, epochs=4, checkpoint=tmp_path, name="mine", **parts | {"loss": diverges}, **OPTIONS))
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-000001"]
    assert torch.isfinite(weights_of(network)).all()  # the best weights so far, not the broken ones


def test_predictions_that_cannot_be_scored_end_the_training(tmp_path):
    network, parts = problem()

    def validate(network):
        check_scores(torch.tensor([[0.0, float("nan")]]))

    with pytest.raises(FloatingPointError, match=r"mine: cannot be validated after epoch 1: scores hold nan"):
        list(fit(network, epochs=2, name="mine", checkpoint=tmp_path, **parts | {"validate": validate}, **OPTIONS))
    assert not list(tmp_path.iterdir())


def test_a_validation_that_is_wrong_itself_is_no_diverged_training():
    def validate(network):
        raise ValueError("scores (4, 1) and target (4,)")

    network, parts = problem()
    with pytest.raises(ValueError, match=r"mine: cannot be validated after epoch 1: scores \(4, 1\)"):
        list(fit(network, epochs=2, name="mine", **parts | {"validate": validate}, **OPTIONS))
    with pytest.raises(ValueError, match="judged_by is 'accuracy', but validation gives error"):
        list(fit(network, epochs=2, **parts, **OPTIONS | {"judged_by": "accuracy"}))


def test_what_was_trained_computes_in_float32_and_can_be_trained_compiled_again(monkeypatch):
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})  # one process computes in one precision otherwise
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "EAGER")
    network, options = problem()
    seen = []

    def loss(model, rows):
        seen.append(type(model).__name__)
        return options["loss"](model, rows)

    for seed in (3, 4):
        list(fit(network, **options | {"loss": loss}, **OPTIONS | {"seed": seed}, epochs=1, precision="bf16"))
        other = problem()[0]
        other.load_state_dict(network.state_dict())
        inputs = torch.randn(64, 5)
        assert torch.equal(network.eval()(inputs), other.eval()(inputs))
    assert set(seen) == {"OptimizedModule"}
    assert len(seen) == 8


def test_a_pass_over_some_rows_chooses_them_anew():
    draws = torch.Generator().manual_seed(0)
    seen = [torch.cat(list(random_batches(50, 4, draws, limit=12))).tolist() for _ in range(20)]
    assert all(len(set(rows)) == 12 for rows in seen)
    assert {row for rows in seen for row in rows} == set(range(50))


@given(
    st.integers(1, 40), st.integers(2, 4), st.integers(1, 4), st.one_of(st.none(), st.integers(1, 40)),
    st.integers(1, 3), st.integers(0, 2),
)  # fmt: skip
def test_as_many_batches_are_made_as_are_counted(size, groups, multiple_of, limit, processes, process):
    options = {"limit": limit, "multiple_of": multiple_of, "share": (process % processes, processes)}
    try:
        made = list(random_batches(size, groups * multiple_of, torch.Generator(), **options))
    except ValueError:
        assume(False)
    assert batch_count(size, groups * multiple_of, **options) == len(made)


def test_a_figure_that_is_not_finite_ends_the_training():
    network, parts = problem()
    with pytest.raises(FloatingPointError, match="validation figure is not finite after epoch 1"):
        list(fit(network, epochs=2, **parts | {"validate": lambda network: {"error": float("inf")}}, **OPTIONS))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"name": "constant"}, [0.05, 0.05, 0.05, 0.05]),
        ({"name": "step", "factor": 0.5, "every_epochs": 2}, [0.05, 0.05, 0.025, 0.025]),
        ({"name": "cosine"}, [0.025 * (1 + math.cos(math.pi * (epoch - 0.25) / 4)) for epoch in (1, 2, 3, 4)]),
        ({"name": "cosine", "warm_up_epochs": 2}, [0.01875, 0.04375, 0.025 * 1.3826834, 0.025 * 0.0761205]),
    ],
)
def test_learning_rates_follow_the_schedule(schedule, expected):
    network, parts = problem()
    epochs = list(fit(network, epochs=4, **parts, **OPTIONS | {"schedule": schedule}))
    # That of an epoch's fourth and last step, a quarter of an epoch before its end.
    assert [epoch.learning_rate for epoch in epochs] == pytest.approx(expected, abs=1e-7)


def test_steps_within_an_epoch_are_not_lost_to_rounding():
    network, parts = problem()  # of 4 batches an epoch
    schedule = {"name": "step", "factor": 0.5, "every_epochs": 0.05}
    epochs = list(fit(network, epochs=3, **parts, **OPTIONS | {"schedule": schedule}))
    assert [epoch.learning_rate for epoch in epochs] == pytest.approx([0.05 * 2.0**-halved for halved in (15, 35, 55)])


def test_unknown_optimizers_and_schedules_are_refused():
    network, parts = problem()
    with pytest.raises(ValueError, match="no 'AdamX' in torch.optim"):
        next(fit(network, epochs=1, **parts, **OPTIONS | {"optimizer": {"name": "AdamX", "args": {}}}))
    with pytest.raises(ValueError, match="schedule.name is 'linear'"):
        next(fit(network, epochs=1, **parts, **OPTIONS | {"schedule": {"name": "linear"}}))


def test_a_gpu_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        assert compute(device="cuda", precision="no").device.type == "cuda"
    else:
        with pytest.raises(ValueError, match="finds no GPU"):
            compute(device="cuda", precision="no")


def test_a_process_that_computes_in_one_precision_refuses_another(monkeypatch):
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})
    compute(device="cpu", precision="no")
    with pytest.raises(ValueError, match="has begun to compute on cpu in precision no, and is asked for .* bf16"):
        compute(device="cpu", precision="bf16")
    assert compute(device="cpu", precision="no").mixed_precision == "no"


@pytest.mark.parametrize("limit", [0, 20])
def test_a_pass_that_would_have_no_batch_is_refused(limit):
    with pytest.raises(ValueError, match=rf"limit is {limit}, expected at least 32 rows"):
        list(random_batches(100, 32, torch.Generator(), limit=limit, multiple_of=32))


@pytest.mark.parametrize("nothing", [{"epochs": 0}, {"patience": 0}])
def test_a_training_without_epochs_is_refused(nothing):
    network, options = problem()
    with pytest.raises(ValueError, match="expected at least 1 each"):
        list(fit(network, **options | OPTIONS | {"epochs": 1} | nothing))


def test_an_epoch_without_batches_is_refused():
    network, options = problem()
    with pytest.raises(ValueError, match="training: `batches` gave none in epoch 1"):
        list(fit(network, **options | {"batches": lambda generator: []}, **OPTIONS, epochs=1))


def test_shifted_images_are_moved_and_filled_with_black(generator):
    images = torch.zeros(200, 1, 9, 9, dtype=torch.uint8)
    images[:, 0, 4, 4] = 255
    moved = shifted(images, 2, generator)
    places = moved.squeeze(1).nonzero()[:, 1:]
    assert len(places) == 200  # no image lost its dot, none has two
    assert {tuple(place) for place in places.tolist()} == {(y, x) for y in range(2, 7) for x in range(2, 7)}


@pytest.mark.parametrize("colors", [1, 3])
def test_warped_images_are_those_of_scipy(colors, generator):
    images = torch.randint(0, 256, (20, colors, 11, 16), generator=generator, dtype=torch.uint8)
    found = warped(images, torch.Generator().manual_seed(5), shift=3, zoom=1.3, rotation=40.0)
    assert found.dtype == torch.uint8
    draws = torch.rand(4, 20, generator=torch.Generator().manual_seed(5)).double().numpy() * 2 - 1
    center = np.array([5.0, 7.5])
    for number, (down, right, scale, turn) in enumerate(draws.T):
        angle = math.radians(40 * turn)
        back = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) / 1.3**scale
        origin = center - back @ (center + np.array([down, right]) * 3)
        for image, moved in zip(images[number].double().numpy(), found[number].double().numpy(), strict=True):
            expected = affine_transform(image, back, origin, order=1, mode="grid-constant")
            assert np.abs(moved - expected).max() < 0.51  # rounded


def test_warped_images_are_scaled_and_turned_as_far_as_asked_for(generator):
    across = torch.arange(41) - 20
    disc = (across[:, None] ** 2 + across**2 < 80).to(torch.uint8) * 255
    areas = warped(disc.expand(300, 1, 41, 41), generator, zoom=1.25).double().sum((1, 2, 3)) / disc.sum()
    assert areas.log().median().item() == pytest.approx(0, abs=0.05)
    assert 1.25**-2 * 0.99 < areas.min() < 0.68
    assert 1.48 < areas.max() < 1.25**2 * 1.01

    dot = torch.zeros(300, 1, 41, 41, dtype=torch.uint8)
    dot[:, 0, 19:22, 35:38] = 255
    turned = warped(dot, generator, rotation=30.0).squeeze(1).double()
    down, right = (turned * across[:, None]).sum((1, 2)), (turned * across).sum((1, 2))
    angles = torch.rad2deg(torch.atan2(down, right))
    assert -30.5 < angles.min() < -28
    assert 28 < angles.max() < 30.5


def test_without_zoom_and_rotation_warped_is_shifted():
    images = torch.randint(0, 256, (9, 1, 8, 8), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    first, second = (torch.Generator().manual_seed(2) for _ in range(2))
    for most in (0, 3):
        assert warped(images, first, shift=most).equal(shifted(images, most, second))
    assert first.get_state().equal(second.get_state())


@pytest.mark.parametrize(
    ("option", "value"), [("shift", -1), ("zoom", 0.99), ("zoom", math.nan), ("rotation", -5.0), ("rotation", math.inf)]
)
def test_warped_refuses_what_it_cannot_draw(option, value, generator):
    with pytest.raises(ValueError, match=f"{option} is {value}, expected at least"):
        warped(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), generator, **{option: value})
    with pytest.raises(TypeError, match="images are torch.float32, expected torch.uint8"):
        warped(torch.zeros(1, 1, 4, 4), generator, zoom=1.1)


def test_views_move_each_image_by_itself_and_always_alike(generator):
    images = torch.randint(0, 256, (5, 1, 20, 24), generator=generator, dtype=torch.uint8)
    moves = {"count": 4, "shift": 3, "zoom": 1.2, "rotation": 10.0}
    found = list(views(images, **moves))
    assert found[0].equal(images)
    assert len({view.numpy().tobytes() for view in found}) == len(found) == 4
    alone = list(views(images[3:4], **moves))
    assert all(one.equal(view[3:4]) for one, view in zip(alone, found, strict=True))
    assert all(view.equal(images) for view in views(images, count=3))
    with pytest.raises(ValueError, match="count is 0, expected at least 1"):
        views(images, count=0)
    with pytest.raises(ValueError, match=r"zoom is 0\.9, expected at least 1"):
        views(images, count=2, zoom=0.9)


def test_a_ranker_averages_scores_and_thresholds_over_views_and_keeps_them_on_disk(tmp_path, generator):
    scorer = build("models", "convnet", {"channels": [4, 8]}, seed=0, outputs=10, colors=1).eval()
    thresholds = build("models", "threshold_network", {"hidden": 4}, seed=0, features=scorer.embedding_size, outputs=10)
    images = torch.randint(0, 256, (7, 1, 32, 32), generator=generator, dtype=torch.uint8)
    moves = {"count": 3, "shift": 2, "zoom": 1.1, "rotation": 5.0}
    ranker = label_ranking.LabelRanker(scorer, thresholds.eval(), moves)
    one_view = label_ranking.LabelRanker(scorer, thresholds)
    label_ranking.save(tmp_path, ranker)
    for found in (ranker(images), label_ranking.load(tmp_path)(images, batch_size=2)):
        for values, part in zip(found, (0, 1), strict=True):
            expected = torch.stack([one_view(view)[part] for view in views(images, **moves)]).mean(0)
            assert torch.allclose(values, expected, atol=1e-5)
    assert not ranker(images)[0].allclose(one_view(images)[0])
    with pytest.raises(ValueError, match=r"zoom is 0\.5"):
        label_ranking.LabelRanker(scorer, thresholds, moves | {"zoom": 0.5})
    (tmp_path / "views.json").write_text('{"counts": 3}')
    with pytest.raises(ValueError, match=r"views\.json: no options of views .*counts"):
        label_ranking.load(tmp_path)
    label_ranking.save(tmp_path, one_view)
    assert label_ranking.load(tmp_path).views is None


@pytest.mark.parametrize("loss", ["cross_entropy", "lsep", "pairwise_logistic", "plackett_luce", "rlsep"])
@pytest.mark.parametrize("model", ["convnet", "label_attention", "mobilenet_v3_small"])
def test_every_loss_trains_every_model_to_a_ranker_that_comes_back_from_disk(loss, model, tmp_path, generator):
    images = torch.randint(0, 256, (12, 32, 32), generator=generator, dtype=torch.uint8)
    label_ranks = torch.randint(0, 3, (12, 10), generator=generator)
    recipe = {"name": model, "args": {} if model == "mobilenet_v3_small" else {"channels": [4, 4]}}
    args = {"pairs": 3} if loss in ("lsep", "rlsep") else {}
    options = {"batch_size": 6, "epochs": 1, "patience": 1} | {
        name: OPTIONS[name] for name in ("optimizer", "schedule")
    }
    split = images, label_ranks
    for network, _, ranker in label_ranking.train(
        split, split, model=recipe, loss={"name": loss, "args": args}, seed=0, device="cpu",
        training={"scorer": options | {"shift": 1}, "thresholds": options | {"hidden": 4}},
    ):  # fmt: skip
        assert network in ("scorer", "thresholds")
    label_ranking.save(tmp_path, ranker)
    ranker.scorer.eval()
    scores, thresholds = ranker(images)
    again = label_ranking.load(tmp_path)(images)
    assert again[0].equal(scores)
    assert again[1].equal(thresholds)


def test_a_step_is_no_longer_than_the_clipped_gradient():
    network, parts = problem()
    before = nn.utils.parameters_to_vector(network.parameters()).detach().clone()
    steps = {"name": "SGD", "args": {"lr": 1.0}, "clip": 0.01}
    parts |= {"batches": lambda generator: random_batches(64, 16, generator, limit=16)}  # one step
    list(fit(network, epochs=1, **parts, **OPTIONS | {"optimizer": steps, "schedule": {"name": "constant"}}))
    moved = nn.utils.parameters_to_vector(network.parameters()).detach() - before
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-2)


def test_validation_needs_no_gradient_and_no_dropout():
    network, parts = problem()
    parts |= {"validate": lambda network: {"error": float(torch.is_grad_enabled() or network.training)}}
    assert [epoch.validation for epoch in fit(network, epochs=1, **parts, **OPTIONS)] == [{"error": 0.0}]


def test_each_epoch_of_each_seed_draws_its_own_dropout():
    (network, parts), drawn = problem(), []
    honest = parts["loss"]
    parts |= {"loss": lambda network, rows: drawn.append(torch.rand(()).item()) or honest(network, rows)}
    for seed in (3, 4):
        list(fit(network, epochs=2, **parts, **OPTIONS | {"seed": seed}))
    assert len(set(drawn)) == 2 * 2 * 4


def test_shares_of_a_batch_are_moved_each_in_its_own_way():
    drawn = []
    for process in (0, 1):
        generator = torch.Generator().manual_seed(0)
        for _ in random_batches(16, 8, generator, share=(process, 2)):
            drawn.append(torch.rand((), generator=generator).item())
    assert len(set(drawn)) == 4


def test_a_checkpoint_takes_the_room_of_one_epoch_and_of_two_the_later_counts(tmp_path):
    network, parts = problem()
    begun = fit(network, epochs=3, checkpoint=tmp_path / "kept", **parts, **OPTIONS)
    next(begun)
    shutil.copytree(tmp_path / "kept/epoch-000001", tmp_path / "earlier")
    expected = list(begun)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["epoch-000003"]
    (tmp_path / "earlier").rename(tmp_path / "kept/epoch-000001")  # as it was killed before it took that away
    again, parts = problem()
    found = list(fit(again, epochs=3, checkpoint=tmp_path / "kept", **parts | {"loss": None}, **OPTIONS))
    assert found[1:] == expected


def test_an_epochs_loss_is_the_mean_over_its_batches():
    (network, parts), losses = problem(), []
    honest = parts["loss"]
    parts |= {"loss": lambda network, rows: losses.append(value := honest(network, rows)) or value}
    epochs = list(fit(network, epochs=2, **parts, **OPTIONS))
    means = torch.stack(losses).detach().view(2, 4).mean(1).tolist()
    assert [epoch.loss for epoch in epochs] == pytest.approx(means, rel=1e-6)


class TestLabelRankersParts:
    """What `label_ranking.train` hands to `fit`, which here trains nothing."""

    STEP = {"batch_size": 4, "epochs": 2, "patience": 1} | {name: OPTIONS[name] for name in ("optimizer", "schedule")}
    RANKS = torch.tensor([[1, 0, 2], [0, 2, 1], [2, 1, 0], [0, 0, 1], [1, 2, 3], [0, 0, 0], [3, 1, 2], [1, 0, 0]])

    @pytest.fixture
    def parts(self, monkeypatch):
        """Image k of the training split is gray of level 20 k, and its label ranks are row k of `RANKS`."""
        calls = []
        monkeypatch.setattr(label_ranking, "fit", lambda network, **options: calls.append(options) or [])
        train = (20 * torch.arange(8, dtype=torch.uint8)).view(8, 1, 1).expand(8, 16, 16), self.RANKS
        draws = torch.Generator().manual_seed(1)
        val = torch.randint(0, 256, (6, 16, 16), generator=draws, dtype=torch.uint8), self.RANKS[:6].flip(0)

        def of(fresh=None, **scorer):
            training = {"scorer": self.STEP | {"shift": 0} | scorer, "thresholds": self.STEP | {"hidden": 4}}
            list(label_ranking.train(
                train, val, model={"name": "convnet", "args": {"channels": [4, 4]}}, seed=0, device="cpu",
                loss={"name": "rlsep", "args": {}}, training=training, fresh=fresh,
            ))  # fmt: skip
            return calls

        return of

    def rows(self, batches, level=20):
        """Which rows the pictures of an epoch are, beside the label ranks that came with each."""
        found = [batch[:2] for batch in batches(torch.Generator().manual_seed(0))]
        pictures, label_ranks = (torch.cat(part) for part in zip(*found, strict=True))
        return (pictures[:, 0, 8, 8] // level).tolist(), label_ranks

    def test_pictures_come_with_their_own_label_ranks_in_random_order(self, parts):
        rows, label_ranks = self.rows(parts()[0]["batches"])
        assert sorted(rows) == list(range(8)) != rows
        assert label_ranks.equal(self.RANKS[rows])

    def test_so_do_fresh_ones(self, parts):
        pictures = (30 * torch.arange(8, dtype=torch.uint8)).view(8, 1, 1).expand(8, 16, 16)
        asked = []
        scorer, _ = parts(fresh=lambda rows, draws: asked.append(rows) or (pictures, self.RANKS.flip(0)))
        rows, label_ranks = self.rows(scorer["batches"], level=30)
        assert (sorted(rows), asked) == (list(range(8)), [8])
        assert label_ranks.equal(self.RANKS.flip(0)[rows])

    def test_every_move_that_is_asked_for_is_made(self, parts, monkeypatch):
        moves, made = {"shift": 2, "zoom": 1.1, "rotation": 5.0}, []
        monkeypatch.setattr(label_ranking, "warped", lambda images, draws, **asked: made.append(asked) or images)
        for asked in (moves, {"shift": 1}):
            self.rows(parts(**asked)[-2]["batches"])
        assert made == [moves] * 2 + [{"shift": 1}] * 2

    def test_what_is_asked_for_the_scorer_reaches_its_training_alone(self, parts):
        scorer, thresholds = parts(average=0.9, judged_by="exact_match")
        assert (scorer["average"], scorer["judged_by"], scorer["batches_per_epoch"]) == (0.9, "exact_match", 2)
        assert (thresholds.get("average"), thresholds["judged_by"]) == (None, "accuracy")
        usual, _ = parts()[-2:]
        assert (usual["average"], usual["judged_by"]) == (None, "accuracy")

    def test_epochs_are_counted_so_that_a_loss_beside_ends(self, parts, monkeypatch):
        counted, called = [], Criterion.__call__

        def call(self, *args, epoch, **options):
            counted.append(epoch)
            return called(self, *args, epoch=epoch, **options)

        def fit(network, *, batches, loss, epochs, **options):
            for number in range(1, epochs + 1):
                loss(network, next(iter(batches(torch.Generator()))))
                yield Epoch(number, 0.0, {}, True, 0.1)

        monkeypatch.setattr(Criterion, "__call__", call)
        monkeypatch.setattr(label_ranking, "fit", fit)
        parts()
        assert counted == [1, 2]

    def test_the_scorer_is_validated_on_the_validation_split(self, parts):
        network = build("models", "convnet", {"channels": [4, 4]}, seed=5, outputs=3, colors=1).eval()
        draws = torch.Generator().manual_seed(1)
        images = torch.randint(0, 256, (6, 1, 16, 16), generator=draws, dtype=torch.uint8)
        with torch.no_grad():
            found, expected = parts()[0]["validate"](network), ranked(network(images), self.RANKS[:6].flip(0))
        assert found == pytest.approx({name: expected[name].mean().item() for name in ("accuracy", "exact_match")})
        assert 0 < found["accuracy"] < 1

    def test_thresholds_learn_to_lie_below_the_scores_of_labels_that_are_there(self, parts):
        thresholds = parts()[1]
        rows = torch.cat(list(thresholds["batches"](torch.Generator().manual_seed(0))))
        assert sorted(rows.tolist()) == list(range(8))
        below, above = (torch.where(self.RANKS[rows] > 0, -far, far) for far in (99.0, -99.0))
        assert thresholds["loss"](lambda embeddings: below, rows).item() == pytest.approx(0, abs=1e-6)
        assert thresholds["loss"](lambda embeddings: above, rows).item() > 50
        of_val = self.RANKS[:6].flip(0)
        right = thresholds["validate"](lambda embeddings: torch.where(of_val > 0, -99.0, 99.0))
        one_wrong = thresholds["validate"](lambda embeddings: torch.where(of_val > 1, -99.0, 99.0))
        assert right == {"accuracy": 1, "exact_match": 1}
        wrong = of_val == 1  # which now lie below
        assert one_wrong["accuracy"] == pytest.approx(1 - wrong.double().mean().item())
        assert one_wrong["exact_match"] == pytest.approx(1 - wrong.any(1).double().mean().item())
        with pytest.raises(ValueError, match="scores hold nan"):
            thresholds["validate"](lambda embeddings: torch.full((6, 3), math.nan))
