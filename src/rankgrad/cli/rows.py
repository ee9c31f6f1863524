"""What a model is asked, a row at a time: from pictures, folders of them, and tables with a person's own columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from rankgrad.datasets.tables.formats import FORMATS, Format, format_of
from rankgrad.inputs._feature_names import columns_of, has_point, number_in, with_point
from rankgrad.io.written import as_text, encodable
from rankgrad.lookup import did_you_mean, listed
from rankgrad.plain_text import LONGEST

__all__ = ["OWN", "Roles", "Row", "kind_of", "pieces", "read", "table_of"]

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
PIECE = {"image": 64, "frames": 16, "features": 1024, "text": 256}  # rows that are read and answered together
DOCUMENTS = 16  # queries that are


class Roles(NamedTuple):
    """Which columns of a table have which role, where their names do not say it.

    Attributes:
        input: of the model's input; several, or `f_*` for all that begin so, of features. `caption=NAME` is that of
            captions, by which retrieval is asked too.
        id: what comes back with each answer.
        query: whose rows are the documents of one query.
        caption: of captions, where none is given; a row is asked by it if the rest of its input is empty.
        captions_first: whether captions are asked where a row has both.
    """

    input: Sequence[str] = ()
    id: str | None = None
    query: str | None = None
    caption: str = "caption"
    captions_first: bool = False


OWN = Roles()  # columns are called as their roles are


class Row(NamedTuple):
    """A row, of which only the files' table was read.

    Attributes:
        id: what comes back with its answer.
        place: of the row, for messages.
        asked: returns what the model is asked; raises a ValueError or OSError if a cell or a picture is none.
        documents: ids of a query's rows, in a table that has a row for each.
    """

    id: Any
    place: str
    asked: Callable[[], dict[str, Any]]
    documents: Sequence[Any] | None = None


def kind_of(recipe: Mapping[str, Any], *, where: object) -> str:
    """Return what a model's input is: `image`, `frames`, `features` or `text`.

    Raises:
        ValueError: the recipe does not say it.
    """
    kind = (recipe.get("input") or {}).get("kind")
    if kind not in PIECE:
        raise ValueError(f"{where}: model.json names no kind of input; train it again")
    return kind


def table_of(path: Path) -> Format | None:
    """Return the format of a table, by its suffix; None of what is no table."""
    return FORMATS.get(path.suffix.lower())


def read(
    sources: Sequence[Path], recipe: Mapping[str, Any], roles: Roles = OWN, *, form: Format | None = None
) -> Iterator[Row]:
    """Read what a model is asked, row by row; memory does not grow with the files.

    Args:
        sources: pictures or folders of them; or one table, whose cells of images are bytes, data URIs or paths from
            its folder.
        recipe: of the model.
        roles: of the table's columns.
        form: format of the table; None for that of its suffix.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not of its format, lacks a column, or is nothing that the model takes.
    """
    kind = kind_of(recipe, where="the model")
    if form or any(table_of(source) for source in sources):
        if len(sources) > 1:
            raise ValueError(f"{len(sources)} files, one of them a table; expected one table, or pictures alone")
        if not sources[0].is_file():
            raise FileNotFoundError(f"{sources[0]}: no such file")
        yield from _of_table(sources[0], format_of(sources[0], form), recipe, roles)
    elif kind != "image" or recipe.get("task") == "query_ranking":
        raise ValueError(f"{sources[0]}: the model takes {_taken(recipe)}; expected a table ({', '.join(FORMATS)})")
    else:
        for path in _pictures(sources):
            name = encodable(str(path))  # of a file whose name is no UTF-8, too
            yield Row(name, name, partial(_of_picture, path))


def _of_picture(path: Path) -> dict[str, Any]:
    return {"image": path.read_bytes()}


def pieces(rows: Iterable[Row], recipe: Mapping[str, Any]) -> Iterator[list[Row]]:
    """Yield rows in as many as are answered together."""
    size = DOCUMENTS if recipe.get("task") == "query_ranking" else PIECE[kind_of(recipe, where="the model")]
    rows = iter(rows)
    while piece := list(islice(rows, size)):
        yield piece


def _taken(recipe: Mapping[str, Any]) -> str:
    kind = kind_of(recipe, where="the model")
    return f"queries with documents of {kind}" if recipe.get("task") == "query_ranking" else kind


def _pictures(sources: Sequence[Path]) -> Iterator[Path]:
    for source in sources:
        if not source.is_dir():
            if not source.is_file():
                raise FileNotFoundError(f"{source}: no such file")
            yield source
            continue
        found = sorted(path for path in source.rglob("*") if _is_picture(source, path))
        if not found:
            raise ValueError(f"{source}: no picture in this folder; expected {', '.join(PICTURES)}")
        yield from found


def _is_picture(folder: Path, path: Path) -> bool:
    """Return whether a path below a folder is a picture, and none that programs hide there, such as `._photo.jpg`."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in PICTURES and path.is_file() and not hidden


