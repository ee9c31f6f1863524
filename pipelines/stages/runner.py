"""How a stage runs as a process: checked params, one at a time, never orphaned, errors in a line."""

import errno
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

import rankops
from pipelines.config.schema import load
from pipelines.ops.process import die_with_parent
from rankops.io.atomic import remove_folder

__all__ = ["checkpoint_folder", "refuse_leftovers", "run"]

SET_ASIDE = 2  # states of other params, data or code, of each training


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left on the disk for {error.filename or 'an output'}: free some and run `dvc repro` again"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; `dvc repro` goes on from the last whole epoch"
    return str(error)


# Of what is not allocated by PyTorch itself: a process's context, and the libraries' own memory.
GPU_IS_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")


def _full_memory(error: Exception) -> str | None:
    """Whose memory an error says is full."""
    if isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in GPU_IS_FULL):
        return "the GPU's"
    # PyTorch has no class for that of the CPU.
    return "this machine's" if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error) else None


def run(main: Callable[..., None]) -> None:
    """Runs a stage's `main(params, *names)` with the names on the command line, and ends the process.

    Errors of the data, the params or the disk are printed in a line; set RANKOPS_TRACEBACK=1 to see where they
    come from. Everything else is a bug and keeps its traceback. Another process of the same stage and names, which may
    be dying, is waited for; beside one that goes on, this one refuses to run.
    """
    stage = "@".join([Path(sys.argv[0]).stem, *sys.argv[1:]])
    die_with_parent()
    start = time.perf_counter()
    logging.basicConfig(level=logging.INFO, format=f"{stage}: %(message)s")
    logging.getLogger("accelerate").setLevel(logging.WARNING)  # it tells of each file of each checkpoint
    try:
        params = load()
        torch.set_num_threads(params.compute.threads)
        # accelerate looks there, in this process and in those that it starts.
        os.environ["ACCELERATE_DYNAMO_BACKEND"] = "INDUCTOR" if params.compute.compile else "NO"
        Path(".locks").mkdir(exist_ok=True)
        with FileLock(f".locks/{stage}.lock", timeout=20):
            main(params, *sys.argv[1:])
        logging.getLogger("stage").info("took %.1f s", time.perf_counter() - start)
    except Timeout:
        print(f"{stage}: another process runs this stage; wait for it, or end it, and run `dvc repro` again",
              file=sys.stderr)  # fmt: skip
        sys.exit(os.EX_TEMPFAIL)
    except (RuntimeError, MemoryError) as error:
        if os.environ.get("RANKOPS_TRACEBACK") or (whose := _full_memory(error)) is None:
            raise
        said = next(iter(str(error).splitlines()), type(error).__name__)
        sys.exit(
            f"{stage}: {whose} memory is full ({said}): lower the batch_size of this training, "
            "set compute.precision to bf16, or have fewer trainings at once (`together`, in experiments/params.yaml); "
            "whole epochs are kept, and `dvc repro` goes on from them if nothing is changed; with another of these it "
            "begins anew"
        )
    except (ValueError, OSError, FloatingPointError, KeyboardInterrupt) as error:
        if os.environ.get("RANKOPS_TRACEBACK"):
            raise
        sys.exit("\n".join(f"{stage}: {line}" for line in _in_a_line(error).splitlines()))


def refuse_leftovers(known: dict[str, Iterable[str]]) -> None:
    """Refuses what runs or sorters that are no longer in the params left in a folder that is read as a whole.

    Args:
        known: what there should be in each folder, without the ending.

    Raises:
        ValueError: there is more; with it, this checkout's dvc.lock would differ from a fresh clone's.
    """
    extra = [
        str(path)
        for folder, names in known.items()
        for path in sorted(Path(folder).iterdir())
        if path.stem not in set(names) and not path.name.startswith(".") and ".partial-" not in path.name
    ]
    if extra:
        raise ValueError(f"runs or sorters that params.yaml no longer has left these; rm -r {' '.join(extra)}")


def checkpoint_folder(stage: str, name: str, *, params: dict[str, Any], inputs: Iterable[str | Path]) -> Path:
    """Where a training keeps its state: a folder of this stage, these params, this data and this code.

    Outside the stage's outputs: there, a training with a changed learning rate would go on from the old one's weights.
    Those of other params, data or code are set aside, the newest two of a training, for who changes them back.
    """
    root = Path(__file__).parents[2]
    digest = sha256(json.dumps([params, torch.__version__], sort_keys=True).encode())
    # All of the library: which of its files are imported by now depends on what else the params name.
    files = {*(Path(path) for path in inputs), *Path(rankops.__file__).parent.rglob("*.py")}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(root) and "site-packages" not in file:
            files.add(Path(file))
    for file in sorted(files):
        digest.update(file.read_bytes())
    folder = Path(".checkpoints") / stage / name / digest.hexdigest()[:16]
    aside = Path(".checkpoints/set_aside") / stage / name
    log = logging.getLogger(__name__)
    for place in (folder.parent, aside):
        place.mkdir(parents=True, exist_ok=True)
        for half in list(place.glob("*.partial-*")):  # removed
            remove_folder(half)
    for other in folder.parent.iterdir():
        if other != folder:
            other.replace(aside / other.name)
            log.info("begins anew: %s is of other params, data or code; set aside in %s", other.name, aside)
    if not folder.exists() and (aside / folder.name).exists():
        (aside / folder.name).replace(folder)
    for old in sorted(aside.iterdir(), key=lambda other: other.stat().st_mtime_ns)[:-SET_ASIDE]:
        remove_folder(old)
    if folder.exists():
        log.info("goes on from %s", folder)
    return folder
