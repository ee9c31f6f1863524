"""Event ordering of Prefect's server: an event without its predecessor is held back for one minute, not for 15.

A restarted server does not remember earlier events, so alerts during that time would be 15 minutes late. `make up` and
compose.yaml set PREFECT_SERVER_EVENTS_CAUSAL_ORDERING to this module.
"""

from datetime import timedelta

from prefect.server.events.ordering import memory
from prefect.server.events.ordering.memory import CausalOrdering

__all__ = ["CausalOrdering"]

memory.PRECEDING_EVENT_LOOKBACK = timedelta(minutes=1)
