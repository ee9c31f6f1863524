"""Run a stage: check params, set threads, allow one process per stage, and print errors in one line."""

import errno
import inspect
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pipelines.code import lines_of, refuse_other_versions
from pipelines.config import Settings, load
from pipelines.ops import status
from pipelines.running.sources import refuse_changed, sources
from rankgrad import lookup
from rankgrad.io.atomic import remove_folder

__all__ = ["FEATURES", "checkpoint_folder", "run"]

STAGES = Path(__file__).parents[1] / "stages"
FEATURES = Path(".checkpoints/features")  # features of frozen networks, shared by trainings and evaluations
SET_ASIDE = 2  # number of checkpoints of other params, data, or code to keep per training
PATIENCE = 20.0  # seconds to wait for another process of the stage, which may be about to end
# Errors for memory that PyTorch does not allocate itself: a process's context, and memory of libraries.
GPU_IS_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")


def _advice(error: BaseException) -> str | None:
    """Return a message on how to fix an error; None for a bug."""
    if isinstance(error, Timeout):
        return "another process is running this stage; wait for it or end it, then run `dvc repro` again"
    # Copying a folder collects its errors into one error without a number.
    full = isinstance(error, shutil.Error) and os.strerror(errno.ENOSPC) in str(error)
    if full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        return f"no space left on the disk for {error.filename or 'an output'}: free some, then run `dvc repro` again"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; `dvc repro` resumes from the last saved epoch"
    if isinstance(error, BrokenExecutor):
        return (
            "the process of a job was killed, usually because this machine's memory was full: lower jobs.count, or the "
            "batch_size of this training; `dvc repro` resumes from the last saved epoch"
        )
    if whose := _full_memory(error):
        message = next(iter(str(error).splitlines()), type(error).__name__)
        return (
            f"{whose} memory is full ({message}): lower the batch_size of this training, set compute.precision to "
            "bf16, or lower jobs.count in params.yaml. Without changes, `dvc repro` resumes from the last saved epoch; "
            "with another batch_size or precision, the training starts again"
        )
    if isinstance(error, (ValueError, OSError, FloatingPointError)):
        return str(error)
    return lookup.raised_at(error) if lookup.line_in_own(error) else None


def _full_memory(error: BaseException) -> str | None:
    """Return whose memory is full, for an error about full memory; otherwise None."""
    torch = sys.modules.get("torch")  # not every stage imports it
    if isinstance(error, RuntimeError):
        if (torch and isinstance(error, torch.OutOfMemoryError)) or any(text in str(error) for text in GPU_IS_FULL):
            return "the GPU's"
        # PyTorch has no error class for a full CPU memory.
        return "this machine's" if "DefaultCPUAllocator" in str(error) else None
    return "this machine's" if isinstance(error, MemoryError) else None


def _main(stage: str, *names: str) -> Callable[..., None]:
    """Return a stage's `main(params, *names)`.

    Raises:
        ValueError: the stage does not exist, or takes other names.
    """
    stages = sorted(path.stem for path in STAGES.glob("[!_]*.py"))
    if stage not in stages:
        raise ValueError(f"no such stage, expected one of {', '.join(stages)}, as in dvc.yaml")
    main = import_module(f"pipelines.stages.{stage}").main
    try:
        inspect.signature(main).bind(None, *names)
    except TypeError as error:
        raise ValueError(f"{error}; expected the names that dvc.yaml passes") from error
    return main


def run(stage: str = "", *names: str) -> None:
    """Call the function `main(params, *names)` of `pipelines/stages/<stage>.py`.

    Errors in the data, the params, or the disk are printed in one line and end the process; set RANKGRAD_TRACEBACK=1 to
    show their traceback. All other errors are bugs and keep their traceback. The stage's status file has the reason of
    a failure, see `pipelines.ops.status`. A stage run by DVC fails if its sources change meanwhile. If another process
    with the same stage and names does not end within 20 seconds, this one fails.
    """
    title, key = "@".join([stage or "stages", *names]), "@".join(names)
    start = time.perf_counter()
    logging.basicConfig(level=logging.INFO, format=f"{title}: %(message)s")
    for chatty in ("accelerate", "great_expectations"):  # they log every file of a checkpoint and every registration
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        before = sources(stage, key) if "DVC_STAGE" in os.environ else None
        params = load()
        refuse_other_versions(Path("checks/code") / f"{title}.txt")
        os.environ["OMP_NUM_THREADS"] = str(params.compute.threads)  # for a torch that is imported later
        main = _main(stage, *names)
        # accelerate reads this variable, in this process and in child processes.
        os.environ["ACCELERATE_DYNAMO_BACKEND"] = "INDUCTOR" if params.compute.compile else "NO"
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(params.compute.threads)
        Path(".locks").mkdir(exist_ok=True)
        with FileLock(f".locks/{title}.lock", timeout=PATIENCE):
            status.began(title)
            main(params, *names)
            if before is not None:  # DVC records them after this process ends
                refuse_changed(before, stage, key)
            status.succeeded(title)
        logging.getLogger("stage").info("took %.1f s", time.perf_counter() - start)
    except (Exception, KeyboardInterrupt) as error:
        message = _advice(error)
        exit_status = status.TRANSIENT if isinstance(error, Timeout) else getattr(error, "exit_status", 1)
        with suppress(OSError):  # the disk may be full
            status.failed(title, message or f"{type(error).__name__}: {error}", exit_status)
        if message is None or os.environ.get("RANKGRAD_TRACEBACK"):
            raise
        for line in message.splitlines():
            sys.stderr.write(f"{title}: {line}\n")
        sys.exit(exit_status)


def checkpoint_folder(
    params: Settings, stage: str, name: str, *, settings: dict[str, Any], inputs: Iterable[str | Path]
) -> Path:
    """Return the folder for the state of a training, specific to this stage, these params, this data, and this code.

    It is outside the stage's outputs, where a training with a new learning rate would resume from the old weights.
    States of other params, data, or code are set aside (the newest two per training), and restored if these return.

    Args:
        params: params that name the training's components, whose code is listed by `pipelines.code`.
        stage: name of the file in pipelines/stages.
        name: name of the training.
        settings: all settings of the training.
        inputs: files that it reads.
    """
    import torch  # trainings import it anyway

    lines = lines_of(params, stage, name)
    digest = sha256(json.dumps([settings, torch.__version__, lines], sort_keys=True).encode())
    for file in sorted(map(Path, {*inputs})):
        digest.update(file.read_bytes())
    folder = Path(".checkpoints") / stage / name / digest.hexdigest()[:16]
    aside = Path(".checkpoints/set_aside") / stage / name
    log = logging.getLogger(__name__)
    for parent in (folder.parent, aside):
        parent.mkdir(parents=True, exist_ok=True)
        for half_removed in list(parent.glob("*.partial-*")):
            remove_folder(half_removed)
    for other in folder.parent.iterdir():
        if other != folder:
            other.replace(aside / other.name)
            log.info("starts again: %s belongs to other params, data, or code; moved to %s", other.name, aside)
    if not folder.exists() and (aside / folder.name).exists():
        (aside / folder.name).replace(folder)
    for old in sorted(aside.iterdir(), key=lambda other: other.stat().st_mtime_ns)[:-SET_ASIDE]:
        remove_folder(old)
    if folder.exists():
        log.info("resumes from %s", folder)
    return folder
