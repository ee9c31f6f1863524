"""Addresses of servers and stores, without the secrets in them."""

import re

__all__ = ["without_credentials"]

# Up to the last @ of the word, as a password may have one, or a slash. A path may have one too.
USER = re.compile(r"(?<!sqlite)(?<!file)://\S*@", re.IGNORECASE)
# A password with spaces, as databases take it; what follows a host is a port.
SPACED = re.compile(r"(?<=://)[^\s/:@'\"]+:(?!\d+\b)(?=\S)[^@\n'\"]{1,100}@(?=[\w\[])")
# Without a scheme, or half of one; python:3.12@sha256:... is no address.
BARE = re.compile(r"(?<![^\s'\"=(/])[^\s:/@'\"=(]+:[^\s/@]+@(?!sha256:)(?=[\w.-]+(?::\d|/))")
# Whose @ is missing: what follows the host is no port.
HALF_A_USER = re.compile(r"(?<=://)([^\s/:@\[\]'\"]+):(?!\d+\b)[^\s/'\")>,;]+")
# As databases and drivers name it, in an address or outside of one.
NAMED = re.compile(
    r"\b(\w*(?:password|passwd|pwd|token|secret|(?:access|account|api)_?key)=)(?:'[^']*'|[^\s&;,'\")>]+)", re.IGNORECASE
)
ADDRESS = re.compile(r"(?:://|with url: )\S+")  # the latter as HTTP clients name a path without its host
OPTION = re.compile(r"([?&#;][^=&#;\s]+=|\?(?![^=&#;\s]*=))[^&#;\s'\")>,]+")
OF_THE_WEB = re.compile(r"(?:https?://|with url: )\S+", re.IGNORECASE)
# A part of a path that is long and no plain word, as the secret of a webhook is.
SECRET = re.compile(r"(?<=[^/][/#])(?=[^/?#\s]*[0-9A-Z])[\w.~:%+=-]{16,}")
LONGEST = 10_000  # characters: the work may grow with their square


def without_credentials(text: str) -> str:
    """Return an address, or a text with addresses in it, without users, passwords and tokens; cut if it is very long.

    >>> without_credentials("postgresql://mlflow:Zx/9+@se@db/runs or http://u:p@host")
    'postgresql://db/runs or http://host'
    >>> without_credentials("https://hooks.example.org/services/T0/kXv93jD0sKqP28fhA71z and s3://bucket/runs?sig=8fA2&v=1")
    'https://hooks.example.org/services/T0/*** and s3://bucket/runs?sig=***&v=***'
    """
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    text = BARE.sub("", USER.sub("://", SPACED.sub("", text)))
    text = HALF_A_USER.sub(r"\1:***", text)
    text = ADDRESS.sub(lambda match: OPTION.sub(r"\1***", match[0]), NAMED.sub(r"\1***", text))
    return OF_THE_WEB.sub(lambda match: SECRET.sub("***", match[0]), text)
