from typing import Any

import pytest

from rota.api import errors, scheme, times
from rota.api.kinds import ResourceType
from rota.apiserver.printing import metadata, tables

NOW = times.parse("2026-11-15T12:00:00Z")
CREATED = "2026-11-15T11:54:30Z"
SCHEME = scheme.builtin()
BOOKMARK: dict[str, Any] = {"metadata": {"resourceVersion": "7", "creationTimestamp": None}}


def resource(name: str) -> ResourceType:
    found = SCHEME.find(name)
    assert found is not None
    return found


def cells(name: str, obj: dict[str, Any]) -> list[Any]:
    row: list[Any] = tables.table(resource(name), [obj], now=NOW)["rows"][0]["cells"]
    return row


def pod(status: dict[str, Any], *, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "default", "creationTimestamp": CREATED, **meta},
        "spec": {"containers": [{"name": "web", "image": "nginx"}], **(spec or {})},
        "status": status,
    }


def container(state: dict[str, Any], *, ready: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": "web", "ready": ready, "restartCount": 0, "state": state, **more}


RUNNING = container({"running": {}}, ready=True)
INIT = {"initContainers": [{"name": "init", "image": "busybox"}]}


@pytest.mark.parametrize(
    ("shown", "obj"),
    [
        (["0/1", "Pending", "0"], pod({"phase": "Pending"})),
        (["1/1", "Running", "0"], pod({"phase": "Running", "containerStatuses": [RUNNING]})),
        (
            ["0/1", "SchedulingGated", "0"],
            pod(
                {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
                }
            ),
        ),
        (
            ["0/1", "Init:0/1", "0"],
            pod({"phase": "Pending", "initContainerStatuses": [container({"running": {}})]}, spec=INIT),
        ),
        (
            ["0/1", "Init:CrashLoopBackOff", "0"],
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}})],
                },
                spec=INIT,
            ),
        ),
        (
            ["0/1", "CrashLoopBackOff", "4 (90s ago)"],
            pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        container(
                            {"waiting": {"reason": "CrashLoopBackOff"}},
                            restartCount=4,
                            lastState={"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T11:58:30Z"}},
                        )
                    ],
                }
            ),
        ),
        (
            ["0/1", "Completed", "0"],
            pod(
                {
                    "phase": "Succeeded",
                    "containerStatuses": [container({"terminated": {"exitCode": 0, "reason": "Completed"}})],
                }
            ),
        ),
        (
            ["0/1", "Signal:9", "0"],
            pod({"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 137, "signal": 9}})]}),
        ),
        (
            ["1/1", "Terminating", "0"],
            pod({"phase": "Running", "containerStatuses": [RUNNING]}, deletionTimestamp=CREATED),
        ),
        (
            ["1/1", "Unknown", "0"],
            pod({"phase": "Running", "reason": "NodeLost", "containerStatuses": [RUNNING]}, deletionTimestamp=CREATED),
        ),
        (["0/1", "Evicted", "0"], pod({"phase": "Failed", "reason": "Evicted"})),
    ],
)
def test_a_pod_is_summed_up_in_one_word(shown: list[str], obj: dict[str, Any]) -> None:
    assert cells("pods", obj) == ["web-0", *shown, "5m30s", "<none>", "<none>", "<none>", "<none>"]


def test_a_sidecar_that_runs_counts_as_ready() -> None:
    obj = pod(
        {
            "phase": "Running",
            "initContainerStatuses": [{**RUNNING, "name": "proxy", "started": True}],
            "containerStatuses": [RUNNING],
        },
        spec={"initContainers": [{"name": "proxy", "image": "envoy", "restartPolicy": "Always"}]},
    )
    assert cells("pods", obj)[1:3] == ["2/2", "Running"]


def test_a_finished_pod_says_in_its_row_that_nothing_more_is_to_come() -> None:
    table = tables.table(resource("pods"), [pod({"phase": "Succeeded"}), pod({"phase": "Running"})], now=NOW)
    done, running = table["rows"]
    assert [(one["type"], one["status"], one["reason"]) for one in done["conditions"]] == [
        ("Completed", "True", "Succeeded")
    ]
    assert "conditions" not in running


