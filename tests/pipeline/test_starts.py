"""What a training starts from: weights of libraries, of trained models, and folders of text encoders."""

import json
import shutil
from hashlib import sha256

import pytest
import torch
from contracts.test_models import FILES
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.models import resnet18

from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.io.starts import check_fit, start_from, with_files
from rankgrad.plain_text import PAIR

CONVNET = {"name": "convnet", "args": {"channels": [4, 6]}}
RESNET = {"name": "torchvision", "args": {"network": "resnet18"}}
WORDS = {"name": "words", "args": {"size": 8, "word_size": 4}}
ENCODER = {"name": "transformer", "args": {}}


def network_of(backbone: dict = CONVNET, *, seed: int = 0) -> nn.Module:
    return build("models", "network", {"backbone": backbone, "head": {"name": "linear"}}, seed=seed, outputs=1)


@pytest.fixture
def encoder(tmp_path):
    """A folder as `save_pretrained` writes it."""
    pytest.importorskip("transformers")
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(3)
    folder = tmp_path / "encoder"
    AutoModel.from_config(AutoConfig.for_model(**FILES["config"])).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(FILES["tokenizer"]))
    return folder


@pytest.fixture
def resnet(tmp_path):
    """As torchvision publishes weights: with the classifier, under its own names."""
    torch.manual_seed(4)
    save_file(resnet18().state_dict(), tmp_path / "resnet18.safetensors")
    return tmp_path / "resnet18.safetensors"


def test_published_weights_load_as_they_are_and_the_recipe_says_which_they_were(resnet, tmp_path):
    network = network_of(RESNET)
    start_from(network, resnet)
    assert network.backbone.layers.layer4[0].conv1.weight.equal(load_file(resnet)["layer4.0.conv1.weight"])
    save_model(tmp_path / "model", network)
    digest = sha256(resnet.read_bytes()).hexdigest()
    assert json.loads((tmp_path / "model/model.json").read_text())["start"] == {resnet.as_posix(): digest}


@pytest.mark.parametrize("name", ["network", "label_ranker", "dual_encoder"])
def test_every_network_gives_its_backbone(name, tmp_path):
    args = {"backbone": CONVNET, "head": {"name": "label_attention"}} | ({"text": WORDS} if "dual" in name else {})
    theirs = build("models", name, args, seed=1, outputs=2, words=["<padding>", "<unknown>", "a"])
    save_model(tmp_path / "seed3", theirs)
    (tmp_path / "run.json").write_text('{"best": 3}')  # as a run has it
    ours = network_of(seed=2)
    start_from(ours, tmp_path)
    weights = theirs.backbone.state_dict()
    assert all(weights[key].equal(value) for key, value in ours.backbone.state_dict().items())


def test_weights_of_another_network_are_told_by_names(resnet, tmp_path):
    def refused(backbone: dict, path) -> str:
        network = network_of(backbone)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        with pytest.raises(ValueError, match="safetensors: .* network: ") as error:
            start_from(network, path)
        assert all(before[name].equal(value) for name, value in network.state_dict().items())
        with torch.device("meta"), pytest.raises(ValueError, match="safetensors: .* network: "):
            check_fit(network.backbone.to("meta"), None, path)
        return str(error.value)

    other = refused({"name": "torchvision", "args": {"network": "resnet50"}}, resnet)
    assert "layer1.0.conv1.weight: found (64, 64, 3, 3), expected (64, 64, 1, 1)" in other
    save_model(tmp_path / "wider", network_of({"name": "convnet", "args": {"channels": [4, 8]}}))
    wider = refused(CONVNET, tmp_path / "wider")
    assert "backbone.7.weight: found (8, 4, 3, 3), expected (6, 4, 3, 3)" in wider
    with pytest.raises(FileNotFoundError, match="nothing: no weights to start from"):
        start_from(network_of(), tmp_path / "nothing")


