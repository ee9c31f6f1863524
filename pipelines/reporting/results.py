"""What metrics files say, by dotted names."""

import json
from pathlib import Path
from typing import Any

__all__ = ["figures", "flat"]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names.

    >>> flat({"ranked": {"accuracy": {"value": 0.9, "low": 0.8}}})
    {'ranked.accuracy.value': 0.9, 'ranked.accuracy.low': 0.8}
    """
    result = {}
    for key, value in values.items():
        result |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return result


def figures(source: Path | dict[str, Any]) -> dict[str, float]:
    """The figures of a metrics file, or of what it holds: `ranked.accuracy`, `ranked.accuracy.low`, ...

    >>> figures({"ranked": {"accuracy": {"value": 0.9, "low": 0.8}}})
    {'ranked.accuracy': 0.9, 'ranked.accuracy.low': 0.8}
    """
    values = json.loads(source.read_text()) if isinstance(source, Path) else source
    numbers = {key: value for key, value in flat(values).items() if isinstance(value, int | float)}
    return {key.removesuffix(".value"): value for key, value in numbers.items()}
