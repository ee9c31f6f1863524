"""Find the code behind each stage by following imports, and compute a digest of each file that ignores its wording.

A stage depends on its own file, on the components that its params name (see `pipelines.config.plan.modules_of`), and on
everything these import. Stages that score predictions also depend on `own/metrics`. A digest covers
the syntax without comments, docstrings, and the arguments of a `raise`, so changing them retrains nothing.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.config import Settings
from pipelines.config.plan import modules_of
from pipelines.config.schema import NONE
from rankgrad import lookup

__all__ = ["EXEMPT", "behind", "digest", "files_of", "lines_of", "packages", "refuse_other_versions", "words_of"]

ROOT = Path(__file__).parents[1]
LIBRARY = lookup.__name__.partition(".")[0]
# Files that change no result; their imports are not followed either.
EXEMPT = (
    f"src/{LIBRARY}/lookup.py",  # finds files by name
    f"src/{LIBRARY}/io/atomic.py",  # replaces files
    f"src/{LIBRARY}/io/addresses.py",
    "pipelines/code.py",
    "pipelines/config/errors.py",
    "pipelines/config/rules.py",  # rejects params, but changes none
    "pipelines/config/scales.py",
    "pipelines/ops",
    "pipelines/running",  # progress, messages, and the storage of states
)
# Packages whose versions (major and minor) affect results.
RECORDED = ("timm", "torch", "torchvision", "transformers")
FINDERS = ("build", "find", "made", "module")  # functions that take a folder and the name of a component in it
FOLDERS = ("datasets", "inputs", "losses", "models", "models.backbones", "models.heads", "sorters", "tasks")
# Calls in tasks that take only a name: of a network, or of the captions' backbone if params name none.
DEFAULTS = {"network_of": "models", "Component": "models.backbones"}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
EVALUATED = ("task", "head", "backbone", "text")  # the parts of a run that evaluation uses
SCORES = ("compare", "evaluate", "publish", "report")  # stages that score predictions, or show metrics
WHOLE = ("inputs",)  # folders whose components depend on the data, not on params


class _Plain(ast.NodeTransformer):
    """Removes docstrings and the arguments of errors from the syntax, which only people read."""

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(exc=error, cause=None)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, DOCUMENTED) and _is_text(node.body):
            node.body = node.body[1:]
        return super().generic_visit(node)


def _is_text(nodes: list[ast.stmt]) -> bool:
    """Return whether the first statement is a docstring."""
    return bool(nodes) and isinstance(nodes[0], ast.Expr) and isinstance(getattr(nodes[0].value, "value", None), str)


@cache
def digest(source: bytes) -> str:
    """Return a digest of Python source by its syntax, see above."""
    return sha256(ast.dump(_Plain().visit(ast.parse(source))).encode()).hexdigest()[:32]


@cache
def _used_by(source: bytes) -> frozenset[str]:
    """Return the modules that Python source uses, also inside functions, but not those only for type checkers."""
    modules: set[str] = set()
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
        elif isinstance(node, ast.Call):
            modules |= _found_by(node)
        waiting += ast.iter_child_nodes(node)
    return frozenset(modules)


def _text(node: ast.AST | None) -> str:
    """Return the text of a string constant, else ""."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _found_by(call: ast.Call) -> set[str]:
    """Return the modules that a call may find: of a constant name, or all of a folder in `WHOLE`; none by others."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    folder, name, *_ = [*map(_text, call.args[:2]), "", ""]
    if function in DEFAULTS:
        folder, name = DEFAULTS[function], folder
    elif function not in FINDERS or folder not in FOLDERS:
        return set()
    names = lookup.names(folder) if folder in WHOLE and not name else filter(None, [name])
    return {f"{LIBRARY}.{folder}.{name}" for name in names}


@cache
def _exported(source: bytes) -> dict[str, str]:
    """Return the module from which a package's file imports each name."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{node.module}:{alias.name}" for node in nodes for alias in node.names}


def _file_of(module: str, root: Path) -> Path | None:
    """Return the file of a module of this project; for `package:name`, the file of the name if it has its own."""
    module, _, name = module.partition(":")
    if name and (file := _file_of(f"{module}.{name}", root)) is not None:
        return file
    folder = (root / "src" if module.partition(".")[0] == LIBRARY else root) / module.replace(".", "/")
    if folder.with_suffix(".py").is_file():
        return folder.with_suffix(".py")
    package = folder / "__init__.py"
    if not package.is_file():
        return None
    exported = _exported(package.read_bytes())
    return _file_of(exported[name], root) if name in exported else package


