"""Keeps the state of queues: carries out commands, and closes a closing queue once it is empty.

The scheduler writes `status.allocated` of the same objects, so only the state is patched here.
"""

from typing import Final

from rota.api import errors, meta
from rota.api.batch import kinds, policies
from rota.api.batch.queue_rules import CLOSED
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client
from rota.controllers.batch import queue_states
from rota.controllers.batch.jobs import COMPONENT
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_KIND: Final = "Queue"
_VERSION: Final = f"{kinds.SCHEDULING}/v1beta1"
_BY_QUEUE: Final = "queue"
#: After a conflicting write: the watch delivers the new state soon.
_SOON_S: Final = 0.05


class QueueController:
    """Manages the state of all queues."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._frame: Final = Reconciler[str](client, "batch queues", self._process, clock=clock, rng=rng)
        self._recorder: Final = self._frame.report_as(COMPONENT)
        self._queues: Final = self._frame.follow(kinds.QUEUES, lambda key, *_: self._frame.queue.add(key.name))
        self._groups: Final = self._frame.follow(
            kinds.POD_GROUPS, self._group_changed, indexers={_BY_QUEUE: lambda one: (_queue_of(one),)}
        )
        self._commands: Final = self._frame.follow(kinds.COMMANDS, self._command_changed)
        #: Commands that come with one for a parent, by queue; after a crash the next leader sees the parent closed.
        self._inherited: Final[dict[str, str]] = {}
        gauges = (metrics or client.settings.metrics or Metrics("batch")).beside("batch", prefix="volcano_")
        self._gauges: Final = {
            phase: gauges.gauge(
                f"queue_pod_group_{phase}_count", f"Groups of a queue that are {phase}", ("queue_name",)
            )
            for phase in queue_states.counts(())
        }

    async def run(self) -> None:
        """Manage queues until cancelled."""
        await self._frame.run()

    def _group_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            if one is not None:
                self._frame.queue.add(_queue_of(one))

    def _command_changed(self, _: Key, __: Object | None, new: Object | None) -> None:
        target = (new or {}).get("target") or {}
        if target.get("kind") == _KIND:
            self._frame.queue.add(target["name"])

    async def _process(self, name: str) -> float | None:
        queue = self._queues.cache.get(name)
        if queue is None or meta.is_deleting(queue):
            self._inherited.pop(name, None)
            return None
        groups = self._groups.cache.indexed(_BY_QUEUE, name)
        for phase, count in queue_states.counts(groups).items():
            self._gauges[phase].labels(name).set(count)
        inherited = self._inherited.pop(name, "")
        action = inherited or await self._command(queue)
        everything = {meta.name(one): one for one in self._queues.cache.values()}
        change = queue_states.change(queue, action, everything, groups=len(groups), by_parent=bool(inherited))
        try:
            await self._write(queue, change, action)
        except errors.NotFound:
            return None
        except errors.Conflict:
            if action:
                self._inherited[name] = action
            return _SOON_S
        # The parent's state is written first, so that children find it open.
        for child, below in change.below.items():
            self._inherited[child] = below
            self._frame.queue.add_after(child, _SOON_S)
        return None

    async def _write(self, queue: Object, change: queue_states.Change, action: str) -> None:
        name, spec = meta.name(queue), queue.get("spec") or {}
        full = {**queue, "apiVersion": _VERSION, "kind": _KIND}
        if change.refusal:
            self._recorder.event(full, "Warning", action, f"{action} is not possible: {change.refusal}")
        patch: Object = {}
        if change.annotations:
            patch = {"metadata": {"annotations": dict(change.annotations)}}
        if not spec.get("parent") and name != kinds.ROOT_QUEUE:
            patch = {**patch, "spec": {"parent": kinds.ROOT_QUEUE}}
        if patch:
            await self._client.patch(kinds.QUEUES, name, patch)
        if change.state != (queue.get("status") or {}).get("state"):
            await self._client.patch(kinds.QUEUES, name, {"status": {"state": change.state}}, subresource="status")
            if action or change.state == CLOSED:
                self._recorder.event(full, "Normal", action or policies.CLOSE_QUEUE, f"the queue is {change.state}")

    async def _command(self, queue: Object) -> str:
        """Take the next command for a queue: it is deleted first, so that it is carried out at most once."""
        for one in list(self._commands.cache.values()):
            target = one.get("target") or {}
            if (target.get("kind"), target.get("name")) != (_KIND, meta.name(queue)):
                continue
            if target.get("uid") not in ("", meta.uid(queue)):
                continue
            try:
                await self._client.delete(
                    kinds.COMMANDS, meta.name(one), namespace=meta.namespace(one), uid=meta.uid(one)
                )
            except (errors.NotFound, errors.Conflict):
                continue
            return str(one.get("action") or "")
        return ""


def _queue_of(group: Object) -> str:
    return str((group.get("spec") or {}).get("queue") or kinds.DEFAULT_QUEUE)
