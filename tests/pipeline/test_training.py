"""Training: resumed to the bit, judged by its monitor, scheduled and clipped; images moved at random."""

import math
import shutil

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from scipy.ndimage import affine_transform
from torch import nn

from pipelines.config.schema import typed
from rankgrad.augmentation import shifted, views, warped
from rankgrad.checks import check_scores
from rankgrad.training.batches import random_batches
from rankgrad.training.loop import fit
from rankgrad.training.options import PhaseOptions
from rankgrad.training.phase import Batch, Phase

ROWS = 64
OPTIONS = {"epochs": 1, "patience": 6, "schedule": {"name": "cosine", "warm_up_epochs": 1},
           "optimizer": {"name": "SGD", "args": {"lr": 0.05, "momentum": 0.9}}}  # fmt: skip


class Regression(Phase):
    """A small regression with dropout: what `fit` trains here; each step's loss may be looked at and changed."""

    rows, monitor, lower_is_better = ROWS, "error", True

    def __init__(self, network, change=lambda task, network, loss: loss):
        self.module, self.steps, self.change, self.batch_size = network, 0, change, 16
        draws = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(ROWS, 5, generator=draws)
        self.targets = self.inputs.sum(1, keepdim=True) + torch.randn(ROWS, 1, generator=draws) / 10

    def batch(self, rows, generator):
        return Batch((self.inputs[rows],), (self.targets[rows],))

    def outputs(self, module, *inputs):
        self.given = module
        return module(*inputs)

    def loss(self, outputs, truth, generator):
        self.steps += 1
        return self.change(self, self.given, nn.functional.mse_loss(*outputs, *truth))

    def validate(self, network):
        assert not torch.is_grad_enabled()
        assert not network.training
        return {"error": nn.functional.mse_loss(network(self.inputs), self.targets).item()}


def problem(*change):
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    return network, Regression(network, *change)


def trained(network, task, *, checkpoint=None, seed=3, precision="no", name="training", **options):
    assert task.module is network
    task.options = typed(PhaseOptions, OPTIONS | options)
    return fit(task, seed=seed, name=name, device="cpu", precision=precision, checkpoint=checkpoint)


def weights_of(network):
    return torch.cat([value.double().flatten() for value in network.state_dict().values()])


@pytest.fixture(autouse=True)
def every_epoch_is_kept(monkeypatch):
    monkeypatch.setattr("rankgrad.training.loop.SECONDS", 0.0)


@pytest.mark.parametrize(("interrupted_in", "seconds", "repeated"), [(1, 0, 0), (13, 0, 0), (24, 0, 0), (13, 60, 12)])
def test_a_killed_training_ends_with_the_same_bits(interrupted_in, seconds, repeated, tmp_path, monkeypatch):
    monkeypatch.setattr("rankgrad.training.loop.SECONDS", seconds)
    undisturbed, task = problem()
    expected = list(trained(undisturbed, task, epochs=6))

    def dies(task, network, loss):
        if task.steps == interrupted_in:
            raise KeyboardInterrupt
        return loss

    network, task = problem(dies)
    with torch.no_grad():  # all weights in one piece of memory, as cuDNN keeps those of an LSTM
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(network.parameters()), network.parameters())
    with pytest.raises(KeyboardInterrupt):
        list(trained(network, task, epochs=6, checkpoint=tmp_path))
    torch.manual_seed(99)  # a new process has another random state
    resumed, task = problem()
    assert list(trained(resumed, task, epochs=6, checkpoint=tmp_path)) == expected
    assert weights_of(resumed).equal(weights_of(undisturbed))
    assert task.steps == 24 - (interrupted_in - 1) // 4 * 4 + repeated  # epochs that were kept were not


def test_what_is_finished_is_not_trained_again_whatever_half_written_and_earlier_checkpoints_there_are(tmp_path):
    (network, task), kept = problem(), tmp_path / "kept"
    begun = trained(network, task, epochs=3, checkpoint=kept)
    next(begun)
    shutil.copytree(kept / "epoch-000001", tmp_path / "earlier")
    expected = list(begun)
    assert [path.name for path in kept.iterdir()] == ["epoch-000003"]
    (tmp_path / "earlier").rename(kept / "epoch-000001")  # as if killed before it was removed
    (kept / "epoch-000009.partial-123").mkdir()
    again, task = problem()
    task.loss = None
    assert list(trained(again, task, epochs=3, checkpoint=kept))[1:] == expected
    assert weights_of(again).equal(weights_of(network))
    assert not again.training


