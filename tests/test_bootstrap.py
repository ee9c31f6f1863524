"""Bootstrap intervals: coverage, and what has none. What is resampled together is in test_tasks."""

import numpy as np
import pytest

from rankops.metrics.bootstrap import interval


def test_intervals_cover_as_often_as_they_say():
    draws, covered = np.random.default_rng(0), 0
    for seed in range(200):
        leaf = interval(draws.normal(size=80), resamples=400, seed=seed)
        covered += leaf["low"] <= 0 <= leaf["high"]
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize(("values", "message"), [([1.0], "at least 2"), ([1.0, float("nan")], "not defined")])
def test_what_has_no_interval_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        interval(np.array(values), resamples=10, seed=0)
