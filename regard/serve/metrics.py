"""Prometheus metrics of the server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest


class Metrics:
    """Counters, gauges and histograms of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter("regard_requests", "Requests answered", ("endpoint", "status"), registry=self._registry)
        self.seconds = Histogram(
            "regard_request_seconds",
            "Time from the first byte of a request to the last byte of its response",
            ("endpoint",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self.characters = Counter("regard_characters", "Characters received for translation", registry=self._registry)
        self.batch = Histogram(
            "regard_batch_sentences",
            "Sentences in a batch",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            registry=self._registry,
        )
        self.places = Gauge("regard_queue_places", "Requests waiting or running", registry=self._registry)
        self.workers = Gauge("regard_workers", "Live workers", registry=self._registry)
        self.restarts = Counter("regard_worker_restarts", "Workers restarted", registry=self._registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
