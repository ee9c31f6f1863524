"""Errors and names in one line, without secrets."""

import re

from rankgrad.io.addresses import without_credentials
from rankgrad.io.written import printable

__all__ = ["as_line", "as_markdown", "first_line", "one_line", "without_credentials"]

MARKUP = re.compile(r"[\\*\[\]<|]")
LONGEST = 300  # characters of a line


def as_markdown(text: str) -> str:
    r"""Return a text with names of people in it as Markdown that shows it: no picture, link, table or markup of theirs.

    >>> as_markdown("classes: ![p](http://host/p.png), <b>, a|b")
    'classes: !\\[p\\](http://host/p.png), \\<b>, a\\|b'
    """
    return MARKUP.sub(r"\\\g<0>", printable(" ".join(text.split())))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without credentials; its class if it has none.

    >>> first_line(ConnectionError("http://user:word@host:1 refused\\nand more")), first_line(MemoryError())
    ('http://host:1 refused', 'MemoryError')
    """
    lines = str(error).strip().splitlines()
    return without_credentials(lines[0]) if lines else type(error).__name__


def one_line(error: BaseException) -> str:
    """Return an error's whole message without line breaks and credentials; its class if it has none.

    >>> one_line(ValueError("no access to s3://user:word@bucket:\\n  refused"))
    'no access to s3://bucket: refused'
    """
    return without_credentials(" ".join(str(error).split())) or type(error).__name__


def as_line(text: str, longest: int = LONGEST) -> str:
    r"""Return a text with names of people in it as a short line, as logs, commits and names of runs take it.

    >>> as_line("drift: Price\n(EUR), \x1b[31mred in new.csv")
    'drift: Price (EUR), \\x1b[31mred in new.csv'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 4]} ..."
