"""Every namespace in every member, as upstream has it; only where the operator asks for that.

Otherwise a namespace is created in a member when the first object in it arrives there, or by a policy that selects it.
"""

import re
from typing import Any, Final

from rota.api import meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.control.marked_works import MarkedWorks, Place
from rota.federation.member import connections
from rota.federation.works import manifests
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

_MARK: Final = "namespace.karmada.io/name"
_SKIP: Final = "namespace.karmada.io/skip-auto-propagation"
_SKIPPED: Final = re.compile(r"kube-.*|default")


class NamespaceLoop:
    """Reconciles a namespace when it or a cluster changes."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._frame: Final = Reconciler[str](
            client, "namespaces", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._namespaces: Final = self._frame.follow(
            kinds.NAMESPACES, lambda key, old, new: self._frame.queue.add(key.name)
        ).cache
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        self._works: Final = MarkedWorks(client, self._frame, _MARK, self._work_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or meta.is_deleting(old) != meta.is_deleting(new):
            for namespace in [one.name for one, _ in self._namespaces.items()]:
                self._frame.queue.add(namespace)

    def _work_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None:
            self._frame.queue.add(meta.annotations(new or old or {})[_MARK])

    async def _process(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        wanted = {} if namespace is None or not _is_propagated(namespace) else self._works_of(namespace)
        await self._works.keep(name, wanted)
        return None

    def _works_of(self, namespace: Object) -> dict[Place, dict[str, Any]]:
        found = {}
        for cluster in self._clusters.values():
            if meta.is_deleting(cluster):
                continue
            work = manifests.plain_work(namespace, meta.name(cluster), {_MARK: meta.name(namespace)})
            found[meta.namespace(work), meta.name(work)] = work
        return found


def _is_propagated(namespace: Object) -> bool:
    name = meta.name(namespace)
    return not (
        meta.is_deleting(namespace)
        or object_names.is_reserved(name)
        or _SKIPPED.fullmatch(name)
        or meta.labels(namespace).get(_SKIP) == "true"
        # A policy that selects the namespace decides alone.
        or "clusterpropagationpolicy.karmada.io/permanent-id" in meta.labels(namespace)
    )
