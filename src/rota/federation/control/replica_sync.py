"""Replicas under autoscalers of members: marks their targets, and takes over the members' sum into the template.

A propagated HorizontalPodAutoscaler scales its target in each member. The target is labelled, so that members keep
their own number (`interpreters/retention.py`), and a divided template follows their sum.
"""

import contextlib
from typing import Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds, object_names
from rota.federation.interpreters.retention import RETAIN_REPLICAS
from rota.federation.member import connections
from rota.federation.policies import claims
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

_AUTOSCALERS: Final = ("autoscaling", "v2", "horizontalpodautoscalers")
_DEPLOYMENTS: Final = ("apps", "v1", "deployments")
_COLLECTED_AGAIN_S: Final = 1.0


class ReplicaSync:
    """Reconciles a Deployment when it, its binding or an autoscaler of it changes."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._frame: Final = Reconciler[Key](
            client, "replica sync", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._autoscalers: Final = self._frame.follow(_AUTOSCALERS, self._autoscaler_changed).cache
        self._deployments: Final = self._frame.follow(
            _DEPLOYMENTS, lambda key, old, new: self._frame.queue.add(key)
        ).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, lambda key, old, new: None).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _autoscaler_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for autoscaler in filter(None, (old, new)):
            name = _target(autoscaler)
            if name:
                self._frame.queue.add(Key(key.namespace, name))

    async def _process(self, key: Key) -> float | None:
        deployment = self._deployments.get(key.name, key.namespace)
        if deployment is None or meta.is_deleting(deployment):
            return None
        is_scaled = any(
            meta.namespace(one) == key.namespace and _target(one) == key.name and _is_propagated(one)
            for one in self._autoscalers.values()
        )
        is_marked = meta.labels(deployment).get(RETAIN_REPLICAS) == "true"
        if is_scaled != is_marked:
            patch = {"metadata": {"labels": {RETAIN_REPLICAS: "true" if is_scaled else None}}}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(_DEPLOYMENTS, key.name, patch, namespace=key.namespace)
            return None
        return await self._follow_sum(key, deployment) if is_marked else None

    async def _follow_sum(self, key: Key, deployment: Object) -> float | None:
        binding = self._bindings.get(object_names.binding("Deployment", key.name), key.namespace)
        placement = ((binding or {}).get("spec") or {}).get("placement")
        if binding is None or placement is None or bindings.scheduling_type(placement) != bindings.DIVIDED:
            return None
        total = settled_sum(deployment, binding)
        if total is None:
            return _COLLECTED_AGAIN_S
        if total == _number(deployment.get("spec"), "replicas"):
            return None
        patch = {
            "metadata": {"resourceVersion": meta.metadata(deployment).get("resourceVersion")},
            "spec": {"replicas": total},
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # a newer version comes back by itself
            await self._client.patch(_DEPLOYMENTS, key.name, patch, namespace=key.namespace)
        return None


def _target(autoscaler: Object) -> str:
    reference: Object = (autoscaler.get("spec") or {}).get("scaleTargetRef") or {}
    is_deployment = reference.get("kind") == "Deployment" and reference.get("apiVersion") == "apps/v1"
    return str(reference.get("name") or "") if is_deployment else ""


def _is_propagated(autoscaler: Object) -> bool:
    labels = meta.labels(autoscaler)
    return not meta.is_deleting(autoscaler) and (claims.ID in labels or claims.CLUSTER_ID in labels)


def settled_sum(deployment: Object, binding: Object) -> int | None:
    """Sum the replicas of all clusters; None until each has applied the present spec, created its pods and reported.

    A cluster that has only begun reports too few, even none. A template that followed such a sum would be divided
    anew, and clusters without a share would lose the Deployment.
    """
    spec: Object = binding.get("spec") or {}
    replicas = _number(deployment.get("spec"), "replicas")
    if _number(deployment.get("status"), "observedGeneration") != _number(deployment.get("metadata"), "generation"):
        return None
    if not replicas == bindings.replicas(spec) == bindings.sum_of_replicas(bindings.targets(spec)):
        return None
    reported = {
        item.get("clusterName"): item.get("status") or {}
        for item in (binding.get("status") or {}).get("aggregatedStatus") or ()
    }
    total = 0
    for target in bindings.targets(spec):
        status = reported.get(target.get("name")) or {}
        count = _number(status, "replicas")
        if not count or count != _number(status, "availableReplicas") + _number(status, "unavailableReplicas"):
            return None
        total += count
    return total


def _number(fields: Object | None, name: str) -> int:
    return int((fields or {}).get(name) or 0)
