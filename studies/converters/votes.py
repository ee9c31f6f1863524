"""Create tables of people's votes from your files: `python -m studies.converters.votes FOLDER`.

It reads SBU_3DFE.mat, emotion6.mat, and Movie.mat, three sets for learning label distributions, from the folder
`dataset` of github.com/SpriteMisaka/PyLDL (its code is MIT), and writes data/raw/votes/<set>.parquet: features `x_1`,
`x_2`, ..., and the fraction of votes for each label. The data has its own terms, which are printed; it is not part of
this project.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from studies.converters.packages import check_sha256
from studies.converters.writing import run, write_tables

TABLES = Path("data/raw/votes")
EMOTIONS = ("anger", "disgust", "fear", "joy", "sadness", "surprise")
LDL = (
    "Geng's collection of label distributions (IEEE TKDE 2016): free for academic, non-profit purposes; cite the paper"
)


@dataclass(frozen=True)
class VoteSet:
    """A published set: the SHA-256 of its file, its labels in column order, and its terms."""

    sha256: str
    labels: tuple[str, ...]
    terms: str


SETS = {
    "SBU_3DFE": VoteSet(
        "59dec80525aaa859b8400a92e5b94e54b405ce6ed60bfad9ec95e58964e84707",
        ("1", "2", "3", "4", "5", "6"),  # six emotions, in an order that the file does not document
        f"{LDL}. Faces are of BU-3DFE, which Binghamton University gives to researchers who sign its agreement",
    ),
    "emotion6": VoteSet(
        "2cc3b82d142b5eb27509105540390a8a7de2d6780b898d8e69c29a12a2e409a5",
        (*EMOTIONS, "neutral"),
        "Cornell Emotion6 (Peng et al., CVPR 2015): academic research only; pictures belong to their owners on Flickr",
    ),
    "Movie": VoteSet(
        "5c8629905fdf18640410d43b30f1a84c17473df38e48f279f5a2af11019a1bac",
        ("1_star", "2_stars", "3_stars", "4_stars", "5_stars"),
        f"{LDL}. Ratings are of Netflix, features of IMDb",
    ),
}


def table_of(path: Path, about: VoteSet) -> pd.DataFrame:
    """Return the table of a set from its file.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: it is a different file.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; download it from github.com/SpriteMisaka/PyLDL, and pass its folder"
        )
    check_sha256(path.read_bytes(), about.sha256, source=path)
    arrays = loadmat(path)
    features = pd.DataFrame(np.asarray(arrays["features"])).rename(columns=lambda column: f"x_{column + 1}")
    votes = pd.DataFrame(arrays["labels"], columns=[f"votes_{label}" for label in about.labels])
    return features.join(votes)


def main(folder: str = ".") -> None:
    """Write the table of each set."""
    sets = SETS.items()
    write_tables(TABLES, ((name, table_of(Path(folder) / f"{name}.mat", about), about.terms) for name, about in sets))


if __name__ == "__main__":
    run(main)
