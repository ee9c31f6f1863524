"""Which GPUs of this machine a training gets, where several run at once."""

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from pipelines.config.schema import Compute

__all__ = ["gpus", "on_one"]


def gpus(compute: Compute) -> list[str]:
    """Names of the GPUs to be used: those in CUDA_VISIBLE_DEVICES, where it is set, or numbers; none for the CPU."""
    if compute.device == "cpu":
        return []
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = map(str, range(count)) if named is None else [name.strip() for name in named.split(",")]
    return list(names)[:count]


@contextmanager
def on_one(names: list[str]) -> Iterator[dict[str, str]]:
    """What a process's environment must say for it to have one GPU, that with the fewest others of this user's.

    Others are those that hold one by this too, in whatever process; of one that dies, the system takes it back.

    Args:
        names: of the GPUs; without any, the environment stays as it is.
    """
    if not names:
        yield {}
        return
    folder = Path(tempfile.gettempdir()) / f"rankops-gpus-{os.getuid()}"  # a container's may have no name
    folder.mkdir(mode=0o700, exist_ok=True)
    for beside, name in ((count, name) for count in itertools.count() for name in names):
        lock = FileLock(folder / f"{name.replace('/', '-')}-{beside}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        try:
            yield {"CUDA_VISIBLE_DEVICES": name}
        finally:
            lock.release()
        return
