"""Check params.yaml before any other stage: all names, options, and their agreement; every component is built once.

`checks/params.passed` never changes: all stages wait for it, but do not run again when params change. Stages that read
most of the params depend on `checks/params.json`, which has the values without comments.
"""

import json
from pathlib import Path

from pipelines.config import Settings, rules
from pipelines.ops.leftovers import set_aside
from rankgrad.io.atomic import replaced_file


def main(params: Settings) -> None:
    rules.check()
    for line in set_aside(params):
        print(line)
    for key, dataset in params.datasets.items():
        raw = Path(dataset.raw)
        if dataset.is_drawn and not raw.is_dir() and not raw.with_suffix(".dvc").is_file():
            raise FileNotFoundError(
                f"{raw}: no such folder, but datasets.{key}.raw needs it: run `rankgrad fetch mnist`"
            )
    values = json.dumps(params.model_dump(mode="json"), indent=1)
    for name, text in {"params.json": values, "params.passed": "passed"}.items():
        with replaced_file(Path("checks") / name) as partial:
            partial.write_text(text + "\n")
