"""What a server counts of its requests, in the form that Prometheus reads."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Counters"]


class Counters:
    """The counters of one server, whichever versions answer; memory and processor time of its process too."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._serving = Gauge(
            "rankgrad_serving", "1 for the version that answers now.", ["model", "version", "run"],
            registry=self._registry,
        )  # fmt: skip
        self._requests = Counter(
            "rankgrad_requests", "Requests for predictions by status.", ["status"], registry=self._registry
        )
        self._rows = Counter("rankgrad_rows", "Rows that were answered.", registry=self._registry)
        self._seconds = Histogram(
            "rankgrad_request_seconds", "From the end of a request's headers to its answer.", registry=self._registry
        )

    def serving(self, about: Mapping[str, str]) -> None:
        """Note which version answers from now on: `model`, `version` and `run`."""
        self._serving.clear()
        self._serving.labels(**about).set(1)

    def answered(self, status: int, rows: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(status).inc()
        self._rows.inc(rows)
        self._seconds.observe(seconds)

    def written(self) -> bytes:
        """Return all counters as text."""
        return generate_latest(self._registry)
