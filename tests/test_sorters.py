"""What every sorter in the folder must do, found by its name alone, and each held to what it says of itself."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import laplace, rankdata
from torch._subclasses import FakeTensorMode

from rankops import lookup
from rankops.datasets.vectors.score_vectors import draw
from rankops.io.checkpoints import build, load_model, save_model
from rankops.metrics import sorter_quality as measures
from rankops.ranks import ranks
from rankops.sorters import SHIPPED, load_sorter
from rankops.sorters.cnn import CNN
from rankops.sorters.comparator import Comparator
from rankops.sorters.handcrafted import Handcrafted
from rankops.sorters.laplace import Laplace
from rankops.sorters.lstm import LSTM
from rankops.sorters.sigmoid import Sigmoid
from rankops.sorters.straight_through import StraightThrough

LENGTH = 6
# Small ones; a new sorter needs a line only if its defaults are slow.
SMALL = {"cnn": {"channels": 4, "layers": 2}, "lstm": {"hidden": 4, "layers": 1}, "comparator": {"hidden": 8}}
# For every option another value, which must change the ranks or, where it says so, their gradient.
OTHER = {
    "steepness": 3.0, "hidden": 5, "layers": 3, "projection": "shared", "standardize": True, "channels": 5, "kernel": 5,
    "dilated": True, "output": "position", "softness": 0.7, "gradient_softness": 0.7, "detach": False,
}  # fmt: skip
ALL = lookup.names("sorters")


def make(name: str, **options) -> torch.nn.Module:
    return build("sorters", name, SMALL.get(name, {}) | options, seed=0, length=LENGTH).eval()


def variants() -> list[str]:
    """Every sorter, and once more with each switch that changes what it says of itself."""
    found = []
    for name in ALL:
        found.append(name)
        for option in ("standardize", "detach"):
            if option in lookup.options(lookup.find("sorters", name)):
                found.append(f"{name}, {option}")
    return found


def variant(text: str) -> torch.nn.Module:
    name, _, option = text.partition(", ")
    if not option:
        return make(name)
    usual = getattr(make(name), option)
    return make(name, **{option: not usual})


VARIANTS = variants()
ANY_LENGTH = [text for text in VARIANTS if variant(text).length is None]
EXACT = [text for text in VARIANTS if variant(text).exact_gradient]
SURROGATES = [text for text in VARIANTS if not variant(text).exact_gradient]


def those(attribute: str) -> list[str]:
    return [text for text in VARIANTS if getattr(variant(text), attribute)]


def random_scores(generator, *shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=dtype)


def double(sorter: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(sorter).double()


def jacobian(sorter, scores: torch.Tensor) -> torch.Tensor:
    """[i, j] = the derivative of rank i by score j, of one vector."""
    return torch.autograd.functional.jacobian(sorter, scores)


# --- the contract ---


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("shape", [(LENGTH,), (3, LENGTH), (2, 3, LENGTH), (0, LENGTH)])
def test_keeps_the_shape_and_the_type(text, shape, generator):
    found = variant(text)(torch.randn(shape, generator=generator))
    assert found.shape == shape
    assert found.dtype == torch.float32
    assert double(variant(text))(random_scores(generator, *shape)).dtype == torch.float64


@pytest.mark.parametrize("text", VARIANTS)
def test_any_dimension_may_be_ranked(text, generator):
    scores = random_scores(generator, 2, LENGTH, 3, dtype=torch.float32)
    sorter = variant(text)
    expected = sorter(scores.movedim(1, -1)).movedim(-1, 1)
    assert torch.allclose(sorter(scores, dim=1), expected)
    assert torch.allclose(sorter(scores, dim=-2), expected)


@pytest.mark.parametrize("text", VARIANTS)
def test_ascending_is_descending_of_the_negated_and_normalized_is_divided_by_d(text, generator):
    scores = random_scores(generator, 3, LENGTH, dtype=torch.float32)
    sorter = variant(text)
    assert torch.allclose(sorter(scores, descending=False), sorter(-scores))
    assert torch.allclose(sorter(scores, normalized=True), sorter(scores) / LENGTH)


@pytest.mark.parametrize("text", VARIANTS)
def test_gives_every_score_a_finite_gradient_and_changes_nothing_else(text, generator):
    sorter = variant(text)
    scores = torch.randn(3, LENGTH, generator=generator).requires_grad_()
    before, state = scores.detach().clone(), torch.get_rng_state()
    (sorter(scores) * torch.arange(LENGTH)).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad != 0).any(dim=1).all()
    assert scores.detach().equal(before)
    assert torch.get_rng_state().equal(state)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_ranked_in_float32(text, dtype, generator):
    scores = torch.randn(3, LENGTH, generator=generator).to(dtype).requires_grad_()
    found = variant(text)(scores)
    assert found.dtype == torch.float32
    assert found.equal(variant(text)(scores.detach().float()))
    found.square().sum().backward()
    assert scores.grad.dtype == dtype
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("text", VARIANTS)
def test_autocast_changes_nothing(text, generator):
    scores = torch.randn(3, LENGTH, generator=generator)
    sorter = variant(text)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = sorter(scores)
        loss = sorter.imitation_loss(scores, ranks(scores))
    assert found.dtype == torch.float32
    assert torch.allclose(found, sorter(scores), atol=1e-6)
    assert loss.item() == pytest.approx(sorter.imitation_loss(scores, ranks(scores)).item(), rel=1e-6)


@pytest.mark.parametrize("text", EXACT)
def test_where_it_says_so_the_gradient_is_the_derivative(text, generator):
    sorter = double(variant(text))
    scores = random_scores(generator, 2, LENGTH).requires_grad_()
    assert torch.autograd.gradcheck(sorter, scores)
    assert torch.autograd.gradgradcheck(sorter, scores)


@pytest.mark.parametrize("text", SURROGATES)
def test_a_surrogate_gradient_can_be_differentiated_too(text, generator):
    sorter = double(variant(text))
    scores = random_scores(generator, LENGTH).requires_grad_()
    (first,) = torch.autograd.grad(sorter(scores).square().sum(), scores, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), scores)
    assert torch.isfinite(second).all()
    assert (second != 0).any()


@pytest.mark.parametrize("text", ANY_LENGTH)
def test_runs_under_vmap_and_compiled_whole(text, generator):
    sorter = variant(text)
    scores = random_scores(generator, 4, 3, LENGTH, dtype=torch.float32)
    assert torch.allclose(torch.func.vmap(sorter)(scores), sorter(scores), atol=1e-6)
    gradient = torch.func.grad(lambda one: sorter(one).square().sum())
    expected = torch.stack([gradient(part) for part in scores])
    assert torch.allclose(torch.func.vmap(gradient)(scores), expected, atol=1e-3, rtol=1e-4)
    compiled = torch.compile(sorter, fullgraph=True, backend="aot_eager")
    inputs = scores[0].clone().requires_grad_()
    found = compiled(inputs)
    assert torch.allclose(found, sorter(scores[0]), atol=1e-6)
    found.square().sum().backward()
    assert torch.allclose(inputs.grad, expected[0] if scores[0].dim() == 1 else gradient(scores[0]), atol=1e-3)


@pytest.mark.parametrize("text", ANY_LENGTH)
def test_a_masked_vector_is_ranked_as_the_shorter_one(text, generator):
    sorter = double(variant(text))
    scores = random_scores(generator, 3, LENGTH)
    mask = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    filled = scores.masked_fill(~mask, torch.nan).requires_grad_()
    found = sorter(filled, mask=mask)
    (pulled,) = torch.autograd.grad((found * torch.arange(LENGTH)).sum(), filled)
    for row in range(3):
        alone = scores[row][mask[row]].requires_grad_()
        expected = sorter(alone)
        assert torch.allclose(found[row][mask[row]], expected)
        assert (found[row][~mask[row]] == 0).all()
        (gradient,) = torch.autograd.grad((expected * torch.arange(LENGTH)[mask[row]]).sum(), alone)
        assert torch.allclose(pulled[row][mask[row]], gradient)
        assert (pulled[row][~mask[row]] == 0).all()
    assert torch.allclose(
        sorter(filled, mask=mask, normalized=True), found / mask.sum(-1, keepdim=True), equal_nan=False
    )


@pytest.mark.parametrize("text", ANY_LENGTH)
@pytest.mark.parametrize("descending", [True, False])
def test_a_large_offset_beside_masked_scores_costs_nothing(text, descending):
    sorter = variant(text)
    if hasattr(sorter, "softness"):
        sorter.softness = 0.3  # so that all scores have to do with each other
    scores = torch.tensor([0.0, 0.5, 1.0, 1.5])
    for offset in (-(2.0**20), 2.0**20):  # to which halves can be added without rounding
        alone, beside = (scores + offset).requires_grad_(), torch.cat([scores + offset, torch.tensor([torch.nan])])
        there = torch.tensor([True] * 4 + [False])
        expected = sorter(alone, descending=descending)
        found = sorter(beside.requires_grad_(), descending=descending, mask=there)[:4]
        torch.testing.assert_close(found, expected)
        weights = torch.arange(4.0)
        (wanted,), (pulled,) = (
            torch.autograd.grad((ranked * weights).sum(), given)
            for ranked, given in ((expected, alone), (found, beside))
        )
        torch.testing.assert_close(pulled[:4], wanted)


@pytest.mark.parametrize("length", [2, 3, 8, 31, 32, 33, 100])
def test_a_dilated_convolution_sees_all_scores_from_every_position(length):
    layers = math.ceil(math.log2(length))
    sorter = CNN(length=length, channels=2, layers=layers, dilated=True, output="position").eval()
    with torch.no_grad():  # all weights positive, so that nothing cancels and no ReLU closes
        for weights in sorter.parameters():
            weights.fill_(1.0)
    scores = torch.ones(1, length, dtype=torch.float32)
    assert (measures.jacobians(sorter, scores) > 0).all()


@pytest.mark.parametrize("text", ANY_LENGTH)
def test_where_nothing_is_left_all_ranks_are_zero(text):
    scores = torch.full((2, 4), torch.nan, requires_grad=True)
    found = variant(text)(scores, mask=torch.zeros(2, 4, dtype=torch.bool), normalized=True)
    assert found.tolist() == [[0.0] * 4] * 2
    found.sum().backward()
    assert (scores.grad == 0).all()


# --- what is refused, and what odd input gives ---


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize(
    ("scores", "options", "error", "said"),
    [
        (torch.tensor([[0.0, 1.0, float("nan"), 3.0, 4.0, 5.0]]), {}, ValueError, r"nan at \(0, 2\)"),
        (torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, float("-inf")]), {}, ValueError, r"-inf at \(5,\)"),
        (torch.zeros(2, 0), {}, ValueError, r"\(2, 0\)"),
        (torch.tensor(1.0), {}, ValueError, r"shape \(\)"),
        (torch.zeros(2, LENGTH, dtype=torch.int64), {}, TypeError, r"int64, expected a floating-point tensor"),
        (torch.zeros(2, LENGTH, dtype=torch.complex64), {}, TypeError, "complex64, expected .* take a real part"),
        ([1.0] * LENGTH, {}, TypeError, "list"),
        (torch.zeros(LENGTH), {"dim": (0, 1)}, TypeError, r"dim is \(0, 1\), expected one whole number"),
        (torch.zeros(LENGTH), {"dim": 1}, ValueError, r"dim is 1, but scores have shape \(6,\)"),
        (torch.zeros(2, LENGTH), {"mask": torch.ones(LENGTH).bool()}, ValueError, r"mask has shape \(6,\)"),
        (torch.zeros(LENGTH), {"mask": torch.ones(LENGTH)}, TypeError, "mask is torch.float32, expected a boolean"),
    ],
)
def test_refuses_what_has_no_order(text, scores, options, error, said):
    with pytest.raises(error, match=said):
        variant(text)(scores, **options)


@pytest.mark.parametrize("text", [text for text in VARIANTS if text not in ANY_LENGTH])
def test_of_fixed_length_refuses_another_and_a_mask(text):
    with pytest.raises(ValueError, match=r"length 5 in shape \(2, 5\), expected 6"):
        variant(text)(torch.zeros(2, 5))
    with pytest.raises(ValueError, match="fixed length 6: choose one of any length"):
        variant(text)(torch.zeros(LENGTH), mask=torch.ones(LENGTH).bool())


@pytest.mark.parametrize("text", VARIANTS)
def test_unchecked_a_score_that_is_not_finite_spoils_its_vector_alone(text, generator):
    scores = random_scores(generator, 3, LENGTH, dtype=torch.float32)
    expected = variant(text)(scores)
    scores[1, 2], scores[2, 0] = torch.nan, torch.inf
    found = variant(text)(scores, check_finite=False)
    assert torch.allclose(found[0], expected[0])
    assert found[1:].isnan().all()


@pytest.mark.parametrize("text", those("scale_invariant"))
@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_very_large_and_very_small_scores_are_ranked_as_well(text, factor, generator):
    sorter = variant(text)
    scores = random_scores(generator, 3, LENGTH, dtype=torch.float32)
    huge = (scores * factor).requires_grad_()
    found = sorter(huge)
    assert torch.allclose(found, sorter(scores), atol=1e-4)
    found.sum().backward()
    assert torch.isfinite(huge.grad).all()


@pytest.mark.parametrize("text", VARIANTS)
def test_equal_scores_and_a_single_one_have_finite_ranks_and_gradients(text):
    sorter = variant(text)
    for scores in (torch.full((LENGTH,), 0.1), torch.zeros(LENGTH), torch.full((LENGTH,), 1e30)):
        scores = scores.clone().requires_grad_()
        found = sorter(scores)
        (found * torch.arange(LENGTH)).sum().backward()
        assert torch.isfinite(scores.grad).all()
        assert torch.isfinite(found).all()
        if sorter.equivariant:
            assert torch.allclose(found, torch.tensor((LENGTH + 1) / 2), atol=1e-5)
    if sorter.length is None:
        assert sorter(torch.tensor([[3.0], [-1e30]])).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("text", those("scale_invariant"))
def test_scores_at_the_limits_of_float32_are_ranked(text):
    scores = torch.tensor([2e38, -2e38, 0.0, 1e38, -1e38, 3e38], requires_grad=True)
    found = variant(text)(scores)
    assert torch.isfinite(found).all()
    if variant(text).equivariant:
        assert found.argsort().tolist() == [5, 0, 3, 2, 4, 1]
    found.square().sum().backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("text", ["laplace", "laplace, standardize", "straight_through", "comparator", "sigmoid"])
def test_a_large_offset_costs_nothing_that_the_scores_have_not_lost(text, generator):
    scores = (torch.randn(200, generator=generator) * 64).round() / 64
    moved = scores + 1e5  # exact in float32
    assert torch.allclose(variant(text)(moved), variant(text)(scores), atol=1e-3)


@pytest.mark.parametrize("text", VARIANTS)
def test_weights_and_scores_of_different_types_go_together(text, generator):
    scores = random_scores(generator, 3, LENGTH)
    expected = variant(text)(scores.float())
    found = variant(text)(scores)
    assert found.dtype == torch.float64
    assert torch.allclose(found.float(), expected, atol=1e-3)
    assert variant(text).bfloat16()(scores.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("text", [text for text in ANY_LENGTH if text in those("equivariant")])
def test_equal_scores_have_equal_gradients(text):
    scores = torch.tensor([1.0, 1.0, 1.0, 0.0, 3.0, 3.0, -2.0], requires_grad=True)
    (gradient,) = torch.autograd.grad((variant(text)(scores) * torch.tensor([2, 2, 2, 1, 5, 5, 0])).sum(), scores)
    assert torch.allclose(gradient[:3], gradient[0].expand(3), rtol=1e-4)
    assert torch.allclose(gradient[4:6], gradient[4].expand(2), rtol=1e-4)


@pytest.mark.parametrize("text", ANY_LENGTH)
def test_forward_mode_is_right_or_refused(text, generator):
    sorter, scores = double(variant(text)), random_scores(generator, LENGTH)
    try:
        found = torch.func.jacfwd(sorter)(scores)
    except NotImplementedError:
        return
    assert torch.allclose(found, jacobian(sorter, scores))


def test_masks_may_be_mapped_over(generator):
    scores = random_scores(generator, LENGTH, dtype=torch.float32)
    masks = torch.rand(4, LENGTH, generator=generator) < 0.6
    found = torch.func.vmap(lambda mask: Laplace()(scores, mask=mask))(masks)
    assert torch.allclose(found, Laplace()(scores.expand(4, -1), mask=masks))


# --- properties ---

# Few distinct values, so that ties are common.
VALUES = hnp.arrays("float64", st.integers(2, 12), elements=st.integers(-4, 4))


@pytest.mark.parametrize("text", [text for text in ANY_LENGTH if text in those("equivariant")])
@settings(deadline=None, max_examples=50)
@given(values=VALUES, seed=st.integers(0, 2**31))
def test_permuted_scores_have_permuted_ranks_and_ties_equal_ones(text, values, seed):
    sorter, scores = double(variant(text)), torch.from_numpy(values)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    found = sorter(scores)
    assert torch.allclose(sorter(scores[order]), found[order], atol=1e-6)
    same = scores.unsqueeze(0) == scores.unsqueeze(1)
    assert ((found.unsqueeze(0) - found.unsqueeze(1)).abs()[same] < 1e-6).all()
    assert found.sum().item() == pytest.approx(len(scores) * (len(scores) + 1) / 2)


@pytest.mark.parametrize("text", [text for text in ANY_LENGTH if text in those("equivariant")])
@settings(deadline=None, max_examples=50)
@given(values=VALUES)
def test_larger_scores_have_smaller_ranks(text, values):
    scores = torch.from_numpy(values)
    found = double(variant(text))(scores)
    larger = scores.unsqueeze(1) > scores.unsqueeze(0)  # [i, j]: s_i > s_j
    assert ((found.unsqueeze(0) - found.unsqueeze(1))[larger] > -1e-9).all()


@pytest.mark.parametrize("text", those("shift_invariant"))
@settings(deadline=None, max_examples=25)
@given(values=hnp.arrays("float64", LENGTH, elements=st.integers(-4, 4)), shift=st.integers(-1000, 1000))
def test_where_it_says_so_a_shift_changes_nothing(text, values, shift):
    sorter, scores = double(variant(text)), torch.from_numpy(values)
    assert torch.allclose(sorter(scores + shift), sorter(scores), atol=1e-6)


@pytest.mark.parametrize("text", those("scale_invariant"))
@settings(deadline=None, max_examples=25)
@given(values=hnp.arrays("float64", LENGTH, elements=st.integers(-4, 4)), scale=st.floats(1e-6, 1e6))
def test_where_it_says_so_a_factor_changes_nothing(text, values, scale):
    sorter, scores = double(variant(text)), torch.from_numpy(values)
    assert torch.allclose(sorter(scores * scale), sorter(scores), atol=1e-6)


@pytest.mark.parametrize("attribute", ["equivariant", "shift_invariant", "scale_invariant"])
def test_what_it_denies_of_itself_it_does_not_have(attribute, generator):
    """Else it should say so: users choose by it."""
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    for text in VARIANTS:
        sorter = double(variant(text))
        if getattr(sorter, attribute):
            continue
        scores = random_scores(generator, LENGTH)
        changed, expected = {
            "equivariant": (scores[order], sorter(scores)[order]),
            "shift_invariant": (scores + 3, sorter(scores)),
            "scale_invariant": (scores * 3, sorter(scores)),
        }[attribute]
        assert not torch.allclose(sorter(changed), expected, atol=1e-6), text


@pytest.mark.parametrize("text", ["sigmoid", "laplace", "straight_through", "comparator", "handcrafted"])
@settings(deadline=None, max_examples=25)
@given(values=hnp.arrays("float64", st.integers(2, 10), elements=st.floats(-100, 100)))
@example(values=np.array([5e-324, 0.0]))
@example(values=np.array([5e-324, 0.0, 2.5e-323]))
@example(values=np.array([1e-310, 0.0, 1e-309]))
def test_raising_a_score_helps_it_and_hurts_the_others(text, values):
    scores = torch.from_numpy(values)
    found = jacobian(double(variant(text)), scores)
    own = torch.eye(len(scores)).bool()
    assert (found[own] <= 1e-12).all()
    assert (found[~own] >= 0).all()


def test_an_attached_deviation_turns_signs_around(generator):
    """Why it is detached by default."""
    scores = random_scores(generator, 50)
    own = torch.eye(50).bool()
    wrong = [(jacobian(Laplace(detach=detach).double(), scores)[~own] < 0).double().mean() for detach in (True, False)]
    assert wrong[0] == 0
    assert wrong[1] > 0.1


# --- each by itself ---


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in ALL for option in lookup.options(lookup.find("sorters", name))]
)
def test_every_option_changes_something(name, option, generator):
    # Dilation can only be seen where there is a layer to dilate.
    base = {"layers": 3} if option == "dilated" else {}
    other = (
        not getattr(make(name), option) if isinstance(OTHER[option], bool) and option != "dilated" else OTHER[option]
    )
    found = []
    for extra in ({}, {option: other}):
        scores = (3 * torch.randn(4, LENGTH, generator=torch.Generator().manual_seed(0))).requires_grad_()
        value = make(name, **base, **extra)(scores)
        found.append(torch.cat([value, torch.autograd.grad(value.square().sum(), scores)[0]]))
    assert not torch.allclose(*found)


@pytest.mark.parametrize("name", ALL)
def test_comes_back_from_disk_as_it_was(name, tmp_path, generator):
    sorter = make(name)
    save_model(tmp_path, sorter)
    scores = torch.randn(3, LENGTH, generator=generator)
    loaded = load_sorter(tmp_path)
    assert loaded(scores).equal(sorter(scores))
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_the_ten_lines_of_the_documentation_run():
    page = (Path(__file__).parents[1] / "docs/sorters.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    names = {}
    exec(code, names)
    assert names["loss"].item() > 0
    assert names["scores"].grad.any()


def test_the_shipped_comparator_is_as_good_as_it_is_said_to_be(generator):
    sorter = load_sorter("comparator")
    assert sum(weight.numel() for weight in sorter.parameters()) <= 10_000
    for length, most in ((10, 0.1 / 10), (100, 0.0006), (1000, 0.1 / 1000)):
        scores, _ = draw(100, length, generator)
        assert measures.accuracy(sorter, scores)["l1"] <= most
    scores, _ = draw(20, 100, generator)
    health = measures.gradient_health(sorter, scores)
    assert health["vanishing"] <= 0.001
    assert health["wrong_signs_of_own"] == health["wrong_signs_of_others"] == 0
    found = measures.invariance(double(sorter), scores.double(), generator)
    assert found["equivariance"] <= 1e-6
    assert found["shift"] <= 1e-6


def test_the_shipped_comparator_says_what_made_it():
    origin = json.loads((SHIPPED / "comparator/origin.json").read_text())
    assert origin["cmd"].endswith("pipelines.stages.pretrain comparator")
    assert origin["params"]["params.yaml"]["sorters.comparator"]["name"] == "comparator"
    assert "data/score_vectors/train.parquet" in [dep["path"] for dep in origin["deps"]]


def test_a_damaged_file_is_named(tmp_path):
    save_model(tmp_path, make("lstm"))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{tmp_path}: not a whole model"):
        load_sorter(tmp_path)


def test_a_model_that_is_no_sorter_is_refused(tmp_path):
    save_model(tmp_path, build("models", "convnet", {"channels": [4]}, seed=0, outputs=3))
    with pytest.raises(ValueError, match="holds a Convnet, expected a sorter"):
        load_sorter(tmp_path)


def test_a_module_that_nothing_can_rebuild_is_not_written(tmp_path):
    with pytest.raises(TypeError, match=r"LSTM: not from `rankops.io.checkpoints.build`"):
        save_model(tmp_path / "lstm", LSTM(length=4))
    assert not (tmp_path / "lstm").exists()


def summed(values, kernel) -> np.ndarray:
    """The all-pairs sum, pair by pair."""
    return np.array(
        [1 + sum(kernel(other - score) for j, other in enumerate(values) if j != i) for i, score in enumerate(values)]
    )


@settings(deadline=None, max_examples=50)
@given(
    hnp.arrays("float64", st.integers(2, 12), elements=st.floats(-3, 3)).filter(lambda values: np.ptp(values) > 1e-3)
)
def test_those_that_are_sums_are_these_sums(values):
    scores, deviation = torch.from_numpy(values), values.std()

    def logistic(steepness):
        return lambda t: 0.5 * (1 + np.tanh(steepness * t / 2))

    for sorter, expected in (
        (Handcrafted(), summed(values, logistic(10))),
        (Sigmoid(steepness=5.0), summed(values / deviation, logistic(5))),
        (Laplace(softness=0.3), summed(values / deviation, laplace(scale=0.3).cdf)),
        (Laplace(softness=0.3, standardize=False), summed(values, laplace(scale=0.3).cdf)),
    ):
        assert sorter(scores).numpy() == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(VALUES)
def test_soft_ranks_tend_to_the_exact_ones(values):
    scores, expected = torch.from_numpy(values), rankdata(-values)
    for sorter in (
        Handcrafted(steepness=60.0), Sigmoid(steepness=200.0), Laplace(softness=0.005),
        Laplace(softness=0.01, standardize=False), StraightThrough(), StraightThrough(softness=0.005),
    ):  # fmt: skip
        assert sorter(scores).numpy() == pytest.approx(expected, abs=1e-6)


def test_detached_gradients_are_those_of_the_formula_with_the_deviation_held_constant(generator):
    scores = random_scores(generator, LENGTH)
    deviation = scores.std(correction=0).item()
    fixed = Laplace(softness=0.1 * deviation, standardize=False)
    assert torch.allclose(jacobian(Laplace(softness=0.1), scores), jacobian(fixed, scores))
    fixed = Handcrafted(steepness=4 / deviation)
    assert torch.allclose(jacobian(Sigmoid(steepness=4.0), scores), jacobian(fixed, scores))
    soft = Laplace(softness=0.2)
    assert torch.allclose(jacobian(StraightThrough(gradient_softness=0.2), scores), jacobian(soft, scores))


def test_laplace_takes_a_million_scores(generator):
    scores = torch.randn(1_000_000, generator=generator, requires_grad=True)
    found = Laplace(softness=1e-5)(scores)
    assert (found - ranks(scores)).abs().mean() < 20
    found.square().mean().backward()
    assert torch.isfinite(scores.grad).all()


def slow_comparator(sorter: Comparator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks and Jacobian, pair by pair, from the network's word on each gap."""
    d = len(scores)
    order = np.argsort(-scores, kind="stable")
    at = (scores[order] - scores.mean()) / scores.std()
    gaps, steep = [], []
    for i in range(d - 1):
        distances = [at[i] - at[i + 1]]
        for step in (1, 2, 4, 8):
            distances.append(at[max(i - step, 0)] - at[i])
            distances.append(at[i + 1] - at[min(i + 1 + step, d - 1)])
        seen = np.log(np.clip(np.array(distances) * d, 1e-3, 1e3)) / 3
        word = sorter.network(torch.from_numpy(seen)).item()
        factor = np.exp(3 * np.tanh(word / 3))
        gaps.append(3 * (1 - np.exp(-factor * distances[0] * d)))
        steep.append(gaps[-1] / distances[0])
    slopes = np.sqrt(np.array([steep[0], *steep]) * np.array([*steep, steep[-1]])) + 0.1 * d
    warped = -np.concatenate([[0], np.cumsum(gaps)])
    found, derivative = np.empty(d), np.zeros((d, d))
    for i in range(d):
        found[order[i]] = 1 + sum(laplace.cdf(warped[j] - warped[i]) for j in range(d) if j != i)
        for j in range(d):
            if i != j:
                pull = (slopes[i] + slopes[j]) / 4 * np.exp(-abs(warped[i] - warped[j])) / scores.std()
                derivative[order[i], order[j]] += pull
                derivative[order[i], order[i]] -= pull
    return found, derivative