# Tables.


def _of_table(path: Path, form: Format, recipe: Mapping[str, Any], roles: Roles) -> Iterator[Row]:
    from rankgrad.datasets.tables.files import names_in  # needs pandas

    if form == "svmlight":
        roles = Roles(roles.input or ("all",), roles.id, roles.query or "qid")
    names = names_in(path, form)
    found = _inputs(path, names, recipe, roles)
    inputs = [*chain.from_iterable(columns for columns, _ in found)]
    ids = roles.id or ("id" if "id" in names else None)
    wanted = list(dict.fromkeys([*inputs, *filter(None, (ids, roles.query))]))
    _require(path, names, wanted, inputs)
    names_of = [*(recipe["input"].get("names") or ())]
    by_name = columns_of(names_of) if columns_of(names_of) != names_of else None  # of names, not of numbers alone
    separator, decimal = recipe["input"].get("separator", "|"), recipe["input"].get("decimal", ".")
    several = [
        _Cells(path, columns, key, ids, separator, decimal, by_name=frozenset(names_of) if columns == by_name else None)
        for columns, key in found
    ]
    cells = several[0]
    numbered = enumerate(_cells(path, form, wanted, recipe["input"]), 1)
    if recipe.get("task") != "query_ranking":
        yield from (next((one for one in several if one.are_in(row)), cells).row(at, row) for at, row in numbered)
    elif roles.query is not None:
        yield from _queries(cells, numbered, roles.query)
    else:
        yield from (cells.query(*one) for one in numbered)


def _require(path: Path, names: Sequence[str], wanted: Iterable[str], inputs: Sequence[str]) -> None:
    known = set(names)
    if missing := [name for name in wanted if name not in known]:
        hint = "; name those of the input, as in `--input 'f_*'`" if missing[0] in inputs else ""
        raise ValueError(f"{path}: no column {missing[0]!r}; {_has(names, missing[0])}{hint}")


def _queries(cells: "_Cells", numbered: Iterable[tuple[int, dict[str, Any]]], query_of: str) -> Iterator[Row]:
    """Yield the queries of a table that has a row for each document."""
    seen = set()
    for query, group in groupby(numbered, key=lambda one: one[1][query_of]):
        several = list(group)
        if query is None or query == "" or query != query or isinstance(query, list | Mapping):
            place = f"{cells.path}: row {several[0][0]}"
            raise ValueError(f"{place}: {query_of} is {query!r:.60}, expected the name of a query")
        if query in seen:
            raise ValueError(
                f"{cells.path}: rows of {query_of} {query} are not together; sort the table by this column"
            )
        seen.add(query)
        yield cells.documents(query, several)


def _has(names: Sequence[str], missing: str) -> str:
    return f"it has {listed(names)}{did_you_mean(missing, names)}"


def _named(names: list[str], given: Sequence[str], known: list[str]) -> list[str]:
    """Return the columns that are asked for, in the order of training if they are the same."""
    starts = tuple(name.removesuffix("*") for name in given if name.endswith("*"))
    found = [name for name in given if not name.endswith("*")]
    found += [name for name in names if name.startswith(starts)]
    return next((own for own in (known, columns_of(known)) if own and set(own) == set(found)), found)


