"""Models on disk: a folder with the weights, `model.safetensors`, and the recipe to rebuild the model, `model.json`.

`rankgrad.training.loop` saves the state of a training, so that it can resume after it was killed.
"""

import inspect
import json
import math
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.overrides import TorchFunctionMode

from rankgrad import lookup
from rankgrad.io.atomic import replaced_file, write_error
from rankgrad.io.recipes import folder_of, recipe_of

__all__ = ["build", "load_model", "save_model"]


def build(folder: str, name: str, args: dict[str, Any], *, seed: int, **runtime: Any) -> Any:
    """Return a new module with weights drawn from `seed`; the caller's random state does not change.

    Args:
        folder: `sorters` or `models`.
        name: name of the module's file in that folder.
        args: options of the module, as in the params.
        seed: seed of the weights.
        runtime: options that depend on the data, such as `length`, `outputs` or `colors`; options that the module does
            not have are ignored.

    Returns:
        The module, with an attribute `recipe` for `save_model`.

    Raises:
        ValueError: the name or an option is unknown.

    >>> build("sorters", "handcrafted", {"steepness": 5.0}, seed=0)
    Handcrafted(steepness=5.0)
    """
    lookup.check_options(folder, name, args)
    make = lookup.find(folder, name)
    known = inspect.signature(make).parameters
    from_data = {key: value for key, value in runtime.items() if key in known}
    with _making_on_cpu():
        torch.default_generator.manual_seed(seed)
        module = make(**args, **from_data)
    module.recipe = {"folder": folder, "name": name, "args": args | from_data}
    return module


@contextmanager
def _making_on_cpu() -> Generator[None]:
    """Create modules on the CPU in float32, and restore the CPU's random state afterwards."""
    dtype_before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        # No devices: to save the random state of GPUs, each process would start to use all GPUs.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_default_dtype(dtype_before)


def save_model(path: str | Path, model: nn.Module) -> None:
    """Write a model's two files, so that `load_model(path)` rebuilds it.

    Args:
        path: the folder to write into; other files there are kept.
        model: a model from `build` or `load_model`.

    Raises:
        TypeError: the model comes from neither, so it has no recipe to rebuild it; or JSON cannot hold an option.
    """
    # torch.compile wraps the model: it keeps the recipe, but renames the weights.
    model: Any = getattr(model, "_orig_mod", model)
    if not hasattr(model, "recipe"):
        raise TypeError(f"{type(model).__name__}: has no recipe, expected a model from `rankgrad.io.checkpoints.build`")
    path = Path(path)
    json.dumps(model.recipe)  # before anything is written: it may fail
    path.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().cpu().contiguous() for key, value in sorted(model.state_dict().items())}
    with replaced_file(path / "model.safetensors") as partial:
        try:
            save_file(weights, partial)
        except SafetensorError as error:
            raise write_error(path / "model.safetensors", error) from error
    recipe = model.recipe | {"sha256": _digest(path / "model.safetensors")}
    with replaced_file(path / "model.json") as partial:
        partial.write_text(json.dumps(recipe, indent=2, sort_keys=True) + "\n")


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def load_model(path: str | Path, *, device: str | torch.device = "cpu") -> Any:
    """Rebuild a model that `save_model` wrote, in evaluation mode and float32.

    Args:
        path: see `rankgrad.io.recipes.folder_of`.
        device: device of the weights.

    Raises:
        FileNotFoundError: the folder lacks one of the two files.
        ValueError: the weights are damaged or do not fit the recipe, or a component in the recipe does not exist, such
            as a file in `own`. Components are never imported from the model's folder.
    """
    path, recipe = folder_of(path), recipe_of(path)
    make = lookup.find(recipe["folder"], recipe["name"], where=f"{path}: model.json: name")
    digest = recipe.pop("sha256", None)  # older folders do not have it
    try:
        if digest not in (None, _digest(path / "model.safetensors")):
            raise ValueError("model.safetensors is not the file that belongs to model.json")
        weights = load_file(path / "model.safetensors")
        with _making_on_cpu(), _Bounded(sum(value.numel() for value in weights.values())):
            model = make(**recipe["args"])
        model.load_state_dict(weights)
    except lookup.ComponentError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a class may raise any error for the options of a file
        reason = " ".join(str(error).split())  # load_state_dict has a line for each weight
        raise ValueError(f"{path}: not a complete model ({reason}); recreate it with `dvc repro`") from error
    model.recipe = recipe
    return model.to(device, memory_format=torch.channels_last).eval()


class _Bounded(TorchFunctionMode):
    """Raise a ValueError before a module allocates more memory than its weights in a file need."""

    def __init__(self, values: int):
        super().__init__()
        self.left = 2 * values + 2**20  # leaves room for the few values that are not in the file

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
            self.left -= math.prod(args[0] if args and not isinstance(args[0], int) else args)
            if self.left < 0:
                raise ValueError("its options require more weights than the file has")
        return func(*args, **(kwargs or {}))
