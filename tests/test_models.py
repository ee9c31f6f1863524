"""Each network against its formula; what all have in common is in contracts/."""

import itertools
import math

import pytest
import torch

from rankops.io.checkpoints import build
from rankops.models.layers import similarities
from rankops.models.tokenizer import Vocabulary

CHANNELS = {"channels": [4, 6]}


def images(generator, colors: int = 1) -> torch.Tensor:
    return torch.randint(0, 256, (2, colors, 16, 16), generator=generator, dtype=torch.uint8)


def test_label_attention_scores_what_each_label_looks_at(generator):
    network = build("models", "label_attention", CHANNELS, seed=0, outputs=3).eval().requires_grad_(False)
    network.attention.weight.mul_(100)  # or else each looks everywhere
    network.head.bias.normal_(generator=generator)
    given = images(generator)
    output, maps = network(given), network.blocks(given)
    for image, label in itertools.product(range(2), range(3)):
        places = [maps[image, :, row, column] for row in range(maps.shape[2]) for column in range(maps.shape[3])]
        weights = [math.exp(network.attention.weight[label, :, 0, 0] @ place) for place in places]
        scores = [float(network.head.weight[label] @ place + network.head.bias[label]) for place in places]
        expected = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
        assert output[image, label].item() == pytest.approx(expected, abs=1e-5)


def test_wildcat_pools_its_highest_and_lowest_places(generator):
    network = build("models", "wildcat", CHANNELS | {"maps_per_label": 2, "highest": 3}, seed=0, outputs=2).eval()
    with torch.no_grad():
        given = images(generator)
        output, maps = network(given), network.head.score_maps(network.embed(given))
    for image, label in itertools.product(range(2), range(2)):
        places = sorted(maps[image, 2 * label : 2 * label + 2].mean(0).flatten().tolist())
        assert output[image, label].item() == pytest.approx(sum(places[-3:]) / 3 + 0.7 * sum(places[:3]) / 3, abs=1e-5)


class TestRetrieval:
    def test_unknown_words_are_one_number_and_empty_captions_are_refused(self):
        vocabulary = Vocabulary.of(["the three", "the seven"], least=1)
        assert vocabulary.encode(["the eight three", "seven"]).tolist() == [[3, 1, 4], [2, 0, 0]]
        with pytest.raises(ValueError, match=r"caption 1 is '\.\.'"):
            vocabulary.encode(["the", ".."])
        with pytest.raises(ValueError, match="<padding> and <unknown> first"):
            Vocabulary(["the"])
        assert Vocabulary.split("It's the DOG's, isn't_it?") == ["it's", "the", "dog's", "isn't", "it"]

    def test_padding_changes_nothing_and_order_does(self):
        words = Vocabulary.of(["b c d"]).words
        network = build("models", "dual_encoder", CHANNELS | {"size": 8}, seed=0, words=words).eval()
        short, long = torch.tensor([[2, 3]]), torch.tensor([[2, 3, 0, 0]])
        assert network.encode_text(short).allclose(network.encode_text(long))
        assert not network.encode_text(short).allclose(network.encode_text(short.flip(1)))
        with pytest.raises(ValueError, match="caption 0 has no words"):
            network.encode_text(torch.zeros(1, 3, dtype=torch.long))

    def test_similarities_are_of_float32_at_least(self, generator):
        embeddings = torch.nn.functional.normalize(torch.randn(40, 32, generator=generator), dim=-1).bfloat16()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert all(len(row.unique()) == 40 for row in similarities(embeddings, embeddings))
        apart = torch.tensor([[1.0], [1.0 + 1e-12]], dtype=torch.float64)
        result = similarities(apart, apart[:1])
        assert result[1] > result[0]