@pytest.mark.parametrize("d", [2, 5, 23])
def test_the_comparator_is_its_formula_pair_by_pair(d, generator):
    sorter = double(make("comparator"))
    scores = random_scores(generator, d)
    expected, derivative = slow_comparator(sorter, scores.numpy())
    assert sorter(scores).detach().numpy() == pytest.approx(expected)
    assert jacobian(sorter, scores).numpy() == pytest.approx(derivative)


def test_handcrafted_refuses_a_flat_sigmoid():
    for make_one in (Handcrafted, Sigmoid):
        with pytest.raises(ValueError, match="steepness is 0"):
            make_one(steepness=0)
    for make_one in (Laplace, StraightThrough):
        with pytest.raises(ValueError, match="softness is -1"):
            make_one(softness=-1)
        with pytest.raises(ValueError, match="softness is 1e-45, expected a positive number, from 1e-12"):
            make_one(softness=1e-45)
        with pytest.raises(TypeError, match="softness is None"):
            make_one(softness=None)


def test_the_papers_lstm_has_its_18_7_million_parameters():
    sorter = LSTM(length=100)
    assert sum(parameter.numel() for parameter in sorter.parameters()) == pytest.approx(18.7e6, rel=0.005)


def on_fake_gpu(module: torch.nn.Module) -> torch.nn.Module:
    """Its weights on a GPU that need not be there; call it in a `FakeTensorMode`."""
    for part in module.modules():
        for name, values in part._parameters.items():
            if values is not None:
                part._parameters[name] = torch.nn.Parameter(torch.empty_like(values, device="cuda"))
        for name, values in part._buffers.items():
            part._buffers[name] = torch.empty_like(values, device="cuda")
    return module


