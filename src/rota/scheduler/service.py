"""The scheduler as a service: informers keep its cache up to date, and it schedules while it is the leader.

    scheduler = Scheduler(client, third_party.load(text, builtin.registry()), clock=clock, rng=rng, identity=host)
    await scheduler.run()

Informers run all the time, so a standby has the same cache as the leader and takes over at once, without a list. `load`
replaces the configuration of a running scheduler; an invalid one leaves the old one in place.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rota.api import errors
from rota.client.elections.elector import Election, LeaderElector, LeadershipLost, Pace
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.events.correlation import Source as Reporter
from rota.client.events.recorder import EventRecorder
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.pods import PODS
from rota.client.verbs import Client, Selection
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket
from rota.kit.tasks import OnCrash, Supervisor
from rota.scheduler.batch import group_statuses
from rota.scheduler.batch import objects as batch_objects
from rota.scheduler.batch_profile import kinds as batch_kinds
from rota.scheduler.batch_profile.profile import BatchProfile, Surroundings
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.binding.bind_requests import BindRequestQueue
from rota.scheduler.binding.binding_cycle import BindingCycles
from rota.scheduler.binding.dispatch_mode import Dispatcher
from rota.scheduler.binding.volume_binder import ApiVolumeBinder
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.config.resolution import Configuration
from rota.scheduler.config.wire import DEFAULT_SCHEDULER_NAME
from rota.scheduler.core import cluster_feed, configured
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.core.waiting_pods import WaitingPods
from rota.scheduler.cycle import watchdog
from rota.scheduler.cycle.scheduling_cycle import SchedulingCycle
from rota.scheduler.cycle.watchdog import Watchdog
from rota.scheduler.extenders import factory
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.ingest import decoder, watched_kinds
from rota.scheduler.ingest.decoder import Unreadable
from rota.scheduler.ingest.event_handlers import EventHandlers
from rota.scheduler.ingest.watched_kinds import WatchedKind
from rota.scheduler.known_objects import KnownObjects
from rota.scheduler.observability import tracing
from rota.scheduler.observability.scheduler_metrics import SchedulerMetrics
from rota.scheduler.observability.tracing import Tracer
from rota.scheduler.plugin_registry.configuration_source import LiveConfiguration
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.preemption.evictions import Evictions
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.scheduler.scheduling_loop import Collaborators, SchedulingLoop
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.scheduler.sharding.shard_member import ShardMember
from rota.scheduler.sharding.sharded_work import ShardedWork
from rota.scheduler.status import fit_errors, object_references
from rota.scheduler.status.fit_errors import PodStatusPatch
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
#: Pods that have ended use no resources of a node.
_LIVING: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
#: Objects per page: larger than usual, since the start waits for them.
_PAGE: Final = 5000


class Scheduler:
    """One scheduler, with all its parts."""

    def __init__(
        self,
        client: Client,
        loaded: Loaded,
        *,
        clock: Clock,
        rng: Rng,
        identity: str,
        elect: bool = True,
        pace: Pace | None = None,
        metrics: Metrics | None = None,
        limit_s: float | None = None,
        tracer: Tracer | None = None,
        dispatcher: Dispatcher | None = None,
        batch: LiveBatchSettings | None = None,
        shard: InstanceSettings | None = None,
    ) -> None:
        """`identity` is unique for this process; plugins that take longer than `limit_s` are interrupted.

        The default of that is half of the Lease's renew deadline, five seconds at most.

        Without `elect` it schedules at once, whatever the configuration says about leader election; a `pace` overrides
        the configuration's. A `tracer` gets a span for every attempt and for every call of a plugin. A `dispatcher` is
        called for every pod that was bound. With `batch`, pods of groups are scheduled by a batch profile; on a stock
        API server only if its settings come from a file. With `shard`, it is one of several schedulers, and schedules
        the pods that the shard map gives it.
        """
        self._tracer: Final = tracer
        self._elect: Final = elect
        self._pace: Final = pace
        self._campaigning: Final = client
        self._incumbent: Final = LeaderWrites()
        # Writes of the leader name its term, and are refused once another master leads.
        client = client.with_settings(term=self._incumbent.header)
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._identity: Final = identity
        self.metrics: Final = metrics or Metrics("scheduler", prefix="scheduler_")
        self.configuration: Configuration = loaded.configuration
        self.cache: Final = SchedulerCache()
        #: By kind; created when the features of the server are known.
        self._informers: Final[dict[str, Informer[Any]]] = {}
        self.known: Final = KnownObjects(self._informers, lambda: self.queue, self.cache.cluster)
        #: None unless several schedulers share the pods.
        self.shard: Final = (
            None
            if shard is None
            else ShardMember(self._campaigning, client, shard, identity=identity, clock=clock, rng=rng)
        )
        self.waiting: Final = WaitingPods()
        election = self._election()
        deadline_s = None if election is None else election.pace.renew_deadline_s
        self._watchdog: Final = Watchdog(clock=clock, limit_s=limit_s or watchdog.limit_s(deadline_s))
        self.bindings: Final = BindRequestQueue(client, clock=clock, rng=rng, insufficient=self.cache.insufficient)
        self._volumes: Final = ApiVolumeBinder(client, self.cache.cluster, clock=clock)
        self._notes: Final = PodStatusWriter(client, clock=clock)
        self._recorder: Final = self._make_recorder(loaded)
        self._figures: Final = SchedulerMetrics(self.metrics)
        self._figures.follow(lambda: self.queue, self._size)
        extender_chain = factory.extender_chain(
            loaded.configuration.extenders, cluster_reader=self.known, clock=clock, rng=rng
        )
        cycles = self._make_cycles(loaded)
        self.core: Final = SchedulerCore(
            self.cache,
            configured.make_queue(loaded.configuration, cycles),
            cycles,
            start=int(rng.random() * 65_536),
            waiting=self.waiting,
            extenders=extender_chain,
        )
        self._using: Final = Collaborators(
            extender_chain=extender_chain,
            cluster_reader=self.known,
            notes=self._notes,
            recorder=self._recorder,
            figures=self._figures,
            clock=clock,
            dispatcher=dispatcher,
        )
        self.attempts: Final = SchedulingLoop(self.core, self._using)
        self.attempts.tracer = tracer
        self.attempts.binding = BindingCycles(
            bindings=self.bindings, notes=self._notes, clock=clock, figures=self._figures, ended=self.attempts.ended
        )
        self.attempts.binding.extender_chain, self.attempts.binding.cluster_reader = extender_chain, self.known
        self.attempts.evictions = Evictions(
            client, self._recorder, clock=clock, revoke=self.attempts.revoke, ended=self.attempts.evicted
        )
        self._handlers: Final = EventHandlers(
            self.core,
            feed=self.attempts.feed,
            clock=clock,
            unreadable=self._report_unreadable,
            storage_changed=self._volumes.changed,
        )
        self._sharded: Final = (
            None
            if self.shard is None
            else ShardedWork(self.shard, self.core, self._handlers, self.attempts, self._pods_version)
        )
        if self._sharded is not None:
            self.bindings.knowledge = self._sharded.knowledge
        #: Kinds that plugins declare and that are watched.
        self._declared: Final[dict[str, WatchedKind]] = {}
        #: Set while the scheduler runs.
        self._supervisor: Supervisor | None = None
        self._synced: Final = asyncio.Event()
        self._retiring: Final[set[asyncio.Task[None]]] = set()
        self._batch_settings: Final = batch
        #: The batch profile, once it is known whether this scheduler has one.
        self.batch: BatchProfile | None = None
        self._dispatcher: Final = dispatcher
        self.leading = False

    @property
    def queue(self) -> SchedulingQueue:
        """The queue; another one after a configuration was loaded."""
        return self.core.queue

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the cache is complete."""
        return self._synced.is_set()

    @property
    def extender_chain(self) -> ExtenderChain:
        """The extenders of the configuration in force."""
        return self._using.extender_chain

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The scheduler names that it serves."""
        return tuple(self.core.cycles)

    def framework(self, scheduler_name: str) -> Framework | None:
        """The plugins for pods of this scheduler name, if there are any."""
        cycle = self.core.cycles.get(scheduler_name)
        return None if cycle is None else cycle.framework

    def waiting_reason(self, scheduler_name: str, group: str) -> str | None:
        """See `ExplainableScheduler.waiting_reason`; a standby reads the condition of the PodGroup."""
        if self.batch is None or scheduler_name not in self.batch.settings.scheduler_names:
            return None
        namespace, _, name = group.partition("/")
        known = self._informers["PodGroup"].cache.get(name, namespace) if "PodGroup" in self._informers else None
        return self.batch.why(group) or group_statuses.unschedulable(known if isinstance(known, dict) else None)

    async def wait_synced(self) -> None:
        """Wait for `synced`."""
        await self._synced.wait()

    async def run(self) -> None:
        """Keep the cache up to date, and schedule while leading, until cancelled."""
        async with Supervisor("scheduler", clock=self._clock, rng=self._rng) as supervisor:
            try:
                await self.bindings.discover_when_ready()
                self._make_batch_profile()
                self._make_informers()
                supervisor.start("events", self._recorder.run)
                if self.shard is not None:
                    self.shard.start(supervisor)
                    await self.shard.wait_for_turn()
                for name, informer in self._informers.items():
                    supervisor.start(name, informer.run)
                self._supervisor = supervisor
                self._watch_declared()
                await self._sync()
                election = self._election()
                supervisor.start("work", self._lead if election is None else partial(self._campaign, election))
                await supervisor.wait()
            finally:
                self._supervisor = None
                await self._using.extender_chain.close()
                await asyncio.gather(*self._retiring)

    async def _sync(self) -> None:
        began = self._clock.monotonic()
        for name, informer in list(self._informers.items()):
            if name not in self._declared or await self._served(self._declared[name]):
                await informer.wait_synced()
        cluster = self.cache.cluster
        took = round(self._clock.monotonic() - began, 3)
        known = {"nodes": len(cluster.by_name), "pods": len(cluster.pods), "waiting": len(self.queue)}
        log.info("cluster known", **known, took_s=took)
        self._synced.set()

    async def _campaign(self, election: Election) -> None:
        elector = LeaderElector(self._campaigning, election, clock=self._clock, rng=self._rng)
        while True:
            try:
                await self._incumbent.run(elector, self._lead)
            except LeadershipLost as lost:
                log.warning("another scheduler leads", error=lost)

    async def _lead(self) -> None:
        """Schedule until cancelled."""
        self.leading = True
        self._watchdog.start()
        try:
            async with Supervisor("leading scheduler", clock=self._clock, rng=self._rng) as beside:
                # Both are cancelled at the same time: the end of one may take as long as its requests.
                run_batch = None if self.batch is None else partial(self.batch.run, self._informers)
                if self._sharded is not None:
                    beside.start("shard", partial(self._sharded.run, run_batch))
                elif run_batch is not None:
                    beside.start("batch", run_batch)
                beside.start("pods", self.attempts.run, on_crash=OnCrash.FAIL)
                await beside.wait()
        finally:
            self._watchdog.stop()
            self.leading = False

    def _election(self) -> Election | None:
        if self.shard is not None:
            return self.shard.election
        settings = self.configuration.settings.leader_election
        if not self._elect or not settings.leader_elect:
            return None
        return Election(
            name=settings.resource_name,
            namespace=settings.resource_namespace,
            identity=self._identity,
            pace=self._pace
            or Pace(
                lease_duration_s=int(settings.lease_duration.total_seconds()),
                renew_deadline_s=settings.renew_deadline.total_seconds(),
                retry_period_s=settings.retry_period.total_seconds(),
            ),
        )

    # --- configuration ----------------------------------------------------------------------------------------------

    def load(self, loaded: Loaded) -> None:
        """Switch to another configuration; if its plugins cannot be built, nothing changes and the error is raised.

        Waiting pods are sorted again; pods in binding stay as they are. Leader election and client connection stay as
        they were at start.
        """
        cycles = self._make_cycles(loaded)
        queue = configured.make_queue(loaded.configuration, cycles)
        extender_chain = factory.extender_chain(
            loaded.configuration.extenders, cluster_reader=self.known, clock=self._clock, rng=self._rng
        )
        informed = self._informers["pods"].cache.values() if self._informers else ()
        owned = self.shard.ownership.owns if self.shard is not None else lambda _: True
        known = (pod for pod in informed if isinstance(pod, PodInfo) and owned(pod))
        self.core.reconfigure(queue, cycles, extender_chain, known=known, now=self._clock.monotonic())
        self.configuration = loaded.configuration
        self._retire(self._using.extender_chain)
        self._using.extender_chain = extender_chain
        self._watch_declared()
        self.attempts.binding.extender_chain = extender_chain
        self.attempts.wake()
        log.info("configuration loaded", profiles=list(cycles))

    def follow(self, configuration: LiveConfiguration) -> None:
        """Apply changes of the configuration files, and write an event about invalid files."""
        configuration.apply, configuration.refused = self.load, self._report_configuration

    def _report_configuration(self, problem: str) -> None:
        settings = self.configuration.settings.leader_election
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": settings.resource_namespace, "name": settings.resource_name},
        }
        message = fit_errors.shortened(f"The previous configuration stays in force: {problem}")
        self._recorder.event(lease, "Warning", "InvalidSchedulerConfiguration", message, action="Reloading")

    def _retire(self, extender_chain: ExtenderChain) -> None:
        """Close extenders that are no longer used."""
        if extender_chain:
            closing = asyncio.get_running_loop().create_task(extender_chain.close())
            self._retiring.add(closing)
            closing.add_done_callback(self._retiring.discard)

    def _make_cycles(self, loaded: Loaded) -> Mapping[str, SchedulingCycle]:
        frameworks = {
            name: Framework(
                profile,
                loaded.registry,
                binder=self.bindings,
                volume_binder=self._volumes,
                waiting_pods=self.waiting,
                guard=self._watchdog,
                stopwatch=self._figures.stopwatch(name, self._clock),
            )
            for name, profile in loaded.configuration.profiles.items()
        }
        if self._tracer is not None:
            for framework in frameworks.values():
                tracing.trace(framework, self._tracer)
        return {
            name: SchedulingCycle(framework, self.cache.cluster, guard=self._watchdog)
            for name, framework in frameworks.items()
        }

    def _make_recorder(self, loaded: Loaded) -> EventRecorder:
        connection = loaded.configuration.settings.client_connection
        bucket = TokenBucket(rate=connection.qps, burst=connection.burst, now=self._clock.monotonic())
        reporter = Reporter(component=loaded.configuration.first.scheduler_name, host=self._identity)
        return EventRecorder(self._client, reporter, clock=self._clock, rng=self._rng, bucket=bucket)

    # --- informers ----------------------------------------------------------------------------------------------------

    def _make_informers(self) -> None:
        if self._informers:
            return
        # A stock server leaves out pods that have ended. Rota's own would decode every pod once more for that, so there
        # the decoder leaves them out.
        pods = self._informer(
            PODS,
            decoder.pods(self.cache.interner),
            selection=None if self.bindings.batches or self.batch is not None else _LIVING,
        )
        feed = self._handlers if self._sharded is None else self._sharded.feed
        pods.add_handler(feed.pod, first=feed.first_pods)
        nodes = self._informer(NODES, decoder.nodes)
        nodes.add_handler(self._handlers.node)
        self._informers.update(pods=pods, nodes=nodes)
        self._informers.update({each.kind: self._other(each) for each in watched_kinds.BUILTIN.values()})
        if self.batch is not None:
            self._follow_batches(self.batch, pods, nodes)

    def _pods_version(self) -> str:
        return self._informers["pods"].version if "pods" in self._informers else ""

    def _informer(self, target: tuple[str, str, str], decode: Any, selection: Selection | None = None) -> Informer[Any]:
        chosen = Source(client=self._client, target=target, selection=selection or Selection(), page_size=_PAGE)
        return Informer(chosen, decode=decode, clock=self._clock, rng=self._rng)

    def _other(self, watched: WatchedKind) -> Informer[Any]:
        informer = self._informer(watched.target, decoder.others(watched.kind))
        informer.add_handler(self._handlers.other(watched))
        return informer

    # --- batch profile ------------------------------------------------------------------------------------------------

    def _make_batch_profile(self) -> None:
        live = self._batch_settings
        if self.batch is not None or live is None or not (live.chosen or self.bindings.batches):
            return
        taken = set(live.settings.scheduler_names) & set(self.scheduler_names)
        if taken:
            log.warning("no batch profile, because a profile of the configuration has its name", names=sorted(taken))
            return
        self.batch = BatchProfile(
            live.settings,
            Surroundings(
                client=self._client,
                cache=self.cache,
                bindings=self.bindings,
                notes=self._notes,
                recorder=self._recorder,
                cluster_reader=self.known,
                clock=self._clock,
                metrics=self.metrics,
                dispatcher=self._dispatcher,
                freed=self._place_freed,
            ),
        )
        live.apply, live.refused = self.batch.configure, self._report_configuration

    def _place_freed(self, pod: PodInfo) -> None:
        """A place that was given to a pod of a group is free again."""
        if self.queue.move(cluster_feed.ASSIGNED_DELETE, pod, None, now=self._clock.monotonic()):
            self.attempts.wake()

    def _follow_batches(self, batch: BatchProfile, pods: Informer[Any], nodes: Informer[Any]) -> None:
        pods.add_handler(batch.inbox.pod, first=batch.inbox.first_pods)
        nodes.add_handler(batch.inbox.node)
        for kind, (target, section) in batch_kinds.WATCHED.items():
            # Not every server has all of these kinds, and decisions do not wait for those that it has not.
            self._declared[kind] = WatchedKind(kind, target, silent=True)
            check = partial(batch_objects.check, section)
            self._informers[kind] = self._informer(target, decoder.checked(kind, check))
            self._informers[kind].add_handler(batch.inbox.object(kind))

    def _watch_declared(self) -> None:
        """Watch the kinds that plugins of the configuration in force declare, unless they are watched already."""
        if self._supervisor is None:
            return
        frameworks = (cycle.framework for cycle in self.core.cycles.values())
        for kind, watched in watched_kinds.declared(frameworks).items():
            if kind not in self._informers:
                self._declared[kind] = watched
                self._informers[kind] = self._other(watched)
                self._supervisor.start(kind, self._informers[kind].run)

    async def _served(self, watched: WatchedKind) -> bool:
        """Whether a declared kind can be listed; if not, decisions do not wait for it."""
        try:
            await self._client.list(watched.target)
        except (errors.NotFound, errors.Forbidden) as error:
            log.warning("kind that a plugin declares cannot be watched", kind=watched.kind, error=error)
            return False
        return True

    def _report_unreadable(self, pod: Unreadable) -> None:
        """Report a pod that cannot be decoded; it is not scheduled."""
        named = object_references.Named.of(pod.reference)
        log.warning("pod cannot be scheduled", problem=pod.problem, pod=named.key)
        if pod.node_name or (pod.scheduler_name or DEFAULT_SCHEDULER_NAME) not in self.core.cycles:
            return
        if self.shard is not None and not self.shard.ownership.owns_key(f"pod/{named.uid}"):
            return
        self._recorder.event(
            pod.reference, "Warning", "FailedScheduling", fit_errors.shortened(pod.problem), action="Scheduling"
        )
        note = PodStatusPatch(condition=(fit_errors.SCHEDULER_ERROR, pod.problem))
        self._notes.write(named, note)

    def _size(self, what: str) -> int:
        cluster = self.cache.cluster
        sizes = {"nodes": len(cluster.by_name), "pods": len(cluster.pods), "assumed_pods": len(self.cache.assumed)}
        return sizes[what]
