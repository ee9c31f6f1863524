"""Put a pretrained sorter into the package, for load_sorter(NAME) without any download: `python -m tools.ship NAME`.

`origin.json` beside the weights is the training's entry in dvc.lock: its params, and the hashes of code and data.
"""

import argparse
import json
import sys
from pathlib import Path

from pipelines.ops import dvc_lock
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import load_model, save_model

TARGET = Path("src/rankops/sorters/pretrained")


def ship(name: str) -> Path:
    """Return the folder that was written.

    Raises:
        FileNotFoundError, ValueError: models/sorters/<name> or its entry in dvc.lock is missing, or it sorts one
            number of scores only.
    """
    sorter, entry = load_model(Path("models/sorters") / name), dvc_lock.stages().get(f"pretrain@{name}")
    if entry is None:
        raise ValueError(f"dvc.lock: no entry pretrain@{name}: run `dvc repro pretrain@{name}` first")
    if sorter.length is not None:
        raise ValueError(f"{name} sorts {sorter.length} scores and no other number: expected a sorter of any length")
    save_model(TARGET / name, sorter)
    with replaced_file(TARGET / name / "origin.json") as partial:
        partial.write_text(json.dumps(entry, indent=2, sort_keys=True) + "\n")
    return TARGET / name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    try:
        print(ship(parser.parse_args().name))
    except (ValueError, OSError) as error:
        sys.exit(str(error))
