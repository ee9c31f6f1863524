"""Each head and backbone against its formula; what all have in common is in contracts/."""

import itertools
import math

import pytest
import torch
from torch import nn

from rankops.io.checkpoints import build
from rankops.models.layers import similarities
from rankops.models.network import made
from rankops.models.tokenizer import Vocabulary

MAPS = (2, 6, 3, 4)  # of two images


def head(name: str, *, maps: bool = True, outputs: int = 2, **options) -> nn.Module:
    torch.manual_seed(0)
    part = {"name": name, "args": options}
    return made("models.heads", part, features=MAPS[1], maps=maps, outputs=outputs).eval().requires_grad_(False)


def places_of(maps: torch.Tensor) -> list[torch.Tensor]:
    return [maps[:, row, column] for row in range(maps.shape[1]) for column in range(maps.shape[2])]


def test_label_attention_scores_what_each_label_looks_at(generator):
    attention, maps = head("label_attention", outputs=3), torch.randn(MAPS, generator=generator)
    attention.bias.normal_(generator=generator)
    output = attention(maps)
    for image, label in itertools.product(range(2), range(3)):
        weights = [math.exp(attention.attention.weight[label, :, 0, 0] @ place) for place in places_of(maps[image])]
        scores = [float(attention.weight[label] @ place + attention.bias[label]) for place in places_of(maps[image])]
        expected = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
        assert output[image, label].item() == pytest.approx(expected, abs=1e-5)


def test_wildcat_pools_its_highest_and_lowest_places(generator):
    wildcat, maps = head("wildcat", maps_per_label=2, highest=3), torch.randn(MAPS, generator=generator)
    output, maps = wildcat(maps), wildcat.score_maps(maps)
    for image, label in itertools.product(range(2), range(2)):
        places = sorted(maps[image, 2 * label : 2 * label + 2].mean(0).flatten().tolist())
        assert output[image, label].item() == pytest.approx(sum(places[-3:]) / 3 + 0.7 * sum(places[:3]) / 3, abs=1e-5)


def test_linear_averages_the_image_or_its_places_and_adds_the_largest_of_each_map(generator):
    maps = torch.randn(MAPS, generator=generator)
    whole, places = head("linear", maximum=True, standardize=False), head("linear", grid=2, standardize=False)
    pooled = torch.stack([torch.cat([one.mean((1, 2)), one.amax((1, 2))]) for one in maps])
    assert whole(whole.pool(maps)).allclose(pooled @ whole.score.weight.T + whole.score.bias, atol=1e-5)
    left, right = maps[..., :2, :2].mean((2, 3)), maps[..., :2, 2:].mean((2, 3))
    assert places.pool(maps).view(2, 6, 2, 2)[:, :, 0].allclose(torch.stack([left, right], dim=-1), atol=1e-5)
    with pytest.raises(ValueError, match="grid is 2 .* the backbone gives vectors"):
        head("linear", maps=False, grid=2)


def test_a_perceptron_standardizes_by_what_it_was_fitted_to(generator):
    perceptron = made("models.backbones", {"name": "perceptron", "args": {"hidden": []}}, features=3)
    vectors = torch.randn(50, 3, generator=generator) * torch.tensor([3.0, 1.0, 0.0]) + 1e4
    perceptron.fit(vectors)
    found = perceptron(vectors)
    assert found.mean(0).tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    assert found.std(0, correction=0).tolist() == pytest.approx([1, 1, 0], abs=1e-3)  # the last one is constant
    assert perceptron(vectors + 3)[:, 0].mean().item() == pytest.approx(1, abs=0.2)  # and a shift stays one


class TestText:
    def test_unknown_words_are_one_number_and_empty_captions_are_refused(self):
        vocabulary = Vocabulary.of(["the three", "the seven"], least=1)
        assert vocabulary.encode(["the eight three", "seven"]).tolist() == [[3, 1, 4], [2, 0, 0]]
        with pytest.raises(ValueError, match=r"caption 1 is '\.\.'"):
            vocabulary.encode(["the", ".."])
        with pytest.raises(ValueError, match="<padding> and <unknown> first"):
            Vocabulary(["the"])
        assert Vocabulary.split("It's the DOG's, isn't_it?") == ["it's", "the", "dog's", "isn't", "it"]

    def test_order_counts_and_a_text_without_words_is_refused(self):
        network = made("models.backbones", {"name": "words"}, words=Vocabulary.of(["b c d"]).words)
        assert not network(torch.tensor([[2, 3]])).allclose(network(torch.tensor([[3, 2]])))
        with pytest.raises(ValueError, match="text 0 has no words"):
            network(torch.zeros(1, 3, dtype=torch.long))

    def test_both_encoders_give_places_of_unit_length(self, generator):
        parts = {"backbone": {"name": "convnet", "args": {"channels": [4]}}, "head": {"name": "linear"}}
        parts |= {"text": {"name": "words"}, "size": 8}
        network = build("models", "dual_encoder", parts, seed=0, words=Vocabulary.of(["b c d"]).words).eval()
        images = torch.randint(0, 256, (3, 1, 16, 16), generator=generator, dtype=torch.uint8)
        for found in (network(images), network.encode_text(network.tokenize(["b", "c d", "d"]))):
            assert found.norm(dim=-1).tolist() == pytest.approx([1, 1, 1])

    def test_similarities_are_of_float32_at_least(self, generator):
        embeddings = torch.nn.functional.normalize(torch.randn(40, 32, generator=generator), dim=-1).bfloat16()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert all(len(row.unique()) == 40 for row in similarities(embeddings, embeddings))
        apart = torch.tensor([[1.0], [1.0 + 1e-12]], dtype=torch.float64)
        result = similarities(apart, apart[:1])
        assert result[1] > result[0]
