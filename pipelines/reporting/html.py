"""Tables and pictures as Markdown and as one HTML page, which needs no network."""

import re
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pandas as pd

__all__ = ["Section", "markdown", "page"]


class Section(NamedTuple):
    """What stands below a title; pictures by paths relative to the page."""

    text: str
    table: pd.DataFrame
    pictures: tuple[Path, ...] = ()


# Figures with their signs, intervals, deviations and units; nothing that a sentence has.
NUMBER = re.compile(r"[-+−]?\d(?:[\d\s.,()%±+−-]|e(?=[-+\d])|to |nan)*")
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --faint: #5c636b; --line: #d8dce0; --band: #f4f6f8;
  --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e4e7ea; --faint: #9ba3ab; --line: #363c42;
  --band: #1d2125; --link: #8ab8f0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main { max-width: 76rem; margin: 0 auto; padding: 1rem clamp(0.75rem, 3vw, 2rem) 3rem; }
h1 { margin: 0.5rem 0; font-size: 1.75rem; line-height: 1.2; }
h2 { margin: 2.5rem 0 0.5rem; font-size: 1.25rem; line-height: 1.3; scroll-margin-top: 0.5rem; }
p { max-width: 46rem; margin: 0.5rem 0 0.75rem; }
a { color: var(--link); }
code { font-family: ui-monospace, monospace; font-size: 0.9em; }
nav ul { margin: 1rem 0 0; padding: 0.6rem 0 0; border-top: 1px solid var(--line); columns: 16rem; list-style: none; }
nav a { display: inline-block; padding: 0.15rem 0; text-decoration: none; }
nav a:hover, nav a:focus { text-decoration: underline; }
.table { overflow-x: auto; border: 1px solid var(--line); border-radius: 0.4rem; }
table { width: 100%; border-collapse: collapse; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
thead th { vertical-align: bottom; background: var(--band); line-height: 1.25; }
tbody th { font-weight: 600; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
td:not(.number) { min-width: 10rem; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.pictures { display: grid; gap: 1.25rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; min-width: 0; }
img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 0.4rem; }
figcaption { margin-top: 0.3rem; color: var(--faint); font-size: 0.85rem; }
@media print {
  @page { margin: 12mm; }
  :root { color-scheme: light; --paper: #fff; --ink: #000; --faint: #000; --line: #999; --band: #fff; --link: #000; }
  nav { display: none; }
  main { max-width: none; padding: 0; }
  body { font-size: 10pt; }
  .table { overflow: visible; border: 0; }
  table { font-size: 7pt; }
  th, td { padding: 0.6mm 0.7mm; }
  td.number, tbody th { white-space: normal; }
  td:not(.number) { min-width: 0; }
  tbody th { min-width: 16mm; overflow-wrap: anywhere; }
  thead { display: table-header-group; }
  tr, figure { break-inside: avoid; }
  h2, h2 + p { break-after: avoid; }
  .pictures { display: block; }
  figure { margin: 0 0 6mm; }
  img { max-height: 230mm; }
}
"""


def markdown(sections: dict[str, Section]) -> str:
    """Each section's title and text, and its table, without pictures.

    >>> print(markdown({"Sorters": Section("On the test set.", pd.DataFrame({"sorter": ["lstm"], "L1": [0.02]}))}))
    **Sorters.** On the test set.
    <BLANKLINE>
    | sorter | L1 |
    | --- | --- |
    | lstm | 0.02 |
    <BLANKLINE>
    """
    parts = []
    for title, (text, table, _) in sections.items():
        cells = [table.columns, *table.itertuples(index=False)]
        lines = [" | ".join(str(value).replace("|", r"\|") for value in row) for row in cells]
        lines.insert(1, " | ".join("---" for _ in table.columns))
        parts.append(f"**{title}.** {text}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    return "\n".join(parts)


def page(title: str, text: str, sections: dict[str, Section], *, links: dict[str, str] | None = None) -> str:
    """The same with its pictures as one HTML page with a table of contents.

    `links` lead to other pages. For phones (wide tables scroll by themselves), for print, light and dark; columns of
    numbers stand to the right.

    >>> runs = Section("", pd.DataFrame({"run": ["a"], "L1": [0.02]}), (Path("a.png"),))
    >>> text = page("Runs", "All of them.", {"One & two": runs})
    >>> '<a href="#one-two">One &amp; two</a>' in text, '<td class="number">0.02</td>' in text, 'src="a.png"' in text
    (True, True, True)
    """
    anchors = _anchors(list(sections))
    body = []
    for name, (said, table, shown) in sections.items():
        body += [f'<h2 id="{anchors[name]}">{escape(name)}</h2>', f"<p>{_with_code(said)}</p>", _table(name, table)]
        body += _pictures(shown)
    places = {name: f"#{anchors[name]}" for name in sections} | {name: quote(to) for name, to in (links or {}).items()}
    listed = "".join(f'<li><a href="{place}">{_with_code(name)}</a></li>' for name, place in places.items())
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(title)}</h1>\n<p>{_with_code(text)}</p>",
            *([f'<nav aria-label="Contents"><ul>{listed}</ul></nav>'] if listed else []),
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _pictures(paths: tuple[Path, ...]) -> list[str]:
    """A grid of pictures, with what they are of below; nothing for none."""
    if not paths:
        return []
    figures = []
    for path in paths:
        source, name = quote(path.as_posix()), escape(_caption(path))
        figures.append(f'<figure><img src="{source}" alt="{name}"><figcaption>{name}</figcaption></figure>')
    return ['<div class="pictures">', *figures, "</div>"]


def _caption(path: Path) -> str:
    """What a picture is of, after its name: what it is about, a hyphen, what it shows of that.

    >>> _caption(Path("figures/memorability-mse-learning_curves.png")), _caption(Path("score_sweep.png"))
    ('memorability-mse: learning curves', 'score sweep')
    """
    about, _, shows = path.stem.rpartition("-")
    return f"{about}: {shows.replace('_', ' ')}" if about else shows.replace("_", " ")


def _with_code(text: str) -> str:
    """As HTML; what stands between backticks, as in Markdown, is code.

    >>> _with_code("a < b: run `dvc repro`")
    'a &lt; b: run <code>dvc repro</code>'
    """
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchors(titles: list[str]) -> dict[str, str]:
    """An identifier for each title, no two the same."""
    taken: dict[str, str] = {}
    for title in titles:
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        anchor, number = plain, 2
        while anchor in taken.values():
            anchor, number = f"{plain}-{number}", number + 1
        taken[title] = anchor
    return taken


def _table(title: str, table: pd.DataFrame) -> str:
    """A table that scrolls sideways within itself; its first column names the rows."""
    rows = [["" if pd.isna(value) else str(value) for value in row] for row in table.itertuples(index=False)]
    kinds = ['class="number"' if _numbers(column) else "" for column in zip(*rows, strict=True)]
    kinds = kinds or [""] * len(table.columns)

    def cell(tag: str, text: object, *attributes: str) -> str:
        return f"<{' '.join([tag, *filter(None, attributes)])}>{escape(str(text))}</{tag}>"

    head = "".join(cell("th", name, 'scope="col"', kind) for name, kind in zip(table.columns, kinds, strict=True))
    lines = []
    for row in rows:
        cells = [cell("th", row[0], 'scope="row"', kinds[0])]
        cells += [cell("td", value, kind) for value, kind in zip(row[1:], kinds[1:], strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (  # with tabindex, so that it can be scrolled without a mouse
        f'<div class="table" role="region" tabindex="0" aria-label="{escape(title)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table></div>"
    )


def _numbers(cells: tuple[str, ...]) -> bool:
    """Whether most of what stands in a column are numbers.

    >>> _numbers(("+0.05 (+0.01 to +0.09)", "baseline", "-0.7")), _numbers(("5,000 images", "")), _numbers(("",))
    (True, False, False)
    """
    filled = [cell.strip() for cell in cells if cell.strip()]
    return 2 * sum(NUMBER.fullmatch(cell) is not None for cell in filled) > len(filled)
