"""The figures of a cluster: by hand for small clusters, and laws for any sequence of changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import resources, times
from rota.forecast import cluster_state_objects
from rota.forecast.cluster_layout import ClusterLayout, Owner, Sum
from rota.forecast.cluster_state import MOST_OWNERS, ClusterState, Resource, Scope, Shape, summarize
from rota.forecast.machine_power import MachinePower
from rota.testing.clusters import make_node, make_pod

GI = 2**30
NOW = 1_000_000.0
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def node(name: str, *, zone: str = "", labels: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    made = make_node(name, labels={"topology.kubernetes.io/zone": zone, **(labels or {})}, **allocatable)
    made["status"] |= READY
    return made


def owned(pod: dict[str, Any], kind: str, name: str, template: str = "") -> dict[str, Any]:
    pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "controller": True, "uid": "u"}]
    pod["metadata"]["labels"] = {"pod-template-hash": template} if template else {}
    return pod


def layout(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> ClusterLayout:
    made = ClusterLayout()
    for each in nodes:
        made.set_node(each["metadata"]["name"], each)
    for each in pods:
        made.set_pod(each["metadata"]["namespace"], each["metadata"]["name"], each)
    return made


def figures(state: ClusterState, name: str) -> Resource:
    return next(each for each in state.resources if each.name == name)


SCOPE = Scope(
    shapes=(Shape("one", {"cpu": 1000, "memory": GI}, 3.0), Shape("big", {"cpu": 4000, "memory": 8 * GI}, 1.0))
)


def test_headroom_fragments_and_stranded_amounts_by_hand() -> None:
    nodes = [node("a"), node("b"), node("c")]
    # 4 cores and 16 GiB each: a is empty; b has half a core left, c has 2.
    pods = [make_pod("b1", on="b", cpu="3500m"), make_pod("c1", on="c", cpu="2")]
    state = summarize(layout(nodes, pods), (), SCOPE, NOW)
    rooms = {each.shape.name: (each.pods, each.nodes, each.most) for each in state.headroom}
    assert rooms == {"one": (4 + 0 + 2, 2, 4), "big": (1, 1, 1)}
    cpu = figures(state, "cpu")
    assert (cpu.allocatable, cpu.requested, cpu.free, cpu.stranded) == (12_000, 5_500, 6_500, 500)
    # On b no shape fits; on c the big one, a quarter of the pods, does not.
    assert cpu.fragmentation == pytest.approx((500 * 1.0 + 2000 * 0.25) / 6500)
    assert figures(state, "memory").stranded == 16 * GI - 200 * 2**20
    assert (state.empty, state.pods, state.pending) == (1, 2, 0)
    assert figures(state, "pods").requested == 2


def test_places_for_pods_limit_the_headroom() -> None:
    state = summarize(layout([node("a", pods="2")], [make_pod("p", on="a", cpu="0")]), (), SCOPE, NOW)
    assert state.headroom[0].pods == 1


def test_only_nodes_that_take_pods_are_free() -> None:
    cordoned, unready, tainted = node("cordoned"), node("unready"), node("tainted")
    cordoned["spec"]["unschedulable"] = True
    unready["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    tainted["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    preferred = node("preferred")
    preferred["spec"]["taints"] = [{"key": "gpu", "effect": "PreferNoSchedule"}]
    there = layout([cordoned, unready, tainted, preferred], [])
    state = summarize(there, (), SCOPE, NOW)
    assert (len(state.machines), state.ready, state.schedulable, state.headroom[1].pods) == (4, 3, 1, 1)
    assert figures(state, "cpu").free == 4000
    included = summarize(there, (), Scope(shapes=SCOPE.shapes, include_tainted=True), NOW)
    assert (included.schedulable, included.headroom[1].pods) == (2, 2)


def test_a_selector_limits_nodes_owners_and_zones() -> None:
    nodes = [node("a", zone="x", labels={"pool": "p"}), node("b", zone="y")]
    pods = [owned(make_pod(name, on=on), "ReplicaSet", "web-5f", "5f") for name, on in (("1", "a"), ("2", "b"))]
    state = summarize(layout(nodes, pods), (), Scope(node_labels={"pool": "p"}), NOW)
    assert list(state.machines) == ["a"]
    assert [(each.owner.workload, each.sum.pods, each.zones) for each in state.owners] == [
        (("Deployment", "web"), 1, {"x": 1})
    ]
    assert [zone.name for zone in state.zones] == ["x"]


def test_owners_are_ordered_by_cpu_and_limited() -> None:
    pods = [owned(make_pod(f"p{n}", on="a", cpu=f"{n + 1}m"), "Job", f"j{n:03}") for n in range(MOST_OWNERS + 10)]
    state = summarize(layout([node("a", zone="x")], pods), (), SCOPE, NOW)
    assert len(state.owners) == MOST_OWNERS
    assert state.owner_count == MOST_OWNERS + 10
    assert state.owners[0].owner == Owner("default", ("Job", f"j{MOST_OWNERS + 9:03}"))  # type: ignore[arg-type]


def test_pending_pods_are_demand_and_ended_pods_are_nothing() -> None:
    ended = make_pod("ended", on="a", cpu="4")
    ended["status"]["phase"] = "Succeeded"
    state = summarize(layout([node("a")], [make_pod("waits", cpu="2"), ended]), (), SCOPE, NOW)
    assert (state.pending, state.pods, figures(state, "cpu").pending) == (1, 0, 2000)


def forecast(name: str, used: str, peak: str, *, age_s: float = 0.0, basis: str = "Measured") -> dict[str, Any]:
    record = {"forecasts": 10, "violations": 1, "severity": 0.2, "savings": 0.5}
    status = times.format_time(NOW - age_s)
    each = {"resource": "cpu", "basis": basis, "used": used, "peak": peak, "record": record}
    return {"metadata": {"name": name}, "status": {"observedTime": status, "resources": [each]}}


def test_forecasts_against_actual_use_and_power() -> None:
    nodes = [node("a"), node("b"), node("c", labels={"rota.dev/power-model": "blade"}), node("empty")]
    pods = [make_pod(name, on=name, cpu="2") for name in ("a", "b", "c")]
    seen = [
        forecast("a", "1", "3"),
        forecast("b", "4", "4", age_s=10_000),
        forecast("c", "4", "4"),
        forecast("gone", "4", "4"),
    ]
    power = {"": MachinePower(idle=100, full=200, sleep_watts=5), "blade": MachinePower(idle=50, full=80)}
    state = summarize(layout(nodes, pods), seen, Scope(shapes=SCOPE.shapes, power=power), NOW)
    cpu = figures(state, "cpu")
    assert (cpu.measured_nodes, cpu.used, cpu.peak) == (2, 5000, 7000)
    assert (cpu.forecasts, cpu.violations, cpu.severity, cpu.savings) == (20, 2, 0.2, 0.5)
    assert state.power is not None
    # a is measured at a quarter, b counts by its requests (half), c is full, one is asleep.
    assert state.power.watts == pytest.approx(125 + 150 + 80 + 5)
    assert (state.power.greatest, state.power.asleep) == (3 * 200 + 80, 1)
    assert summarize(layout(nodes, pods), seen, SCOPE, NOW).power is None


def test_the_status_is_readable_and_the_time_is_no_change() -> None:
    there = layout([node("a", zone="x")], [owned(make_pod("p", on="a", cpu="1500m"), "Job", "j")])
    scope = cluster_state_objects.scope_of(
        {"shapes": [{"name": "s", "requests": {"cpu": "500m"}}], "powerModels": [{"model": "table", "watts": [1, 2]}]}
    )
    state = summarize(there, (), scope, NOW)
    one, other = (cluster_state_objects.status_of(state, now) for now in (NOW, NOW + 30))
    assert cluster_state_objects.is_same(one, other)
    assert one["headroom"] == [{"shape": "s", "requests": {"cpu": "500m"}, "pods": 5, "nodes": 1, "mostOnOneNode": 5}]
    assert one["zones"][0]["requested"] == {"cpu": "1500m", "memory": "200Mi"}
    assert one["owners"][0]["kind"] == "Job"
    assert "used" not in one["resources"][0]
    assert one["power"]["watts"] == 1.4


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b"]), st.integers(0, 3000), st.sampled_from("XYN")),
        max_size=30,
    )
)
def test_changes_lead_to_the_layout_of_the_present_pods(changes: list[tuple[int, str, int, str]]) -> None:
    nodes = [node("a", zone="x"), node("b", zone="y", cpu="8")]
    followed, present = layout(nodes, []), dict[str, dict[str, Any]]()
    for number, on, cpu, kind in changes:
        name = f"p{number}"
        if kind == "N":
            present.pop(name, None)
            followed.set_pod("default", name, None)
            continue
        pod = owned(make_pod(name, on=on or None, cpu=f"{cpu}m"), "Job", kind)
        present[name] = pod
        followed.set_pod("default", name, pod)
    fresh = layout(nodes, list(present.values()))
    assert summarize(followed, (), SCOPE, NOW) == summarize(fresh, (), SCOPE, NOW)
    # What a shape's headroom promises can be placed, pod by pod, and not one more.
    state = summarize(fresh, (), SCOPE, NOW)
    for room in state.headroom:
        placed = 0
        for name, machine in fresh.machines.items():
            total = fresh.placed.get(name) or Sum()
            sum_ = Sum(total.pods, dict(total.requests))
            while (
                not resources.fits(
                    {key: amount - sum_.requests.get(key, 0) for key, amount in machine.allocatable.items()},
                    room.shape.requests,
                )
                and sum_.pods < machine.allocatable["pods"]
            ):
                sum_.add(room.shape.requests)
                placed += 1
        assert room.pods == placed
