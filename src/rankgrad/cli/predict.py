"""`rankgrad predict MODEL INPUT [-o OUTPUT]`: predictions of a trained model for images, folders, and tables.

If possible, errors in files or the model are reported before torch is imported.
"""

import argparse
import codecs
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from rankgrad.cli.answers import FOUND, WRITABLE, Answer, Gallery, answers, found_among, write
from rankgrad.datasets.tables.rows import OWN, Roles, table_of
from rankgrad.inputs import type_of
from rankgrad.io import written
from rankgrad.io.atomic import replaced_file
from rankgrad.io.recipes import recipe_of
from rankgrad.io.written import as_text, printable

__all__ = ["SHIPPED", "annotate", "annotated_paths", "image_of_ranker", "main", "run"]

SHIPPED = Path(__file__).parents[1] / "models/pretrained/label_ranking"  # the digit ranker in the package
DRAWN = (".png", ".jpg", ".jpeg", ".pdf", ".svg")  # formats that `annotate` writes
LONGEST = 8  # number of list items to show


def image_of_ranker(folder: Path) -> dict[str, int]:
    """Return `colors`, `height` and `width` of the images that the label ranker in a folder takes.

    Raises:
        FileNotFoundError, ValueError: the folder has no label ranker for images; see `rankgrad.io.recipes`.
    """
    recipe = recipe_of(folder)
    if (task := recipe.get("task")) != "label_ranking":
        raise ValueError(f"{folder}: a model for {task or 'no task'}, expected one for label_ranking")
    about = recipe["input"]
    if not type_of(about).pictures:
        raise ValueError(f"{folder}: a model for {about['kind']}, expected one for images")
    return {key: about[key] for key in ("colors", "height", "width")}


# Output for people.


def order_of(answer: Answer) -> list[tuple[int, Any, float]]:
    """Return place, label, and score of each label in an answer, the most important first.

    >>> order_of({"labels": ["cat", "dog"], "label_ranks": [0, 1, 1], "scores": [-1.0, 0.5, 0.25]})
    [(1, 'cat', 0.5), (1, 'dog', 0.25)]
    """
    ranks = answer["label_ranks"]
    numbers = sorted((number for number, rank in enumerate(ranks) if rank > 0), key=lambda number: -ranks[number])
    places = [max(ranks) + 1 - ranks[number] for number in numbers]
    scores = [answer["scores"][number] for number in numbers]
    return [*zip(places, answer["labels"], scores, strict=True)]


def lines_of(answer: Answer) -> list[str]:
    """Return an answer as lines for people, with control characters escaped.

    >>> lines_of({"id": "a.png", "score": 0.5, "embedding": [0.25] * 9})
    ['a.png: score 0.500; embedding 0.250, 0.250, 0.250, 0.250, 0.250, 0.250, 0.250, 0.250, ... (9)']
    """
    if "label_ranks" in answer:
        order = order_of(answer)
        rows = [f"{rank:>3}.  {_shown(label)}  {score:7.3f}" for rank, label, score in order]
        return [_shown_id(answer) if order else f"{_shown_id(answer)}: no label", *rows]
    values = [f"{name} {_shown(value)}" for name, value in answer.items() if name != "id"]
    return [f"{_shown_id(answer)}: {'; '.join(values)}"]


def _shown_id(answer: Answer) -> str:
    return printable(as_text(answer["id"]))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        length = f", ... ({len(value)})" if len(value) > LONGEST else ""
        return ", ".join(map(_shown, value[:LONGEST])) + length
    return f"{value:.3f}" if isinstance(value, float) else printable(as_text(value))


def annotated_paths(paths: Sequence[Path], out: Path) -> list[Path]:
    """Return the paths of annotated images: `out` for a single image, files in the folder `out` for several.

    Raises:
        ValueError: `out` is not an image file, or a file would replace another one or an input.
    """
    single = len(paths) == 1 and out.suffix and not out.is_dir()
    if single and out.suffix.lower() not in DRAWN:
        raise ValueError(
            f"{out}: expected a table (.csv, .tsv, .jsonl, .parquet), an image ({', '.join(DRAWN)}), or a folder"
        )
    results = [out] if single else [out / f"{path.stem}.png" for path in paths]
    read = {path.resolve() for path in paths}
    for number, result in enumerate(results):
        if result in results[:number] or result.resolve() in read:
            raise ValueError(f"{out}: the annotated {paths[number]} would replace {result}: choose another folder")
    return results


def annotate(path: Path, source: Path, answer: Answer) -> None:
    """Draw an image, and a bar chart of the scores of its labels, the most important at the top."""
    from matplotlib.figure import Figure
    from PIL import Image

    from rankgrad.io.pictures import turned

    order = order_of(answer)
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    picture, bars = figure.subplots(1, 2)
    with Image.open(source) as image:  # the model has already read it
        picture.imshow(turned(image).convert("RGB"))
    picture.axis("off")
    drawn = bars.barh(range(len(order)), [score for _, _, score in order])
    bars.bar_label(drawn, [f"{score:.2f}" for _, _, score in order], padding=3)
    names = [f"{rank}.  {label}" for rank, label, _ in order]
    bars.set_yticks(range(len(order)), names, parse_math=False)
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set(xlabel="score", title="most important first" if order else "no label")
    figure.suptitle(printable(source.name), parse_math=False)
    with replaced_file(path) as partial:
        figure.savefig(partial, dpi=100, format=path.suffix.removeprefix(".").lower())


# The command.


