"""Padding of lists: sizes and queries of any kind give the lists they name, or an error that says what to pass."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from rankgrad import losses, metrics
from rankgrad.ragged import pad_groups

VALUES = torch.arange(5.0)
TABLE = pd.DataFrame({"query": [7, 7, 3, 3, 3]})

SIZES = {
    "list": [2, 3],
    "tensor": torch.tensor([2, 3], dtype=torch.uint8),
    "groupby": TABLE.groupby("query", sort=False).size(),
    "series with another index": pd.Series([2, 3], index=["b", "a"]),
    "nullable": pd.Series([2, 3], dtype="Int64"),
    "column called count": pd.DataFrame({"count": [2, 3]})["count"],
    "map": lambda: map(int, ["2", "3"]),
    "generator": lambda: (size for size in (2, 3)),
    "values of a dictionary": {"a": 2, "b": 3}.values(),
    "range": range(2, 4),
    "reversed": np.array([3, 2])[::-1],
    "every other": np.array([2, 0, 3, 0])[::2],
    "big-endian": np.array([2, 3], dtype=">i4"),
    "unsigned": np.array([2, 3], dtype=np.uint64),
    "objects": np.array([2, 3], dtype=object),
    "integers of numpy": [np.int64(2), np.int32(3)],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sizes_are_read_in_their_order(sizes):
    padded, mask = pad_groups(VALUES, sizes=sizes() if callable(sizes) else sizes)
    assert padded.tolist() == [[0.0, 1.0, 0.0], [2.0, 3.0, 4.0]]
    assert mask.sum(-1).tolist() == [2, 3]


@pytest.mark.parametrize(
    "query",
    [
        pd.Series([7, 7, 3, 3, 3], index=[9, 8, 7, 6, 5]),
        pd.Series([7, 7, 3, 3, 3], dtype="int64[pyarrow]"),
        np.array([7, 7, 3, 3, 3], dtype=object),
        np.array([3, 3, 3, 7, 7])[::-1],
        (number for number in (7, 7, 3, 3, 3)),
        np.array([2**63 + 1] * 2 + [3] * 3, dtype=np.uint64),
    ],
    ids=["index", "arrow", "objects", "reversed", "generator", "uint64"],
)
def test_queries_are_read_row_by_row(query):
    lists = {tuple(row[kept].tolist()) for row, kept in zip(*pad_groups(VALUES, query=query), strict=True)}
    assert lists == {(0.0, 1.0), (2.0, 3.0, 4.0)}


REFUSED = {
    "value_counts": (TABLE["query"].value_counts(), "value_counts.*pass the list of each row as query"),
    "set": ({2, 3}, "sizes is a set, .* in order"),
    "dictionary": ({2: 1, 3: 2}, "sizes is a dict"),
    "counter": (Counter([7, 7, 3, 3, 3]), "sizes is a Counter"),
    "text": ("23", "sizes is a str"),
    "texts": (["2", "3"], "pass the length of each list"),
    "floats": (np.array([2.0, 3.0], dtype=object), "sizes holds object"),
    "missing": (pd.Series([2, 3, None], dtype="Int64"), "expected whole numbers"),
    "one number": (5, "sizes is a int"),
}


@pytest.mark.parametrize(("sizes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_order_or_no_whole_numbers_is_refused(sizes, message):
    with pytest.raises(TypeError, match=message):
        pad_groups(VALUES, sizes=sizes)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float16])
def test_values_of_any_type_are_padded(dtype):
    padded, _ = pad_groups(torch.tensor([1, 0, 1]).to(dtype), query=[1, 0, 1])
    assert padded.dtype == dtype
    assert padded.double().tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_the_gradient_reaches_the_values():
    values = VALUES.clone().requires_grad_()
    (pad_groups(values, sizes=[2, 3])[0] * torch.tensor([[1.0], [2.0]])).sum().backward()
    assert values.grad.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0]


def test_lists_without_rows_cost_nothing_and_have_no_metric():
    scores, mask = pad_groups(torch.zeros(0, requires_grad=True), sizes=[0, 0])
    target, _ = pad_groups(torch.zeros(0, dtype=torch.int64), sizes=[0, 0])
    for loss in (losses.spearman, losses.ndcg, losses.ranknet, losses.average_precision, losses.mse):
        assert loss(scores, target, mask=mask).item() == 0.0
    for metric in (metrics.spearman, metrics.ndcg, metrics.average_precision):
        assert metric(scores, target, mask=mask).isnan().tolist() == [True, True]
    assert pad_groups(torch.zeros(0, 3), sizes=[0, 0])[0].shape == (2, 1, 3)
