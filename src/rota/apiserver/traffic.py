"""What goes through the server, counted: requests by verb, resource and code, how long they took, open streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from rota.apiserver import responses
from rota.apiserver.requests import Request
from rota.apiserver.routing import Route
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

PATH: Final = "/metrics"


class Seen:
    """One request while it is under way."""

    __slots__ = ("_streams", "code", "resource", "streaming", "verb")

    def __init__(self, verb: str, streams: Gauge) -> None:
        self.verb = verb
        self.resource = ""
        self.code = 0
        self.streaming = False
        self._streams = streams

    def routed(self, route: Route) -> None:
        """What it asks for is known."""
        self.verb = route.verb
        plural = route.resource.plural
        self.resource = f"{plural}/{route.subresource}" if route.subresource else plural

    def answered(self, answer: responses.Answer) -> None:
        """What it gets is known."""
        if isinstance(answer, responses.Streamed):
            self.code, self.streaming = 200, True
            self._streams.inc()
        else:
            self.code = answer.code

    def ended(self) -> None:
        """Nothing more will be sent."""
        if self.streaming:
            self._streams.dec()


class Traffic:
    """The server's own metrics."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics: Final = metrics
        self._clock: Final = clock
        labels = ("verb", "resource", "code")
        self._requests: Final = metrics.counter("requests_total", "Requests answered.", labels)
        self._durations: Final = metrics.histogram(
            "request_duration_seconds", "Time to the end of an answer, streams left out.", ("verb", "resource")
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._streams: Final = metrics.gauge("streams", "Streams (watches, logs) that are open.")

    @contextmanager
    def request(self, request: Request) -> Iterator[Seen]:
        """Count one request from here to the end of its answer."""
        seen = Seen(request.method.lower(), self._streams)
        begun = self._clock.monotonic()
        try:
            yield seen
        finally:
            seen.ended()
            requests, durations = self._children(seen)
            requests.inc()
            if not seen.streaming:
                durations.observe(self._clock.monotonic() - begun)

    def _children(self, seen: Seen) -> tuple[Counter, Histogram]:
        """The figures of one kind of request; looking them up by their labels takes longer than counting."""
        key = (seen.verb, seen.resource, seen.code)
        found = self._known.get(key)
        if found is None:
            requests = self._requests.labels(seen.verb, seen.resource, str(seen.code))
            found = self._known[key] = requests, self._durations.labels(seen.verb, seen.resource)
        return found

    async def page(self, request: Request) -> responses.Response | None:
        """All figures for a scraper."""
        if request.path != PATH:
            return None
        content_type, body = self._metrics.exposition(request.header(b"accept"))
        return responses.Response(200, body, content_type)
