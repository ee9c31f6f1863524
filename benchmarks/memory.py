"""Images a second and memory of a training that decodes its images batch by batch, beside one that holds them.

    python -m benchmarks.memory --rows 50000

makes so many JPEGs of 224 pixels in a temporary folder, and trains a small network for an epoch either way, each in a
process of its own. Prints the peak memory of each, images a second, and whether both ended with the same weights.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from benchmarks.results import machine
from rankops.io.parquet import IMAGE
from rankops.tasks.score_ranking import ScoreRanking
from rankops.training.loop import train
from rankops.training.objective import Objective

SIDE, PIECE, DIFFERENT = 224, 512, 64
MODEL = {"name": "linear", "args": {}, "backbone": {"name": "convnet", "args": {"channels": [4, 8, 16]}}}
PHASE = {
    "epochs": 1,
    "patience": 1,
    "optimizer": {"name": "AdamW", "args": {"lr": 1e-3}},
    "schedule": {"name": "cosine"},
}
TRAINING = {"batch_size": 64, "probe": PHASE, "finetune": PHASE | {"shift": 2}}


def draw(folder: Path, rows: int) -> None:
    """Write training rows, and a tenth as many of validation: smooth color pictures, as photos are, some drawn anew."""
    draws = np.random.default_rng(0)
    for split, count in (("train", rows), ("val", rows // 10)):
        schema = pa.schema({"image": IMAGE, "target": pa.float32()})
        # As large on the disk as different photos would be.
        with pq.ParquetWriter(folder / f"{split}.parquet", schema, compression="none", use_dictionary=False) as writer:
            for start in range(0, count, PIECE):
                number = min(PIECE, count - start)
                few = [_jpeg(draws) for _ in range(DIFFERENT)]
                images = [{"bytes": few[row % DIFFERENT], "path": None} for row in range(number)]
                target = draws.random(number).astype(np.float32)
                writer.write_table(pa.table({"image": images, "target": target}, schema=schema))


def _jpeg(draws: np.random.Generator) -> bytes:
    coarse = Image.fromarray(draws.integers(0, 256, (28, 28, 3), np.uint8)).resize(
        (SIDE, SIDE), Image.Resampling.BICUBIC
    )
    noisy = np.asarray(coarse, np.int16) + draws.integers(-8, 9, (SIDE, SIDE, 3))
    buffer = BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def measure(folder: Path, *, memory: float, threads: int) -> dict[str, float | str]:
    """Train an epoch and return seconds, peak gigabytes, and a digest of the weights."""
    torch.set_num_threads(threads)
    task, began = ScoreRanking(TRAINING), time.perf_counter()
    splits = [task.load(folder, split, threads=threads, memory=memory) for split in ("train", "val")]
    loaded = time.perf_counter()
    network = task.build(MODEL, splits[0], seed=0)
    options = {"objective": Objective({"name": "mse"}), "seed": 0, "device": "cpu"}
    for _ in train(task, network, *splits, **options):
        pass
    trained = time.perf_counter() - loaded
    digest = sha256(b"".join(value.numpy().tobytes() for value in network.state_dict().values())).hexdigest()[:12]
    return {
        "seconds to load": round(loaded - began, 1),
        "images a second": round((len(splits[0]) + len(splits[1])) / trained, 1),
        "peak GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "weights": digest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs=2, metavar=("FOLDER", "MEMORY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        folder, memory = options.only
        print(json.dumps(measure(Path(folder), memory=float(memory), threads=options.threads)))
        return
    print(machine())
    with TemporaryDirectory() as folder:
        draw(Path(folder), options.rows)
        taken = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**30
        print(f"{options.rows} images of {SIDE} x {SIDE}: {taken:.2f} GiB of JPEG")
        for name, memory in (("batch by batch", 1e-3), ("in memory", 1e3)):
            command = [sys.executable, "-m", "benchmarks.memory", "--threads", str(options.threads)]
            command += ["--only", folder, str(memory)]
            print(name, subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
