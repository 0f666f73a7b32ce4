"""Runs one pod of every DaemonSet on every eligible node, with the current template.

`placement` decides which nodes are eligible, `plan` decides the next step, `revision_history` keeps former templates.
Behaves as upstream's (`pkg/controller/daemon`, 1.36). A pod that has ended is replaced, at first at once, then with
growing backoff; the backoff is kept in memory only, as upstream does.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Never

from rota.api import meta
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.controller_revisions import HASH_LABEL
from rota.controllers.daemon_sets import placement, plan
from rota.controllers.daemon_sets.placement import Placement
from rota.controllers.daemon_sets.plan import State, Step
from rota.controllers.owned_reconciler import SOON_S, OwnedReconciler
from rota.controllers.pod_control import PODS, PodControl, from_template, prefix, slow_start
from rota.controllers.pod_states import phase
from rota.controllers.revision_history import REVISIONS, HistoryKeeping
from rota.kit import backoff
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

DAEMON_SETS: Final = ("apps", "v1", "daemonsets")
NODES: Final = ("", "v1", "nodes")
KIND: Final = OwnerKind(api_version="apps/v1", kind="DaemonSet", target=DAEMON_SETS)
#: Pods that are created or deleted in one round.
_BURST: Final = 250
_WORKERS: Final = 2
_ENDED: Final = backoff.Policy(initial_s=1.0, cap_s=900.0, jitter=backoff.Jitter.NONE)


class DaemonSetController:
    """Manages the pods of all DaemonSets."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[Never](
            client,
            KIND,
            self._sync,
            name="daemon sets",
            component="daemonset-controller",
            clock=clock,
            rng=rng,
            workers=_WORKERS,
            metrics=metrics,
            left=lambda _, last: self._endings.pop(meta.uid(last), None),
        )
        self._nodes: Final = self._home.follow(NODES, self._node_changed)
        # the status is updated even if the cache lacks some of the controller's own writes
        self._pods: Final = self._home.own(PODS, awaited=False)
        self._revisions: Final = self._home.own(REVISIONS)
        self._control: Final = PodControl(
            client, recorder=self._home.recorder, expectations=self._pods.expectations, rng=rng
        )
        self._histories: Final = HistoryKeeping(
            client, KIND, expectations=self._revisions.expectations, label=HASH_LABEL
        )
        self._endings: Final[dict[str, dict[str, _Endings]]] = {}

    async def run(self) -> None:
        """Manage pods until cancelled."""
        await self._home.run()

    def _node_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _attracts(old) == _attracts(new):
            return  # most node updates are heartbeats
        for owner in self._home.owners.values():
            self._home.look_at(Key(meta.namespace(owner), meta.name(owner)))

    async def _sync(self, owner: Object) -> float | None:
        if not owner["spec"]["selector"]:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._home.recorder.event(owner, "Warning", "SelectingAll", message)
            return None
        if meta.is_deleting(owner):
            return None
        history = await self._histories.keep(owner, await self._revisions.claim(owner))
        if history is None:
            return SOON_S
        hashed = meta.labels(history.current).get(HASH_LABEL, "")
        placement = Placement(owner)
        fits = {key.name: placement.fit(node) for key, node in self._nodes.items()}
        settled = self._pods.settled(owner)
        pods = await self._pods.claim(owner)
        state = State(owner=owner, hashed=hashed, fits=fits, pods=pods, now=self._clock.now())
        problem, waits = None, [plan.available_in_s(state)]
        if settled:
            step = plan.upkeep(state)
            waits.append(self._clear(owner, step))
            problem = await self._take(owner, step or plan.rolled(state), hashed)
        else:
            waits.append(self._pods.expectations.patience_s(meta.uid(owner)))
        said = plan.status(state, observed=settled)
        if said != owner.get("status"):
            await self._client.update(DAEMON_SETS, {**owner, "status": said}, subresource="status")
        if problem is not None:
            raise problem
        if settled:
            await self._histories.prune(owner, history.old, live={meta.labels(one).get(HASH_LABEL, "") for one in pods})
        return min((wait for wait in waits if wait is not None), default=None)

    def _clear(self, owner: Object, step: Step) -> float | None:
        """Delete pods that have ended, subject to the backoff of their node; seconds until the next attempt."""
        again: list[float] = []
        generation = int((owner.get("status") or {}).get("observedGeneration") or 0)
        for pod in step.ended:
            node, now = placement.node_of(pod), self._clock.monotonic()
            name = f"{meta.qualified_name(pod)} on node {node}"
            if phase(pod) == "Succeeded":
                message = f"Found succeeded daemon pod {name}, will try to delete it"
                self._home.recorder.event(owner, "Normal", "SucceededDaemonPod", message)
                step.delete.append(pod)
                continue
            endings = self._endings.setdefault(meta.uid(owner), {})
            before = endings.get(node)
            if before is None or before.generation != generation or now - before.last > 2 * _ENDED.cap_s:
                before = _Endings(generation)
            if now < before.until:
                again.append(before.until - now)
                continue
            endings[node] = before.next(now)
            self._home.recorder.event(
                owner, "Warning", "FailedDaemonPod", f"Found failed daemon pod {name}, will try to kill it"
            )
            step.delete.append(pod)
        return min(again, default=None)

    async def _take(self, owner: Object, step: Step, hashed: str) -> Exception | None:
        """Create and delete pods; returns the first error."""
        nodes, made = step.create[:_BURST], placement.template(owner, hashed)

        def create(number: int) -> Awaitable[object]:
            pod = from_template(owner, placement.for_node(made, nodes[number]))
            return self._control.create(owner, pod, name_prefix=prefix(meta.name(owner)))

        started = await slow_start(len(nodes), create)
        outcomes = await asyncio.gather(
            *(self._control.delete(owner, one) for one in step.delete[:_BURST]), return_exceptions=True
        )
        return started.error or next((one for one in outcomes if isinstance(one, Exception)), None)


class _Endings:
    """Backoff of failed pods on one node."""

    __slots__ = ("failures", "generation", "last", "until")

    def __init__(self, generation: int) -> None:
        #: Generation of the DaemonSet; a new template resets the backoff.
        self.generation = generation
        self.failures = 0
        self.last = 0.0
        self.until = 0.0

    def next(self, now: float) -> "_Endings":
        self.failures += 1
        self.last, self.until = now, now + _ENDED.ceiling(self.failures)
        return self


def _attracts(node: Object) -> tuple[object, object]:
    """The part of a node that decides whether it is eligible."""
    return meta.labels(node), (node.get("spec") or {}).get("taints") or ()
