"""`rota cordon`, `uncordon` and `drain`: nodes without new tasks, and without any."""

import pytest
from tests.cli.conftest import Rota

from rota.testing import manifests
from rota.testing.live import LiveServer


@pytest.fixture
def node(server: LiveServer, namespace: str) -> str:
    """A node that no other test has."""
    server.create("/api/v1/nodes", manifests.node(namespace))
    return namespace


def is_cordoned(server: LiveServer, name: str) -> bool:
    return bool(server.request("GET", f"/api/v1/nodes/{name}")[1].get("spec", {}).get("unschedulable"))


def test_cordoning_is_done_once_and_taken_back(rota: Rota, node: str, server: LiveServer) -> None:
    assert rota("cordon", node).out == f"node/{node} cordoned\n"
    assert is_cordoned(server, node)
    assert rota("cordon", node).out == f"node/{node} already cordoned\n"
    assert rota("uncordon", node).out == f"node/{node} uncordoned\n"
    assert not is_cordoned(server, node)


def test_a_dry_run_cordons_nothing(rota: Rota, node: str, server: LiveServer) -> None:
    assert rota("cordon", node, "--dry-run").out == f"node/{node} cordoned (dry run)\n"
    assert not is_cordoned(server, node)


def test_a_node_that_is_not_there_is_one_line(rota: Rota) -> None:
    said = rota("drain", "nowhere")
    assert (said.code, said.err) == (2, "rota: nodes \"nowhere\" not found; see 'rota get nodes'\n")


def add_pod(server: LiveServer, namespace: str, name: str, *, owner: str = "ReplicaSet", phase: str = "") -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    pod = manifests.pod(name, on=namespace, labels={"app": "web"})
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    server.create(path, pod)
    if phase:
        ready = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": phase, "conditions": [ready]}}
        code, answer = server.request(
            "PATCH", f"{path}/{name}/status", status, content_type="application/merge-patch+json"
        )
        assert code == 200, answer
    return f"{path}/{name}"


def test_draining_evicts_what_will_be_started_elsewhere(rota: Rota, node: str, server: LiveServer) -> None:
    path = add_pod(server, node, "web")
    said = rota("drain", node, "--grace-period", "0")
    assert (said.code, said.lines) == (0, [f"node/{node} cordoned", "pod/web evicted", f"node/{node} drained"])
    assert server.request("GET", path)[0] == 404


def test_what_is_in_the_way_is_named_with_the_options_and_nothing_is_evicted(
    rota: Rota, node: str, server: LiveServer
) -> None:
    paths = [add_pod(server, node, "alone", owner=""), add_pod(server, node, "agent", owner="DaemonSet")]
    said = rota("drain", node)
    assert said.code == 2
    assert f"{node}/alone has no controller that would start it elsewhere" in said.err
    assert said.err.endswith("; allow it with --ignore-daemonsets --force\n") or said.err.endswith(
        "; allow it with --force --ignore-daemonsets\n"
    )
    assert [server.request("GET", path)[0] for path in paths] == [200, 200]
    assert is_cordoned(server, node)
    said = rota("drain", node, "--force", "--ignore-daemonsets", "--grace-period", "0")
    assert said.lines[1:] == ["pod/alone evicted", f"node/{node} drained"]
    assert f"{node}/agent stays: of a DaemonSet" in said.err


def test_a_dry_run_lists_the_pods_to_evict(rota: Rota, node: str, server: LiveServer) -> None:
    path = add_pod(server, node, "web")
    said = rota("drain", node, "--dry-run")
    assert said.lines == [f"node/{node} cordoned (dry run)", "pod/web would be evicted (dry run)"]
    assert server.request("GET", path)[0] == 200
    assert not is_cordoned(server, node)


@pytest.mark.slow
def test_a_budget_is_waited_for_and_named(rota: Rota, node: str, server: LiveServer) -> None:
    path = add_pod(server, node, "web", phase="Running")
    budgets = f"/apis/policy/v1/namespaces/{node}/poddisruptionbudgets"
    server.create(budgets, manifests.budget("always-one", min_available=1, app="web"))
    said = rota("drain", node, "--grace-period", "0", "--timeout", "2s")
    assert said.code == 2
    assert f"{node}/web waits: " in said.err
    assert "disruption budget" in said.err
    assert f"node {node} was not empty within 2 s" in said.err
    assert server.request("GET", path)[0] == 200