def behind(files: Iterable[Path], *, root: Path = ROOT, all_of: bool = False) -> list[Path]:
    """Return all files of this project that some files use, including themselves, sorted.

    Args:
        files: the files to start with.
        root: the project's root; modules outside it are not followed.
        all_of: also follow exempt files.
    """
    seen, waiting = set(), [*files]
    while waiting:
        file = waiting.pop()
        path = file.relative_to(root).as_posix()
        if file in seen or (path.startswith(EXEMPT) and not all_of):
            continue
        seen.add(file)
        for module in _used_by(file.read_bytes()):
            # The root may itself be a package, as studies is.
            module_file = _file_of(module, root) or _file_of(module, root.parent)
            if module_file is not None and module_file.is_relative_to(root):
                waiting.append(module_file)
    return sorted(seen)


def files_of(folder: str, names: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Return the files of the components with these names in a folder of the package or of `own`."""
    tops = [root / "src" / LIBRARY, *([root / lookup.OWN] if folder in lookup.OWN_FOLDERS else [])]
    names, files = set(names), list[Path]()
    for top in tops:
        components = sorted((top / folder.replace(".", "/")).glob("[!_]*.py"))
        files += [file for file in components if file.stem in names]
    return files


def _own_metrics(root: Path) -> list[Path]:
    """Return the files of `own/metrics`: which tasks they evaluate is known only once they are imported."""
    return sorted((root / lookup.OWN / "metrics").glob("[!_]*.py"))


def packages(files: Iterable[Path]) -> set[str]:
    """Return the top-level names of the other packages that files import."""
    names = set[str]()
    for file in files:
        names |= {re.split("[.:]", module)[0] for module in _used_by(file.read_bytes())}
    return names - {LIBRARY, "pipelines", lookup.OWN}


def words_of(value: Any) -> Iterator[str]:
    """Yield all text in a block of params except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from words_of(inner)


def _components(params: Settings, stage: str, key: str, root: Path) -> list[Path]:
    """Return the files of the components that params name for a stage; `check` reports unknown names."""
    if stage in ("data", "validate"):
        return files_of("datasets", words_of(params.datasets[key].model_dump()), root)  # some use others
    if stage in ("pretrain", "benchmark_sorters"):
        return files_of("sorters", [params.sorters[key].name] if key in params.sorters else [], root)
    if stage == "rivals":
        return files_of("tasks", [params.rivals[key].task] if key in params.rivals else [], root)
    if stage == "score_vectors":
        return []
    files = list[Path]()
    if stage in ("train", "evaluate"):
        for part, module in modules_of(params, params.runs[key]).items():
            if stage == "train" or part in EVALUATED:
                folder, _, name = module.partition(".")[2].rpartition(".")
                files += files_of(folder, [name], root)
    elif key:
        raise ValueError(f"{stage}@{key}: add to `_components` which components the params name for this stage")
    else:
        files = files_of("tasks", [run.task for run in params.runs.values()], root)
    return files + (_own_metrics(root) if stage in SCORES else [])


def _all_components(params: Settings, root: Path) -> list[Path]:
    """Return the files of all components that the params name."""
    names = set(words_of(params.model_dump())) - {NONE}
    named = [file for folder in FOLDERS for file in files_of(folder, names, root)]
    return named + _own_metrics(root)


def lines_of(params: Settings, stage: str, key: str = "", *, root: Path = ROOT) -> list[str]:
    """Return a line with a digest for each file behind a stage, and a line for each package that affects results."""
    begin = [root / f"pipelines/stages/{stage}.py"]
    if stage == "check":  # it builds everything that params name
        return _lines(behind(begin + _all_components(params, root), root=root, all_of=True), root)
    if stage == "publish":
        begin.append(root / "pipelines/serving/served_model.py")  # MLflow runs it
    return _lines(behind(begin + _components(params, stage, key, root), root=root), root)


def lines_of_script(params: Settings, file: Path, *, root: Path = ROOT) -> list[str]:
    """Return such lines for a script that is not a stage of dvc.yaml, which may use any component in the params."""
    return _lines(behind([file, *_all_components(params, root)], root=root), root)


def _lines(files: list[Path], root: Path) -> list[str]:
    lines = [f"{digest(file.read_bytes())}  {file.relative_to(root).as_posix()}" for file in files]
    used = packages(files)
    return lines + [f"{name} {_short(version(name))}" for name in RECORDED if name in used]


def _short(number: str) -> str:
    return ".".join(number.split(".")[:2])


def refuse_other_versions(recorded: Path) -> None:
    """Raise if a package that affects results has a different version than when the code was recorded.

    Raises:
        ValueError: the message says what to run.
    """
    for line in recorded.read_text().splitlines() if recorded.is_file() else ():
        if match := re.fullmatch(rf"({'|'.join(RECORDED)}) ([\d.]+)", line):
            name, before = match.groups()
            if (installed := _short(version(name))) != before:
                raise ValueError(
                    f"{name} is {installed} here, but was {before} when {recorded} was written. Install {before}, or "
                    f"run `dvc repro --force code` to record {installed}; DVC then reruns what depends on it"
                )
