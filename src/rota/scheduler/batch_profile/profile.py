"""The batch profile: collects pods by group, decides them in passes, and carries the decisions out.

A pass runs when something changed that may let a group start, not at intervals. It works on a mirror of the
scheduler's cluster, in a thread if it is large, so ordinary pods are scheduled meanwhile. A group that a pass places is
assumed in the scheduler's cache at once, pod by pod, if its nodes still have the resources, and then bound as a whole.
So ordinary pods and pods of groups see each other's places through one cache.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rota.api import errors
from rota.client.events.recorder import EventRecorder
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.columns.pods import PodInfo
from rota.kit import logs, offload
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.batch import binding_plans, passes
from rota.scheduler.batch.group_statuses import Change
from rota.scheduler.batch.mirror import WORDS_S, Mirror
from rota.scheduler.batch.passes import GroupStatus, PassResult
from rota.scheduler.batch.states import Commit
from rota.scheduler.batch.statuses import ALLOCATED, PREEMPTABLE, TaskStatus
from rota.scheduler.batch_profile import announcements, hook_requests, queue_statuses
from rota.scheduler.batch_profile.announcements import Announcements
from rota.scheduler.batch_profile.batch_metrics import BatchMetrics
from rota.scheduler.batch_profile.gang_binder import Gang, GangBinder
from rota.scheduler.batch_profile.inbox import Inbox, is_ready
from rota.scheduler.batch_profile.kinds import POD_GROUPS, QUEUES
from rota.scheduler.batch_profile.settings import BatchSettings
from rota.scheduler.batch_profile.status_writer import Refusal, StatusWrite, StatusWriter
from rota.scheduler.batch_profile.usage_reader import UsageReader
from rota.scheduler.batch_profile.victim_evictions import VictimEvictions
from rota.scheduler.binding.bind_requests import BindRequestQueue
from rota.scheduler.binding.dispatch_mode import Dispatcher
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.extenders.extender_interface import ClusterReader
from rota.scheduler.ingest.decoder import EndedMember, NodeRecord, Unreadable
from rota.scheduler.status import fit_errors, object_references
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

#: Plugins whose answers change with time alone: with one of them, passes also run at intervals.
TIMED: Final = ("sla", "tdm", "cdp", "usage", "rescheduling", "extender")
#: Of those, the ones that choose victims for shuffle, also while no group waits.
EVICTING: Final = ("tdm", "rescheduling")
_TIMED_S: Final = 5.0
#: Without any event, waiting groups are tried again after this time.
_LONGEST_S: Final = 300.0
#: A pass is not started again before it rested as long as it took, but at most so long.
_LONGEST_REST_S: Final = 1.0
#: The pause after a group that lost its nodes, and after a failed binding or eviction.
_AFTER_FAILURE_S: Final = 0.5
#: After so many refusals of its status in a row, an event about a group says so.
_TOLD_AFTER: Final = 3
#: How often such changes of one group's status are written.
_INTERVALS_S: Final = {Change.STATE: 0.0, Change.COUNT: 1.0, Change.WORDS: WORDS_S}
#: However many groups wait, other words for their reasons cost at most so many writes.
_WORDS_A_SECOND: Final = 20.0
_OTHER_KINDS: Final = ("PriorityClass", "HyperNode", "ResourceQuota", "Numatopology")
#: The assumed size, in bytes, of the work that one group causes: small passes run without a thread.
_GROUP_BYTES: Final = 256


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """The parts of the scheduler that the profile uses."""

    client: Client
    cache: SchedulerCache
    bindings: BindRequestQueue
    notes: PodStatusWriter
    recorder: EventRecorder
    cluster_reader: ClusterReader
    clock: Clock
    metrics: Metrics
    dispatcher: Dispatcher | None
    #: Called with a pod whose place is free again.
    freed: Callable[[PodInfo], None]


class BatchProfile:
    """Decides pods of groups while `run` runs."""

    def __init__(self, settings: BatchSettings, using: Surroundings) -> None:
        self._settings = settings
        self._using: Final = using
        self._awake: Final = asyncio.Event()
        self.inbox: Final = Inbox(settings.scheduler_names, wake=self._awake.set)
        self._metrics: Final = BatchMetrics(using.metrics)
        self._binder: Final = GangBinder(using.client, using.bindings, using.notes, ended=self._ended)
        self._evictions: Final = VictimEvictions(
            using.client, using.recorder, clock=using.clock, failed=self._not_evicted
        )
        self._writer: Final = StatusWriter(using.client, clock=using.clock, failed=self._not_written)
        self._usage: Final = UsageReader(using.client, clock=using.clock)
        self._mirror: Mirror | None = None
        self._said: Final = Announcements(using.recorder, using.notes, clock=using.clock)
        #: Groups with a plan that a pass has tried to complete.
        self._tried: Final[set[str]] = set()
        self._removing: Final[dict[str, asyncio.Task[None]]] = {}
        self._passes: Final = itertools.count(1)
        self._not_before = 0.0
        self._last_pass = 0.0
        self._seen_catalog = 0
        #: The result of the last pass, for explanations.
        self.last: PassResult | None = None

    def configure(self, settings: BatchSettings) -> None:
        """Use other settings from the next pass on."""
        self._settings = settings
        self.inbox.scheduler_names = settings.scheduler_names
        self.inbox.decisive = True
        self._awake.set()

    @property
    def settings(self) -> BatchSettings:
        """The settings in force."""
        return self._settings

    @property
    def mirror(self) -> Mirror | None:
        """The state of sessions while this scheduler leads; only for reading between passes."""
        return self._mirror

    def why(self, group: str) -> str:
        """Why a group waits, as the last pass found; "" if it does not wait or no pass has run here."""
        return "" if self.last is None else self.last.waiting.get(group, "")

    # --- work -------------------------------------------------------------------------------------------------------

    async def run(self, informers: "dict[str, Informer[Any]]") -> None:
        """Decide until cancelled; work in progress is finished before this returns."""
        try:
            await self._begin(informers)
            while True:
                await self._turn()
        finally:
            self._mirror = None
            self.inbox.open = False
            self.inbox.take()
            await self._binder.close()
            await self._evictions.close()
            await self._writer.close()
            await self._usage.close()
            for task in self._removing.values():
                task.cancel()

    async def _begin(self, informers: "dict[str, Informer[Any]]") -> None:
        """Build the mirror from what the informers have, and continue plans of an earlier leader."""
        self.inbox.take()
        self.inbox.planned.clear()
        mirror = Mirror(self._using.cache.cluster)
        mirror.ask = hook_requests.ask
        self.inbox.open = True
        known = {kind: list(informer.cache.items()) for kind, informer in informers.items()}
        for key, group in known.get("PodGroup", ()):
            if not isinstance(group, Unreadable) and binding_plans.is_planned(group):
                self.inbox.planned[str(key)] = group
        objects = sum(map(len, known.values()))
        await offload.run(partial(self._fill, mirror, known), objects * _GROUP_BYTES)
        self._mirror = mirror
        self._resume(mirror)
        self.inbox.decisive = True
        self._awake.set()

    def _fill(self, mirror: Mirror, known: dict[str, list[tuple[Key, Any]]]) -> None:
        put: dict[str, Callable[[Any], None]] = {
            "Queue": mirror.put_queue,
            "PodGroup": mirror.put_group,
            **{kind: partial(mirror.put_other, kind) for kind in _OTHER_KINDS},
        }
        for kind in (*_OTHER_KINDS, "Queue", "PodGroup"):
            for _, document in known.get(kind, ()):
                if not isinstance(document, Unreadable):
                    put[kind](document)
        for _, node in known.get("nodes", ()):
            if isinstance(node, NodeRecord) and not is_ready(node):
                mirror.set_ready(node.view.metadata.name, ready=False)
        names = self.inbox.scheduler_names
        for _, pod in known.get("pods", ()):
            if isinstance(pod, EndedMember):
                mirror.put_member(pod.info, pod.member)
            elif isinstance(pod, PodInfo):
                if pod.member is not None and (pod.node_name or pod.shape.scheduler_name in names):
                    mirror.put_member(pod, pod.member)
                elif pod.terminating and pod.node_name:
                    mirror.put_leaving(pod.uid, pod.node_name, pod.shape.requests)

    async def _turn(self) -> None:
        """Wait for changes, and make one pass, or write the progress of groups."""
        using, mirror = self._using, self._mirror
        assert mirror is not None, "the profile has begun"
        await self._rest()
        now = using.clock.monotonic()
        if self.inbox.decisive and now < self._not_before:
            await using.clock.sleep(self._not_before - now)
        self._awake.clear()
        changes, touched, decisive = self.inbox.take()
        configuration = self._settings.configuration
        if self._usage.due(configuration):
            await self._usage.refresh(configuration.metrics)
        deltas = mirror.take()
        decisive |= self._due()
        if not changes and not decisive:
            mirror.apply(deltas)
            return
        began, loop = using.clock.monotonic(), asyncio.get_running_loop()
        size = _GROUP_BYTES * (len(changes) + (mirror.busy_groups if decisive else len(touched)))
        if configuration.uses("extender"):
            size += offload.ALWAYS  # the pass waits for answers of another program
        threaded = size > offload.INLINE_BYTES
        transition = f"{next(self._passes)}"

        def later(commit: Commit) -> None:
            loop.call_soon_threadsafe(self._committed, mirror, commit)

        def think() -> PassResult | list[GroupStatus]:
            mirror.apply(deltas)
            mirror.usage = self._usage.usage
            for change in changes:
                change(mirror)
            if not decisive:
                return passes.progress(mirror, touched, now=using.clock.now(), transition=transition)
            return passes.run(
                mirror,
                configuration,
                now=using.clock.now(),
                transition=transition,
                on_commit=later if threaded else partial(self._committed, mirror),
            )

        result = await offload.run(think, size)
        took = using.clock.monotonic() - began
        if isinstance(result, list):
            self._write_groups(result)
        else:
            self._last_pass = using.clock.monotonic()
            self._not_before = max(self._not_before, self._last_pass + min(took, _LONGEST_REST_S))
            self._report(result, took)
        self._check_plans(mirror, passed=not isinstance(result, list))

    async def _rest(self) -> None:
        """Wait for a change or for the next time at which something is due."""
        clock = self._using.clock
        due = self._writer.flush()
        if self._waits:
            interval = _TIMED_S if self._timed or self._catalog_moves else _LONGEST_S
            due = min(self._last_pass + interval, due or float("inf"))
        # Also without anything to do: the mirror's changes of the cluster are applied before they are too many.
        pause = _LONGEST_S if due is None else min(max(due - clock.monotonic(), 0.001), _LONGEST_S)
        try:
            await clock.wait_for(self._awake.wait(), pause)
        except TimeoutError:
            self._writer.flush()

    @property
    def _timed(self) -> bool:
        return self._settings.configuration.uses(*TIMED)

    @property
    def _waits(self) -> bool:
        """Whether a pass may be due without a change: groups wait, or pods may have to leave."""
        configuration = self._settings.configuration
        leaving = "shuffle" in configuration.actions and configuration.uses(*EVICTING)
        return self.last is not None and (leaving or bool(self.last.waiting))

    @property
    def _catalog_moves(self) -> bool:
        """Whether claims, volumes, namespaces or budgets changed since the last pass."""
        return self._using.cache.cluster.catalog.generation != self._seen_catalog

    def _due(self) -> bool:
        """Whether a pass is due without a change that asks for one."""
        if not self._waits:
            return False
        waited = self._using.clock.monotonic() - self._last_pass
        return waited >= _LONGEST_S or (waited >= _TIMED_S and (self._timed or self._catalog_moves))

    # --- decisions --------------------------------------------------------------------------------------------------

    def _committed(self, mirror: Mirror, commit: Commit) -> None:
        """Carry out bindings and evictions that a pass decided, unless this scheduler leads no longer.

        A pass in a thread goes on after `run` was cancelled.
        """
        if mirror is not self._mirror:
            return
        for task, reason in commit.evictions:
            self._evictions.start(task.info, f"Evicted by action {reason} of the batch scheduler")
        job = commit.job
        if job is None:
            return
        placed = [
            (task.info.with_devices(task.devices) if task.devices else task.info, node)
            for task, node in commit.bindings
        ]
        meta = job.group["metadata"]
        gang = Gang(
            job.namespace,
            job.name,
            meta.get("uid") or "",
            placed,
            whole=commit.whole,
            planned=job.key in self.inbox.planned,
        )
        self._take(gang)

    def _take(self, gang: Gang) -> None:
        """Assume all pods of a group and bind them; if one of the nodes is full by now, none."""
        cache = self._using.cache
        taken: list[PodInfo] = []
        lost = False
        for pod, node in gang.placed:
            if node not in cache.cluster.by_name or not cache.assume(pod, node):
                lost = True
                break
            taken.append(pod)
            if cache.insufficient(pod, node):
                lost = True
                break
        if not lost:
            self._tried.discard(gang.key)
            self._binder.submit(gang)
            return
        for pod in taken:
            cache.forget(pod.uid)
        self._give_back(gang, [pod for pod, _ in gang.placed])
        self._not_before = self._using.clock.monotonic() + _AFTER_FAILURE_S

    def _give_back(self, gang: Gang, pods: Iterable[PodInfo]) -> None:
        uids = [pod.uid for pod in pods]

        def unbind(mirror: Mirror) -> None:
            for uid in uids:
                mirror.unbind(uid)

        self.inbox.add(unbind, group=gang.key, decisive=True)

    def _ended(self, gang: Gang) -> None:
        """All bindings of a group have their result."""
        using = self._using
        failed = []
        for pod, node in gang.placed:
            status = gang.results[pod.uid]
            if status.ok:
                self._bound(pod, node)
            else:
                failed.append(pod)
        if failed:
            why = ", ".join(gang.results[failed[0].uid].reasons)
            log.warning("group not bound", group=gang.key, pods=len(failed), of=len(gang.placed), why=why)
            self._metrics.failed(len(failed))
            for pod in failed:
                using.cache.forget(pod.uid)
                using.freed(pod)
            self._give_back(gang, failed)
            self._not_before = using.clock.monotonic() + _AFTER_FAILURE_S
        elif gang.planned:
            self._remove_plan(gang.key, gang.uid)

    def _bound(self, pod: PodInfo, node: str) -> None:
        using = self._using
        using.cache.finish_binding(pod.uid)
        self._said.bound(pod.uid)
        message = f"Successfully assigned {pod.key} to {node}"
        using.recorder.event(object_references.of_pod(pod), "Normal", "Scheduled", message, action="Binding")
        if using.dispatcher is not None and (manifest := pod.manifest) is not None:
            using.dispatcher.bound(manifest, node, using.cluster_reader.node(node))

    def _not_evicted(self, pod: PodInfo) -> None:
        self._not_before = self._using.clock.monotonic() + _AFTER_FAILURE_S
        self.inbox.add(lambda mirror: mirror.unevict(pod.uid), decisive=True)

    # --- plans ------------------------------------------------------------------------------------------------------

    def _resume(self, mirror: Mirror) -> None:
        """Continue the plans of an earlier leader, for groups of which a part is bound already."""
        for key, group in self.inbox.planned.items():
            plan, job = binding_plans.read(group) or {}, mirror.jobs.get(key)
            if job is None:
                continue
            placed = [
                (task.info, plan[task.name])
                for task in job.of(TaskStatus.PENDING).values()
                if task.name in plan and not task.gated
            ]
            if not placed or not job.count(ALLOCATED):
                continue
            for pod, node in placed:
                mirror.bind(pod.uid, node)
            log.info("continuing the bindings of a group", group=key, pods=len(placed))
            self._take(Gang(job.namespace, job.name, group["metadata"].get("uid") or "", placed, True, planned=True))

    def _check_plans(self, mirror: Mirror, *, passed: bool) -> None:
        """Remove plans of groups that are complete, and release groups that a pass could not complete."""
        for key, group in list(self.inbox.planned.items()):
            job = mirror.jobs.get(key)
            if job is None or self._binder.busy(key):
                continue
            bound = [task for status in PREEMPTABLE for task in job.of(status).values()]
            if job.is_ready or not (bound or job.of(TaskStatus.RELEASING) or job.of(TaskStatus.BINDING)):
                self._tried.discard(key)
                self._remove_plan(key, group["metadata"].get("uid") or "")
            elif key in self._tried and passed:
                log.warning("releasing a group that cannot be completed", group=key, pods=len(bound))
                for task in bound:
                    job.move(task, TaskStatus.RELEASING)
                    mirror.evict(task)
                    self._evictions.start(task.info, "The rest of the group found no place")
            elif passed:
                self._tried.add(key)
                self.inbox.decisive = True
                self._awake.set()

    def _remove_plan(self, key: str, uid: str) -> None:
        if key in self._removing:
            return
        namespace, _, name = key.partition("/")
        task = asyncio.get_running_loop().create_task(self._plan_removed(namespace, name, uid))
        self._removing[key] = task
        task.add_done_callback(lambda _: self._removing.pop(key, None))

    async def _plan_removed(self, namespace: str, name: str, uid: str) -> None:
        try:
            await self._binder.remove_plan(namespace, name, uid)
        except (errors.NotFound, errors.Conflict):
            self.inbox.planned.pop(f"{namespace}/{name}", None)
        except (errors.ApiError, TransportError) as error:
            log.warning("plan of a group not removed", group=f"{namespace}/{name}", error=error)

    # --- reports ----------------------------------------------------------------------------------------------------

    def _report(self, result: PassResult, took: float) -> None:
        mirror = self._mirror
        assert mirror is not None, "a pass has run"
        self.last = result
        self._seen_catalog = self._using.cache.cluster.catalog.generation
        self._metrics.passed(result, {name: queue.weight for name, queue in mirror.queues.items()}, took)
        if result.bound or result.evicted:
            log.info("pass", bound=result.bound, evicted=result.evicted, took_s=round(took, 3))
        self._write_groups(result.groups)
        for name, queue in mirror.queues.items():
            allocated = queue_statuses.quantities(result.allocated.get(name))
            if allocated != ((queue.object.get("status") or {}).get("allocated") or {}):
                status = {"allocated": queue_statuses.replaced(queue.object, allocated)}
                self._writer.write(StatusWrite(QUEUES, name, status, interval_s=_INTERVALS_S[Change.COUNT]))
        for note in result.notes:
            self._said.pod(note)
        self._said.forget_gone(mirror.pods, mirror.jobs)

    def _write_groups(self, statuses: Collection[GroupStatus]) -> None:
        for one in statuses:
            meta = one.group["metadata"]
            namespace, uid = meta.get("namespace") or "default", meta.get("uid") or ""
            interval = _INTERVALS_S[one.change]
            if one.change is Change.WORDS and self.last is not None:
                interval = max(interval, len(self.last.waiting) / _WORDS_A_SECOND)
            self._writer.write(StatusWrite(POD_GROUPS, meta["name"], one.status, namespace, uid, interval))
            if one.change is Change.STATE:
                self._said.group(f"{namespace}/{meta['name']}", one)

    def _not_written(self, refusal: Refusal) -> None:
        one = refusal.write
        if one.target != POD_GROUPS:
            return
        key = f"{one.namespace}/{one.name}"
        self.inbox.add(lambda mirror: mirror.forget_phase(key), group=key, decisive=True)
        if refusal.times == _TOLD_AFTER:
            about = announcements.reference(
                {"metadata": {"namespace": one.namespace, "name": one.name, "uid": one.uid}}
            )
            told = fit_errors.shortened(f"The status cannot be written: {refusal.error}")
            self._using.recorder.event(about, "Warning", "StatusNotWritten", told, action="Scheduling")
