"""Create tables of algorithms' run times from a copy of ASlib: `python -m studies.converters.aslib FOLDER`.

FOLDER has a folder for each scenario, such as SAT11-HAND, with `algorithm_runs.arff`, `feature_values.arff`, `cv.arff`,
and `description.txt`, as in github.com/coseal/aslib_data (GPL-3; not part of this project). It writes
data/raw/aslib/<scenario>.parquet with a row for each instance: the scenario's `fold`, `cutoff` in seconds, features
`x_<name>`, and `seconds_<algorithm>`, which is empty if the algorithm did not solve the instance within the cutoff.
"""

import csv
import re
from pathlib import Path

import pandas as pd

from studies.converters.writing import run, write_tables

TABLES, TERMS = Path("data/raw/aslib"), "GPL-3, github.com/coseal/aslib_data"
# From a copy with eight scenarios, those with at least five algorithms; with fewer, there is little to order.
SCENARIOS = ("SAT11-HAND", "SAT11-INDU", "MAXSAT12-PMS", "ASP-POTASSCO", "QBF-2011", "BNSL-2016")


def arff(path: Path) -> pd.DataFrame:
    """Return the table of an ARFF file; quoted strings are not split.

    Raises:
        ValueError: a line has more or fewer cells than there are attributes.
    """
    names: list[str] = []
    rows: list[list[str]] = []
    is_data = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("%"):
            continue
        if not is_data:
            attribute = re.match(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", line, re.IGNORECASE)
            if attribute:
                names.append(attribute[1].strip("'\""))
            is_data = line.lower().startswith("@data")
            continue
        cells = next(csv.reader([line], quotechar="'" if "'" in line else '"', skipinitialspace=True))
        if len(cells) != len(names):
            raise ValueError(f"{path}: line {number} has {len(cells)} cells, expected {len(names)}: download it again")
        rows.append(cells)
    return pd.DataFrame(rows, columns=names).replace("?", None)


def table_of(folder: Path) -> pd.DataFrame:
    """Return the table of a scenario.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the scenario is not about run time, or an instance occurs twice.
    """
    description = (folder / "description.txt").read_text(encoding="utf-8")
    cutoff = re.search(r"^algorithm_cutoff_time:\s*([\d.]+)", description, re.MULTILINE)
    if cutoff is None or "runtime" not in description:
        raise ValueError(f"{folder}/description.txt: no cutoff for run times, expected a scenario about run time")
    limit = float(cutoff[1])
    runs = arff(folder / "algorithm_runs.arff")
    features = arff(folder / "feature_values.arff").drop(columns="repetition").set_index("instance_id")
    fold = arff(folder / "cv.arff").set_index("instance_id")["fold"].astype(int)
    for name, rows in (("feature_values.arff", features), ("cv.arff", fold)):
        if not rows.index.is_unique:
            raise ValueError(f"{folder / name}: an instance occurs twice, expected one repetition")

    # A run solves an instance only if it ended successfully within the cutoff.
    seconds = pd.to_numeric(runs["runtime"])
    solved = (runs["runstatus"] == "ok") & (seconds < limit)
    times = runs.assign(seconds=seconds.where(solved)).pivot_table(
        "seconds", "instance_id", "algorithm", sort=True, dropna=False
    )
    table = pd.DataFrame({"fold": fold, "cutoff": limit})
    numbers = features.apply(pd.to_numeric).add_prefix("x_")
    return table.join(numbers).join(times.add_prefix("seconds_")).rename_axis("instance").reset_index()


def main(folder: str = ".") -> None:
    """Write the table of each scenario."""
    write_tables(TABLES, ((name, table_of(Path(folder) / name), TERMS) for name in SCENARIOS))


if __name__ == "__main__":
    run(main)
