"""MkDocs calls this while it builds the site: a page for each loss, MathML, links out of docs/, examples."""

import ast
import csv
import html
import re
from functools import cache
from itertools import groupby
from pathlib import Path

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
SECTION = re.compile(r"^.*\(\.\./README\.md#[\w-]+\).*<!-- section: (\w+) -->$", re.MULTILINE)
DOCTEST = re.compile(r"\n\n(?=>>> )")
PACKAGE = re.compile(r"^::: (rankgrad\.\w+)$", re.MULTILINE)
ELSEWHERE = re.compile(
    r'<(?:script|img|iframe|source|link(?! rel="?canonical))\b[^>]*?(?:src|href)="?((?:https?:)?//[^" >]+)'
)
LOSSES, LOSS = "api/losses.md", re.compile(r"rankgrad\.losses\.(\w+)\.\1")
TRUTHS = ("target", "labels", "label_ranks", "positives")
GRADIENTS = Path("docs/gradients.csv")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of losses below their overview, and the version at the foot of every page."""
    version = re.search(r'__version__ = "(.+)"', Path("src/rankgrad/__init__.py").read_text())
    config.copyright = f"RankGrad {version[1]}"
    section = next(each["Library"] for each in config.nav if "Library" in each)
    index = next(index for index, page in enumerate(section) if LOSSES in page.values())
    section[index] = {"Losses": [LOSSES, *({name: f"api/losses/{name}.md"} for name in _losses())]}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Make the page of each loss."""
    for name in _losses():
        options = "{show_root_heading: true, show_root_toc_entry: true, heading_level: 1}"
        content = f"---\ntitle: {name}\n---\n\n::: rankgrad.losses.{name}.{name}\n    options: {options}\n"
        files.append(File.generated(config, f"api/losses/{name}.md", content=content))


def on_page_markdown(markdown: str, **_: object) -> str:
    """Prepare a page.

    A link to a section of the README becomes that section. Links to files of the repository become text: GitHub follows
    them, the site does not have them. A package of the library becomes its own text and each name that it exports.
    """
    markdown = OUTSIDE.sub(r"\1", SECTION.sub(r'--8<-- "README.md:\1"', markdown))
    return PACKAGE.sub(lambda match: _reference(match[1]), markdown)


@cache
def _losses() -> dict[str, tuple[str, str]]:
    """Return the kind of truth and the first line of each public loss by name, losses of a kind together."""
    losses = {}
    for name in _exported(Path("src/rankgrad/losses")):
        short = name.rpartition(".")[2]
        module = ast.parse(Path("src/rankgrad/losses", f"{short}.py").read_text())
        function = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == short)
        losses[short] = (function.args.args[1].arg, (ast.get_docstring(function) or "").partition("\n")[0])
    return dict(sorted(losses.items(), key=lambda loss: (TRUTHS.index(loss[1][0]), loss[0])))


def _exported(folder: Path) -> list[str]:
    """Return the names that a package takes from its modules, each with its module."""
    package = ".".join(folder.parts[1:])
    return [
        f"{statement.module}.{alias.name}"
        for statement in ast.parse((folder / "__init__.py").read_text()).body
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(f"{package}.")
        for alias in statement.names
    ]


def _reference(module: str) -> str:
    folder = Path("src", *module.split("."))
    if not folder.is_dir():
        return f"::: {module}"
    text = f"::: {module}\n    options: {{members: false}}\n"
    if module == "rankgrad.losses":
        rows = [f"| `{truth}` | [{name}](losses/{name}.md) | {asks} |" for name, (truth, asks) in _losses().items()]
        return "\n".join(["| truth | loss | what it asks for |", "|---|---|---|", *rows, "", text])
    names = sorted(_exported(folder), key=lambda name: name.rpartition(".")[2].lower())
    of_each = "\n    options: {show_root_heading: true, show_root_toc_entry: true}\n"
    return "\n".join([text, *(f"::: {name}{of_each}" for name in names)])


def on_page_content(html_: str, **_: object) -> str:
    """Replace each equation by MathML, which browsers show without a script."""
    return EQUATION.sub(lambda match: _mathml(html.unescape(match[2]), block=match[1] == "div"), html_)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that would load something from elsewhere."""
    if loaded := ELSEWHERE.search(output):
        raise ValueError(f"{page.file.src_uri} loads {loaded[1]}; keep such a file in docs/assets")
    return output


def _mathml(equation: str, *, block: bool) -> str:
    result = convert(equation, display="block" if block else "inline")
    if "\\" in html.unescape(re.sub("<[^>]+>", "", result)):
        raise ValueError(
            f"${equation}$: MathML lacks a command in it; write it as one such as \\operatorname{{argmax}}"
        )
    return result


class Doctests(griffe.Extension):
    """Give the examples at the end of a docstring their heading and imports, and a loss the picture of its gradient."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Insert them."""
        if not obj.docstring or "\nExamples:" in obj.docstring.value:
            return
        text, *examples = DOCTEST.split(obj.docstring.value)
        if loss := LOSS.fullmatch(obj.path):
            before, arguments, after = text.partition("\n\nArgs:")
            text = before + _gradient(loss[1]) + arguments + after
            first = "" if "import torch" in examples[0] else ">>> import torch\n"
            examples[0] = f"{first}>>> from rankgrad.losses import {loss[1]}\n{examples[0]}"
        if examples:
            block = "\n\n".join(examples).replace("\n", "\n    ")
            obj.docstring.value = f"{text}\n\nExamples:\n    {block}"


@cache
def _gradients() -> dict[str, list[dict[str, str]]]:
    with GRADIENTS.open() as file:
        return {name: list(rows) for name, rows in groupby(csv.DictReader(file), lambda row: row["loss"])}


def _gradient(loss: str) -> str:
    """Return a picture of five scores, the most important on top, with an arrow where the gradient moves each."""
    if loss not in _gradients():
        raise ValueError(f"{GRADIENTS}: no row of {loss}; run `python -m tools.gradients`")
    rows = sorted(_gradients()[loss], key=lambda row: -float(row["truth"]))
    largest = max(abs(float(row["gradient"])) for row in rows) or 1.0
    kind, value, shapes = rows[0]["kind"], rows[0]["value"], []
    for number, row in enumerate(rows):
        x, y, step = 145 + 72 * float(row["score"]), 50 + 30 * number, -60 * float(row["gradient"]) / largest
        shapes.append(f'<text x="5" y="{y + 5}">{row["truth"]}</text><circle cx="{x:.0f}" cy="{y}" r="5"/>')
        shapes.append(f'<text x="395" y="{y + 5}" text-anchor="end">{row["gradient"]}</text>')
        if abs(step) > 2:
            end, head = x + step, 7 if step > 0 else -7
            shapes.append(f'<path class="arrow" d="M{x:.0f} {y}H{end - head:.0f}"/>')
            shapes.append(f'<path class="head" d="M{end:.0f} {y}l{-head} -5v10z"/>')
    titles = f'<text x="5" y="20">{kind}</text><text x="180" y="20">score</text>'
    titles += '<text x="395" y="20" text-anchor="end">gradient</text><path class="line" d="M5 30H395"/>'
    caption = (
        f"Five scores, in the order that they should have; the loss is {value}. Arrows show where a step against the "
        "gradient moves them."
    )
    label = f"{loss}: gradients of five scores"
    picture = f'<svg viewBox="0 0 400 190" role="img" aria-label="{label}">{titles}{"".join(shapes)}</svg>'
    return f'\n\n<figure class="gradient">{picture}<figcaption>{caption}</figcaption></figure>'
