"""How Prefect's server orders events: one whose predecessor did not come is kept back for a minute, not for 15.

A server that was restarted does not know what it saw before, so alerts of that time would be 15 minutes late.
`make up` and compose.yaml name this module in PREFECT_SERVER_EVENTS_CAUSAL_ORDERING.
"""

from datetime import timedelta

from prefect.server.events.ordering import memory
from prefect.server.events.ordering.memory import CausalOrdering

__all__ = ["CausalOrdering"]

memory.PRECEDING_EVENT_LOOKBACK = timedelta(minutes=1)
