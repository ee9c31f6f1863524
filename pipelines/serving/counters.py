"""Count a server's requests, in the Prometheus format."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Counters"]


class Counters:
    """Count the requests to a server over all versions; also report its process's memory and CPU time."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # adds itself
        about = ["model", "version", "run"]
        self._serving = Gauge("rankgrad_serving", "1 for the version that answers now.", about, registry=registry)
        self._requests = Counter(
            "rankgrad_requests", "Requests for predictions by status.", ["status"], registry=registry
        )
        self._rows = Counter("rankgrad_rows", "Rows that were answered.", registry=registry)
        self._seconds = Histogram(
            "rankgrad_request_seconds", "From the end of a request's headers to its answer.", registry=registry
        )
        self._registry = registry

    def serving(self, about: Mapping[str, str]) -> None:
        """Set the version that answers from now on: its `model`, `version`, and `run`."""
        self._serving.clear()
        self._serving.labels(**about).set(1)

    def answered(self, status: int, rows: int, seconds: float) -> None:
        """Count a request, with the number of rows in its answer, and its time in seconds."""
        self._requests.labels(status).inc()
        self._rows.inc(rows)
        self._seconds.observe(seconds)

    def written(self) -> bytes:
        """Return all counters as text."""
        return generate_latest(self._registry)
