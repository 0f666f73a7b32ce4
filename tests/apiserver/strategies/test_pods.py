from typing import Any

import pytest

from rota.testing.api import Answer, ApiServer

_PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec}}


def _with(**container: Any) -> dict[str, Any]:
    return _pod(containers=[{"name": "c", "image": "nginx", **container}])


def _complaints(answer: Answer) -> list[tuple[str, str]]:
    assert answer.code == 422, answer
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


async def test_a_pod_gets_upstreams_defaults(api: ApiServer) -> None:
    pod = (await api.post(_PODS, _with(ports=[{"containerPort": 80}]))).json
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert container["imagePullPolicy"] == "Always"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"] == {}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert pod["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("example.com:5000/nginx", "Always"),
        ("nginx@sha256:0123", "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_from_the_tag(api: ApiServer, image: str, policy: str) -> None:
    pod = await api.post(_PODS, _with(image=image))
    assert pod.json["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_probes_and_volumes_get_their_defaults(api: ApiServer) -> None:
    body = _with(livenessProbe={"httpGet": {"port": 80}}, volumeMounts=[{"name": "s", "mountPath": "/s"}])
    body["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": "x"}}, {"name": "e"}]
    spec = (await api.post(_PODS, body)).json["spec"]
    assert spec["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert spec["volumes"] == [
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
        {"name": "e", "emptyDir": {}},
    ]


