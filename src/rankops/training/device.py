"""Where and how to compute."""

import logging

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

__all__ = ["make_accelerator"]


def make_accelerator(*, device: str, precision: str) -> Accelerator:
    """Return an Accelerator for the device that the params name.

    Networks are compiled where the environment says so: ACCELERATE_DYNAMO_BACKEND=INDUCTOR.

    Args:
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        precision: `no`, `fp16` or `bf16`.

    Raises:
        ValueError: `cuda` without a GPU; or the process has computed elsewhere, or in another precision, before.
    """
    if device != "cpu" and not torch.cuda.is_available():
        count = torch.cuda.device_count()  # the driver's answer, whether or not torch can use them
        advice = (
            f"found {count} whose driver is too old for torch's CUDA {torch.version.cuda}: update the driver"
            if count
            else "set it to auto or cpu, or look at nvidia-smi"
        )
        if device == "cuda":
            raise ValueError(f"compute.device is cuda, but torch finds no GPU: {advice}")
        if count:
            logging.getLogger(__name__).warning("compute.device is auto, and torch finds no GPU: %s", advice)
    # Without this, each of several processes without a GPU would train by itself.
    cpu = device == "cpu" or not torch.accelerator.is_available()
    if AcceleratorState._shared_state:  # accelerate keeps what a process began with
        begun = AcceleratorState()
        if begun.mixed_precision != precision or (begun.device.type == "cpu") != cpu:
            raise ValueError(
                f"this process computes on {begun.device.type} in precision {begun.mixed_precision}; for device "
                f"{device} in precision {precision} start another process"
            )
    return Accelerator(cpu=cpu, mixed_precision=precision)
