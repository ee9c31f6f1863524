"""MkDocs calls this while it builds the site: pages of losses in the menu, MathML, links out of docs/, gradients."""

import csv
import html
import re
from functools import cache
from itertools import groupby
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
SECTION = re.compile(r"^.*\(\.\./README\.md#[\w-]+\).*<!-- section: (\w+) -->$", re.MULTILINE)
INLINE = re.compile(r"\$`([^`]+)`\$")
ELSEWHERE = re.compile(
    r'<(?:script|img|iframe|source|link(?! rel="?canonical))\b[^>]*?(?:src|href)="?((?:https?:)?//[^" >]+)'
)
LOSSES, LOSS = "api/losses.md", re.compile(r"api/losses/(\w+)\.md")
GRADIENTS = Path("docs/gradients.csv")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of losses below their overview, and the version at the foot of every page."""
    version = re.search(r'__version__ = "(.+)"', Path("src/rankgrad/__init__.py").read_text())
    config.copyright = f"RankGrad {version[1]}"
    section = next(each["Library"] for each in config.nav if "Library" in each)
    index = next(index for index, page in enumerate(section) if LOSSES in page.values())
    names = dict.fromkeys(re.findall(r"\]\(losses/(\w+)\.md\)", Path("docs", LOSSES).read_text()))
    section[index] = {"Losses": [LOSSES, *({name: f"api/losses/{name}.md"} for name in names)]}


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Prepare a page.

    A link to a section of the README becomes that section. Links to files of the repository become text: GitHub follows
    them, the site does not have them. Equations lose the backquotes that code hosts need. The page of a loss gets the
    picture of its gradient.
    """
    markdown = OUTSIDE.sub(r"\1", SECTION.sub(r'--8<-- "README.md:\1"', markdown))
    markdown = INLINE.sub(r"$\1$", markdown)
    if loss := LOSS.fullmatch(page.file.src_uri):
        markdown = markdown.replace("**Arguments**", f"{_gradient(loss[1])}\n\n**Arguments**", 1)
    return markdown


def on_page_content(html_: str, **_: object) -> str:
    """Replace each equation by MathML, which browsers show without a script."""
    return EQUATION.sub(lambda match: _mathml(html.unescape(match[2]), block=match[1] == "div"), html_)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that would load something from elsewhere, and the page of a loss without equation or picture."""
    if loaded := ELSEWHERE.search(output):
        raise ValueError(f"{page.file.src_uri} loads {loaded[1]}; keep such a file in docs/assets")
    if LOSS.fullmatch(page.file.src_uri) and not ("<math" in output and "<svg viewBox" in output):
        raise ValueError(f"{page.file.src_uri}: no equation or no picture of its gradient; expected both")
    return output


def _mathml(equation: str, *, block: bool) -> str:
    result = convert(equation, display="block" if block else "inline")
    if "\\" in html.unescape(re.sub("<[^>]+>", "", result)):
        raise ValueError(
            f"${equation}$: MathML lacks a command in it; write it as one such as \\operatorname{{argmax}}"
        )
    return result


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
    return f'<figure class="gradient">{picture}<figcaption>{caption}</figcaption></figure>'
