"""Views: what a tab has after the beginning and all deltas is what the cluster has."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.client.informers.cache import Key
from rota.web.views import forecasts, nodes, objects, overview, pods
from rota.web.views.nodes import NodeTable
from rota.web.views.overview import Overview
from rota.web.views.pods import Pod, PodTable


def pod(name: str, *, node: str = "", cpu: str = "500m", phase: str = "Pending", namespace: str = "default") -> Pod:
    wire: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"tier": "front", "app": "web"},
            "ownerReferences": [{"kind": "Job", "name": "nightly", "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
        },
        "status": {"phase": phase},
    }
    return pods.read(wire)


def node(name: str, *, cpu: str = "4", ready: bool = True, cordoned: bool = False) -> nodes.Node:
    wire: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"zone": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"unschedulable": cordoned, "taints": [{"key": "spot", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "Unknown", "message": "kubelet stopped posting"},
                {"type": "MemoryPressure", "status": "True"},
            ],
        },
    }
    return nodes.read(wire)


def test_a_pod_is_a_row_with_what_kubectl_prints() -> None:
    row = pod("web", node="n1", phase="Running")
    assert (row.status, row.ready, row.cpu_milli, row.memory_bytes) == ("Running", "0/1", 500, 64 * 2**20)
    assert row.labels == "app=web,tier=front"
    assert row.owner == "Job/nightly"


def test_a_waiting_pod_says_why() -> None:
    wire: dict[str, Any] = {
        "metadata": {"name": "big", "namespace": "default"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
        },
    }
    assert pods.read(wire).message == "0/1 nodes are available"


def test_a_large_table_begins_in_portions() -> None:
    table = PodTable()
    for number in range(4001):
        table.apply("pods", Key("default", f"p{number}"), None, pod(f"p{number}"), 0)
    seen: dict[str, Any] = {}
    begin(seen, table)
    assert len(table.begin()) == 3
    assert len(seen) == 4001


def apply(table: dict[str, Any], told: Any) -> None:
    """What the page does with a message."""
    if told is None:
        return
    table.update(told.get("rows", told.get("set", ())))
    for key in told.get("gone", ()):
        table.pop(key, None)


def begin(table: dict[str, Any], view: PodTable | NodeTable) -> None:
    for portion in view.begin():
        apply(table, portion)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(["", "n1", "n2"]), st.sampled_from(["100m", "2"]), st.booleans()
        ),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_a_tab_that_joins_at_any_time_ends_with_the_same_rows(
    changes: list[tuple[str, str, str, bool]], joins_at: int
) -> None:
    pod_table, node_table = PodTable(), NodeTable()
    for name in ("n1", "n2"):
        node_table.apply("nodes", Key("", name), None, node(name), 0)
    present: dict[str, Pod] = {}
    seen_pods: dict[str, Any] = {}
    seen_nodes: dict[str, Any] = {}
    joined = False
    for at, (name, where, cpu, gone) in enumerate(changes):
        if at == joins_at:
            joined = True
            begin(seen_pods, pod_table)
            begin(seen_nodes, node_table)
        old, new = present.get(name), None if gone else pod(name, node=where, cpu=cpu)
        for view in (pod_table, node_table):
            view.apply("pods", Key("default", name), old, new, 0)
        present = {**present, name: new} if new is not None else {k: v for k, v in present.items() if k != name}
        if at % 3 == 0:
            told_pods, told_nodes = pod_table.delta(0), node_table.delta(0)
            if joined:
                apply(seen_pods, told_pods)
                apply(seen_nodes, told_nodes)
    if not joined:
        begin(seen_pods, pod_table)
        begin(seen_nodes, node_table)
    apply(seen_pods, pod_table.delta(0))
    apply(seen_nodes, node_table.delta(0))
    assert seen_pods == {f"default/{name}": one for name, one in present.items()}
    for name in ("n1", "n2"):
        own = [one for one in present.values() if one.node == name]
        assert seen_nodes[name].cpu_requested == sum(one.cpu_milli for one in own)
        assert seen_nodes[name].pods_running == len(own)


def test_a_view_of_one_namespace_has_no_others() -> None:
    table = PodTable("mine")
    table.apply("pods", Key("mine", "a"), None, pod("a", namespace="mine"), 0)
    table.apply("pods", Key("other", "b"), None, pod("b", namespace="other"), 0)
    begun: Any = table.begin()[0]
    assert [key for key, _ in begun["rows"]] == ["mine/a"]


def test_an_unchanged_row_is_not_told_again() -> None:
    table = PodTable()
    table.apply("pods", Key("default", "a"), None, pod("a"), 0)
    assert table.delta(0) is not None
    table.apply("pods", Key("default", "a"), pod("a"), pod("a"), 0)
    assert table.delta(0) is None


def test_ended_pods_hold_nothing_on_their_node() -> None:
    table = NodeTable()
    table.apply("nodes", Key("", "n1"), None, node("n1", cordoned=True), 0)
    running, ended = pod("a", node="n1", phase="Running"), pod("a", node="n1", phase="Succeeded")
    table.apply("pods", Key("default", "a"), None, running, 0)
    table.apply("pods", Key("default", "a"), running, ended, 0)
    begun: Any = table.begin()[0]
    row = begun["rows"][0][1]
    assert (row.cpu_requested, row.pods_running, row.cordoned) == (0, 0, True)
    assert row.taints == ("spot:NoSchedule",)
    assert row.pressures == ("MemoryPressure",)


def test_the_overview_counts_decisions_and_their_latency() -> None:
    view = Overview()
    view.apply("nodes", Key("", "n1"), None, node("n1"), 0)
    view.apply("nodes", Key("", "n2"), None, node("n2", ready=False), 0)
    assert view.delta(100.0) is not None
    waiting = pod("a")
    view.apply("pods", Key("default", "a"), None, waiting, 101.0)
    told: Any = view.delta(101.5)
    assert told["now"]["waiting_total"] == 1
    assert told["now"]["nodes"] == {"total": 2, "ready": 1, "cordoned": 0, "pressured": 2}
    assert told["now"]["not_ready"][0]["name"] == "n2"
    view.apply("pods", Key("default", "a"), waiting, pod("a", node="n1", phase="Running"), 101.75)
    told = view.delta(110.0)
    assert told["sample"] == (110, 1, 0, 0.1, 0.75, 0.75)
    assert told["now"]["cpu"] == [500, 8000]
    begun: Any = view.begin()[0]
    assert begun["samples"] == [told["sample"]]
    assert view.delta(110.5) is None


def test_a_master_whose_lease_is_old_is_not_current() -> None:
    view = Overview()
    lease = {
        "metadata": {
            "name": "rota-master-1",
            "labels": {"rota.dev/master": ""},
            "annotations": {"rota.dev/address": "https://10.0.0.1:6443", "rota.dev/version": "1"},
        },
        "spec": {"holderIdentity": "m1", "renewTime": "1970-01-01T00:01:40.000000Z", "leaseDurationSeconds": 30},
    }
    read = overview.read_lease(lease)
    assert read.is_master
    view.apply("leases", Key("kube-system", "rota-master-1"), None, read, 0)
    early: Any = view.delta(120.0)
    assert early["now"]["masters"][0]["current"] is True
    view.apply("leases", Key("kube-system", "x"), None, overview.LeaseFacts(holder="y"), 0)
    late: Any = view.delta(200.0)
    assert late["now"]["masters"][0]["current"] is False


def test_objects_come_without_what_only_servers_read() -> None:
    noted = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"}
    read = objects.read({"metadata": {"name": "q", "managedFields": [{}], "annotations": noted}, "spec": {"weight": 1}})
    assert read == {"metadata": {"name": "q", "annotations": {"mine": "x"}}, "spec": {"weight": 1}}


def test_a_forecast_is_a_row_and_says_what_is_stale() -> None:
    wire: dict[str, Any] = {
        "metadata": {"name": "n1"},
        "status": {
            "observedTime": "1970-01-01T00:02:00Z",
            "horizonSeconds": 300,
            "resources": [
                {"resource": "cpu", "basis": "Measured", "used": "250m", "peak": "1500m"},
                {"resource": "memory", "basis": "Stale", "used": "1Gi", "peak": "2Gi"},
            ],
        },
    }
    row = forecasts.read(wire)
    assert row == forecasts.Forecast("n1", 120, 300, 250, 1500, 2**30, 2**31, ("memory",))
    assert forecasts.read({"metadata": {"name": "n2"}}).observed == 0
    table = forecasts.ForecastTable()
    table.apply("forecasts", Key("", "n1"), None, row, 0)
    assert table.begin() == [{"columns": forecasts.Forecast.__struct_fields__, "rows": [("/n1", row)]}]
