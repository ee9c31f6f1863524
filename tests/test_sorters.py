"""What every sorter in the folder must do, found by its name alone, and what each is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankops import by_name
from rankops.checkpoints import build, save_model
from rankops.ranks import ranks
from rankops.sorters import load_sorter
from rankops.sorters.handcrafted import Handcrafted
from rankops.sorters.lstm import LSTM

LENGTH = 6
# Small ones; a new sorter needs a line only if its defaults are slow.
SMALL = {"cnn": {"channels": 4, "layers": 2}, "lstm": {"hidden": 4, "layers": 1}}
# For every option another value, which must change the ranks.
OTHER = {
    "steepness": 3.0, "hidden": 5, "layers": 3, "projection": "shared", "standardise": True, "channels": 5, "kernel": 5,
    "dilated": True, "output": "position",
}  # fmt: skip
ALL = by_name.names("sorters")


def make(name: str, **options) -> torch.nn.Module:
    args = SMALL.get(name, {}) | options
    runtime = {} if name == "handcrafted" else {"length": LENGTH}
    return build("sorters", name, args, seed=0, **runtime)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(LENGTH,), (3, LENGTH), (2, 3, LENGTH), (0, LENGTH)])
def test_keeps_the_shape(name, shape, generator):
    assert make(name).eval()(torch.randn(shape, generator=generator)).shape == shape


@pytest.mark.parametrize("name", ALL)
def test_gives_every_score_a_finite_gradient_and_changes_nothing_else(name, generator):
    sorter = make(name).eval()
    scores = torch.randn(3, LENGTH, generator=generator).requires_grad_()
    before, state = scores.detach().clone(), torch.get_rng_state()
    (sorter(scores) * torch.arange(LENGTH)).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad != 0).any(dim=1).all()
    assert scores.detach().equal(before)
    assert torch.get_rng_state().equal(state)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ALL)
def test_refuses_scores_that_are_not_finite(name):
    with pytest.raises(ValueError, match=r"nan at \(0, 2\)"):
        make(name)(torch.tensor([[0.0, 1.0, float("nan"), 3.0, 4.0, 5.0]]))


@pytest.mark.parametrize("name", [name for name in ALL if name != "handcrafted"])
def test_refuses_another_length(name):
    with pytest.raises(ValueError, match=r"length 5 in shape \(2, 5\), expected 6"):
        make(name)(torch.zeros(2, 5))


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in ALL for option in by_name.options(by_name.find("sorters", name))]
)
def test_every_option_changes_something(name, option, generator):
    scores = 3 * torch.randn(4, LENGTH, generator=generator)
    # Dilation can only be seen where there is a layer to dilate.
    base = {"layers": 3} if option == "dilated" else {}
    default, changed = (make(name, **base, **extra).eval()(scores) for extra in ({}, {option: OTHER[option]}))
    assert not torch.allclose(default, changed)


@pytest.mark.parametrize("name", ALL)
def test_comes_back_from_disk_as_it_was(name, tmp_path, generator):
    sorter = build("sorters", name, SMALL.get(name, {}), seed=0, length=LENGTH).eval()
    save_model(tmp_path, sorter)
    scores = torch.randn(3, LENGTH, generator=generator)
    loaded = load_sorter(tmp_path)
    assert loaded(scores).equal(sorter(scores))
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_a_damaged_file_is_named(tmp_path):
    save_model(tmp_path, build("sorters", "lstm", SMALL["lstm"], seed=0, length=LENGTH))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{tmp_path}: not a whole model"):
        load_sorter(tmp_path)


def test_a_module_that_nothing_can_rebuild_is_not_written(tmp_path):
    with pytest.raises(TypeError, match=r"LSTM: not from `rankops.checkpoints.build`"):
        save_model(tmp_path / "lstm", LSTM(length=4))
    assert not (tmp_path / "lstm").exists()


def test_handcrafted_is_the_sum_of_equations_11_and_12():
    scores = [0.3, -1.0, 0.35, 2.0]
    expected = [
        1 + sum(1 / (1 + 2.718281828459045 ** (-10 * (other - score))) for j, other in enumerate(scores) if j != i)
        for i, score in enumerate(scores)
    ]
    found = Handcrafted()(torch.tensor(scores, dtype=torch.float64))
    assert found.tolist() == pytest.approx(expected)
    assert torch.autograd.gradcheck(Handcrafted(), torch.tensor(scores, dtype=torch.float64, requires_grad=True))


@settings(deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=10))
def test_handcrafted_becomes_exact_as_it_gets_steep(values):
    scores = torch.tensor(values, dtype=torch.float64)
    assert torch.allclose(Handcrafted(steepness=60.0)(scores), ranks(scores))


def test_handcrafted_refuses_a_flat_sigmoid():
    with pytest.raises(ValueError, match="steepness is 0"):
        Handcrafted(steepness=0)


def test_the_papers_lstm_has_its_18_7_million_parameters():
    sorter = LSTM(length=100)
    assert sum(parameter.numel() for parameter in sorter.parameters()) == pytest.approx(18.7e6, rel=0.005)