def test_the_best_epoch_is_kept_and_patience_ends_it():
    errors, states = iter([5.0, 3.0, 4.0, 3.0, 9.0, 1.0]), []
    network, task = problem()
    task.validate = lambda network: states.append(weights_of(network)) or {"error": next(errors)}
    epochs = list(trained(network, task, epochs=6, patience=3))
    assert [epoch.best for epoch in epochs] == [True, True, False, False, False]
    assert weights_of(network).equal(states[1])


def test_a_stopped_training_has_the_weights_of_its_last_epoch_with_the_rates_of_all_epochs():
    def states_of(errors, stop):
        states, left = [], iter(errors)
        network, task = problem()
        task.validate = lambda network: states.append(weights_of(network)) or {"error": next(left)}
        task.options = typed(PhaseOptions, OPTIONS | {"epochs": 6, "patience": 1})
        for _ in fit(task, seed=3, device="cpu", stop=stop):
            pass
        return network, states

    _, expected = states_of([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], None)
    network, states = states_of([1.0, 4.0, 3.0], 3)
    assert torch.stack(states).equal(torch.stack(expected[:3]))
    assert weights_of(network).equal(states[2])


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_the_last_good_epoch(tmp_path):
    network, task = problem(lambda task, _, loss: loss * (math.nan if task.steps == 7 else 1))
    with pytest.raises(FloatingPointError, match=r"mine: .* nan in batch 3 of epoch 2; epoch 1 is kept in"):
        list(trained(network, task, epochs=4, checkpoint=tmp_path, name="mine"))
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-000001"]
    assert torch.isfinite(weights_of(network)).all()  # the best weights so far, not the broken ones


@pytest.mark.parametrize(
    ("validate", "error", "message"),
    [
        (lambda _: check_scores(torch.tensor([[math.nan]])), FloatingPointError, "mine.*epoch 1: .*nan"),
        (lambda _: {"error": math.inf}, FloatingPointError, "mine.*after epoch 1: .*inf"),
        (lambda _: {"accuracy": 1.0}, ValueError, "mine.*'error', but validation gives accuracy"),
    ],
)
def test_a_validation_that_fails_ends_it_and_says_why(validate, error, message, tmp_path):
    network, task = problem()
    task.validate = validate
    with pytest.raises(error, match=message):
        list(trained(network, task, name="mine", checkpoint=tmp_path))
    assert not list(tmp_path.iterdir())


def test_what_was_trained_computes_in_float32_and_can_be_trained_compiled_again(monkeypatch):
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})  # one process computes in one precision otherwise
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "EAGER")
    seen = []
    network, task = problem(lambda _, network, loss: seen.append(type(network).__name__) or loss)
    for seed in (3, 4):
        list(trained(network, task, seed=seed, precision="bf16"))
        other = problem()[0]
        other.load_state_dict(network.state_dict())
        assert torch.equal(network.eval()(task.inputs), other.eval()(task.inputs))
    assert seen == ["OptimizedModule"] * 8


def test_batches_are_cut_to_whole_groups_and_others_are_left_out_each_time(generator):
    seen = [torch.cat(list(random_batches(10, 4, generator, multiple_of=4))) for _ in range(20)]
    assert all(len(rows) == 8 and len(set(rows.tolist())) == 8 for rows in seen)
    assert {row for rows in seen for row in rows.tolist()} == set(range(10))
    with pytest.raises(ValueError, match="batches of 6 .* groups of 4"):
        list(random_batches(10, 6, generator, multiple_of=4))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"name": "constant"}, [0.05, 0.05, 0.05, 0.05]),
        ({"name": "step", "factor": 0.5, "every_epochs": 0.05}, [0.05 * 2.0**-n for n in (15, 35, 55, 75)]),
        ({"name": "cosine"}, [0.025 * (1 + math.cos(math.pi * (epoch - 0.25) / 4)) for epoch in (1, 2, 3, 4)]),
        ({"name": "cosine", "warm_up_epochs": 2}, [0.01875, 0.04375, 0.025 * 1.3826834, 0.025 * 0.0761205]),
    ],
)
def test_learning_rates_follow_the_schedule(schedule, expected):
    network, task = problem()
    epochs = list(trained(network, task, epochs=4, schedule=schedule))
    # That of an epoch's fourth and last step, a quarter of an epoch before its end.
    assert [epoch.learning_rate for epoch in epochs] == pytest.approx(expected, rel=1e-5, abs=1e-12)


