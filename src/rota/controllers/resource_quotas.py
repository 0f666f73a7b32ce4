"""Recounts the usage in the status of ResourceQuotas.

The API server charges a quota in the transaction that uses it, so `status.used` is never too low. Usage that ends is
not written back there. This controller recounts a namespace when something in it is deleted, when a quota is new or
changed, and periodically. A charge during a recount changes the quota's version; the recount is then discarded and
repeated, so that it never removes a charge it has not seen.
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
#: Delay after a deletion, so that several are counted together.
_PAUSE_S: Final = 0.5
#: Other kinds than pods are not watched; their deletions are found by the periodic recount.
_INTERVAL_S: Final = 300.0


class QuotaController:
    """Recounts by namespace."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[str](client, "quotas", self._process, clock=clock, rng=rng, metrics=metrics)
        self._by_namespace: Final[defaultdict[str, set[str]]] = defaultdict(set)
        self._quotas: Final = self._frame.follow(QUOTAS, self._quota_changed)
        self._frame.follow(PODS, self._pod_changed)

    async def run(self) -> None:
        """Recount until cancelled."""
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
        # Read from the server, not from the cache: the count must match the version of the quota.
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
        """Write the usage if it has changed; False on a conflict."""
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
    """The usage of every limited resource, as in the quota's status."""
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
