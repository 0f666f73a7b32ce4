"""Detects failed workers and taints their nodes.

A worker is alive as long as it renews its Lease; the time of a renewal is when this process observed it, by its own
clock. After forty seconds without renewal, or less if the Lease says so, the node's Ready condition becomes Unknown. A
node that is not Ready is tainted NoSchedule at once, before any other write, and NoExecute at a limited rate per zone,
because many nodes that fail together indicate a network failure. If all zones have failed, no NoExecute taint is added.
The pods of the node are marked not ready. A new node that has not reported its status gets no pods, and is otherwise
left alone for a minute. Rules and values are upstream's (`pkg/controller/nodelifecycle`, 1.37).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, PatchType, Selection
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
PODS: Final = ("", "v1", "pods")
LEASES: Final = ("coordination.k8s.io", "v1", "leases")
LEASE_NAMESPACE: Final = "kube-node-lease"
GRACE_S: Final = 40.0
#: How long a node may take to report for the first time.
STARTUP_GRACE_S: Final = 60.0
_LOOK_S: Final = 5.0
#: How long after the end of its grace period a worker is checked.
_SOON_S: Final = 0.05
#: NoExecute taints per second in a healthy zone, and in a large zone where most nodes are not ready.
RATE: Final = 0.1
SECONDARY_RATE: Final = 0.01
#: Zones up to this size get no NoExecute taints when most of their nodes are not ready.
LARGE: Final = 50
UNHEALTHY_SHARE: Final = 0.55
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_KEYS: Final = frozenset({NOT_READY, UNREACHABLE})
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(slots=True)
class _Heard:
    """The last observed heartbeat of a worker, by this process's clock."""

    renewed: str
    at: float
    #: Whether a heartbeat was observed, or only the node itself.
    ever: bool
    #: The grace period.
    grace_s: float = GRACE_S


def condition_taint(node: Object) -> str:
    """The taint for a node's Ready condition; empty if it is Ready, or has not reported yet.

    For nodes that have not reported yet see `_keeps_out`.
    """
    ready = meta.condition(node, "Ready")
    if ready is None:
        return ""
    return {"True": "", "False": NOT_READY}.get(str(ready.get("status")), UNREACHABLE)


def _keeps_out(node: Object) -> str:
    """The NoSchedule taint of a node; also for one that has not reported yet."""
    return NOT_READY if meta.condition(node, "Ready") is None else condition_taint(node)


def zone_of(node: Object) -> str:
    """The failure domain of a node: region and zone."""
    labels = meta.labels(node)
    return f"{labels.get(_REGION, '')}:{labels.get(_ZONE, '')}"


def zone_rate(ready: int, unready: int, *, all_dark: bool) -> float:
    """The NoExecute taints per second in a zone."""
    total = ready + unready
    if not unready or all_dark:
        return 0.0 if all_dark else RATE
    if unready > 2 and unready / total >= UNHEALTHY_SHARE:
        if not ready:
            return RATE  # only this zone has failed: its pods are recreated elsewhere
        return SECONDARY_RATE if total > LARGE else 0.0
    return RATE