def test_a_step_is_no_longer_than_the_clipped_gradient():
    network, task = problem()
    before = nn.utils.parameters_to_vector(network.parameters()).detach().clone()
    clipped = {"name": "SGD", "args": {"lr": 1.0}, "clip": 0.01}
    task.batch_size = ROWS  # one step
    list(trained(network, task, optimizer=clipped, schedule={"name": "constant"}))
    moved = nn.utils.parameters_to_vector(network.parameters()).detach() - before
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-2)


def test_each_epoch_of_each_seed_draws_its_own_dropout_and_its_loss_is_the_mean_over_batches():
    drawn, losses = [], []
    network, task = problem(lambda _, network, loss: drawn.append(torch.rand(()).item()) or losses.append(loss) or loss)
    epochs = [epoch for seed in (3, 4) for epoch in trained(network, task, epochs=2, seed=seed)]
    assert len(set(drawn)) == 2 * 2 * 4
    means = torch.stack(losses).detach().view(4, 4).mean(1).tolist()
    assert [epoch.loss for epoch in epochs] == pytest.approx(means, rel=1e-6)


def test_shifted_images_are_moved_and_filled_with_black(generator):
    images = torch.zeros(200, 1, 9, 9, dtype=torch.uint8)
    images[:, 0, 4, 4] = 255
    positions = shifted(images, 2, generator).squeeze(1).nonzero()[:, 1:]
    assert len(positions) == 200  # no image lost its dot, none has two
    assert {tuple(position) for position in positions.tolist()} == {(y, x) for y in range(2, 7) for x in range(2, 7)}
    same = warped(images, torch.Generator().manual_seed(2), shift=2)  # in whole pixels
    assert same.equal(shifted(images, 2, torch.Generator().manual_seed(2)))


@pytest.mark.parametrize("colors", [1, 3])
def test_warped_images_are_those_of_scipy(colors, generator):
    images = torch.randint(0, 256, (20, colors, 11, 16), generator=generator, dtype=torch.uint8)
    moved_images = warped(images, torch.Generator().manual_seed(5), shift=3, zoom=1.3, rotation=40.0)
    assert moved_images.dtype == torch.uint8
    draws = torch.rand(4, 20, generator=torch.Generator().manual_seed(5)).double().numpy() * 2 - 1
    center = np.array([0, 5.0, 7.5])
    for image, moved, (down, right, scale, turn) in zip(images.double(), moved_images, draws.T, strict=True):
        angle, factor = math.radians(40 * turn), 1.3**scale
        turned = [[factor, 0, 0], [0, math.cos(angle), -math.sin(angle)], [0, math.sin(angle), math.cos(angle)]]
        back = np.array(turned) / factor  # colors are apart
        origin = center - back @ (center + np.array([0, down, right]) * 3)
        expected = affine_transform(image.numpy(), back, origin, order=1, mode="grid-constant")
        assert np.abs(moved.double().numpy() - expected).max() < 0.51  # rounded


def test_warped_and_views_refuse_what_they_cannot_draw(generator):
    images = torch.zeros(1, 1, 4, 4, dtype=torch.uint8)
    for option, value in (("shift", -1), ("zoom", 0.99), ("zoom", math.nan), ("rotation", math.inf)):
        with pytest.raises(ValueError, match=f"{option} is {value}"):
            warped(images, generator, **{option: value})
        with pytest.raises(ValueError, match=f"{option} is {value}"):
            views(images, count=2, **{option: value})
    with pytest.raises(ValueError, match="count is 0"):
        views(images, count=0)
    with pytest.raises(TypeError, match=r"torch.float32.*torch.uint8"):
        warped(images.float(), generator, zoom=1.1)


def test_views_move_each_image_by_itself_and_always_alike(generator):
    images = torch.randint(0, 256, (5, 1, 20, 24), generator=generator, dtype=torch.uint8)
    moves = {"count": 4, "shift": 3, "zoom": 1.2, "rotation": 10.0}
    of_all, alone = list(views(images, **moves)), list(views(images[3:4], **moves))
    assert of_all[0].equal(images)
    assert len({view.numpy().tobytes() for view in of_all}) == len(of_all) == 4
    assert all(of_image.equal(view[3:4]) for of_image, view in zip(alone, of_all, strict=True))
    assert all(view.equal(images) for view in views(images, count=3))
