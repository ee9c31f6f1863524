"""Remove secrets from addresses of servers and stores."""

import re

__all__ = ["without_credentials"]

# Up to the last @ of the word, because a password may contain @ or a slash. A path may contain @, too.
USER = re.compile(r"(?<!sqlite)(?<!file)://\S*@", re.IGNORECASE)
# A password with spaces, which databases allow; a host is followed by a port.
SPACED = re.compile(r"(?<=://)[^\s/:@'\"]+:(?!\d+\b)(?=\S)[^@\n'\"]{1,100}@(?=[\w\[])")
# Without a scheme, or with half of one; python:3.12@sha256:... is not an address.
BARE = re.compile(r"(?<![^\s'\"=(/])[^\s:/@'\"=(]+:[^\s/@]+@(?!sha256:)(?=[\w.-]+(?::\d|/))")
# Without an @: the text after the host is not a port.
HALF_A_USER = re.compile(r"(?<=://)([^\s/:@\[\]'\"]+):(?!\d+\b)[^\s/'\")>,;]+")
# Names that databases and drivers use for a password, inside or outside an address.
NAMED = re.compile(
    r"\b(\w*(?:password|passwd|pwd|token|secret|(?:access|account|api)_?key)=)(?:'[^']*'|[^\s&;,'\")>]+)", re.IGNORECASE
)
ADDRESS = re.compile(r"(?:://|with url: )\S+")  # HTTP clients write `with url:` before a path without a host
OPTION = re.compile(r"([?&#;][^=&#;\s]+=|\?(?![^=&#;\s]*=))[^&#;\s'\")>,]+")
OF_THE_WEB = re.compile(r"(?:https?://|with url: )\S+", re.IGNORECASE)
# A long part of a path that is not a plain word, such as the secret of a webhook.
SECRET = re.compile(r"(?<=[^/][/#])(?=[^/?#\s]*[0-9A-Z])[\w.~:%+=-]{16,}")
LONGEST = 10_000  # characters, because the time can grow with their square


def without_credentials(text: str) -> str:
    """Remove users, passwords, and tokens from an address or from a text with addresses; truncate very long text.

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
