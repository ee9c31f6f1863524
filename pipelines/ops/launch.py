"""One training in several processes of this machine: started together, ended together, its first error told.

Each process has a GPU of its own, or a share of the CPU's threads; they talk over the loopback interface alone.
"""

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import check_cuda_p2p_ib_support
from torch.distributed import TCPStore

from pipelines.ops.process import die_with_parent

__all__ = ["train_together"]

HERE = "127.0.0.1"
GRACE = 5.0  # seconds to clean up in, before a process is killed
PATIENCE = timedelta(hours=2)  # how long processes wait for each other, such as for the one that validates


def _told_to_end(*_: Any) -> None:
    raise SystemExit


def _pickled(error: BaseException, process: int) -> bytes:
    """An error with its traceback as a note; one that cannot be pickled, as a RuntimeError with its text."""
    error.add_note(f"In process {process}:\n{traceback.format_exc()}")
    try:
        pickle.loads(found := pickle.dumps(error))
        return found
    except Exception:
        return pickle.dumps(RuntimeError("\n".join([f"{type(error).__name__}: {error}", *error.__notes__])))


def _environment(process: int, processes: int, threads: int, *, on_gpus: bool) -> dict[str, str]:
    """What torch.distributed and accelerate read; as `torchrun` sets it."""
    loopback = "lo" if sys.platform == "linux" else "lo0"
    found = {
        "RANK": str(process), "LOCAL_RANK": str(process), "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback,
    }  # fmt: skip
    if on_gpus and not check_cuda_p2p_ib_support():  # as accelerate's own launcher does for these GPUs
        found |= {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
    return found


def _work(
    work: Callable[..., None],
    args: tuple,
    process: int,
    processes: int,
    port: int,
    threads: int,
    on_gpus: bool,
) -> None:
    die_with_parent()
    signal.signal(signal.SIGTERM, _told_to_end)  # so that what is half written is removed
    os.environ.update(_environment(process, processes, threads, on_gpus=on_gpus))
    torch.set_num_threads(threads)
    store = TCPStore(HERE, port, is_master=False)
    try:
        state = PartialState(cpu=not on_gpus, store=store, rank=process, world_size=processes, timeout=PATIENCE)
        if state.num_processes != processes:  # each would train by itself
            raise RuntimeError(f"accelerate made {state.num_processes} of {processes} processes: {state!r}")
        work(*args)
        state.destroy_process_group()
    except BaseException as error:
        # The first error is the cause; what the others meet when that process is gone says nothing.
        if not isinstance(error, SystemExit) and store.add("errors", 1) == 1:
            store.set("error", _pickled(error, process))
        sys.stdout.flush()
        os._exit(1)  # at once: an ordinary exit may wait for processes that are gone


def _wait_for(workers: list[BaseProcess], store: TCPStore) -> None:
    """Returns when all have ended well.

    Raises:
        ChildProcessError: one was killed, or ended without a word.
        Exception: the first error of any.
    """
    while not any(codes := [worker.exitcode for worker in workers]):
        running = [worker.sentinel for worker, code in zip(workers, codes, strict=True) if code is None]
        if not running:
            return
        wait(running)
    # Others may notice that one was killed, and end, before the system says that it was.
    deadline = time.monotonic() + 1.0
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
    codes = [worker.exitcode or 0 for worker in workers]
    for process, code in enumerate(codes):
        if code < 0:
            raise ChildProcessError(
                f"process {process} of {len(workers)} was killed by {signal.Signals(-code).name} (for memory?): "
                "`dvc repro` goes on from the last whole epoch; a smaller train_processes needs less memory, and "
                "begins anew"
            )
    if store.check(["error"]):
        raise pickle.loads(store.get("error"))
    process = next(process for process, code in enumerate(codes) if code)
    raise ChildProcessError(f"process {process} of {len(workers)} ended with {codes[process]} and told no error")


def _end(workers: list[BaseProcess]) -> None:
    started = [worker for worker in workers if worker.pid is not None]
    for worker in started:
        worker.terminate()
    for worker in started:
        worker.join(GRACE)
        worker.kill()
        worker.join()


def train_together(work: Callable[..., None], *args: Any, processes: int, device: str, threads: int) -> None:
    """Calls `work(*args)` in so many new processes, which `rankops.training.loop.fit` then trains one model in.

    All end when one has an error, when this process is interrupted, or when it dies.

    Args:
        work: a function of a module; in it, `accelerate` knows the processes.
        args: what can be pickled.
        processes: how many.
        device: `auto`, `cpu` or `cuda`, as in compute.device.
        threads: of the CPU, for all processes; each has at least one.

    Raises:
        ValueError: there are GPUs to train on, but fewer than processes.
        ChildProcessError: a process was killed.
        Exception: the first error that a process had, with that process's traceback as a note.
    """
    gpus = 0 if device == "cpu" else torch.accelerator.device_count()
    if 0 < gpus < processes:
        raise ValueError(
            f"train_processes is {processes}, but torch finds {gpus} GPU{'s' if gpus > 1 else ''}: expected at most "
            "one process for each GPU; set train_processes lower, or compute.device to cpu (CUDA_VISIBLE_DEVICES "
            "says which GPUs are seen; the retrain flow gives each stage one)"
        )
    # Where processes find each other. By itself, a store listens on every interface.
    listening = socket.create_server((HERE, 0))
    port = listening.getsockname()[1]
    store = TCPStore(HERE, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    share = max(1, threads // processes)
    workers = [
        spawn.Process(target=_work, args=(work, args, process, processes, port, share, gpus > 0), daemon=True)
        for process in range(processes)
    ]
    try:
        # Ctrl-C goes to every process of a terminal. This one hears it and ends the others, which inherit the mask.
        resource_tracker.ensure_running()  # else the first start would, and unblock the signal again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for worker in workers:
                worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _wait_for(workers, store)
    finally:
        _end(workers)