class NodeLifecycle:
    """Monitors all nodes."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._heard: Final[dict[str, _Heard]] = {}
        self._buckets: Final[dict[str, tuple[float, TokenBucket]]] = {}
        self._frame: Final = Reconciler[str](
            client, "node lifecycle", self._process, clock=clock, rng=rng, workers=1, metrics=metrics
        )
        self._nodes: Final = self._frame.follow(NODES, self._node_changed)
        self._frame.follow(LEASES, self._lease_changed, namespace=LEASE_NAMESPACE)
        self._frame.follow(PODS, self._pod_changed)
        #: Nodes that are not ready and whose pods were marked not ready.
        self._marked: Final[set[str]] = set()
        self._metrics: Final = metrics or client.settings.metrics or Metrics("node_lifecycle")

    async def run(self) -> None:
        """Monitor until cancelled."""
        self._count(self._readiness)
        try:
            await self._frame.run()
        finally:
            # Another master monitors now: two counts of the same nodes would be added up.
            self._count(dict)

    def _count(self, read: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        self._metrics.follow("nodes", "Nodes by their Ready condition: true, false or unknown.", ("ready",), read)

    def _readiness(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {("true",): 0.0, ("false",): 0.0, ("unknown",): 0.0}
        for node in self._nodes.cache.values():
            ready = meta.condition(node, "Ready")
            status = "unknown" if ready is None else str(ready.get("status")).lower()
            found[(status,)] = found.get((status,), 0.0) + 1
        return found

    def _node_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._heard.pop(key.name, None)
            self._marked.discard(key.name)
            self._frame.queue.add(key.name)
            return
        if key.name not in self._heard:
            self._heard[key.name] = _Heard("", self._clock.monotonic(), ever=False)
        if old is None or _keeps_out(old) != _keeps_out(new) or _taints(old) != _taints(new):
            self._frame.queue.add(key.name)

    def _lease_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is None:
            return
        spec = new.get("spec") or {}
        renewed = str(spec.get("renewTime") or "")
        known = self._heard.get(key.name)
        if known is None or known.renewed != renewed:
            # A Lease may shorten the grace period, not extend it.
            grace_s = min(float(spec.get("leaseDurationSeconds") or GRACE_S), GRACE_S)
            self._heard[key.name] = _Heard(renewed, self._clock.monotonic(), ever=True, grace_s=grace_s)

    def _pod_changed(self, _: Key, __: Object | None, new: Object | None) -> None:
        """Mark a pod not ready again, if its worker reported it ready after its node had failed."""
        name = str((new.get("spec") or {}).get("nodeName") or "") if new is not None else ""
        if name in self._marked and new is not None and meta.is_condition_true(new, "Ready"):
            self._marked.discard(name)
            self._frame.queue.add(name)

    async def _process(self, name: str) -> float | None:
        node = self._nodes.cache.get(name)
        if node is None:
            return None
        try:
            silent_s = self._silence(name)
            if silent_s > 0 and condition_taint(node) != UNREACHABLE:
                log.warning("node lease expired", node=name, since_s=round(silent_s))
                node = await self._mark_unknown(node)
            node = await self._keep_out(node)
            if not condition_taint(node):
                self._marked.discard(name)
            elif name not in self._marked:
                self._marked.add(name)
                try:
                    await self._mark_pods(name)
                except BaseException:
                    self._marked.discard(name)
                    raise
            return await self._drive_out(node)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return 0.1

    def _silence(self, name: str) -> float:
        """By how many seconds a worker has exceeded its grace period."""
        heard = self._heard.get(name)
        if heard is None:
            return 0.0
        return self._clock.monotonic() - heard.at - (heard.grace_s if heard.ever else STARTUP_GRACE_S)

    def _look_s(self, name: str) -> float:
        """Seconds until the next check of a worker, at the latest when its grace period ends."""
        heard = self._heard.get(name)
        if heard is None:
            return _LOOK_S
        silent_s = self._silence(name)
        return min(_LOOK_S, heard.grace_s / 4, _LOOK_S if silent_s > 0 else _SOON_S - silent_s)

    async def _mark_unknown(self, node: Object) -> Object:
        now = times.format_time(self._clock.now())
        conditions: Sequence[Mapping[str, Any]] = list(meta.conditions(node))
        for kind in _REPORTED:
            there = meta.condition(node, kind) is not None
            unknown = {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusUnknown" if there else "NodeStatusNeverUpdated",
                "message": "Kubelet stopped posting node status." if there else "Kubelet never posted node status.",
            }
            conditions = meta.with_condition(conditions, unknown, now=now)
        status = {**(node.get("status") or {}), "conditions": conditions}
        return await self._client.update(NODES, {**node, "status": status}, subresource="status")

    async def _mark_pods(self, name: str) -> None:
        """Mark the pods of a node that is not ready as not ready."""
        found = await self._client.list(PODS, selection=Selection(fields=f"spec.nodeName={name}"))
        now = times.format_time(self._clock.now())
        for pod in found.items:
            if meta.is_condition_true(pod, "Ready"):
                unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now}
                patch = {"metadata": {"uid": meta.uid(pod)}, "status": {"conditions": [unready]}}
                try:
                    await self._client.patch(
                        PODS, meta.name(pod), patch, type=PatchType.STRATEGIC, namespace=meta.namespace(pod),
                        subresource="status",
                    )  # fmt: skip
                except (errors.NotFound, errors.Conflict):
                    continue

    async def _keep_out(self, node: Object) -> Object:
        """Add the NoSchedule taint that a node needs and remove the others; the updated node."""
        wanted, driven_out = _keeps_out(node), condition_taint(node)
        kept = [
            one
            for one in _taints(node)
            if one.get("key") not in _KEYS
            or one.get("key") == (driven_out if one.get("effect") == "NoExecute" else wanted)
        ]
        if wanted:
            kept = _with(kept, wanted, "NoSchedule", self._clock.now())
        return await self._set_taints(node, kept)

    async def _drive_out(self, node: Object) -> float:
        """Add the NoExecute taint that a node needs when the zone's rate allows it; seconds until the next check."""
        wanted = condition_taint(node)
        again = self._look_s(meta.name(node))
        present = _taints(node)
        if wanted and not any(one.get("key") == wanted and one.get("effect") == "NoExecute" for one in present):
            wait_s = self._turn(node)
            if wait_s == 0:
                await self._set_taints(node, _with(present, wanted, "NoExecute", self._clock.now()))
            elif wait_s is not None:
                again = min(again, wait_s)
        return again

    async def _set_taints(self, node: Object, taints: list[dict[str, Any]]) -> Object:
        if taints == _taints(node):
            return node
        return await self._client.update(NODES, {**node, "spec": {**(node.get("spec") or {}), "taints": taints}})

    def _turn(self, node: Object) -> float | None:
        """Seconds until a node may be tainted NoExecute: 0 for now, None for not in the present state of the zones."""
        rates = self._rates()
        zone = zone_of(node)
        rate = rates.get(zone, RATE)
        if rate <= 0:
            return None
        now = self._clock.monotonic()
        known = self._buckets.get(zone)
        if known is None or known[0] != rate:
            known = self._buckets[zone] = rate, TokenBucket(rate=rate, burst=1, now=now)
        return 0.0 if known[1].take(now) else 1 / rate / 2

    def _rates(self) -> dict[str, float]:
        ready: Counter[str] = Counter()
        unready: Counter[str] = Counter()
        for node in self._nodes.cache.values():
            # Nodes past their grace period count before their condition is written, because nodes that fail together
            # expire one by one.
            unwell = condition_taint(node) or self._silence(meta.name(node)) > 0
            (unready if unwell else ready)[zone_of(node)] += 1
        zones = {*ready, *unready}
        all_dark = bool(zones) and all(not ready[zone] for zone in zones)
        # A single failed node is not a network failure.
        all_dark = all_dark and sum(unready.values()) > 1
        return {zone: zone_rate(ready[zone], unready[zone], all_dark=all_dark) for zone in zones}


def _taints(node: Object) -> list[dict[str, Any]]:
    return [dict(one) for one in (node.get("spec") or {}).get("taints") or ()]


def _with(taints: list[dict[str, Any]], key: str, effect: str, now: float) -> list[dict[str, Any]]:
    if any(one.get("key") == key and one.get("effect") == effect for one in taints):
        return taints
    return [*taints, {"key": key, "effect": effect, "timeAdded": times.format_time(now)}]
