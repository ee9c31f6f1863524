"""Clips: a Ranked MNIST scene that drifts and zooms, and the share of simulated viewers who remember it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankops.datasets.files.expected import between, in_set, mean
from rankops.datasets.ranked_mnist import RECIPE, RankedMnist
from rankops.datasets.scenes.base import Recipe, schema_of
from rankops.datasets.scenes.digits import CLASSES, Digits
from rankops.seeding import generator as seeded

__all__ = ["Clips", "SCHEMA", "probabilities"]  # noqa: RUF022 - the dataset comes first

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

SCHEMA = schema_of(
    {
        "target": pa.float32(),
        "probability": pa.float32(),
        **RECIPE,  # of the scene as the middle frame shows it
        "drift": pa.list_(pa.float32(), 2),  # pixels a frame, down and to the right
        "zoom": pa.float32(),  # a frame is magnified by so much against the one before
    },
    frames=FRAMES,
)


@dataclass(frozen=True, kw_only=True)
class Clips(RankedMnist):
    """Clips whose middle frames are Ranked MNIST.

    Attributes:
        viewers: of each clip; its score is the share of those who remember it.
        drift: largest shift in pixels a frame; down and to the right are drawn uniformly on [-drift, drift].
        zoom: largest magnification a frame; its logarithm is drawn uniformly, in or out.
        train_viewers: of each clip of the training split alone, whose scores are drawn anew; None = viewers. Scores are
            noisier with fewer.
    """

    viewers: int
    drift: float
    zoom: float
    train_viewers: int | None = None

    schema: ClassVar[pa.Schema] = SCHEMA
    frames: ClassVar[int] = FRAMES
    piece: ClassVar[int] = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("viewers", "train_viewers"):
            if (viewers := getattr(self, name)) is not None and viewers < 1:
                raise ValueError(f"{name} is {viewers}, expected at least 1: a score is a share of them")
        if not 0 <= self.drift < float("inf"):
            raise ValueError(f"drift is {self.drift}, expected pixels a frame from 0")
        if not 1 <= self.zoom < float("inf"):
            raise ValueError(f"zoom is {self.zoom}, expected a magnification a frame from 1")

    @property
    def effects(self) -> Tensor:
        """How well each class is remembered, (10,), in all splits alike: normal draws of mean 0 and deviation 1."""
        drawn = torch.randn(CLASSES, generator=seeded(self.seed, self.name, "classes"))
        return (drawn - drawn.mean()) / drawn.std(correction=0)

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        recipe = super().draw(digits, numbers, generator)
        moves = 2 * torch.rand(len(numbers), 3, generator=generator) - 1
        chances = probabilities(recipe["size"], self.effects, canvas=self.canvas)
        remembered = torch.rand(len(numbers), self.viewers, generator=generator) < chances.unsqueeze(1)
        return recipe | {
            "target": remembered.float().mean(1),
            "probability": chances,
            "drift": self.drift * moves[:, :2],
            "zoom": self.zoom ** moves[:, 2],
        }

    def tables(self, digits: Digits, split: str, counts: list[int], *, threads: int) -> Iterator[pa.Table]:
        tables = super().tables(digits, split, counts, threads=threads)
        if split != "train" or self.train_viewers is None:
            yield from tables
            return
        draws = seeded(self.train_viewers, "viewers")
        for table in tables:
            chances = torch.from_numpy(table["probability"].to_numpy().astype(np.float64))
            remembered = torch.binomial(torch.full_like(chances, self.train_viewers), chances, generator=draws)
            score = pa.array((remembered / self.train_viewers).float().numpy())
            yield table.set_column(table.column_names.index("target"), self.schema.field("target"), score)

    def pictures(self, recipe: Recipe, digits: Digits) -> Tensor:
        r"""Return the frames (n, 7, canvas, canvas) uint8 of some recipes.

        Frame t shows the scene at $z^{t - 3}$ times its size about the canvas's center c: a digit of size s at p has
        size $s z^{t - 3}$ and lies at $c + (p - c) z^{t - 3} + (t - 3) v$, v the drift. What leaves the canvas is cut
        off.
        """
        time = torch.arange(FRAMES) - MIDDLE
        magnified = (recipe["zoom"].unsqueeze(1) ** time).unsqueeze(2)  # (n, 7, 1)
        shift = recipe["drift"][:, None, None, :] * time[:, None, None]  # (n, 7, 1, 2)
        center = self.canvas / 2
        scene = {
            "size": recipe["size"].unsqueeze(1) * magnified,  # (n, 7, 10)
            "top": center + (recipe["top"].unsqueeze(1) - center) * magnified + shift[..., 0],
            "left": center + (recipe["left"].unsqueeze(1) - center) * magnified + shift[..., 1],
            "glyph": recipe["glyph"].unsqueeze(1).expand(-1, FRAMES, -1),
        }
        frames = super().pictures({name: values.flatten(0, 1) for name, values in scene.items()}, digits)
        return frames.unflatten(0, (-1, FRAMES))

    def facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        from scipy.stats import binom  # takes a second to import; only validation needs it

        viewers = self.viewers if split != "train" or self.train_viewers is None else self.train_viewers
        hidden = probabilities(recipe["size"], self.effects, canvas=self.canvas).double().numpy()
        score, probability = (recipe[name].double().numpy() for name in ("target", "probability"))
        remembered = np.round(score * viewers)
        chance = np.minimum(binom.cdf(remembered, viewers, hidden), binom.sf(remembered - 1, viewers, hidden))
        return super().facts(recipe, split) | {
            "drift": recipe["drift"].abs().amax(1).numpy(),
            "zoom": recipe["zoom"].numpy(),
            "probability_follows_content": np.abs(probability - hidden) < 1e-5,
            "target": score,
            "score_is_a_share_of_viewers": (np.abs(score * viewers - remembered) < 1e-4) & (score >= 0) & (score <= 1),
            "score_is_believable": chance >= BELIEVED,
            "standardized_score": (score - hidden) / np.sqrt(hidden * (1 - hidden) / viewers),
        }

    def expectations(self, rows: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
        expected, total = super().expectations(rows), sum(rows.values())
        expected["scenes"] += [
            between("drift", high=self.drift * (1 + 1e-6)),
            between("zoom", 1 / self.zoom * (1 - 1e-6), self.zoom * (1 + 1e-6)),
            in_set("probability_follows_content", True),
            in_set("score_is_a_share_of_viewers", True),
            in_set("score_is_believable", True),
            # Over all clips the viewers err as chance does: mean 0 and deviation 1, within 6 standard errors (the
            # squares have a variance of about 3, more than a normal's 2 because some chances are near 1).
            mean("standardized_score", -6 / total**0.5, 6 / total**0.5),
            {
                "type": "expect_column_stdev_to_be_between",
                "column": "standardized_score",
                "min_value": max(0.0, 1 - 6 * (3 / total) ** 0.5) ** 0.5,
                "max_value": (1 + 6 * (3 / total) ** 0.5) ** 0.5,
            },
        ]
        return expected


def probabilities(size: Tensor, effects: Tensor, *, canvas: int) -> Tensor:
    r"""Chance that a viewer remembers a clip: $\sigma(b + w_1 \sum_c a_c e_c + w_2 \max_c a_c + w_3 n + w_4 u)$.

    $a_c$ is class c's share of the digits' area, $e_c$ its effect, n the number of digits and u the share of the canvas
    that they cover; constants at the top of the file. With b > 0 most chances are high and few are low.

    Args:
        size: of the digits of n clips (n, 10).
        effects: of the classes (10,).
        canvas: pixels on a side.

    Returns:
        (n,) float32.
    """
    areas = size.square()
    total = areas.sum(1, keepdim=True)
    shares = areas / total
    logit = (
        BIAS
        + CLASS * (shares * effects).sum(1)
        + DOMINANCE * (shares.amax(1) - DOMINANCE_USUAL)
        + COUNT * ((size > 0).sum(1) - COUNT_USUAL)
        + CLUTTER * (total.squeeze(1) / canvas**2 - CLUTTER_USUAL)
    )
    return logit.sigmoid()
