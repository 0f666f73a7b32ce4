"""Rolls out Deployments by creating, scaling and deleting ReplicaSets.

Pods are managed by the ReplicaSet controller. `sizes` decides the size of each set, `revisions` which set belongs to
which template, `status` the status. Behaves as upstream's (`pkg/controller/deployment`, 1.36). Every step is one write,
so that another process can continue after any step.
"""

from typing import Final, Never

from rota.api import errors, meta, selectors
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object, Propagation, Selection
from rota.controllers import pod_states
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.deployments import revisions, sizes, status
from rota.controllers.deployments.revisions import Sets
from rota.controllers.owned_reconciler import OwnedReconciler
from rota.controllers.pod_control import PODS, is_end_of_namespace
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

DEPLOYMENTS: Final = ("apps", "v1", "deployments")
REPLICA_SETS: Final = ("apps", "v1", "replicasets")
KIND: Final = OwnerKind(api_version="apps/v1", kind="Deployment", target=DEPLOYMENTS)
_ALL_KEPT: Final = 2**31 - 1


class DeploymentController:
    """Manages the ReplicaSets of all Deployments."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[Never](
            client,
            KIND,
            self._sync,
            name="deployments",
            component="deployment-controller",
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        self._recorder: Final = self._home.recorder
        self._sets: Final = self._home.own(REPLICA_SETS)
        self._expectations: Final = self._sets.expectations

    async def run(self) -> None:
        """Roll out until cancelled."""
        await self._home.run()

    async def _sync(self, deployment: Object) -> float | None:
        if not deployment["spec"]["selector"]:
            self._recorder.event(
                deployment,
                "Warning",
                "SelectingAll",
                "This deployment is selecting all pods. A non-empty selector is required.",
            )
            return None
        sets = revisions.split(deployment, await self._sets.claim(deployment))
        if meta.is_deleting(deployment):
            await self._write(deployment, status.count(deployment, sets, now=self._clock.now()))
            return None
        if (conditions := status.of_pause(deployment, now=self._clock.now())) is not None:
            deployment = await self._write(deployment, {**(deployment.get("status") or {}), "conditions": conditions})
        deployment, sets = await self._keep_revision(deployment, sets)
        if deployment["spec"].get("paused") or sizes.is_scaling(deployment, sets):
            sets = await self._resize(deployment, sets, sizes.scaled(deployment, sets))
            if deployment["spec"].get("paused"):
                await self._forget_old(deployment, sets)
            await self._write(deployment, status.count(deployment, sets, now=self._clock.now()))
            return None
        if sizes.is_rolling(deployment):
            deployment, sets = await self._roll(deployment, sets)
        else:
            deployment, sets = await self._recreate(deployment, sets)
        now = self._clock.now()
        said = status.of_rollout(deployment, sets, now=now)
        await self._write(deployment, said)
        return status.times_out_in_s(deployment, said, now=now)

    async def _roll(self, deployment: Object, sets: Sets) -> tuple[Object, Sets]:
        """One step of a rolling update: scale up the new set, or scale down old sets, or finish."""
        if sets.new is None:
            deployment, sets = await self._make_new(deployment, sets)
        if sets.new is None:
            return deployment, sets
        wanted = sizes.new_size(deployment, sets.every, sets.new)
        if wanted != sizes.replicas(sets.new):
            return deployment, await self._resize(deployment, sets, {meta.name(sets.new): wanted})
        if smaller := sizes.smaller_old(deployment, sets):
            return deployment, await self._resize(deployment, sets, smaller)
        if status.is_complete(deployment, deployment.get("status") or {}):
            await self._forget_old(deployment, sets)
        return deployment, sets

    async def _recreate(self, deployment: Object, sets: Sets) -> tuple[Object, Sets]:
        """Delete all old pods, then create new ones."""
        if old := sizes.active(sets.old):
            return deployment, await self._resize(deployment, sets, {meta.name(one): 0 for one in old})
        if await self._runs_old_pods(deployment, sets):
            return deployment, sets
        if sets.new is None:
            deployment, sets = await self._make_new(deployment, sets)
        if sets.new is None:
            return deployment, sets
        sets = await self._resize(deployment, sets, {meta.name(sets.new): sizes.replicas(deployment)})
        if status.is_complete(deployment, deployment.get("status") or {}):
            await self._forget_old(deployment, sets)
        return deployment, sets

    async def _runs_old_pods(self, deployment: Object, sets: Sets) -> bool:
        """Whether old sets have pods that have not ended; reads from the server when the sets report none."""
        if sets.new is not None and sizes.replicas(sets.new) == sizes.replicas(deployment):
            return False  # the new set has its full size already
        numbers = ("replicas", "terminatingReplicas")
        if any((one.get("status") or {}).get(name) for one in sets.old for name in numbers):
            return True
        if not sets.old:
            return False
        selection = Selection(labels=str(selectors.from_object(deployment["spec"]["selector"])))
        pods = await self._client.list(PODS, namespace=meta.namespace(deployment), selection=selection)
        uids = {meta.uid(one) for one in sets.old}
        return any(
            (meta.controller_of(pod) or {}).get("uid") in uids and not pod_states.is_finished(pod) for pod in pods.items
        )

    async def _keep_revision(self, deployment: Object, sets: Sets) -> tuple[Object, Sets]:
        """Copy annotations and the highest revision to the new set, and the revision to the Deployment."""
        if sets.new is None:
            return deployment, sets
        new = sets.new
        wanted = revisions.annotated(deployment, meta.annotations(new), revisions.next_revision(sets.old))
        min_ready_s = deployment["spec"].get("minReadySeconds", 0)
        other_patience = min_ready_s != new["spec"].get("minReadySeconds", 0)
        if wanted != meta.annotations(new) or other_patience:
            changed = {**new, "metadata": {**new["metadata"], "annotations": wanted}}
            if other_patience:
                changed["spec"] = {**new["spec"], "minReadySeconds": min_ready_s}
            sets = Sets(await self._update_set(deployment, changed), sets.old)
        conditions = meta.conditions(deployment)
        if status.has_deadline(deployment) and meta.condition(deployment, status.PROGRESSING) is None:
            found = status.progressing("True", "FoundNewReplicaSet", f'Found new replica set "{meta.name(new)}"')
            conditions = status.with_condition(conditions, found, now=self._clock.now())
        said = {**(deployment.get("status") or {}), **({"conditions": conditions} if conditions else {})}
        return await self._write(deployment, said, revision=wanted.get(revisions.REVISION, "")), sets

    async def _make_new(self, deployment: Object, sets: Sets) -> tuple[Object, Sets]:
        """Create the set for the current template; None as the new set if that failed temporarily."""
        number = revisions.next_revision(sets.old)
        desired = sizes.replicas(deployment)
        empty = {"metadata": {}, "spec": {"replicas": 0}}
        size = sizes.new_size(deployment, [*sets.old, empty], empty)
        annotations = {
            **revisions.annotated(deployment, {}, number),
            **revisions.sized(desired, desired + sizes.surge(deployment)),
        }
        wanted = revisions.new_set(deployment, replicas=size, annotations=annotations)
        key = Key(meta.namespace(wanted), meta.name(wanted))
        self._expectations.expect(meta.uid(deployment), key)
        conditions = meta.conditions(deployment)
        now = self._clock.now()
        try:
            made = await self._client.create(REPLICA_SETS, wanted)
        except errors.AlreadyExists:
            self._expectations.drop(key)
            made = await self._client.get(REPLICA_SETS, key.name, namespace=key.namespace)
            owner = meta.controller_of(made) or {}
            same = revisions.same_template(made["spec"]["template"], deployment["spec"]["template"])
            if owner.get("uid") != meta.uid(deployment) or not same:
                return await self._collide(deployment), sets
        except errors.ApiError as error:
            self._expectations.drop(key)
            if not is_end_of_namespace(error):
                await self._report_failure(deployment, f'Failed to create new replica set "{key.name}": {error}')
            raise
        except BaseException:
            self._expectations.drop(key)
            raise
        else:
            self._expectations.confirm(key, made)
            if size:
                self._say_scaled(deployment, key.name, 0, size)
            if status.has_deadline(deployment):
                created = status.progressing("True", "NewReplicaSetCreated", f'Created new replica set "{key.name}"')
                conditions = status.with_condition(conditions, created, now=now)
        said = {**(deployment.get("status") or {}), **({"conditions": conditions} if conditions else {})}
        return await self._write(deployment, said, revision=str(number)), Sets(made, sets.old)

    async def _collide(self, deployment: Object) -> Object:
        """A foreign set has the name with this hash: increase `collisionCount`, which changes the hash."""
        said = deployment.get("status") or {}
        count = int(said.get("collisionCount") or 0) + 1
        log.info("hash collision", deployment=meta.qualified_name(deployment), collisions=count)
        return await self._write(deployment, {**said, "collisionCount": count})

    async def _report_failure(self, deployment: Object, message: str) -> None:
        self._recorder.event(deployment, "Warning", "ReplicaSetCreateError", message)
        if status.has_deadline(deployment):
            failed = status.progressing("False", "ReplicaSetCreateError", message)
            conditions = status.with_condition(meta.conditions(deployment), failed, now=self._clock.now())
            await self._write(deployment, {**(deployment.get("status") or {}), "conditions": conditions})

    async def _resize(self, deployment: Object, sets: Sets, wanted: dict[str, int]) -> Sets:
        """Scale sets, and record the Deployment's size in their annotations."""
        desired = sizes.replicas(deployment)
        noted = revisions.sized(desired, desired + sizes.surge(deployment))
        changed: dict[str, Object] = {}
        for one in sets.every:
            name, before = meta.name(one), sizes.replicas(one)
            size = wanted.get(name)
            if size is None or (size == before and noted.items() <= meta.annotations(one).items()):
                continue
            metadata = {**one["metadata"], "annotations": {**meta.annotations(one), **noted}}
            resized = {**one, "metadata": metadata, "spec": {**one["spec"], "replicas": size}}
            changed[name] = await self._update_set(deployment, resized)
            if size != before:
                self._say_scaled(deployment, name, before, size)
        new = sets.new if sets.new is None else changed.get(meta.name(sets.new), sets.new)
        return Sets(new, tuple(changed.get(meta.name(one), one) for one in sets.old))

    async def _update_set(self, deployment: Object, changed: Object) -> Object:
        key = Key(meta.namespace(changed), meta.name(changed))
        self._expectations.expect(meta.uid(deployment), key, of=changed)
        try:
            updated = await self._client.update(REPLICA_SETS, changed)
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, updated)
        return updated

    async def _forget_old(self, deployment: Object, sets: Sets) -> None:
        """Delete the oldest sets beyond `revisionHistoryLimit`."""
        limit = deployment["spec"].get("revisionHistoryLimit")
        if limit is None or limit == _ALL_KEPT:
            return
        alive = [one for one in sets.old if not meta.is_deleting(one)]
        ordered = sorted(alive, key=lambda one: (revisions.revision(one), *revisions.age(one)))
        for one in ordered[: max(len(alive) - limit, 0)]:
            said = one.get("status") or {}
            seen = (said.get("observedGeneration") or 0) >= (meta.metadata(one).get("generation") or 0)
            if said.get("replicas") or sizes.replicas(one) or not seen:
                continue
            await self._client.delete(
                REPLICA_SETS,
                meta.name(one),
                namespace=meta.namespace(one),
                uid=meta.uid(one),
                propagation=Propagation.BACKGROUND,
            )

    async def _write(self, deployment: Object, said: Object, *, revision: str = "") -> Object:
        """Write the status and the revision if they have changed; the updated Deployment."""
        annotations = meta.annotations(deployment)
        if revision and annotations.get(revisions.REVISION) != revision:
            annotations = {**annotations, revisions.REVISION: revision}
        if said == (deployment.get("status") or {}) and annotations == meta.annotations(deployment):
            return deployment
        metadata = {**deployment["metadata"], **({"annotations": annotations} if annotations else {})}
        written = await self._client.update(
            DEPLOYMENTS, {**deployment, "metadata": metadata, "status": said}, subresource="status"
        )
        return KIND.complete(written)

    def _say_scaled(self, deployment: Object, name: str, before: int, size: int) -> None:
        way = "up" if size > before else "down"
        message = f"Scaled {way} replica set {name} from {before} to {size}"
        self._recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
