"""What the flow costs over plain `dvc repro`, and what two stages at once save: three clones at the tiny scale."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks.results import write

ROOT = Path(__file__).parents[1]
FLOW = "from pipelines.flows.retrain import retrain; retrain(reason='benchmark', advance=False, workers={workers})"


def clone(folder: Path) -> Path:
    """A clone of the present commit at the tiny scale, one thread a stage, nothing made yet."""
    run(["git", "clone", "--quiet", str(ROOT), str(folder)], ROOT)
    run([sys.executable, "-m", "pipelines.cli", "scale", "tiny"], folder)
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("threads: 2", "threads: 1"))
    (folder / "dvc.lock").unlink(missing_ok=True)
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "tiny"]):
        run(["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost", *words], folder)
    return folder


def run(command: list[str], folder: Path) -> float:
    """Seconds that a command takes."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "src",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "PREFECT_HOME": str(folder.parent / "prefect"),
        "OMP_NUM_THREADS": "1",
    }
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} in {folder}:\n{(done.stdout + done.stderr)[-4000:]}")
    return time.perf_counter() - begun


def main() -> None:
    yaml = YAML(typ="safe")
    scratch = Path(tempfile.mkdtemp(prefix="orchestration-"))
    try:
        plain, serial, parallel = (clone(scratch / name) for name in ("plain", "serial", "parallel"))
        seconds = {"plain": run(["dvc", "repro"], plain)}
        stages = len((plain / "dvc.lock").read_text().split("\n    cmd:")) - 1
        for name, folder, workers in (("serial", serial, 1), ("parallel", parallel, 2)):
            seconds[name] = run([sys.executable, "-c", FLOW.format(workers=workers)], folder)
            branch = subprocess.run(
                ["git", "for-each-ref", "--format=%(refname)", "refs/heads/retrain/"], cwd=folder, capture_output=True,
                text=True, check=True,
            ).stdout.strip()  # fmt: skip
            lock = subprocess.run(["git", "show", f"{branch}:dvc.lock"], cwd=folder, capture_output=True, check=True)
            # As data: without a lock to begin with, the order of its entries is that in which DVC came to them.
            if yaml.load(lock.stdout.decode()) != yaml.load((plain / "dvc.lock").read_text()):
                raise RuntimeError(f"the {name} flow's dvc.lock differs from that of plain `dvc repro`")
        rows = {"dvc repro": {"seconds": seconds["plain"]}}
        for name, shown in (("serial", "flow, one stage at once"), ("parallel", "flow, two at once")):
            rows[shown] = {
                "seconds": seconds[name],
                "ratio to dvc repro": seconds[name] / seconds["plain"],
                "ratio to the serial flow": seconds[name] / seconds["serial"],
                "seconds more a stage": (seconds[name] - seconds["plain"]) / stages,
            }
        write("orchestration", rows)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
