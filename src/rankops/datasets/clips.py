"""Clips: a Ranked MNIST scene that drifts and zooms, and the share of simulated viewers who remember it."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import binom
from torch import Tensor

from rankops.datasets import ranked_mnist
from rankops.datasets.digits import Digits
from rankops.tables import IMAGE, decode_images, encode_images, matrix, read_table

__all__ = [
    "SCHEMA", "Recipes", "class_effects", "expectations", "load", "measure", "pictures", "probabilities", "recipes",
    "tables",
]  # fmt: skip

CLASSES = 10
FRAMES = 7  # as many as SoDeep takes from a video
MIDDLE = FRAMES // 2

# The hidden function of content that viewers follow, in units of the logit. What a clip shows counts most, and among
# it what is large; the other three spread a third as much each (with the laptop's scenes: 0.6 against 0.17), so that
# clips cannot be ordered without telling digits apart, nor by that alone.
CLASS = 1.2  # effects of the classes, each weighted by its digit's share of all digits' area
DOMINANCE = 1.5  # a digit that outshines the others is remembered: share of the largest, above DOMINANCE_USUAL
DOMINANCE_USUAL = 0.45
COUNT = -0.15  # each digit more is one more thing to keep in mind; counted from COUNT_USUAL
COUNT_USUAL = 4.5
CLUTTER = -1.5  # a full canvas is hard to take in: share that digits cover, above CLUTTER_USUAL
CLUTTER_USUAL = 0.4
BIAS = 1.5  # VideoMem's scores lie near their upper end: about 0.8 of the viewers remember a usual clip

# Chance of a score's tail under its probability below which the score is not believed: 1 in 10,000 runs of 100,000
# clips meets one by chance.
BELIEVED = 1e-9

_MIDDLE = {
    "label_ranks": pa.int64(),
    "size": pa.float32(),
    "top": pa.float32(),
    "left": pa.float32(),
    "glyph": pa.int64(),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("frames", pa.list_(IMAGE, FRAMES)),
        ("score", pa.float32()),
        ("probability", pa.float32()),
        *((name, pa.list_(kind, CLASSES)) for name, kind in _MIDDLE.items()),
        ("drift", pa.list_(pa.float32(), 2)),
        ("zoom", pa.float32()),
    ]
)


@dataclass(frozen=True)
class Recipes:
    """From which clips are drawn; each tensor has a row a clip."""

    middle: ranked_mnist.Recipes  # the scene as the middle frame shows it
    drift: Tensor  # (n, 2) float32 pixels a frame, down and to the right
    zoom: Tensor  # (n,) float32; a frame is magnified by so much against the one before


def class_effects(generator: torch.Generator) -> Tensor:
    """How well each class is remembered, (10,): normal draws brought to mean 0 and standard deviation 1.

    One table holds for all splits: draw it once, from a generator of its own.

    >>> effects = class_effects(torch.Generator().manual_seed(1))
    >>> effects.shape, round(effects.std(correction=0).item(), 4)
    (torch.Size([10]), 1.0)
    """
    drawn = torch.randn(CLASSES, generator=generator)
    return (drawn - drawn.mean()) / drawn.std(correction=0)


def probabilities(middle: ranked_mnist.Recipes, effects: Tensor, *, canvas: int) -> Tensor:
    r"""Chance that a viewer remembers a clip: $\sigma(b + w_1 \sum_c a_c e_c + w_2 \max_c a_c + w_3 n + w_4 u)$.

    $a_c$ is class c's share of the digits' area, $e_c$ its effect, n the number of digits and u the share of the canvas
    that they cover; constants at the top of the file. With b > 0 most chances are high and few are low.

    Args:
        middle: scenes of n clips.
        effects: (10,), from `class_effects`.
        canvas: pixels on a side.

    Returns:
        (n,) float32.
    """
    areas = middle.size.square()
    total = areas.sum(1, keepdim=True)
    shares = areas / total
    logit = (
        BIAS
        + CLASS * (shares * effects).sum(1)
        + DOMINANCE * (shares.amax(1) - DOMINANCE_USUAL)
        + COUNT * ((middle.size > 0).sum(1) - COUNT_USUAL)
        + CLUTTER * (total.squeeze(1) / canvas**2 - CLUTTER_USUAL)
    )
    return logit.sigmoid()


def recipes(
    digits: Digits,
    rows: int,
    *,
    canvas: int,
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    drift: float,
    zoom: float,
    generator: torch.Generator,
) -> Recipes:
    """Draws scenes as Ranked MNIST does, and how the camera moves over each.

    Args:
        digits: of one split.
        rows: number of clips.
        canvas, digits_per_image, scale, overlap: of the middle frame, see `ranked_mnist.recipes`.
        drift: largest shift in pixels a frame; down and to the right are drawn uniformly on [-drift, drift].
        zoom: largest magnification a frame, at least 1; its logarithm is drawn uniformly, in or out.
        generator: source of all draws.

    Raises:
        ValueError: drift is below 0, zoom below 1, or see `ranked_mnist.recipes`.
    """
    if not 0 <= drift < float("inf"):
        raise ValueError(f"clips: drift is {drift}, expected pixels a frame from 0")
    if not 1 <= zoom < float("inf"):
        raise ValueError(f"clips: zoom is {zoom}, expected a magnification a frame from 1 (in and out are drawn alike)")
    middle = ranked_mnist.recipes(
        digits, rows, canvas=canvas, digits_per_image=digits_per_image, scale=scale, overlap=overlap,
        generator=generator,
    )  # fmt: skip
    moves = 2 * torch.rand(rows, 3, generator=generator) - 1
    return Recipes(middle, drift * moves[:, :2], zoom ** moves[:, 2])


def pictures(recipe: Recipes, digits: Digits, *, canvas: int) -> Tensor:
    r"""The frames (n, 7, canvas, canvas) uint8 of some recipes.

    Frame t shows the scene at $z^{t - 3}$ times its size about the canvas's centre c: a digit of size s at p has size
    $z^{t - 3} s$ and lies at $c + z^{t - 3} (p - c) + (t - 3) v$, with v the drift. Digits may leave the canvas.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    clips = len(recipe.zoom)
    time = torch.arange(FRAMES) - MIDDLE
    magnified = (recipe.zoom.unsqueeze(1) ** time).unsqueeze(2)  # (n, 7, 1)
    shift = recipe.drift[:, None, None, :] * time[:, None, None]  # (n, 7, 1, 2)
    centre = canvas / 2
    middle = recipe.middle
    size = middle.size.unsqueeze(1) * magnified  # (n, 7, 10)
    top = centre + (middle.top.unsqueeze(1) - centre) * magnified + shift[..., 0]
    left = centre + (middle.left.unsqueeze(1) - centre) * magnified + shift[..., 1]
    every = [values.unsqueeze(1).expand(-1, FRAMES, -1) for values in (middle.label_ranks, middle.glyph)]
    flat = [values.flatten(0, 1) for values in (every[0], size, top, left, every[1])]
    return ranked_mnist.pictures(ranked_mnist.Recipes(*flat), digits, canvas=canvas).view(clips, FRAMES, canvas, canvas)


