"""Applies the Works of one member cluster, and reports the status of their objects.

A manifest is applied by server-side apply after the ownership of the object in the member is verified. An object that
the federation did not create is neither changed (unless the Work allows it) nor deleted.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta, selectors, times
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Propagation, Selection
from rota.federation import kinds, object_names
from rota.federation.customization.interpreter import NATIVE, Interpreter
from rota.federation.customization.operations import CannotInterpret
from rota.federation.failover import exclusive
from rota.federation.interpreters import native, trees
from rota.federation.member import connections, unschedulable
from rota.federation.member.fence import START_S, Fence, FenceClosed
from rota.federation.member.served_kinds import Kind, NotServed, Types
from rota.federation.own_writes import OwnWrites
from rota.federation.services import exposure, slices
from rota.federation.works import manifests
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

_NAME: Final = "work.karmada.io/name"
_SPACE: Final = "work.karmada.io/namespace"
#: After how long a Work is tried again that a member refuses or does not answer for.
_AGAIN_S: Final = 5.0
_PODS: Final = ("", "v1", "pods")
_FENCED_AGAIN_S: Final = 1.0
#: After how long a new informer is looked at again.
_SYNCED_AGAIN_S: Final = 0.5
#: How often unschedulable replicas are counted while a workload is not healthy.
_COUNT_AGAIN_S: Final = 30.0
_OURS: Final = Selection(labels=f"{manifests.MANAGED}=true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one member is served."""

    interpreter: Interpreter = NATIVE
    #: Guards exclusive workloads; a push member has none, and its exclusive work is not taken over.
    fence: Fence | None = None
    #: After how long a pod without a node is counted for the descheduler.
    unschedulable_after_s: float = unschedulable.AFTER_S


USUAL: Final = Settings()


class Engine:
    """Reconciles the Works of one member: reads them by `control`, applies them by `member`."""

    def __init__(
        self,
        control: Client,
        member: Client,
        cluster: str,
        *,
        clock: Clock,
        rng: Rng,
        settings: Settings = USUAL,
    ) -> None:
        self._space: Final = object_names.execution_space(cluster)
        self._frame: Final = Reconciler[str](
            control,
            f"member {cluster}",
            self._process,
            clock=clock,
            rng=rng,
            workers=4,
            retries=connections.RETRIES,
            metrics=Metrics("federation_member"),
        )
        self._works: Final = self._frame.follow(
            kinds.WORKS, lambda key, old, new: self._frame.queue.add(key.name), namespace=self._space
        ).cache
        self._session: Final = _Session(control, member, self._frame, self._space, clock=clock, settings=settings)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    async def _process(self, name: str) -> float | None:
        work = self._works.get(name, self._space)
        if work is None:
            self._session.forget(name)
            return None
        try:
            return await self._session.keep(work)
        except TransportError as error:
            log.info("a member does not answer", work=f"{self._space}/{name}", error=str(error))
            return _AGAIN_S


