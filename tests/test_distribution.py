"""What people install: the source distribution, and the wheel that their installer builds from it."""

import sys
import tarfile
import zipfile

from rankops import __version__

from conftest import ROOT, done, git  # isort: skip

BUILT = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def test_a_wheel_built_from_the_source_distribution_has_the_package_as_git_has_it(tmp_path):
    source = done(sys.executable, "-c", BUILT, "build_sdist", tmp_path)
    done("tar", "--extract", "--file", tmp_path / source, "--directory", tmp_path)
    folder = tmp_path / source.removesuffix(".tar.gz")
    for stray in (".env.local", "kaggle.json", "notes.txt", "models/pretrained/kaggle.json"):  # beside the code
        (folder / "src/rankops" / stray).touch()
    done(sys.executable, "-c", BUILT, "build_sdist", tmp_path / "again", folder=folder)
    with tarfile.open(tmp_path / source) as first, tarfile.open(tmp_path / "again" / source) as again:
        assert sorted(set(again.getnames())) == sorted(set(first.getnames()))
    wheel = tmp_path / done(sys.executable, "-c", BUILT, "build_wheel", tmp_path, folder=folder)
    kept = git("-C", str(ROOT / "src"), "ls-files", "--cached", "--others", "--exclude-standard", "rankops").split()
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in kept if (ROOT / "src" / name).exists()}
    code = "import rankops, rankops.lookup; print(rankops.__file__, rankops.__version__)"
    assert (
        done(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=wheel)
        == f"{wheel}/rankops/__init__.py {__version__}"
    )
