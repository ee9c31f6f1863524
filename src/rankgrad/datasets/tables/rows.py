"""Read the rows of a request: pictures, folders of pictures, and tables, which are read as in training."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from rankgrad.datasets.tables.formats import FORMATS, Format, format_of
from rankgrad.feature_names import columns_of, fills_of, is_empty
from rankgrad.inputs import InputType, is_missing, type_of
from rankgrad.inputs.image import Image
from rankgrad.inputs.text import Text
from rankgrad.io.written import encodable, log_once
from rankgrad.lookup import did_you_mean, listed
from rankgrad.numbers import Writing, number_at, number_in, vector_in, writing_of
from rankgrad.plain_text import key_in, parsed_json, parts_in, spelled_alike, text_in

__all__ = ["OWN", "Named", "Roles", "Row", "asked", "own_columns", "pieces", "read", "table_of"]

T = TypeVar("T")

DOCUMENTS = 16  # queries to answer at once
SORTED = 2**26  # bytes of the largest file whose rows are sorted by query, in memory; a larger one is read by query


class Roles(NamedTuple):
    """The roles of a table's columns, and its encoding, if they differ from the training table's.

    Attributes:
        input: columns of the model's input; for features, several, or `f_*` for all that start with `f_`. For
            retrieval, `caption=NAME` is the column of captions.
        id: column to return with each answer.
        query: column that tells queries apart; rows with the same value are the documents of one query.
        captions: for retrieval, whether to read captions or items; None for a row's item or, if it has none, its
            caption.
        encoding: the encoding of text.
    """

    input: Sequence[str] = ()
    id: str | None = None
    query: str | None = None
    captions: bool | None = None
    encoding: str | None = None


OWN = Roles()  # the columns of the training table, or columns named like their roles


class Row(NamedTuple):
    """A row whose pictures are not read yet.

    Attributes:
        id: the id to return with its answer.
        place: where the row is, for messages.
        asked: reads the inputs of the row; raises ValueError or OSError if a cell or a picture cannot be read.
        documents: ids of a query's documents, if the table has a row for each; or the numbers of the answers that one
            row lists, as a range.
        group: the group column's cell by the column's name, returned too; empty without such a column.
        number: its number in its table, from 1; of a query, that of its first row; None for a file.
    """

    id: Any
    place: str
    asked: Callable[[], dict[str, Any]]
    documents: Sequence[Any] | None = None
    group: Mapping[str, Any] = MappingProxyType({})
    number: int | None = None


class Named(Iterator[T]):
    """The rows of a request, or their answers.

    Attributes:
        names: the columns of the table that hold the `id` and the `query` of the answers, if it has such columns.
    """

    def __init__(self, items: Iterator[T], names: Mapping[str, str] = MappingProxyType({})):
        self._items, self.names = items, names

    def __next__(self) -> T:
        return next(self._items)


def table_of(path: Path) -> Format | None:
    """Return the format of a table by its suffix; None for any other file."""
    return FORMATS.get(path.suffix.lower())


def read(
    sources: Sequence[Path], recipe: Mapping[str, Any], roles: Roles = OWN, *, form: Format | None = None
) -> Named[Row]:
    """Read the rows of a request one by one; memory does not grow with the files.

    Args:
        sources: pictures or folders of pictures; or one table, whose image cells are bytes, data URIs, or paths
            relative to its folder.
        recipe: the model's recipe, which says how its training table was read.
        roles: the roles of the table's columns, if they differ from training.
        form: the format of the table; by default, by its suffix or as in training.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file does not match its format, lacks a column, or is not an input of the model.
    """
    about, in_queries = recipe["input"], recipe.get("task") == "query_ranking"
    kind, usual = about["kind"], about.get("format")
    suffixes = () if in_queries else type_of(about).suffixes  # of files that are rows by themselves
    if usual is not None and usual not in FORMATS.values():
        raise ValueError(f"model.json: input.format is {usual!r:.60}, expected one of {', '.join({*FORMATS.values()})}")
    of_known_format = usual is not None and sources[0].suffix.lower() not in suffixes and not sources[0].is_dir()
    if form or of_known_format or any(table_of(source) for source in sources):
        if len(sources) > 1:
            raise ValueError(f"{len(sources)} files, one of them a table; expected one table, or only pictures")
        (path,) = sources
        form_of_path = form or (usual if usual and (table_of(path) in (None, "svmlight")) else None)
        table = _Table(path, format_of(path, form_of_path), recipe, roles)
        columns = {"id": table.columns.id, "query": table.columns.query}
        return Named(table.rows(), {name: column for name, column in columns.items() if column is not None})
    if not suffixes:
        taken = f"queries with documents of {kind}" if in_queries else kind
        raise ValueError(f"{sources[0]}: the model takes {taken}; expected a table ({', '.join(FORMATS)})")
    return Named(_row_of(kind, path) for path in _files(sources, suffixes))


def _row_of(kind: str, path: Path) -> Row:
    """Return the row that is a file."""
    name = encodable(str(path))  # the file's name may not be UTF-8
    return Row(name, name, lambda: {kind: path.read_bytes()})


def pieces(rows: Iterable[Row], recipe: Mapping[str, Any]) -> Iterator[list[Row]]:
    """Yield rows in lists that are answered together."""
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
            raise ValueError(f"{source}: no input files in this folder; expected {', '.join(suffixes)}")
        yield from files


def _is_input(folder: Path, path: Path, suffixes: tuple[str, ...]) -> bool:
    """Return whether a path below a folder is an input file, and not hidden, as `._photo.jpg` is."""
    hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
    return path.suffix.lower() in suffixes and path.is_file() and not hidden


def _as_lists(cell: Any) -> Any:
    """Return a cell with tuples and NumPy arrays converted to lists."""
    if isinstance(cell, tuple):
        return [*map(_as_lists, cell)]
    if not hasattr(cell, "tolist"):
        return cell
    values = cell.tolist()
    return [_as_lists(value) for value in values] if isinstance(values, list) and cell.dtype == object else values


def _list_in(cell: Any) -> list[Any] | None:
    """Return the list that a cell of a text file has as JSON; None if it has none."""
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return None
    try:
        value = parsed_json(cell)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


@dataclass(frozen=True)
class _Input:
    """An input of a model: its columns, the name that the task gives it, and its type."""

    columns: list[str]
    name: str
    type: type[InputType]

    def is_in(self, row: Mapping[str, Any]) -> bool:
        return any(row[column] is not None for column in self.columns)


@dataclass(frozen=True)
class _Cells:
    """A row of a table; reads the columns that `InputType.from_table` asks for.

    Attributes:
        row: cells by column.
        folder: the table's folder, to which paths are relative; None for requests, whose cells hold the file contents.
        writing: how numbers in text are written.
        features: names of the model's features.
        separator: the separator of frames in a cell.
    """

    row: Mapping[str, Any]
    folder: Path | None
    writing: Writing
    features: list[str]
    separator: str

    def of(self, entered: _Input) -> Any:
        """Return the input of this row; raise ValueError if its cell is empty."""
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
        """Return the texts in several columns, or in a list in one cell."""
        cell = self.row[columns[0]]
        return cell if len(columns) == 1 and isinstance(cell, list) else [self.text(column) for column in columns]

    def numbers(self, columns: list[str]) -> list[float] | Mapping[str, Any]:
        """Return a vector, or the cells of numbers and names by column."""
        cell = self.row[columns[0]]
        if isinstance(cell, Mapping):
            return cell
        if columns == columns_of(self.features) != self.features:  # some columns have names, not numbers
            filled, unnamed = fills_of(tuple(self.features)), {*self.features}
            for name in columns:
                if name in unnamed or (name in filled and not is_empty(self.row[name])):
                    number_at(self.row, name, self.writing)  # an error here names the row of a query's document
            return {name: self.row[name] for name in columns}
        if columns == self.features or len(columns) > 1 or not isinstance(cell, list | str):
            return [number_at(self.row, name, self.writing) for name in columns]
        try:
            return [number_in(value, self.writing) for value in vector_in(cell, self.writing)]
        except ValueError as error:
            raise ValueError(f"{columns[0]} is {error}") from error

    def files(self, columns: list[str]) -> list[bytes]:
        """Return the files named in several columns, in a list in one cell, or in a cell with separators."""
        cell = self.row[columns[0]]
        if len(columns) > 1:
            return [self.file(column) for column in columns]
        files = cell if isinstance(cell, list) else parts_in(cell, self.separator)
        return [self._contents(file) for file in files]

    def file(self, column: str) -> bytes:
        return self._contents(self.row[column])

    def _contents(self, cell: Any) -> bytes:
        """Return the bytes in a cell, in its data URI, or in the file at its path, relative to the table's folder."""
        cell = cell.get("bytes") if isinstance(cell, Mapping) else cell
        if isinstance(cell, bytes):
            return cell
        if self.folder is None:
            return Image.checked(cell, "the picture")
        if str(cell).startswith("data:"):  # the form in which `rankgrad serve` keeps pictures
            from rankgrad.io.pictures import bytes_in  # needs Pillow

            return bytes_in(str(cell))
        file = self.folder / str(cell).strip()
        if not file.is_file():
            raise ValueError(f"{file}: no such file; expected a path relative to the table's folder")
        return file.read_bytes()


