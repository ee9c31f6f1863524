"""Padding of lists: sizes and queries of any kind give the lists they name, or an error that says what to pass."""

import numpy as np
import pandas as pd
import pytest
import torch

from rankgrad.ragged import pad_groups

VALUES = torch.arange(5.0)
TABLE = pd.DataFrame({"query": [7, 7, 3, 3, 3]})

SIZES = {
    "list": [2, 3],
    "tensor": torch.tensor([2, 3], dtype=torch.uint8),
    "groupby": TABLE.groupby("query", sort=False).size(),
    "nullable": pd.Series([2, 3], dtype="Int64"),
    "map": lambda: map(int, ["2", "3"]),
    "reversed": np.array([3, 2])[::-1],
    "big-endian": np.array([2, 3], dtype=">i4"),
    "objects": np.array([2, 3], dtype=object),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sizes_are_read_in_their_order(sizes):
    padded, mask = pad_groups(VALUES, sizes=sizes() if callable(sizes) else sizes)
    assert padded.tolist() == [[0.0, 1.0, 0.0], [2.0, 3.0, 4.0]]
    assert mask.sum(-1).tolist() == [2, 3]


QUERIES = {
    "index": pd.Series([7, 7, 3, 3, 3], index=[9, 8, 7, 6, 5]),
    "arrow": pd.Series([7, 7, 3, 3, 3], dtype="int64[pyarrow]"),
    "uint64": np.array([2**63 + 1] * 2 + [3] * 3, dtype=np.uint64),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_queries_are_read_row_by_row(query):
    lists = {tuple(row[kept].tolist()) for row, kept in zip(*pad_groups(VALUES, query=query), strict=True)}
    assert lists == {(0.0, 1.0), (2.0, 3.0, 4.0)}


def test_rows_of_a_query_keep_their_order_wherever_they_stand(generator):
    query = torch.tensor([3, 1, 3, 1, 2**40, 3])
    features = torch.randn(6, 2, generator=generator)
    padded, mask = pad_groups(features, query=query)
    for rows, kept, number in zip(padded, mask, query.unique(), strict=True):
        assert rows[kept].equal(features[query == number])
        assert not rows[~kept].any()


def test_values_of_any_shape_are_padded_as_by_torch(generator):
    features, sizes = torch.randn(10, 2, 7, generator=generator), [3, 0, 5, 2]
    padded, mask = pad_groups(features, sizes=sizes)
    assert padded.equal(torch.nn.utils.rnn.pad_sequence(list(features.split(sizes)), batch_first=True))
    assert mask.sum(-1).tolist() == sizes
    assert pad_groups(torch.zeros(0, 3), sizes=[0, 0])[0].shape == (2, 1, 3)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float16])
def test_values_of_any_type_are_padded(dtype):
    padded, _ = pad_groups(torch.tensor([1, 0, 1]).to(dtype), query=[1, 0, 1])
    assert padded.dtype == dtype
    assert padded.double().tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_the_gradient_reaches_the_values():
    values = VALUES.clone().requires_grad_()
    (pad_groups(values, sizes=[2, 3])[0] * torch.tensor([[1.0], [2.0]])).sum().backward()
    assert values.grad.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]


REFUSED = [
    ({"sizes": TABLE["query"].value_counts()}, "value_counts.*pass the list of each row as query"),
    ({"sizes": {2, 3}}, "sizes is a set, .* in order"),
    ({"sizes": "23"}, "sizes is a str"),
    ({"sizes": ["2", "3"]}, "pass the length of each list"),
    ({"sizes": pd.Series([2, 3, None], dtype="Int64")}, "expected whole numbers"),
    ({"sizes": [2, 2]}, "sizes adds up to 4, expected 5"),
    ({"sizes": [6, -1]}, r"sizes\[1\] is -1"),
    ({"sizes": [2.0, 3.0]}, "torch.float64"),
    ({"sizes": [2**62] * 4 + [5]}, "sizes adds up to 18446744073709551621"),
    ({"query": [1, 2]}, "2 numbers, expected 5"),
    ({"query": [1.0] * 5}, "query is torch.float64"),
    ({"query": list("aabbb")}, "query .*numpy.unique"),
    ({}, "none of sizes"),
]


@pytest.mark.parametrize(("lists", "message"), REFUSED)
def test_what_names_no_lists_is_refused(lists, message):
    with pytest.raises((TypeError, ValueError), match=message):
        pad_groups(VALUES, **lists)
    with pytest.raises(TypeError, match="values is a list"):
        pad_groups([0.0], sizes=[1])