def test_a_cordoned_node_says_so() -> None:
    node = {
        "metadata": {"name": "n1", "creationTimestamp": CREATED, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.33.0", "kernelVersion": "6.1", "architecture": "arm64"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    assert cells("nodes", node) == [
        "n1",
        "Ready,SchedulingDisabled",
        "worker",
        "5m30s",
        "v1.33.0",
        "10.0.0.1",
        "<none>",
        "<unknown>",
        "6.1 (arm64)",
        "<unknown>",
    ]


def test_an_api_service_says_why_it_is_not_available() -> None:
    service = {
        "metadata": {"name": "v1.metrics", "creationTimestamp": CREATED},
        "spec": {"service": {"namespace": "kube-system", "name": "metrics"}},
        "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
    }
    assert cells("apiservices", service) == [
        "v1.metrics",
        "kube-system/metrics",
        "False (MissingEndpoints)",
        "5m30s",
    ]
    assert cells("apiservices", BOOKMARK) == ["", "Local", "Unknown", "<unknown>"]


def test_a_group_of_pods_shows_its_policy_and_whether_it_has_a_place() -> None:
    group = {
        "metadata": {"name": "g", "creationTimestamp": CREATED},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]},
    }
    podgroups = SCHEME.by_resource("scheduling.k8s.io", "v1beta1", "podgroups")
    assert podgroups is not None
    row = tables.table(podgroups, [group], now=NOW)["rows"][0]
    assert row["cells"] == ["g", "Gang", "<none>", "Scheduled", "5m30s"]


@pytest.mark.parametrize("name", ["limitranges", "roles", "clusterroles", "customresourcedefinitions"])
def test_kinds_without_columns_of_their_own_show_when_they_were_created(name: str) -> None:
    table = tables.table(resource(name), [{"metadata": {"name": "x", "creationTimestamp": CREATED}}], now=NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["columnDefinitions"][1]["type"] == "date"
    assert table["rows"][0]["cells"] == ["x", CREATED]


def test_every_kind_prints_an_object_that_has_nothing_but_metadata() -> None:
    for one in SCHEME:
        table = tables.table(one, [BOOKMARK], now=NOW)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"]), one
        assert all(column["description"] for column in table["columnDefinitions"]), one


def test_a_table_carries_the_metadata_of_its_list_and_of_its_objects() -> None:
    obj = pod({"phase": "Running"})
    table = tables.table(resource("pods"), [obj], now=NOW, list_metadata={"resourceVersion": "12", "continue": "x"})
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "12", "continue": "x"}
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
def test_a_row_includes_what_was_asked_for(include: str, kind: str) -> None:
    table = tables.table(resource("pods"), [pod({})], now=NOW, include_object=include)
    assert table["rows"][0]["object"]["kind"] == kind


def test_a_row_may_come_without_its_object() -> None:
    table = tables.table(resource("pods"), [pod({})], now=NOW, include_object="None")
    assert table["rows"][0]["object"] is None


def test_an_unknown_include_object_value_is_a_bad_request() -> None:
    with pytest.raises(errors.BadRequest, match='unrecognized includeObject value: "Everything"'):
        tables.table(resource("pods"), [], now=NOW, include_object="Everything")


def test_later_events_of_a_watch_come_without_columns() -> None:
    table = tables.table(resource("pods"), [pod({})], now=NOW, with_columns=False)
    assert table["columnDefinitions"] is None
    assert table["rows"][0]["cells"][0] == "web-0"


def test_old_clients_get_the_version_that_they_ask_for() -> None:
    table = tables.table(resource("pods"), [pod({})], now=NOW, api_version=metadata.V1BETA1)
    assert table["apiVersion"] == table["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


WIDGETS = ResourceType(group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True)


def test_a_custom_kind_without_printer_columns_shows_its_age() -> None:
    table = tables.table(WIDGETS, [{"metadata": {"name": "w", "creationTimestamp": CREATED}}], now=NOW)
    assert [(column["name"], column["type"]) for column in table["columnDefinitions"]] == [
        ("Name", "string"),
        ("Age", "date"),
    ]
    assert table["rows"][0]["cells"] == ["w", "5m30s"]


def test_a_custom_kind_shows_the_printer_columns_of_its_definition() -> None:
    definitions: list[dict[str, Any]] = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How big."},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Broken", "type": "string", "jsonPath": ".spec[", "priority": 1},
    ]
    obj = {
        "metadata": {"name": "w"},
        "spec": {"size": 3},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    table = tables.table(WIDGETS, [obj], now=NOW, printer_columns=definitions)
    assert table["rows"][0]["cells"] == ["w", 3, "True", None]
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Size", 0),
        ("Ready", 0),
        ("Broken", 1),
    ]
    assert table["columnDefinitions"][1]["description"] == "How big."


def test_a_list_of_partial_metadata_keeps_the_metadata_of_the_list() -> None:
    found = metadata.partial_list([pod({})], list_metadata={"resourceVersion": "9"})
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["metadata"] == {"resourceVersion": "9"}
    assert found["items"] == [metadata.partial(pod({}))]
