"""What MkDocs calls while it builds the site: MathML for equations, links out of docs/, public names, examples."""

import ast
import html
import re
from pathlib import Path

import griffe
from latex2mathml.converter import convert

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
SECTION = re.compile(r"^.*\(\.\./README\.md#[\w-]+\).*<!-- section: (\w+) -->$", re.MULTILINE)
DOCTEST = re.compile(r"\n\n(?=>>> )")
PACKAGE = re.compile(r"^::: (rankops\.\w+)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Prepare a page.

    A link to a section of the README becomes that section. Links to files of the repository become text: GitHub follows
    them, the site does not have them. A package of the library becomes its own text and each name that it exports.
    """
    markdown = OUTSIDE.sub(r"\1", SECTION.sub(r'--8<-- "README.md:\1"', markdown))
    return PACKAGE.sub(lambda match: _reference(match[1]), markdown)


def _reference(module: str) -> str:
    folder = Path("src", *module.split("."))
    if not folder.is_dir():
        return f"::: {module}"
    names = [
        f"{statement.module}.{alias.name}"
        for statement in ast.parse((folder / "__init__.py").read_text()).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    names.sort(key=lambda name: name.rpartition(".")[2].lower())
    of_each = "\n    options: {show_root_heading: true, show_root_toc_entry: true}\n"
    return "\n".join([f"::: {module}\n    options: {{members: false}}\n", *(f"::: {name}{of_each}" for name in names)])


def on_page_content(html_: str, **_: object) -> str:
    """Replace each equation by MathML, which browsers show without a script."""
    return EQUATION.sub(lambda match: _mathml(html.unescape(match[2]), block=match[1] == "div"), html_)


def _mathml(equation: str, *, block: bool) -> str:
    result = convert(equation, display="block" if block else "inline")
    if "\\" in html.unescape(re.sub("<[^>]+>", "", result)):
        raise ValueError(
            f"${equation}$: MathML lacks a command in it; write it as one such as \\operatorname{{argmax}}"
        )
    return result


class Doctests(griffe.Extension):
    """Give the examples at the end of a docstring the heading that makes them a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Insert the heading."""
        if obj.docstring and "\nExamples:" not in obj.docstring.value:
            text, *examples = DOCTEST.split(obj.docstring.value)
            if examples:
                block = "\n\n".join(examples).replace("\n", "\n    ")
                obj.docstring.value = f"{text}\n\nExamples:\n    {block}"
