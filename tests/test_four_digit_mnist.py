"""Four-digit MNIST: items of four digits, and a benchmark that resumes."""

import json
import sys

import torch

from benchmarks import four_digit_mnist as benchmark
from rankops.datasets.scenes.digits import Digits, splits
from rankops.datasets.scenes.four_digit_mnist import draw

from conftest import SUBSET  # isort: skip


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


def test_the_benchmark_goes_on_where_it_stopped_and_its_test_split_decides_nothing(tmp_path, monkeypatch):
    known = {name: benchmark.methods()[name] for name in ("RankOps list_mle", "SoftSort")}
    for name, value in {"FILE": tmp_path / "seeds.jsonl", "PAGE": tmp_path / "peers.md", "ITEMS": 50, "STEPS": 2,
                        "STEPS_OF_CHOICE": 1, "SETS": 2, "methods": lambda: known,
                        "splits": lambda *_: splits("subset", SUBSET)}.items():  # fmt: skip
        monkeypatch.setattr(benchmark, name, value)

    def made(*arguments: str) -> list[dict]:
        monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
        benchmark.main()
        return [json.loads(line) for line in benchmark.FILE.read_text().splitlines()]

    lines = made("--seeds", "1")
    assert [line["method"] for line in lines] == ["SoftSort"] * 3 + ["RankOps list_mle", "SoftSort"]
    assert [set(line) & {"validation", "test"} for line in lines[2:4]] == [{"validation"}, {"validation", "test"}]
    best = max(lines[:3], key=lambda line: line["validation"]["EM"])
    assert lines[-1]["setting"] == best["setting"]
    assert made("--seeds", "1", "2", "--methods", "RankOps list_mle")[:-1] == lines
