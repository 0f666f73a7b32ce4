"""Tells in a quota's status what its namespace really uses.

The API server charges a quota in the transaction that uses it, so `status.used` is never too low; what is freed makes
the truth smaller without anybody writing it down. Here a namespace is counted anew when something in it is freed, when
a quota is new or changed, and now and then. A charge that comes in between changes the quota, and then the count is
thrown away and made again: a count never takes back a charge that it has not seen.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta, quotas
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

QUOTAS: Final = ("", "v1", "resourcequotas")
PODS: Final = ("", "v1", "pods")
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: How soon after something was freed: what goes together is counted together.
_PAUSE_S: Final = 0.5
#: Other kinds than pods are not followed; what they free is found by looking now and then.
_INTERVAL_S: Final = 300.0


class QuotaController:
    """Counts by namespace."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[str](client, "quotas", self._process, clock=clock, rng=rng, metrics=metrics)
        self._by_namespace: Final[defaultdict[str, set[str]]] = defaultdict(set)
        self._quotas: Final = self._frame.follow(QUOTAS, self._quota_changed)
        self._frame.follow(PODS, self._pod_changed)

    async def run(self) -> None:
        """Keep the figures until cancelled."""
        await self._frame.run()

    def _quota_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        names = self._by_namespace[key.namespace]
        if new is None:
            names.discard(key.name)
            return
        names.add(key.name)
        if _limits(new) != (new.get("status") or {}).get("hard"):
            self._frame.queue.add(key.namespace)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if self._by_namespace.get(key.namespace) and old is not None and (new is None or _ended(new) != _ended(old)):
            self._frame.queue.add_after(key.namespace, _PAUSE_S)

    async def _process(self, namespace: str) -> float | None:
        names = self._by_namespace.get(namespace)
        if not names:
            return None
        # From the server, not from the cache: a count is worth something only against the quota of the same moment.
        found = (await self._client.list(QUOTAS, namespace=namespace)).items
        listed: dict[GroupResource, Sequence[Object]] = {}
        served: Mapping[GroupResource, ResourceType] | None = None
        for quota in found:
            hard = _limits(quota)
            wanted = quotas.kinds(hard)
            if any(which not in listed for which in wanted):
                served = served or await self._served()
            for which in wanted:
                if which not in listed:
                    resource = (served or {}).get(which)
                    listed[which] = (
                        (await self._client.list(resource, namespace=namespace)).items if resource is not None else ()
                    )
            if not await self._report(quota, count(quota, listed, now=self._clock.now())):
                return _PAUSE_S
        return _INTERVAL_S

    async def _served(self) -> Mapping[GroupResource, ResourceType]:
        found = await discovery.discover(self._client)
        return {one.group_resource: one for one in found.preferred() if one.namespaced and "list" in one.verbs}

    async def _report(self, quota: Object, used: Mapping[str, str]) -> bool:
        """Write the figures down if they are new; whether nobody else was faster."""
        status = {"hard": dict(_limits(quota)), "used": dict(used)}
        if quota.get("status") == status:
            return True
        try:
            await self._client.update(QUOTAS, {**quota, "status": status}, subresource="status")
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True


def count(quota: Object, listed: Mapping[GroupResource, Sequence[Object]], *, now: float) -> dict[str, str]:
    """What is used of everything that a quota limits, as its status has it."""
    hard = _limits(quota)
    used = dict.fromkeys(hard, 0)
    for which in quotas.kinds(hard):
        for obj in listed.get(which, ()):
            if quotas.matches(quota.get("spec") or {}, which, obj):
                for name, amount in quotas.usage(which, obj, now=now).items():
                    if name in used:
                        used[name] += amount
    return {name: quotas.shown(name, amount) for name, amount in used.items()}


def _limits(quota: Object) -> Mapping[str, Any]:
    return (quota.get("spec") or {}).get("hard") or {}


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED or meta.is_deleting(pod)