class _Columns:
    """The roles of the columns of a table or a request: from options, from training, or from columns named like roles.

    Attributes:
        inputs: the model's inputs; empty if their columns are missing.
        of_training: the names of features, their columns, and the columns of the training table.
        id, group, query, rejected: columns, or None.

    Args:
        names: the names of all columns.
        recipe: the model's recipe.
        roles: roles that differ from training.
        form: the format of the table.
        folder: the folder to which file paths are relative; None if cells hold the file contents.
    """

    def __init__(
        self, names: Sequence[str], recipe: Mapping[str, Any], roles: Roles, form: Format | None, folder: Path | None
    ):
        self.names, self.form, self.about, self.folder = dict.fromkeys(names), form, recipe["input"], folder
        self.type, self.task = type_of(self.about), recipe.get("task")
        self.features = [*(self.about.get("names") or ())]
        self.of_training = [self.features, columns_of(self.features), self.about.get("columns")]
        self.writing = writing_of(self.about)
        self.inputs = self._inputs(roles)
        self.id = roles.id or self._first(self.about.get("id"), "id", "docid" if form == "svmlight" else None)
        self.group = self._first(self.about.get("group"))
        if folder is not None and self.group is None and self.about.get("group"):
            log_once(
                f"no column {self.about['group']}, so answers do not have it, and `monitor` counts all rows as "
                "independent"
            )
        self.query = None
        if roles.query is not None and self.task != "query_ranking":
            raise ValueError(f"--query {roles.query}: the model does not rank documents of queries: leave it out")
        if self.task == "query_ranking":
            self.query = roles.query or self._first(self.about.get("query"), "qid" if form == "svmlight" else None)
        self.rejected = self._rejected(roles)

    @property
    def of_input(self) -> list[str]:
        """The columns of the inputs, and the column of rejected inputs."""
        columns = [column for entered in self.inputs for column in entered.columns]
        return [*columns, self.rejected] if self.rejected else columns

    @property
    def used(self) -> list[str]:
        """All columns that have a role."""
        return [*dict.fromkeys(filter(None, (*self.of_input, self.id, self.group, self.query)))]

    def _first(self, *columns: str | None) -> str | None:
        """Return the first of these columns that exists."""
        return next((column for column in columns if column in self.names), None)

    def _inputs(self, roles: Roles) -> list[_Input]:
        """Return the inputs: from the columns in the options, those of training, or a column named like the input."""
        named, captions = [*roles.input], []
        if self.task == "retrieval":
            captions, named = self._captions(named)
        if self.form == "svmlight" and not named:
            named = ["all"]
        if named or roles.input:
            return [*([_Input(self._in_order(named), self.type.name, self.type)] if named else []), *captions]
        for columns in (*self.of_training, [self.type.name]):
            if columns and set(columns) <= set(self.names):
                items = [_Input([*columns], self.type.name, self.type)]
                if self.type is Text and captions and roles.captions is None:
                    caption = captions[0].columns[0]
                    log_once(
                        f"{columns[0]} is read, and {caption} is not: for `rankgrad predict` to read it instead, pass "
                        f"`--input caption={caption}`"
                    )
                return [*items, *captions] if roles.captions is None else captions if roles.captions else items
        if captions and roles.captions is None:
            items = self.about.get("columns") or [self.type.name]
            log_once(f"no column {items[0]}, so the captions in {captions[0].columns[0]} are read")
        return captions if roles.captions in (None, True) else []

    def _captions(self, named: list[str]) -> tuple[list[_Input], list[str]]:
        """Return the input of captions, if there is a column for it, and the other columns in the options."""
        usual = [self.about.get("caption"), "caption"]
        chosen = [name for name in named if name in usual or name.startswith("caption=")]
        unnamed = [name for name in named if name not in chosen]
        column = chosen[0].removeprefix("caption=") if chosen else None if named else self._first(*usual)
        return [] if column is None else [_Input([column], "caption", Text)], unnamed

    def _in_order(self, named: Sequence[str]) -> list[str]:
        """Return the columns in the options, with patterns expanded, in the order of training if they are the same."""
        starts = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
        columns = [name for name in named if not name.endswith("*")]
        columns += [name for name in self.names if name.startswith(starts)]
        for order in self.of_training:
            if order and set(order) == set(columns):
                return [*order]
        return columns

    def _rejected(self, roles: Roles) -> str | None:
        """Return the column of rejected inputs, if the rows are preferences as in training."""
        column, columns = self.about.get("rejected"), self.about.get("columns")
        is_pair = bool(self.inputs) and columns == self.inputs[0].columns
        if column not in self.names or not is_pair:
            return None
        if roles.query:
            raise ValueError(
                f"--query {roles.query}: is for a table with a row for each answer, but this one has the column "
                f"{column}: leave one of them out"
            )
        return column

    # Rows.

    def cells(self, row: Mapping[str, Any]) -> _Cells:
        """Return the cells of a row, with arrays converted to lists."""
        row = {name: _as_lists(cell) for name, cell in row.items()}
        return _Cells(row, self.folder, self.writing, self.features, self.about.get("separator", "|"))

    def entered(self, cells: _Cells) -> _Input:
        """Return the first input that the row has."""
        return next((entered for entered in self.inputs if entered.is_in(cells.row)), self.inputs[0])

    def asked(self, cells: _Cells) -> dict[str, Any]:
        """Return the input of a row by its name."""
        entered = self.entered(cells)
        if self.task != "query_ranking":
            return {entered.name: cells.of(entered)}
        if self.rejected:
            return {entered.name: self._pair(self.rejected, cells)}
        self._check_query(cells)
        documents = self._listed(cells) if len(entered.columns) == 1 else self._zipped(cells)
        return self.of_documents({f"document {number}": self.cells(row) for number, row in enumerate(documents, 1)})

    def of_documents(self, documents: Mapping[str, _Cells]) -> dict[str, Any]:
        """Return the inputs of a query's documents by their places, which errors name."""
        entered, inputs = self.inputs[0], []
        for place, cells in documents.items():
            try:
                inputs.append(cells.of(entered))
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
        return {entered.name: inputs}

    def query_in(self, cell: Any, column: str | None) -> str:
        """Return the name of a query; one that the network reads is the same in another case, as in training."""
        is_read = column in self.of_input and isinstance(cell, str)
        return key_in(spelled_alike(cell) if is_read else cell)

    def documents_in(self, cells: _Cells) -> list[Any] | None:
        """Return the documents that a row has in a list, as a request does; None if the row is a single document."""
        return next(filter(self._is_list, (cells.row[column] for column in self.inputs[0].columns)), None)

    def _is_list(self, cell: Any) -> bool:
        """Return whether a cell has a list of documents, not a single one."""
        if not isinstance(cell, list):
            return False
        columns = self.inputs[0].columns
        is_list_itself = self.type.vectors and columns != columns_of(self.features)  # a single document
        is_list_itself |= self.type.columns == 2
        if len(columns) > 1 or not is_list_itself:
            return True
        return bool(cell) and isinstance(cell[0], list | Mapping)

    def _check_query(self, cells: _Cells) -> None:
        """Raise ValueError if a row has several queries."""
        column = self.query
        if column is None and self.type.columns == 2 and len(self.inputs[0].columns) == 2:
            column = self.inputs[0].columns[0]  # of preferences, or without the column that named queries in training
        cell = cells.row[column] if column else None
        try:
            queries = {self.query_in(name, column) for name in cell} - {""} if isinstance(cell, list) else set()
        except ValueError as error:
            raise ValueError(f"{column} has {error}") from error
        if len(queries) > 1:
            raise ValueError(f"{column} has {len(queries)} queries, expected one in each row")

    def _pair(self, column: str, cells: _Cells) -> list[Any]:
        """Return two documents: the preferred one, and the same with the rejected column in place of its last."""
        entered = self.inputs[0]
        if cells.row[column] is None:
            raise ValueError(f"{column} is empty, expected the rejected input")
        rejected = self.cells({**cells.row, entered.columns[-1]: cells.row[column]})
        return [cells.of(entered), rejected.of(entered)]

    def _listed(self, cells: _Cells) -> list[dict[str, Any]]:
        """Return the cells of each document in the list that a cell holds."""
        entered = self.inputs[0]
        column = entered.columns[0]
        documents = cells.row[column]
        if not self._is_list(documents):
            raise self._without_list(entered, f"{column} holds no list of documents, expected one")
        self._check_lengths(cells, column)
        return [{column: document} for document in self.emptied(documents)]

    def _zipped(self, cells: _Cells) -> list[dict[str, Any]]:
        """Return the cells of each document; columns are lists with one place per document, or cells of the query."""
        entered = self.inputs[0]
        lists = {column: cells.row[column] for column in entered.columns if isinstance(cells.row[column], list)}
        if not lists:
            expected = f"lists of {listed(entered.columns)}, or {entered.name}, the list of its documents"
            raise self._without_list(entered, f"a single document, expected a whole query in each row: {expected}")
        self._check_lengths(cells, *lists)
        documents = []
        for values in zip(*lists.values(), strict=True):
            of_document = dict(zip(lists, self.emptied(values), strict=True))
            documents.append({**cells.row, **of_document})
        return documents

    def _check_lengths(self, cells: _Cells, *columns: str) -> None:
        """Raise ValueError if lists of documents, or of their ids, have different lengths."""
        listed_columns = [*columns, self.id] if self.id and isinstance(cells.row[self.id], list) else columns
        lengths = {column: len(cells.row[column]) for column in listed_columns}
        if len({*lengths.values()}) > 1:
            found = ", ".join(f"{column} {length}" for column, length in lengths.items())
            raise ValueError(f"lists of different lengths: {found}; expected a value of each for every document")

    def _without_list(self, entered: _Input, problem: str) -> ValueError:
        """Return the error for a row without a list of documents."""
        rejected = self.about.get("rejected")
        if rejected is not None and entered.columns == self.about.get("columns"):
            meant = did_you_mean(rejected, [*self.names])
            problem = f"no column {rejected}, expected the rejected input; or a list in {entered.columns[-1]}{meant}"
        elif self.folder is not None:
            problem += "; if the table has a row for each document, name the column of the query: --query COLUMN"
        return ValueError(problem)

    def emptied(self, values: Iterable[Any]) -> list[Any]:
        """Return cells as a file has them, with None for those that are missing or stand for a missing value."""
        from rankgrad.datasets.tables.text import cells_of  # needs pandas

        filled = [None if is_missing(cell) else cell for cell in values]
        emptied = cells_of(filled, self.about.get("empty") or ()).tolist()
        if not self.type.files:
            return emptied
        return [cell if isinstance(cell, bytes) else other for cell, other in zip(filled, emptied, strict=True)]

    def id_of(self, cells: _Cells, usual: Any) -> Any:
        """Return the id of a row, or the default if it is null or NaN."""
        return _returned(cells.row[self.id], usual) if self.id else usual

    def group_of(self, cells: _Cells) -> dict[str, Any]:
        """Return the group column's cell by the column's name, if there is such a column."""
        return {self.group: _returned(cells.row[self.group], None)} if self.group else {}


