"""Clips: a Ranked MNIST scene that drifts and zooms, and the share of simulated viewers who remember it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import binom
from torch import Tensor

from rankops.datasets.scenes import facts, layout, ranked_mnist
from rankops.datasets.scenes.digits import Digits
from rankops.io.parquet import IMAGE, as_fixed_lists, decode_images, encode_images, matrix, read_table

__all__ = [
    "SCHEMA", "Recipes", "class_effects", "expectations", "load", "measure", "pictures", "probabilities", "recipes",
    "tables",
]  # fmt: skip

CLASSES = 10
MOST_DRAWN = 500  # clips at once
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

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("frames", pa.list_(IMAGE, FRAMES)),
        ("score", pa.float32()),
        ("probability", pa.float32()),
        *((name, pa.list_(kind, CLASSES)) for name, kind in ranked_mnist.RECIPE.items()),
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

    Frame t shows the scene at $z^{t - 3}$ times its size about the canvas's center c: a digit of size s at p has size
    $z^{t - 3} s$ and lies at $c + z^{t - 3} (p - c) + (t - 3) v$, with v the drift. Digits may leave the canvas.

    Raises:
        ValueError: a recipe names a glyph that is not among `digits`.
    """
    clips = len(recipe.zoom)
    time = torch.arange(FRAMES) - MIDDLE
    magnified = (recipe.zoom.unsqueeze(1) ** time).unsqueeze(2)  # (n, 7, 1)
    shift = recipe.drift[:, None, None, :] * time[:, None, None]  # (n, 7, 1, 2)
    center = canvas / 2
    middle = recipe.middle
    size = middle.size.unsqueeze(1) * magnified  # (n, 7, 10)
    top = center + (middle.top.unsqueeze(1) - center) * magnified + shift[..., 0]
    left = center + (middle.left.unsqueeze(1) - center) * magnified + shift[..., 1]
    every = [values.unsqueeze(1).expand(-1, FRAMES, -1) for values in (middle.label_ranks, middle.glyph)]
    flat = [values.flatten(0, 1) for values in (every[0], size, top, left, every[1])]
    return ranked_mnist.pictures(ranked_mnist.Recipes(*flat), digits, canvas=canvas).view(clips, FRAMES, canvas, canvas)


def tables(
    digits: Digits,
    rows: int,
    *,
    threads: int,
    effects: Tensor,
    viewers: int,
    generator: torch.Generator,
    first: int = 0,
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
        first: number of the first row, where others came before.
        options: as for `recipes`.

    Raises:
        ValueError: there are no viewers, or see `recipes`.
    """
    if viewers < 1:
        raise ValueError(f"clips: viewers is {viewers}, expected at least 1: a score is a share of them")
    canvas = options["canvas"]
    for start, count in layout.pieces(rows, pixels=FRAMES * canvas**2, most=MOST_DRAWN):
        recipe = recipes(digits, count, generator=generator, **options)
        chances = probabilities(recipe.middle, effects, canvas=canvas)
        remembered = torch.rand(count, viewers, generator=generator) < chances.unsqueeze(1)
        frames = pictures(recipe, digits, canvas=canvas).flatten(0, 1)
        columns = {
            "id": pa.array(range(first + start, first + start + count), pa.int64()),
            "frames": pa.FixedSizeListArray.from_arrays(encode_images(frames.numpy(), threads=threads), FRAMES),
            "score": remembered.float().mean(1).numpy(),
            "probability": chances.numpy(),
            "drift": as_fixed_lists(recipe.drift),
            "zoom": recipe.zoom.numpy(),
        }
        yield pa.table(columns | ranked_mnist.recipe_columns(recipe.middle), schema=SCHEMA)


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
    middle = ranked_mnist.read_recipe(read, path)
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
    drawable = (torch.isin(middle.glyph, digits.glyph) | ~there).all(-1)

    def draw(rows: Tensor) -> Tensor:
        part = ranked_mnist.Recipes(**{name: getattr(middle, name)[rows] for name in ranked_mnist.RECIPE})
        return pictures(Recipes(part, recipe.drift[rows], recipe.zoom[rows]), digits, canvas=canvas)

    hidden = probabilities(middle, effects, canvas=canvas).double().numpy()
    share = score.double().numpy()
    remembered = np.round(share * viewers)
    chance = np.minimum(binom.cdf(remembered, viewers, hidden), binom.sf(remembered - 1, viewers, hidden))
    standardized = (share - hidden) / np.sqrt(hidden * (1 - hidden) / viewers)
    clip = facts.scene_facts(split, ids, frames, drawable=drawable, draw=draw, most=MOST_DRAWN) | {
        "digits": there.sum(1).numpy(),
        "ranks_follow_sizes": facts.ranks_follow_sizes(middle.label_ranks, middle.size).numpy(),
        "overlap": facts.largest_overlap(middle.size, middle.top, middle.left).numpy(),
        "drift": recipe.drift.abs().amax(1).numpy(),
        "zoom": recipe.zoom.numpy(),
        "probability_follows_content": np.abs(probability.double().numpy() - hidden) < 1e-5,
        "score": share,
        "score_is_a_share_of_viewers": (np.abs(share * viewers - remembered) < 1e-4) & (share >= 0) & (share <= 1),
        "score_is_believable": chance >= BELIEVED,
        "standardized_score": standardized,
    }
    return clip, ranked_mnist.digit_facts(split, ids, frames[:, MIDDLE], digits, middle)


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
    of_scenes = ranked_mnist.expectations(
        canvas=canvas, rows=rows, digits_per_image=digits_per_image, scale=scale, overlap=overlap
    )
    total = sum(rows.values())
    return {
        "clips": [
            *of_scenes["scenes"],
            {"type": facts.BETWEEN, "column": "drift", "max_value": drift * (1 + 1e-6)},
            {
                "type": facts.BETWEEN,
                "column": "zoom",
                "min_value": 1 / zoom * (1 - 1e-6),
                "max_value": zoom * (1 + 1e-6),
            },
            {"type": facts.IN_SET, "column": "probability_follows_content", "value_set": [True]},
            {"type": facts.IN_SET, "column": "score_is_a_share_of_viewers", "value_set": [True]},
            {"type": facts.IN_SET, "column": "score_is_believable", "value_set": [True]},
            # Over all clips the viewers err as chance does: mean 0 and deviation 1, within 6 standard errors (the
            # squares have a variance of about 3, more than a normal's 2 because some chances are near 1).
            {
                "type": "expect_column_mean_to_be_between",
                "column": "standardized_score",
                "min_value": -6 / total**0.5,
                "max_value": 6 / total**0.5,
            },
            {
                "type": "expect_column_stdev_to_be_between",
                "column": "standardized_score",
                "min_value": max(0.0, 1 - 6 * (3 / total) ** 0.5) ** 0.5,
                "max_value": (1 + 6 * (3 / total) ** 0.5) ** 0.5,
            },
        ],
        "digits": of_scenes["digits"],
    }