class TestGpu:
    # The LSTM asks the driver for cuDNN, even here.
    @pytest.mark.parametrize("text", [text for text in VARIANTS if not text.startswith("lstm")])
    def test_no_sorter_makes_a_tensor_on_another_device_than_the_scores(self, text):
        sorter = variant(text)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            scores = torch.randn(3, LENGTH, device="cuda")
            assert on_fake_gpu(sorter)(scores, check_finite=False).device.type == "cuda"
            if sorter.length is None:
                mask = torch.ones(3, LENGTH, dtype=torch.bool, device="cuda")
                assert sorter(scores, mask=mask, check_finite=False).device.type == "cuda"

    def test_a_tensor_on_another_device_would_be_found(self):
        with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(RuntimeError, match="devices"):
            torch.randn(3, device="cuda") + torch.randn(3)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    @pytest.mark.parametrize("text", VARIANTS)
    def test_ranks_and_gradients_are_the_cpus(self, text, generator):
        sorter, scores = variant(text).double(), random_scores(generator, 4, LENGTH)
        vector, found = random_scores(generator, 4, LENGTH), []
        for device in ("cpu", "cuda"):
            there = scores.to(device).requires_grad_()
            ranked = sorter.to(device)(there)
            (gradient,) = torch.autograd.grad((ranked * vector.to(device)).sum(), there)
            found.append((ranked.detach().cpu(), gradient.cpu()))
        for ours, theirs in zip(*found, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-8)


