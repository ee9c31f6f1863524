"""List which results of the papers are reproduced: `python -m studies.papers` prints each command and its time.

`studies.pages` writes the tables of docs/papers.md from papers.yaml.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from ruamel.yaml import YAML

from pipelines.reporting.results import markdown
from studies.kept import Study, read

FILE = Path(__file__).with_suffix(".yaml")
LOSSES = {"multilabel_cross_entropy": "cross-entropy", "lsep": "LSEP", "rlsep": "RLSEP"}


@cache
def content() -> dict[str, Any]:
    return YAML(typ="safe").load(FILE)


def printed(images: str, metric: str, loss: str) -> str:
    """Return the number in RLSEP's table, in percent, by the number of training images.

    >>> printed("5,000", "ranked.exact_match", "rlsep")
    '45.4 ± 5.6'
    """
    return str(content()["printed"][images][metric][loss])


@dataclass(frozen=True)
class Number:
    """A number of a kept study.

    Attributes:
        name: its name in the table.
        study, run, metric: where to find it.
        minus: another run whose value is subtracted.
        digits: decimals; by default 1 for percent, else 3.
        percent: whether to show it in percent.
    """

    name: str
    study: str
    run: str
    metric: str
    minus: str | None = None
    digits: int | None = None
    percent: bool = False

    def values(self, study: Study) -> pd.Series:
        """Return the value of each seed, or one value if there are no seeds; differences use common seeds."""
        values = _by_seed(study, self.run, self.metric)
        if self.minus is not None:
            values = (values - _by_seed(study, self.minus, self.metric)).dropna()
        return 100 * values if self.percent else values

    def text(self, values: pd.Series) -> str:
        digits = self.digits or (1 if self.percent else 3)
        mean = f"{self.name} {values.mean():{'' if self.minus is None else '+'}.{digits}f}"
        return f"{mean} ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else mean


def _by_seed(study: Study, run: str, metric: str) -> pd.Series:
    return pd.Series(study.by_seed(run, metric) or {0: study.leaf(run, metric)[0]})


def _hardware(study: Study) -> str:
    machine = study.made_by["machine"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return machine["gpu"] or f"{machine['processor']}, {threads}"


def text_of(paper: str) -> str:
    """Return the table of a paper, in the paper's order."""
    columns = ["item", "paper", "ours", "seeds", "what differs", "command", "time", "hardware"]
    return markdown(columns, [_row(result) for result in content()["papers"][paper]])


def _row(result: dict[str, Any]) -> list[str]:
    """Return the row of a table, figure, or claim; our kept results are missing if it was not reproduced."""
    theirs = result["theirs"]
    if isinstance(theirs, dict):
        theirs = "; ".join(f"{title} {printed(**theirs, loss=loss)}" for loss, title in LOSSES.items())
    texts, seeds, hardware = [], set(), {}
    for block in result.get("ours", ()):
        number, study = Number(**block), read(block["study"])
        values = number.values(study)
        texts.append(number.text(values))
        seeds.add(len(values))
        hardware[_hardware(study)] = None
    ours, counts = "; ".join(texts) or "not reached", " and ".join(map(str, sorted(seeds)))
    command = f"`{result['command']}`"
    return [result["item"], theirs, ours, counts, result["differs"], command, result["time"], "; ".join(hardware)]


def main() -> None:
    """Print the command for each result, and how long it takes."""
    for results in content()["papers"].values():
        for result in results:
            print(f"{result['item']}\n    {result['command']}    # {result['time']}")


if __name__ == "__main__":
    main()
