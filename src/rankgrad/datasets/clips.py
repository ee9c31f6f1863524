"""Clips: a Ranked MNIST scene that drifts and zooms, and the fraction of simulated viewers who remember it.

Training scores may be relative to the session of a clip.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rankgrad.datasets.files.expected import Expectations, between, in_set, mean
from rankgrad.datasets.ranked_mnist import RECIPE, RankedMnist
from rankgrad.datasets.scenes import layout
from rankgrad.datasets.scenes.base import Recipe, schema_of
from rankgrad.datasets.scenes.digits import CLASSES, Digits
from rankgrad.inputs import InputType
from rankgrad.inputs.frames import Frames
from rankgrad.seeding import generator as seeded

__all__ = ["Clips", "SCHEMA", "probabilities"]  # noqa: RUF022 - the dataset comes first

FRAMES = 7  # as many as SoDeep takes from a video
MIDDLE = FRAMES // 2

# The hidden function that maps a clip's content to the logit of remembering it. The classes of its digits count most,
# weighted by size; the other three effects vary about a third as much each (0.17 compared with 0.6 for the laptop's
# scenes). A model must recognize digits to order clips, but that alone is not enough.
CLASS = 1.2  # weight of the class effects, each multiplied by its digit's fraction of the area of all digits
DOMINANCE = 1.5  # a dominant digit is remembered: the largest digit's fraction of the area above DOMINANCE_USUAL
DOMINANCE_USUAL = 0.45
COUNT = -0.15  # each additional digit is harder to remember; counted from COUNT_USUAL
COUNT_USUAL = 4.5
CLUTTER = -1.5  # a full canvas is hard to take in: the fraction that digits cover above CLUTTER_USUAL
CLUTTER_USUAL = 0.4
BIAS = 1.5  # as in VideoMem, most scores are high: about 0.8 of the viewers remember a typical clip

# A score fails validation if its tail probability is below this; by chance, that happens in 1 of 10,000 runs with
# 100,000 clips.
BELIEVED = 1e-9

SCHEMA = schema_of(
    {
        "target": pa.float32(),
        "probability": pa.float32(),
        **RECIPE,  # the scene in the middle frame
        "drift": pa.list_(pa.float32(), 2),  # pixels per frame, down and to the right
        "zoom": pa.float32(),  # magnification of each frame relative to the previous one
    },
    frames=FRAMES,
)
# For clips in sessions: the session that a score is relative to, and the score before that.
GROUPED = pa.schema([*SCHEMA, ("group", pa.int64()), ("share", pa.float32())])

RANGES = {  # for each option, a test of its value, and what to print if it fails
    "viewers": (lambda count: count >= 1, "at least 1: a score is a fraction of them"),
    "train_viewers": (lambda count: count >= 1, "at least 1: a score is a fraction of them"),
    "sessions": (lambda clips: clips >= 2, "at least 2 clips in one"),
    "likeness": (lambda value: 0 <= value <= 1, "a correlation from 0 to 1"),
    "scale_use": (lambda factor: 1 <= factor < math.inf, "a factor from 1"),
    "drift": (lambda pixels: 0 <= pixels < math.inf, "pixels per frame from 0"),
    "zoom": (lambda factor: 1 <= factor < math.inf, "a magnification per frame from 1"),
}


@dataclass(frozen=True, kw_only=True)
class Clips(RankedMnist):
    """Clips whose middle frames are Ranked MNIST.

    Attributes:
        viewers: the number of viewers of each clip; its score is the fraction who remember it.
        drift: largest shift in pixels per frame; vertical and horizontal shifts are drawn uniformly from
            [-drift, drift].
        zoom: largest magnification per frame; its logarithm is drawn uniformly, in or out.
        train_viewers: viewers of each training clip, whose scores are drawn again; None = viewers. Fewer viewers make
            scores noisier.
        sessions: the number of training clips shown per session. A score is then relative to its session: the fraction
            of viewers minus the session's mean, times a factor of the session. Other splits are scored in one session.
        likeness: correlation between how memorable clips are and the order by which they are assigned to sessions.
        scale_use: largest factor of a session, which models how widely its viewers use the scale; the factor's
            logarithm is drawn uniformly, up or down.
    """

    viewers: int
    drift: float
    zoom: float
    train_viewers: int | None = None
    sessions: int | None = None
    likeness: float = 0.9
    scale_use: float = 1.0

    input_type: ClassVar[type[InputType]] = Frames
    frames: ClassVar[int] = FRAMES
    piece: ClassVar[int] = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (holds, expected) in RANGES.items():
            if (value := getattr(self, name)) is not None and not holds(value):
                raise ValueError(f"{name} is {value}, expected {expected}")

    @property
    def schema(self) -> pa.Schema:  # ty: ignore[incompatible-property-override] - it depends on the options
        return SCHEMA if self.sessions is None else GROUPED

    def _pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        pixels = self.frames * self.canvas**2
        return layout.pieces(rows, pixels=pixels, most=self.piece, multiple_of=self.sessions or 1)

    @property
    def effects(self) -> Tensor:
        """The effect of each class on memory (10,), the same in all splits: normal draws, mean 0, deviation 1."""
        drawn = torch.randn(CLASSES, generator=seeded(self.seed, self.name, "classes"))
        return (drawn - drawn.mean()) / drawn.std(correction=0)

    def draw(self, digits: Digits, numbers: range, generator: torch.Generator) -> Recipe:
        recipe = super().draw(digits, numbers, generator)
        moves = 2 * torch.rand(len(numbers), 3, generator=generator) - 1
        chances = probabilities(recipe["size"], self.effects, canvas=self.canvas)
        remembered = torch.rand(len(numbers), self.viewers, generator=generator) < chances.unsqueeze(1)
        share = remembered.float().mean(1)
        return (
            recipe
            | {
                "target": share,
                "share": share,
                "group": torch.tensor(numbers),  # each clip is its own group
                "probability": chances,
                "drift": self.drift * moves[:, :2],
                "zoom": self.zoom ** moves[:, 2],
            }
        )

    def tables(self, digits: Digits, split: str, counts: list[int], *, threads: int) -> Iterator[pa.Table]:
        tables = super().tables(digits, split, counts, threads=threads)
        if split != "train" or (self.train_viewers is None and self.schema is SCHEMA):
            yield from tables
            return
        viewers = self.train_viewers or self.viewers
        draws = seeded(viewers, "viewers")
        group = 0
        for table in tables:
            chances = torch.from_numpy(table["probability"].to_numpy().astype(np.float64))
            changed = {}
            if self.train_viewers is not None:
                remembered = torch.binomial(torch.full_like(chances, viewers), chances, generator=draws)
                changed["target"] = changed["share"] = (remembered / viewers).float()
            if self.sessions is not None:
                share = changed.get("share", torch.from_numpy(table["target"].to_numpy().copy()))
                changed["group"], changed["target"] = self._in_sessions(chances, share, draws)
                changed["group"] += group
                group = int(changed["group"].max()) + 1
            for name in table.column_names:
                if name in changed:
                    field = self.schema.field(name)
                    values = pa.array(changed[name].numpy(), field.type)
                    table = table.set_column(table.column_names.index(name), field, values)
            yield table

    def _in_sessions(self, chances: Tensor, share: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the session of each clip in a piece (n,), from 0, and its score there (n,)."""
        logit = chances.logit()
        noise = torch.randn(len(logit), generator=draws, dtype=torch.float64)
        mixed = self.likeness * (logit - logit.mean()) / logit.std(correction=0).clamp(min=1e-12)
        group = (mixed + (1 - self.likeness**2) ** 0.5 * noise).argsort().argsort() // self.sessions
        factor = self.scale_use ** (2 * torch.rand(len(logit), generator=draws, dtype=torch.float64) - 1)
        count = group.bincount()
        mean = torch.bincount(group, weights=share.double()) / count
        return group, (factor[group] * (share.double() - mean[group])).float()

    def pictures(self, recipe: Recipe, digits: Digits) -> Tensor:
        r"""Return the frames (n, 7, canvas, canvas) uint8 of recipes.

        Frame t shows the scene magnified $z^{t - 3}$ times about the canvas's center c: a digit of size s at p has size
        $s z^{t - 3}$ and lies at $c + (p - c) z^{t - 3} + (t - 3) v$, where v is the drift. What leaves the canvas is
        cut off.
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

    def recipe_facts(self, recipe: Recipe, split: str) -> dict[str, Any]:
        from scipy.stats import binom  # takes a second to import; only validation needs it

        viewers = self.viewers if split != "train" or self.train_viewers is None else self.train_viewers
        hidden = probabilities(recipe["size"], self.effects, canvas=self.canvas).double().numpy()
        target, probability = (recipe[name].double().numpy() for name in ("target", "probability"))
        score, relative = recipe.get("share", recipe["target"]).double().numpy(), {}
        if "share" in recipe:
            relative["target_follows_share"] = self._follows(target, score, recipe["group"], split)
        remembered = np.round(score * viewers)
        chance = np.minimum(binom.cdf(remembered, viewers, hidden), binom.sf(remembered - 1, viewers, hidden))
        return super().recipe_facts(recipe, split) | {
            "drift": recipe["drift"].abs().amax(1).numpy(),
            "zoom": recipe["zoom"].numpy(),
            "probability_follows_content": np.abs(probability - hidden) < 1e-5,
            "target": target,
            **relative,
            "score_is_a_share_of_viewers": (np.abs(score * viewers - remembered) < 1e-4) & (score >= 0) & (score <= 1),
            "score_is_believable": chance >= BELIEVED,
            "standardized_score": (score - hidden) / np.sqrt(hidden * (1 - hidden) / viewers),
        }

    def _follows(self, target: np.ndarray, share: np.ndarray, group: Tensor, split: str) -> np.ndarray:
        """Return which targets are the fraction of viewers or, in sessions, its deviation times an allowed factor."""
        if split != "train" or self.sessions is None:
            return np.abs(target - share) < 1e-6
        number = group.unique(return_inverse=True)[1].numpy()
        count = np.bincount(number)
        apart = share - (np.bincount(number, share) / count)[number]
        squares = np.bincount(number, apart**2)
        factor = np.bincount(number, apart * target) / np.where(squares > 0, squares, 1)
        bounded = (factor >= 1 / self.scale_use - 1e-4) & (factor <= self.scale_use + 1e-4) | (squares == 0)
        return bounded[number] & (np.abs(target - factor[number] * apart) < 1e-5)

    def expected(self, rows: dict[str, int], *, size: int | None = None) -> Expectations:
        expected, total = super().expected(rows), sum(rows.values())
        expected["scenes"] += [
            *([] if self.schema is SCHEMA else [in_set("target_follows_share", True)]),
            between("drift", high=self.drift * (1 + 1e-6)),
            between("zoom", 1 / self.zoom * (1 - 1e-6), self.zoom * (1 + 1e-6)),
            in_set("probability_follows_content", True),
            in_set("score_is_a_share_of_viewers", True),
            in_set("score_is_believable", True),
            # Over all clips, standardized scores have mean 0 and deviation 1, within 6 standard errors (their squares
            # have a variance of about 3, more than a normal's 2, since some probabilities are near 1).
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
    r"""Return the probability of remembering a clip: $\sigma(b + w_1 \sum_c a_c e_c + w_2 \max_c a_c + w_3 n + w_4 u)$.

    $a_c$ is class c's fraction of the digits' area, $e_c$ its effect, n the number of digits, and u the fraction of the
    canvas that they cover; the constants are at the top of the file. With b > 0, most probabilities are high.

    Args:
        size: sizes of the digits of n clips (n, 10).
        effects: effects of the classes (10,).
        canvas: pixels per side.

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
