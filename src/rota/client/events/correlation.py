"""Correlation of events: which become objects, and which only raise a count. Pure: the time is an argument.

Three steps, with upstream's limits (client-go `tools/record`, 1.37):

* an object's events from one source beyond 25 at once and one per five minutes are dropped;
* more than ten events that differ in their message only, within ten minutes, become one with a message that says so;
* an event that was reported before raises the count of its object.

Memory is bounded: an event that was evicted from memory starts again.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rota.api import times
from rota.kit.rate_limit import TokenBucket

_REMEMBERED: Final = 4096
_SPAM_BURST: Final = 25
_SPAM_RATE: Final = 1 / 300
_SIMILAR: Final = 10
_SIMILAR_S: Final = 600.0
_COMBINED: Final = "(combined from similar events): "
#: The API's limit.
_LONGEST_MESSAGE: Final = 1024

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Reference(NamedTuple):
    """The object of an event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A reported event."""

    about: Reference
    type: str
    reason: str
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The reporting component."""

    component: str
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEvent:
    """Create a new Event."""

    report: Report
    event: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountEvent:
    """Raise the count of an Event; if it no longer exists, create `event` instead."""

    report: Report
    name: str
    namespace: str
    patch: dict[str, Any]
    event: dict[str, Any]


Instruction = CreateEvent | CountEvent


@dataclass(slots=True)
class _Group:
    """Events that differ in their message only."""

    messages: set[str] = field(default_factory=set)
    last_at: float = 0.0


@dataclass(slots=True)
class _Known:
    """An event that has an object."""

    name: str
    first_at: float
    count: int = 0


class Correlator:
    """Keeps the reported events. `at` is wall time for timestamps; `now` is monotonic time for everything else."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._serial = 0
        self._buckets: Final = _Recent[Reference, TokenBucket](_REMEMBERED)
        self._groups: Final = _Recent[Report, _Group](_REMEMBERED)
        self._known: Final = _Recent[Report, _Known](_REMEMBERED)

    def correlate(self, report: Report, *, at: float, now: float) -> Instruction | None:
        """The instruction for a report; None if it is dropped by the limit of its object."""
        short = replace(report, message=report.message[:_LONGEST_MESSAGE])
        bucket = self._buckets.get(short.about, lambda: TokenBucket(rate=_SPAM_RATE, burst=_SPAM_BURST, now=now))
        if not bucket.take(now):
            return None
        shown = self._combine(short, now)
        identity = shown if shown is short else replace(shown, message=_COMBINED)
        known = self._known.get(identity, lambda: _Known(self._name(shown, at), at))
        known.count += 1
        event = self._event(shown, known, at)
        if known.count == 1:
            return CreateEvent(report=shown, event=event)
        patch = {name: event[name] for name in ("count", "lastTimestamp", "message")}
        return CountEvent(
            report=shown, name=known.name, namespace=event["metadata"]["namespace"], patch=patch, event=event
        )

    def _combine(self, report: Report, now: float) -> Report:
        group = self._groups.get(replace(report, message=""), _Group)
        if now - group.last_at > _SIMILAR_S:
            group.messages.clear()
        group.last_at = now
        if report.message not in group.messages and len(group.messages) >= _SIMILAR:
            return replace(report, message=(_COMBINED + report.message)[:_LONGEST_MESSAGE])
        group.messages.add(report.message)
        return report

    def _name(self, report: Report, at: float) -> str:
        # The time makes it unique across processes, the serial number within this one.
        self._serial += 1
        return f"{report.about.name}.{int(at * 1_000_000) * 1000 + self._serial % 1000:016x}"

    def _event(self, report: Report, known: _Known, at: float) -> dict[str, Any]:
        about = report.about
        involved: Mapping[str, str] = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        source = {"component": self._source.component, "host": self._source.host}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            # Events about cluster-scoped objects are in the default namespace.
            "metadata": {"name": known.name, "namespace": about.namespace or "default"},
            "involvedObject": {name: value for name, value in involved.items() if value},
            "reason": report.reason,
            "message": report.message,
            "type": report.type,
            "source": {name: value for name, value in source.items() if value},
            "reportingComponent": self._source.component,
            "reportingInstance": self._source.host,
            "firstTimestamp": times.format_time(known.first_at),
            "lastTimestamp": times.format_time(at),
            "count": known.count,
        }
        return {**event, "action": report.action} if report.action else event


class _Recent(Generic[K, V]):
    """An LRU cache."""

    def __init__(self, size: int) -> None:
        self._size: Final = size
        self._values: Final[OrderedDict[K, V]] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = self._values[key] = make()
        if len(self._values) > self._size:
            self._values.popitem(last=False)
        return value
