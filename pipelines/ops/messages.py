"""What is told of an error: in a line, without what is secret."""

import re

__all__ = ["in_a_line", "on_one_line", "without_credentials"]


def without_credentials(text: str) -> str:
    """An address, or a text with addresses in it, without the user and password of any."""
    # Up to the last @ of the word: a password may have one, or a slash.
    return re.sub(r"://\S*@", "://", text)


def in_a_line(error: BaseException) -> str:
    """The first line of what an error says, without credentials; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return without_credentials(lines[0]) if lines else type(error).__name__


def on_one_line(error: BaseException) -> str:
    """All that an error says, without line breaks and credentials; its kind where it says nothing.

    >>> on_one_line(ValueError("no access to s3://user:word@bucket:\\n  refused"))
    'no access to s3://bucket: refused'
    """
    return without_credentials(" ".join(str(error).split())) or type(error).__name__
