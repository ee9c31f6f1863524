"""Read the rows of a request: pictures, folders of pictures, and tables, read as in training."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from rankgrad import lookup
from rankgrad.datasets.tables.formats import FORMATS, Format, format_of
from rankgrad.feature_names import columns_of, fills_of, is_empty
from rankgrad.inputs import InputType, type_of
from rankgrad.inputs.text import Text
from rankgrad.io.written import encodable
from rankgrad.lookup import did_you_mean, listed
from rankgrad.numbers import Writing, number_in, vector_in
from rankgrad.plain_text import key_in, parts_in, text_in

__all__ = ["OWN", "Roles", "Row", "kind_of", "pieces", "read", "side_of", "table_of"]

DOCUMENTS = 16  # queries that are
HEAD = 100  # rows by which a column that could hold the input is found


class Roles(NamedTuple):
    """The roles of a table's columns, where they differ from the training's.

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


OWN = Roles()  # the training's columns, or columns that have the names of their roles


class Row(NamedTuple):
    """A row whose pictures are not read yet.

    Attributes:
        id: what comes back with its answer.
        place: of the row, for messages.
        asked: reads the inputs of the row; raises ValueError or OSError if a cell or a picture cannot be read.
        documents: ids of a query's rows, in a table that has a row for each.
    """

    id: Any
    place: str
    asked: Callable[[], dict[str, Any]]
    documents: Sequence[Any] | None = None


