"""Four-digit MNIST: items of four digits, and a benchmark that resumes by method, n and seed."""

import json
import sys

import pytest
import torch

from benchmarks import four_digit_mnist as benchmark
from benchmarks.peers import neural_sort, soft_sort
from rankops.datasets.scenes.digits import Digits, splits
from rankops.datasets.scenes.four_digit_mnist import draw
from rankops.sorters import Laplace, soft_permutation


def test_an_item_is_four_digits_from_left_to_right_and_its_value_is_theirs(generator):
    labels = torch.arange(10).repeat(3)
    digits = Digits(torch.arange(30), (20 * labels)[:, None, None].expand(-1, 28, 28).to(torch.uint8), labels)
    images, values = draw(digits, 500, generator)
    assert images.shape == (500, 28, 112)
    assert images.dtype == torch.uint8
    shown = images.view(500, 28, 4, 28)
    assert (shown == shown[:, :1, :, :1]).all()
    for image, value in zip(shown[:, 0, :, 0] // 20, values, strict=True):
        assert int("".join(str(int(digit)) for digit in image)) == value
    assert values.unique().numel() > 450  # and with replacement, 40 draws in a row of 30 digits
    again, _ = draw(digits, 500, torch.Generator().manual_seed(0))
    assert torch.equal(images, again)


@pytest.mark.parametrize("permutation", [
    lambda scores: neural_sort(scores, temperature=1e-3),
    lambda scores: soft_sort(scores, temperature=1e-3),
    lambda scores: soft_permutation(scores, sorter=Laplace(softness=1e-3)),
])  # fmt: skip
def test_the_loss_of_sharp_permutations_tells_right_orders_from_wrong_ones(permutation, generator):
    values = torch.stack([torch.randperm(7, generator=generator) for _ in range(20)])
    assert benchmark.binary_cross_entropy(values.float(), values, permutation=permutation) < 1e-4
    assert benchmark.binary_cross_entropy(-values.float(), values, permutation=permutation) > 1


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The benchmark with two methods, tiny budgets and the digits that scikit-learn ships."""
    known = {name: benchmark.methods()[name] for name in ("RankOps list_mle", "SoftSort")}
    for name, value in {"FILE": tmp_path / "seeds.jsonl", "PAGE": tmp_path / "peers.md", "ITEMS": 50, "STEPS": 2,
                        "STEPS_OF_CHOICE": 1, "SETS": 2, "methods": lambda: known,
                        "splits": lambda *_, **seed: splits("bundled", "", **seed)}.items():  # fmt: skip
        monkeypatch.setattr(benchmark, name, value)

    def main(*arguments: str) -> list[dict]:
        monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
        benchmark.main()
        return [json.loads(line) for line in benchmark.FILE.read_text().splitlines()]

    return main


def test_what_is_finished_is_not_done_again_and_the_test_split_decides_nothing(small, monkeypatch):
    drawn = []
    monkeypatch.setattr(benchmark, "draw", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    lines = small("--seeds", "1")
    assert [(line["method"], line["seed"]) for line in lines] == [
        ("SoftSort", 0), ("SoftSort", 0), ("SoftSort", 0), ("RankOps list_mle", 1), ("SoftSort", 1)]  # fmt: skip
    assert [set(line) & {"validation", "test"} for line in lines[2:4]] == [{"validation"}, {"validation", "test"}]
    best = max(lines[:3], key=lambda line: line["validation"]["EM"])
    assert lines[-1]["setting"] == best["setting"]
    first, second = drawn[-8:-4], drawn[-4:]  # two steps, validation and test of the last two trainings
    assert all(torch.equal(one[0], other[0]) for one, other in zip(first, second, strict=True))
    more = small("--seeds", "1", "2", "--methods", "RankOps list_mle")
    assert more[:-1] == lines
    assert (more[-1]["method"], more[-1]["seed"]) == ("RankOps list_mle", 2)
    with pytest.raises(SystemExit, match="list_mel: no such method"):
        small("--methods", "list_mel")


def test_the_table_pairs_seeds_and_its_numbers_are_those_of_the_file(small):
    em = {"RankOps list_mle": [52.0, 56.0, 54.0], "SoftSort": [50.0, 52.0]}
    line = {"setting": None, "n": 5, "steps": benchmark.STEPS, "cpu_seconds": 9.0}
    for method, values in em.items():
        with benchmark.FILE.open("a") as file:
            for seed, value in enumerate(values, 1):
                figures = {"EM": value, "EW": 80.0}
                file.write(json.dumps(line | {"method": method, "seed": seed, "test": figures}) + "\n")
    benchmark.PAGE.write_text("<!-- results: x -->\n<!-- end of results -->\n")
    small("--table")
    page = benchmark.PAGE.read_text()
    assert "| RankOps list_mle |  | 3 | 54.0 ± 5.0 | 80.0 ± 0.0 | 3.0 ± 12.7 | 9 |" in page
    assert "| SoftSort |  | 2 | 51.0 ± 12.7 | 80.0 ± 0.0 |  | 9 |" in page
