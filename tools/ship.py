"""Put trained weights into the package: `python -m tools.ship NAME`.

NAME is a sorter, for load_sorter(NAME), or a label-ranking run, for `rankgrad predict shipped`. `origin.json` next to
the weights is the training's entry in dvc.lock: its params, and the hashes of code and data.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from pipelines.ops import dvc_lock
from rankgrad.cli.predict import SHIPPED, image_of_ranker
from rankgrad.io.atomic import replaced_file, replaced_folder
from rankgrad.io.checkpoints import load_model, save_model

PACKAGE = Path("src/rankgrad")
SORTERS, RANKER = PACKAGE / "sorters/pretrained", PACKAGE / SHIPPED.relative_to(SHIPPED.parents[2])
LARGEST = 10**6  # bytes


def ship(name: str) -> Path:
    """Write a model's weights into the package, and return the folder.

    Raises:
        FileNotFoundError, ValueError: there is no sorter or run of this name, or dvc.lock has no entry for it; the
            sorter has a fixed length; the run is not a label ranker; or the weights are too large.
    """
    is_run = (Path("models/runs") / name).is_dir()
    stage = f"{'train' if is_run else 'pretrain'}@{name}"
    model = _ranker(name) if is_run else _sorter(name)
    entry = dvc_lock.stages().get(stage)
    if entry is None:
        raise ValueError(f"dvc.lock: no entry for {stage}: run `dvc repro {stage}` first")
    target = RANKER if is_run else SORTERS / name
    with replaced_folder(target) as folder:
        save_model(folder, model)
        if (size := (folder / "model.safetensors").stat().st_size) > LARGEST:
            raise ValueError(f"{name}: {size:,} bytes, expected at most {LARGEST:,}: train a smaller network")
        with replaced_file(folder / "origin.json") as partial:
            partial.write_text(json.dumps(entry, indent=2, sort_keys=True) + "\n")
    return target


def _sorter(name: str) -> Any:
    sorter = load_model(Path("models/sorters") / name)
    if sorter.length is not None:
        raise ValueError(f"{name} sorts {sorter.length} scores, expected a sorter for any number")
    return sorter


def _ranker(name: str) -> Any:
    """Return a run's label ranker in half precision, which loading converts to float32 again."""
    folder = Path("models/runs") / name
    image_of_ranker(folder)
    ranker = load_model(folder).half()
    for key, weights in ranker.state_dict().items():
        if not torch.isfinite(weights).all():
            raise ValueError(f"{name}: {key} exceeds the range of half precision")
    return ranker


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    try:
        print(ship(parser.parse_args().name))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
