"""All loops of a federation's control plane, on one API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from rota.api import errors, meta
from rota.client.elections.elector import STEADY, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.informers.cache import Cache
from rota.client.informers.shared_informers import SharedInformers
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.control import accounts
from rota.federation.control.capacity_loop import CapacityLoop
from rota.federation.control.cluster_loop import LEASE_GRACE_S, ClusterLoop
from rota.federation.control.cron_autoscalers import CronAutoscalers
from rota.federation.control.dependency_loop import DependencyLoop
from rota.federation.control.descheduler_loop import DeschedulerLoop
from rota.federation.control.detector import Detector
from rota.federation.control.eviction_loop import TIMEOUT_S, EvictionLoop
from rota.federation.control.failback_loop import FailbackLoop
from rota.federation.control.federated_autoscalers import EVERY_S as AUTOSCALE_EVERY_S
from rota.federation.control.federated_autoscalers import FederatedAutoscalers
from rota.federation.control.fences import MARGIN_S, Fences
from rota.federation.control.namespace_loop import NamespaceLoop
from rota.federation.control.push_members import PushMembers
from rota.federation.control.queue_loop import QueueLoop
from rota.federation.control.quota_loop import QuotaLoop
from rota.federation.control.rebalancer_loop import RebalancerLoop
from rota.federation.control.replica_sync import ReplicaSync
from rota.federation.control.scheduler_loop import SchedulingLoop
from rota.federation.control.service_loop import ServiceLoop
from rota.federation.control.works_loop import WorksLoop
from rota.federation.customization import interpreter
from rota.federation.customization.interpreter import Interpreter
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.failover.eviction_rate import RATE
from rota.federation.gates import DEFAULT, Gates
from rota.federation.member import connections, observation, unschedulable
from rota.federation.member.served_kinds import Kind, Types
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

LEASE: Final = "rota-federation"
#: The ConfigMap with the settings of the control plane, in the namespace of clusters.
SETTINGS: Final = "rota-federation-settings"
CONFIG_MAPS: Final = ("", "v1", "configmaps")
_ESTABLISHED_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.1
#: Collections that several loops read.
_SHARED: Final = frozenset({kinds.CLUSTERS, kinds.BINDINGS, kinds.CLUSTER_BINDINGS, kinds.WORKS, kinds.MEMBER_REPORTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator decides about a federation."""

    #: How often members are asked how they are.
    every_s: float = observation.EVERY_S
    #: For how long a member must be well or ill before that counts.
    threshold_s: float = observation.THRESHOLD_S
    #: For how long an agent may fail to renew its Lease before its cluster counts as unknown.
    lease_grace_s: float = LEASE_GRACE_S
    #: What is added to the time after which an agent stops exclusive workloads, and to their grace period.
    fence_margin_s: float = MARGIN_S
    #: Whether bindings leave clusters with NoExecute taints that they do not tolerate.
    evict_tainted: bool = False
    #: How long a graceful eviction may take where its policy says nothing.
    eviction_timeout_s: float = TIMEOUT_S
    #: Whether every namespace is created in every member, and not only where it is needed.
    namespaces_everywhere: bool = False
    #: How often metrics are read for FederatedHPAs.
    autoscale_every_s: float = AUTOSCALE_EVERY_S
    #: After how long replicas without a node are moved to other clusters.
    unschedulable_after_s: float = unschedulable.AFTER_S
    #: Evictions from lost or tainted clusters per second.
    eviction_rate: float = RATE
    gates: Gates = DEFAULT

    def published(self) -> dict[str, str]:
        """What clients may know of the settings, such as a drill that predicts the time of recovery."""
        return {
            "taintEviction": str(self.evict_tainted).lower(),
            "evictionRate": f"{self.eviction_rate:g}",
            "detectionSecondsPush": f"{self.every_s + self.threshold_s:g}",
            "detectionSecondsPull": f"{self.every_s + self.lease_grace_s:g}",
            "fenceMarginSeconds": f"{self.fence_margin_s:g}",
        }


class _Loop(Protocol):
    async def run(self) -> None: ...


async def install(client: Client, *, clock: Clock) -> None:
    """Have the server serve the kinds of a federation with the accounts of its loops, and wait until it does."""
    for definition in kinds.definitions():
        await client.apply(kinds.DEFINITIONS, definition, field_manager="rota-federation", force=True)
    deadline = clock.monotonic() + _ESTABLISHED_S
    for definition in kinds.definitions():
        while True:
            present = await client.get(kinds.DEFINITIONS, meta.name(definition))
            if meta.is_condition_true(present, "Established"):
                break
            if clock.monotonic() > deadline:
                raise errors.ServiceUnavailable(f"{meta.name(definition)} is not established")
            await clock.sleep(_LOOK_AGAIN_S)
    await connections.ensure_namespace(client, kinds.CLUSTER_NAMESPACE)
    for target, wanted in accounts.roles():
        await client.apply(target, wanted, field_manager="rota-federation", force=True)


