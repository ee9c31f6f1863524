"""Initial weights of a training: a file of weights, a trained model, or the folder of a text encoder."""

from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from rankgrad import lookup
from rankgrad.io.recipes import folder_of, recipe_of

__all__ = ["check_fit", "start_from", "with_files"]

# Prefixes of the names of a backbone's weights in the file of a trained model.
PREFIXES = ("backbone.", "scorer.backbone.", "items.backbone.")
CAPTIONS = "captions.backbone."
SHOWN = 3  # names of each kind in a message
BACKBONES = ("backbone", "text")  # of a model: the one for inputs, and the one for captions


def start_from(network: Any, path: str | Path) -> None:
    """Load weights of trained backbones into a network; leave its head alone. Its recipe gets the files' SHA-256.

    Args:
        network: from `rankgrad.io.checkpoints.build`, with `backbone`, and `captions` if it encodes captions.
        path: one of

            - a safetensors file of a network's weights as a library publishes it, with or without its classifier;
            - the folder of a run or a model, see `rankgrad.io.recipes.folder_of`;
            - the folder of a text encoder, with `config.json`, `tokenizer.json` and `model.safetensors`;
            - a folder with `image.safetensors` and, in its folder `text`, an encoder for captions.

    Raises:
        FileNotFoundError: the path has no weights.
        ValueError: the weights belong to a different network; the message lists the names that do not fit.
    """
    captions = getattr(network, "captions", None)
    digests = {}
    for backbone, file in _sources(network.backbone, captions and captions.backbone, Path(path)):
        names, weights = _fitting(backbone, file), load_file(file)
        backbone.load_state_dict(backbone.state_dict() | {own: weights[name] for own, name in names.items()})
        with file.open("rb") as opened:
            digests[file.as_posix()] = file_digest(opened, "sha256").hexdigest()
    network.recipe["start"] = digests


def check_fit(backbone: nn.Module, captions: nn.Module | None, path: str | Path) -> None:
    """Raise the errors that `start_from` would; backbones may be on the meta device, and no weights are read."""
    for source, file in _sources(backbone, captions, Path(path)):
        _fitting(source, file)


def with_files(model: dict[str, Any], start: str | Path) -> dict[str, Any]:
    """Return a run's model with the files its backbones need from the start's folder: config and tokenizer.

    Args:
        model: `backbone`, and `text` if the model encodes captions; each has `name` and `args`.
        start: see `start_from`.

    Raises:
        FileNotFoundError: a backbone is an encoder, but the folder lacks an encoder's files.
        ValueError: a file is invalid.
    """
    changed = dict(model)
    for key in BACKBONES:
        if model.get(key) and hasattr(lookup.find("models.backbones", model[key]["name"]), "files"):
            changed[key] = model[key] | {"files": _files(model[key]["name"], Path(start))}
    return changed


def _files(name: str, start: Path) -> dict[str, Any]:
    folder = folder_of(start)
    if (folder / "model.json").is_file():
        args = recipe_of(folder)["args"]
        for backbone in (args.get(key) or {} for key in BACKBONES):
            if backbone.get("name") == name and "files" in backbone:
                return backbone["files"]
        raise ValueError(f"start: {start} has no {name}, expected one with its config and tokenizer")
    return lookup.find("models.backbones", name).files(_encoder(folder) or folder)


def _encoder(folder: Path) -> Path | None:
    return next((path for path in (folder, folder / "text") if (path / "config.json").is_file()), None)


def _sources(backbone: Any, captions: Any, path: Path) -> list[tuple[Any, Path]]:
    """Return the backbones for which a start has weights, and the file of each."""
    encoders = [encoder for encoder in (backbone, captions) if hasattr(encoder, "files")]
    folder = folder_of(path)
    text = _encoder(folder)
    if path.suffix == ".safetensors":
        sources = [(backbone, path)]
    elif (folder / "model.json").is_file():
        sources = [(own, folder / "model.safetensors") for own in dict.fromkeys([backbone, *encoders])]
    else:
        sources = [(encoder, text / "model.safetensors") for encoder in encoders if text]
        if (image := folder / "image.safetensors").is_file() and backbone not in encoders:
            sources.append((backbone, image))
    missing = next((str(file) for _, file in sources if not file.is_file()), None)
    if missing or not sources:
        expected = missing or (
            "a safetensors file, the folder of a run, the folder of a text encoder (for such a backbone), or one with "
            "image.safetensors"
        )
        raise FileNotFoundError(f"{path}: no weights to start from, expected {expected}")
    return sources


def _fitting(backbone: Any, file: Path) -> dict[str, str]:
    """Map the name of each weight of a backbone to its name in a file.

    Raises:
        ValueError: the file is incomplete, or its weights belong to a different network.
    """
    shapes = _shapes(file)
    expected = {name: tuple(value.shape) for name, value in backbone.state_dict().items()}
    prefix, names = max(_namings(backbone, expected), key=lambda naming: len(naming[1].values() & shapes.keys()))
    fitting = {own: name for own, name in names.items() if name in shapes}
    # Skip image normalization, which is not a weight, and counts of batches, which many older files lack.
    optional = {"mean", "deviation", *(name for name in expected if name.endswith("num_batches_tracked"))}
    left_out = tuple(f"{prefix}{start}" for start in backbone.left_out)

    missing = [name for own, name in names.items() if own not in fitting.keys() | optional]
    misshapen = [
        f"{name}: found {shapes[name]}, expected {expected[own]}"
        for own, name in fitting.items()
        if shapes[name] != expected[own]
    ]
    unexpected = [name for name in shapes if name.startswith(prefix) and not name.startswith(left_out)]
    unexpected = [name for name in unexpected if name not in names.values()]
    faults = {"missing": missing, "of another shape": misshapen, "unexpected": unexpected}
    if any(faults.values()):
        found = "; ".join(_counted(names, fault) for fault, names in faults.items() if names)
        raise ValueError(
            f"{file}: the weights belong to a different network: {found}; set the backbone's name and options to those "
            "of the network in the file"
        )
    return fitting


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(file, "pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{file}: not a complete safetensors file ({error}); create or fetch it again") from error


def _namings(backbone: Any, names: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the possible namings of weights in a file: a prefix of all names, and the file's name for each weight."""
    ours = {name: name for name in names}
    published = {name: name.partition(".")[2] or name for name in names}  # without our attribute's name
    namings = [(prefix, ours) for prefix in (*PREFIXES, CAPTIONS, "")]
    namings += [(prefix, published) for prefix in ("", *backbone.published_below)]
    return [(prefix, _prefixed(prefix, by_own)) for prefix, by_own in namings]


def _prefixed(prefix: str, names: dict[str, str]) -> dict[str, str]:
    return {own: f"{prefix}{name}" for own, name in names.items()}


def _counted(names: list[str], fault: str) -> str:
    return f"{len(names)} {fault} ({', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''})"
