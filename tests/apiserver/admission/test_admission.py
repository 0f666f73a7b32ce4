import asyncio
from typing import Any

import pytest

from rota.testing.api import Answer, ApiServer

_PODS = "/api/v1/namespaces/default/pods"


def _pod(name: str = "p", resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "x", **({"resources": resources} if resources else {})}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def _message(answer: Answer, code: int) -> str:
    assert answer.code == code, answer
    return str(answer.json["message"])


async def test_nothing_is_made_in_a_namespace_that_does_not_exist(api: ApiServer) -> None:
    answer = await api.post("/api/v1/namespaces/nowhere/pods", _pod())
    assert _message(answer, 404) == 'namespaces "nowhere" not found'
    assert answer.json["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_nothing_is_made_in_a_namespace_that_terminates(api: ApiServer) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})
    await api.delete("/api/v1/namespaces/going")
    answer = await api.post("/api/v1/namespaces/going/configmaps", {"metadata": {"name": "c"}})
    assert _message(answer, 403) == (
        'configmaps "c" is forbidden: unable to create new content in namespace going because it is being terminated'
    )
    assert answer.json["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace going is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_the_systems_namespaces_exist_and_stay(api: ApiServer, name: str) -> None:
    answer = await api.delete(f"/api/v1/namespaces/{name}")
    assert _message(answer, 403) == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert (await api.get(f"/api/v1/namespaces/{name}")).json["status"]["phase"] == "Active"


async def test_a_pod_gets_the_priority_of_its_class(api: ApiServer) -> None:
    klass = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    assert (await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", klass)).code == 201
    spec = (await api.post(_PODS, _pod(priorityClassName="high"))).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    spec = (await api.post(_PODS, _pod("q", priorityClassName="system-node-critical"))).json["spec"]
    assert spec["priority"] == 2_000_001_000
    spec = (await api.post(_PODS, _pod("r"))).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


async def test_a_priority_that_no_class_gives_is_forbidden(api: ApiServer) -> None:
    assert _message(await api.post(_PODS, _pod(priorityClassName="none")), 403) == (
        'pods "p" is forbidden: no PriorityClass with name none was found'
    )
    assert _message(await api.post(_PODS, _pod(priority=7)), 403) == (
        'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; '
        "priority admission controller computed 0 from the given PriorityClass name"
    )


async def test_one_class_at_most_is_the_default_and_pods_without_a_class_have_it(api: ApiServer) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.post(classes, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    second = await api.post(classes, {"metadata": {"name": "other"}, "value": 6, "globalDefault": True})
    assert _message(second, 403) == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. '
        "Only one default can exist"
    )
    spec = (await api.post(_PODS, _pod())).json["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (5, "usual")


async def test_a_pod_stays_five_minutes_on_a_node_that_is_lost(api: ApiServer) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
    spec = (await api.post(_PODS, _pod(tolerations=[own]))).json["spec"]
    assert spec["tolerations"] == [own, {**own, "key": "node.kubernetes.io/unreachable", "tolerationSeconds": 300}]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    all_of_them = [{"operator": "Exists"}]
    assert (await api.post(_PODS, _pod("q", tolerations=all_of_them))).json["spec"]["tolerations"] == all_of_them


async def test_a_limit_range_fills_in_and_bounds(api: ApiServer) -> None:
    item = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [item]}}
    assert (await api.post("/api/v1/namespaces/default/limitranges", limits)).code == 201
    pod = (await api.post(_PODS, _pod())).json
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    assert pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )
    assert pod["status"]["qosClass"] == "Burstable"
    answer = await api.post(_PODS, _pod("q", {"limits": {"cpu": "2"}}))
    assert _message(answer, 403) == ('pods "q" is forbidden: maximum cpu usage per Container is 1, but limit is 2')


async def test_a_limit_range_bounds_whole_pods_and_claims(api: ApiServer) -> None:
    items = [
        {"type": "Pod", "min": {"memory": "1Gi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]
    await api.post("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": items}})
    answer = await api.post(_PODS, _pod("q", {"requests": {"memory": "512Mi"}}))
    assert _message(answer, 403) == ('pods "q" is forbidden: minimum memory usage per Pod is 1Gi, but request is 512Mi')
    claim = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }
    answer = await api.post("/api/v1/namespaces/default/persistentvolumeclaims", claim)
    assert "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi" in _message(answer, 403)


async def _quota(api: ApiServer, hard: dict[str, str], **spec: Any) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    assert (await api.post("/api/v1/namespaces/default/resourcequotas", quota)).code == 201


async def _used(api: ApiServer) -> Any:
    return (await api.get("/api/v1/namespaces/default/resourcequotas/q")).json["status"]["used"]


async def test_a_quota_counts_what_was_there_before_it(api: ApiServer) -> None:
    await api.post(_PODS, _pod("a", {"requests": {"cpu": "1"}}))
    await _quota(api, {"pods": "2", "requests.cpu": "2"})
    assert (await api.post(_PODS, _pod("b", {"requests": {"cpu": "500m"}}))).code == 201
    assert await _used(api) == {"pods": "2", "requests.cpu": "1500m"}
    answer = await api.post(_PODS, _pod("c", {"requests": {"cpu": "1"}}))
    assert _message(answer, 403) == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1, '
        "used: pods=2,requests.cpu=1500m, limited: pods=2,requests.cpu=2"
    )


