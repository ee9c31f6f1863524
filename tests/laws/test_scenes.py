"""Drawing, and what validation measures of it, against their formulas."""

import pytest
import torch

from rankgrad.datasets.scenes.drawing import draw


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
