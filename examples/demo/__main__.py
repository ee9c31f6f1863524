"""Move digits on a page, and see how label rankers order them: `python -m examples.demo`, until Ctrl-C."""

import argparse
import sys
from pathlib import Path

from .server import HOST, PORT, serve

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.demo")
    parser.add_argument("models", nargs="*", type=Path, help="folders of label rankers (default: the package's)")
    parser.add_argument("--port", type=int, default=PORT, help=f"of {HOST} (default: {PORT})")
    options = parser.parse_args()
    try:
        serve(options.models, port=options.port)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
