"""Counters, gauges and histograms of one component, in Prometheus' text format.

A `Metrics` owns its registry: nothing is global, so two components (or two tests) in one process never share a metric.
Declaring a metric twice returns the same one, since a restarted component declares its metrics again; declaring it with
another type or labels is a bug and raises.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

_M = TypeVar("_M", bound=MetricWrapperBase | Collector)

#: Seconds, from a cache hit to an operation that a user waits for.
DURATIONS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_END: Final = b"# EOF\n"


class Metrics:
    """The metrics of one component; their names begin with `rota_` and the component's name."""

    def __init__(self, part: str, *, process: bool = False, prefix: str | None = None) -> None:
        """`process`: also export memory, processor time and open files of this process.

        `prefix` replaces the usual prefix of names, for a component whose metrics have well-known names.
        """
        self._prefix = f"rota_{part}_" if prefix is None else prefix
        self._registry = CollectorRegistry()
        self._known: dict[str, tuple[MetricWrapperBase | Collector, object]] = {}
        #: The declared metrics of every component in the registry.
        self._parts: dict[str, dict[str, tuple[MetricWrapperBase | Collector, object]]] = {}
        #: Scrape functions of other processes that are exported with these: a body for an `Accept` header.
        self._processes: list[Callable[[str], Awaitable[bytes]]] = []
        if process:
            ProcessCollector(registry=self._registry)

    def beside(self, part: str, *, prefix: str | None = None) -> "Metrics":
        """The metrics of another component in the same registry; `prefix` is as in the constructor."""
        other = Metrics(part, prefix=prefix)
        other._registry, other._parts, other._processes = self._registry, self._parts, self._processes
        other._known = self._parts.setdefault(part, {})
        return other

    def counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Counter:
        """A number that only grows; Prometheus expects a name that ends in `_total`."""
        return self._declare(
            name, (Counter, tuple(labels)), lambda full: Counter(full, meaning, labels, registry=self._registry)
        )

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
        """A number that goes up and down."""
        return self._declare(
            name, (Gauge, tuple(labels)), lambda full: Gauge(full, meaning, labels, registry=self._registry)
        )

    def histogram(
        self, name: str, meaning: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = DURATIONS_S
    ) -> Histogram:
        """A histogram; durations are in seconds."""
        return self._declare(
            name,
            (Histogram, tuple(labels), tuple(buckets)),
            lambda full: Histogram(full, meaning, labels, registry=self._registry, buckets=buckets),
        )

    def distribution(
        self, name: str, meaning: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = DURATIONS_S
    ) -> "Distributions":
        """A histogram without a lock, for values that one thread observes thousands of times a second."""
        return self._declare(
            name,
            (Distributions, tuple(labels), tuple(buckets)),
            lambda full: Distributions(full, meaning, tuple(labels), tuple(buckets), self._registry),
        )

    def follow(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        """Export values that are kept elsewhere, by their labels; they are read at every scrape.

        They are counters if the name ends in `_total`, otherwise gauges.
        """
        follower = self._declare(
            name,
            (_Follower, tuple(labels)),
            lambda full: _Follower(full, meaning, tuple(labels), self._registry),
        )
        # A restarted component keeps its values in another object.
        follower.read = read

    def include(self, read: Callable[[str], Awaitable[bytes]]) -> None:
        """Export the metrics of another process as well; its metrics must have other names."""
        self._processes.append(read)

    async def scrape(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and body of this registry and of the included processes."""
        content_type, body = self.exposition(accept)
        # OpenMetrics ends with a marker that must not appear in the middle.
        end = _END if body.endswith(_END) else b""
        bodies = [body, *[await read(accept) for read in self._processes]]
        return content_type, b"".join(one.removesuffix(end) for one in bodies) + end

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and body for a scraper that sent this `Accept` header."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)

    def value(self, name: str, **labels: str) -> float | None:
        """The value as a scraper would read it, for displays. A histogram has `_count`, `_sum`, `_bucket`."""
        return self._registry.get_sample_value(self._prefix + name, labels)

    def _declare(self, name: str, shape: object, make: Callable[[str], _M]) -> _M:
        if name in self._known:
            metric, former = self._known[name]
            if former != shape:
                raise ValueError(f"metric {self._prefix}{name} was declared as {former}, now as {shape}")
            return metric  # type: ignore[return-value]  # the shape holds its class
        made = make(self._prefix + name)
        self._known[name] = (made, shape)
        return made


class Distribution:
    """A histogram for one set of labels."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Distributions(Collector):
    """A histogram for every set of labels; see `Metrics.distribution`."""

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...],
        bounds: tuple[float, ...],
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._bounds = bounds
        self._known: dict[tuple[str, ...], Distribution] = {}
        if not labels:
            self.labels()
        registry.register(self)

    def labels(self, *values: str) -> Distribution:
        """The histogram with these labels."""
        known = self._known.get(values)
        if known is None:
            known = self._known[values] = Distribution(self._bounds)
        return known

    def observe(self, value: float) -> None:
        """Count a value of a histogram without labels."""
        self._known[()].observe(value)

    def collect(self) -> Iterable[Metric]:
        """See `Collector.collect`."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for values, known in self._known.items():
            family.add_metric(values, list(zip(bounds, accumulate(known.counts), strict=True)), known.total)
        yield family


class _Follower(Collector):
    """Exports values that are kept by another object."""

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self.read: Callable[[], Mapping[tuple[str, ...], float]] = dict
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """See `Collector.collect`."""
        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._meaning, labels=self._labels)
        for values, figure in self.read().items():
            family.add_metric(values, figure)
        yield family
