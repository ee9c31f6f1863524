"""Each head and backbone against its formula; what all have in common is in contracts/."""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from contracts.test_models import FILES
from torch import nn
from torchvision import models as torchvision_models
from torchvision.models import get_model, get_model_weights, list_models

from rankgrad.datasets.files.splits import Split
from rankgrad.inputs.features import of_tensor
from rankgrad.layers import NumbersOnCpu
from rankgrad.models.backbones._gradients import AROUND, DIRECTIONS, FAINTEST, oriented_gradients
from rankgrad.models.backbones.convnet import Convnet
from rankgrad.models.backbones.perceptron import Perceptron
from rankgrad.models.backbones.sru import Sru
from rankgrad.models.backbones.timm import Timm
from rankgrad.models.backbones.torchvision import Torchvision
from rankgrad.models.backbones.transformer import Transformer
from rankgrad.models.backbones.words import Words
from rankgrad.models.network import made
from rankgrad.plain_text import tokens_of, words_of
from rankgrad.vocabulary import Vocabulary

MAPS = (2, 6, 3, 4)  # of two images


def head(name: str, *, maps: bool = True, outputs: int = 2, **options) -> nn.Module:
    torch.manual_seed(0)
    component = {"name": name, "args": options}
    return made("models.heads", component, features=MAPS[1], maps=maps, outputs=outputs).eval().requires_grad_(False)


def places_of(maps: torch.Tensor) -> list[torch.Tensor]:
    return [maps[:, row, column] for row in range(maps.shape[1]) for column in range(maps.shape[2])]


def test_label_attention_scores_what_each_label_looks_at(generator):
    attention, maps = head("label_attention", outputs=3), torch.randn(MAPS, generator=generator)
    attention.bias.normal_(generator=generator)
    output = attention(maps)
    for image, label in itertools.product(range(2), range(3)):
        weights = [math.exp(attention.attention.weight[label, :, 0, 0] @ vector) for vector in places_of(maps[image])]
        scores = [float(attention.weight[label] @ vector + attention.bias[label]) for vector in places_of(maps[image])]
        expected = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
        assert output[image, label].item() == pytest.approx(expected, abs=1e-5)


def test_wildcat_pools_its_highest_and_lowest_places(generator):
    wildcat, maps = head("wildcat", maps_per_label=2, highest=3), torch.randn(MAPS, generator=generator)
    output, maps = wildcat(maps), wildcat.score_maps(maps)
    for image, label in itertools.product(range(2), range(2)):
        places = sorted(maps[image, 2 * label : 2 * label + 2].mean(0).flatten().tolist())
        assert output[image, label].item() == pytest.approx(sum(places[-3:]) / 3 + 0.7 * sum(places[:3]) / 3, abs=1e-5)


def test_spatial_pooling_scores_the_highest_and_lowest_places_of_its_own_maps(generator):
    dsve, maps = head("spatial_pooling", size=5, highest=2), torch.randn(MAPS, generator=generator)
    places = dsve.selected(maps).flatten(2).sort(dim=-1).values
    pooled = places[..., -2:].mean(-1) + places[..., :2].mean(-1)
    assert dsve(maps).allclose(pooled @ dsve.score.weight.T + dsve.score.bias, atol=1e-5)


def test_linear_averages_the_image_or_its_places_and_adds_the_largest_of_each_map(generator):
    maps = torch.randn(MAPS, generator=generator)
    averaging, places = head("linear", maximum=True, standardize=False), head("linear", grid=2, standardize=False)
    pooled = torch.stack([torch.cat([image.mean((1, 2)), image.amax((1, 2))]) for image in maps])
    assert averaging(averaging.pool(maps)).allclose(pooled @ averaging.score.weight.T + averaging.score.bias, atol=1e-5)
    left, right = maps[..., :2, :2].mean((2, 3)), maps[..., :2, 2:].mean((2, 3))
    assert places.pool(maps).view(2, 6, 2, 2)[:, :, 0].allclose(torch.stack([left, right], dim=-1), atol=1e-5)
    with pytest.raises(ValueError, match="grid is 2 .*vectors"):
        head("linear", maps=False, grid=2)