def test_options_of_numpy_come_back_and_others_are_refused_before_anything_is_written(tmp_path):
    save_model(tmp_path / "good", build("sorters", "laplace", {"softness": np.float32(0.25)}, seed=0))
    assert load_model(tmp_path / "good").recipe["args"]["softness"] == 0.25
    bad = build("sorters", "laplace", {"softness": 0.25}, seed=0)
    bad.recipe["args"]["softness"] = object()
    with pytest.raises(TypeError, match="which model.json cannot hold"):
        save_model(tmp_path / "bad", bad)
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("far", [1e8, 3e38, -1e9])
def test_a_score_far_away_does_not_tie_the_others(far):
    sorter = Laplace(softness=0.2, standardize=False)
    near = torch.tensor([0.1, 0.7, 0.3, -0.4])
    scores = torch.cat([near, torch.tensor([far])]).requires_grad_()
    place = 0.0 if far < 0 else 1.0
    assert sorter(scores)[:4].allclose(sorter(near) + place)
    alone = near.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(sorter(alone)[0], alone)
    assert torch.autograd.grad(sorter(scores)[0], scores)[0][:4].allclose(wanted)


def test_a_compiled_sorter_is_saved_as_it_is(tmp_path):
    sorter = build("sorters", "comparator", {"hidden": 8}, seed=0)
    save_model(tmp_path, torch.compile(sorter, backend="eager"))
    scores = torch.linspace(-1, 1, 9)
    assert load_sorter(tmp_path)(scores).equal(sorter(scores))


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    sorter = build("sorters", "comparator", {"hidden": 8}, seed=0)
    torch.nn.utils.parametrizations.weight_norm(sorter.network[0])
    with pytest.raises(ValueError, match=r"not those that comparator has, they differ in network\.0\.param"):
        save_model(tmp_path / "sorter", sorter)
    assert not (tmp_path / "sorter").exists()


