"""What people read before they run anything: README, docs, examples, and the files that the repository's host reads."""

import doctest
import json
import re
import runpy
import sys
from pathlib import Path

import matplotlib
import pytest
from dvc.config import Config
from dvc_render import VegaRenderer
from dvc_render.html import render_html

from pipelines.cli.app import app
from pipelines.reporting import plots_page
from studies.pages import PLACES, page_of, text_of
from studies.pictures import PICTURES
from tools import gradients, reference, schema

from conftest import ROOT, done  # isort: skip

NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "studies/made").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page):
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", page.read_text())  # outside of code
    for link in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
        path, _, anchor = "".join(link).partition("#")
        if not path.startswith(("http://", "https://")):
            target = page.parent / path if path else page
            assert target.exists(), link
            if anchor:
                titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
                assert anchor in {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}, link


# What a shell is to be told: as code, after "run", after a colon and before the end of the sentence or a variable. In
# pages also at the start of a line, where Python may have prose.
WORDS = r"(?:\.venv/bin/)?(rankgrad|make) ([a-z][a-z-]*)"
IN_TEXT = rf"(?:`|[\"'] *|&& |\| |\b[Rr]un ){WORDS}|: {WORDS}(?=[.\"'`\n]| [A-Z]+=)"
IN_PAGE = rf"{IN_TEXT}|^[ >]*{WORDS}"


def test_each_command_that_a_page_or_a_message_names_exists():
    commands = {("rankgrad", registered.name or registered.callback.__name__) for registered in app.registered_commands}
    commands |= {
        ("make", target) for target in re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    }
    kept = done("git", "ls-files", "-z").split("\0")
    texts = [ROOT / file for file in kept if file.endswith((".md", ".py", ".yml", ".yaml", ".sh", ".ipynb", "file"))]
    named, missing = set(), []
    for path in texts:
        if path.name == "CHANGELOG.md" or path.is_relative_to(ROOT / "tests"):
            continue
        for match in re.finditer(IN_TEXT if path.suffix == ".py" else IN_PAGE, path.read_text(), re.MULTILINE):
            command = tuple(filter(None, match.groups()))
            named.add(command)
            if command not in commands:
                missing.append(f"{path.relative_to(ROOT)}: {' '.join(command)}")
    assert not missing
    assert {("make", "repro"), ("make", "deploy"), ("rankgrad", "init")} <= named


# Code, and what it prints if the page says so.
BLOCKS = [
    (page, *block)
    for page in (ROOT / "docs").glob("*.md")
    for block in re.findall(r"```python\n(.*?)```\n(?:```\n(.*?)```)?", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize(("page", "code", "expected"), BLOCKS, ids=lambda value: getattr(value, "name", ""))
def test_python_in_pages_runs_and_prints_what_they_say(page, code, expected, capsys):
    exec(compile(code, page.name, "exec"), {})
    assert capsys.readouterr().out == expected


def test_the_page_of_dvc_plots_has_its_library_inside(tmp_path):
    (tmp_path / ".dvc").mkdir()
    plots_page.write(tmp_path / ".dvc")
    page = tmp_path / ".dvc" / Config(str(tmp_path / ".dvc"))["plots"]["html_template"]
    assert not re.search(r"<(script|link)[^>]* (src|href)=", page.read_text())
    drawn = render_html([VegaRenderer([{"x": 1, "y": 2}], "a.csv", x="x", y="y")], tmp_path / "a.html", page)
    assert "vegaEmbed('#a_csv'" in Path(drawn).read_text()


def test_the_reference_is_that_of_the_docstrings(monkeypatch):
    monkeypatch.chdir(ROOT)
    texts = reference.pages()
    assert set(texts) == {path.relative_to(ROOT) for path in (ROOT / reference.FOLDER).rglob("*.md")}
    for path, text in texts.items():
        assert path.read_text() == text, f"{path}: run `make docs`"


REFERENCE = sorted((ROOT / reference.FOLDER).rglob("*.md"))


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_examples_of_the_reference_run_with_what_they_import(page):
    for text in re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL):
        example = doctest.DocTestParser().get_doctest(text, {}, page.stem, None, 0)
        doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(example)


def test_each_paper_that_the_reference_names_is_in_the_bibliography():
    author = r"[A-Z][\w-]+"
    cited = re.compile(rf"{author}(?: et\s+al\.| and\s+{author})?\s+(?:19|20)\d\d\b")
    titles = re.findall(r"^## (.+)$", (ROOT / reference.BIBLIOGRAPHY).read_text(), re.MULTILINE)
    for page in REFERENCE:
        for paper in cited.findall(page.read_text()):
            assert any(title.endswith(" ".join(paper.split())) for title in titles), f"{page.name}: {paper}"


@pytest.mark.parametrize(
    ("path", "draw", "digit"),
    [(gradients.PATH, gradients.text, 0.0011), *((path, draw, 0.11) for path, draw in PICTURES.items())],
    ids=[str(path) for path in (gradients.PATH, *PICTURES)],
)
def test_pictures_are_those_of_the_code(path, draw, digit):
    """But for the last digit, which differs between processors."""
    check_alike((ROOT / path).read_text(), draw(), digit)


def check_alike(text: str, other: str, digit: float) -> None:
    """Check that two texts differ in their numbers alone, and these by a digit at most."""
    assert NUMBER.sub("", text) == NUMBER.sub("", other)
    numbers, others = ([float(number) for number in NUMBER.findall(each)] for each in (text, other))
    assert numbers == pytest.approx(others, abs=digit)


@pytest.mark.parametrize("name", PLACES)
def test_a_page_shows_what_was_kept(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert f"<!-- results: {name} -->\n{text_of(name)}<!-- end of results -->" in page_of(name).read_text()


def test_the_schema_is_current_and_both_params_name_and_satisfy_it():
    assert (ROOT / schema.PATH).read_text() == schema.schema(), "run `python -m tools.schema`"
    files = [ROOT / "params.yaml", ROOT / "studies/params.yaml"]
    for path in files:
        reference = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())
        assert reference is not None
        assert (path.parent / reference[1]).resolve() == ROOT / schema.PATH
    done(sys.executable, "-m", "check_jsonschema", "--schemafile", ROOT / schema.PATH, *files)


class TestExamples:
    @pytest.mark.parametrize("name", ["spearman_regression", "label_ranking", "retrieval", "learning_to_rank"])
    def test_the_ranking_loss_beats_the_usual_one(self, name, capsys):
        runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        usual, *_, ours = (float(re.findall(r"[\d.]+(?=%| |$)", line)[-1]) for line in lines)
        assert ours > usual

    @pytest.mark.parametrize("path", (ROOT / "examples").glob("*.ipynb"), ids=lambda path: path.stem)
    def test_notebooks_run_and_print_what_they_show(self, path, capsys, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "examples")
        matplotlib.use("Agg")
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        stored = "".join("".join(output.get("text", [])) for cell in cells for output in cell["outputs"])
        exec(compile("\n".join("".join(cell["source"]) for cell in cells), path.name, "exec"), {})
        check_alike(capsys.readouterr().out, stored, 0.005)