def test_oriented_gradients_are_the_histograms_of_each_cell_divided_by_those_around_it(generator):
    picture = torch.randint(0, 256, (1, 3, 12, 16), generator=generator, dtype=torch.uint8)
    levels = picture[0].double().numpy() / 255
    histograms, colors = np.zeros((6, 8, DIRECTIONS)), np.zeros((3, 6, 8))
    for row, column in itertools.product(range(12), range(16)):
        colors[:, row // 2, column // 2] += levels[:, row, column] / 4
        beside = levels[:, row, min(column + 1, 15)] - levels[:, row, max(column - 1, 0)]
        below = levels[:, min(row + 1, 11), column] - levels[:, max(row - 1, 0), column]
        length, down, right = max(zip(np.hypot(beside, below), below, beside, strict=True))
        place = DIRECTIONS * ((math.atan2(down, right) / math.pi) % 1)
        share = place % 1
        histograms[row // 2, column // 2, int(place) % DIRECTIONS] += length * (1 - share) / 4
        histograms[row // 2, column // 2, (int(place) + 1) % DIRECTIONS] += length * share / 4
    squares = np.pad((histograms**2).sum(2), AROUND // 2)
    maps = oriented_gradients(picture, 2)[0].double().numpy()
    np.testing.assert_allclose(maps[DIRECTIONS:], colors, atol=1e-6)
    for row, column in itertools.product(range(6), range(8)):
        around = math.sqrt(squares[row : row + AROUND, column : column + AROUND].sum() / AROUND**2)
        expected = histograms[row, column] / (around + FAINTEST)
        np.testing.assert_allclose(maps[:DIRECTIONS, row, column], expected, atol=1e-5)


def test_flat_areas_have_no_oriented_gradients_and_a_finite_slope():
    flat = torch.full((1, 1, 8, 8), 90.0, requires_grad=True)
    maps = oriented_gradients(flat, 2)[:, :DIRECTIONS]
    assert not maps.any()
    maps.sum().backward()
    assert flat.grad.isfinite().all()


def test_a_perceptron_standardizes_by_what_it_was_fitted_to(generator):
    perceptron = Perceptron(features=3, hidden=[])
    vectors = torch.randn(50, 3, generator=generator) * torch.tensor([3.0, 1.0, 0.0]) + 1e4
    perceptron.fit(Split(of_tensor(vectors)))
    standardized = perceptron(vectors)
    assert standardized.mean(0).tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    assert standardized.std(0, correction=0).tolist() == pytest.approx([1, 1, 0], abs=1e-3)  # the last one is constant
    assert perceptron(vectors + 3)[:, 0].mean().item() == pytest.approx(1, abs=0.2)  # and a shift stays one


def test_a_perceptron_with_quantiles_sees_only_the_order_of_a_feature(generator):
    vectors = torch.randn(300, 2, generator=generator).round(decimals=1)
    transformed = torch.cat([vectors[:, :1].mul(3).exp(), vectors[:, 1:]], dim=1)
    seen = []
    for training in (vectors, transformed):
        perceptron = Perceptron(features=2, hidden=[], quantiles=True)
        perceptron.fit(Split(of_tensor(training)))
        seen.append(perceptron(training)[:, 2:])
    assert seen[0][:, 0].tolist() == pytest.approx(seen[1][:, 0].tolist(), abs=0.05)
    assert seen[0].mean().item() == pytest.approx(0, abs=0.05)
    assert seen[0].std().item() == pytest.approx(1, abs=0.05)
    order = vectors[:, 0].argsort()
    assert (seen[0][order, 0].diff() >= 0).all()


def check_names(backbone: nn.Module, layers: nn.Module, published: dict[str, torch.Tensor]) -> None:
    ours = {*layers.state_dict()}
    assert ours <= {*published}
    assert all(name.startswith(backbone.left_out) for name in {*published} - ours)


class TestLibraries:
    @pytest.mark.parametrize(
        ("network", "size", "blocks"),
        [("googlenet", 1024, 57), ("swin_t", 768, 16), ("vit_b_16", 768, 13)],
    )
    def test_a_network_of_torchvision_gives_its_last_maps_and_keeps_its_names(self, network, size, blocks):
        with torch.device("meta"):
            backbone = Torchvision(network=network)
            features = backbone(torch.empty(2, 1, 224, 224, dtype=torch.uint8))
        assert (backbone.maps, backbone.size, len(backbone.blocks)) == (True, size, blocks)
        assert features.shape[:2] == (2, size)
        with torch.device("meta"), NumbersOnCpu():
            published = get_model(network, weights=None).state_dict()
        check_names(backbone, backbone.layers, published)

    @pytest.mark.slow
    def test_every_classification_network_of_torchvision_can_be_a_backbone(self):
        for network in list_models(module=torchvision_models):
            with torch.device("meta"):
                backbone = Torchvision(network=network)
            assert backbone.maps, network
            assert backbone.blocks, network

    def test_maps_are_what_the_librarys_classifier_averages(self, generator):
        images = torch.randint(0, 256, (2, 3, 64, 64), generator=generator, dtype=torch.uint8)
        for network in ("resnet18", "densenet121", "swin_t"):
            backbone = Torchvision(network=network).eval()
            classifier = get_model(network).eval()
            assert not classifier.load_state_dict(backbone.layers.state_dict(), strict=False).unexpected_keys
            *_, last = classifier.children()
            seen = []
            last.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
            normalized = get_model_weights(network)["DEFAULT"].transforms()
            with torch.no_grad():
                classifier((images / 255 - torch.tensor(normalized.mean).view(3, 1, 1))
                      / torch.tensor(normalized.std).view(3, 1, 1))  # fmt: skip
                assert backbone(images).mean((2, 3)).allclose(seen[0], atol=1e-4), network

    def test_a_transformer_takes_images_of_its_size_alone(self):
        with torch.device("meta"):
            backbone = Torchvision(network="vit_b_16")
            with pytest.raises(ValueError, match="images are 96 x 96 pixels, but the network takes 224 x 224"):
                backbone(torch.empty(1, 3, 96, 96))

    @pytest.mark.parametrize(
        ("network", "maps"), [("test_vit", True), ("test_efficientnet", True), ("levit_128s", False)]
    )
    def test_a_network_of_timm_gives_maps_where_it_has_places(self, network, maps):
        timm = pytest.importorskip("timm")
        with torch.device("meta"):
            backbone = Timm(network=network)
            classifier = timm.create_model(network, num_classes=7)
        assert backbone.maps == maps
        check_names(backbone, backbone.network, classifier.state_dict())
        assert backbone.mean.flatten().shape == (3,)

    def test_a_library_that_is_missing_is_named_with_its_extra(self, monkeypatch):
        for name, backbone, options in (("timm", Timm, {"network": "resnet18"}), ("transformers", Transformer, FILES)):
            monkeypatch.setitem(sys.modules, name, None)
            with pytest.raises(ModuleNotFoundError, match=rf"pip install 'rankgrad\[{name}\]'"):
                backbone(**options)


@pytest.mark.parametrize("which", [None, "all", 1])
def test_what_is_frozen_of_a_backbone_learns_nothing_and_keeps_its_statistics(which, generator):
    backbone = Convnet(channels=[4, 6])
    backbone.freeze(which)
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    backbone.train()(torch.randint(0, 256, (3, 1, 16, 16), generator=generator, dtype=torch.uint8))
    moved = {name for name, value in backbone.state_dict().items() if not value.equal(before[name])}
    learning = {name for name, weights in backbone.named_parameters() if weights.requires_grad}
    names = [name for name, _ in backbone.named_parameters()]
    assert learning == {None: set(names), "all": set(), 1: set(names[-3:])}[which]  # a convolution, and what follows
    assert len([name for name in moved if name.endswith("running_mean")]) == {None: 4, "all": 0, 1: 1}[which]
    with pytest.raises(ValueError, match="freeze is 9, expected 1 to 4"):
        backbone.freeze(9)


class TestText:
    def test_the_units_of_sru_are_a_loop_over_the_words(self):
        words = Vocabulary.of(["b c d e f"]).words
        torch.manual_seed(0)
        sru = Sru(words=words, size=6, word_size=3, layers=2).eval().requires_grad_(False)
        for layer in sru.layers:
            layer.forget.normal_()
            layer.reset.normal_()
        tokens = sru.tokenize(["b c d e f b", "c d"])
        for text, embedding in zip(tokens, sru(tokens), strict=True):
            states = [sru.words.weight[number] for number in text if number]
            for layer in sru.layers:
                cell, outputs = torch.zeros(6), []
                for state in states:
                    candidate, forget, reset, *projected = (layer.inputs.weight @ state).split(6)
                    kept, reset_gate = (forget + layer.forget).sigmoid(), (reset + layer.reset).sigmoid()
                    cell = kept * cell + (1 - kept) * candidate
                    outputs.append(reset_gate * cell.tanh() + (1 - reset_gate) * (projected[0] if projected else state))
                states = outputs
            assert embedding.allclose(states[-1], atol=1e-6)

    def test_an_encoder_pools_the_tokens_that_are_there(self):
        mean, first = (Transformer(pooling=pooling, **FILES).eval() for pooling in ("mean", "first"))
        first.load_state_dict(mean.state_dict())
        states = mean.network(input_ids=torch.tensor([[2, 3, 4]])).last_hidden_state[0]
        tokens = mean.tokenize(["a b c", "a b c d e f"])
        assert tokens[0].tolist() == [3, 4, 5, 0, 0, 0]
        assert mean(tokens)[0].allclose(states.mean(0), atol=1e-5)
        assert first(tokens)[0].allclose(states[0], atol=1e-5)
        with pytest.raises(ValueError, match="text 1 is ' ', expected at least one word"):
            mean.tokenize(["a", " "])
        with pytest.raises(ValueError, match="longest is 999, expected at most the encoder's 512 positions"):
            Transformer(longest=999, **FILES)

    def test_unknown_words_are_one_number_and_empty_captions_are_refused(self):
        vocabulary = Vocabulary.of(["the three", "the seven"], least=1)
        assert vocabulary.encode(["the eight three", "seven"]).tolist() == [[3, 1, 4], [2, 0, 0]]
        for marks in ("..", "!! :)", "\U0001f621\U0001f621"):  # all are unknown
            assert vocabulary.encode(["the", marks]).tolist() == [[3], [1]]
        pairs = Vocabulary.of(["a \x1e b"])
        assert pairs.encode(["a \x1e ?! :)"]).tolist() == [[3, 2, 1]]
        with pytest.raises(ValueError, match=r"caption 1 is ' _'"):
            vocabulary.encode(["the", " _"])
        with pytest.raises(ValueError, match="<padding> and <unknown> first"):
            Vocabulary(["the"])
        with pytest.raises(ValueError, match="an older version wrote the model"):
            Vocabulary([*vocabulary.words, "dog's"])
        assert words_of("isn\u2019t_it?") == ["isn", "t", "it"]
        hello = "\u0928\u092e\u0938\u094d\u0924\u0947"
        tokens = [hello, "!!!", "\u6771", "\u4eac", "\U0001f621", "\U0001f621"]
        assert tokens_of(f"{hello}!!! \u6771\u4eac \U0001f621\U0001f621") == tokens
        marked = Vocabulary.of(["a dog!"])
        assert marked.encode(["a cat!?", "a dog ... !"]).tolist() == [[3, 1, 0], [3, 4, 2]]

    def test_related_and_misspelled_words_share_pieces_and_pairs_tell_their_order(self):
        vocabulary = Vocabulary.of(["not bad", "good"])

        def encoded(text: str, *, pieces: bool = True) -> set[int]:
            return {*Vocabulary(vocabulary.words, pieces=pieces).encode([text])[0].tolist()}

        assert len(encoded("good") & encoded("goood")) >= 3
        assert encoded("good") & encoded("xyz") == set()
        assert encoded("not bad") != encoded("bad not")
        assert encoded("not bad", pieces=False) == encoded("bad not", pieces=False)
        assert max(encoded("anything")) < len(Vocabulary(vocabulary.words, pieces=True))

    def test_order_counts_and_a_text_without_words_is_refused(self):
        network = Words(words=Vocabulary.of(["b c d"]).words)
        assert not network(torch.tensor([[2, 3]])).allclose(network(torch.tensor([[3, 2]])))
        with pytest.raises(ValueError, match="text 0 has no words"):
            network(torch.zeros(1, 3, dtype=torch.long))