def run(
    folder: Path,
    sources: Sequence[Path],
    *,
    out: Path | None = None,
    roles: Roles = OWN,
    among: Path | None = None,
    searched: Roles = OWN,
    k: int | None = None,
    skip_broken: bool = False,
    as_json: bool = False,
    followed: Callable[[Iterable[list[Answer]]], Iterable[list[Answer]]] = iter,
) -> int:
    """Compute answers, and write, draw, or print them; return the exit code: 3 if rows were skipped, else 0.

    Args:
        folder, sources, roles, skip_broken: see `answers`.
        among: the table or folder that a retrieval model searches for each row.
        searched: the roles of its columns, see `Gallery`; the id column is by default the one of `roles`.
        k: the number of results for each row, by default ten.
        out: a table for the answers, or for label rankers, an image or a folder for annotated images.
        as_json: print JSON, one line per answer.
        followed: passes on the chunks of answers, and shows progress.

    Raises:
        FileNotFoundError, ValueError, OSError: see `answers` and `write`.
    """
    if among is None and (searched != OWN or k is not None):
        raise ValueError("--k, --captions, and --among-id are for a search: leave them out, or add --among")
    if k is not None and k < 1:
        raise ValueError(f"--k is {k}, expected the number of results: a whole number from 1 on")
    all_answers = answers(folder, sources, roles, skip_broken=skip_broken)
    pieces = followed(all_answers)
    if among is not None:
        searched = searched._replace(id=searched.id or roles.id, encoding=roles.encoding)
        pieces = found_among(pieces, Gallery(folder, among, searched), FOUND if k is None else k)
    if out is None or table_of(out) not in WRITABLE:
        return _printed(pieces, sources, [] if out is None else _places(folder, sources, out), as_json=as_json)
    if out.is_dir() or out.resolve() in {source.resolve() for source in sources}:
        raise ValueError(f"{out}: {'is a folder' if out.is_dir() else 'is the input'}; choose another file")
    classes = recipe_of(folder).get("classes")
    count, broken = write(out, pieces, classes=classes, errors=skip_broken, names=all_answers.names)
    summary = {"out": str(out), "rows": count, "broken": broken}
    _print(written.as_json(summary) if as_json else f"{out}: {count - len(broken)} rows of answers")
    return _told(broken)


def _printed(
    pieces: Iterable[list[Answer]], sources: Sequence[Path], annotated: Sequence[Path], *, as_json: bool
) -> int:
    """Print answers and annotate their images, if there are paths for these; return the exit code."""
    is_utf_8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    broken, count = [], 0
    for count, answer in enumerate(chain.from_iterable(pieces), 1):
        _print(written.as_json(answer, ascii=not is_utf_8) if as_json else "\n".join(lines_of(answer)))
        if "error" in answer:
            broken.append(answer["id"])
        elif annotated:
            annotate(annotated[count - 1], sources[count - 1], answer)
            _print(f"wrote {annotated[count - 1]}", file=sys.stderr if as_json else sys.stdout)
    return _told(broken)


def _print(text: str, file: TextIO | None = None) -> None:
    """Print text; escape characters that the output cannot represent, such as an emoji in an old terminal."""
    file = sys.stdout if file is None else file
    encoding = file.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=file)


def _places(folder: Path, sources: Sequence[Path], out: Path) -> list[Path]:
    image_of_ranker(folder)
    if any(table_of(source) or source.is_dir() for source in sources):
        raise ValueError(f"{out}: only single image files can be annotated, expected a table, such as {out}.csv")
    return annotated_paths(sources, out)


def _told(broken: Sequence[Any]) -> int:
    if not broken:
        return 0
    named = ", ".join(printable(as_text(row_id)) for row_id in broken[:10]) + (", ..." if len(broken) > 10 else "")
    print(f"no answer for {len(broken)} rows: {named}; see `error` of each", file=sys.stderr)
    return 3


def main(arguments: Sequence[str]) -> None:
    """Run `rankgrad predict` outside a checkout, without a registry."""
    parser = argparse.ArgumentParser(prog="rankgrad predict", description="Predict with a trained model.")
    parser.add_argument("model", help="folder of a model; or `shipped`, the digit ranker in the package")
    parser.add_argument("inputs", nargs="+", type=Path, help="images, a folder of images, or a table")
    parser.add_argument(
        "-o", "--out", type=Path, help="table to write; for label rankers also an annotated image or folder"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        help="column with the input, or caption=COLUMN for retrieval",
    )
    parser.add_argument(
        "--among",
        type=Path,
        help="table or folder to search, for retrieval",
    )
    parser.add_argument(
        "--captions", action="store_true", help="search the captions in the table of --among, not its items"
    )
    parser.add_argument("--among-id", help="column of ids in the table of --among; by default as --id")
    parser.add_argument("--k", type=int, help=f"number of results for each row, with --among; by default {FOUND}")
    parser.add_argument("--id", help="column to return with each answer")
    parser.add_argument("--query", help="column of queries; the rows of a query are its documents")
    parser.add_argument("--encoding", help="encoding of tables, such as cp1252 or utf-16; by default as in training")
    parser.add_argument("--skip-broken", action="store_true", help="skip rows that cannot be answered")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    folder = SHIPPED if options.model == "shipped" else Path(options.model)
    try:
        code = run(
            folder, options.inputs, out=options.out,
            roles=Roles(options.input, options.id, options.query, encoding=options.encoding),
            among=options.among, searched=Roles(id=options.among_id, captions=options.captions or None), k=options.k,
            skip_broken=options.skip_broken, as_json=options.json,
        )  # fmt: skip
    except (ValueError, OSError) as error:
        sys.exit(printable(str(error)))
    except MemoryError as error:
        sys.exit(f"not enough memory ({error}): expected smaller files, or more memory")
    sys.exit(code)
