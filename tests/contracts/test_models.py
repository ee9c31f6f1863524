"""What every backbone and every head must do. What a part takes and gives is said by its attributes."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts.values import check_nothing_else_changes, check_option, check_summary, options_of, parameters, small
from rankgrad import lookup
from rankgrad.datasets.files.splits import Labels, Split
from rankgrad.inputs.features import of_tensor
from rankgrad.inputs.image import of_tensor as pictures_of
from rankgrad.inputs.text import of_strings
from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.models.network import made
from rankgrad.plain_text import PAIR

BACKBONES, HEADS, WHOLE = (lookup.names(folder) for folder in ("models.backbones", "models.heads", "models"))
FITTED = [name for name in BACKBONES if lookup.find("models.backbones", name).tasks]
WORDS = ["<padding>", "<unknown>", *"abcdefg", PAIR]
RUNTIME = {"outputs": 5, "features": 7, "words": WORDS, "colors": 1}
CONVNET, LINEAR, PERCEPTRON = "convnet", "linear", "perceptron"
Options = Mapping[str, dict[str, Any]]
NONE: Options = MappingProxyType({})
# An encoder of a word a token, as its folder has it.
TINY = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {word: place for place, word in enumerate(WORDS)}, "unk_token": WORDS[1]},
}  # fmt: skip
FILES = {"config": TINY | {"model_type": "bert", "vocab_size": len(WORDS)}, "tokenizer": TOKENIZER}
# What a backbone needs to be made where no default says it.
GIVEN: dict[str, dict[str, Any]] = {
    "boosted_trees": {"args": {"trees": 3}},
    "lambdarank_trees": {"args": {"trees": 3}},
    "timm": {"args": {"network": "test_convnext"}},
    "torchvision": {"args": {"network": "mobilenet_v3_small"}},
    "transformer": {"files": FILES},
}


def part(folder: str, name: str, **options) -> dict[str, Any]:
    usual = GIVEN.get(name, {})
    return {"name": name} | usual | {"args": small(lookup.find(folder, name)) | usual.get("args", {}) | options}


def network(
    backbone: str = CONVNET, head: str = LINEAR, *, of: str = "network", options: Options = NONE, **runtime
) -> nn.Module:
    """A whole network with a backbone and a head, and options of one of the three."""
    runtime = RUNTIME | runtime
    components = {
        "backbone": part("models.backbones", backbone, **options.get("backbone", {})),
        "head": part("models.heads", head, **options.get("head", {})),
        "text": part("models.backbones", "words"),
    }
    whole = lookup.find("models", of)
    args = {key: value for key, value in components.items() if key in parameters(whole)}
    result = build("models", of, small(whole) | args | options.get("of", {}), seed=0, **runtime)
    if backbone in FITTED:
        result.backbone.fit(labeled(result.backbone.input, runtime))
    return result.eval()


def labeled(kind: str, runtime: dict[str, Any]) -> Split:
    """Forty rows with random labels."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (40, runtime["outputs"]), generator=draws)
    if kind == "features":
        of_rows = of_tensor(torch.randn(40, RUNTIME["features"], generator=draws))
    elif kind == "image":
        shape = (40, runtime["colors"], 64, 64)
        of_rows = pictures_of(torch.randint(0, 256, shape, generator=draws, dtype=torch.uint8))
    else:
        words = torch.tensor(list(b"abcdefg"))[torch.randint(7, (40, 6), generator=draws)]
        of_rows = of_strings([f"a {PAIR} {' '.join(map(chr, row))}" for row in words.tolist()])
    return Split(of_rows, Labels(labels, torch.zeros_like(labels, dtype=torch.bool)))


@cache
def frozen(backbone: str = CONVNET, head: str = LINEAR, *, of: str = "network") -> nn.Module:
    return network(backbone, head, of=of).requires_grad_(False)


def fits(backbone: str, head: str) -> bool:
    """Whether a head can score what a backbone gives: some need the places of maps."""
    try:
        return bool(frozen(backbone, head))
    except ValueError as error:
        assert "returns" in str(error)  # noqa: PT017
        return False


MADE = [(backbone, LINEAR) for backbone in BACKBONES]
MADE += [
    (backbone, head) for head in HEADS if head != LINEAR for backbone in (CONVNET, PERCEPTRON) if fits(backbone, head)
]
MADE += [("boosted_trees", "identity")]
every = pytest.mark.parametrize(("backbone", "head"), MADE)
OTHERS = [name for name in WHOLE if name != "network" and "backbone" in parameters(lookup.find("models", name))]
SAVED = [(*pair, "network") for pair in MADE] + [(CONVNET, LINEAR, name) for name in OTHERS]


def inputs(network: nn.Module, *, colors: int = 1) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    kind = network.backbone.input if hasattr(network, "backbone") else "features"
    if kind == "image":
        return torch.randint(0, 256, (3, colors, 64, 64), generator=draws, dtype=torch.uint8)
    if kind == "text":
        return network.backbone.tokenize(["a b c d e f g a b c", "b", "e f"])
    if kind == "text_pair":
        return network.backbone.tokenize([f"a b {PAIR} c d e f g a b c", f"b {PAIR} b", f"e f {PAIR} f"])
    return torch.randn(3, RUNTIME["features"], generator=draws)


