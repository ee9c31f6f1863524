"""Drawing, and what validation measures of it, against their formulas."""

import math

import pytest
import torch

from rankgrad.datasets.scenes.digits import Digits
from rankgrad.datasets.scenes.drawing import draw
from rankgrad.datasets.scenes.measures import box_facts


@pytest.fixture
def glyphs(generator):
    """Smooth blots with a black margin, as digits are."""
    noise = torch.rand(6, 1, 7, 7, generator=generator)
    blots = torch.nn.functional.interpolate(noise, 20, mode="bicubic").clamp(0, 1) * 255
    return torch.nn.functional.pad(blots.squeeze(1), [4] * 4).to(torch.uint8)


def weights(start, size, canvas):
    """The documented formula, (canvas, 28)."""
    pixel, k = torch.arange(canvas).unsqueeze(1) + 0.5, torch.arange(28)
    u = (pixel - start) * 28 / size - 0.5
    triangle = (1 - (u - k).abs() / max(1.0, 28 / size)).clamp(min=0)
    return torch.where((start <= pixel) & (pixel < start + size), triangle / triangle.sum(1, keepdim=True), 0)


def test_a_scene_is_the_clipped_sum_of_its_glyphs_at_any_place_whatever_the_others_are(glyphs, generator):
    scenes, slots = 40, 6
    sizes = torch.rand(scenes, slots, generator=generator) * 40 + 4
    sizes[torch.rand(scenes, slots, generator=generator) < 0.4] = 0  # also scenes without any
    tops, lefts = (torch.rand(2, scenes, slots, generator=generator) * 50 - 15).unbind()
    every = glyphs.expand(scenes, slots, 28, 28)
    images = draw(every, sizes, tops, lefts, canvas=48)
    for row in range(scenes):
        total = torch.zeros(48, 48)
        for slot in range(slots):
            if sizes[row, slot] > 0:
                down, across = (weights(starts[row, slot], float(sizes[row, slot]), 48) for starts in (tops, lefts))
                total += down @ glyphs[slot].float() @ across.T
        assert (images[row].float() - total.clamp(0, 255)).abs().max() < 0.51  # rounded to the nearest


def test_ink_is_the_sum_of_the_pixels_in_each_box(generator):
    images = torch.randint(256, (600, 9, 9), generator=generator, dtype=torch.uint8)
    offsets = torch.tensor([2.0, 1.0, 1.0]).view(3, 1, 1)
    size, top, left = torch.rand(3, 600, 2, generator=generator) * 8 - offsets
    digits = Digits(torch.arange(1), images[:1], torch.arange(1))
    rows, slots, facts = box_facts(images, digits, (size, top, left, torch.zeros(600, 2, dtype=torch.int64)))
    assert torch.stack([rows, slots], 1).equal((size > 0).nonzero())
    for row, slot, ink in zip(rows.tolist(), slots.tolist(), facts["ink_in_box"], strict=True):
        side, first_row, first_column = (float(values[row, slot]) for values in (size, top, left))
        down = slice(max(0, math.floor(first_row)), max(0, math.ceil(first_row + side)))
        across = slice(max(0, math.floor(first_column)), max(0, math.ceil(first_column + side)))
        assert ink == pytest.approx(images[row, down, across].sum().item() / side**2, rel=1e-4)
