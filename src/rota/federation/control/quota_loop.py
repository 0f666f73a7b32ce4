"""Federated quotas: what bindings use of them, and ResourceQuotas in the members that have a part assigned."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names, quotas
from rota.federation.control.marked_works import MarkedWorks, Place
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.works import manifests
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

_MARK: Final = "federatedresourcequota.karmada.io/name"


class QuotaLoop:
    """Reconciles a quota when it, a binding of its namespace, a cluster or one of its Works changes."""

    def __init__(self, client: Client, gates: Gates, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._gates: Final = gates
        self._frame: Final = Reconciler[Key](
            client, "quotas", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._quotas: Final = self._frame.follow(kinds.QUOTAS, lambda key, old, new: self._frame.queue.add(key)).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, self._of_namespace).cache
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._of_all).cache
        self._works: Final = MarkedWorks(client, self._frame, _MARK, self._of_work)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _of_namespace(self, key: Key, old: Object | None, new: Object | None) -> None:
        for quota in [one for one, _ in self._quotas.items() if one.namespace == key.namespace]:
            self._frame.queue.add(quota)

    def _of_all(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            for quota in [one for one, _ in self._quotas.items()]:
                self._frame.queue.add(quota)

    def _of_work(self, key: Key, old: Object | None, new: Object | None) -> None:
        namespace, _, name = meta.annotations(new or old or {})[_MARK].partition("/")
        self._frame.queue.add(Key(namespace, name))

    async def _process(self, key: Key) -> float | None:
        quota = self._quotas.get(key.name, key.namespace)
        wanted = {} if quota is None or meta.is_deleting(quota) else self._assigned(quota)
        present = await self._works.keep(f"{key.namespace}/{key.name}", wanted)
        if quota is not None and not meta.is_deleting(quota):
            await self._report(quota, [work for place, work in present.items() if place in wanted])
        return None

    def _assigned(self, quota: Object) -> dict[Place, dict[str, Any]]:
        """The Works with ResourceQuotas of static assignments, for clusters that have joined."""
        found = {}
        for one in (quota.get("spec") or {}).get("staticAssignments") or ():
            cluster = self._clusters.get(one.get("clusterName") or "")
            if cluster is None or meta.is_deleting(cluster):
                continue
            manifest = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": meta.name(quota), "namespace": meta.namespace(quota)},
                "spec": {"hard": dict(one.get("hard") or {})},
            }
            work = manifests.plain_work(manifest, meta.name(cluster), {_MARK: meta.qualified_name(quota)})
            found[meta.namespace(work), meta.name(work)] = work
        return found

    async def _report(self, quota: Object, works: list[Object]) -> None:
        overall: Object = (quota.get("spec") or {}).get("overall") or {}
        reported = []
        for work in sorted(works, key=meta.namespace):
            statuses = (work.get("status") or {}).get("manifestStatuses") or ()
            status = next((one["status"] for one in statuses if one.get("status")), None)
            if status is not None:
                cluster = object_names.cluster_of(meta.namespace(work))
                parts = {name: status[name] for name in ("hard", "used") if status.get(name)}
                reported.append({"clusterName": cluster, **parts})
        if self._gates.federated_quota_enforcement:
            of_namespace = [
                one.get("spec") or {} for one in self._bindings.values() if meta.namespace(one) == meta.namespace(quota)
            ]
            used = quotas.written(quotas.total(of_namespace), overall)
        else:
            used = quotas.added([one.get("used") or {} for one in reported], overall)
        status = {"overall": overall, "overallUsed": used or None, "aggregatedStatus": reported or None}
        present: Object = quota.get("status") or {}
        if all((present.get(name) or None) == (value or None) for name, value in status.items()):
            return
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(
                kinds.QUOTAS,
                meta.name(quota),
                {"status": status},
                namespace=meta.namespace(quota),
                subresource="status",
            )