class Federation:
    """The loops, each restarted on its own if it fails."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        *,
        clock: Clock,
        rng: Rng,
        settings: Settings,
        identity: str = "",
    ) -> None:
        """`clients` are those of `accounts.GRANTS`, each as the user of its loop. `identity` is this process's name
        among several on one store; without it there is no other.
        """
        self._clients: Final = clients
        self._clock: Final = clock
        self._rng: Final = rng
        self._settings: Final = settings
        self._identity: Final = identity

    async def run(self) -> None:
        """Work until cancelled, if others share the store only while this process leads."""
        if not self._identity:
            await self._work(self._clients)
            return
        election = Election(name=LEASE, identity=self._identity, pace=STEADY)
        incumbent = LeaderWrites()
        leading = {name: one.with_settings(term=incumbent.header) for name, one in self._clients.items()}
        while True:
            elector = LeaderElector(self._clients["leader"], election, clock=self._clock, rng=self._rng)
            try:
                await incumbent.run(elector, lambda: self._work(leading))
            except LeadershipLost as error:
                log.warning("another leads the federation now", error=str(error))

    async def _work(self, clients: Mapping[str, Client]) -> None:
        await clients["leader"].apply(
            CONFIG_MAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": SETTINGS, "namespace": kinds.CLUSTER_NAMESPACE},
                "data": self._settings.published(),
            },
            field_manager="rota-federation",
            force=True,
        )
        clock, rng = self._clock, self._rng
        metrics = Metrics("federation")
        shared = SharedInformers(clients["reader"], _SHARED, clock=clock, rng=rng, metrics=metrics)
        clients = {name: one.with_settings(informers=shared, metrics=metrics) for name, one in clients.items()}
        types = Types(clients["reader"])
        async with interpreter.following(
            clients["reader"],
            clock=clock,
            rng=rng,
            reads_unknown=self._settings.gates.generic_interpretation,
            in_detail=self._settings.gates.detailed_status,
        ) as rules:
            await self._run_loops(clients, types, rules, shared)

    async def _run_loops(
        self, clients: Mapping[str, Client], types: Types, rules: Interpreter, shared: SharedInformers
    ) -> None:
        clock, rng = self._clock, self._rng
        fences = Fences(clients["clusters"], clock=clock, margin_s=self._settings.fence_margin_s)
        settings, gates = self._settings, self._settings.gates
        nodes = MemberNodes() if gates.accurate_estimator else None
        #: The resources that policies select: the detector follows them, others read them there.
        templates: dict[Kind, Cache[Object]] = {}
        loops: dict[str, _Loop] = {
            "clusters": ClusterLoop(
                clients["clusters"],
                clock=clock,
                rng=rng,
                fences=fences,
                every_s=settings.every_s,
                threshold_s=settings.threshold_s,
                lease_grace_s=settings.lease_grace_s,
                nodes=nodes,
            ),
            "detector": Detector(clients["detector"], types, gates, rules, clock=clock, rng=rng, templates=templates),
            "scheduling": SchedulingLoop(clients["scheduling"], gates, clock=clock, rng=rng, nodes=nodes),
            "works": WorksLoop(
                clients["works"], types, gates, rules, fences, clock=clock, rng=rng, templates=templates
            ),
            "evictions": EvictionLoop(
                clients["evictions"],
                gates,
                fences,
                clock=clock,
                rng=rng,
                by_taints=settings.evict_tainted,
                timeout_s=settings.eviction_timeout_s,
                rate=settings.eviction_rate,
                nodes=nodes,
            ),
            "failback": FailbackLoop(clients["failback"], gates, clock=clock, rng=rng, nodes=nodes),
            "rebalancers": RebalancerLoop(clients["rebalancers"], clock=clock, rng=rng),
            "descheduler": DeschedulerLoop(clients["descheduler"], gates, clock=clock, rng=rng, nodes=nodes),
            "members": PushMembers(
                clients["members"], rules, clock=clock, rng=rng, unschedulable_after_s=settings.unschedulable_after_s
            ),
            "dependencies": DependencyLoop(clients["dependencies"], types, rules, clock=clock, rng=rng),
            "capacity": CapacityLoop(clients["capacity"], clock=clock, rng=rng, every_s=settings.every_s),
            "quotas": QuotaLoop(clients["quotas"], gates, clock=clock, rng=rng),
            "queues": QueueLoop(clients["queues"], clock=clock, rng=rng),
            "replica sync": ReplicaSync(clients["replica sync"], clock=clock, rng=rng),
            "autoscalers": FederatedAutoscalers(
                clients["autoscalers"], types, clock=clock, rng=rng, every_s=settings.autoscale_every_s
            ),
            "services": ServiceLoop(clients["services"], gates, clock=clock, rng=rng),
            "cron autoscalers": CronAutoscalers(clients["cron autoscalers"], types, clock=clock, rng=rng),
        }
        if settings.namespaces_everywhere:
            loops["namespaces"] = NamespaceLoop(clients["namespaces"], clock=clock, rng=rng)
        async with tasks.Supervisor("federation", clock=clock, rng=rng) as running:
            for name, loop in loops.items():
                running.start(name, loop.run)
            running.start("informers", shared.run)
            await running.wait()
