import base64
from typing import Any

import pytest

from rota.testing.api import Answer, ApiServer

_HERE = "/api/v1/namespaces/default"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def _complaints(answer: Answer) -> list[tuple[str, str]]:
    assert answer.code == 422, answer
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


async def test_a_namespace_is_active_and_labelled_with_its_name(api: ApiServer) -> None:
    live = (await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})).json
    assert live["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert live["spec"] == {"finalizers": ["kubernetes"]}
    assert live["status"] == {"phase": "Active"}


async def test_a_node_registers_with_its_status(api: ApiServer) -> None:
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}
    live = (await api.post("/api/v1/nodes", node)).json
    assert live["status"]["allocatable"] == {"cpu": "4", "pods": "110"}
    changed = await api.patch(
        "/api/v1/nodes/n", {"status": {"capacity": {"cpu": "8"}}, "spec": {"unschedulable": True}}
    )
    assert changed.json["spec"]["unschedulable"] is True
    assert changed.json["status"]["capacity"]["cpu"] == "4"


async def test_taints_are_well_formed_and_unique(api: ApiServer) -> None:
    one = {"key": "a", "effect": "NoSchedule"}
    spec = {"taints": [one, one, {"key": "b", "effect": "Sometimes"}]}
    complaints = _complaints(await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": spec}))
    assert complaints[0][0] == "metadata.taints[1]"
    assert complaints[0][1].endswith("taints must be unique by key and effect pair")
    assert complaints[1] == (
        "metadata.taints[2].effect",
        'Unsupported value: "Sometimes": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
    )


async def test_a_node_keeps_the_provider_that_it_was_given(api: ApiServer) -> None:
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"providerID": "cloud://1"}})
    answer = await api.patch("/api/v1/nodes/n", {"spec": {"providerID": "cloud://2"}})
    assert _complaints(answer) == [
        ("spec.providerID", 'Forbidden: node updates may not change providerID except from "" to valid')
    ]


async def test_string_data_becomes_data(api: ApiServer) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    live = (await api.post(f"{_HERE}/secrets", secret)).json
    assert live["type"] == "Opaque"
    assert live["data"] == {"a": base64.b64encode(b"b").decode(), "c": "ZA=="}
    assert "stringData" not in live


async def test_a_secret_keeps_its_type_and_its_keys_are_names(api: ApiServer) -> None:
    await api.post(f"{_HERE}/secrets", {"metadata": {"name": "s"}})
    answer = await api.patch(f"{_HERE}/secrets/s", {"type": "other"})
    assert _complaints(answer) == [("type", 'Invalid value: "other": field is immutable')]
    answer = await api.post(f"{_HERE}/secrets", {"metadata": {"name": "t"}, "stringData": {"a b": "x"}})
    assert _complaints(answer)[0][0] == "data[a b]"
    tls = {"metadata": {"name": "u"}, "type": "kubernetes.io/tls"}
    assert _complaints(await api.post(f"{_HERE}/secrets", tls)) == [
        ("data[tls.crt]", "Required value"),
        ("data[tls.key]", "Required value"),
    ]
    broken = {"metadata": {"name": "v"}, "data": {"a": "not base64!"}}
    assert (await api.post(f"{_HERE}/secrets", broken)).code == 400


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_what_is_immutable_stays(api: ApiServer, plural: str) -> None:
    obj = {"metadata": {"name": "c"}, "data": {"a": "ZA=="}, "immutable": True}
    await api.post(f"{_HERE}/{plural}", obj)
    message = "Forbidden: field is immutable when `immutable` is set"
    assert _complaints(await api.patch(f"{_HERE}/{plural}/c", {"data": {"a": "Zg=="}})) == [("data", message)]
    assert _complaints(await api.patch(f"{_HERE}/{plural}/c", {"immutable": False})) == [("immutable", message)]


async def test_a_config_map_holds_a_mebibyte_at_most(api: ApiServer) -> None:
    large = {"metadata": {"name": "c"}, "data": {"a": "x" * (1024 * 1024 + 1)}}
    answer = await api.post(f"{_HERE}/configmaps", large)
    assert _complaints(answer)[0][1] == "Too long: may not be more than 1048576 bytes"


