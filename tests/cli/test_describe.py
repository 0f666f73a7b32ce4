"""`rota describe`: pages of objects, from what was gathered about them."""

import json
from typing import Any

import pytest
from tests.cli.conftest import Rota

from rota.api import amounts, times
from rota.cli.commands import object_pages
from rota.cli.commands.object_pages import Gathered, Page
from rota.testing import manifests
from rota.testing.live import LiveServer

NOW = times.parse("2026-01-01T00:10:00Z")


def gathered(obj: dict[str, Any], **more: Any) -> Gathered:
    obj["metadata"] |= {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Gathered(obj=obj, now=NOW, **more)


def facts(page: Page) -> dict[str, str]:
    return dict(page.facts)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (8 << 30, "8Gi"), (8332845056, "7.76Gi"), (999 << 20, "999Mi"),
     (1000 << 20, "0.98Gi"), (12 << 50, "12Pi"), (1 << 62, "4Ei")],
)  # fmt: skip
def test_bytes_have_three_digits_and_a_unit(amount: int, shown: str) -> None:
    assert amounts.human_bytes(amount) == shown


def test_cores_are_whole_where_they_can_be() -> None:
    assert [amounts.human_cpu(one) for one in (0, 250, 1000, 1500)] == ["0", "250m", "1", "1500m"]


class TestPods:
    def test_a_running_pod_says_where_it_is_what_it_runs_and_what_it_asked_for(self) -> None:
        pod = manifests.pod("web", on="n1", labels={"app": "web"})
        pod["spec"]["containers"][0] |= {
            "command": ["sleep", "$$X"],
            "resources": {"requests": {"cpu": "1500m", "memory": "8332845056"}},
        }
        running = {"running": {"startedAt": "2026-01-01T00:05:00Z"}}
        status = {"name": "main", "ready": True, "restartCount": 2, "state": running}
        pod["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [status]}
        page = object_pages.of(gathered(pod))
        assert page.title == "Pod default/web"
        assert facts(page)["Status"] == "Running on n1"
        assert facts(page)["Created"] == "10m ago"
        assert facts(page)["Labels"] == "app=web"
        assert facts(page)["Requests"] == "cpu 1500m, memory 7.76Gi"
        assert list(page.sections[0].rows[0]) == ["main", "Running 5m", "yes", "2", "sleep '$X'", ""]

    def test_a_waiting_pod_says_why(self) -> None:
        pod = manifests.pod("web")
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        pod["status"] = {"phase": "Pending", "conditions": [refused]}
        page = object_pages.of(gathered(pod))
        assert facts(page)["Status"] == "Pending: 0/1 nodes"
        assert page.sections[1].rows[0][:2] == ["PodScheduled", "False"]

    def test_an_ended_container_says_how_and_a_restarted_one_what_was_before(self) -> None:
        pod = manifests.pod("web", on="n1")
        ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        status = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
        pod["status"] = {"phase": "Running", "containerStatuses": [status]}
        row = list(object_pages.of(gathered(pod)).sections[0].rows[0])
        assert (row[1], row[-1]) == ("CrashLoopBackOff", "before: OOMKilled")
        pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
        assert object_pages.of(gathered(pod)).sections[0].rows[0][1] == "OOMKilled (137)"

    def test_events_come_last_with_how_often_they_happened(self) -> None:
        event = {
            "type": "Warning", "reason": "FailedScheduling", "message": "no room", "count": 3,
            "lastTimestamp": "2026-01-01T00:09:00Z", "source": {"component": "scheduler"}, "metadata": {},
        }  # fmt: skip
        page = object_pages.of(gathered(manifests.pod("web"), events=[event]))
        last = page.sections[-1]
        assert list(last.rows[0]) == ["60s", "Warning", "FailedScheduling", "scheduler", "no room (3 times)"]


def test_a_job_says_how_far_it_has_come() -> None:
    job = manifests.job("nightly")
    job["spec"] |= {"completions": 5, "parallelism": 2, "backoffLimit": 4}
    job["status"] = {"succeeded": 2, "active": 2, "failed": 1, "startTime": "2026-01-01T00:00:00Z"}
    found = facts(object_pages.of(gathered(job)))
    assert found["Status"] == "Running"
    assert found["Progress"] == "2 of 5 done, 2 active, 1 failed"
    assert found["Runs"] == "main: true"
    job["status"]["conditions"] = [{"type": "Failed", "status": "True", "message": "too many failures"}]
    assert facts(object_pages.of(gathered(job)))["Status"] == "Failed: too many failures"


def test_a_deployment_counts_its_replicas_and_lists_its_pods() -> None:
    deployment = manifests.deployment("web", replicas=3)
    deployment["status"] = {"updatedReplicas": 3, "readyReplicas": 2, "availableReplicas": 1}
    pod = manifests.pod("web-1", on="n1")
    page = object_pages.of(gathered(deployment, pods=[pod]))
    assert facts(page)["Replicas"] == "3 wanted: 3 updated, 2 ready, 1 available"
    assert facts(page)["Selector"] == "app=web"
    assert list(page.sections[0].rows[0])[:3] == ["web-1", "Pending", "n1"]


def test_of_an_empty_node_no_empty_table_is_shown() -> None:
    account: dict[str, Any] = {"resources": [], "pods": []}
    assert [one.columns[0] for one in object_pages.node(gathered(manifests.node("n")), account).sections] == [
        "RESOURCE"
    ]
    taken = account | {"pods": [{"namespace": "a", "name": "web", "cpu": "1", "memory": 0, "phase": "Running"}]}
    shown = object_pages.node(gathered(manifests.node("n")), taken).sections
    assert [one.columns[0] for one in shown] == ["RESOURCE", "NAMESPACE"]


def test_a_secret_keeps_its_values_to_itself() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "aHVudGVyMg=="}}
    text = object_pages.of(gathered(secret)).sections[0].text
    assert "aHVudGVyMg" not in text
    assert "key: (9 bytes)" in text


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"a": "b"}}, "a=b"),
        ({"app": "x"}, "app=x"),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]},
                    {"key": "b", "operator": "NotIn", "values": ["z"]},
                    {"key": "c", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                ]
            },
            "a in (x,y),b notin (z),c,!d",
        ),
    ],
)
def test_a_selector_is_written_as_queries_write_it(selector: dict[str, Any], text: str) -> None:
    assert object_pages.selector_text(selector) == text


class TestAtAServer:
    def test_objects_of_any_kind_are_described(self, rota: Rota, namespace: str, server: LiveServer) -> None:
        server.create(f"/api/v1/namespaces/{namespace}/configmaps", manifests.config_map("c", colour="green"))
        server.create(f"/api/v1/namespaces/{namespace}/pods", manifests.pod("p"))
        said = rota("describe", "cm/c", "pod/p", "-n", namespace)
        assert said.code == 0
        assert f"ConfigMap {namespace}/c" in said.lines
        assert "    colour: green" in said.lines
        assert f"Pod {namespace}/p" in said.lines

    def test_programs_get_the_object_with_its_events(self, rota: Rota, namespace: str, server: LiveServer) -> None:
        server.create(f"/api/v1/namespaces/{namespace}/pods", manifests.pod("p"))
        told = json.loads(rota("describe", "pod", "p", "-n", namespace, "--json").out)
        assert (told["object"]["metadata"]["name"], told["events"], told["pods"]) == ("p", [], [])

    def test_a_kind_alone_is_not_enough(self, rota: Rota) -> None:
        said = rota("describe", "pods")
        assert (said.code, said.err) == (2, "rota: say which of the pods; write rota describe pod NAME\n")
