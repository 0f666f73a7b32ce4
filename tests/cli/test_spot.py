"""`rota spot`: nodes by their marks, and notices that are tried out."""

import json

import pytest
from tests.cli.conftest import Cluster, Rota

from rota.api import times
from rota.kit import system
from rota.spot import reservations
from rota.spot_control.leader_process import LEASE
from rota.testing import manifests
from rota.testing.live import LiveServer


@pytest.fixture
def node(server: LiveServer, namespace: str) -> str:
    """A spot machine that no other test has."""
    server.create("/api/v1/nodes", manifests.node(namespace, **{"node.kubernetes.io/capacity": "spot"}))
    return namespace


def told(rota: Rota, node: str) -> dict[str, object]:
    listed = json.loads(rota("spot", "list", "--json").out)
    found: dict[str, object] = next(one for one in listed if one["name"] == node)
    return found


def test_a_notice_is_written_listed_and_withdrawn(rota: Rota, node: str, server: LiveServer) -> None:
    assert told(rota, node)["seconds_left"] is None
    assert rota("spot", "notice", node, "--in", "300s").out == f"node/{node} goes in 300 s\n"
    seen = told(rota, node)
    assert (seen["capacity"], seen["mark"]) == ("spot", "rota.dev/terminating")
    assert 200 < int(str(seen["seconds_left"])) <= 300
    taints = server.request("GET", f"/api/v1/nodes/{node}")[1]["spec"]["taints"]
    assert [(one["key"], one["effect"]) for one in taints] == [("rota.dev/terminating", "NoSchedule")]
    assert rota("spot", "notice", node, "--withdraw").out == f"node/{node} stays after all\n"
    assert told(rota, node)["mark"] == ""


def test_a_notice_without_a_controller_is_reported(rota: Rota, node: str, server: LiveServer, namespace: str) -> None:
    assert "no spot controller runs" in rota("spot", "notice", node).err
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"  # any: it is an option of the controller
    renewed = times.format_micro_time(system.SystemClock().now())
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": renewed}
    lease = {"metadata": {"name": LEASE}, "spec": spec}
    try:
        server.request("POST", leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
        assert rota("spot", "notice", node).err == ""
    finally:
        server.request("DELETE", f"{leases}/{LEASE}")
    assert rota("spot", "notice", node, "--withdraw").err == ""


def test_the_list_has_a_line_for_each_node(rota: Rota, node: str) -> None:
    rota("spot", "notice", node, "--in", "300s")
    heading, *lines = rota("spot", "list").cells
    assert heading == ["NODE", "CAPACITY", "GOES", "IN", "MARK", "POOL", "PLACES", "HELD", "PRICE", "SAVES"]
    line = next(one for one in lines if one[0] == node)
    assert (line[1], line[3]) == ("spot", "rota.dev/terminating")


def test_the_places_held_on_a_node_and_what_it_saves_are_shown(rota: Rota, node: str, server: LiveServer) -> None:
    labels = {"rota.dev/price": "0.1", "rota.dev/on-demand-price": "0.4"}
    patch = {"metadata": {"labels": labels}}
    server.request("PATCH", f"/api/v1/nodes/{node}", patch, content_type="application/merge-patch+json")
    old = manifests.pod("web")
    old["metadata"] |= {"namespace": "shop", "uid": node}
    held = reservations.manifest(old, node=node, owner="o", namespace="kube-system", lasts_s=60)
    server.create("/api/v1/namespaces/kube-system/pods", held)
    seen = told(rota, node)
    assert (seen["price"], seen["saves"], seen["places"]) == (0.1, 0.3, ["shop/web"])
    assert rota("spot", "list").out.splitlines()[-1].startswith("Spot machines save 0.3 an hour")


def test_a_dry_run_writes_nothing(rota: Rota, node: str) -> None:
    assert rota("spot", "notice", node, "--dry-run").out == f"node/{node} goes in 120 s (dry run)\n"
    assert told(rota, node)["mark"] == ""


def test_a_node_that_is_not_there_is_one_line(rota: Rota) -> None:
    said = rota("spot", "notice", "nowhere")
    assert (said.code, said.err) == (2, "rota: nodes \"nowhere\" not found; see 'rota get nodes'\n")


@pytest.mark.slow
def test_the_controller_of_the_master_that_leads_acts_on_notices(cluster: Cluster) -> None:
    said = cluster.rota("spot", "notice", "worker-1", "--dry-run")
    assert (said.returncode, said.stderr) == (0, "")