async def test_a_service_gets_defaults_and_an_address(api: ApiServer) -> None:
    live = (await api.post(f"{_HERE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).json
    assert live["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (live["spec"]["type"], live["spec"]["sessionAffinity"]) == ("ClusterIP", "None")
    assert live["spec"]["clusterIPs"] == [live["spec"]["clusterIP"]]
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None"}}
    assert (await api.post(f"{_HERE}/services", headless)).json["spec"]["clusterIPs"] == ["None"]


async def test_a_service_that_is_wrong_is_refused(api: ApiServer) -> None:
    empty = {"metadata": {"name": "s"}, "spec": {}}
    assert _complaints(await api.post(f"{_HERE}/services", empty)) == [("spec.ports", "Required value")]
    two = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}
    assert ("spec.ports[0].name", "Required value") in _complaints(await api.post(f"{_HERE}/services", two))
    fixed = {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.0.101", "ports": [{"port": 80}]}}
    await api.post(f"{_HERE}/services", fixed)
    answer = await api.patch(
        f"{_HERE}/services/s", {"spec": {"clusterIP": "10.96.0.102", "clusterIPs": ["10.96.0.102"]}}
    )
    assert ("spec.clusterIPs[0]", 'Invalid value: "10.96.0.102": may not change once set') in _complaints(answer)


async def test_a_budget_has_one_bound(api: ApiServer) -> None:
    both = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": "50%"}}
    complaints = _complaints(await api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", both))
    assert complaints[0][1].endswith("minAvailable and maxUnavailable cannot be both set")
    much = {"metadata": {"name": "b"}, "spec": {"minAvailable": "101%"}}
    complaints = _complaints(await api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", much))
    assert complaints == [("spec.minAvailable", 'Invalid value: "101%": must not be greater than 100%')]


async def test_a_priority_class_keeps_its_value_and_leaves_the_top_to_the_system(api: ApiServer) -> None:
    live = (await api.post(_CLASSES, {"metadata": {"name": "c"}, "value": 1})).json
    assert live["preemptionPolicy"] == "PreemptLowerPriority"
    assert _complaints(await api.patch(f"{_CLASSES}/c", {"value": 2})) == [
        ("value", "Forbidden: may not be changed in an update.")
    ]
    high = {"metadata": {"name": "d"}, "value": 2_000_000_000}
    assert _complaints(await api.post(_CLASSES, high)) == [
        ("value", "Forbidden: maximum allowed value of a user defined priority is 1000000000")
    ]
    assert (
        _complaints(await api.post(_CLASSES, {"metadata": {"name": "system-x"}, "value": 1}))[0][0] == "metadata.name"
    )


async def test_a_claim_asks_for_something_and_sticks_to_it(api: ApiServer) -> None:
    claims = f"{_HERE}/persistentvolumeclaims"
    assert _complaints(await api.post(claims, {"metadata": {"name": "c"}, "spec": {}})) == [
        ("spec.accessModes", "Required value: at least 1 access mode is required"),
        ("spec.resources[storage]", "Required value"),
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    live = (await api.post(claims, {"metadata": {"name": "c"}, "spec": spec})).json
    assert (live["spec"]["volumeMode"], live["status"]) == ("Filesystem", {"phase": "Pending"})
    assert (await api.patch(f"{claims}/c", {"spec": {"volumeName": "v"}})).code == 200
    answer = await api.patch(f"{claims}/c", {"spec": {"volumeName": "w"}})
    assert _complaints(answer) == [
        (
            "spec",
            "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
            "for bound claims",
        )
    ]


async def test_a_volume_has_one_source_and_keeps_it(api: ApiServer) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    live = (await api.post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec})).json
    assert live["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    answer = await api.patch("/api/v1/persistentvolumes/v", {"spec": {"hostPath": {"path": "/y"}}})
    why = "Forbidden: spec.persistentvolumesource is immutable after creation"
    assert _complaints(answer) == [("spec.persistentvolumesource", why)]
    none = {"metadata": {"name": "w"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}}
    assert ("spec", "Required value: must specify a volume type") in _complaints(
        await api.post("/api/v1/persistentvolumes", none)
    )


async def test_a_storage_class_keeps_what_volumes_were_made_by(api: ApiServer) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    live = (await api.post(classes, {"metadata": {"name": "s"}, "provisioner": "example.com/p"})).json
    assert (live["reclaimPolicy"], live["volumeBindingMode"]) == ("Delete", "Immediate")
    assert _complaints(await api.patch(f"{classes}/s", {"provisioner": "example.com/q"})) == [
        ("provisioner", 'Invalid value: "example.com/q": field is immutable')
    ]


async def test_a_binding_keeps_to_its_role(api: ApiServer) -> None:
    path = f"{_RBAC}/namespaces/default/rolebindings"
    subject = {"kind": "User", "name": "u"}
    body: dict[str, Any] = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [subject],
    }
    live = (await api.post(path, body)).json
    assert live["roleRef"]["apiGroup"] == live["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    complaints = _complaints(await api.patch(f"{path}/b", {"roleRef": {"name": "q"}}))
    assert complaints[0][1].endswith("cannot change roleRef")


async def test_a_rule_without_verbs_says_nothing(api: ApiServer) -> None:
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]}
    answer = await api.post(f"{_RBAC}/clusterroles", role)
    assert ("rules[0].verbs", "Required value: verbs must contain at least one value") in _complaints(answer)


async def test_a_lease_lasts(api: ApiServer) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    answer = await api.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease)
    assert _complaints(answer) == [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")]


async def test_an_event_lies_where_that_is_which_it_is_about(api: ApiServer) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}}
    answer = await api.post(f"{_HERE}/events", event)
    assert _complaints(answer) == [
        ("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')
    ]


async def test_a_limit_range_has_bounds_in_order(api: ApiServer) -> None:
    item = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}
    answer = await api.post(f"{_HERE}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    assert ("spec.limits[0].min[cpu]", 'Invalid value: "2": min value 2 is greater than max value 1') in _complaints(
        answer
    )
    negative = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "-1"}}}
    assert _complaints(await api.post(f"{_HERE}/resourcequotas", negative))[0][0] == "spec.hard[pods]"
