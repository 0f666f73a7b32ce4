"""`rota doctor`: every fault that it knows is found, and a sound cluster has none."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.cli.conftest import Rota

from rota.api import times
from rota.cli.commands import diagnosis, health_checks
from rota.cli.commands.health_checks import Certificate, Finding, Reading
from rota.client.endpoints import Endpoint
from rota.testing import manifests
from rota.testing.live import LiveServer

NOW = times.parse("2026-01-01T12:00:00Z")
DAY = 86400.0


def ago(seconds: float) -> str:
    return times.format_micro_time(NOW - seconds)


def lease(name: str, *, silent: float = 1.0, **metadata: Any) -> dict[str, Any]:
    spec = {"holderIdentity": "m1", "leaseDurationSeconds": 15, "renewTime": ago(silent)}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def master(name: str, version: str) -> dict[str, Any]:
    notes = {"rota.dev/address": f"https://{name}:6443", "rota.dev/version": version}
    return lease(f"rota-master-{name}", labels={"rota.dev/master": "true"}, annotations=notes)


def node(name: str, *, version: str = "v1.37.0", **conditions: str) -> dict[str, Any]:
    found = manifests.node(name)
    found["status"]["nodeInfo"] = {"kubeletVersion": version}
    told = [{"type": kind, "status": status, "message": "why"} for kind, status in conditions.items()]
    found["status"]["conditions"] = [*told, *([] if "Ready" in conditions else [{"type": "Ready", "status": "True"}])]
    return found


def pod(name: str, *, age: float = 3600.0, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": times.format_time(NOW - age)}
    return {"metadata": metadata, "status": status}


def waiting(reason: str, restarts: int = 0) -> dict[str, Any]:
    container = {"name": "c", "restartCount": restarts, "state": {"waiting": {"reason": reason}}}
    return {"containerStatuses": [container]}


def deleting(seconds: float, *finalizers: str) -> dict[str, Any]:
    stamp = times.format_time(NOW - seconds)
    return {"metadata": {"name": "x", "deletionTimestamp": stamp, "finalizers": list(finalizers)}}


UNSCHEDULABLE: dict[str, Any] = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
}
SOUND = Reading(
    now=NOW,
    masters={"https://m1:6443": ""},
    certificates=[Certificate("m1", NOW - DAY, NOW + 6 * DAY)],
    nodes=[node("a"), node("b")],
    pods=[pod("web"), pod("new", age=10.0, **UNSCHEDULABLE)],
    leases=[lease("rota-controllers"), lease("kube-scheduler"), master("m1", "1.0"), lease("a", silent=-1.0)],
    deleting={"pod/default/x": deleting(60.0)},
    metrics={"rota_store_history_seconds": 300.0, "process_open_fds": 10.0, "process_max_fds": 1024.0},
)


def webhook(policy: str) -> dict[str, Any]:
    config = {"service": {"namespace": "hooks", "name": "gone"}}
    return {"metadata": {"name": "w"}, "webhooks": [{"name": "h", "clientConfig": config, "failurePolicy": policy}]}


def test_a_sound_cluster_has_no_findings() -> None:
    assert health_checks.check(SOUND) == []


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        ({"masters": {"https://m2": "does not answer"}}, "error", "https://m2 does not answer"),
        ({"leases": [lease("rota-controllers", silent=60.0)]}, "error", "the controllers have no leader"),
        ({"certificates": [Certificate("m1", NOW - 8 * DAY, NOW - DAY)]}, "error", "of m1 expired 24h ago"),
        ({"certificates": [Certificate("m1", NOW - 6 * DAY, NOW + DAY)]}, "warning", "of m1 expires in 24h"),
        ({"leases": [lease("a", silent=-90.0)]}, "error", "m1 renewed its Lease 90s in the future"),
        ({"leases": [master("m1", "1.0"), master("m2", "1.1")]}, "warning", "different versions: 1.0, 1.1"),
        ({"nodes": [node("a"), node("b", version="v1.36.0")]}, "warning", "v1.36.0: b; v1.37.0: a"),
        ({"nodes": [node("a", Ready="Unknown")]}, "error", "node a is not ready: why"),
        ({"nodes": [node("a", DiskPressure="True")]}, "warning", "node a has DiskPressure: why"),
        ({"pods": [pod("big", **UNSCHEDULABLE)]}, "warning", "1 pod waits for a node (default/big): 0/3 nodes"),
        ({"pods": [pod("p", **waiting("CrashLoopBackOff", 9))]}, "warning", "c of pod default/p ended 9 times"),
        ({"pods": [pod("p", **waiting("ImagePullBackOff"))]}, "warning", "default/p cannot start: ImagePullBackOff"),
        ({"deleting": {"job/x": deleting(7200.0, "a.io/f")}}, "warning", "for 120m and waits for a.io/f"),
        ({"webhooks": [webhook("Fail")]}, "error", "hooks/gone, which does not exist: requests that match it"),
        ({"webhooks": [webhook("Ignore")]}, "warning", "hooks/gone, which does not exist: it is skipped"),
        ({"metrics": {"rota_store_history_seconds": 9000.0}}, "warning", "history of 150m"),
        ({"metrics": {"process_open_fds": 900.0, "process_max_fds": 1024.0}}, "warning", "has 900 of 1024 files"),
        ({"unread": {"leases": "forbidden"}}, "warning", "could not read leases: forbidden"),
    ],
)
def test_a_fault_is_found_and_nothing_else(changes: dict[str, Any], severity: str, text: str) -> None:
    (finding,) = health_checks.check(replace(SOUND, **changes))
    assert finding.severity == severity
    assert text in finding.problem
    assert finding.remedy


def test_an_api_without_a_server_is_an_error() -> None:
    condition = {"type": "Available", "status": "False", "message": "no endpoints"}
    one = {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "status": {"conditions": [condition]}}
    (finding,) = health_checks.check(replace(SOUND, api_services=[one]))
    assert finding == Finding(
        "error",
        "apiservice/v1beta1.metrics.k8s.io",
        "API v1beta1.metrics.k8s.io is not available: no endpoints",
        "start its server, or delete the APIService",
    )


def test_a_live_cluster_is_examined(rota: Rota, server: LiveServer, namespace: str) -> None:
    lost = manifests.node(f"lost-{namespace}")
    lost["status"]["conditions"][0] |= {"type": "Ready", "status": "Unknown", "message": "no heartbeat"}
    code, answer = server.request("POST", "/api/v1/nodes", lost)
    assert code == 201, answer
    try:
        said = rota("doctor", "--json")
        found = json.loads(said.out)
        assert said.code == 1
        assert found["healthy"] is False
        assert f"node/lost-{namespace}" in [one["subject"] for one in found["findings"]]
        said = rota("doctor")
        assert f"error: node lost-{namespace} is not ready: no heartbeat" in said.lines
    finally:
        server.request("DELETE", f"/api/v1/nodes/lost-{namespace}")


def test_a_token_goes_to_no_address_of_a_lease_if_certificates_are_not_checked() -> None:
    other = {
        "metadata": {"labels": {"rota.dev/master": "true"}, "annotations": {"rota.dev/address": "https://other:6443"}},
        "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"},
    }
    checked = Endpoint(server="https://one:6443")
    assert diagnosis.all_masters(checked, [other]).fallbacks == ("https://other:6443",)
    unchecked = Endpoint(server="https://one:6443", insecure_skip_tls_verify=True)
    assert diagnosis.all_masters(unchecked, [other]).fallbacks == ()