def kind_of(recipe: Mapping[str, Any], *, where: object) -> str:
    """Return the name of a model's input type, such as `image`.

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
    """Read the rows of a request one by one; memory does not grow with the files.

    Args:
        sources: pictures or folders of them; or one table, whose cells of images are bytes, data URIs or paths from
            its folder.
        recipe: of the model, which knows how its training's table was read.
        roles: of the table's columns, where they are others.
        form: format of the table; by default by its suffix, or the training's.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not of its format, lacks a column, or is nothing that the model takes.
    """
    kind = kind_of(recipe, where="the model")
    suffixes = () if recipe.get("task") == "query_ranking" else type_of(recipe["input"]).suffixes
    usual = recipe["input"].get("format")
    if usual is not None and usual not in FORMATS.values():
        raise ValueError(f"model.json: input.format is {usual!r:.60}, expected one of {', '.join({*FORMATS.values()})}")
    of_known_format = usual is not None and sources[0].suffix.lower() not in suffixes and not sources[0].is_dir()
    if form or of_known_format or any(table_of(source) for source in sources):
        if len(sources) > 1:
            raise ValueError(f"{len(sources)} files, one of them a table; expected one table, or pictures alone")
        (path,) = sources
        form_of_path = form or (usual if usual and (table_of(path) in (None, "svmlight")) else None)
        yield from _Table(path, format_of(path, form_of_path), recipe, roles).rows()
    elif not suffixes:
        taken = f"queries with documents of {kind}" if recipe.get("task") == "query_ranking" else kind
        raise ValueError(f"{sources[0]}: the model takes {taken}; expected a table ({', '.join(FORMATS)})")
    else:
        for path in _files(sources, suffixes):
            name = encodable(str(path))  # of a file whose name is no UTF-8, too
            yield Row(name, name, partial(_of_file, kind, path))


def side_of(source: Path, recipe: Mapping[str, Any], roles: Roles = OWN) -> str:
    """Return what a model of retrieval is asked by the rows of a file or folder: its input type, or `caption`.

    Raises:
        ValueError: the table lacks a column of both.
    """
    usual = recipe["input"].get("format")
    if source.is_dir() or (table_of(source) is None and usual is None):
        return kind_of(recipe, where="the model")
    suffixes = type_of(recipe["input"]).suffixes
    if source.suffix.lower() in suffixes:
        return kind_of(recipe, where="the model")
    form = usual if table_of(source) in (None, "svmlight") else None
    return _Table(source, format_of(source, form), recipe, roles).inputs[0].name


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
    hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
    return path.suffix.lower() in suffixes and path.is_file() and not hidden


def _as_lists(cell: Any) -> Any:
    """Return a cell with lists in place of arrays of NumPy."""
    if not hasattr(cell, "tolist"):
        return cell
    values = cell.tolist()
    return [_as_lists(value) for value in values] if isinstance(values, list) and cell.dtype == object else values


@dataclass(frozen=True)
class _Input:
    """An input of a model: its columns, what its task calls it, and its type."""

    columns: list[str]
    name: str
    type: type[InputType]

    def is_in(self, row: Mapping[str, Any]) -> bool:
        return any(row[column] is not None for column in self.columns)


@dataclass(frozen=True)
class _Cells:
    """A row of a table: its columns are read here as `InputType.from_table` asks for them.

    Attributes:
        row: cells by column.
        folder: of the table; paths are relative to it.
        writing: of its numbers.
        features: names of the features of the model.
        separator: of the frames in a cell.
    """

    row: Mapping[str, Any]
    folder: Path
    writing: Writing
    features: list[str]
    separator: str

    def of(self, entered: _Input) -> Any:
        """Return the input of this row; an empty cell is none."""
        column = entered.columns[0]
        if self.row[column] is None and not entered.type.vectors:
            raise ValueError(f"{column} is empty")
        return entered.type.from_table(entered.columns, self)

    def text(self, column: str) -> str:
        cell = self.row[column]
        if cell is None or cell != cell:
            raise ValueError(f"{column} is empty, expected text")
        try:
            return text_in(cell)
        except ValueError as error:
            raise ValueError(f"{column} is {error}") from error

    def texts(self, columns: list[str]) -> list[str]:
        """Return the texts of several columns, or of a list in a cell."""
        cell = self.row[columns[0]]
        return cell if len(columns) == 1 and isinstance(cell, list) else [self.text(column) for column in columns]

    def numbers(self, columns: list[str]) -> list[float] | Mapping[str, Any]:
        """Return a vector, or numbers and names by their columns."""
        cell = self.row[columns[0]]
        if isinstance(cell, Mapping):
            return cell
        if columns == columns_of(self.features) != self.features:  # names, which the model makes features of
            filled, unnamed = fills_of(tuple(self.features)), {*self.features}
            return {name: self._named(name, filled=name in filled, unnamed=name in unnamed) for name in columns}
        if columns == self.features or len(columns) > 1 or not isinstance(cell, list | str):
            return [self._number(name) for name in columns]
        try:
            return [number_in(value, self.writing) for value in vector_in(cell, self.writing)]
        except ValueError as error:
            raise ValueError(f"{columns[0]} is {error}") from error

    def _named(self, column: str, *, filled: bool, unnamed: bool) -> Any:
        """Return a number, or a cell as it is: a name, or an empty one that the model fills."""
        is_number = unnamed or (filled and not is_empty(self.row[column]))
        return self._number(column) if is_number else self.row[column]

    def _number(self, column: str) -> float:
        try:
            return number_in(self.row[column], self.writing)
        except ValueError as error:
            raise ValueError(f"{column} is {error}") from error

    def files(self, columns: list[str]) -> list[bytes]:
        """Return the files of several columns, of a list in a cell, or of text that a separator joins."""
        cell = self.row[columns[0]]
        if len(columns) > 1:
            return [self.file(column) for column in columns]
        files = cell if isinstance(cell, list) else parts_in(cell, self.separator)
        return [self._contents(file) for file in files]

    def file(self, column: str) -> bytes:
        return self._contents(self.row[column])

    def _contents(self, cell: Any) -> bytes:
        """Return the bytes of a cell that has them, a data URI, or the path of a file from the table's folder."""
        cell = cell.get("bytes") if isinstance(cell, Mapping) else cell
        if isinstance(cell, bytes):
            return cell
        if str(cell).startswith("data:"):  # the picture itself, as `rankgrad serve` keeps it
            from rankgrad.io.pictures import bytes_in  # needs Pillow

            return bytes_in(str(cell))
        file = self.folder / str(cell).strip()
        if not file.is_file():
            raise ValueError(f"{file}: no such file")
        return file.read_bytes()


