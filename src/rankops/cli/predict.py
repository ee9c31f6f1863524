"""`rankops predict`: the labels of pictures by a trained label ranker.

What can be wrong with pictures or model is told before torch is imported.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankops.io.recipes import image_of, recipe_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SHIPPED", "Prediction", "annotate", "annotated_paths", "check_files", "image_of_ranker", "load_ranker", "main",
    "predict", "predictions",
]  # fmt: skip

AT_ONCE = 256  # pictures that are decoded together
SHIPPED = Path(__file__).parents[1] / "models/pretrained/label_ranking"  # the ranker that comes with the package
TASK = "label_ranking"
PICTURES = (".png", ".jpg", ".jpeg", ".pdf", ".svg")  # what `annotate` writes


@dataclass(frozen=True)
class Prediction:
    """The labels of an image, the most important first."""

    path: Path
    places: list[int]  # equally important labels share theirs
    labels: list[int]
    scores: list[float]
    names: list[str] | None = None  # of the labels, if the model knows them

    def as_json(self) -> dict[str, Any]:
        """Return `path` and `labels`, of each its `place`, `label` and `score`, and its `name` where it has one."""
        rows = zip(self.places, self.labels, self.scores, strict=True)
        labels: list[dict[str, Any]] = [
            {"place": place, "label": label, "score": score} for place, label, score in rows
        ]
        for label, name in zip(labels, self.names or [], strict=False):
            label["name"] = name
        return {"path": str(self.path), "labels": labels}

    @property
    def shown(self) -> list[str]:
        """What people read of each label."""
        return self.names or [f"label {label}" for label in self.labels]


def check_files(paths: Iterable[Path]) -> None:
    """Raise if a path is no file.

    Raises:
        FileNotFoundError: there is nothing.
        ValueError: there is a folder.
    """
    for path in paths:
        if path.is_dir():
            raise ValueError(f"{path}: a folder; expected files, as in {path}/*.png")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")


def image_of_ranker(folder: Path) -> dict[str, int]:
    """Return `colors`, `height` and `width` of the images that the label ranker in a folder takes.

    Raises:
        FileNotFoundError, ValueError: no label ranker, or one that does not know; see `rankops.io.recipes`.
    """
    recipe = recipe_of(folder)
    if (task := recipe.get("task")) != TASK:
        raise ValueError(f"{folder}: a model of {task or 'no task'}, expected one of {TASK}")
    return image_of(recipe, where=folder)


def load_ranker(folder: Path) -> Any:
    """Load the label ranker in a folder, on the GPU if there is one; see `image_of_ranker`."""
    image_of_ranker(folder)
    import torch

    from rankops.io.checkpoints import load_model

    return load_model(folder, device="cuda" if torch.cuda.is_available() else "cpu")


def predict(paths: Sequence[Path], folder: Path = SHIPPED) -> list[Prediction]:
    """Return the labels of each image.

    Args:
        paths: of pictures of any size, of which the largest middle part is looked at.
        folder: of a label ranker, see `rankops.io.recipes.folder_of`.

    Raises:
        FileNotFoundError: no such file or model.
        ValueError: not an image; the message names the file. Or not a label ranker.
    """
    from rankops.io.pictures import opened  # needs Pillow

    check_files(paths)
    image_of_ranker(folder)
    for path in paths:
        with opened(path, where=str(path)):
            pass
    from rankops.tasks.predict import order_of

    ranker = load_ranker(folder)
    names = _names(ranker.recipe, folder)
    table = predictions(ranker, [(str(path), path) for path in paths])
    results = []
    for path, row in zip(paths, table.to_pylist(), strict=True):
        labels, ranks = order_of(row["label_ranks"]), row["label_ranks"]
        places = [max(ranks) + 1 - ranks[label] for label in labels]
        called = [names[label] for label in labels] if names else None
        results.append(Prediction(path, places, labels, [row["scores"][label] for label in labels], called))
    return results


def _names(recipe: dict[str, Any], folder: Path) -> list[str] | None:
    """Return the names of all labels, if the model has them."""
    names, count = recipe.get("classes"), recipe["args"].get("outputs")
    if names is None:
        return None
    if isinstance(names, list) and len(names) == count and all(isinstance(name, str) for name in names):
        return names
    raise ValueError(f"{folder}: model.json has the classes {names!r}, expected a list of {count} names")


def predictions(ranker: Any, images: Sequence[tuple[str, bytes | Path | None]]) -> "pa.Table":
    """Return what `LabelRanking.predict` says of encoded images; messages call them by their names."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa
    import torch

    from rankops.datasets.splits import Split
    from rankops.inputs.image import Image
    from rankops.tasks.label_ranking import LabelRanking

    about, tables = ranker.recipe["input"], []
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for start in range(0, len(images), AT_ONCE):
            part = images[start : start + AT_ONCE]
            prepared = [*pool.map(lambda named: Image.prepared([named[1]], about, where=named[0]), part)]
            tables.append(LabelRanking().predict(ranker, Split(Image.gathered(prepared, about))))
    table = pa.concat_tables(tables)
    return table.set_column(0, "id", pa.array(range(len(table)), pa.int64()))