def test_a_compiled_comparator_takes_any_length():
    """Within the number of times that PyTorch compiles a function anew, 8."""
    torch.compiler.reset()
    sorter = load_sorter("comparator")
    compiled = torch.compile(sorter, backend="eager", fullgraph=True)
    for length in range(20, 60, 4):
        scores = torch.randn(2, length, generator=torch.Generator().manual_seed(length))
        assert compiled(scores).allclose(sorter(scores), atol=1e-4)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_a_sorter_is_made_and_loaded_in_float32_whatever_is_the_default(kind):
    wanted = load_sorter("comparator").state_dict()
    torch.set_default_dtype(kind)
    try:
        loaded, made = load_sorter("comparator"), build("sorters", "lstm", {"hidden": 4}, seed=0, length=4)
        assert torch.get_default_dtype() == kind
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(weights.equal(wanted[name]) for name, weights in loaded.state_dict().items())
    assert {weights.dtype for weights in made.parameters()} == {torch.float32}


def test_a_folder_of_the_same_name_does_not_hide_the_shipped_sorter(tmp_path, monkeypatch):
    (tmp_path / "comparator").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_sorter("comparator").length is None


class TestImitation:
    def test_the_comparators_loss_is_its_formula(self, generator):
        scores = torch.randn(3, 6, generator=generator, dtype=torch.float64).requires_grad_()
        sorter = build("sorters", "comparator", {"hidden": 8}, seed=0).double()
        found, probe = sorter(scores), torch.tensor([1.0, -1.0] * 3).double()
        (ours,) = torch.autograd.grad((found * probe).sum(), scores)
        width = (scores.std(-1, correction=0) * math.sqrt(2) * 3 / 6)[:, None, None]
        density = torch.exp(-((scores.unsqueeze(-1) - scores.unsqueeze(-2)) / width).square() / 2)
        theirs = density @ probe - density.sum(-1) * probe
        cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=-1)
        expected = (found - ranks(scores)).abs().mean() + (1 - cosine).mean()
        assert sorter.imitation_loss(scores, ranks(scores)).item() == pytest.approx(expected.item())

    def test_that_of_others_is_the_mean_error_over_the_length(self):
        loss = Handcrafted(steepness=1.0).imitation_loss(torch.zeros(1, 4), torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        assert loss.item() == pytest.approx((1.5 + 0.5 + 0.5 + 1.5) / 4 / 4)  # all are at 2.5


def test_straight_through_has_the_gradient_of_the_softer_sorter_alone(generator):
    scores, vector = torch.randn(2, 6, generator=generator, dtype=torch.float64).unbind()
    gradients = []
    for sorter in (StraightThrough(softness=0.05, gradient_softness=0.3), Laplace(softness=0.3)):
        given = scores.clone().requires_grad_()
        gradients += torch.autograd.grad((sorter(given) * vector).sum(), given)
    assert torch.allclose(*gradients)


def test_making_a_sorter_leaves_the_callers_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build("sorters", "lstm", {"hidden": 2, "layers": 1}, seed=0, length=4)
    assert torch.rand(3).equal(expected)
