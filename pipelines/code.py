"""Which code makes what: the files behind each stage by their imports, and a digest of each that words do not change.

A stage uses the files that its own imports, and the components that its params name, see
`pipelines.config.plan.modules_of`, with what they import. What scores predictions uses `own/metrics` too, those that
judge the task. A digest is that of the syntax without comments, docstrings
and what stands in a `raise`, so that better words train nothing.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.config import Settings
from pipelines.config.plan import modules_of
from pipelines.config.schema import NONE
from rankgrad import lookup

__all__ = ["EXEMPT", "behind", "digest", "files_of", "lines_of", "packages", "refuse_other_versions", "words_of"]

ROOT = Path(__file__).parents[1]
LIBRARY = lookup.__name__.partition(".")[0]
# What changes no result, and is not followed either.
EXEMPT = (
    f"src/{LIBRARY}/lookup.py",  # finds files by name
    f"src/{LIBRARY}/io/atomic.py",  # how a file comes into its place
    f"src/{LIBRARY}/io/addresses.py",
    "pipelines/code.py",
    "pipelines/config/errors.py",
    "pipelines/config/rules.py",  # which refuse, and decide nothing
    "pipelines/config/scales.py",
    "pipelines/ops",
    "pipelines/running",  # progress, messages, and where states are kept
)
# Packages whose versions decide on what is computed, to the second number.
RECORDED = ("timm", "torch", "torchvision", "transformers")
FINDERS = ("build", "find", "made", "module")  # functions that take a folder, and of a component in it the name
FOLDERS = ("datasets", "inputs", "losses", "models", "models.backbones", "models.heads", "sorters", "tasks")
# Calls of the tasks that take a name alone: of a network, and of the captions' backbone where params name none.
DEFAULTS = {"network_of": "models", "Component": "models.backbones"}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
EVALUATED = ("task", "head", "backbone", "text")  # what of a run predicts
SCORES = ("compare", "evaluate", "publish", "report")  # stages that score predictions, or show how
WHOLE = ("inputs",)  # folders whose components no params name: data decide


class _Plain(ast.NodeTransformer):
    """Takes from syntax what a person reads alone: docstrings, and what an error says."""

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=error, cause=None)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, DOCUMENTED) and _is_text(node.body):
            node.body = node.body[1:]
        return super().generic_visit(node)


def _is_text(nodes: list[ast.stmt]) -> bool:
    """Whether the first statement is a docstring."""
    return bool(nodes) and isinstance(nodes[0], ast.Expr) and isinstance(getattr(nodes[0].value, "value", None), str)


@cache
def digest(source: bytes) -> str:
    """Return a digest of the syntax of Python, see above."""
    return sha256(ast.dump(_Plain().visit(ast.parse(source))).encode()).hexdigest()[:32]


class _Used(NamedTuple):
    """What a file uses: modules, and folders in which it finds components whose names it does not say."""

    modules: frozenset[str]
    folders: frozenset[str]


@cache
def _used_by(source: bytes) -> _Used:
    """Return what Python uses, inside functions too, but not what it imports for type checkers alone."""
    modules: set[str] = set()
    folders: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}:{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and (found := _found_by(node)):
            folder, name = found
            if name is None:
                folders.add(folder)
            else:
                modules.add(f"{LIBRARY}.{folder}.{name}")
        waiting += ast.iter_child_nodes(node)
    return _Used(frozenset(modules), frozenset(folders))


def _text(node: ast.AST | None) -> str:
    """Return a text that stands in the code, else ""."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _found_by(call: ast.Call) -> tuple[str, str | None] | None:
    """Return the folder, and the name where the code says it, of a call that finds a component; None of any other."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    words = [*map(_text, call.args[:2]), "", ""]
    if function in DEFAULTS and words[0]:
        return DEFAULTS[function], words[0]
    return (words[0], words[1] or None) if function in FINDERS and words[0] in FOLDERS else None


@cache
def _exported(source: bytes) -> dict[str, str]:
    """Return from which module a package's file takes each name that it exports."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{node.module}:{alias.name}" for node in nodes for alias in node.names}


def _file_of(module: str, root: Path) -> Path | None:
    """Return the file of a module of this project; of `package:name` that of the name, if it has one of its own."""
    module, _, name = module.partition(":")
    folder = (root / "src" if module.partition(".")[0] == LIBRARY else root) / module.replace(".", "/")
    if folder.with_suffix(".py").is_file():
        return folder.with_suffix(".py")
    package = folder / "__init__.py"
    if not name:
        return package if package.is_file() else None
    if (file := (folder / name).with_suffix(".py")).is_file():
        return file
    if (folder / name / "__init__.py").is_file():
        return folder / name / "__init__.py"
    if not package.is_file():
        return None
    exported = _exported(package.read_bytes())
    return _file_of(exported[name], root) if name in exported else package


def behind(files: Iterable[Path], *, root: Path = ROOT, all_of: bool = False) -> list[Path]:
    """Return the files of this project that some files use, themselves among them, sorted.

    Args:
        files: to begin with.
        root: of the project; modules that are not below it are not followed.
        all_of: follow what is exempt, too.
    """
    seen, waiting = set(), [*files]
    while waiting:
        file = waiting.pop()
        path = file.relative_to(root).as_posix()
        if file in seen or (path.startswith(EXEMPT) and not all_of):
            continue
        seen.add(file)
        used = _used_by(file.read_bytes())
        for module in used.modules:
            # The folder may be a package, as studies is.
            module_file = _file_of(module, root) or _file_of(module, root.parent)
            if module_file is not None and module_file.is_relative_to(root):
                waiting.append(module_file)
        for folder in used.folders.intersection(WHOLE):
            waiting += files_of(folder, lookup.names(folder), root)
    return sorted(seen)


