"""What people install: the source distribution, and the wheel that their installer builds from it."""

import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rankgrad import __version__

from conftest import ROOT, done, git  # isort: skip

README = ROOT / "README.md"
DEPLOYED = ("kubernetes/job-template.json", "kubernetes/kustomization.yaml")
BUILT = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def test_a_wheel_built_from_the_source_distribution_has_the_package_as_git_has_it(tmp_path):
    source = done(sys.executable, "-c", BUILT, "build_sdist", tmp_path)
    done("tar", "--extract", "--file", tmp_path / source, "--directory", tmp_path)
    folder = tmp_path / source.removesuffix(".tar.gz")
    for stray in (".env.local", "kaggle.json", "notes.txt", "models/pretrained/kaggle.json"):  # beside the code
        (folder / "src/rankgrad" / stray).touch()
    done(sys.executable, "-c", BUILT, "build_sdist", tmp_path / "again", folder=folder)
    with tarfile.open(tmp_path / source) as first, tarfile.open(tmp_path / "again" / source) as again:
        assert sorted(set(again.getnames())) == sorted(set(first.getnames()))
    wheel = tmp_path / done(sys.executable, "-c", BUILT, "build_wheel", tmp_path, folder=folder)
    kept = git("-C", str(ROOT / "src"), "ls-files", "--cached", "--others", "--exclude-standard", "rankgrad").split()
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in kept if (ROOT / "src" / name).exists()}
    python = tmp_path / "empty/bin/python"
    done(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty")
    done(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    code = "import rankgrad, importlib.metadata as m; print(rankgrad.__file__, m.version('rankgrad'))"
    printed = done(python, "-c", code, folder=tmp_path)
    assert Path(printed.split()[0]).is_relative_to(tmp_path / "empty")
    assert printed.split()[1] == __version__
    # Its dependencies are here, and nothing else of the checkout.
    ((example, answer),) = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", README.read_text(), re.DOTALL)
    site_packages = [path for path in sys.path if path.endswith("site-packages")]
    assert done(python, "-c", example, folder=tmp_path, PYTHONPATH=":".join(site_packages)) == answer.strip()


@pytest.mark.parametrize("path", ["CITATION.cff", "compose.yaml", *(f"deploy/{file}" for file in DEPLOYED)])
def test_one_version_stands_everywhere(path):
    versions = re.findall(r"(?:^version: |rankgrad:|newTag: )(\d[\w.]*)", (ROOT / path).read_text(), re.MULTILINE)
    assert set(versions) == {__version__}


def test_a_package_has_one_range_of_versions_and_the_lock_keeps_to_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    locked = dict(re.findall(r"^([\w.-]+)==([\w.+]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    ranges: dict[str, set] = {}
    for named in (project["project"]["dependencies"], *extras.values(), groups["dev"]):
        for requirement in map(Requirement, named):
            ranges.setdefault(requirement.name, set()).add(requirement.specifier)
            if requirement.name in locked:
                assert locked[requirement.name] in requirement.specifier, requirement
    assert {"timm", "transformers"} <= ranges.keys() & locked.keys()
    assert [name for name, specifiers in ranges.items() if len(specifiers) > 1] == []


def test_the_readme_says_what_is_installed_and_what_it_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    torch = next(need for need in project["dependencies"] if need.startswith("torch"))
    needs = f"Python {project['requires-python'].strip('>=')} or later, PyTorch {torch.strip('torch>=')} or later"
    assert f"`{project['name']}` {__version__} (beta): {needs}" in README.read_text()
