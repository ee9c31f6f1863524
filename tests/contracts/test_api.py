"""The library as one types it: flat names, whatever was imported before."""

import importlib
import inspect
import pickle
import sys

import pytest
import torch

import rankgrad
from rankgrad import lookup

from conftest import ROOT, done  # isort: skip


def test_a_name_is_its_function_whatever_came_before():
    code = """
import sys, rankgrad.losses.spearman, rankgrad.losses
assert rankgrad.losses.spearman is sys.modules["rankgrad.losses.spearman"].spearman
from rankgrad.losses import spearman
from rankgrad.losses.spearman import spearman as again
assert spearman is again is rankgrad.losses.spearman and callable(spearman)"""
    done(sys.executable, "-c", code, PYTHONPATH=ROOT / "src")


@pytest.mark.parametrize("folder", ["losses", "metrics", "sorters"])
def test_a_package_exports_every_file_and_each_name_is_there_and_pickles(folder):
    package = importlib.import_module(f"rankgrad.{folder}")
    names = package.__all__
    assert len(names) == len(set(names))
    for name in lookup.names(folder):
        assert set(lookup.module(folder, name).__all__) <= set(names), f"export {name} in rankgrad/{folder}/__init__.py"
    for name in names:
        exported = getattr(package, name)
        assert pickle.loads(pickle.dumps(exported)) is exported
        assert exported.__doc__, name


def test_the_package_shows_its_folders():
    assert set(dir(rankgrad)) >= {"losses", "metrics", "ranks", "sorters", "__version__"}
    assert all(hasattr(rankgrad, name) for name in dir(rankgrad))
    with pytest.raises(AttributeError, match="no attribute 'loses'"):
        rankgrad.loses  # noqa: B018


@pytest.mark.parametrize(
    ("place", "old", "new"), [(place, *pair) for place, names in lookup.RENAMED.items() for pair in names.items()]
)
def test_an_old_name_is_refused_and_the_new_one_is_there(place, old, new):
    folder, _, function = place.partition(".")
    module = importlib.import_module(f"rankgrad.{folder}")
    message = f"{old} was renamed to {new}"
    if function:
        with pytest.raises(TypeError, match=message):
            getattr(module, function)(torch.zeros(2), torch.ones(2), **{old: 1})
        assert new in inspect.signature(getattr(module, function)).parameters
        return
    with pytest.raises(ImportError, match=message):
        exec(f"from rankgrad.{folder} import {old}")
    assert callable(getattr(module, new))
    assert old not in module.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018