def annotated_paths(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return where annotated images go: to `out` for a single one, into the folder `out` for several.

    Raises:
        ValueError: a file that is no picture; or one would replace another, or an image that is read.
    """
    single = len(paths) == 1 and out.suffix and not out.is_dir()
    if single and out.suffix.lower() not in PICTURES:
        raise ValueError(f"--out {out}: expected a folder, or a picture that ends in {', '.join(PICTURES)}")
    results = [out] if single else [out / f"{path.stem}.png" for path in paths]
    read = {path.resolve() for path in paths}
    for number, result in enumerate(results):
        if result in results[:number] or result.resolve() in read:
            raise ValueError(f"--out {out}: the annotated {paths[number]} would replace {result}: name another folder")
    return results


def annotate(path: Path, prediction: Prediction) -> None:
    """Draw an image beside its labels, the most important one on top, as long as its score."""
    from matplotlib.figure import Figure

    from rankops.io.atomic import replaced_file
    from rankops.io.images import picture

    count = len(prediction.labels)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    shown, bars = figure.subplots(1, 2)
    shown.imshow(picture(prediction.path, colors=3, where=str(prediction.path))[0].permute(1, 2, 0).numpy())
    shown.axis("off")
    drawn = bars.barh(range(count), prediction.scores)
    bars.bar_label(drawn, [f"{score:.2f}" for score in prediction.scores], padding=3)
    names = [f"{place}.  {label}" for place, label in zip(prediction.places, prediction.shown, strict=True)]
    bars.set_yticks(range(count), names, parse_math=False)
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set(xlabel="score", title="most important first" if count else "no label")
    figure.suptitle(prediction.path.name, parse_math=False)
    with replaced_file(path) as partial:
        figure.savefig(partial, dpi=100, format=path.suffix.removeprefix(".").lower())


def main(arguments: Sequence[str]) -> None:
    """Run `rankops predict` outside a checkout, where there is no registry: with a folder, or the package's ranker."""
    parser = argparse.ArgumentParser(
        prog="rankops predict", description="Rank the labels in pictures, the most important first."
    )
    parser.add_argument("pictures", nargs="+", type=Path, help="PNG or JPEG files")
    parser.add_argument("--model", type=Path, default=SHIPPED, help="folder of a label ranker (default: the package's)")
    parser.add_argument("--out", type=Path, help="an annotated picture, or a folder for several (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        places = annotated_paths(options.pictures, options.out) if options.out else []
        found = predict(options.pictures, options.model)
        for place, one in zip(places, found, strict=False):
            annotate(place, one)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    if options.json:
        print(json.dumps([one.as_json() for one in found], indent=2))
        return
    for one in found:
        print(one.path if one.labels else f"{one.path}: no label")
        for place, label, score in zip(one.places, one.shown, one.scores, strict=True):
            print(f"{place:>3}.  {label}  {score:7.3f}")
