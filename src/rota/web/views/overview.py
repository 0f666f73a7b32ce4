"""The overview: masters, nodes, pods by phase, what waits, what is wrong, and figures of the last 24 hours.

Decisions are counted as pods that get a node. Their latency is the time from when this server first saw a pod to when
it saw the pod's node, so it is there for any scheduler. Figures begin with the first tab that was opened at this
server.
"""

import collections
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rota.client import masters
from rota.client.informers.cache import Key
from rota.web.views.nodes import Load, Node
from rota.web.views.pods import Pod

#: A sample of the figures each so often, for so long.
SAMPLE_S: Final = 10.0
KEPT_S: Final = 24 * 3600.0
_MOST_SHOWN: Final = 8
_ELECTIONS: Final = {"rota-controllers": "controllers", "kube-scheduler": "scheduler"}


class LeaseFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a Lease; its renewals are no changes as long as it is current."""

    holder: str
    address: str = ""
    version: str = ""
    is_master: bool = False
    renewed_at: float = 0.0
    duration_s: float = 0.0


def read_lease(lease: dict[str, Any]) -> LeaseFacts:
    """A Lease of the API."""
    master = masters.read(lease)
    if master is None:
        return LeaseFacts(holder=str((lease.get("spec") or {}).get("holderIdentity") or ""))
    return LeaseFacts(
        holder=master.identity,
        address=master.address,
        version=master.version,
        is_master=True,
        renewed_at=master.renewed_at,
        duration_s=master.duration_s,
    )


class Overview:
    """The whole cluster in one document."""

    def __init__(self) -> None:
        self._nodes: Final[dict[str, Node]] = {}
        self._load: Final = Load()
        self._phases: Final[collections.Counter[str]] = collections.Counter()
        self._waiting: Final[dict[str, Pod]] = {}
        self._failed: Final[dict[str, Pod]] = {}
        self._leases: Final[dict[str, LeaseFacts]] = {}
        #: When pods without a node were first seen.
        self._seen_at: Final[dict[str, float]] = {}
        self._latencies: Final[list[float]] = []
        self._decided = 0
        self._samples: Final[collections.deque[tuple[float, ...]]] = collections.deque(maxlen=int(KEPT_S / SAMPLE_S))
        self._sampled_at: float | None = None
        self._told: object = None
        #: Whether an object changed since the last delta.
        self._changed = True

    def apply(self, collection: str, key: Key, old: Any, new: Any, now: float, /) -> None:
        """See `View.apply`."""
        self._changed = True
        match collection:
            case "nodes":
                _set(self._nodes, key.name, new)
            case "leases":
                if key.namespace == masters.NAMESPACE:
                    _set(self._leases, key.name, new)
            case _:
                self._pod(f"{key.namespace}/{key.name}", old, new, now)

    def _pod(self, key: str, old: Pod | None, new: Pod | None, now: float) -> None:
        self._load.move(old, new)
        if old is not None:
            self._phases[old.phase] -= 1
        if new is not None:
            self._phases[new.phase] += 1
        waits = new is not None and not new.node and new.phase == "Pending"
        _set(self._waiting, key, new if waits else None)
        _set(self._failed, key, new if new is not None and new.phase == "Failed" else None)
        if waits:
            self._seen_at.setdefault(key, now)
            return
        seen = self._seen_at.pop(key, None)
        if new is not None and new.node and (old is None or not old.node) and seen is not None:
            self._decided += 1
            self._latencies.append(now - seen)

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        return [{"now": self._document(self._sampled_at or 0.0), "samples": list(self._samples)}]

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        sample = self._sample(now)
        if sample is None and not self._changed:
            return None
        self._changed = False
        document = self._document(now)
        if sample is None and document == self._told:
            return None
        self._told = document
        return {"now": document, "sample": sample}

    def _sample(self, now: float) -> tuple[float, ...] | None:
        if self._sampled_at is None:
            self._sampled_at = now
            return None
        passed = now - self._sampled_at
        if passed < SAMPLE_S:
            return None
        ordered = sorted(self._latencies)
        self._samples.append(
            (
                round(now),
                self._phases["Running"],
                len(self._waiting),
                round(self._decided / passed, 2),
                round(_quantile(ordered, 0.5), 4),
                round(_quantile(ordered, 0.99), 4),
            )
        )
        self._sampled_at, self._decided = now, 0
        self._latencies.clear()
        return self._samples[-1]

    def _document(self, now: float) -> dict[str, Any]:
        totals = [0] * 6
        for name, node in self._nodes.items():
            cpu, memory, gpus, _ = self._load.of(name)
            for at, amount in enumerate((cpu, node.cpu_milli, memory, node.memory_bytes, gpus, node.gpus)):
                totals[at] += amount
        leaders = {
            what: lease.holder
            for name, what in _ELECTIONS.items()
            if (lease := self._leases.get(name)) and lease.holder
        }
        return {
            "masters": [
                {
                    "identity": one.holder,
                    "address": one.address,
                    "version": one.version,
                    "current": now - one.renewed_at <= one.duration_s,
                    "leads": [what for what, holder in leaders.items() if holder == one.holder],
                }
                for one in sorted(self._leases.values(), key=lambda one: one.address)
                if one.is_master
            ],
            "leaders": leaders,
            "nodes": {
                "total": len(self._nodes),
                "ready": sum(one.ready for one in self._nodes.values()),
                "cordoned": sum(one.cordoned for one in self._nodes.values()),
                "pressured": sum(bool(one.pressures) for one in self._nodes.values()),
            },
            "not_ready": [
                {"name": one.name, "message": one.message}
                for one in sorted(self._nodes.values(), key=lambda one: one.name)
                if not one.ready
            ][:_MOST_SHOWN],
            "phases": {phase: count for phase, count in sorted(self._phases.items()) if count},
            "waiting": _oldest(self._waiting),
            "waiting_total": len(self._waiting),
            "failed": _oldest(self._failed, newest=True),
            "cpu": totals[0:2],
            "memory": totals[2:4],
            "gpu": totals[4:6],
        }


def _oldest(pods: dict[str, Pod], *, newest: bool = False) -> list[dict[str, Any]]:
    ordered = sorted(pods.values(), key=lambda one: (one.created, one.namespace, one.name), reverse=newest)
    return [
        {"namespace": one.namespace, "name": one.name, "message": one.message, "created": one.created}
        for one in ordered[:_MOST_SHOWN]
    ]


def _set(known: dict[str, Any], key: str, value: object | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
