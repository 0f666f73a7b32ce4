"""Manages the pods and volume claims of StatefulSets.

`identity` defines what belongs to an ordinal, `plan` decides the next step, `revision_history` keeps former templates.
Behaves as upstream's (`pkg/controller/statefulset`, 1.36). The pod of an ordinal is created only after its predecessor
is gone from the server, so that two pods never write to one volume.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Never

from rota.api import errors, meta
from rota.client.verbs import Client
from rota.client.verbs import Object as Document
from rota.controllers import controller_revisions
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.controller_revisions import History
from rota.controllers.owned_reconciler import SOON_S, OwnedReconciler
from rota.controllers.pod_control import PODS, PodControl, slow_start
from rota.controllers.revision_history import REVISIONS, HistoryKeeping
from rota.controllers.stateful_sets import identity, plan
from rota.controllers.stateful_sets.plan import State
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

STATEFUL_SETS: Final = ("apps", "v1", "statefulsets")
VOLUME_CLAIMS: Final = ("", "v1", "persistentvolumeclaims")
KIND: Final = OwnerKind(api_version="apps/v1", kind="StatefulSet", target=STATEFUL_SETS)
#: Label for the hash of a revision; pods are labelled with the revision's name.
REVISION_HASH: Final = "controller.kubernetes.io/hash"
#: Retry interval while a claim is in deletion.
_CLAIM_S: Final = 1.0


def _words(verb: str, owner: meta.Object, name: str, error: Exception | None) -> str:
    outcome = "successful" if error is None else f"failed error: {error}"
    return f"{verb} Pod {name} in StatefulSet {meta.name(owner)} {outcome}"


class StatefulSetController:
    """Manages the pods and claims of all StatefulSets."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[Never](
            client,
            KIND,
            self._sync,
            name="stateful sets",
            component="statefulset-controller",
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        self._volumes: Final = self._home.follow(VOLUME_CLAIMS, lambda *_: None)
        self._pods: Final = self._home.own(PODS)
        self._revisions: Final = self._home.own(REVISIONS)
        self._recorder: Final = self._home.recorder
        self._control: Final = PodControl(
            client, recorder=self._recorder, expectations=self._pods.expectations, rng=rng, words=_words
        )
        self._history: Final = HistoryKeeping(
            client, KIND, expectations=self._revisions.expectations, label=REVISION_HASH
        )

    async def run(self) -> None:
        """Manage pods until cancelled."""
        await self._home.run()

    async def _sync(self, owner: Document) -> float | None:
        history = await self._history.keep(owner, await self._revisions.claim(owner))
        if history is None:
            return SOON_S
        pods = await self._pods.claim(owner, only=lambda one: identity.ordinal(owner, one) >= 0)
        current = _current(owner, history)
        state = State(
            owner=owner,
            current=meta.name(current),
            update=meta.name(history.current),
            pods=pods,
            now=self._clock.now(),
        )
        step = plan.step(state)
        waits = [plan.available_in_s(state)]
        said = plan.status(state)
        if said != owner.get("status"):
            owner = KIND.complete(
                await self._client.update(STATEFUL_SETS, {**owner, "status": said}, subresource="status")
            )
        for pod in step.tend:
            await self._tend(owner, pod)
        for pod in step.condemned:
            await self._assign_claims(owner, pod, condemned=True)
        templates = {meta.name(one): controller_revisions.restored(owner, one) for one in (current, history.current)}

        def create(position: int) -> Awaitable[bool]:
            number = step.create[position]
            revision = plan.template_of(state, number)
            return self._create(owner, identity.pod(templates[revision], number, revision=revision), number)

        started = await slow_start(len(step.create), create)
        outcomes = await asyncio.gather(
            *(self._control.delete(owner, one) for one in step.delete), return_exceptions=True
        )
        for problem in (started.error, *outcomes):
            if isinstance(problem, Exception):
                raise problem
        live = {state.current, state.update, *map(identity.revision, pods)}
        await self._history.prune(owner, history.old, live=live)
        if step.create and self._pods.settled(owner):
            waits.append(_CLAIM_S)  # a claim is in deletion
        return min((wait for wait in waits if wait is not None), default=None)

    async def _create(self, owner: Document, pod: meta.Object, number: int) -> bool:
        """Create the claims and then the pod of an ordinal, unless a claim of its predecessor is in deletion."""
        if not await self._make_claims(owner, number):
            return False
        made = await self._control.create(owner, pod)
        if made is not None:
            await self._assign_claims(owner, made)
        return made is not None

    async def _make_claims(self, owner: Document, number: int) -> bool:
        """Create missing claims; False if one is in deletion."""
        pod = f"{meta.name(owner)}-{number}"
        for claim in identity.claims(owner, number):
            present = self._volumes.get(meta.name(claim), meta.namespace(claim))
            if present is not None:
                if identity.is_stale(present, pod):
                    return False
                continue
            about = f"Claim {meta.name(claim)} Pod {pod} in StatefulSet {meta.name(owner)}"
            try:
                await self._client.create(VOLUME_CLAIMS, claim)
            except errors.AlreadyExists:
                continue
            except errors.ApiError as error:
                message = f"create {about} failed error: {error}"
                self._recorder.event(owner, "Warning", "FailedCreate", message)
                raise
            self._recorder.event(owner, "Normal", "SuccessfulCreate", f"create {about} success")
        return True

    async def _tend(self, owner: Document, pod: meta.Object) -> None:
        """Restore the identity labels of a pod, and its claims."""
        number = identity.ordinal(owner, pod)
        wanted = identity.labels(owner, number)
        if not wanted.items() <= meta.labels(pod).items():
            await self._control.change(owner, pod, {"labels": wanted})
        if not meta.is_deleting(pod) and not pod["spec"].get("nodeName"):
            await self._make_claims(owner, number)
        await self._assign_claims(owner, pod)

    async def _assign_claims(self, owner: Document, pod: meta.Object, *, condemned: bool = False) -> None:
        """Set the owners of claims by the set's retention policy."""
        for claim in identity.claims(owner, identity.ordinal(owner, pod)):
            present = self._volumes.get(meta.name(claim), meta.namespace(claim))
            if present is None:
                continue
            wanted = identity.owned(owner, present, pod, condemned=condemned)
            if list(wanted) != list(meta.owner_references(present)):
                metadata = {**present["metadata"], "ownerReferences": list(wanted)}
                await self._client.update(VOLUME_CLAIMS, {**present, "metadata": metadata})


def _current(owner: Document, history: History) -> meta.Object:
    """The revision of the pods that have not been updated yet."""
    name = (owner.get("status") or {}).get("currentRevision")
    return next((one for one in (*history.old, history.current) if meta.name(one) == name), history.current)
