"""Gives every pod for a batch scheduler a PodGroup: makes it, and writes its name on the pod.

A group goes with its owner; that of a ReplicaSet or a StatefulSet also when the set is scaled to nothing.
"""

from collections.abc import Callable, Collection
from typing import Final

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.paths import Target
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client
from rota.controllers.batch import group_plan
from rota.controllers.batch.jobs import COMPONENT
from rota.controllers.pod_control import PODS, is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_SETS: Final[dict[str, Target]] = {
    "ReplicaSet": ("apps", "v1", "replicasets"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "Job": ("batch", "v1", "jobs"),
}
_WORKERS: Final = 5


class PodGroupController:
    """Makes groups for pods of other kinds than Volcano's."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        schedulers: Collection[str] = (kinds.SCHEDULER,),
    ) -> None:
        """`schedulers` are the names of batch schedulers."""
        self._client: Final = client
        self._schedulers: Final = frozenset(schedulers)
        self._frame: Final = Reconciler[tuple[str, Key]](
            client, "batch groups", self._process, clock=clock, rng=rng, workers=_WORKERS, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as(COMPONENT)
        self._pods: Final = self._frame.follow(PODS, self._pod_changed)
        self._owners: Final = {kind: self._frame.follow(target, self._scaled(kind)) for kind, target in _SETS.items()}

    async def run(self) -> None:
        """Make groups until cancelled."""
        await self._frame.run()

    def _pod_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and group_plan.needs_group(new, self._schedulers):
            self._frame.queue.add(("Pod", key))

    def _scaled(self, kind: str) -> Callable[[Key, Object | None, Object | None], None]:
        def changed(key: Key, old: Object | None, new: Object | None) -> None:
            if new is None or kind == "Job" or old is None:
                return
            before, after = (one["spec"].get("replicas", 1) for one in (old, new))
            if before and not after:
                self._frame.queue.add((kind, key))

        return changed

    async def _process(self, item: tuple[str, Key]) -> float | None:
        kind, key = item
        if kind == "Pod":
            await self._group_pod(key)
        else:
            owner = self._owners[kind].cache.get(key.name, key.namespace)
            if owner is not None and not owner["spec"].get("replicas", 1):
                await self._drop(owner)
        return None

    async def _group_pod(self, key: Key) -> None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or not group_plan.needs_group(pod, self._schedulers):
            return
        wanted = group_plan.group(pod, self._owner(pod))
        try:
            await self._client.create(kinds.POD_GROUPS, wanted)
        except errors.AlreadyExists:
            pass  # made for another pod of the same owner
        except errors.ApiError as problem:
            if is_end_of_namespace(problem):
                return
            full = {**pod, "apiVersion": "v1", "kind": "Pod"}
            self._recorder.event(full, "Warning", "PodGroupError", f"Failed to create the pod's group: {problem}")
            raise
        mark = {kinds.GROUP_NAME: meta.name(wanted)}
        patch = {"metadata": {"uid": meta.uid(pod), "annotations": mark}}
        try:
            await self._client.patch(PODS, key.name, patch, namespace=key.namespace)
        except (errors.NotFound, errors.Conflict):
            return  # gone, or replaced by another of its name, which the watch reports

    def _owner(self, pod: Object) -> Object | None:
        reference = meta.controller_of(pod)
        if reference is None or reference.get("kind") not in self._owners:
            return None
        found = self._owners[str(reference["kind"])].cache.get(str(reference["name"]), meta.namespace(pod))
        return found if found is not None and meta.uid(found) == reference.get("uid") else None

    async def _drop(self, owner: Object) -> None:
        name = group_plan.name_for(meta.uid(owner))
        try:
            await self._client.delete(kinds.POD_GROUPS, name, namespace=meta.namespace(owner))
        except errors.NotFound:
            return
