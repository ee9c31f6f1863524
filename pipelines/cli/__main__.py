"""`python -m pipelines.cli`: the command line, in a checkout's top folder. The console command becomes it."""

import os
import sys
from pathlib import Path

try:
    from pipelines.cli.app import app

    typed_in = os.environ.pop("RANKGRAD_TYPED_IN", None)  # not for what it starts
    app(obj=typed_in and Path(typed_in), prog_name="rankgrad")
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("", "pipelines", "rankgrad"):
        raise
    sys.exit(f"the package {error.name} is missing: run `make setup` in {Path.cwd()}, or `pip install '.[pipeline]'`")
