"""Groups of pods: enough members or none, on the best placement, without a trace in the cluster."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.cycle.group_decision import GroupDecider, GroupDecision
from rota.scheduler.framework.plugin_interfaces import (
    ExtensionPoint,
    GroupPostFilterResult,
    Placement,
    PodGroup,
    TriesGroup,
    points_of,
)
from rota.scheduler.framework.registry import Enabled, Handle, NoArgs, ProfileSpec, Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code
from rota.scheduler.plugin_registry import builtin
from rota.testing.clusters import ZONE, build, make_node, make_pod


class Base:
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass


class Zones(Base):
    """One placement per zone; the later in the alphabet, the better."""

    name: ClassVar[str] = "Zones"

    def placement_generate(
        self, state: CycleState, group: PodGroup, cluster: Cluster, parent: Placement
    ) -> Sequence[Placement]:
        column = cluster.labels.column(ZONE)
        names = sorted(value for value in column.values if value is not None)
        return [Placement(name, column.where([name], cluster.rows)) for name in names]

    def placement_score(self, state: CycleState, group: PodGroup, cluster: Cluster, placement: Placement) -> int:
        return ord(placement.name[-1]) % 100


class EvictsAll(Base):
    name: ClassVar[str] = "EvictsAll"

    def pod_group_post_filter(
        self, state: CycleState, group: PodGroup, cluster: Cluster, try_group: TriesGroup
    ) -> GroupPostFilterResult:
        victims = tuple(cluster.pods.values())
        for victim in victims:
            cluster.remove_pod(victim.uid)
        placed = try_group(group)
        assert placed is not None
        return GroupPostFilterResult(SUCCESS, placed, victims)


def decide(*plugins: Any, members: int, min_count: int, cpu: str = "2", taken: bool = False) -> GroupDecision:
    interner = PodInterner()
    nodes = [make_node(f"{zone}{number}", labels={ZONE: zone}) for zone in ("za", "zb") for number in range(2)]
    pods = [make_pod(f"x{node['metadata']['name']}", on=node["metadata"]["name"], cpu="4") for node in nodes]
    cluster = build(nodes, pods if taken else [], interner)
    registry = Registry([builtin.registry()["NodeResourcesFit"], *plugins])
    points = {
        point: tuple(Enabled(name) for name in registry if point in points_of(registry[name]))
        for point in ExtensionPoint
    }
    group = PodGroup(
        namespace="default",
        name="g",
        pods=tuple(interner.pod(make_pod(f"m{number}", cpu=cpu)) for number in range(members)),
        min_count=min_count,
    )
    decision = GroupDecider(Decider(Framework(ProfileSpec(points=points), registry), cluster)).decide(group)
    assert len(cluster.pods) == (len(pods) if taken else 0)
    assert int(np.count_nonzero(cluster.pod_count)) == (4 if taken else 0)
    return decision


def test_all_members_of_a_group_are_placed_at_once() -> None:
    decision = decide(members=8, min_count=8)
    assert decision.status.ok
    assert sorted(decision.placed.values()) == sorted(["za0", "za1", "zb0", "zb1"] * 2)


def test_a_group_that_does_not_fit_places_no_pod() -> None:
    decision = decide(members=9, min_count=9)
    assert decision.status.code is Code.UNSCHEDULABLE
    assert decision.placed == {}


def test_enough_members_are_enough() -> None:
    assert len(decide(members=9, min_count=8).placed) == 8


def test_a_group_stays_inside_the_best_placement_that_holds_it() -> None:
    decision = decide(Zones, members=4, min_count=4)
    assert decision.placement == "zb"
    assert set(decision.placed.values()) == {"zb0", "zb1"}
    assert decide(Zones, members=5, min_count=5).status.code is Code.UNSCHEDULABLE


def test_room_is_made_for_a_whole_group() -> None:
    decision = decide(EvictsAll, members=4, min_count=4, taken=True)
    assert decision.status.code is Code.UNSCHEDULABLE
    assert decision.post_filter is not None
    assert len(decision.post_filter.victims) == 4
    assert len(decision.post_filter.nominated) == 4


def test_a_failing_placement_plugin_is_an_error_under_its_name() -> None:
    class Broken(Zones):
        def placement_score(self, state: CycleState, group: PodGroup, cluster: Cluster, placement: Placement) -> int:
            return 101

    decision = decide(Broken, members=2, min_count=2)
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Zones")