def _returned(cell: Any, usual: Any) -> Any:
    """Return a cell as an answer returns it, or the default if it is null or NaN."""
    if cell is None or cell != cell:
        return usual
    return encodable(cell) if isinstance(cell, str) else cell


class _Table:
    """A table in a file, whose rows are inputs for a model.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: it does not match its format, or lacks a column.
    """

    def __init__(self, path: Path, form: Format, recipe: Mapping[str, Any], roles: Roles):
        from rankgrad.datasets.tables.files import names_in  # needs pandas

        self.path, self.form = path, form
        self.encoding = roles.encoding or recipe["input"].get("encoding", "utf-8")
        self.names = names_in(path, form, self.encoding)
        if not self.names:
            raise ValueError(f"{path}: no rows, expected at least one")
        self.columns = _Columns(self.names, recipe, roles, form, path.parent)
        if not self.columns.inputs:
            raise self._without_input() if roles.captions is None else self._without_searched(captions=roles.captions)
        for column in self.columns.used:
            if column not in self.names:
                hint = "; name those of the input, as in `--input 'f_*'`" if column in self.columns.of_input else ""
                hint = "; name it, as in `--input caption=COLUMN`" if column == "caption" else hint
                raise ValueError(f"{path}: no column {column!r}; {self._has(column)}{hint}")

    def _has(self, missing: str) -> str:
        return f"it has {listed(self.names)}{did_you_mean(missing, self.names)}"

    def _without_input(self) -> ValueError:
        """Return the error for a table without the columns of the input."""
        for column in columns_of(self.columns.features):
            if column not in self.names:
                return ValueError(f"{self.path}: no column {column!r}, a feature of the model; {self._has(column)}")
        columns = self.columns.about.get("columns")
        trained = f" or {listed(columns)}, as in training" if columns and columns != [self.columns.type.name] else ""
        return ValueError(
            f"{self.path}: no column {self.columns.type.name}{trained}; {self._advice()}; it has {listed(self.names)}"
        )

    def _without_searched(self, *, captions: bool) -> ValueError:
        """Return the error for a table without the column to search."""
        about, item = self.columns.about, self.columns.type.name
        columns = [about.get("caption") or "caption"] if captions else about.get("columns") or [item]
        advice = "" if captions else ", or search its captions by `--captions`"
        return ValueError(
            f"{self.path}: no column {listed(columns)}, which is searched; call it so{advice}; it has "
            f"{listed(self.names)}"
        )

    def _advice(self) -> str:
        """Return how to name the columns of the input."""
        if self.columns.type.columns != 2:
            return "name the one that holds it, as in `--input COLUMN`, or several, as in `--input 'f_*'`"
        rejected = self.columns.about.get("rejected")
        renamed = f", and call the rejected column `{rejected}`" if rejected else ""
        return f"name both, as in `--input FIRST --input SECOND`{renamed}"

    # Rows.

    def rows(self) -> Iterator[Row]:
        if self.columns.query is not None:
            yield from self._grouped(self.columns.query)
            return
        has_answers = bool(self.columns.about.get("rejected")) and self.columns.rejected is None
        for number, cells in self._numbered():
            row = self._row(number, cells)
            # A model of preferences ranks several answers to a prompt.
            documents = self.columns.documents_in(cells) if has_answers else None
            yield row if documents is None else row._replace(documents=range(1, 1 + len(documents)))

    def _numbered(self) -> Iterator[tuple[int, _Cells]]:
        """Yield the number of each row from 1 on, and its cells."""
        from rankgrad.datasets.tables.files import pieces_of  # needs pandas

        columns = self.columns
        files = [column for entered in columns.inputs if entered.type.files for column in entered.columns]
        files += [columns.rejected] if files and columns.rejected else []
        pieces = pieces_of(
            self.path, columns.used, form=self.form, encoding=self.encoding, empty=columns.about.get("empty") or (),
            size=columns.type.piece, pictures=files,
        )  # fmt: skip
        count = left_out = 0
        is_filled = bool(fills_of(tuple(columns.features)))
        has_lists = False
        for piece in pieces:
            for number, row in zip(piece.index.tolist(), piece.astype(object).to_dict("records"), strict=True):
                count += 1
                has_lists = self._have_lists(number, row) if count == 1 else has_lists
                cells = columns.cells(self._with_lists(number, row) if has_lists else row)
                if is_filled and all(is_empty(cells.row[column]) for column in columns.of_input):  # as in training
                    left_out += 1
                    continue
                if self.form == "svmlight" and "all" in row:
                    cells = columns.cells({**cells.row, "all": self._vector(number, cells.row["all"])})
                yield number, cells
        if left_out:
            log_once(f"{self.path}: {left_out} of {count} rows without input, such as totals, are left out")

    def _have_lists(self, number: int, row: Mapping[str, Any]) -> bool:
        """Return whether the first row of a text file has a list of documents as JSON, and so all rows have.

        Raises:
            ValueError: it has a list in another form, such as pandas writes.
        """
        if self.columns.query is None or "text" not in self.columns.type.backbones or self.form not in ("csv", "tsv"):
            return False
        column = self.columns.inputs[0].columns[-1]
        cell = row[column]
        if isinstance(cell, str) and cell.startswith("['") and cell.endswith("']"):
            raise ValueError(
                f"{self._place(number)}: {column} is {cell[:60]!r}, expected a text, or a list as JSON, as "
                "`json.dumps` writes it"
            )
        documents = _list_in(cell)
        return documents is not None and all(isinstance(document, str) for document in documents)

    def _with_lists(self, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row whose documents, and perhaps their ids, are lists."""
        column = self.columns.inputs[0].columns[-1]
        documents = _list_in(row[column])
        if documents is None:
            raise ValueError(
                f"{self._place(number)}: {column} is {str(row[column])[:60]!r}, expected a list as JSON, as in the "
                "first row"
            )
        ids = {self.columns.id: _list_in(row[self.columns.id])} if self.columns.id else {}
        return {**row, column: documents} | {name: cell for name, cell in ids.items() if cell is not None}

    def _vector(self, number: int, numbers: list[Any]) -> list[Any]:
        """Return an SVMlight vector as in training: starting at the lowest index, padded with zeros.

        Raises:
            ValueError: the row has a lower index, so this file numbers its features differently.
        """
        lowest = self.columns.about.get("lowest", 1)
        if any(numbers[:lowest]):
            raise ValueError(
                f"{self._place(number)}: a feature with index 0, expected indices from 1, as in the training file: "
                "number the features from 1"
            )
        return numbers[lowest:] + [0.0] * ((self.columns.about.get("count") or 0) + lowest - len(numbers))

    def _place(self, number: int) -> str:
        return f"{self.path}: row {number}"

    def _row(self, number: int, cells: _Cells) -> Row:
        """Return a row; without an id column, its id is its file's path or its caption, else its number."""
        entered = self.columns.entered(cells)
        cell = cells.row[entered.columns[0]]
        is_name = isinstance(cell, str) and (bool(entered.type.suffixes) or entered.name == "caption")
        usual = encodable(cell) if is_name and self.columns.task != "query_ranking" else number
        asked = partial(self.columns.asked, cells)
        group = self.columns.group_of(cells)
        return Row(self.columns.id_of(cells, usual), self._place(number), asked, group=group, number=number)

    def _grouped(self, column: str) -> Iterator[Row]:
        """Yield queries from a table with a row for each document."""
        named: Iterable[Any] = (self._of_query(column, number, cells) for number, cells in self._numbered())
        if self.form != "svmlight" and self.path.stat().st_size <= SORTED:  # SVMlight's rows take far more memory
            places: dict[str, int] = {}
            named = sorted(named, key=lambda row: places.setdefault(row[0], len(places)))
        seen = set()
        for query, group in groupby(named, key=itemgetter(0)):
            _, numbers, rows = zip(*group, strict=True)
            if isinstance(rows[0], Row):
                yield rows[0]
                continue
            if query in seen:
                advice = "sort the table by this column"
                if self.form == "svmlight":
                    advice = f"sort them: `sort -s -k 2,2 {self.path} > sorted.txt`"
                raise ValueError(
                    f"{self._place(numbers[0])}: rows of {column} {query} are not together, so its documents would "
                    f"be ranked apart; {advice}"
                )
            seen.add(query)
            if (documents := self.columns.documents_in(rows[0])) is not None:
                if len(rows) > 1:
                    raise ValueError(
                        f"{self._place(numbers[1])}: {column} {query} is in row {numbers[0]}, too, which has a list of "
                        "documents: put all documents of a query into one list, or name the queries differently"
                    )
                yield self._query_of(rows[0], column, query, len(documents))._replace(number=numbers[0])
                continue
            documents = {f"row {number}": row for number, row in zip(numbers, rows, strict=True)}
            asked = partial(self.columns.of_documents, documents)
            ids = [self.columns.id_of(row, number) for number, row in zip(numbers, rows, strict=True)]
            yield Row(rows[0].row[column], f"{self.path}: {column} {query}", asked, ids, number=numbers[0])

    def _query_of(self, cells: _Cells, column: str, query: str, count: int) -> Row:
        """Return a query whose documents are in a list.

        The id of each document is in a list too, or else the row's id, or else its number in the list.
        """
        ids = cells.row[self.columns.id] if self.columns.id else None
        if not isinstance(ids, list) or len(ids) != count:  # of a wrong length: `asked` raises
            ids = [None if isinstance(ids, list) else ids] * count
        ids = [_returned(of_document, number) for number, of_document in enumerate(ids, 1)]
        place = f"{self.path}: {column} {query}"
        return Row(cells.row[column], place, partial(self.columns.asked, cells), ids)

    def _of_query(self, column: str, number: int, cells: _Cells) -> tuple[Any, int, _Cells | Row]:
        """Return the query of a row, its number, and its cells; or its number twice, and a row without a query."""
        cell = cells.row[column]
        with suppress(ValueError):
            if query := self.columns.query_in(cell, column):
                return query, number, cells
        row_id = self.columns.id_of(cells, number)
        documents = row_id if row_id and isinstance(row_id, list) else [row_id]
        asked = partial(_raise, f"{column} is {cell!r:.60}, expected the name of a query")
        return number, number, Row(None, self._place(number), asked, documents, number=number)


def _raise(reason: str) -> dict[str, Any]:
    raise ValueError(reason)


# Requests.


def asked(rows: Sequence[Any], recipe: Mapping[str, Any], inputs: Collection[str]) -> Iterator[Any]:
    """Yield the rows of a request in the form that tasks take; rows with a table's columns are read as in a file.

    Cells hold the contents of pictures: no file is read. Other columns of the training table are ignored, such as the
    target; a column that it did not have is an error, since it may be misspelled.

    Args:
        rows: rows from JSON or a data frame. Rows with only columns in `inputs` are yielded unchanged.
        recipe: the model's recipe, which has the columns of its training table.
        inputs: columns of requests, see `rankgrad.tasks.Task.columns`.

    Raises:
        ValueError: a row has an unknown column, lacks one, or has an invalid cell; the message names it.
    """
    columns_by_names: dict[tuple[str, ...], _Columns] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or (row and set(row) <= set(inputs)):
            yield row
            continue
        names = tuple(map(str, row))
        if names not in columns_by_names:
            columns_by_names[names] = _requested(names, recipe, inputs, f"row {number}")
        try:
            yield _asked(columns_by_names[names], row)
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from error


def own_columns(about: Mapping[str, Any]) -> list[str]:
    """Return the columns of the training table that requests may have, from the `input` of a model's recipe."""
    columns = [] if "lowest" in about else about.get("columns") or []  # SVMlight has no names of columns
    own = [*(columns_of(about.get("names") or ()) or columns)]
    return [*dict.fromkeys(own + [about[role] for role in ("rejected", "caption", "id", "group") if about.get(role)])]


def _requested(names: Sequence[str], recipe: Mapping[str, Any], inputs: Collection[str], place: str) -> _Columns:
    """Return the columns of a request's row.

    Raises:
        ValueError: a column is unknown or missing.
    """
    about, columns = recipe["input"], _Columns(names, recipe, OWN, None, None)
    own = own_columns(about)
    takes = f"the model takes {', '.join(inputs)}"
    if {*own} - {*inputs}:
        takes += f"; or the columns of its training's table: {listed(own)}"
    known, used = dict.fromkeys([*own, *inputs]), set(columns.used)
    ignored = {*(about.get("other_columns") or ())}
    unused = [name for name in names if name not in used and name not in ignored]
    for name in unused:
        if name not in known:
            raise ValueError(f"{place}: unknown column {name!r:.80}; {takes}{did_you_mean(name, known)}")
    if not columns.inputs:
        missing = next((name for name in own if name not in columns.names), columns.type.name)
        raise ValueError(f"{place}: no column {missing}; {takes}")
    for name in ("qid", "docid") if "lowest" in about and columns.task == "query_ranking" else ():
        if name in columns.names:
            raise ValueError(
                f"{place}: {name} is not for requests, expected a whole query in each row: {columns.type.name}, the "
                "list of its documents, and optionally id, which the answer returns"
            )
    for name in unused:
        other = columns.id if name == "id" and columns.id is not None else columns.of_input[0]
        raise ValueError(f"{place}: both {name} and {other}, expected only one of them; {takes}")
    return columns


def _asked(columns: _Columns, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's row in the form that tasks take, with its id if it has one."""
    cells = columns.cells(dict(zip(columns.names, columns.emptied(row.values()), strict=True)))
    row_id = columns.id_of(cells, None)
    return columns.asked(cells) | ({} if row_id is None else {"id": row_id})
