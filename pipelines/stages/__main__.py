"""Run a stage: `PYTHONPATH=src python -m pipelines.stages <stage> [name]`, as dvc.yaml does."""

import sys

if __name__ == "__main__":  # not in joblib's workers, which import this module too
    # Before anything that takes seconds to import: if dvc is killed meanwhile, the stage must not go on as an orphan.
    from pipelines.ops.process import tie_to_starter

    tie_to_starter()

    from pipelines.running.runner import run

    run(*sys.argv[1:])
