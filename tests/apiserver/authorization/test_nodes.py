"""The node authorizer: a node's access to its own objects, its pods, and what these reference."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.authorization.nodes import references
from rota.apiserver.authorization.nodes.references import Reference
from rota.apiserver.authorization.nodes.relations import Relations
from rota.pki import keys, signing_requests
from rota.pki.certificates import Subject
from rota.testing.api import Answer, ApiServer

_PODS = "/api/v1/namespaces/default/pods"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_MIRROR = {"kubernetes.io/config.mirror": "hash"}


def _refused(answer: Answer) -> str:
    assert answer.code == 403, answer
    return str(answer.json["message"])


def _pod(name: str, node: str = "", **spec: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"containers": [{"name": "c", "image": "x"}], **spec}
    return {"metadata": {"name": name}, "spec": content | ({"nodeName": node} if node else {})}


async def _made(api: ApiServer, path: str, content: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(path, content)
    assert answer.code == 201, answer
    made: dict[str, Any] = answer.json
    return made


async def _node(api: ApiServer, name: str) -> ApiServer:
    await _made(
        api,
        "/api/v1/nodes",
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}}},
    )
    return api.acting_as(f"system:node:{name}", "system:nodes")


async def test_a_node_publishes_its_own_forecast_only(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    forecasts = "/apis/rota.dev/v1alpha1/nodeforecasts"
    await _made(one, forecasts, {"metadata": {"name": "one"}})
    status = {"status": {"observedTime": "2026-01-01T00:00:00Z", "source": "Worker"}}
    assert (await one.patch(f"{forecasts}/one/status", status)).code == 200
    assert (await one.get(f"{forecasts}/one")).json["status"]["source"] == "Worker"
    own = "can only access NodeForecast with the same name as the requesting node"
    assert _refused(await two.post(forecasts, {"metadata": {"name": "three"}})).endswith(own)
    assert _refused(await two.patch(f"{forecasts}/one/status", status)).endswith(own)
    _refused(await two.get(forecasts))
    _refused(await one.delete(f"{forecasts}/one"))


async def test_a_node_gets_runs_of_pipelines_whose_shared_folder_it_has(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    runs = "/apis/rota.dev/v1alpha1/namespaces/default/pipelineruns"
    run = await _made(api, runs, {"metadata": {"name": "r"}, "spec": {"pipeline": "p"}})
    _refused(await one.get(f"{runs}/r"))
    run["status"] = {"phase": "Running", "workspaceNode": "one"}
    assert (await api.put(f"{runs}/r/status", run)).code == 200
    assert (await one.get(f"{runs}/r")).code == 200
    _refused(await two.get(f"{runs}/r"))
    assert _refused(await one.get(runs)).endswith(": can only get individual resources of this type")
    _refused(await one.delete(f"{runs}/r"))
    assert (await api.delete(f"{runs}/r")).code == 200
    assert (await one.get(f"{runs}/r")).code in {403, 404}  # who is in the know says no, who is not looks


async def test_a_node_reads_what_its_pods_reference_and_nothing_else(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    here = "/api/v1/namespaces/default"
    for kind in ("secrets", "configmaps"):
        for name in ("wanted", "other"):
            await _made(api, f"{here}/{kind}", {"metadata": {"name": name}})
    sources = [{"secretRef": {"name": "wanted"}}, {"configMapRef": {"name": "wanted"}}]
    await _made(api, _PODS, _pod("p", "one", containers=[{"name": "c", "image": "x", "envFrom": sources}]))
    for kind in ("secrets", "configmaps"):
        assert (await one.get(f"{here}/{kind}/wanted")).code == 200
        assert (await one.get(f"{here}/{kind}", fieldSelector="metadata.name=wanted")).code == 200
        assert _refused(await one.get(f"{here}/{kind}/other")).endswith(
            ": no relationship found between node 'one' and this object"
        )
        assert _refused(await one.get(f"{here}/{kind}")).endswith(": No Object name found")
        _refused(await two.get(f"{here}/{kind}/wanted"))
        assert _refused(await one.delete(f"{here}/{kind}/wanted")).endswith(": can only read resources of this type")
    assert (await api.delete(f"{_PODS}/p", gracePeriodSeconds=0)).code == 200
    _refused(await one.get(f"{here}/secrets/other"))  # makes the server catch up
    _refused(await one.get(f"{here}/secrets/wanted"))


async def test_a_node_reads_itself_and_its_pods(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    await _made(api, _PODS, _pod("p", "one"))
    assert (await one.get("/api/v1/nodes/one")).code == 200
    assert (await one.get("/api/v1/nodes", fieldSelector="metadata.name=one")).code == 200
    assert _refused(await one.get("/api/v1/nodes/two")).endswith("cannot read 'two', only its own Node object")
    assert _refused(await one.get("/api/v1/nodes")).endswith("cannot read all nodes, only its own Node object")
    assert (await one.get(f"{_PODS}/p")).code == 200
    assert (await one.get("/api/v1/pods", fieldSelector="spec.nodeName=one")).code == 200
    _refused(await two.get(f"{_PODS}/p"))
    _refused(await two.get("/api/v1/pods", fieldSelector="spec.nodeName=one"))
    assert _refused(await one.get("/api/v1/pods")).endswith(
        "can only list/watch pods with spec.nodeName field selector"
    )
    assert (await one.get("/api/v1/services")).code == 200


async def test_a_node_tells_about_its_own_pods_only(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    await _made(api, _PODS, _pod("p", "one"))
    running = {"status": {"phase": "Running"}}
    assert (await one.patch(f"{_PODS}/p/status", running)).code == 200
    assert _refused(await two.patch(f"{_PODS}/p/status", running)) == (
        'pods "p" is forbidden: node "two" can only update pod status for pods with spec.nodeName set to itself'
    )
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert "cannot update labels through pod status" in _refused(await one.patch(f"{_PODS}/p/status", labelled))
    claims = {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "y"}]}}
    assert "cannot update resource claim statues" in _refused(await one.patch(f"{_PODS}/p/status", claims))
    assert " cannot patch resource" in _refused(await one.patch(f"{_PODS}/p", labelled))
    evict = {"metadata": {"name": "p"}}
    assert "can only evict pods with spec.nodeName set to itself" in _refused(
        await two.post(f"{_PODS}/p/eviction", evict)
    )
    assert "can only delete pods with spec.nodeName set to itself" in _refused(await two.delete(f"{_PODS}/p"))
    assert (await one.post(f"{_PODS}/p/eviction", evict)).code == 201
    assert (await one.delete(f"{_PODS}/p", gracePeriodSeconds=0)).code == 200
    _refused(await one.delete(_PODS))


def _mirror(owner: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pod = _pod("m", "one", **spec)
    reference = {
        "apiVersion": "v1", "kind": "Node", "name": "one", "uid": owner["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    pod["metadata"] |= {"annotations": _MIRROR, "ownerReferences": [reference]}
    return pod


def _without_annotation(pod: dict[str, Any]) -> None:
    del pod["metadata"]["annotations"]


def _elsewhere(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "two"


def _unowned(pod: dict[str, Any]) -> None:
    del pod["metadata"]["ownerReferences"]


def _blocking(pod: dict[str, Any]) -> None:
    pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True


def _foreign_uid(pod: dict[str, Any]) -> None:
    pod["metadata"]["ownerReferences"][0]["uid"] = "other"


def _with_secret(pod: dict[str, Any]) -> None:
    pod["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]


def _with_account(pod: dict[str, Any]) -> None:
    pod["spec"]["serviceAccountName"] = "default"


def _with_claim(pod: dict[str, Any]) -> None:
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_without_annotation, 'pod does not have "kubernetes.io/config.mirror" annotation'),
        (_elsewhere, 'node "one" can only create pods with spec.nodeName set to itself'),
        (_unowned, 'node "one" can only create pods with an owner reference set to itself'),
        (_blocking, 'node "one" must not set blockOwnerDeletion on an owner reference'),
        (_foreign_uid, "node one UID mismatch: expected other got "),
        (_with_secret, 'node "one" can not create pods that reference secrets'),
        (_with_account, 'node "one" can not create pods that reference a service account'),
        (_with_claim, 'node "one" can not create pods that reference persistentvolumeclaims'),
    ],
)
async def test_a_node_creates_mirror_pods_and_no_others(
    api: ApiServer, spoil: Callable[[dict[str, Any]], None], why: str
) -> None:
    one = await _node(api, "one")
    owner = (await one.get("/api/v1/nodes/one")).json
    assert (await one.post(_PODS, _mirror(owner))).code == 201
    assert (await one.delete(f"{_PODS}/m", gracePeriodSeconds=0)).code == 200
    pod = _mirror(owner)
    spoil(pod)
    assert why in _refused(await one.post(_PODS, pod))


async def test_a_mirror_pod_gives_its_node_no_secrets(api: ApiServer) -> None:
    one = await _node(api, "one")
    owner = (await one.get("/api/v1/nodes/one")).json
    await _made(api, "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    # made by an administrator; a node would be refused
    await _made(api, _PODS, _mirror(owner, volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
    assert (await one.get(f"{_PODS}/m")).code == 200
    _refused(await one.get("/api/v1/namespaces/default/secrets/s"))


async def test_a_node_has_one_lease(api: ApiServer) -> None:
    one = await _node(api, "one")
    lease = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "one"}}
    assert (await one.post(_LEASES, lease)).code == 201
    assert (await one.patch(f"{_LEASES}/one", {"spec": {"leaseTransitions": 1}})).code == 200
    assert "node lease with the same name" in _refused(await one.post(_LEASES, {"metadata": {"name": "two"}}))
    assert "node lease with the same name" in _refused(await one.get(f"{_LEASES}/two"))
    elsewhere = _LEASES.replace("kube-node-lease", "kube-system")
    assert 'can only access leases in the "kube-node-lease" system namespace' in _refused(
        await one.post(elsewhere, lease)
    )
    _refused(await one.get(_LEASES))


async def test_a_node_registers_itself_and_changes_no_other(api: ApiServer) -> None:
    two = await _node(api, "two")
    one = api.acting_as("system:node:one", "system:nodes")
    assert _refused(await one.post("/api/v1/nodes", {"metadata": {"name": "three"}})) == (
        'nodes "three" is forbidden: node "one" is not allowed to modify node "three"'
    )
    assert (await one.post("/api/v1/nodes", {"metadata": {"name": "one"}})).code == 201
    assert 'not allowed to modify node "two"' in _refused(await one.patch("/api/v1/nodes/two/status", {"status": {}}))
    assert (await one.patch("/api/v1/nodes/one/status", {"status": {"phase": "Running"}})).code == 200
    assert (await one.patch("/api/v1/nodes/one", {"metadata": {"annotations": {"a": "b"}}})).code == 200
    taints = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    assert 'node "one" is not allowed to modify taints' in _refused(await one.patch("/api/v1/nodes/one", taints))
    owner = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}}
    assert "is not allowed to modify ownerReferences" in _refused(await one.patch("/api/v1/nodes/one", owner))
    _refused(await one.delete("/api/v1/nodes/one"))
    _refused(await two.delete("/api/v1/nodes/one"))


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("example.com/rack", True),
        ("rack", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("sub.kubelet.kubernetes.io/anything", True),
        ("node-restriction.kubernetes.io/secure", False),
        ("fips.node-restriction.kubernetes.io/secure", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("kubernetes.io/other", False),
        ("foo.k8s.io/other", False),
    ],
)
async def test_a_node_sets_no_label_that_would_lure_pods(api: ApiServer, label: str, allowed: bool) -> None:
    one = api.acting_as("system:node:one", "system:nodes")
    answer = await one.post("/api/v1/nodes", {"metadata": {"name": "one", "labels": {label: "x"}}})
    if allowed:
        assert answer.code == 201, answer
        return
    assert _refused(answer).endswith(f'node "one" is not allowed to set the following labels: {label}')
    assert (await api.post("/api/v1/nodes", {"metadata": {"name": "one", "labels": {label: "x"}}})).code == 201
    changed = await one.patch("/api/v1/nodes/one", {"metadata": {"labels": {label: None}}})
    assert _refused(changed).endswith(f"is not allowed to modify labels: {label}")


async def test_a_node_asks_for_tokens_of_its_own_pods_only(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    account = "/api/v1/namespaces/default/serviceaccounts"
    await _made(api, account, {"metadata": {"name": "robot"}})
    token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}
    pod = await _made(api, _PODS, _pod("p", "one", serviceAccountName="robot", volumes=[token]))

    def request(uid: str = pod["metadata"]["uid"], **spec: Any) -> dict[str, Any]:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        return {"spec": {"audiences": ["vault"], "boundObjectRef": bound, **spec}}

    path = f"{account}/robot/token"
    assert "no relationship found between node 'two'" in _refused(await two.post(path, request()))
    assert "node requested token not bound to a pod" in _refused(await one.post(path, request(boundObjectRef=None)))
    assert "does not match the UID in record" in _refused(await one.post(path, request(uid="other")))
    assert 'audience "elsewhere" not found in pod spec volume' in _refused(
        await one.post(path, request(audiences=["elsewhere"]))
    )
    assert "node may only request 0 or 1 audiences" in _refused(
        await one.post(path, request(audiences=["vault", "elsewhere"]))
    )
    there = await _made(api, _PODS, _pod("q", "two", serviceAccountName="robot", volumes=[token]))
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": there["metadata"]["uid"]}
    assert "bound to a pod scheduled on a different node" in _refused(
        await one.post(path, request(boundObjectRef=bound))
    )
    assert (await one.post(path, request())).code != 403
    await _made(api, account, {"metadata": {"name": "other"}})
    _refused(await one.post(f"{account}/other/token", request()))


async def test_a_node_asks_for_certificates_in_its_own_name_only(api: ApiServer) -> None:
    one = await _node(api, "one")
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

    def asking(name: str) -> dict[str, Any]:
        pem = signing_requests.make(keys.generate(), Subject(common_name=name, organizations=("system:nodes",)))
        spec = {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        }
        return {"metadata": {"generateName": "csr-"}, "spec": spec}

    assert "can only create a node CSR with CN=system:node:one" in _refused(
        await one.post(path, asking("system:node:two"))
    )
    assert (await one.post(path, asking("system:node:one"))).code == 201


async def test_a_node_that_does_not_say_which_gets_nothing(api: ApiServer) -> None:
    nobody = api.acting_as("system:node:", "system:nodes")
    assert _refused(await nobody.get("/api/v1/services")).endswith(': unknown node for user "system:node:"')
    for name, groups in (("worker", ["system:nodes"]), ("system:node:one", [])):
        assert _refused(await api.acting_as(name, *groups).get("/api/v1/services")).endswith("at the cluster scope")


async def test_a_volumes_secrets_are_its_claims_nodes_to_read(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    here = "/api/v1/namespaces/default"
    await _made(api, "/api/v1/namespaces", {"metadata": {"name": "storage"}})
    await _made(api, "/api/v1/namespaces/storage/secrets", {"metadata": {"name": "stage"}})
    await _made(api, "/api/v1/namespaces/storage/secrets", {"metadata": {"name": "publish"}})
    source = {
        "driver": "d",
        "volumeHandle": "h",
        "nodeStageSecretRef": {"name": "stage", "namespace": "storage"},
        "controllerPublishSecretRef": {"name": "publish", "namespace": "storage"},
    }
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": source,
        "claimRef": {"namespace": "default", "name": "claim"},
    }
    await _made(api, "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v"}
    await _made(api, f"{here}/persistentvolumeclaims", {"metadata": {"name": "claim"}, "spec": claim})
    mount = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    await _made(api, _PODS, _pod("p", "one", volumes=mount))
    secrets = "/api/v1/namespaces/storage/secrets"
    for path in ("/api/v1/persistentvolumes/v", f"{here}/persistentvolumeclaims/claim", f"{secrets}/stage"):
        assert (await one.get(path)).code == 200, path
        _refused(await two.get(path))
    _refused(await one.get(f"{secrets}/publish"))
    status = f"{here}/persistentvolumeclaims/claim/status"
    assert (await one.patch(status, {"status": {"capacity": {"storage": "2Gi"}}})).code == 200
    assert "fields other than status.quantity and status.conditions" in _refused(
        await one.patch(status, {"status": {"phase": "Lost"}})
    )
    assert "fields other than" in _refused(await one.patch(status, {"metadata": {"labels": {"a": "b"}}}))
    _refused(await two.patch(status, {"status": {"capacity": {"storage": "3Gi"}}}))


async def test_a_node_publishes_its_own_devices_only(api: ApiServer) -> None:
    one, two = await _node(api, "one"), await _node(api, "two")
    path = "/apis/resource.k8s.io/v1/resourceslices"

    def devices(node: str) -> dict[str, Any]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {
            "metadata": {"name": f"{node}-gpus"},
            "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool},
        }

    assert "can only create ResourceSlice with the same NodeName" in _refused(await one.post(path, devices("two")))
    assert (await one.post(path, devices("one"))).code == 201
    assert (await one.get(f"{path}/one-gpus")).code == 200
    assert (await one.get(path, fieldSelector="spec.nodeName=one")).code == 200
    for refused in (two.get(f"{path}/one-gpus"), two.delete(f"{path}/one-gpus"), one.get(path)):
        _refused(await refused)
    _refused(await two.get(path, fieldSelector="spec.nodeName=one"))
    assert (await one.delete(f"{path}/one-gpus")).code == 200


def test_references_are_found_wherever_a_pod_may_have_them() -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "serviceAccountName": "account",
            "imagePullSecrets": [{"name": "s1"}, {}],
            "initContainers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}}]}],
            "containers": [
                {"envFrom": [{"secretRef": {"name": "s3"}}, {"configMapRef": {"name": "m1"}}]},
                {"env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m2"}}}, {"name": "C", "value": "x"}]},
            ],
            "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s4"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "s5"}},
                {"name": "b", "configMap": {"name": "m3"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "s6"}}, {"configMap": {"name": "m4"}}]}},
                {"name": "d", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s7"}}},
                {"name": "e", "rbd": {"secretRef": {"name": "s8"}}},
                {"name": "f", "azureFile": {"secretName": "s9"}},
                {"name": "g", "persistentVolumeClaim": {"claimName": "c1"}},
                {"name": "h", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "i", "emptyDir": {}},
            ],
            "resourceClaims": [
                {"name": "x", "resourceClaimName": "d1"},
                {"name": "y", "resourceClaimTemplateName": "t"},
            ],
        },
        "status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "d2"}]},
    }
    found: dict[str, set[str]] = {}
    for one in references.of_pod(pod):
        assert one.namespace == "n"
        found.setdefault(one.resource, set()).add(one.name)
    assert found == {
        "serviceaccounts": {"account"},
        "secrets": {f"s{number}" for number in range(1, 10)},
        "configmaps": {f"m{number}" for number in range(1, 5)},
        "persistentvolumeclaims": {"c1", "p-h"},
        "resourceclaims": {"d1", "d2"},
    }


_REFERENCES = [
    Reference("secrets", "n", "a"),
    Reference("secrets", "n", "b"),
    Reference("persistentvolumeclaims", "n", "c"),
]
_placed = st.tuples(
    st.just("pod"),
    st.sampled_from(["p", "q"]),
    st.sampled_from(["", "one", "two"]),
    st.frozensets(st.sampled_from(_REFERENCES)),
)
_bound = st.tuples(
    st.just("volume"),
    st.sampled_from(["v", "w"]),
    st.sampled_from([None, _REFERENCES[2]]),
    st.frozensets(st.sampled_from(_REFERENCES[:2])),
)


@given(st.lists(st.one_of(_placed, _bound), max_size=12))
def test_relations_are_what_the_pods_and_volumes_of_now_say(steps: list[Any]) -> None:
    relations = Relations()
    pods: dict[str, tuple[str, frozenset[Reference]]] = {}
    volumes: dict[str, tuple[Reference | None, frozenset[Reference]]] = {}
    for kind, name, about, needs in steps:
        if kind == "pod":
            relations.put_pod("n", name, about, needs)
            pods[name] = (about, needs)
        else:
            relations.put_volume(name, about, needs)
            volumes[name] = (about, needs)
    for node in ("one", "two"):
        needed = {reference for on, references_ in pods.values() if on == node for reference in references_}
        reached = {name for name, (claim, _) in volumes.items() if claim in needed}
        needed |= {secret for name in reached for secret in volumes[name][1]}
        for reference in _REFERENCES:
            assert relations.related(node, *reference) is (reference in needed)
        for name in ("v", "w"):
            assert relations.related(node, "persistentvolumes", "", name) is (name in reached)
        for name in ("p", "q"):
            assert relations.related(node, "pods", "n", name) is (pods.get(name, ("",))[0] == node)
