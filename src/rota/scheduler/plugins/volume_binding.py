"""VolumeBinding: a pod goes where its claims can be bound, and its claims are bound with it.

The volumes of bound claims must be reachable from the node. Claims whose class waits for a first consumer are matched
here: with the smallest existing volume that fits, or with one to be provisioned for the node, if its class and the free
storage allow. Reserve assumes the chosen volumes; PreBind writes them and waits until they are bound.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rota.api import attachable_volumes, quantities
from rota.columns.arrays import BoolArray
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.config.args import VolumeBindingArgs
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreBindPlan, PreFilterResult
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from rota.scheduler.volumes import assumptions, claim_binding, matching, provisioning, volume_claims
from rota.scheduler.volumes.assumptions import Assumptions
from rota.scheduler.volumes.claim_binding import Demand, Plan
from rota.scheduler.volumes.matching import Shelf
from rota.scheduler.volumes.volume_claims import ClaimUse, Document

UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
IDLE = PreFilterResult(SKIP)


@dataclass(slots=True)
class Attempt:
    """The volumes of one attempt; shared with its what-if copies, as the plans are valid for all of them."""

    demand: Demand
    #: By node name; only feasible nodes.
    plans: dict[str, Plan] = field(default_factory=dict)
    #: Set by Reserve: the objects to write.
    volumes: tuple[Document, ...] = ()
    claims: tuple[Document, ...] = ()


class VolumeBinding:
    """PreFilter to PreBind for persistent volume claims, and a score for the utilisation of storage."""

    name: ClassVar[str] = "VolumeBinding"
    Args = VolumeBindingArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._assumed = Assumptions()
        self._shelf = Shelf()

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Pods without claims are equal; others depend on objects other than nodes and are not shared."""
        return () if next(volume_claims.used_by(pod), None) is None else None

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Refuse pods whose claims are missing, lost or not bound in time; find what the other claims need."""
        uses = list(volume_claims.used_by(pod))
        if not uses:
            return IDLE
        for use in uses:
            wrong = _wrong_claim(pod, use, volume_claims.find(cluster.catalog, pod, use))
            if wrong is not None:
                return PreFilterResult(unresolvable(wrong))
        try:
            demand = claim_binding.demand_of(pod, cluster.catalog, assumed=self._assumed, shelf=self._shelf)
        except claim_binding.BindingError as error:
            return PreFilterResult(Status(Code.ERROR, (str(error),)))
        if demand.waiting:
            return PreFilterResult(UNBOUND_IMMEDIATE)
        state.write(self.name, Attempt(demand))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a claim cannot be bound; keep the plan of the other nodes."""
        attempt = state.read(self.name, Attempt)
        try:
            plan = claim_binding.on_node(attempt.demand, node)
        except claim_binding.BindingError as error:
            return Status(Code.ERROR, (str(error),))
        if isinstance(plan, Plan):
            attempt.plans[node.name] = plan
            return SUCCESS
        return unresolvable(*plan)

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Skip pods without claims."""
        return SKIP if state.find(self.name, Attempt) is None else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score the utilisation of storage: of existing volumes if any is used, else of pools; mean over classes."""
        plan = state.read(self.name, Attempt).plans.get(node.name)
        filled = _filled(plan) if plan is not None else {}
        if not filled:
            return 0
        scores = [self._rate(requested, capacity) for requested, capacity in filled.values()]
        return (2 * sum(scores) + len(scores)) // (2 * len(scores))  # the mean, halves away from zero

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Assume the chosen volumes, so that other pods do not choose them."""
        attempt = state.find(self.name, Attempt)
        plan = attempt.plans.get(node_name) if attempt is not None else None
        if attempt is None or plan is None:
            return SUCCESS
        made: list[tuple[str, Document, Document]] = [
            (volume_claims.VOLUME, chosen.volume, assumptions.bound_volume(chosen.volume, chosen.claim))
            for chosen in plan.bindings
        ]
        made += [
            (volume_claims.CLAIM, wanted.claim, assumptions.provisioned_claim(wanted.claim, node_name))
            for wanted in plan.provisions
        ]
        for kind, base, assumed in made:
            self._assumed.assume(kind, base, assumed)
        attempt.volumes = tuple(assumed for kind, _, assumed in made if kind == volume_claims.VOLUME)
        attempt.claims = tuple(assumed for kind, _, assumed in made if kind == volume_claims.CLAIM)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release the chosen volumes."""
        attempt = state.find(self.name, Attempt)
        if attempt is None:
            return
        for volume in attempt.volumes:
            self._assumed.forget(volume_claims.VOLUME, volume)
        for claim in attempt.claims:
            self._assumed.forget(volume_claims.CLAIM, claim)
        attempt.volumes = attempt.claims = ()

    def pre_bind_plan(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPlan:
        """There is work only if an object is to be written."""
        attempt = state.find(self.name, Attempt)
        needed = attempt is not None and bool(attempt.volumes or attempt.claims)
        return PreBindPlan(SUCCESS if needed else SKIP, parallel=True)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the volumes and claims, and wait until they are bound."""
        attempt = state.read(self.name, Attempt)
        return await self._handle.volume_binder.bind_volumes(
            pod,
            node_name,
            volumes=attempt.volumes,
            claims=attempt.claims,
            timeout_s=float(self._args.bind_timeout_seconds),
        )

    def events_to_register(self) -> Sequence[Subscription]:
        """Events of storage objects, and nodes with other labels, may help."""
        changed = Action.ADD | Action.UPDATE
        return (
            Subscription(ClusterEvent(Resource.STORAGE_CLASS, changed), self._after_class_change, by_shape=True),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), self._after_claim_change),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME, changed)),
            Subscription(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Subscription(ClusterEvent(Resource.CSI_NODE, changed), self._after_csi_node_change, by_shape=True),
            Subscription(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), self._after_driver_change, by_shape=True),
            Subscription(
                ClusterEvent(Resource.CSI_STORAGE_CAPACITY, changed), self._after_capacity_change, by_shape=True
            ),
        )

    def _rate(self, requested: int, capacity: int) -> int:
        """The score of the shape at the utilisation of a class."""
        full = capacity == 0 or requested > capacity
        utilization = 100 if full else requested * 100 // capacity
        points = [(point.utilization, point.score * 10) for point in self._args.shape]
        for position, (end, score) in enumerate(points):
            if utilization <= end:
                if position == 0:
                    return score
                start, before = points[position - 1]
                rise, run = (score - before) * (utilization - start), end - start
                return before + (rise // run if rise >= 0 else -(-rise // run))  # towards zero, as in Go
        return points[-1][1]

    def _after_class_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        moved = old is None or (old.get("allowedTopologies") or []) != (new.get("allowedTopologies") or [])
        return Hint.QUEUE if moved else Hint.SKIP

    def _after_claim_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        return Hint.QUEUE if volume_claims.concerns(pod, new) else Hint.SKIP

    def _after_csi_node_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        migrated = volume_claims.annotations(new).get(MIGRATED_PLUGINS)
        moved = old is None or volume_claims.annotations(old).get(MIGRATED_PLUGINS) != migrated
        return Hint.QUEUE if moved else Hint.SKIP

    def _after_driver_change(self, pod: PodInfo, old: Document, new: Document) -> Hint:
        own = any((volume.get("csi") or {}).get("driver") == new["metadata"]["name"] for volume in pod.shape.volumes)
        silenced = provisioning.reports_capacity(old) and not provisioning.reports_capacity(new)
        return Hint.QUEUE if own and silenced else Hint.SKIP

    def _after_capacity_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        if old is None:
            return Hint.QUEUE
        before, now = provisioning.volume_limit(old), provisioning.volume_limit(new)
        grown = now is not None and (before is None or now.value() > before.value())
        return Hint.QUEUE if grown else Hint.SKIP


def _wrong_claim(pod: PodInfo, use: ClaimUse, claim: Document | None) -> str | None:
    """Why a claim cannot be used at all."""
    if claim is None:
        waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        return waiting if use.ephemeral else volume_claims.not_found(use)
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = attachable_volumes.volume_name(claim)
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
    if claim["metadata"].get("deletionTimestamp") is not None:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return volume_claims.foreign(claim, pod) if use.ephemeral else None


def _filled(plan: Plan) -> dict[str, tuple[int, int]]:
    """By storage class: bytes requested, and bytes of capacity."""
    filled: dict[str, tuple[int, int]] = {}
    for name, requested, capacity, adds_up in _amounts(plan):
        asked, there = filled.get(name, (0, 0))
        filled[name] = asked + requested, there + capacity if adds_up else capacity
    return filled


def _amounts(plan: Plan) -> Iterator[tuple[str, int, int, bool]]:
    for chosen in plan.bindings:
        requested = (volume_claims.request(chosen.claim) or matching.NOTHING).value()
        capacity = matching.capacity(chosen.volume).value()
        yield chosen.volume["spec"].get("storageClassName") or "", requested, capacity, True
    if plan.bindings:
        return
    for wanted in plan.provisions:
        if wanted.pool is not None:
            requested = (volume_claims.request(wanted.claim) or matching.NOTHING).value()
            capacity = quantities.value(wanted.pool.capacity.get("capacity"))
            # Two claims of one class use the same pool, whose size counts once.
            yield attachable_volumes.class_name(wanted.claim), requested, capacity, False
