"""What every network must do. Its constructor's arguments tell what it takes: vectors of `features`, or images."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from contracts.options import check_nothing_else_changes, check_option, check_summary, options_of, parameters, small
from rankops import lookup
from rankops.io.checkpoints import build, load_model, save_model

ALL = lookup.names("models")
CLASSES = {name: lookup.find("models", name) for name in ALL}
IMAGES = [name for name in ALL if "features" not in parameters(CLASSES[name])]
BACKBONES = [name for name in IMAGES if hasattr(CLASSES[name], "embed")]
SCORER = {"name": "convnet", "args": {"channels": [4, 8]}}
RUNTIME = {"outputs": 5, "features": 7, "words": ["<padding>", "<unknown>", *"abcdefg"], "colors": 1}

every = pytest.mark.parametrize("name", ALL)


def make(name: str, **options) -> nn.Module:
    runtime = {key: options.pop(key, value) for key, value in RUNTIME.items()}
    blocks = {"scorer": SCORER} if "scorer" in parameters(CLASSES[name]) else {}
    return build("models", name, small(CLASSES[name]) | blocks | options, seed=0, **runtime)


@cache
def network(name: str) -> nn.Module:
    return make(name).eval().requires_grad_(False)


def inputs(name: str, *, colors: int = 1) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    if name in IMAGES:
        return torch.randint(0, 256, (3, colors, 64, 64), generator=draws, dtype=torch.uint8)
    return torch.randn(3, RUNTIME["features"], generator=draws)


def everything(model: nn.Module, given: Tensor) -> list[Tensor]:
    """All outputs, for each kind of input that a network takes."""
    output = model(given)
    texts = [model.encode_text(torch.tensor([[4, 7, 0], [5, 3, 6]]))] if hasattr(model, "encode_text") else []
    return [*output, *texts] if isinstance(output, tuple) else [output, *texts]


@every
def test_is_documented_gives_an_output_a_row_whatever_the_others_and_changes_nothing_else(name):
    check_summary(CLASSES[name])
    given, weights = inputs(name), network(name).state_dict().values()
    outputs = check_nothing_else_changes(lambda: everything(network(name), given), given, *weights)
    assert outputs[0].dtype == torch.float32
    assert len(outputs[0]) == 3
    assert "outputs" not in parameters(CLASSES[name]) or outputs[0].shape[1] == RUNTIME["outputs"]
    assert torch.allclose(everything(network(name), given[1:2])[0], outputs[0][1:2], atol=1e-5)
    assert everything(network(name), given.float())[0].equal(outputs[0])


@every
def test_takes_colored_images_and_every_weight_gets_a_finite_gradient(name):
    model = make(name, colors=3).train()
    sum(output.square().sum() for output in everything(model, inputs(name, colors=3))).backward()
    for weights in model.parameters():
        assert torch.isfinite(weights.grad).all()


@pytest.mark.parametrize("name", BACKBONES)
def test_is_a_head_on_features_of_convolutions(name):
    model, given = network(name), inputs(name)
    assert torch.allclose(model.head(model.embed(given)), model(given), atol=1e-5)
    assert {id(weights) for weights in model.blocks.parameters()} < {id(weights) for weights in model.parameters()}
    if hasattr(model, "embedding_size"):
        assert model.embed(given).shape == (3, model.embedding_size)


@every
def test_outputs_are_not_rounded_to_ties_in_half_precision(name):
    model = make(name, outputs=500, size=500).eval() if name == "dual_encoder" else make(name, outputs=500).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        output, *_ = everything(model, inputs(name))
    if name in IMAGES:
        assert output.dtype == torch.float32
        assert all(len(row.unique()) > 490 for row in output)
    assert torch.isfinite(everything(model.bfloat16(), inputs(name).bfloat16())[0]).all()


@every
def test_comes_back_from_disk_as_it_was(name, tmp_path):
    save_model(tmp_path, network(name))
    loaded = load_model(tmp_path)
    pairs = zip(everything(loaded, inputs(name)), everything(network(name), inputs(name)), strict=True)
    assert all(ours.equal(theirs) for ours, theirs in pairs)


@pytest.mark.parametrize(("name", "option"), options_of("models", ALL))
def test_every_option_changes_the_output(name, option):
    def result(options):
        model = make(name, **options).train()
        with torch.no_grad():
            everything(model, inputs(name))  # which moves the statistics of BatchNorm
            return torch.cat([output.flatten() for output in everything(model.eval(), inputs(name))])

    check_option(CLASSES[name], option, result)


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKBONES)
def test_compiles_whole(name):
    torch.compiler.reset()
    compiled = torch.compile(network(name), fullgraph=True, backend="eager")
    assert torch.allclose(compiled(inputs(name)), network(name)(inputs(name)), atol=1e-5)
