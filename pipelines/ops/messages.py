"""Format errors and names in one line, without secrets."""

import re

from rankgrad.io.addresses import without_credentials
from rankgrad.io.written import printable

__all__ = ["as_line", "as_markdown", "first_line", "one_line", "without_credentials"]

MARKUP = re.compile(r"[\\*\[\]<|]")
LONGEST = 300  # longest line, in characters


def as_markdown(text: str) -> str:
    r"""Escape user-chosen text for Markdown, so that it cannot contain images, links, tables, or markup.

    >>> as_markdown("classes: ![p](http://host/p.png), <b>, a|b")
    'classes: !\\[p\\](http://host/p.png), \\<b>, a\\|b'
    """
    return MARKUP.sub(r"\\\g<0>", printable(" ".join(text.split())))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without credentials; its class if the message is empty.

    >>> first_line(ConnectionError("http://user:word@host:1 refused\\nand more")), first_line(MemoryError())
    ('http://host:1 refused', 'MemoryError')
    """
    lines = str(error).strip().splitlines()
    return without_credentials(lines[0]) if lines else type(error).__name__


def one_line(error: BaseException) -> str:
    """Return an error's whole message without line breaks and credentials; its class if the message is empty.

    >>> one_line(ValueError("no access to s3://user:word@bucket:\\n  refused"))
    'no access to s3://bucket: refused'
    """
    return without_credentials(" ".join(str(error).split())) or type(error).__name__


def as_line(text: str, longest: int = LONGEST) -> str:
    r"""Turn user-chosen text into a short, safe line for logs, commits, and names of runs.

    >>> as_line("drift: Price\n(EUR), \x1b[31mred in new.csv")
    'drift: Price (EUR), \\x1b[31mred in new.csv'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 4]} ..."
