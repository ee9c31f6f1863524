"""The formats of tables by their suffixes. Imports are light, to keep `rankgrad predict` fast."""

from pathlib import Path
from typing import Literal

__all__ = ["FORMATS", "Format", "format_of"]

Format = Literal["csv", "tsv", "jsonl", "parquet", "svmlight"]
FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "svmlight",
    ".dat": "svmlight",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".letor": "svmlight",
}


def format_of(path: str | Path, form: Format | None = None) -> Format:
    """Return the format of a file: `form` or, by default, that of its suffix.

    Raises:
        ValueError: no format has this suffix.

    >>> format_of("queries/train.TXT")
    'svmlight'
    """
    suffix = Path(path).suffix.lower()
    if form is None and suffix not in FORMATS:
        raise ValueError(
            f"{path}: no format has the suffix {suffix!r}; rename the file, expected {', '.join(FORMATS)}, or set "
            "`format:` of the dataset"
        )
    return form or FORMATS[suffix]
