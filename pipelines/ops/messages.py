"""Errors in one line, without secrets."""

import re

__all__ = ["in_a_line", "on_one_line", "without_credentials"]


def without_credentials(text: str) -> str:
    """Return an address, or a text with addresses in it, without users and passwords.

    >>> without_credentials("postgresql://mlflow:Zx/9+@se@db/runs or http://u:p@host")
    'postgresql://db/runs or http://host'
    """
    return re.sub(r"://\S*@", "://", text)  # up to the last @ of the word: a password may have one, or a slash


def in_a_line(error: BaseException) -> str:
    """Return the first line of an error's message, without credentials; its class if it has none.

    >>> in_a_line(ConnectionError("http://user:word@host:1 refused\\nand more")), in_a_line(MemoryError())
    ('http://host:1 refused', 'MemoryError')
    """
    lines = str(error).strip().splitlines()
    return without_credentials(lines[0]) if lines else type(error).__name__


def on_one_line(error: BaseException) -> str:
    """Return an error's whole message without line breaks and credentials; its class if it has none.

    >>> on_one_line(ValueError("no access to s3://user:word@bucket:\\n  refused"))
    'no access to s3://bucket: refused'
    """
    return without_credentials(" ".join(str(error).split())) or type(error).__name__