def _inputs(path: Path, names: list[str], recipe: Mapping[str, Any], roles: Roles) -> list[tuple[list[str], str]]:
    """Return the columns of a table that hold the input, and what a task calls that; and so for captions, if any."""
    kind, known = kind_of(recipe, where="the model"), list[str](recipe["input"].get("names") or ())
    captions, given = _captions(names, recipe, roles)
    if roles.input:
        return [*([(_named(names, given, known), kind)] if given else []), *captions]
    known = known if kind == "features" else []
    # As the features are called, or the input in the training's table, or what it is.
    choices = [columns for columns in (known, columns_of(known), recipe["input"].get("columns"), [kind]) if columns]
    found = [(list(columns), kind) for columns in choices if set(columns) <= set(names)][:1]
    if found or captions:
        return [*captions, *found] if roles.captions_first else [*found, *captions]
    there = set(names)
    if missing := [name for name in columns_of(known) if name not in there]:
        raise ValueError(f"{path}: no column {missing[0]!r}, a feature of the model; {_has(names, missing[0])}")
    raise ValueError(f"{path}: no column {kind}; name the one that holds it, as in `--input {names[0]}`; it has "
                     f"{listed(names)}")  # fmt: skip


def _captions(
    names: list[str], recipe: Mapping[str, Any], roles: Roles
) -> tuple[list[tuple[list[str], str]], list[str]]:
    """Return the column of captions, as `_inputs` does, if the model takes them; and the other columns of the input."""
    if recipe.get("task") != "retrieval":
        return [], [*roles.input]
    own = [roles.caption, "caption"]
    asked = [name for name in roles.input if name in own or name.startswith("caption=")]
    columns = [name.removeprefix("caption=") for name in asked] if roles.input else [one for one in own if one in names]
    return [([name], "caption") for name in columns[:1]], [name for name in roles.input if name not in asked]