async def test_requests_follow_from_limits(api: ApiServer) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    pod = (await api.post(_PODS, _with(resources={"limits": limits}))).json
    assert pod["spec"]["containers"][0]["resources"]["requests"] == limits
    assert pod["status"]["qosClass"] == "Guaranteed"
    burstable = await api.post(_PODS, {**_with(resources={"requests": {"cpu": "1"}}), "metadata": {"name": "b"}})
    assert burstable.json["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("pod", "field", "message"),
    [
        (_pod(containers=[]), "spec.containers", "Required value"),
        (_with(image=""), "spec.containers[0].image", "Required value"),
        (
            _with(image=" x"),
            "spec.containers[0].image",
            'Invalid value: " x": must not have leading or trailing whitespace',
        ),
        (
            _with(ports=[{"containerPort": 70000}]),
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            _with(ports=[{"containerPort": 80, "protocol": "HTTP"}]),
            "spec.containers[0].ports[0].protocol",
            'Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
        ),
        (
            _with(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            "spec.containers[0].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            _with(resources={"requests": {"memory": "-1"}}),
            "spec.containers[0].resources.requests[memory]",
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            _with(resources={"requests": {"example.com/gpu": "1"}}),
            "spec.containers[0].resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
        (
            _with(volumeMounts=[{"name": "nope", "mountPath": "/x"}]),
            "spec.containers[0].volumeMounts[0].name",
            'Not found: "nope"',
        ),
        (_with(env=[{"value": "x"}]), "spec.containers[0].env[0].name", "Required value"),
        (
            _with(readinessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
            "spec.containers[0].readinessProbe.tcpSocket",
            "Forbidden: may not specify more than 1 handler type",
        ),
        (
            _with(livenessProbe={"periodSeconds": 1}),
            "spec.containers[0].livenessProbe",
            "Required value: must specify a handler type",
        ),
        (
            _pod(restartPolicy="Sometimes"),
            "spec.restartPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            _pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            "spec.volumes[0].hostPath",
            "Forbidden: may not specify more than 1 volume type",
        ),
        (
            _pod(tolerations=[{"operator": "Equal"}]),
            "spec.tolerations[0].operator",
            'Invalid value: "Equal": operator must be Exists when `key` is empty, which means '
            '"match all values and all keys"',
        ),
        (
            _pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "Never"}]),
            "spec.tolerations[0].effect",
            'Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        (
            _pod(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
            "spec.topologySpreadConstraints[0].maxSkew",
            "Invalid value: 0: must be greater than 0",
        ),
        (
            _pod(
                affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
            ),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "Required value: must have at least one node selector term",
        ),
        (
            _pod(
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}
            ),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "Required value: can not be empty",
        ),
        (
            _pod(activeDeadlineSeconds=0),
            "spec.activeDeadlineSeconds",
            "Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
    ],
)
async def test_a_pod_that_is_wrong_is_refused_in_upstreams_words(
    api: ApiServer, pod: dict[str, Any], field: str, message: str
) -> None:
    assert (field, message) in _complaints(await api.post(_PODS, pod))


async def test_containers_of_one_pod_have_names_of_their_own(api: ApiServer) -> None:
    twice = [{"name": "c", "image": "x"}, {"name": "c", "image": "y"}]
    assert _complaints(await api.post(_PODS, _pod(containers=twice))) == [
        ("spec.containers[1].name", 'Duplicate value: "c"')
    ]


async def test_the_image_of_a_running_pod_may_change_and_little_else(api: ApiServer) -> None:
    await api.post(_PODS, _pod())
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:1.27"}]
    changed = await api.patch(f"{_PODS}/p", image, kind="json")
    assert changed.json["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert changed.json["metadata"]["generation"] == 2
    answer = await api.patch(f"{_PODS}/p", {"spec": {"restartPolicy": "Never"}})
    assert answer.code == 422
    assert answer.json["message"].startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than '
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
    )
    more = await api.patch(f"{_PODS}/p", {"spec": {"containers": [{"name": "d", "image": "x"}]}}, kind="strategic")
    assert ("spec.containers", "Forbidden: pod updates may not add or remove containers") in _complaints(more)


async def test_a_node_cannot_be_given_by_an_update(api: ApiServer) -> None:
    await api.post(_PODS, _pod())
    assert (await api.patch(f"{_PODS}/p", {"spec": {"nodeName": "n1"}})).code == 422
    await api.patch(f"{_PODS}/p/status", {"spec": {"nodeName": "n1"}})
    assert "nodeName" not in (await api.get(f"{_PODS}/p")).json["spec"]


async def test_tolerations_can_be_added_and_not_taken(api: ApiServer) -> None:
    one = {"key": "a", "operator": "Exists"}
    await api.post(_PODS, _pod(tolerations=[one]))
    live = (await api.get(f"{_PODS}/p")).json["spec"]["tolerations"]
    more = {"spec": {"tolerations": [*live, {"key": "b", "operator": "Exists"}]}}
    assert (await api.patch(f"{_PODS}/p", more)).code == 200
    assert _complaints(await api.patch(f"{_PODS}/p", {"spec": {"tolerations": live[1:]}})) == [
        ("spec.tolerations", "Forbidden: existing toleration can not be modified except its tolerationSeconds")
    ]


async def test_scheduling_gates_can_be_taken_off_and_not_put_on(api: ApiServer) -> None:
    pod = (await api.post(_PODS, _pod(schedulingGates=[{"name": "a"}, {"name": "b"}]))).json
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert (await api.patch(f"{_PODS}/p", {"spec": {"schedulingGates": [{"name": "a"}]}})).code == 200
    assert (await api.patch(f"{_PODS}/p", {"spec": {"nodeSelector": {"x": "y"}}})).code == 200
    assert _complaints(await api.patch(f"{_PODS}/p", {"spec": {"schedulingGates": [{"name": "c"}]}})) == [
        (
            "spec.schedulingGates[0].name",
            "Forbidden: only deletion is allowed, but found new scheduling gate 'c'",
        )
    ]


async def test_a_finished_pod_stays_finished(api: ApiServer) -> None:
    await api.post(_PODS, _pod())
    assert (await api.patch(f"{_PODS}/p/status", {"status": {"phase": "Succeeded"}})).code == 200
    answer = await api.patch(f"{_PODS}/p/status", {"status": {"phase": "Running"}})
    assert _complaints(answer) == [("status.phase", "Forbidden: a pod that has finished (Succeeded) stays finished")]


async def test_the_class_of_service_is_decided_once(api: ApiServer) -> None:
    await api.post(_PODS, _pod())
    answer = await api.patch(f"{_PODS}/p/status", {"status": {"qosClass": "Guaranteed"}})
    assert _complaints(answer) == [("status.qosClass", 'Invalid value: "Guaranteed": field is immutable')]


@pytest.mark.parametrize(
    "status",
    [
        {"podIP": "10.0.0.1"},
        {"podIPs": [{"ip": "10.0.0.1"}]},
        {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.9.9.9"}]},
    ],
)
async def test_a_pods_address_and_its_addresses_agree(api: ApiServer, status: dict[str, Any]) -> None:
    await api.post(_PODS, _pod())
    told = (await api.patch(f"{_PODS}/p/status", {"status": status})).json["status"]
    assert (told["podIP"], told["podIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}])
