"""What a model is asked, a row at a time: by pictures, folders of them, and tables, read as those of its training."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from rankgrad import lookup
from rankgrad.datasets.tables.formats import FORMATS, Format, format_of
from rankgrad.inputs._base import InputType, type_of
from rankgrad.inputs._feature_names import columns_of
from rankgrad.inputs.text import Text
from rankgrad.io.written import encodable
from rankgrad.lookup import did_you_mean, listed
from rankgrad.numbers import Writing, number_in
from rankgrad.plain_text import name_in, text_in

__all__ = ["OWN", "Roles", "Row", "kind_of", "pieces", "read", "table_of"]

DOCUMENTS = 16  # queries that are


class Roles(NamedTuple):
    """Which columns of a table have which role, where a person names others than those of the training.

    Attributes:
        input: of the model's input; several, or `f_*` for all that begin so, of features. `caption=NAME` is that of
            captions, by which retrieval is asked too.
        id: what comes back with each answer.
        query: whose rows are the documents of one query.
        captions_first: whether captions are asked where a row has both.
    """

    input: Sequence[str] = ()
    id: str | None = None
    query: str | None = None
    captions_first: bool = False


OWN = Roles()  # those of the training, or columns that are called as their roles are


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
    if kind not in lookup.names("inputs"):
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
        recipe: of the model, which knows how its training's table was read.
        roles: of the table's columns, where they are others.
        form: format of the table; None for that of its suffix, or else of the training.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not of its format, lacks a column, or is nothing that the model takes.
    """
    kind = kind_of(recipe, where="the model")
    suffixes = () if recipe.get("task") == "query_ranking" else type_of(recipe["input"]).suffixes
    known = recipe["input"].get("format")
    if known is not None and known not in FORMATS.values():
        raise ValueError(f"model.json: input.format is {known!r:.60}, expected one of {', '.join({*FORMATS.values()})}")
    of_known_format = known is not None and sources[0].suffix.lower() not in suffixes and not sources[0].is_dir()
    if form or of_known_format or any(table_of(source) for source in sources):
        if len(sources) > 1:
            raise ValueError(f"{len(sources)} files, one of them a table; expected one table, or pictures alone")
        (path,) = sources
        own = form or (known if known and (table_of(path) in (None, "svmlight")) else None)
        yield from _Questions(path, format_of(path, own), recipe, roles).rows()
    elif not suffixes:
        taken = f"queries with documents of {kind}" if recipe.get("task") == "query_ranking" else kind
        raise ValueError(f"{sources[0]}: the model takes {taken}; expected a table ({', '.join(FORMATS)})")
    else:
        for path in _files(sources, suffixes):
            name = encodable(str(path))  # of a file whose name is no UTF-8, too
            yield Row(name, name, partial(_of_file, kind, path))


def _of_file(kind: str, path: Path) -> dict[str, Any]:
    return {kind: path.read_bytes()}


def pieces(rows: Iterable[Row], recipe: Mapping[str, Any]) -> Iterator[list[Row]]:
    """Yield rows in as many as are answered together."""
    size = DOCUMENTS if recipe.get("task") == "query_ranking" else type_of(recipe["input"]).piece
    rows = iter(rows)
    while piece := list(islice(rows, size)):
        yield piece