async def test_what_is_freed_can_be_used_again(api: ApiServer) -> None:
    await _quota(api, {"pods": "1"})
    assert (await api.post(_PODS, _pod("a"))).code == 201
    assert (await api.post(_PODS, _pod("b"))).code == 403
    await api.patch(f"{_PODS}/a/status", {"status": {"phase": "Succeeded"}})
    assert (await api.post(_PODS, _pod("b"))).code == 201
    await api.delete(f"{_PODS}/b")
    assert (await api.post(_PODS, _pod("c"))).code == 201


async def test_a_quota_of_compute_resources_demands_that_pods_name_them(api: ApiServer) -> None:
    await _quota(api, {"limits.memory": "1Gi", "requests.cpu": "1"})
    assert _message(await api.post(_PODS, _pod()), 403) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
    )


async def test_a_quota_counts_objects_of_any_kind(api: ApiServer) -> None:
    await _quota(api, {"count/configmaps": "1", "secrets": "1", "count/deployments.apps": "0"})
    maps = "/api/v1/namespaces/default/configmaps"
    assert (await api.post(maps, {"metadata": {"name": "a"}})).code == 201
    assert _message(await api.post(maps, {"metadata": {"name": "b"}}), 403) == (
        'configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, '
        "limited: count/configmaps=1"
    )


async def test_a_quota_with_a_scope_is_about_some_pods_only(api: ApiServer) -> None:
    await _quota(api, {"pods": "0"}, scopes=["BestEffort"])
    assert (await api.post(_PODS, _pod("a"))).code == 403
    assert (await api.post(_PODS, _pod("b", {"requests": {"cpu": "1"}}))).code == 201


async def test_a_dry_run_is_not_charged(api: ApiServer) -> None:
    await _quota(api, {"pods": "1"})
    assert (await api.post(_PODS, _pod("a"), dryRun="All")).code == 201
    assert (await api.post(_PODS, _pod("a"))).code == 201
    assert (await api.post(_PODS, _pod("b"), dryRun="All")).code == 403


async def test_creators_at_once_never_exceed_a_quota_together(api: ApiServer) -> None:
    await _quota(api, {"pods": "20"})
    answers = await asyncio.gather(*(api.post(_PODS, _pod(f"p{number}")) for number in range(30)))
    assert sorted(answer.code for answer in answers) == [201] * 20 + [403] * 10
    assert await _used(api) == {"pods": "20"}


_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize("status", ["False", "Unknown", ""])
async def test_a_new_node_is_tainted_until_it_says_that_it_is_ready(status: str) -> None:
    conditions = [{"type": "Ready", "status": status}] if status else []
    async with ApiServer(taint_nodes=True) as api:
        node = {"metadata": {"name": "n"}, "status": {"conditions": conditions}}
        assert (await api.post("/api/v1/nodes", node)).json["spec"]["taints"] == [_NOT_READY]
        # Only at its creation: what was taken away stays away.
        assert not (await api.patch("/api/v1/nodes/n", {"spec": {"taints": None}})).json.get("spec")


async def test_a_node_that_is_created_ready_or_tainted_is_left_as_it_is() -> None:
    async with ApiServer(taint_nodes=True) as api:
        ready = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        assert "spec" not in (await api.post("/api/v1/nodes", ready)).json
        tainted = {"metadata": {"name": "b"}, "spec": {"taints": [_NOT_READY]}}
        assert (await api.post("/api/v1/nodes", tainted)).json["spec"]["taints"] == [_NOT_READY]
