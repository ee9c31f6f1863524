"""Where and how to compute."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["find_device", "make_accelerator", "one_thread"]


def find_device(device: str) -> torch.device:
    """Return the device that the params name.

    Args:
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.

    Raises:
        ValueError: `cuda` without a GPU.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if device != "cpu" and not torch.cuda.is_available():
        count = torch.cuda.device_count()  # the driver's answer, whether or not torch can use them
        advice = (
            f"found {count} whose driver is too old for torch's CUDA {torch.version.cuda}: update the driver"
            if count
            else "set it to auto or cpu, or run nvidia-smi to see why"
        )
        if device == "cuda":
            raise ValueError(f"compute.device is cuda, but torch finds no GPU: {advice}")
        if count:
            logging.getLogger(__name__).warning("compute.device is auto, and torch finds no GPU: %s", advice)
    gpu = None if device == "cpu" else torch.accelerator.current_accelerator(check_available=True)
    return gpu or torch.device("cpu")


def make_accelerator(*, device: str, precision: str) -> "Accelerator":
    """Return an Accelerator for the device that the params name.

    Networks are compiled where the environment says so: ACCELERATE_DYNAMO_BACKEND=INDUCTOR.

    Args:
        device: see `find_device`.
        precision: `no`, `fp16` or `bf16`.

    Raises:
        ValueError: `cuda` without a GPU; or the process has already computed on another device or in another precision.
    """
    from accelerate import Accelerator  # takes a third of a second to import; only training needs it
    from accelerate.state import AcceleratorState

    # Otherwise processes without a GPU would train independently of each other.
    cpu = find_device(device).type == "cpu"
    if AcceleratorState._shared_state:  # accelerate keeps a process's first settings
        begun = AcceleratorState()
        if begun.mixed_precision != precision or (begun.device.type == "cpu") != cpu:
            raise ValueError(
                f"this process computes on {begun.device.type} in precision {begun.mixed_precision}; for device "
                f"{device} in precision {precision} start another process"
            )
    return Accelerator(cpu=cpu, mixed_precision=precision)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute on one thread of the CPU: small operations take longer on several threads.

    They take many times as long next to another busy process, because all threads wait for one that has no core.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
