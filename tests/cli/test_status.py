"""`rota status` and `rota top`: sums of what a cluster is and uses."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.cli.conftest import Rota

from rota.api import times
from rota.cli.commands import cluster_status
from rota.cli.commands.cluster_status import Reading
from rota.cli.main import main
from rota.testing import manifests
from rota.testing.live import LiveServer

NOW = times.parse("2026-01-01T00:10:00Z")


def reading(**parts: Any) -> Reading:
    empty: dict[str, Any] = {"nodes": [], "pods": [], "leases": [], "warnings": []}
    return Reading(masters={"https://here": ""}, version="v1", now=NOW, **{**empty, **parts})


def lease(name: str, holder: str, renewed: str) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, phase: str, *, on: str = "", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    found = manifests.pod(name, on=on, **spec)
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    found["status"] = {"phase": phase}
    return found


def test_workers_are_ready_not_ready_or_cordoned() -> None:
    lost, closed = manifests.node("lost"), manifests.node("closed")
    lost["status"]["conditions"][0]["status"] = "Unknown"
    closed["spec"] = {"unschedulable": True}
    found = cluster_status.summary(reading(nodes=[manifests.node("a"), lost, closed]))["workers"]
    assert found == {"ready": 2, "not_ready": ["lost"], "cordoned": ["closed"]}


def test_only_a_lease_that_is_renewed_has_a_leader() -> None:
    fresh, stale = "2026-01-01T00:09:55.000000Z", "2026-01-01T00:09:00.000000Z"
    leases = [lease("rota-controllers", "m1", fresh), lease("kube-scheduler", "m2", stale)]
    assert cluster_status.summary(reading(leases=leases))["leaders"] == {"controllers": "m1", "scheduler": ""}


def test_every_master_is_shown_with_its_version_and_what_it_leads() -> None:
    fresh, stale = "2026-01-01T00:09:55.000000Z", "2026-01-01T00:09:00.000000Z"
    masters = [
        {
            "metadata": {
                "name": f"rota-master-{name}",
                "labels": {"rota.dev/master": "true"},
                "annotations": {"rota.dev/address": f"https://{name}:6443", "rota.dev/version": "1.2"},
            },
            "spec": {"holderIdentity": f"host_{name}", "renewTime": renewed, "leaseDurationSeconds": 30},
        }
        for name, renewed in (("m1", fresh), ("m2", stale))
    ]
    leases = [*masters, lease("rota-controllers", "host_m1", fresh), lease("kube-scheduler", "host_m1", fresh)]
    faults = {"https://m1:6443": "", "https://m2:6443": "does not answer"}
    first, second = cluster_status.summary(replace(reading(leases=leases), masters=faults))["masters"]
    assert (first["version"], first["leads"], first["fault"]) == ("1.2", ["controllers", "scheduler"], "")
    assert (second["leads"], second["fault"], second["silent_s"]) == ([], "does not answer", 60)


def test_pods_count_by_phase_and_only_those_that_may_run_take_room() -> None:
    pods = [
        pod("a", "Running", on="n", cpu="1500m"),
        pod("b", "Succeeded", on="n"),
        pod("c", "Pending", on="n", cpu="500m"),
        pod("d", "Pending"),
    ]
    found = cluster_status.summary(reading(nodes=[manifests.node("n")], pods=pods))
    assert found["pods"] == {"Running": 1, "Pending": 2, "Succeeded": 1}
    assert found["resources"]["cpu"] == {"allocatable": 4000, "requested": 2000}
    assert found["queue"] == {"waiting": 1, "unschedulable": 0, "gated": 0}


def test_the_queue_shows_unschedulable_and_gated_pods() -> None:
    refused = pod("a", "Pending")
    refused["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    gated = pod("b", "Pending", schedulingGates=[{"name": "g"}])
    queue = cluster_status.summary(reading(pods=[refused, gated, pod("c", "Pending")]))["queue"]
    assert queue == {"waiting": 3, "unschedulable": 1, "gated": 1}


def test_warnings_are_the_latest_of_the_last_hour() -> None:
    def warning(number: int, time: str) -> dict[str, Any]:
        about = {"kind": "Pod", "name": f"p{number}"}
        return {"metadata": {}, "involvedObject": about, "reason": "R", "message": "m", "lastTimestamp": time}

    old = warning(0, "2025-12-31T20:00:00Z")
    recent = [warning(number, f"2026-01-01T00:0{number}:00Z") for number in range(1, 8)]
    again = warning(7, "2026-01-01T00:06:30Z")
    shown = cluster_status.summary(reading(warnings=[*reversed(recent), again, old]))["warnings"]
    assert [one["object"] for one in shown] == ["Pod/p3", "Pod/p4", "Pod/p5", "Pod/p6", "Pod/p7"]
    assert shown[-1]["age_s"] == 180


def test_it_is_one_screen_for_people_and_one_document_for_programs(rota: Rota) -> None:
    said = rota("status")
    assert (said.code, said.err) == (0, "")
    assert {"Master", "Workers", "Pods", "Queue"} <= {row[0] for row in said.cells if row}
    assert {"workers", "pods", "queue", "leaders"} <= json.loads(rota("status", "--json").out).keys()


def test_a_master_that_does_not_answer_is_named_while_another_does(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--json", "--server", f"http://127.0.0.1:1,{server.url}"]) == 0
    masters = json.loads(capsys.readouterr().out)["masters"]
    assert {one["server"]: one["fault"] for one in masters} == {"http://127.0.0.1:1": "does not answer", server.url: ""}
