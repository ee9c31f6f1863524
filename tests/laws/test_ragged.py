"""Padding of lists: sizes and queries of any kind give the lists they name, or an error that says what to pass."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from laws.law import law
from rankgrad.ragged import pad_groups

VALUES = torch.arange(5.0)
TABLE = pd.DataFrame({"query": [7, 7, 3, 3, 3]})


@law(30)
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), shape=arrays.array_shapes(max_dims=2, max_side=3))
def test_lists_by_their_sizes_are_padded_as_by_torch_with_their_gradient(sizes, shape):
    values = torch.randn(sum(sizes), *shape, requires_grad=True)
    padded, mask = pad_groups(values, sizes=sizes)
    assert mask.sum(-1).tolist() == sizes
    assert padded.shape[1] == mask.shape[1] == max(1, *sizes)
    if any(sizes):
        assert padded.equal(torch.nn.utils.rnn.pad_sequence(list(values.split(sizes)), batch_first=True))
    weights = torch.randn(padded.shape)
    (padded * weights).sum().backward()
    assert values.grad.equal(weights[mask])


@law(30)
@given(
    query=st.lists(st.integers(0, 3) | st.just(2**40), min_size=1, max_size=9),
    dtype=st.sampled_from([torch.uint16, torch.uint64, torch.bool, torch.float16, torch.float64]),
)
def test_rows_of_a_query_keep_their_order_and_type_wherever_they_stand(query, dtype):
    values = torch.randint(0, 2, (len(query), 2)).to(dtype)
    padded, mask = pad_groups(values, query=torch.tensor(query))
    assert (padded.dtype, len(padded)) == (dtype, len(set(query)))
    for rows, kept, number in zip(padded.double(), mask, sorted(set(query)), strict=True):
        assert rows[kept].equal(values.double()[torch.tensor(query) == number])
        assert not rows[~kept].any()


LISTS = {
    "a tensor": {"sizes": torch.tensor([2, 3], dtype=torch.uint8)},
    "groupby": {"sizes": TABLE.groupby("query", sort=False).size()},
    "nullable": {"sizes": pd.Series([2, 3], dtype="Int64")},
    "reversed": {"sizes": np.array([3, 2])[::-1]},
    "big-endian": {"sizes": np.array([2, 3], dtype=">i4")},
    "objects": {"sizes": np.array([2, 3], dtype=object)},
    "an index": {"query": pd.Series([3, 3, 7, 7, 7], index=[9, 8, 7, 6, 5])},
    "arrow": {"query": pd.Series([3, 3, 7, 7, 7], dtype="int64[pyarrow]")},
    "uint64": {"query": np.array([2**63 + 1] * 2 + [3] * 3, dtype=np.uint64)},
}


@pytest.mark.parametrize("lists", LISTS.values(), ids=LISTS)
def test_lists_of_other_libraries_are_read_in_their_order(lists):
    padded, _ = pad_groups(VALUES, **lists)
    assert padded.tolist() == [[0.0, 1.0, 0.0], [2.0, 3.0, 4.0]]


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
    ({"query": list("aabbb")}, "query .*numpy.unique"),
    ({}, "none of sizes"),
    ({"values": [0.0], "sizes": [1]}, "values is a list"),
]


@pytest.mark.parametrize(("lists", "message"), REFUSED)
def test_what_names_no_lists_is_refused(lists, message):
    with pytest.raises((TypeError, ValueError), match=message):
        pad_groups(**{"values": VALUES} | lists)