class _Session:
    """The connection to one member, with the kinds that are followed there."""

    def __init__(
        self,
        client: Client,
        member: Client,
        frame: Reconciler[str],
        space: str,
        *,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._settings: Final = settings
        self._interpreter: Final = settings.interpreter
        self._fence: Final = settings.fence
        self._client: Final = client
        self._member: Final = member
        self._frame: Final = frame
        self._space: Final = space
        self._clock: Final = clock
        self._types: Final = Types(member)
        #: Our objects in the member, by kind.
        self._followed: Final[dict[Kind, Informer[Object]]] = {}
        #: The member's own EndpointSlices, if a MultiClusterService needs them.
        self._slices: Informer[Object] | None = None
        self._own: Final = OwnWrites[str]()

    def forget(self, name: str) -> None:
        """A Work is gone."""
        self._own.forget(name)

    async def keep(self, cached: Object) -> float | None:
        """Bring a Work into the member, or out of it."""
        work = self._own.newest(meta.name(cached), cached) or cached
        carried = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
        if slices.is_collecting(work):
            return await self._collected(work)
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
        reported, stuck = [], 0
        try:
            for ordinal, manifest in enumerate(carried):
                present = await self._applied(work, manifest)
                reported.append(await self._reading(ordinal, manifest, present))
                stuck += await self._stuck(present)
        except FenceClosed as error:
            log.info("an exclusive workload is not started", work=meta.qualified_name(work), error=str(error))
            return _FENCED_AGAIN_S
        except (errors.ApiError, NotServed, CannotInterpret) as error:
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
        await self._note_stuck(work, stuck)
        again_s = min(_COUNT_AGAIN_S, self._settings.unschedulable_after_s)
        return again_s if any(item["health"] == "Unhealthy" for item in reported) else None

    async def _collected(self, work: Object) -> float | None:
        """Report the EndpointSlices of the Service that a Work names; they are not changed."""
        if meta.is_deleting(work):
            return None
        if self._slices is None:
            try:
                target = await self._types.of(exposure.SLICE)
            except (errors.ApiError, NotServed) as error:
                log.info("EndpointSlices cannot be read", work=meta.qualified_name(work), error=str(error))
                return _AGAIN_S
            own = Selection(labels=slices.OWN)
            self._slices = self._frame.follow(target, self._slice_changed, selection=own, client=self._member)
        if not self._slices.synced:
            return _SYNCED_AGAIN_S
        namespace, name = meta.labels(work)[exposure.NAMESPACE], meta.labels(work)[exposure.NAME]
        present = [
            one
            for key, one in self._slices.cache.items()
            if key.namespace == namespace and meta.labels(one).get(slices.SERVICE) == name
        ]
        identifier = {"ordinal": 0, "version": "v1alpha1", "kind": exposure.KIND, "resource": "", "name": name}
        found = {"identifier": {**identifier, "namespace": namespace}, "status": slices.collected(present)}
        condition = {"type": slices.COLLECTED, "status": "True", "reason": "EndpointSliceCollectedSucceed"}
        await self._report(work, condition, [found])
        return None

    def _slice_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        service = meta.labels(new or old or {}).get(slices.SERVICE) or ""
        self._frame.queue.add(slices.collecting_name(key.namespace, service))

    async def _stuck(self, present: Object) -> int:
        """The replicas of a Deployment that the member cannot schedule."""
        if not unschedulable.is_short(present):
            return 0
        return await unschedulable.counted(
            self._member, present, self._clock.now(), self._settings.unschedulable_after_s
        )

    async def _note_stuck(self, work: Object, stuck: int) -> None:
        """Write the count on the Work if it has changed."""
        mark = unschedulable.mark(work, stuck)
        if meta.annotations(work).get(unschedulable.COUNT) != mark:
            patch = {"metadata": {"annotations": {unschedulable.COUNT: mark}}}
            with contextlib.suppress(errors.NotFound):
                self._own.note(
                    meta.name(work),
                    await self._client.patch(kinds.WORKS, meta.name(work), patch, namespace=self._space),
                )

    async def _present(self, manifest: Object) -> tuple[Any, Object | None]:
        target = await self._types.of(native.kind_of(manifest))
        return target, await self._read(target, manifest)

    async def _read(self, target: Any, manifest: Object) -> Object | None:
        try:
            return await self._member.get(target, meta.name(manifest), namespace=meta.namespace(manifest))
        except errors.NotFound:
            return None

    async def _applied(self, work: Object, manifest: Object) -> Object:
        """Apply a manifest; the object as it is in the member."""
        target = await self._types.of(native.kind_of(manifest))
        known = self._known(native.kind_of(manifest), target, manifest)
        if (
            known is not None
            and _is_of_same_work(known, manifest)
            and trees.covers(known, await self._interpreter.retained(manifest, known))
        ):
            return known
        present = await self._read(target, manifest)
        may_take = meta.annotations(manifest).get(manifests.CONFLICTS) == "overwrite" or (
            manifest.get("kind") == "Namespace" and connections.NEEDED in meta.annotations(present or {})
        )
        if present is not None and not _is_of_same_work(present, manifest) and not may_take:
            raise errors.Conflict(
                f"{manifest.get('kind')} {meta.qualified_name(manifest)} exists in the member and is not managed by"
                " this federation; set conflictResolution to Overwrite to take it over"
            )
        wanted = dict(manifest)
        if present is not None:
            wanted = await self._interpreter.retained(manifest, present)
            if trees.covers(present, wanted):
                return present
        async with contextlib.AsyncExitStack() as guarded:
            member = self._member
            if exclusive.is_marked(manifest):
                # without retries and for a short time, since a late one could start it after the fence has closed
                member = member.with_settings(retry=False, timeout_s=START_S)
                if self._fence is not None:
                    await guarded.enter_async_context(self._fence.starting(meta.name(work)))
            try:
                return await member.apply(target, wanted, field_manager=connections.FIELD_MANAGER, force=True)
            except errors.NotFound:
                if present is not None or not meta.namespace(manifest):
                    raise
                await connections.ensure_namespace(self._member, meta.namespace(manifest))
            return await member.apply(target, wanted, field_manager=connections.FIELD_MANAGER, force=True)

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
                    # an exclusive workload is gone when its pods are
                    propagation=Propagation.FOREGROUND if exclusive.is_marked(manifest) else Propagation.BACKGROUND,
                    uid=meta.uid(present),
                )
        return (await self._present(manifest))[1] is None

    async def _let_go(self, work: Object) -> None:
        left = [one for one in meta.finalizers(work) if one != manifests.FINALIZER]
        if len(left) < len(meta.finalizers(work)):
            patch = {"metadata": {"finalizers": left or None}}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(kinds.WORKS, meta.name(work), patch, namespace=self._space)

    def _known(self, kind: Kind, target: Any, manifest: Object) -> Object | None:
        """An object of ours as the last event of the member had it; its kind is followed from now on."""
        informer = self._followed.get(kind)
        if informer is None:
            self._followed[kind] = self._frame.follow(
                target, self._member_changed, selection=_OURS, client=self._member
            )
            return None
        return informer.cache.get(meta.name(manifest), meta.namespace(manifest)) if informer.synced else None

    def _member_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        annotations = meta.annotations(new or old or {})
        if annotations.get(_SPACE) == self._space and annotations.get(_NAME):
            self._frame.queue.add(annotations[_NAME])

    async def _reading(self, ordinal: int, manifest: Object, present: Object) -> dict[str, Any]:
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
        try:
            status = await self._interpreter.status(present, await self._pods_of(present))
            if status:
                found["status"] = status
            healthy = await self._interpreter.health(present)
            if healthy is not None:
                found["health"] = "Healthy" if healthy else "Unhealthy"
        except CannotInterpret as error:
            # It is applied all the same; what cannot be read is unknown.
            log.warning("an object of a member cannot be interpreted", cluster=self._space, error=str(error))
        return found

    async def _pods_of(self, present: Object) -> list[Object]:
        """The pods that the status of an object is read with; most need none."""
        selector = self._interpreter.pods_for_status(present)
        if selector is None:
            return []
        selection = Selection(labels=str(selectors.from_object(selector)))
        return list((await self._member.list(_PODS, namespace=meta.namespace(present), selection=selection)).items)

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
            answer = await self._client.patch(
                kinds.WORKS, meta.name(work), {"status": status}, namespace=self._space, subresource="status"
            )
            self._own.note(meta.name(work), answer)


def _is_of_same_work(present: Object, manifest: Object) -> bool:
    mine, theirs = meta.annotations(present), meta.annotations(manifest)
    return all(mine.get(name) == theirs.get(name) for name in (_NAME, _SPACE)) and bool(mine.get(_NAME))
