"""Draw scenes of glyphs at real-valued positions and sizes, with one batched matrix product per scene."""

import math

import torch
from torch import Tensor

__all__ = ["GLYPH", "draw"]

GLYPH = 28  # pixels per side of a glyph


def _sides(starts: Tensor, sizes: Tensor, canvas: int) -> Tensor:
    """Return both sides of the triangles as affine functions of k: (2, ..., canvas, 2), constant and slope.

    c max(0, 1 - |u - k| / r) = max(0, min(c + (c u / r - c k / r), c - (c u / r - c k / r))), c the normalization.
    """
    ratio = GLYPH / sizes.unsqueeze(-1)
    centers = torch.arange(canvas, dtype=starts.dtype, device=starts.device) + 0.5 - starts.unsqueeze(-1)
    inside = (centers >= 0) & (centers < sizes.unsqueeze(-1))
    reach = ratio.clamp(min=1.0)
    places = torch.where(inside, centers * ratio - 0.5, 0.0)
    scaled = inside / _triangle_sum(places, reach)
    slope = scaled / reach
    away = slope * places
    return torch.stack([torch.stack([scaled + away, -slope], -1), torch.stack([scaled - away, slope], -1)])


def _triangle_sum(places: Tensor, reach: Tensor) -> Tensor:
    """Return the sum over k = 0..27 of max(0, 1 - |u - k| / r) in closed form, u in `places`, r in `reach`."""
    middle = places.floor()
    first = (places - reach).ceil().clamp_(min=0.0)
    last = (places + reach).floor().clamp_(max=GLYPH - 1.0)
    left, right = middle - first + 1, last - middle
    away = left * (places - (first + middle) / 2) + right * ((middle + 1 + last) / 2 - places)
    return left + right - away / reach


def _weights(sides: Tensor, wide: Tensor) -> Tensor:
    """Compute weights from the result of `_sides`, in the memory of `wide` (2, ..., canvas, 28)."""
    k = torch.arange(GLYPH, dtype=sides.dtype, device=sides.device)
    # A thin matrix product is several times faster than broadcasting over the wide tensor.
    torch.mm(sides.reshape(-1, 2), torch.stack([torch.ones_like(k), k]), out=wide.view(-1, GLYPH))
    return torch.minimum(wide[0], wide[1], out=wide[0]).relu_()


class _Scratch:
    """Memory that is reused for each batch: new pages from the system cost several times the arithmetic on them."""

    def __init__(self, device: torch.device):
        self.device = device
        self.buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = torch.empty(size, device=self.device)
        return self.buffers[name][:size].view(shape)


def draw(glyphs: Tensor, sizes: Tensor, tops: Tensor, lefts: Tensor, *, canvas: int) -> Tensor:
    r"""Draw scenes: $\mathrm{clip}(\sum_t A_t D_t B_t^\top)$, where $D_t$ is a glyph and $A_t$, $B_t$ its weights.

    The weights map a glyph's rows (or columns) to the canvas. They are bilinear if the glyph is enlarged, and
    antialiased if it is shrunk (the triangle is widened by the same factor), as in imaging libraries: canvas pixel h,
    whose center lies at $u = (h + 1/2 - start) \cdot 28 / size - 1/2$ of the glyph, gets glyph row k with weight
    $\max(0, 1 - |u - k| / \max(1, 28 / size))$, normalized. Pixels whose center is outside [start, start + size) get
    nothing.

    Only present glyphs (size above 0) are gathered; scenes with the same number of glyphs are drawn together.

    Args:
        glyphs: glyphs (n, T, 28, 28), uint8.
        sizes: sizes (n, T) in pixels; 0 means absent.
        tops, lefts: positions (n, T) in pixels.
        canvas: pixels per side.

    Returns:
        Images (n, canvas, canvas) uint8.

    >>> glyphs = torch.full((1, 1, 28, 28), 200, dtype=torch.uint8)
    >>> image = draw(glyphs, torch.tensor([[14.0]]), torch.tensor([[2.0]]), torch.tensor([[4.0]]), canvas=32)
    >>> int((image > 0).sum()), int(image.max())
    (196, 200)
    """
    present = sizes > 0
    counts = present.sum(-1)
    # Sort scenes by their number of glyphs, and put present glyphs first, so that groups are contiguous.
    by_count = counts.argsort(stable=True)
    order = present[by_count].to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    images = torch.empty(len(glyphs), canvas, canvas, dtype=torch.uint8, device=glyphs.device)
    if not bool(counts.all()):
        images[counts == 0] = 0
    scratch = _Scratch(glyphs.device)
    # A group shares the small operations, a batch the large ones; a CPU's batch stays in its cache.
    group = 256
    batch = max(1, 2048 // canvas) if glyphs.device.type == "cpu" else group
    ends = counts.bincount().cumsum(0).tolist()
    for count, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        for start in range(begin if count else end, end, group):
            rows, chosen = by_count[start : min(start + group, end)], order[start : min(start + group, end), :count]
            row = rows.unsqueeze(1)
            size = sizes[row, chosen].float()
            starts = torch.stack([tops[row, chosen], lefts[row, chosen]]).float()  # (2, g, t)
            sides = _sides(starts, size.expand_as(starts), canvas)  # (2, 2, g, t, canvas, 2)
            # Arrange the layouts that the products need while the tensors are still small.
            down_sides, across_sides = sides[:, 0].transpose(2, 3), sides[:, 1]
            for first in range(0, len(rows), batch):
                batch_rows = slice(first, first + batch)
                n = len(rows[batch_rows])
                wide = scratch("weights", 2, 2, n * count * canvas * GLYPH)
                across = _weights(across_sides[:, batch_rows], wide[0].view(2, n * count, canvas, GLYPH))
                down = _weights(down_sides[:, batch_rows], wide[1].view(2, n, canvas, count * GLYPH))
                glyph = glyphs[rows[batch_rows, None], chosen[batch_rows]].view(n * count, GLYPH, GLYPH).float()
                stretched = torch.bmm(glyph, across.mT, out=scratch("stretched", n * count, GLYPH, canvas))
                drawn = scratch("drawn", n, canvas, canvas)
                torch.bmm(down, stretched.view(n, count * GLYPH, canvas), out=drawn)
                # Add one half, so that truncation in the conversion rounds.
                images[rows[batch_rows]] = drawn.add_(0.5).clamp_(max=255.5).to(torch.uint8)
    return images
