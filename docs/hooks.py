"""What MkDocs calls while it builds the site: MathML for equations, links out of docs/, examples in docstrings."""

import html
import re

import griffe
from latex2mathml.converter import convert

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
DOCTEST = re.compile(r"\n\n(?=>>> )")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Show links to files of the repository, which GitHub follows and the site does not have, as text."""
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html_: str, **_: object) -> str:
    """Replace each equation by MathML, which browsers show without a script."""
    return EQUATION.sub(
        lambda match: convert(html.unescape(match[2]), display="block" if match[1] == "div" else "inline"), html_
    )


class Doctests(griffe.Extension):
    """Give the examples at the end of a docstring the heading that makes them a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Insert the heading."""
        if obj.docstring and "\nExamples:" not in obj.docstring.value:
            text, *examples = DOCTEST.split(obj.docstring.value)
            if examples:
                block = "\n\n".join(examples).replace("\n", "\n    ")
                obj.docstring.value = f"{text}\n\nExamples:\n    {block}"
