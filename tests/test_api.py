"""The library as one types it: flat names, each loaded when it is named, whatever was imported before."""

import importlib
import pickle
import pydoc
import sys
import tomllib

import pytest

import rankops
from rankops import lookup
from tools.stubs import stub

from conftest import ROOT, done  # isort: skip


def loaded_by(code: str) -> set[str]:
    """The project's modules that are loaded after a program, in a process of its own."""
    names = done(sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)", PYTHONPATH=ROOT / "src")
    return {name for name in names.split() if name.startswith("rankops")}


@pytest.mark.parametrize("first", [
    "",
    "import rankops.losses.spearman",
    "from rankops.losses.spearman import spearman",
    "import rankops.losses; rankops.losses.spearman; rankops.losses.spearman",
    "import rankops; rankops.losses.spearman",
    "import importlib; importlib.import_module('rankops.losses.spearman')",
])  # fmt: skip
def test_a_name_is_its_function_whatever_came_before_and_no_other_file_is_loaded(first):
    lazy = loaded_by("import rankops, rankops.losses, rankops.metrics, rankops.sorters\ndir(rankops.losses)")
    assert lazy == {"rankops", "rankops.lookup", *(f"rankops.{folder}" for folder in lookup.FLAT)}
    modules = loaded_by(f"""{first}
import rankops.losses
from rankops.losses import spearman
from rankops.losses.spearman import spearman as again
assert spearman is again is rankops.losses.spearman and callable(spearman)
assert sys.modules["rankops.losses.spearman"].spearman is spearman""")
    files = {name for name in modules if name.startswith(("rankops.losses.", "rankops.sorters."))}
    assert files == {"rankops.losses.spearman", "rankops.losses.inputs", "rankops.sorters.base"}


@pytest.mark.parametrize("folder", lookup.FLAT)
def test_a_package_shows_its_public_names_alone_and_each_is_there_and_pickles(folder):
    package = importlib.import_module(f"rankops.{folder}")
    names = dir(package)
    assert names == package.__all__ == sorted(names)
    for name in lookup.names(folder):
        assert lookup.module(folder, name).__all__ == [n for n in lookup.module(folder, name).__all__ if n in names]
    for name in names:
        thing = getattr(package, name)
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert thing.__doc__, name
    known = (ROOT / f"src/rankops/{folder}/__init__.pyi").read_text()  # to editors; `make lint` adds new files
    assert set(known.splitlines()) <= set(stub(folder).splitlines())
    assert len(known.splitlines()) > 5
    text = pydoc.render_doc(package, renderer=pydoc.plaintext)
    assert all(name in text for name in names)
    with pytest.raises(AttributeError, match=rf"no '{names[0]}s' in rankops.{folder}; did you mean {names[0]}\?"):
        getattr(package, f"{names[0]}s")


def test_the_package_shows_its_folders_and_one_version():
    assert set(dir(rankops)) >= {"losses", "metrics", "ranks", "sorters", "__version__"}
    assert all(hasattr(rankops, name) for name in dir(rankops))
    with pytest.raises(AttributeError, match="no 'loses' in rankops"):
        rankops.loses  # noqa: B018
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/rankops/__init__.py"
