"""Counts the nodes of HyperNodes, and keeps those that labels of nodes describe (`domains`).

Discovery is configured as upstream: the key `volcano-controller.conf` of the ConfigMap `volcano-controller-configmap`,
in the namespace `volcano-system` or `kube-system`. Without it, HyperNodes are what users made.
"""

from typing import Any, Final

import yaml

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Selection
from rota.controllers.batch import domains
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

_NODES: Final = ("", "v1", "nodes")
_CONFIG_MAPS: Final = ("", "v1", "configmaps")
_CONFIG: Final = "volcano-controller-configmap"
_FILE: Final = "volcano-controller.conf"
_NAMESPACES: Final = ("volcano-system", "kube-system")
#: Many nodes change together; they are looked at together.
_BATCH_S: Final = 0.5
_EVERYTHING: Final = ""


class HyperNodeController:
    """Manages the status of all HyperNodes, and discovered ones."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._frame: Final = Reconciler[str](
            client, "batch domains", self._process, clock=clock, rng=rng, workers=1, metrics=metrics
        )
        self._hyper_nodes: Final = self._frame.follow(kinds.HYPER_NODES, self._changed)
        self._nodes: Final = self._frame.follow(_NODES, self._node_changed)
        chosen = Selection(fields=f"metadata.name={_CONFIG}")
        self._settings: Final = self._frame.follow(_CONFIG_MAPS, self._changed, selection=chosen)

    async def run(self) -> None:
        """Keep HyperNodes until cancelled."""
        await self._frame.run()

    def _changed(self, _: Key, __: Object | None, ___: Object | None) -> None:
        self._frame.queue.add_after(_EVERYTHING, _BATCH_S)

    def _node_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or meta.labels(old) != meta.labels(new):
            self._frame.queue.add_after(_EVERYTHING, _BATCH_S)

    async def _process(self, _: str) -> float | None:
        types = self._types()
        if types is not None:
            await self._discover(types)
        nodes = {meta.name(one): one for one in self._nodes.cache.values()}
        everything = {meta.name(one): one for one in self._hyper_nodes.cache.values()}
        for name, one in everything.items():
            count = domains.node_count(name, everything, nodes)
            if ((one.get("status") or {}).get("nodeCount") or 0) == count and one.get("status"):
                continue
            try:
                status = {**(one.get("status") or {}), "nodeCount": count}
                await self._client.update(kinds.HYPER_NODES, {**one, "status": status}, subresource="status")
            except (errors.NotFound, errors.Conflict):
                continue  # the watch brings the newer one
        return None

    def _types(self) -> dict[str, list[str]] | None:
        """The configured topology types; None if there is no readable configuration."""
        for namespace in _NAMESPACES:
            found = self._settings.cache.get(_CONFIG, namespace)
            if found is None:
                continue
            try:
                return domains.types_of(yaml.safe_load((found.get("data") or {}).get(_FILE) or ""))
            except (yaml.YAMLError, AttributeError, KeyError, TypeError) as problem:
                log.warning("the configuration of discovery is not readable", namespace=namespace, error=str(problem))
                return None
        return None

    async def _discover(self, types: dict[str, list[str]]) -> None:
        present = {
            meta.name(one): one
            for one in self._hyper_nodes.cache.values()
            if meta.labels(one).get(domains.SOURCE) == domains.LABEL_SOURCE
        }
        wanted = {meta.name(one): one for one in domains.discovered(types, self._nodes.cache.values())}
        for name, one in wanted.items():
            await self._put(one, present.get(name))
        for name, old in present.items():
            if name not in wanted:
                try:
                    await self._client.delete(kinds.HYPER_NODES, name, uid=meta.uid(old))
                except (errors.NotFound, errors.Conflict):
                    continue

    async def _put(self, wanted: dict[str, Any], present: Object | None) -> None:
        try:
            if present is None:
                await self._client.create(kinds.HYPER_NODES, wanted)
            elif present.get("spec") != wanted["spec"]:
                await self._client.update(kinds.HYPER_NODES, {**present, "spec": wanted["spec"]})
        except (errors.AlreadyExists, errors.NotFound, errors.Conflict):
            return  # the watch brings the newer one
