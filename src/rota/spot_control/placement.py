"""Where the successors of evicted pods would be scheduled: the scheduler's decisions on a copy of the cluster. Pure.

All pods that leave are removed first, and every place that is found counts as taken for later searches, so that no
place is assigned twice. Placeholder pods are removed from the copy, because their places are passed as reservations.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing import drift_measures
from rota.scheduler.snapshot.cluster_snapshot import ClusterSnapshot
from rota.spot import policies, reservations
from rota.spot.node_readings import Capacity
from rota.spot.policies import PREFER, Policy, Spread

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """A pod that needs a place, as the API shows it."""

    document: Document
    policy: Policy = PREFER


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResult:
    """A place that was found before and that its successor has not taken yet."""

    document: Document
    node: str
    #: The uid of the successor that was nominated for it; empty if there is none yet.
    successor: str = ""


def places(
    snapshot: ClusterSnapshot,
    frameworks: Mapping[str, Framework],
    *,
    leaving: Collection[str],
    given: Iterable[PlacementResult],
    seekers: Iterable[PlacementRequest],
    capacities: Mapping[str, Capacity],
) -> Iterator[tuple[str, str]]:
    """Nodes for requests, one after the other: uid and node name, empty if there is none. Consumes the snapshot.

    Thousands of requests take seconds: a generator, so that the caller can do other work in between.
    """
    cluster = snapshot.cluster
    for name in leaving:
        cluster.remove_node(name)
    given = list(given)
    clear(snapshot, successors={one.successor for one in given})
    for one in given:
        cluster.add_pod(drift_measures.unassigned(snapshot.interner.pod(one.document)), one.node)
    deciders = Deciders(frameworks, cluster)
    for seeker in seekers:
        pod = drift_measures.unassigned(snapshot.interner.pod(seeker.document))
        cluster.remove_pod(pod.uid)
        rows = within(cluster, pod, seeker.policy, capacities)
        evaluation = deciders.of(pod).evaluate(pod, nominations=snapshot.nominated(), within=rows)
        row = evaluation.best_row() if evaluation.failure is None else -1
        node = cluster.nodes[row] if row >= 0 else None
        if node is not None:
            cluster.add_pod(pod, node.name)
        yield pod.uid, "" if node is None else node.name


def clear(snapshot: ClusterSnapshot, *, successors: Collection[str]) -> None:
    """Remove placeholders and the nominations of their successors, which would count twice."""
    for pod in [pod for pod in snapshot.cluster.pods.values() if reservations.HELD_FOR in pod.labels]:
        snapshot.cluster.remove_pod(pod.uid)
    for node, pods in list(snapshot.nominations.items()):
        others = [pod for pod in pods if pod.uid not in successors]
        if others:
            snapshot.nominations[node] = others
        else:
            del snapshot.nominations[node]


class Deciders:
    """One scheduler per profile; pods of unknown schedulers are placed by the first profile."""

    def __init__(self, frameworks: Mapping[str, Framework], cluster: Cluster) -> None:
        self._by_name: Final = {name: Decider(framework, cluster) for name, framework in frameworks.items()}
        self._first: Final = next(iter(self._by_name.values()))

    def of(self, pod: PodInfo) -> Decider:
        """The scheduler of a pod's profile."""
        return self._by_name.get(pod.shape.scheduler_name, self._first)


def within(
    cluster: Cluster, pod: PodInfo, policy: Policy, capacities: Mapping[str, Capacity]
) -> npt.NDArray[np.bool_] | None:
    """The rows that a workload's policy allows; None for all."""
    if policy.preference is policies.SpotPreference.PREFER and not policy.counts:
        return None
    spread = _spread(cluster, pod, capacities)
    allowed = np.zeros(cluster.size, dtype=np.bool_)
    for node in cluster.node_infos():
        capacity = capacities.get(node.name, Capacity.UNKNOWN)
        allowed[node.row] = not policies.refusal(policy, spread, capacity)
    return allowed


def _spread(cluster: Cluster, pod: PodInfo, capacities: Mapping[str, Capacity]) -> Spread:
    owner = pod.shape.owner
    spot = staying = 0
    for other in cluster.pods.values() if owner is not None else ():
        its = other.shape.owner
        if its is None or owner is None or its.uid != owner.uid or other.node_name not in cluster.by_name:
            continue
        if capacities.get(other.node_name, Capacity.UNKNOWN).leaves:
            spot += 1
        else:
            staying += 1
    return Spread(spot=spot, staying=staying)
