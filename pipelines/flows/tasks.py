"""Prefect tasks that are retried after transient failures."""

from functools import partial
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from pipelines.ops.processes import TransientFailure

__all__ = ["retried"]


def _is_transient(task: Any, run: Any, state: Any) -> bool:
    try:
        state.result()
    except Exception as error:
        return isinstance(error, TransientFailure)
    return False


# Prefect's `task`, retried only after a `TransientFailure`.
retried: Any = partial(
    task, cache_policy=NO_CACHE, retries=3, retry_delay_seconds=[2.0, 10.0, 60.0], retry_condition_fn=_is_transient
)
