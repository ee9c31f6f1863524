"""Tables and pictures as Markdown and as one HTML page."""

from html import escape
from pathlib import Path

import pandas as pd

__all__ = ["markdown", "page"]

Sections = dict[str, tuple[str, pd.DataFrame]]
STYLE = "body{font-family:sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left}img{max-width:100%}"


def markdown(sections: Sections) -> str:
    """Each section's title and text, and its table.

    >>> print(markdown({"Sorters": ("On the test set.", pd.DataFrame({"sorter": ["lstm"], "L1": [0.02]}))}))
    **Sorters.** On the test set.
    <BLANKLINE>
    | sorter | L1 |
    | --- | --- |
    | lstm | 0.02 |
    <BLANKLINE>
    """
    parts = []
    for title, (text, table) in sections.items():
        lines = [" | ".join(table.columns), " | ".join("---" for _ in table.columns)]
        lines += [" | ".join(str(value) for value in row) for row in table.itertuples(index=False)]
        parts.append(f"**{title}.** {text}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    return "\n".join(parts)


def page(title: str, text: str, sections: Sections, pictures: list[Path]) -> str:
    """The same as HTML, and then pictures, by paths relative to the page."""
    body = "".join(
        f"<h2>{escape(name)}</h2><p>{escape(said)}</p>{table.to_html(index=False, border=0)}"
        for name, (said, table) in sections.items()
    )
    body += "".join(f'<h3>{escape(one.name)}</h3><img src="{one}" alt="{escape(one.name)}">' for one in pictures)
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p>{body}\n"
    )
