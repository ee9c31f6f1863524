"""Write the JSON schema of params.yaml, which editors use to complete and check it: `python -m tools.schema`."""

import json
from pathlib import Path

from pipelines.config import Settings

PATH = Path("pipelines/config/params.schema.json")


def schema() -> str:
    """Return the schema as text, from the models in `pipelines/config/schema.py`."""
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "params.yaml of RankGrad"}
    return json.dumps(Settings.model_json_schema() | about, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema())