def files_of(folder: str, names: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Return the files of the components of a folder, of the package or in `own`, that have such a name."""
    tops = [root / "src" / LIBRARY, *([root / lookup.OWN] if folder in lookup.OWN_FOLDERS else [])]
    names, files = set(names), list[Path]()
    for top in tops:
        components = sorted((top / folder.replace(".", "/")).glob("[!_]*.py"))
        files += [file for file in components if file.stem in names]
    return files


def _judging(tasks: Iterable[str], root: Path) -> list[Path]:
    """Return the files of `own/metrics` whose second argument is the truth of one of these tasks."""
    if not (metrics := sorted((root / lookup.OWN / "metrics").glob("[!_]*.py"))):
        return []  # to import a task takes seconds
    truths = {lookup.find("tasks", task).judged for task in set(tasks).intersection(lookup.names("tasks"))}
    return [file for file in metrics if _second_argument(file) in {None, *truths}]  # of None it is not known


def _second_argument(file: Path) -> str | None:
    """Return the name of the second argument of the function that a file is named after, without importing it.

    None of what is made in another way, such as by `functools.partial`.
    """
    try:
        statements = ast.parse(file.read_bytes()).body
    except (SyntaxError, ValueError):  # of which `check` says what is wrong
        return None
    for statement in statements:
        if isinstance(statement, ast.FunctionDef) and statement.name == file.stem:
            arguments = [*statement.args.posonlyargs, *statement.args.args]
            return arguments[1].arg if len(arguments) > 1 else None
    return None


def packages(files: Iterable[Path]) -> set[str]:
    """Return the first names of all that files import from elsewhere."""
    names = set[str]()
    for file in files:
        names |= {re.split("[.:]", module)[0] for module in _used_by(file.read_bytes()).modules}
    return names - {LIBRARY, "pipelines", lookup.OWN}


def words_of(value: Any) -> Iterator[str]:
    """Yield all text in a block of params but keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from words_of(inner)


def _components(params: Settings, stage: str, key: str, root: Path) -> list[Path]:
    """Return the files of the components that params name for a stage; of unknown ones `check` says what is wrong."""
    if stage in ("data", "validate"):
        return files_of("datasets", words_of(params.datasets[key].model_dump()), root)  # some are made of others
    if stage in ("pretrain", "benchmark_sorters"):
        return files_of("sorters", [params.sorters[key].name] if key in params.sorters else [], root)
    if stage in ("train", "evaluate"):
        run, files = params.runs[key], []
        for part, module in modules_of(params, run).items():
            if stage == "train" or part in EVALUATED:
                folder, _, name = module.partition(".")[2].rpartition(".")
                files += files_of(folder, [name], root)
        return files + (_judging([run.task], root) if stage in SCORES else [])
    if stage == "rivals":
        return files_of("tasks", [params.rivals[key].task] if key in params.rivals else [], root)
    if stage == "score_vectors":
        return []
    if key:
        raise ValueError(f"{stage}@{key}: say here which components the params name for this stage")
    tasks = [run.task for run in params.runs.values()]
    return files_of("tasks", tasks, root) + (_judging(tasks, root) if stage in SCORES else [])


def _all_components(params: Settings, root: Path) -> list[Path]:
    """Return the files of all components that params name."""
    names = set(words_of(params.model_dump())) - {NONE}
    named = [file for folder in FOLDERS for file in files_of(folder, names, root)]
    return named + _judging([run.task for run in params.runs.values()], root)


def lines_of(params: Settings, stage: str, key: str = "", *, root: Path = ROOT) -> list[str]:
    """Return a line for each file behind a stage, with its digest, and for each package that decides on results."""
    begin = [root / f"pipelines/stages/{stage}.py"]
    if stage == "check":  # which builds all that is named
        return _lines(behind(begin + _all_components(params, root), root=root, all_of=True), root)
    if stage == "publish":
        begin.append(root / "pipelines/serving/served_model.py")  # which MLflow runs
    return _lines(behind(begin + _components(params, stage, key, root), root=root), root)


def lines_of_script(params: Settings, file: Path, *, root: Path = ROOT) -> list[str]:
    """Return such lines of a script that is no stage of dvc.yaml: it may find all components that the params name."""
    return _lines(behind([file, *_all_components(params, root)], root=root), root)


def _lines(files: list[Path], root: Path) -> list[str]:
    lines = [f"{digest(file.read_bytes())}  {file.relative_to(root).as_posix()}" for file in files]
    used = packages(files)
    return lines + [f"{name} {_short(version(name))}" for name in RECORDED if name in used]


def _short(number: str) -> str:
    return ".".join(number.split(".")[:2])


def refuse_other_versions(recorded: Path) -> None:
    """Raise if a package that decides on results is here in another version than when the code was recorded.

    Raises:
        ValueError: the message says what to run.
    """
    for line in recorded.read_text().splitlines() if recorded.is_file() else ():
        if match := re.fullmatch(rf"({'|'.join(RECORDED)}) ([\d.]+)", line):
            name, before = match.groups()
            if (installed := _short(version(name))) != before:
                raise ValueError(
                    f"{name} is {installed} here and was {before} when {recorded} was written: `dvc repro --force "
                    f"code` records {installed}, and DVC makes again what depends on it; or install {before}"
                )
