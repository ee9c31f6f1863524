"""How often `rankops monitor` calls drift: on scenes like the training's (which is wrong), and on changed ones.

A small label ranker, scenes of 32 px, the digits that need no download; the scenes of each trial are drawn anew.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.results import write
from pipelines.monitoring.drift import figures, measure
from rankops.datasets.scenes import digits, ranked_mnist
from rankops.io.parquet import decode_images, encode_images
from rankops.seeding import generator
from rankops.tasks import label_ranking

SCENES = {"canvas": 32, "digits_per_image": (3, 6), "scale": (1.0, 4.0), "overlap": 0.3}
REFERENCE = 1000  # images of each of the two splits
POOL, CHANGED_POOL = 10_000, 1500  # scenes out of which each trial's are drawn
TRIALS, CHANGED_TRIALS = 300, 30
SIZES = (100, 300)  # of a fresh file
STEP = {"batch_size": 64, "patience": 20, "optimizer": {"name": "AdamW", "args": {"lr": 3e-3}}}
TRAINING = {
    "scorer": STEP | {"shift": 2, "epochs": 12, "schedule": {"name": "cosine"}},
    "thresholds": STEP | {"hidden": 32, "epochs": 8, "schedule": {"name": "cosine"}},
}


def scenes(of: digits.Digits, rows: int, *, use: str, **options: object) -> pa.Table:
    draws = generator(0, "benchmark of drift", use)
    return pa.concat_tables(ranked_mnist.tables(of, rows, threads=1, generator=draws, **SCENES | options))


def redrawn(change: Callable[[np.ndarray], np.ndarray], table: pa.Table) -> pa.Table:
    """The same scenes with other pixels."""
    images = change(decode_images(table["image"], path="scenes", threads=1))
    return table.set_column(1, "image", encode_images(images, threads=1))


def noisy(images: np.ndarray, *, spread: float) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, spread * 255, images.shape)
    return (images + noise).round().clip(0, 255).astype(np.uint8)


def with_more_of(label: int, share: float, table: pa.Table) -> pa.Table:
    """Scenes of which a larger share than usual shows a digit."""
    there = np.stack(table["size"].to_numpy())[:, label] > 0
    usual = there.mean()
    others = usual / (1 - usual) * (1 - share) / share  # of the scenes without it, which stay
    keep = np.random.default_rng(0).random(len(table)) < np.where(there, 1.0, others)
    return table.filter(pa.array(keep))


def trained(of: digits.Digits, of_val: digits.Digits) -> label_ranking.LabelRanker:
    splits = []
    for split, glyphs, rows in (("train", of, 3000), ("val", of_val, 300)):
        table = scenes(glyphs, rows, use=f"training, {split}")
        images = torch.from_numpy(decode_images(table["image"], path="scenes", threads=1))
        splits.append((images, ranked_mnist.read_recipe(table, Path("scenes")).label_ranks))
    for _, epoch, ranker in label_ranking.train(
        *splits, model={"name": "convnet", "args": {"channels": [16, 32]}},
        loss={"name": "rlsep", "args": {"pairs": None}}, training=TRAINING, seed=1, device="cpu",
    ):  # fmt: skip
        pass
    print(f"the label ranker: {epoch.validation}")
    return ranker


def measured(table: pa.Table, ranker: label_ranking.LabelRanker) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenes.parquet"
        pq.write_table(table, path)
        return measure(path, ranker, chosen=np.ones(len(table), bool))


def samples(pool: dict[str, np.ndarray], *sizes: int, trials: int) -> Iterator[list[dict[str, np.ndarray]]]:
    """Trial by trial, so many scenes of a pool for each of its sides; none stands on two of them."""
    draws = np.random.default_rng(0)
    for _ in range(trials):
        rows = draws.permutation(len(pool["format"]))[: sum(sizes)]
        yield [
            {name: values[chosen] for name, values in pool.items()} for chosen in np.split(rows, np.cumsum(sizes)[:-1])
        ]


def called_drift(trials: Iterable[list[dict[str, np.ndarray]]], *least_distances: float) -> list[float]:
    """For each least distance, the share of trials in which any figure has drifted."""
    furthest = []
    for trial in trials:
        found = figures(*trial, alpha=0.01, least_distance=0.0)
        furthest.append(max((figure.distance for figure in found if figure.drifted), default=-1.0))
    return [float(np.mean([distance >= least for distance in furthest])) for least in least_distances]


def main() -> None:
    torch.set_num_threads(1)
    made = digits.tables("bundled", "", seed=1, threads=1)
    glyphs = {
        split: digits.Digits(
            torch.from_numpy(table["glyph"].to_numpy().copy()),
            torch.from_numpy(decode_images(table["image"], path=split, threads=1)),
            torch.from_numpy(table["label"].to_numpy().copy()),
        )
        for split, table in made.items()
    }
    ranker = trained(glyphs["train"], glyphs["val"])
    same = measured(scenes(glyphs["test"], POOL, use="same"), ranker)
    with_least, tests_alone = {"trials": TRIALS}, {"trials": TRIALS}
    for size in SIZES:
        trials = samples(same, REFERENCE, REFERENCE, size, trials=TRIALS)
        with_least[f"{size} images"], tests_alone[f"{size} images"] = called_drift(trials, 0.1, 0.0)
    found = {"the same distribution": with_least, "the same, tests alone": tests_alone}

    changes = {
        "digits a quarter larger": {"scale": (1.25, 5.0)},
        "digits a tenth larger": {"scale": (1.1, 4.4)},
        "noise of 5 %": {"change": partial(noisy, spread=0.05)},
        "noise of 2 %": {"change": partial(noisy, spread=0.02)},
        "inverted colors": {"change": lambda images: 255 - images},
        "a 7 in 75 % instead of 45 %": {"share": 0.75},
        "a 7 in 60 % instead of 45 %": {"share": 0.6},
    }
    for name, change in changes.items():
        options = {"scale": change["scale"]} if "scale" in change else {}
        table = scenes(glyphs["test"], CHANGED_POOL, use=name, **options)
        table = redrawn(change["change"], table) if "change" in change else table
        table = with_more_of(7, change["share"], table) if "share" in change else table
        changed = measured(table, ranker)
        found[name] = {"trials": CHANGED_TRIALS}
        for size in SIZES:
            before = samples(same, REFERENCE, REFERENCE, trials=CHANGED_TRIALS)
            after = samples(changed, size, trials=CHANGED_TRIALS)
            both = ([*references, *fresh] for references, fresh in zip(before, after, strict=True))
            (found[name][f"{size} images"],) = called_drift(both, 0.1)
    write("drift", found)


if __name__ == "__main__":
    main()
