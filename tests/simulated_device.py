"""A device that PyTorch takes for another one than the CPU, and that computes on the CPU.

There it is noticed, without a GPU, if a tensor was made or left on the wrong device: an operation on tensors of both
fails as it would on a GPU. Once `simulated` has been entered, the whole process has the device, and it is then what
PyTorch calls the accelerator: so only a process of its own may (`test_simulated_device.py` starts it).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["PLACE", "simulated"]


class _Backend(backend_registration._DummyBackendModule):
    """What PyTorch asks a device's module for. It has no random state: asking for it is an error."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_NO_AUTOCAST = torch.library.Library("_", "IMPL")  # kept for as long as it is to hold
PLACE = torch.device("privateuseone:0")  # "simulated:0" from then on
# A GPU takes these across: a copy, and row numbers that are on the CPU.
ACROSS = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_"}


class _There(Tensor):
    """A tensor on the simulated device; `held` is the memory."""

    @staticmethod
    def __new__(cls, held: Tensor) -> "_There":
        there = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=PLACE,
        )  # fmt: skip
        there.held = held
        return there

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return _computed(function, args, kwargs or {})

    # What looks at memory, and files, which have no devices.
    def untyped_storage(self) -> Any:
        return self.held.untyped_storage()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def tolist(self) -> Any:
        return self.held.tolist()

    def __deepcopy__(self, memo: dict) -> Tensor:
        copied = _There(self.held.detach().clone())
        return torch.nn.Parameter(copied, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.held.detach().__reduce_ex__(protocol)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, _There) else value


def _computed(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    name = function._schema.name.removeprefix("aten::")
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    simulated_tensors = [tensor for tensor in tensors if isinstance(tensor, _There)]
    cpu_tensors = [
        tensor for tensor in tensors if not isinstance(tensor, _There) and tensor.dim()
    ]  # a scalar may be anywhere
    if simulated_tensors and cpu_tensors and name not in ACROSS:
        shapes = [(tuple(tensor.shape), str(tensor.device)) for tensor in tensors]
        raise RuntimeError(f"{name}: tensors on two devices: {shapes}")
    device = kwargs.get("device")
    away = bool(simulated_tensors) if device is None else torch.device(device).type == PLACE.type
    if device is not None:
        kwargs = kwargs | {"device": "cpu"}
    if simulated_tensors and torch.Tag.inplace_view in function.tags:
        with no_dispatch():
            function(*args, **kwargs)  # of the outer tensor the shape alone
    result = function(*tree_map(_held, args), **tree_map(_held, kwargs))
    if name == "copy_":
        return args[0]
    by_memory = {id(tensor.held): tensor for tensor in simulated_tensors}  # what was changed in place is what came

    def placed(value: Any) -> Any:
        if not (away and isinstance(value, Tensor)):
            return value
        return by_memory[id(value)] if id(value) in by_memory else _There(value)

    return tree_map(placed, result)


class _Operations(TorchDispatchMode):
    """Of operations without tensors, which only say where they are wanted."""

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return _computed(function, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Of those that PyTorch has no operation for: numbers become a tensor, and recurrent layers in one kernel."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if name in ("tensor", "as_tensor") and torch.device(kwargs.get("device") or "cpu").type == PLACE.type:
            return function(*args, **kwargs | {"device": "cpu"}).to(PLACE)
        if name in ("gru", "lstm") and isinstance(args[0], _There):
            return getattr(decompositions, f"{name}_impl")(*args, **kwargs)
        return function(*args, **kwargs)


@contextmanager
def simulated() -> Iterator[None]:
    """Within it tensors may be on `PLACE`."""
    if not torch.accelerator.is_available() or torch.accelerator.current_accelerator().type != PLACE.type:
        backend_registration._setup_privateuseone_for_python_backend(rename="simulated", backend_module=_Backend())
        _NO_AUTOCAST.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    with _Operations(), _Functions():
        yield
