"""Metrics of requests: counts by verb, resource and code, durations, open streams."""

from typing import Final

from prometheus_client import Gauge

from rota.apiserver.audit.auditor import Record
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import User
from rota.apiserver.routing import Route
from rota.kit.clock import Clock
from rota.kit.metrics import Distribution, Metrics

PATH: Final = "/metrics"


class RequestInfo:
    """One running request."""

    __slots__ = (
        "_streams",
        "asker",
        "audited",
        "begun",
        "code",
        "record",
        "resource",
        "streamer",
        "streaming",
        "user",
        "verb",
    )

    def __init__(self, verb: str, begun: float, streams: Gauge) -> None:
        self.verb = verb
        self.begun = begun
        self.resource = ""
        self.code = 0
        self.streaming = False
        self._streams = streams
        #: The authenticated and the impersonated user; None until they are known.
        self.asker: User | None = None
        self.user: User | None = None
        #: The user whose stream is counted in flow control.
        self.streamer: User | None = None
        #: Whether the audit policy was evaluated, and the audit record, if there is one.
        self.audited = False
        self.record: Record | None = None

    def routed(self, route: Route) -> None:
        """The route is known."""
        self.verb = route.verb
        plural = route.resource.plural
        self.resource = f"{plural}/{route.subresource}" if route.subresource else plural

    def answered(self, answer: responses.Answer) -> None:
        """The response is known."""
        self.code = answer.code
        if not isinstance(answer, responses.Response):
            self.streaming = True
            self._streams.inc()


class _Tally:
    """Requests with the same labels."""

    __slots__ = ("count", "durations")

    def __init__(self, durations: Distribution) -> None:
        self.count = 0
        self.durations: Final = durations


class RequestMetrics:
    """The server's metrics. Counting is cheap, because every request is counted and scrapes are rare."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._tallies: Final[dict[tuple[str, str, int], _Tally]] = {}
        self._durations: Final = metrics.distribution(
            "request_duration_seconds", "Time to the end of an answer, streams left out.", ("verb", "resource")
        )
        self._streams: Final = metrics.gauge("streams", "Streams (watches, logs) that are open.")
        metrics.follow("requests_total", "Requests answered.", ("verb", "resource", "code"), self._counts)

    def begin(self, request: Request) -> RequestInfo:
        """A request has arrived; `end` must follow."""
        return RequestInfo(request.method.lower(), self._clock.monotonic(), self._streams)

    def end(self, seen: RequestInfo) -> None:
        """The request is complete."""
        key = (seen.verb, seen.resource, seen.code)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(self._durations.labels(seen.verb, seen.resource))
        tally.count += 1
        if seen.streaming:
            self._streams.dec()
        else:
            tally.durations.observe(self._clock.monotonic() - seen.begun)

    def _counts(self) -> dict[tuple[str, ...], float]:
        return {(verb, resource, str(code)): one.count for (verb, resource, code), one in self._tallies.items()}

    async def page(self, request: Request) -> responses.Response | None:
        """All metrics for a scraper."""
        if request.path != PATH:
            return None
        content_type, body = await self._metrics.scrape(request.header(b"accept"))
        return responses.Response(200, body, content_type)