@dataclass(frozen=True)
class _Cells:
    """Turns cells of the columns `inputs` of a table into what a model is asked, which a task calls `key`."""

    path: Path
    inputs: list[str]
    key: str
    ids: str | None
    separator: str
    decimal: str
    by_name: frozenset[str] | None  # of features, if these are their columns and not all are numbers

    def are_in(self, row: dict[str, Any]) -> bool:
        return any(row[name] not in (None, "") for name in self.inputs)

    def row(self, number: int, row: dict[str, Any]) -> Row:
        """Return a row whose id is the given one, else the path of its image or its caption, else its number."""
        cell, own = row[self.inputs[0]], self._id(row)
        if own is None:
            own = encodable(cell) if self.key in ("image", "caption") and isinstance(cell, str) else number
        return Row(own, self._place(number), lambda: {self.key: self._value(row)})

    def _id(self, row: dict[str, Any], missing: Any = None) -> Any:
        """Return the id of a row, which is none where it is null or NaN."""
        own = row[self.ids] if self.ids else None
        if own is None or own != own:
            return missing
        return encodable(own) if isinstance(own, str) else own

    def query(self, number: int, row: dict[str, Any]) -> Row:
        """Return a query whose documents are the list in its cell."""
        column = self.inputs[0]
        several = row[column]
        if len(self.inputs) > 1 or not isinstance(several, list) or (self.key == "features" and not _nested(several)):
            raise ValueError(
                f"{self.path}: row {number}: {column} holds no list of documents; name the column whose rows are the "
                "documents of one query: --query COLUMN"
            )
        return Row(
            self._id(row, number),
            self._place(number),
            lambda: {self.key: [self._value({column: one}) for one in several]},
        )

    def documents(self, query: Any, several: list[tuple[int, dict[str, Any]]]) -> Row:
        """Return a query that has a row for each of its documents."""
        documents = [self._id(row, number) for number, row in several]
        asked = lambda: {self.key: [self._value(row) for _, row in several]}  # noqa: E731
        return Row(query, self._place(several[0][0]), asked, documents)

    def _place(self, number: int) -> str:
        return f"{self.path}: row {number}"

    def _value(self, row: dict[str, Any]) -> Any:
        cell = row[self.inputs[0]]
        if self.key == "features":
            return self._features(row, cell)
        if cell is None or cell == "":
            raise ValueError(f"{self.inputs[0]} is empty")
        if self.key == "image":
            return self._picture(cell)
        if self.key == "frames":
            if len(self.inputs) > 1:
                return [self._picture(row[name]) for name in self.inputs]
            return list(map(self._picture, cell if isinstance(cell, list) else str(cell).split(self.separator)))
        if isinstance(cell, list | Mapping):
            raise ValueError(f"{self.inputs[0]} is {str(cell)[:60]}, expected text")
        if len(text := as_text(cell) if isinstance(cell, bytes) else str(cell)) > LONGEST:
            raise ValueError(f"{self.inputs[0]} has {len(text):,} characters, expected at most {LONGEST:,}")
        return text

    def _features(self, row: dict[str, Any], cell: Any) -> list[float] | Mapping[str, Any]:
        if self.by_name:
            return {name: self._number(row, name) if name in self.by_name else row[name] for name in self.inputs}
        if isinstance(cell, Mapping):
            return cell
        if len(self.inputs) == 1 and isinstance(cell, str):
            from rankgrad.datasets.tables.cells import numbers_in  # needs pandas

            cell = numbers_in(cell, self.decimal)
        if isinstance(cell, list):
            return [number_in(value, f"{self.inputs[0]}[{place}]") for place, value in enumerate(cell)]
        return [number_in(self._number(row, name), name) for name in self.inputs]

    def _number(self, row: dict[str, Any], name: str) -> Any:
        if self.decimal == "." or not isinstance(cell := row[name], str):
            return row[name]
        if has_point(cell):
            raise ValueError(
                f"{name} is {cell!r}, expected no point: the model learned from numbers with decimal commas"
            )
        return with_point(cell)

    def _picture(self, cell: Any) -> bytes:
        if isinstance(cell, Mapping):
            cell = cell.get("bytes")
        if isinstance(cell, bytes):
            return cell
        if str(cell).startswith("data:"):  # the picture itself, as `rankgrad serve` keeps it
            from rankgrad.io.pictures import bytes_in  # needs Pillow

            return bytes_in(str(cell))
        file = self.path.parent / str(cell).strip()
        if not file.is_file():
            raise ValueError(f"{file}: no such file")
        return file.read_bytes()


def _nested(values: list[Any]) -> bool:
    return bool(values) and isinstance(values[0], list)


def _cells(path: Path, form: Format, names: list[str], about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells of each row by column."""
    match form:
        case "csv" | "tsv":
            from rankgrad.datasets.tables.text import delimited_rows

            for cells in delimited_rows(path, names, encoding="utf-8", tabs=form == "tsv"):
                yield dict(zip(names, map(str.strip, cells), strict=True))
        case "jsonl":
            from rankgrad.datasets.tables.text import json_rows

            for row in json_rows(path, "utf-8"):
                yield {name: row.get(name) for name in names}
        case "parquet":
            from rankgrad.io.parquet import parquet_file

            with parquet_file(path) as file:
                for batch in file.iter_batches(batch_size=PIECE["image"], columns=names):
                    yield from batch.to_pylist()
        case _:
            yield from _arrays(path, form, names, about)


def _arrays(path: Path, form: Format, names: list[str], about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield cells of SVMlight and NPZ; a vector of SVMlight, whose last zeros may miss, has `count` numbers.

    Its index k is place k, as in training on SVMlight; for a model of other tables 1 is the first.
    """
    from rankgrad.datasets.tables.files import read_sheet

    frame = read_sheet([path], lambda _: names, kind=form, encoding="utf-8", head=None).frame
    if form == "svmlight":
        vectors = frame["all"]
        if about.get("columns") != ["all"] and not any(one[0] for one in vectors):
            vectors = vectors.map(lambda one: one[1:])
        frame, missing = frame.assign(all=vectors), [0.0] * ((about.get("count") or 0) - len(vectors.iloc[0]))
    for row in frame.to_dict("records"):
        cells = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
        yield cells | {"all": cells["all"] + missing} if form == "svmlight" else cells