def _piece(canvas: int) -> int:
    """Clips in a piece of 25 MB, see `ranked_mnist.tables`."""
    return max(1, min(500, 25_000_000 // (FRAMES * canvas**2)))


def tables(
    digits: Digits,
    rows: int,
    *,
    threads: int,
    effects: Tensor,
    viewers: int,
    generator: torch.Generator,
    **options: Any,
) -> Iterator[pa.Table]:
    """One split in pieces, so that memory does not grow with the number of clips.

    Args:
        digits: of the split.
        rows: number of clips.
        threads: to encode images with.
        effects: from `class_effects`, the same for all splits.
        viewers: how many see each clip; the score is the share of those who remember it.
        generator: source of all draws.
        options: as for `recipes`.

    Raises:
        ValueError: there are no viewers, or see `recipes`.
    """
    if viewers < 1:
        raise ValueError(f"clips: viewers is {viewers}, expected at least 1: a score is a share of them")
    canvas = options["canvas"]
    for start in range(0, rows, _piece(canvas)):
        count = min(_piece(canvas), rows - start)
        recipe = recipes(digits, count, generator=generator, **options)
        chances = probabilities(recipe.middle, effects, canvas=canvas)
        remembered = torch.rand(count, viewers, generator=generator) < chances.unsqueeze(1)
        frames = pictures(recipe, digits, canvas=canvas).flatten(0, 1)
        columns = {
            "id": pa.array(range(start, start + count), pa.int64()),
            "frames": pa.FixedSizeListArray.from_arrays(encode_images(frames.numpy(), threads=threads), FRAMES),
            "score": remembered.float().mean(1).numpy(),
            "probability": chances.numpy(),
            "drift": pa.FixedSizeListArray.from_arrays(pa.array(recipe.drift.numpy().ravel()), 2),
            "zoom": recipe.zoom.numpy(),
        }
        for name in _MIDDLE:
            flat = pa.array(getattr(recipe.middle, name).numpy().ravel())
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, CLASSES)
        yield pa.table(columns, schema=SCHEMA)


def load(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor, Tensor, Recipes]:
    """Frames (n, 7, canvas, canvas) uint8, scores (n,), probabilities (n,) and recipes of one split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, a clip has not 7 frames, or an image is corrupt.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, [name for name in SCHEMA.names if name != "id"])
    column = read["frames"].combine_chunks()
    lengths = pa.compute.list_value_length(column).fill_null(0).to_numpy()
    if (lengths != FRAMES).any():
        row = int((lengths != FRAMES).argmax())
        raise ValueError(f"{path}: row {row}: {lengths[row]} frames, expected {FRAMES}; make it again with `dvc repro`")
    flat = column.flatten()
    # A frame at a time, so that a message about a corrupt one names its clip.
    frames = [
        decode_images(
            pa.chunked_array([flat.take(pa.array(range(frame, len(flat), FRAMES)))]),
            path=f"{path}: frame {frame}",
            threads=threads,
        )
        for frame in range(FRAMES)
    ]
    numbers = {
        name: torch.from_numpy(read[name].to_numpy().astype(np.float32)) for name in ("score", "probability", "zoom")
    }
    middle = ranked_mnist.Recipes(**{name: matrix(read, name, path=path) for name in _MIDDLE})
    recipe = Recipes(middle, matrix(read, "drift", path=path), numbers["zoom"])
    return torch.from_numpy(np.stack(frames, axis=1)), numbers["score"], numbers["probability"], recipe


def measure(
    folder: str | Path, digits: Digits, split: str, *, effects: Tensor, viewers: int, threads: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the expectations are held against.

    Args:
        folder: of the dataset.
        digits: of the split.
        split: its name.
        effects, viewers: as the clips were made with.
        threads: to decode with.

    Returns:
        One row a clip (are its frames what its recipe draws, does its score follow from its content?), and one row a
        digit on a middle frame (its box, its glyph).
    """
    frames, score, probability, recipe = load(folder, split, threads=threads)
    ids = read_table(Path(folder) / f"{split}.parquet", ["id"])["id"].to_numpy()
    canvas, middle = frames.shape[-1], recipe.middle
    there = middle.size > 0
    known = torch.isin(middle.glyph, digits.glyph)
    drawable = (known | ~there).all(-1)
    difference = torch.full((len(frames), FRAMES), 255)
    for rows in drawable.nonzero().flatten().split(_piece(canvas)):
        part = ranked_mnist.Recipes(**{name: getattr(middle, name)[rows] for name in _MIDDLE})
        drawn = pictures(Recipes(part, recipe.drift[rows], recipe.zoom[rows]), digits, canvas=canvas)
        difference[rows] = (drawn.short() - frames[rows].short()).abs().flatten(2).amax(2).long()
    # Ranks without the code that made them: they order all pairs as sizes do, and no rank is left out.
    ordered = middle.size.unsqueeze(2) - middle.size.unsqueeze(1)
    ranked = middle.label_ranks.unsqueeze(2) - middle.label_ranks.unsqueeze(1)
    levels = (middle.size.sort(dim=1).values.diff(dim=1, prepend=torch.zeros(len(frames), 1)) > 0).sum(1)
    follow = (ordered.sign() == ranked.sign()).flatten(1).all(1) & (middle.label_ranks.amax(1) == levels)
    follow &= ((middle.label_ranks > 0) == there).all(1)
    # Largest share of the smaller box that two boxes of a scene have in common.
    low = torch.stack([middle.top, middle.left])
    high = low + middle.size
    sides = torch.minimum(high.unsqueeze(3), high.unsqueeze(2)) - torch.maximum(low.unsqueeze(3), low.unsqueeze(2))
    smaller = torch.minimum(middle.size.unsqueeze(2), middle.size.unsqueeze(1)).square()
    overlap = (sides.clamp(min=0).prod(0) / smaller.clamp(min=1e-6)).triu(1).flatten(1).amax(1)
    hidden = probabilities(middle, effects, canvas=canvas).double().numpy()
    share = score.double().numpy()
    remembered = np.round(share * viewers)
    chance = np.minimum(binom.cdf(remembered, viewers, hidden), binom.sf(remembered - 1, viewers, hidden))
    standardised = (share - hidden) / np.sqrt(hidden * (1 - hidden) / viewers)
    clip = {
        "split": [split] * len(frames),
        "id": ids,
        "side": np.full(len(frames), canvas),
        "pixels": [sha256(clip.tobytes()).hexdigest() for clip in frames.numpy()],
        "digits": there.sum(1).numpy(),
        "ranks_follow_sizes": follow.numpy(),
        "difference_from_recipe": difference.amax(1).numpy(),
        "frame_that_differs_most": difference.argmax(1).numpy(),
        "overlap": overlap.numpy(),
        "drift": recipe.drift.abs().amax(1).numpy(),
        "zoom": recipe.zoom.numpy(),
        "probability_follows_content": np.abs(probability.double().numpy() - hidden) < 1e-5,
        "score": share,
        "score_is_a_share_of_viewers": (np.abs(share * viewers - remembered) < 1e-4) & (share >= 0) & (share <= 1),
        "score_is_believable": chance >= BELIEVED,
        "standardised_score": standardised,
    }
    row, label = there.nonzero(as_tuple=True)
    top, left, size = middle.top[row, label], middle.left[row, label], middle.size[row, label]
    order = digits.glyph.argsort()
    place = torch.searchsorted(digits.glyph[order], middle.glyph[row, label]).clamp(0, len(order) - 1)
    digit = {
        "split": [split] * len(row),
        "id": ids[row.numpy()],
        "label": label.numpy(),
        "glyph": middle.glyph[row, label].numpy(),
        "size": size.numpy(),
        "glyph_is_of_this_split": known[row, label].numpy(),
        "glyph_has_this_label": (known[row, label] & (digits.labels[order[place]] == label)).numpy(),
        "inside_canvas": ((top >= 0) & (left >= 0) & (torch.maximum(top, left) + size <= canvas + 1e-3)).numpy(),
    }
    return clip, digit


def expectations(
    *,
    canvas: int,
    rows: dict[str, int],
    digits_per_image: tuple[int, int],
    scale: tuple[float, float],
    overlap: float,
    drift: float,
    zoom: float,
) -> dict[str, list[dict[str, Any]]]:
    """What must hold for clips and for digits on their middle frames, as plain data: `type` and arguments."""
    between, in_set = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
    least, most = digits_per_image
    small, large = canvas / 8 * scale[0], canvas / 8 * scale[1]
    total = sum(rows.values())
    return {
        "clips": [
            {"type": "expect_table_row_count_to_equal", "value": total},
            {"type": in_set, "column": "split", "value_set": list(rows)},
            {"type": "expect_compound_columns_to_be_unique", "column_list": ["split", "id"]},
            {"type": "expect_column_values_to_be_unique", "column": "pixels"},
            {"type": in_set, "column": "side", "value_set": [canvas]},
            {"type": between, "column": "digits", "min_value": least, "max_value": most},
            {"type": in_set, "column": "ranks_follow_sizes", "value_set": [True]},
            # Rounding may differ by one grey level between processors.
            {"type": between, "column": "difference_from_recipe", "max_value": 1},
            {"type": between, "column": "overlap", "max_value": overlap + 1e-4},
            {"type": between, "column": "drift", "max_value": drift * (1 + 1e-6)},
            {"type": between, "column": "zoom", "min_value": 1 / zoom * (1 - 1e-6), "max_value": zoom * (1 + 1e-6)},
            {"type": in_set, "column": "probability_follows_content", "value_set": [True]},
            {"type": in_set, "column": "score_is_a_share_of_viewers", "value_set": [True]},
            {"type": in_set, "column": "score_is_believable", "value_set": [True]},
            # Over all clips the viewers err as chance does: mean 0 and deviation 1, within 6 standard errors (the
            # squares have a variance of about 3, more than a normal's 2 because some chances are near 1).
            {
                "type": "expect_column_mean_to_be_between",
                "column": "standardised_score",
                "min_value": -6 / total**0.5,
                "max_value": 6 / total**0.5,
            },
            {
                "type": "expect_column_stdev_to_be_between",
                "column": "standardised_score",
                "min_value": max(0.0, 1 - 6 * (3 / total) ** 0.5) ** 0.5,
                "max_value": (1 + 6 * (3 / total) ** 0.5) ** 0.5,
            },
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "digits",
                "partition_object": {
                    "values": list(range(least, most + 1)),
                    "weights": [1 / (most - least + 1)] * (most - least + 1),
                },
                "threshold": 4 * (most - least + 1) / total,
            },
        ],
        "digits": [
            {"type": in_set, "column": "glyph_is_of_this_split", "value_set": [True]},
            {"type": in_set, "column": "glyph_has_this_label", "value_set": [True]},
            {"type": in_set, "column": "inside_canvas", "value_set": [True]},
            {"type": between, "column": "size", "min_value": small * (1 - 1e-6), "max_value": large * (1 + 1e-6)},
            {
                "type": "expect_column_kl_divergence_to_be_less_than",
                "column": "label",
                "partition_object": {"values": list(range(CLASSES)), "weights": [1 / CLASSES] * CLASSES},
                "threshold": 4 * CLASSES / total,
            },
        ],
    }
