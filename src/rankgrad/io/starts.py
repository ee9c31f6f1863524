"""What a training starts from: weights in a file, a trained model, or the folder of a text encoder."""

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

# Before the names of a backbone's weights in the file of a trained model.
PREFIXES = ("backbone.", "scorer.backbone.", "items.backbone.")
CAPTIONS = "captions.backbone."
SHOWN = 3  # names of each kind in a message
PARTS = ("backbone", "text")  # of a model: what reads the inputs, and what reads captions


def start_from(network: Any, path: str | Path) -> None:
    """Give a network the weights of trained backbones; its head stays as it is. Its recipe gets the files' SHA-256.

    Args:
        network: from `rankgrad.io.checkpoints.build`, with `backbone`, and `captions` if it reads those too.
        path: one of

            - a safetensors file, in which a library published the weights of a network, with its classifier or without;
            - the folder of a run or of a model, see `rankgrad.io.recipes.folder_of`;
            - the folder of a text encoder, with `config.json`, `tokenizer.json` and `model.safetensors`;
            - a folder with `image.safetensors` and, below `text`, an encoder of captions.

    Raises:
        FileNotFoundError: no weights there.
        ValueError: they are not of a network of this kind; the message says which names do not fit.
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
    """Raise what `start_from` would raise; backbones may be on the meta device, and no weights are read."""
    for part, file in _sources(backbone, captions, Path(path)):
        _fitting(part, file)


def with_files(model: dict[str, Any], start: str | Path) -> dict[str, Any]:
    """Return a run's model with what its backbones keep of the start's folder: an encoder's config and tokenizer.

    Args:
        model: with `backbone`, and `text` if it reads captions; each `name` and `args`.
        start: see `start_from`.

    Raises:
        FileNotFoundError: a backbone is an encoder, but the folder has no files of one.
        ValueError: they are not what they should be.
    """
    parts = {key: model[key] for key in PARTS if model.get(key) and _keeps_files(model[key]["name"])}
    return model | {key: part | {"files": _files(part["name"], Path(start))} for key, part in parts.items()}


def _keeps_files(name: str) -> bool:
    return hasattr(lookup.find("models.backbones", name), "files")


def _files(name: str, start: Path) -> dict[str, Any]:
    folder = folder_of(start)
    if (folder / "model.json").is_file():
        parts = [recipe_of(folder)["args"].get(key) or {} for key in PARTS]
        for part in parts:
            if part.get("name") == name and "files" in part:
                return part["files"]
        raise ValueError(f"start: {start} has no {name}, whose config and tokenizer could be taken")
    return lookup.find("models.backbones", name).files(_encoder(folder) or folder)


def _encoder(folder: Path) -> Path | None:
    return next((one for one in (folder, folder / "text") if (one / "config.json").is_file()), None)


def _sources(backbone: Any, captions: Any, path: Path) -> list[tuple[Any, Path]]:
    """Return the backbones that a start has weights for, and the file of each."""
    encoders = [part for part in (backbone, captions) if hasattr(part, "files")]
    folder, text = folder_of(path), _encoder(folder_of(path))
    if path.suffix == ".safetensors":
        found = [(backbone, path)]
    elif (folder / "model.json").is_file():
        found = [(part, folder / "model.safetensors") for part in dict.fromkeys([backbone, *encoders])]
    else:
        found = [(part, text / "model.safetensors") for part in encoders if text]
        if (image := folder / "image.safetensors").is_file() and backbone not in encoders:
            found.append((backbone, image))
    missing = [str(file) for _, file in found if not file.is_file()]
    if missing or not found:
        expected = [
            *missing,
            "a safetensors file, a folder of a run, one of a text encoder for a backbone that is one, or one with "
            "image.safetensors",
        ]
        raise FileNotFoundError(f"{path}: no weights to start from; expected {expected[0]}")
    return found


def _fitting(backbone: Any, file: Path) -> dict[str, str]:
    """Return the name in a file of each weight of a backbone, by its own name.

    Raises:
        ValueError: the file is not whole, or its weights are of another network.
    """
    shapes = _shapes(file)
    wanted = {name: tuple(value.shape) for name, value in backbone.state_dict().items()}
    prefix, names = max(_namings(backbone, wanted), key=lambda naming: len(naming[1].values() & shapes.keys()))
    there = {own: name for own, name in names.items() if name in shapes}
    # What says how images are normalized is no weight; counts of batches are younger than many files.
    free = {"mean", "deviation", *(name for name in wanted if name.endswith("num_batches_tracked"))}
    left_out = tuple(f"{prefix}{start}" for start in backbone.left_out)
    of_it = {name for name in shapes if name.startswith(prefix)} - {*names.values()}
    faults = {
        "missing": [name for own, name in names.items() if own not in there.keys() | free],
        "of another shape": [
            f"{name}: found {shapes[name]}, expected {wanted[own]}"
            for own, name in there.items()
            if shapes[name] != wanted[own]
        ],
        "unexpected": [name for name in shapes if name in of_it and not name.startswith(left_out)],
    }
    if any(faults.values()):
        found = "; ".join(_counted(names, what) for what, names in faults.items() if names)
        raise ValueError(
            f"{file}: the weights are of another network: {found}; give the backbone the name and options of the one "
            "that they are of"
        )
    return there


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(file, "pt") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{file}: not a whole safetensors file ({error}); make or fetch it again") from error


def _namings(backbone: Any, wanted: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return how a file may call weights: what stands before all names, and the name of each."""
    published = {name: name.partition(".")[2] or name for name in wanted}  # libraries know no attribute of ours
    ours = [(prefix, {name: f"{prefix}{name}" for name in wanted}) for prefix in (*PREFIXES, CAPTIONS, "")]
    return ours + [
        (prefix, {name: f"{prefix}{theirs}" for name, theirs in published.items()})
        for prefix in ("", *backbone.published_below)
    ]


def _counted(names: list[str], what: str) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{len(names)} {what} ({shown}{', ...' if len(names) > SHOWN else ''})"
