"""Models on disk: a folder with `model.safetensors` and a `model.json` from which the model is rebuilt."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from rankops import by_name
from rankops.atomic_writes import replaced_file, write_error

__all__ = ["build", "load_model", "save_model"]


def build(folder: str, name: str, args: dict[str, Any], *, seed: int, **runtime: Any) -> nn.Module:
    """The module of that name, its weights drawn from `seed`; the caller's random state is left as it was.

    Args:
        folder: `sorters` or `models`.
        name: the file's name in that folder.
        args: its options, as in the params.
        seed: of the weights.
        runtime: what the data decides, such as `length` or `outputs`.

    Raises:
        ValueError: an unknown name or option.

    >>> build("sorters", "handcrafted", {"steepness": 5.0}, seed=0)
    Handcrafted(steepness=5.0)
    """
    by_name.check_options(folder, name, args)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return by_name.find(folder, name)(**args, **runtime)


def save_model(path: str | Path, model: nn.Module, *, folder: str, name: str, args: dict[str, Any]) -> None:
    """Writes a model's two files, so that `load_model(path)` rebuilds it.

    Args:
        path: the folder to write into; other files there stay.
        folder, name: where the class is, as in `build`.
        args: all arguments of its constructor, those of the run time included; JSON values.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().cpu().contiguous() for key, value in sorted(model.state_dict().items())}
    with replaced_file(path / "model.safetensors") as partial:
        try:
            save_file(weights, partial)
        except SafetensorError as error:
            raise write_error(path / "model.safetensors", error) from error
    recipe = {"folder": folder, "name": name, "args": args}
    with replaced_file(path / "model.json") as partial:
        partial.write_text(json.dumps(recipe, indent=2, sort_keys=True) + "\n")


def load_model(path: str | Path) -> nn.Module:
    """Rebuilds what `save_model` wrote, in evaluation mode, on the CPU.

    Raises:
        FileNotFoundError: the folder lacks one of the two files.
        ValueError: the weights are truncated or do not fit the recipe.
    """
    path = Path(path)
    for file in ("model.json", "model.safetensors"):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path}: no {file} there; expected a folder that save_model wrote")
    try:
        recipe = json.loads((path / "model.json").read_text())
        model = build(recipe["folder"], recipe["name"], {}, seed=0, **recipe["args"])
        model.load_state_dict(load_file(path / "model.safetensors"))
    except (SafetensorError, RuntimeError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a whole model ({error}); make it again with `dvc repro`") from error
    return model.eval()
