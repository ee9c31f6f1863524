"""What people install: the source distribution, and the wheel that their installer builds from it."""

import re
import sys
import zipfile

import pytest

from rankgrad import __version__

from conftest import ROOT, done, git  # isort: skip

BUILT = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def test_a_wheel_built_from_the_source_distribution_has_the_package_as_git_has_it(tmp_path):
    source = done(sys.executable, "-c", BUILT, "build_sdist", tmp_path)
    done("tar", "--extract", "--file", tmp_path / source, "--directory", tmp_path)
    folder = tmp_path / source.removesuffix(".tar.gz")
    for stray in (".env.local", "kaggle.json", "notes.txt", "models/pretrained/kaggle.json"):  # beside the code
        (folder / "src/rankgrad" / stray).touch()
    wheel = tmp_path / done(sys.executable, "-c", BUILT, "build_wheel", tmp_path, folder=folder)
    kept = git("-C", str(ROOT / "src"), "ls-files", "--cached", "--others", "--exclude-standard", "rankgrad").split()
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
        file.extractall(tmp_path / "installed")
    assert packed == {name for name in kept if (ROOT / "src" / name).exists()}
    # Its dependencies are here, and nothing else of the checkout.
    readme = (ROOT / "README.md").read_text()
    ((example, answer),) = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", readme, re.DOTALL)
    example += "import importlib.metadata; print(rankgrad.__file__, importlib.metadata.version('rankgrad'))"
    printed = done(sys.executable, "-c", f"import rankgrad\n{example}", PYTHONPATH=str(tmp_path / "installed"))
    assert printed == f"{answer}{tmp_path}/installed/rankgrad/__init__.py {__version__}"


KUBERNETES = ("deploy/kubernetes/job-template.json", "deploy/kubernetes/kustomization.yaml")


@pytest.mark.parametrize("path", ["README.md", "CITATION.cff", "compose.yaml", *KUBERNETES])
def test_one_version_stands_everywhere(path):
    versions = re.findall(
        r"(?:^version: |rankgrad:|newTag: |^`rankgrad` )(\d[\w.]*)", (ROOT / path).read_text(), re.MULTILINE
    )
    assert set(versions) == {__version__}
