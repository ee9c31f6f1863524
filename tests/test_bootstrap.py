"""What has no bootstrap interval. How wide one is, and what is resampled together, is in test_tasks."""

import numpy as np
import pytest

from rankops.metrics.bootstrap import interval


@pytest.mark.parametrize(("values", "message"), [([1.0], "at least 2"), ([1.0, float("nan")], "not defined")])
def test_what_has_no_interval_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        interval(np.array(values), resamples=10, seed=0)
