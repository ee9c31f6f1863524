"""Lists of different lengths: `pad_groups` and a mask give what each list gives alone."""

import pytest
import torch

from rankops import losses, metrics
from rankops.ragged import pad_groups

SIZES = [3, 0, 5, 2]


@pytest.fixture
def joined(generator):
    """Scores and graded targets of all lists, one after another; each list has an order."""
    scores = torch.randn(sum(SIZES), generator=generator, dtype=torch.float64, requires_grad=True)
    return scores, torch.tensor([0, 2, 1, 4, 0, 3, 1, 1, 1, 0])


@pytest.mark.parametrize("name", ["spearman", "ndcg", "list_mle", "lambdarank", "ranknet", "kendall"])
def test_losses_and_metrics_of_padded_lists_are_those_of_each_list_alone(name, joined):
    scores, target = joined
    loss = getattr(losses, name)
    padded, mask = pad_groups(scores, torch.tensor(SIZES))
    values = loss(padded, pad_groups(target, SIZES)[0], mask=mask, reduction="none")
    pieces = list(zip(scores.split(SIZES), target.split(SIZES), strict=True))
    alone = torch.stack([loss(*piece) if len(piece[0]) else scores.new_zeros(()) for piece in pieces])
    torch.testing.assert_close(values, alone)
    gradients = [torch.autograd.grad(one.sum(), scores, retain_graph=True)[0] for one in (values, alone)]
    torch.testing.assert_close(*gradients)
    mean = loss(padded, pad_groups(target, SIZES)[0], mask=mask)
    torch.testing.assert_close(mean, alone.sum() / 3)  # the empty list does not count
    values = metrics.ndcg(padded, pad_groups(target, SIZES)[0], mask=mask)
    assert values.isnan().tolist() == [size == 0 for size in SIZES]
    assert values[2] == metrics.ndcg(scores[3:8], target[3:8])


def test_values_of_any_shape_and_type_are_padded_as_by_hand(generator):
    features = torch.randn(sum(SIZES), 2, 7, generator=generator)
    padded, mask = pad_groups(features, SIZES)
    by_hand = torch.nn.utils.rnn.pad_sequence(list(features.split(SIZES)), batch_first=True)
    assert torch.equal(padded, by_hand)
    assert mask.sum(-1).tolist() == SIZES
    assert pad_groups(torch.tensor([True, True]), [1, 1])[0].dtype == torch.bool


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        (torch.zeros(3), [2, 2], "sizes adds up to 4, expected 3"), (torch.zeros(3), [4, -1], r"sizes\[1\] is -1"),
        (torch.zeros(3), [1.0, 2.0], "torch.float32"), (torch.zeros(3), [], r"\(0,\)"),
        ([0.0], [1], "values is a list"),
    ],
)  # fmt: skip
def test_what_cannot_be_padded_is_named(values, sizes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pad_groups(values, sizes)