def _files(sources: Sequence[Path], suffixes: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        if not source.is_dir():
            if not source.is_file():
                raise FileNotFoundError(f"{source}: no such file")
            yield source
            continue
        files = sorted(path for path in source.rglob("*") if _is_input(source, path, suffixes))
        if not files:
            raise ValueError(f"{source}: no input in this folder; expected {', '.join(suffixes)}")
        yield from files


def _is_input(folder: Path, path: Path, suffixes: tuple[str, ...]) -> bool:
    """Return whether a path below a folder is an input, and none that programs hide there, such as `._photo.jpg`."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in suffixes and path.is_file() and not hidden


def _as_lists(cell: Any) -> Any:
    """Return a cell with lists in place of arrays of NumPy."""
    if not hasattr(cell, "tolist"):
        return cell
    values = cell.tolist()
    return [_as_lists(value) for value in values] if isinstance(values, list) and cell.dtype == object else values


@dataclass(frozen=True)
class _Asked:
    """Columns that hold an input, what a task calls it, and its type."""

    columns: list[str]
    role: str
    type: type[InputType]

    def is_in(self, row: Mapping[str, Any]) -> bool:
        return any(row[name] is not None for name in self.columns)


class _Questions:
    """The rows of a table, with the roles of its columns."""

    def __init__(self, path: Path, form: Format, recipe: Mapping[str, Any], roles: Roles):
        from rankgrad.datasets.tables.files import names_in  # needs pandas

        self.path, self.form, self.about = path, form, recipe["input"]
        self.kind, self.in_queries = kind_of(recipe, where="the model"), recipe.get("task") == "query_ranking"
        self.type = type_of(self.about)
        self.takes_captions = recipe.get("task") == "retrieval"
        self.writing = Writing(self.about.get("decimal", "."), self.about.get("thousands", ""))
        self.encoding = self.about.get("encoding", "utf-8")
        self.names = names_in(path, form, self.encoding)
        self.features = [*(self.about.get("names") or ())]
        self.inputs = self._inputs(roles)
        self.id = roles.id or self._known(self.about.get("id"), "id")
        self.query = roles.query or self._known(self.about.get("query"), "qid" if form == "svmlight" else None)
        columns = [name for asked in self.inputs for name in asked.columns]
        self.columns = list(
            dict.fromkeys([*columns, *filter(None, (self.id, self.query if self.in_queries else None))])
        )
        for name in self.columns:
            if name not in self.names:
                hint = "; name those of the input, as in `--input 'f_*'`" if name in columns else ""
                raise ValueError(f"{path}: no column {name!r}; {self._has(name)}{hint}")

    def _known(self, *names: str | None) -> str | None:
        """Return the first of these columns that the file has."""
        return next((name for name in names if name in self.names), None)

    def _has(self, missing: str) -> str:
        return f"it has {listed(self.names)}{did_you_mean(missing, self.names)}"

    # Columns.

    def _inputs(self, roles: Roles) -> list[_Asked]:
        """Return the columns of the input: those that are named, or of the training, or called as the input is."""
        captions, named = self._captions(roles)
        if self.form == "svmlight" and not named:
            named = ["all"]
        if named or roles.input:
            return [*([_Asked(self._in_order(named), self.kind, self.type)] if named else []), *captions]
        for columns in [self.features, columns_of(self.features), self.about.get("columns"), [self.kind]]:
            if columns and set(columns) <= set(self.names):
                asked = [_Asked([*columns], self.kind, self.type)]
                return [*captions, *asked] if roles.captions_first else [*asked, *captions]
        if captions:
            return captions
        for name in columns_of(self.features):
            if name not in self.names:
                raise ValueError(f"{self.path}: no column {name!r}, a feature of the model; {self._has(name)}")
        raise ValueError(
            f"{self.path}: no column {self.kind}; name the one that holds it, as in `--input {self.names[0]}`; it has "
            f"{listed(self.names)}"
        )

    def _captions(self, roles: Roles) -> tuple[list[_Asked], list[str]]:
        """Return the column of captions, if the model takes them, and the other columns that are named."""
        if not self.takes_captions:
            return [], [*roles.input]
        known = [self.about.get("caption"), "caption"]
        if not roles.input:
            column = self._known(*known)
            return [_Asked([column], "caption", Text)] if column else [], []
        named = [name for name in roles.input if name in known or name.startswith("caption=")]
        captions = [_Asked([name.removeprefix("caption=")], "caption", Text) for name in named[:1]]
        return captions, [name for name in roles.input if name not in named]

    def _in_order(self, named: Sequence[str]) -> list[str]:
        """Return columns that are named, patterns filled in, in the order of training if they are the same."""
        starts = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
        columns = [name for name in named if not name.endswith("*")]
        columns += [name for name in self.names if name.startswith(starts)]
        for known in (self.features, columns_of(self.features)):
            if known and set(known) == set(columns):
                return known
        return columns

    # Rows.

    def rows(self) -> Iterator[Row]:
        if not self.in_queries:
            for number, row in self._numbered():
                asked = next((asked for asked in self.inputs if asked.is_in(row)), self.inputs[0])
                yield self._row(number, row, asked)
        elif self.query is None:
            for number, row in self._numbered():
                yield self._listed(number, row)
        else:
            yield from self._grouped(self.query)

    def _numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each row from 1 on, and its cells by column."""
        from rankgrad.datasets.tables.files import pieces_of

        pictures = [name for asked in self.inputs for name in asked.columns if asked.type.cell in (bytes, list[bytes])]
        number, size = 0, self.type.piece
        for piece in pieces_of(
            self.path, self.columns, form=self.form, encoding=self.encoding, size=size, pictures=pictures
        ):
            for row in piece.astype(object).to_dict("records"):
                number += 1
                cells = {name: _as_lists(cell) for name, cell in row.items()}
                yield number, cells | ({"all": self._vector(cells["all"])} if "all" in cells else {})

    def _vector(self, numbers: list[Any]) -> list[Any]:
        """Return a vector of SVMlight as that of the training: from its lowest index on, with the zeros at its end."""
        if self.form != "svmlight":
            return numbers
        lowest = self.about.get("lowest", 0 if self.about.get("columns") == ["all"] else 1)
        return numbers[lowest:] + [0.0] * ((self.about.get("count") or 0) + lowest - len(numbers))

    def _place(self, number: int) -> str:
        return f"{self.path}: row {number}"

    def _row(self, number: int, row: dict[str, Any], asked: _Asked) -> Row:
        """Return a row whose id is the given one, else the path of its image or its caption, else its number."""
        cell = row[asked.columns[0]]
        is_name = isinstance(cell, str) and (bool(asked.type.suffixes) or asked.role == "caption")
        usual = encodable(cell) if is_name else number
        return Row(self._id(row, usual), self._place(number), lambda: {asked.role: self._value(row, asked)})

    def _id(self, row: dict[str, Any], usual: Any) -> Any:
        """Return the id of a row, or the usual one where it is null or NaN."""
        own = row[self.id] if self.id else None
        if own is None or own != own:
            return usual
        return encodable(own) if isinstance(own, str) else own

    def _listed(self, number: int, row: dict[str, Any]) -> Row:
        """Return a query whose documents are the list in its cell."""
        (asked, *_) = self.inputs
        column, *others = asked.columns
        documents = row[column]
        nested = isinstance(documents, list) and bool(documents) and isinstance(documents[0], list | Mapping)
        if others or not isinstance(documents, list) or (self.type.nested and not nested):
            raise ValueError(
                f"{self._place(number)}: {column} holds no list of documents; name the column whose rows are the "
                "documents of one query: --query COLUMN"
            )
        return Row(
            self._id(row, number),
            self._place(number),
            lambda: {asked.role: [self._value({column: document}, asked) for document in documents]},
        )

    def _grouped(self, column: str) -> Iterator[Row]:
        """Yield queries that have a row for each of their documents."""
        seen, (asked, *_) = set(), self.inputs
        for query, numbered in groupby(self._numbered(), key=lambda one: self._query(column, *one)):
            if query in seen:
                raise ValueError(
                    f"{self.path}: rows of {column} {query} are not together; sort the table by this column"
                )
            seen.add(query)
            rows = [*numbered]
            yield Row(
                rows[0][1][column],
                self._place(rows[0][0]),
                lambda rows=rows: {asked.role: [self._value(row, asked) for _, row in rows]},
                [self._id(row, number) for number, row in rows],
            )

    def _query(self, column: str, number: int, row: dict[str, Any]) -> str:
        try:
            query = name_in(row[column])
        except ValueError:
            query = ""
        if not query:
            raise ValueError(f"{self._place(number)}: {column} is {row[column]!r:.60}, expected the name of a query")
        return query

    # Cells.

    def _value(self, row: dict[str, Any], asked: _Asked) -> Any:
        if row[asked.columns[0]] is None and not asked.type.nested:
            raise ValueError(f"{asked.columns[0]} is empty")
        return asked.type.from_table(row, asked.columns, self)

    def text(self, row: dict[str, Any], columns: list[str]) -> str:
        """Return the text in a cell."""
        try:
            return text_in(row[columns[0]])
        except ValueError as error:
            raise ValueError(f"{columns[0]} is {error}") from error

    def numbers(self, row: dict[str, Any], columns: list[str]) -> list[float] | Mapping[str, Any]:
        """Return a vector, or numbers and names by their columns."""
        from rankgrad.datasets.tables.cells import numbers_of_vector  # needs pandas

        cell = row[columns[0]]
        if isinstance(cell, Mapping):
            return cell
        if columns == columns_of(self.features) != self.features:  # names, which the model makes features of
            return {name: self._number(row, name) if name in self.features else row[name] for name in columns}
        if columns == self.features or not isinstance(cell, list | str) or len(columns) > 1:
            return [self._number(row, name) for name in columns]
        try:
            return [number_in(value, self.writing) for value in numbers_of_vector(cell, self.writing)]
        except ValueError as error:
            raise ValueError(f"{columns[0]} is {error}") from error

    def _number(self, row: dict[str, Any], name: str) -> float:
        try:
            return number_in(row[name], self.writing)
        except ValueError as error:
            raise ValueError(f"{name} is {error}") from error

    def parts(self, row: dict[str, Any], columns: list[str]) -> Sequence[Any]:
        """Return the parts of an input: of several columns, of a list, or of text that a separator joins."""
        from rankgrad.datasets.tables.cells import parts_of  # needs pandas

        if len(columns) > 1:
            return [row[name] for name in columns]
        cell = row[columns[0]]
        return cell if isinstance(cell, list) else parts_of(cell, self.about.get("separator", "|"))

    def file(self, cell: Any) -> bytes:
        """Return the bytes of a cell that has them, a data URI, or the path of a file from the table's folder."""
        cell = cell.get("bytes") if isinstance(cell, Mapping) else cell
        if isinstance(cell, bytes):
            return cell
        if str(cell).startswith("data:"):  # the picture itself, as `rankgrad serve` keeps it
            from rankgrad.io.pictures import bytes_in  # needs Pillow

            return bytes_in(str(cell))
        file = self.path.parent / str(cell).strip()
        if not file.is_file():
            raise ValueError(f"{file}: no such file")
        return file.read_bytes()