class TestEncoder:
    def test_a_folder_gives_architecture_tokenizer_and_weights_and_is_not_needed_any_longer(self, encoder, tmp_path):
        model = with_files({"backbone": ENCODER}, encoder)
        network = network_of(model["backbone"]).eval()
        start_from(network, encoder)
        theirs = load_file(encoder / "model.safetensors")["embeddings.word_embeddings.weight"]
        assert network.backbone.network.embeddings.word_embeddings.weight.equal(theirs)
        tokens = network.backbone.tokenize(["a b", "g"])
        expected = network(tokens)
        save_model(tmp_path / "run", network)
        shutil.rmtree(encoder)
        (tmp_path / "run").rename(tmp_path / "elsewhere")
        loaded = load_model(tmp_path / "elsewhere")
        assert loaded.backbone.tokenize(["a b", "g"]).equal(tokens)
        assert loaded(tokens).equal(expected)
        # A run that starts from it has them from there.
        again = network_of(with_files({"backbone": ENCODER}, tmp_path / "elsewhere")["backbone"], seed=9)
        start_from(again, tmp_path / "elsewhere")
        assert again.eval().backbone(tokens).allclose(loaded.backbone(tokens))

    def test_a_pair_is_read_as_transformers_itself_reads_it(self, encoder):
        from transformers import AutoModel, PreTrainedTokenizerFast

        special = {"[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["a"]}}
        pair = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
        pair.append({"Sequence": {"id": "B", "type_id": 1}})
        template = {"type": "TemplateProcessing", "single": pair[:1], "pair": pair, "special_tokens": special}
        tokenizer = {**FILES["tokenizer"], "post_processor": template}
        (encoder / "tokenizer.json").write_text(json.dumps(tokenizer))
        network = network_of(with_files({"backbone": ENCODER}, encoder)["backbone"]).eval()
        start_from(network, encoder)
        theirs = PreTrainedTokenizerFast(tokenizer_file=str(encoder / "tokenizer.json"))
        batch = theirs("b c", "d", return_tensors="pt", return_token_type_ids=True)
        assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1]]
        expected = AutoModel.from_pretrained(encoder).eval()(**batch).last_hidden_state.mean(1)
        assert network.backbone(network.backbone.tokenize([f"b c {PAIR} d"])).allclose(expected, atol=1e-6)
        assert not network.backbone(network.backbone.tokenize(["b c a d"])).allclose(expected, atol=1e-3)

    def test_a_folder_may_hold_an_encoder_of_captions_beside_the_weights_of_an_image_network(
        self, encoder, resnet, tmp_path
    ):
        start = tmp_path / "both"
        start.mkdir()
        encoder.rename(start / "text")
        resnet.rename(start / "image.safetensors")
        frozen = {"name": "transformer", "args": {"freeze": "all"}}
        model = with_files({"backbone": RESNET, "text": frozen}, start)
        network = build("models", "dual_encoder", model | {"head": {"name": "linear"}, "size": 4}, seed=0, colors=3)
        start_from(network, start)
        assert network.backbone.layers.conv1.weight.equal(load_file(start / "image.safetensors")["conv1.weight"])
        embeddings = network.captions.backbone.network.embeddings.word_embeddings.weight
        assert embeddings.equal(load_file(start / "text/model.safetensors")["embeddings.word_embeddings.weight"])
        assert len(network.recipe["start"]) == 2
        texts = network.tokenize(["a b", "c"])
        network.train().encode_text(texts).sum().backward()
        assert embeddings.grad is None
        assert network.captions.head.score[1].weight.grad is not None
        assert network.encode_text(texts).shape == (2, 4)

    def test_what_is_no_folder_of_an_encoder_is_told(self, encoder, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match="no config.json there; expected a folder with config.json"):
            with_files({"backbone": ENCODER}, tmp_path / "empty")
        save_model(tmp_path / "run", network_of())
        with pytest.raises(ValueError, match="run has no transformer"):
            with_files({"backbone": ENCODER}, tmp_path / "run")
        (encoder / "tokenizer.json").write_text("{")
        with pytest.raises(ValueError, match=r"tokenizer\.json: not JSON"):
            with_files({"backbone": ENCODER}, encoder)
        with pytest.raises(ValueError, match="model_type is 'nonesuch', expected a text encoder: one of albert, bert"):
            network_of(ENCODER | {"files": FILES | {"config": {"model_type": "nonesuch"}}})
        with pytest.raises(FileNotFoundError, match="no weights to start from"):  # no backbone here reads text
            start_from(network_of(), encoder)
