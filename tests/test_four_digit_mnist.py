"""Four-digit MNIST: items of four digits, and a benchmark that resumes by method, n and seed."""

import torch

from rankops.datasets.scenes.digits import Digits
from rankops.datasets.scenes.four_digit_mnist import draw


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