class _Table:
    """A table that a model is asked: the roles of its columns, and its rows."""

    def __init__(self, path: Path, form: Format, recipe: Mapping[str, Any], roles: Roles):
        from rankgrad.datasets.tables.files import names_in  # needs pandas

        self.path, self.form, self.about = path, form, recipe["input"]
        self.type, self.task = type_of(self.about), recipe.get("task")
        self.encoding = self.about.get("encoding", "utf-8")
        self.features = [*(self.about.get("names") or ())]
        self.writing = Writing(self.about.get("decimal", "."), self.about.get("thousands", ""))
        self.names = names_in(path, form, self.encoding)
        if not self.names:
            raise ValueError(f"{path}: no rows, expected at least one")
        self.inputs = self._inputs(roles)
        self.id = roles.id or self._first(self.about.get("id"), "id")
        self.query = None
        if self.task == "query_ranking":
            self.query = roles.query or self._first(self.about.get("query"), "qid" if form == "svmlight" else None)
        self.rejected = self._rejected(roles)
        columns = [column for entered in self.inputs for column in entered.columns]
        columns += [self.rejected] if self.rejected else []
        self.columns = [*dict.fromkeys(filter(None, (*columns, self.id, self.query)))]
        for column in self.columns:
            if column not in self.names:
                hint = "; name those of the input, as in `--input 'f_*'`" if column in columns else ""
                raise ValueError(f"{path}: no column {column!r}; {self._has(column)}{hint}")

    def _first(self, *columns: str | None) -> str | None:
        """Return the first of these columns that the file has."""
        return next((column for column in columns if column in self.names), None)

    def _has(self, missing: str) -> str:
        return f"it has {listed(self.names)}{did_you_mean(missing, self.names)}"

    # Columns.

    def _inputs(self, roles: Roles) -> list[_Input]:
        """Return the inputs by columns that are named, that are the training's, or that are called as the input is."""
        named, captions = [*roles.input], []
        if self.task == "retrieval":
            captions, named = self._captions(named)
        if self.form == "svmlight" and not named:
            named = ["all"]
        if named or roles.input:
            return [*([_Input(self._in_order(named), self.type.name, self.type)] if named else []), *captions]
        for columns in (self.features, columns_of(self.features), self.about.get("columns"), [self.type.name]):
            if columns and set(columns) <= set(self.names):
                inputs = [_Input([*columns], self.type.name, self.type), *captions]
                return inputs[::-1] if roles.captions_first else inputs
        if captions:
            return captions
        for column in columns_of(self.features):
            if column not in self.names:
                raise ValueError(f"{self.path}: no column {column!r}, a feature of the model; {self._has(column)}")
        trained = f" or {listed(self.about['columns'])}, as in training" if self.about.get("columns") else ""
        raise ValueError(
            f"{self.path}: no column {self.type.name}{trained}; {self._hint()}; it has {listed(self.names)}"
        )

    def _hint(self) -> str:
        """Return how to name the columns of the input: those whose first cells look like it, if there are any.

        Raises:
            ValueError: the table has no rows.
        """
        from rankgrad.datasets.tables.files import pieces_of

        pieces = pieces_of(
            self.path, self.names, form=self.form, encoding=self.encoding, size=HEAD, head=HEAD, decode_later=True
        )
        head = next(pieces, None)
        if head is None or not len(head):
            raise ValueError(f"{self.path}: no rows, expected at least one")
        if self.type.columns == 2:
            rejected = self.about.get("rejected")
            renamed = f", and call the rejected column `{rejected}`" if rejected else ""
            return f"name both, as in `--input FIRST --input SECOND`{renamed}"
        for name in self.names:
            cells = [_as_lists(cell) for cell in head[name].dropna()]
            if cells and self._looks_like_input(cells):
                return f"name the one that holds it, as in `--input {name}`"
        if self.type.vectors:
            for start, count in Counter(name.rstrip("0123456789") for name in self.names).items():
                if count == self.about.get("count"):
                    return f"name those that hold it, as in `--input '{start}*'`"
        return "name the one that holds it, as in `--input COLUMN`"

    def _looks_like_input(self, cells: list[Any]) -> bool:
        if not self.type.vectors:
            return self.type.fits(cells)
        try:
            return len(vector_in(cells[0], self.writing)) == self.about.get("count")
        except ValueError:
            return False

    def _captions(self, named: list[str]) -> tuple[list[_Input], list[str]]:
        """Return the input of captions, if there is a column of them, and the other columns that are named."""
        usual = [self.about.get("caption"), "caption"]
        chosen = [name for name in named if name in usual or name.startswith("caption=")]
        unnamed = [name for name in named if name not in chosen]
        column = chosen[0].removeprefix("caption=") if chosen else None if named else self._first(*usual)
        return [] if column is None else [_Input([column], "caption", Text)], unnamed

    def _in_order(self, named: Sequence[str]) -> list[str]:
        """Return columns that are named, patterns filled in, in the order of training if they are the same."""
        starts = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
        columns = [name for name in named if not name.endswith("*")]
        columns += [name for name in self.names if name.startswith(starts)]
        for order in (self.features, columns_of(self.features), self.about.get("columns")):
            if order and set(order) == set(columns):
                return [*order]
        return columns

    def _rejected(self, roles: Roles) -> str | None:
        """Return the column of what was rejected, if the file has preferences as the training's had."""
        column, columns = self.about.get("rejected"), self.about.get("columns")
        return column if column in self.names and not roles.query and columns == self.inputs[0].columns else None

    # Rows.

    def rows(self) -> Iterator[Row]:
        if self.query is not None:
            yield from self._grouped(self.query)
            return
        row_of = self._row
        if self.task == "query_ranking":
            row_of = self._listed if self.rejected is None else partial(self._pair, self.rejected)
        for number, cells in self._numbered():
            yield row_of(number, cells)

    def _numbered(self) -> Iterator[tuple[int, _Cells]]:
        """Yield the number of each row from 1 on, and its cells."""
        from rankgrad.datasets.tables.files import pieces_of

        files = [column for entered in self.inputs if entered.type.files for column in entered.columns]
        files += [self.rejected] if files and self.rejected else []
        pieces = pieces_of(
            self.path, self.columns, form=self.form, encoding=self.encoding, size=self.type.piece, pictures=files
        )
        number = 0
        for piece in pieces:
            for row in piece.astype(object).to_dict("records"):
                number += 1
                cells = {name: _as_lists(cell) for name, cell in row.items()}
                if self.form == "svmlight" and "all" in cells:
                    cells["all"] = self._vector(cells["all"])
                yield number, self._cells(cells)

    def _cells(self, row: Mapping[str, Any]) -> _Cells:
        return _Cells(row, self.path.parent, self.writing, self.features, self.about.get("separator", "|"))

    def _vector(self, numbers: list[Any]) -> list[Any]:
        """Return a vector of SVMlight as in training: from the lowest index on, with zeros at its end."""
        lowest = self.about.get("lowest", 0 if self.about.get("columns") == ["all"] else 1)
        return numbers[lowest:] + [0.0] * ((self.about.get("count") or 0) + lowest - len(numbers))

    def _place(self, number: int) -> str:
        return f"{self.path}: row {number}"

    def _row(self, number: int, cells: _Cells) -> Row:
        """Return a row whose id is its own, else the path of its file or its caption, else its number."""
        entered = next((entered for entered in self.inputs if entered.is_in(cells.row)), self.inputs[0])
        cell = cells.row[entered.columns[0]]
        is_name = isinstance(cell, str) and (bool(entered.type.suffixes) or entered.name == "caption")
        usual = encodable(cell) if is_name else number
        return Row(self._id(cells, usual), self._place(number), lambda: {entered.name: cells.of(entered)})

    def _id(self, cells: _Cells, usual: Any) -> Any:
        """Return the id of a row, or the usual one where it is null or NaN."""
        cell = cells.row[self.id] if self.id else None
        if cell is None or cell != cell:
            return usual
        return encodable(cell) if isinstance(cell, str) else cell

    def _pair(self, column: str, number: int, cells: _Cells) -> Row:
        """Return a query of two documents: the one that was preferred, and the same with what was rejected in it."""
        entered = self.inputs[0]

        def asked() -> dict[str, Any]:
            if cells.row[column] is None:
                raise ValueError(f"{column} is empty, expected the rejected input")
            rejected = {**cells.row, entered.columns[-1]: cells.row[column]}
            return {entered.name: [cells.of(entered), self._cells(rejected).of(entered)]}

        return Row(self._id(cells, number), self._place(number), asked)

    def _listed(self, number: int, cells: _Cells) -> Row:
        """Return a query whose documents are the list in its cell."""
        entered = self.inputs[0]
        column, *more_columns = entered.columns
        documents = cells.row[column]
        is_list = isinstance(documents, list)
        if is_list and entered.type.vectors:
            is_list = bool(documents) and isinstance(documents[0], list | Mapping)
        if more_columns or not is_list:
            raise ValueError(
                f"{self._place(number)}: {column} holds no list of documents; name the column whose rows are the "
                "documents of one query: --query COLUMN"
            )
        rows = [self._cells({column: document}) for document in documents]
        return Row(
            self._id(cells, number), self._place(number), lambda: {entered.name: [row.of(entered) for row in rows]}
        )

    def _grouped(self, column: str) -> Iterator[Row]:
        """Yield queries that have a row for each of their documents."""
        seen, entered = set(), self.inputs[0]
        for query, group in groupby(self._numbered(), key=lambda numbered: self._query(column, *numbered)):
            if query in seen:
                raise ValueError(
                    f"{self.path}: rows of {column} {query} are not together; sort the table by this column"
                )
            seen.add(query)
            numbers, rows = zip(*group, strict=True)
            yield Row(
                rows[0].row[column],
                self._place(numbers[0]),
                lambda rows=rows: {entered.name: [row.of(entered) for row in rows]},
                [self._id(row, number) for number, row in zip(numbers, rows, strict=True)],
            )

    def _query(self, column: str, number: int, cells: _Cells) -> str:
        cell = cells.row[column]
        try:
            query = key_in(cell)
        except ValueError:
            query = ""
        if not query:
            raise ValueError(f"{self._place(number)}: {column} is {cell!r:.60}, expected the name of a query")
        return query
