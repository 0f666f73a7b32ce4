"""Brings Works into member clusters, and news of them back: one engine per cluster, so that none waits for another.

A manifest is applied by server-side apply, after a look at whether the object in the member is ours. What we did not
make is neither changed (unless the Work says that it may be) nor deleted.
"""

import asyncio
import contextlib
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Propagation, Selection
from rota.federation import kinds, object_names
from rota.federation.control import members
from rota.federation.control.cluster_loop import ensure_namespace
from rota.federation.control.frame import Frame, covers
from rota.federation.control.types import Kind, NotServed, Types
from rota.federation.interpreters import native, statuses
from rota.federation.works import manifests
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_NAME: Final = "work.karmada.io/name"
_SPACE: Final = "work.karmada.io/namespace"
#: After how long a Work is tried again that a member refuses or does not answer for.
_AGAIN_S: Final = 5.0
_OURS: Final = Selection(labels=f"{manifests.MANAGED}=true")


class Engines:
    """Runs an engine for each member that is pushed to, for as long as it is there."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._frame: Final = Frame[str]("engines", clock=clock, rng=rng)
        self._clusters: Final = self._frame.follow(client, kinds.CLUSTERS, self._changed)
        #: The engines that run, with the way into the member for which they were started.
        self._running: Final[dict[str, object]] = {}
        self._supervisor: tasks.Supervisor | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        async with tasks.Supervisor("engines", clock=self._clock, rng=self._rng) as supervisor:
            self._supervisor = supervisor
            await self._frame.run(self._process)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        cluster = self._clusters.get(name)
        spec: Object = {} if cluster is None else cluster.get("spec") or {}
        way = (
            None
            if cluster is None or spec.get("syncMode") == "Pull"
            else (spec.get("apiEndpoint"), str(spec.get("secretRef")))
        )
        if self._running.get(name) == way or self._supervisor is None:
            return None
        if name in self._running:
            await self._supervisor.stop(name)
            del self._running[name]
        if cluster is not None and way is not None:
            engine = Engine(self._client, cluster, clock=self._clock, rng=self._rng)
            self._supervisor.start(name, engine.run)
            self._running[name] = way
        return None


class Engine:
    """Keeps the Works of one member."""

    def __init__(self, client: Client, cluster: Object, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._rng: Final = rng
        self._space: Final = object_names.execution_space(meta.name(cluster))

    async def run(self) -> None:
        """Work until cancelled."""
        async with members.connected(self._client, self._cluster, clock=self._clock, rng=self._rng) as member:
            frame = Frame[str](f"member {meta.name(self._cluster)}", clock=self._clock, rng=self._rng)
            works = frame.follow(
                self._client, kinds.WORKS, lambda key, old, new: frame.queue.add(key.name), namespace=self._space
            )
            session = _Session(self._client, member, frame, self._space, clock=self._clock)

            async def process(name: str) -> float | None:
                work = works.get(name, self._space)
                if work is None:
                    return None
                try:
                    return await session.keep(work)
                except TransportError as error:
                    log.info("a member does not answer", work=f"{self._space}/{name}", error=str(error))
                    return _AGAIN_S

            await frame.run(process, workers=4)


class _Session:
    """The connection to one member, with the kinds that are followed there."""

    def __init__(self, client: Client, member: Client, frame: Frame[str], space: str, *, clock: Clock) -> None:
        self._client: Final = client
        self._member: Final = member
        self._frame: Final = frame
        self._space: Final = space
        self._clock: Final = clock
        self._types: Final = Types(member)
        self._followed: Final[set[Kind]] = set()
        self._lock: Final = asyncio.Lock()

    async def keep(self, work: Object) -> float | None:
        """Bring a Work into the member, or out of it."""
        carried = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
        if meta.is_deleting(work):
            gone = True
            for manifest in carried:
                gone &= await self._removed(work, manifest)
            if gone:
                await self._let_go(work)
            return None if gone else 1.0
        if manifests.FINALIZER not in meta.finalizers(work):
            return None
        if (work.get("spec") or {}).get("suspendDispatching"):
            await self._report(work, {"type": "Dispatching", "status": "False", "reason": "SuspendDispatching"}, None)
            return None
        reported = []
        try:
            for ordinal, manifest in enumerate(carried):
                reported.append(self._reading(ordinal, manifest, await self._applied(manifest)))
        except (errors.ApiError, NotServed) as error:
            failed = {"type": "Applied", "status": "False", "reason": "AppliedFailed", "message": str(error)}
            await self._report(work, failed, None)
            log.info("a Work cannot be applied", work=meta.qualified_name(work), error=str(error))
            return _AGAIN_S
        done = {
            "type": "Applied",
            "status": "True",
            "reason": "AppliedSuccessful",
            "message": "Manifest has been successfully applied",
        }
        await self._report(work, done, reported)
        return None

    async def _present(self, manifest: Object) -> tuple[Any, Object | None]:
        target = await self._types.of(native.kind_of(manifest))
        try:
            return target, await self._member.get(target, meta.name(manifest), namespace=meta.namespace(manifest))
        except errors.NotFound:
            return target, None

    async def _applied(self, manifest: Object) -> Object:
        """Apply a manifest; the object as it is in the member."""
        target, present = await self._present(manifest)
        await self._follow(native.kind_of(manifest), target)
        may_take = meta.annotations(manifest).get(manifests.CONFLICTS) == "overwrite"
        if present is not None and not _is_of_same_work(present, manifest) and not may_take:
            raise errors.Conflict(
                f"{manifest.get('kind')} {meta.qualified_name(manifest)} exists in the member and is not managed by"
                " this federation; set conflictResolution to Overwrite to take it over"
            )
        wanted = dict(manifest)
        if present is not None:
            retain = native.RETAINED.get(native.kind_of(manifest))
            wanted = retain(manifest, present) if retain is not None else wanted
            if covers(present, wanted):
                return present
        elif meta.namespace(manifest):
            await ensure_namespace(self._member, meta.namespace(manifest))
        return await self._member.apply(target, wanted, field_manager=members.FIELD_MANAGER, force=True)

    async def _removed(self, work: Object, manifest: Object) -> bool:
        """Delete what a manifest made, if it is ours; whether nothing of it is left."""
        if (work.get("spec") or {}).get("preserveResourcesOnDeletion"):
            return True
        try:
            target, present = await self._present(manifest)
        except NotServed:
            return True
        if present is None or not _is_of_same_work(present, manifest):
            return True
        if not meta.is_deleting(present):
            with contextlib.suppress(errors.NotFound):
                await self._member.delete(
                    target,
                    meta.name(manifest),
                    namespace=meta.namespace(manifest),
                    propagation=Propagation.BACKGROUND,
                    uid=meta.uid(present),
                )
        return (await self._present(manifest))[1] is None

    async def _let_go(self, work: Object) -> None:
        left = [one for one in meta.finalizers(work) if one != manifests.FINALIZER]
        if len(left) < len(meta.finalizers(work)):
            patch = {"metadata": {"finalizers": left or None}}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(kinds.WORKS, meta.name(work), patch, namespace=self._space)

    async def _follow(self, kind: Kind, target: Any) -> None:
        """Hear of changes of our objects of a kind in the member."""
        async with self._lock:
            if kind in self._followed:
                return
            self._followed.add(kind)
            self._frame.follow(self._member, target, self._member_changed, selection=_OURS)

    def _member_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        annotations = meta.annotations(new or old or {})
        if annotations.get(_SPACE) == self._space and annotations.get(_NAME):
            self._frame.queue.add(annotations[_NAME])

    @staticmethod
    def _reading(ordinal: int, manifest: Object, present: Object) -> dict[str, Any]:
        """The reported state of an object: its collected status and its health."""
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        found: dict[str, Any] = {
            "identifier": {
                "ordinal": ordinal,
                "group": group,
                "version": version,
                "kind": manifest.get("kind"),
                "resource": "",
                "namespace": meta.namespace(manifest),
                "name": meta.name(manifest),
            },
            "health": "Unknown",
        }
        with contextlib.suppress(statuses.NotReadable):
            status = native.collected_status(present)
            if status:
                found["status"] = status
        judge = native.HEALTH.get(native.kind_of(present))
        if judge is not None:
            found["health"] = "Healthy" if judge(present) else "Unhealthy"
        return found

    async def _report(self, work: Object, condition: dict[str, Any], reported: list[dict[str, Any]] | None) -> None:
        now = times.format_time(self._clock.now())
        condition = {"message": "", **condition}
        status: dict[str, Any] = {"conditions": meta.with_condition(meta.conditions(work), condition, now=now)}
        if reported is not None:
            status["manifestStatuses"] = reported
        present: Object = work.get("status") or {}
        if all(present.get(member) == value for member, value in status.items()):
            return
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(
                kinds.WORKS, meta.name(work), {"status": status}, namespace=self._space, subresource="status"
            )


def _is_of_same_work(present: Object, manifest: Object) -> bool:
    mine, theirs = meta.annotations(present), meta.annotations(manifest)
    return all(mine.get(name) == theirs.get(name) for name in (_NAME, _SPACE)) and bool(mine.get(_NAME))
