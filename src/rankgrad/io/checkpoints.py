"""Models on disk: a folder with `model.safetensors`, and with `model.json` to rebuild the model.

The state of a training that goes on after a kill is kept by `rankgrad.training.loop`.
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
    """Return the module of that name, its weights drawn from `seed`; keep the caller's random state.

    Args:
        folder: `sorters` or `models`.
        name: the file's name in that folder.
        args: its options, as in the params.
        seed: of the weights.
        runtime: options that depend on the data, such as `length`, `outputs` or `colors`; those that the module does
            not have are left out.

    Returns:
        The module, with an attribute `recipe` for `save_model`.

    Raises:
        ValueError: an unknown name or option.

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
    """Make modules on the CPU in float32, and restore its random state afterwards."""
    dtype_before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        # No devices: to keep the random state of GPUs, each process would begin to use all of them.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_default_dtype(dtype_before)


def save_model(path: str | Path, model: nn.Module) -> None:
    """Write a model's two files, so that `load_model(path)` rebuilds it.

    Args:
        path: the folder to write into; other files there stay.
        model: from `build` or `load_model`.

    Raises:
        TypeError: it is from neither, so it has no recipe to rebuild it; or JSON cannot hold an option.
    """
    # torch.compile wraps the model: it passes on the recipe, but renames the weights.
    model: Any = getattr(model, "_orig_mod", model)
    if not hasattr(model, "recipe"):
        raise TypeError(
            f"{type(model).__name__}: not from `rankgrad.io.checkpoints.build`, which says how to rebuild it"
        )
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
    """Rebuild what `save_model` wrote, in evaluation mode and float32.

    Args:
        path: see `rankgrad.io.recipes.folder_of`.
        device: of its weights.

    Raises:
        FileNotFoundError: the folder lacks one of the two files.
        ValueError: the weights are damaged or do not fit the recipe, or a component in it does not exist, such as a
            file in `own`. No component is imported from the folder.
    """
    path, recipe = folder_of(path), recipe_of(path)
    make = lookup.find(recipe["folder"], recipe["name"], where=f"{path}: model.json: name")
    digest = recipe.pop("sha256", None)  # an older folder has none
    try:
        if digest not in (None, _digest(path / "model.safetensors")):
            raise ValueError("model.safetensors is not the file that model.json was written for")
        weights = load_file(path / "model.safetensors")
        with _making_on_cpu(), _Bounded(sum(value.numel() for value in weights.values())):
            model = make(**recipe["args"])
        model.load_state_dict(weights)
    except lookup.ComponentError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a class may raise any error for the options of a file
        reason = " ".join(str(error).split())  # load_state_dict has a line for each weight
        raise ValueError(f"{path}: not a whole model ({reason}); make it again with `dvc repro`") from error
    model.recipe = recipe
    return model.to(device, memory_format=torch.channels_last).eval()


class _Bounded(TorchFunctionMode):
    """Raise a ValueError before a module takes more memory than its weights in a file need."""

    def __init__(self, values: int):
        super().__init__()
        self.left = 2 * values + 2**20  # values that a file does not keep are few

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
            self.left -= math.prod(args[0] if args and not isinstance(args[0], int) else args)
            if self.left < 0:
                raise ValueError("its options ask for more weights than the file has")
        return func(*args, **(kwargs or {}))