def outputs_of(network: nn.Module, batch: Tensor) -> Tensor:
    """All outputs of a network, for each kind of input that it takes."""
    output = network(batch)
    outputs = [*output] if isinstance(output, tuple) else [output]
    if hasattr(network, "encode_text"):
        outputs.append(network.encode_text(torch.tensor([[4, 7, 0], [5, 3, 6]])))
    return torch.cat([tensor.flatten() for tensor in outputs])


@every
def test_a_rows_output_is_its_own_and_nothing_else_changes(backbone, head):
    model = frozen(backbone, head)
    check_summary(type(model.backbone))
    check_summary(type(model.head))
    batch = inputs(model)
    scores = check_nothing_else_changes(lambda: model(batch), batch, *model.state_dict().values())
    assert (scores.shape, scores.dtype) == ((3, RUNTIME["outputs"]), torch.float32)
    assert torch.allclose(model(batch[1:2]), scores[1:2], atol=1e-5)
    if model.backbone.input == "image":
        assert model(batch.float()).equal(scores)
    if model.backbone.input == "text":  # padding counts for nothing
        assert torch.allclose(model(nn.functional.pad(batch, (0, 3))), scores, atol=1e-5)
        assert torch.allclose(model(batch[1:2, :1]), scores[1:2], atol=1e-5)


@every
def test_features_are_of_the_size_and_form_that_the_backbone_says(backbone, head):
    model = frozen(backbone, head)
    features, pooled = model.backbone(inputs(model)), model.embed(inputs(model))
    assert (features.dim(), features.shape[1]) == (4 if model.backbone.maps else 2, model.backbone.size)
    assert pooled.equal(model.head.pool(features))
    assert not any(True for _ in model.head.parameters()) or pooled.grad_fn is None
    assert model.head.embed(pooled).shape[:2] == (3, model.embedding_size)
    assert model.head(pooled).equal(model.head.score(model.head.embed(pooled)))
    with torch.device("meta"):  # as the params are checked: without memory
        bare = made("models.backbones", part("models.backbones", backbone), **RUNTIME)
    assert (bare.size, bare.maps) == (model.backbone.size, model.backbone.maps)
    assert all(weights.is_meta for weights in bare.parameters())


@every
def test_every_weight_gets_a_finite_gradient_also_from_colors(backbone, head):
    model = network(backbone, head, colors=3).train()
    scores = model(inputs(model, colors=3))
    if not scores.requires_grad:  # the model was fitted when it was built
        return
    scores.square().sum().backward()
    for weights in model.parameters():
        assert not weights.requires_grad or torch.isfinite(weights.grad).all()


@pytest.mark.parametrize(("backbone", "head"), [pair for pair in MADE if not pair[0].endswith("_trees")])
def test_scores_are_not_rounded_to_ties_in_half_precision(backbone, head, monkeypatch):
    monkeypatch.setattr("rankgrad.models.backbones.word_pair_ridge.BUCKETS", 2**8)  # 500 outputs of each take long
    model = network(backbone, head, outputs=500)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        scores = model(inputs(model))
    assert scores.dtype == torch.float32
    assert all(len(row.unique()) > 490 for row in scores)
    batch = inputs(model)
    halved = batch.bfloat16() if batch.is_floating_point() else batch
    assert torch.isfinite(model.bfloat16()(halved)).all()


@pytest.mark.parametrize(("backbone", "head", "of"), SAVED)
def test_comes_back_from_disk_as_it_was(backbone, head, of, tmp_path):
    model = frozen(backbone, head, of=of)
    check_summary(type(model))
    save_model(tmp_path, model)
    assert outputs_of(load_model(tmp_path), inputs(model)).equal(outputs_of(model, inputs(model)))


PARTS = {"models": "of", "models.backbones": "backbone", "models.heads": "head"}
OPTIONS = [(folder, *pair) for folder in PARTS for pair in options_of(folder)]


@pytest.mark.parametrize(("folder", "name", "option"), OPTIONS)
def test_every_option_changes_the_output(folder, name, option):
    kind = PARTS[folder]

    def result(options):
        model = network(**{kind: name}, options={kind: options}).train()
        with torch.no_grad():
            torch.manual_seed(0)  # of dropout
            trained = outputs_of(model, inputs(model))  # which moves the statistics of BatchNorm
            return torch.cat([trained, outputs_of(model.eval(), inputs(model))])

    check_option(lookup.find(folder, name), option, result)


@pytest.mark.slow
@every
def test_compiles_whole(backbone, head):
    model = frozen(backbone, head)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph="text" not in model.backbone.input, backend="eager")
    assert torch.allclose(compiled(inputs(model)), model(inputs(model)), atol=1e-5)
