"""Where connections to a service go: EndpointSlices and Endpoints."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rota.api import meta
from rota.client.verbs import Object
from rota.controllers.endpoints import backends, slices, subsets
from rota.controllers.endpoints.controller import ENDPOINTS, NODES, PODS, SERVICES, SLICES, EndpointController
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster

HERE = "default"


def _service(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    usual = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": HERE, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"clusterIP": "10.96.1.1", "ipFamilies": ["IPv4"], **usual, **spec},
    }


def _pod(
    name: str, address: str = "", *, ready: bool = True, phase: str = "Running", port: int = 8080, **spec: Any
) -> dict[str, Any]:
    ports = [{"name": "http", "containerPort": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HERE, "uid": f"uid-{name}", "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": ports}], **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        },
    }


def _planned(service: Object, *pods: Object, existing: tuple[Object, ...] = (), most: int = 100) -> slices.Plan:
    return slices.plan(service, pods, existing, nodes={"n": {"metadata": {"name": "n"}}}, most=most)


def _written(plan: slices.Plan) -> list[Object]:
    """The slices of a plan as they are read again; only what a server adds is added."""
    made = [{**one, "metadata": {**one["metadata"], "name": f"s{i}"}} for i, one in enumerate(plan.create)]
    return [*made, *plan.update]


# --- what is planned --------------------------------------------------------------------------------------------------


def test_a_slice_lists_pods_with_ports_conditions_and_labels_of_their_service() -> None:
    plan = _planned(_service(labels={"team": "a"}), _pod("a", "10.0.0.1"), _pod("b", "10.0.0.2", ready=False))
    (made,) = plan.create
    assert made["metadata"]["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert made["addressType"] == "IPv4"
    assert made["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert made["endpoints"] == [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": HERE, "name": "a", "uid": "uid-a"},
            "nodeName": "n",
        },
        {
            "addresses": ["10.0.0.2"],
            "conditions": {"ready": False, "serving": False, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": HERE, "name": "b", "uid": "uid-b"},
            "nodeName": "n",
        },
    ]


def test_what_is_right_is_not_written_again() -> None:
    service, pods = _service(), [_pod("a", "10.0.0.1"), _pod("b", "10.0.0.2")]
    there = tuple(_written(_planned(service, *pods)))
    again = _planned(service, *pods, existing=there)
    assert (again.create, again.update, again.delete) == ([], [], [])


def test_a_pod_that_terminates_serves_but_is_not_ready() -> None:
    pod = _pod("a", "10.0.0.1")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (made,) = _planned(_service(), pod).create
    assert made["endpoints"][0]["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert subsets.subsets(_service(), [pod]) == []


def test_unready_pods_are_published_where_the_service_says_so() -> None:
    service, pod = _service(publishNotReadyAddresses=True), _pod("a", "10.0.0.1", ready=False)
    (made,) = _planned(service, pod).create
    assert made["endpoints"][0]["conditions"] == {"ready": True, "serving": False, "terminating": False}
    assert [one["ip"] for one in subsets.subsets(service, [pod])[0]["addresses"]] == ["10.0.0.1"]


@pytest.mark.parametrize("pod", [_pod("a"), _pod("a", "10.0.0.1", phase="Succeeded")], ids=["no address", "ended"])
def test_pods_without_an_address_and_pods_that_ended_are_left_out_and_an_empty_slice_is_kept(pod: Object) -> None:
    plan = _planned(_service(), pod)
    (made,) = plan.create
    assert (made["ports"], made["endpoints"]) == ([], [])
    kept = _planned(_service(), pod, existing=tuple(_written(plan)))
    assert (kept.create, kept.update, kept.delete) == ([], [], [])


def test_pods_with_other_numbers_for_a_named_port_have_slices_of_their_own() -> None:
    plan = _planned(_service(), _pod("a", "10.0.0.1"), _pod("b", "10.0.0.2", port=9090))
    assert sorted(one["ports"][0]["port"] for one in plan.create) == [8080, 9090]
    assert [one["ports"][0]["port"] for one in subsets.subsets(_service(), [_pod("b", "10.0.0.2", port=9090)])] == [
        9090
    ]


def test_a_named_port_that_a_pod_does_not_have_is_left_out() -> None:
    service = _service(ports=[{"name": "x", "port": 1, "targetPort": "absent"}, {"name": "y", "port": 2}])
    (made,) = _planned(service, _pod("a", "10.0.0.1")).create
    assert made["ports"] == [{"name": "y", "port": 2, "protocol": "TCP"}]


def test_headless_services_say_so_and_name_their_pods() -> None:
    service = _service("db", clusterIP="None", ports=[])
    (made,) = _planned(service, _pod("db-0", "10.0.0.1", hostname="db-0", subdomain="db")).create
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert made["endpoints"][0]["hostname"] == "db-0"
    found = subsets.subsets(service, [_pod("db-0", "10.0.0.1", hostname="db-0", subdomain="db")])
    assert [(one["addresses"][0]["hostname"], one.get("ports")) for one in found] == [("db-0", None)]
    (other,) = _planned(service, _pod("db-0", "10.0.0.1", hostname="db-0", subdomain="other")).create
    assert "hostname" not in other["endpoints"][0]


@pytest.mark.parametrize("spec", [{"selector": None}, {"selector": {}}, {"type": "ExternalName"}])
def test_services_without_a_selector_are_left_alone(spec: dict[str, Any]) -> None:
    assert not backends.is_kept(_service(**spec))


def test_slices_are_filled_up_and_little_is_rewritten() -> None:
    service = _service()
    pods = [_pod(f"p{i}", f"10.0.0.{i}") for i in range(5)]
    plan = _planned(service, *pods, most=2)
    assert sorted(len(one["endpoints"]) for one in plan.create) == [1, 2, 2]
    there = tuple(_written(plan))
    more = _planned(service, *pods, _pod("p5", "10.0.0.5"), existing=there, most=2)
    assert (more.create, more.delete) == ([], [])
    assert [len(one["endpoints"]) for one in more.update] == [2]
    fewer = _planned(service, *pods[2:], existing=there, most=2)
    assert [meta.name(one) for one in fewer.delete] == ["s0"]
    assert (fewer.create, fewer.update) == ([], [])


def test_a_slice_of_a_former_service_of_the_name_goes() -> None:
    service, pod = _service(), _pod("a", "10.0.0.1")
    (old,) = _written(_planned({**service, "metadata": {**service["metadata"], "uid": "older"}}, pod))
    plan = _planned(service, pod, existing=(old,))
    assert [meta.name(one) for one in plan.delete] == [meta.name(old)]
    assert len(plan.create) == 1


def test_a_pod_whose_node_is_not_known_waits_unless_unready_pods_are_published() -> None:
    pod = _pod("a", "10.0.0.1")
    plan = slices.plan(_service(), [pod], [], nodes={})
    assert (plan.nodeless, plan.create[0]["endpoints"]) == (["a"], [])
    plan = slices.plan(_service(publishNotReadyAddresses=True), [pod], [], nodes={})
    assert (plan.nodeless, len(plan.create[0]["endpoints"])) == ([], 1)


def test_ports_that_the_same_pods_have_share_a_subset() -> None:
    service = _service(ports=[{"name": "b", "port": 2}, {"name": "a", "port": 1}, {"name": "h", "targetPort": "http"}])
    with_port, without = _pod("a", "10.0.0.1"), _pod("b", "10.0.0.2", containers=[{"name": "c", "image": "i"}])
    found = subsets.subsets(service, [with_port, without])
    shown = {tuple(p["name"] for p in one["ports"]): [a["ip"] for a in one["addresses"]] for one in found}
    assert shown == {("a", "b"): ["10.0.0.1", "10.0.0.2"], ("h",): ["10.0.0.1"]}


def test_more_than_a_thousand_addresses_are_cut_off_and_said_to_be() -> None:
    pods = [_pod(f"p{i}", f"10.0.{i // 250}.{i % 250 + 1}", ready=i > 0) for i in range(1002)]
    made = subsets.wanted(_service(), pods, None)
    assert made is not None
    assert made["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert sum(len(one.get("addresses") or ()) for one in made["subsets"]) == 1000
    assert not any("notReadyAddresses" in one for one in made["subsets"])


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    node = manifests.node("n")
    await cluster.client.create(NODES, node)
    controller = EndpointController(
        cluster.acting_as("rota:controller:endpoints"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


async def _run(cluster: VirtualCluster, pod: dict[str, Any]) -> None:
    made = {key: value for key, value in pod.items() if key != "status"}
    made["metadata"] = {key: value for key, value in pod["metadata"].items() if key != "uid"}
    await cluster.client.create(PODS, made)
    await _tell(cluster, meta.name(pod), pod["status"])


async def _tell(cluster: VirtualCluster, name: str, status: dict[str, Any]) -> None:
    await cluster.client.patch(PODS, name, {"status": status}, namespace=HERE, subresource="status")


def _creatable(service: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in service["spec"].items() if key not in {"ipFamilies", "clusterIP"}}
    return {**service, "metadata": {"name": service["metadata"]["name"], "namespace": HERE}, "spec": spec}


async def _shown(cluster: VirtualCluster, wanted: Any, look: Callable[[], Any]) -> None:
    seen: list[Any] = []

    async def so() -> bool:
        seen[:] = [await look()]
        return bool(seen[0] == wanted)

    with contextlib.suppress(AssertionError):
        await cluster.until(so)
    assert seen[0] == wanted


async def _in_slices(cluster: VirtualCluster) -> list[tuple[str, bool]]:
    found = await cluster.client.list(SLICES, namespace=HERE)
    endpoints = [one for each in found.items for one in each.get("endpoints") or ()]
    return sorted((one["addresses"][0], one["conditions"]["ready"]) for one in endpoints)


async def _in_endpoints(cluster: VirtualCluster) -> list[list[str]]:
    found = await cluster.client.list(ENDPOINTS, namespace=HERE)
    subsets_ = [one for each in found.items for one in each.get("subsets") or ()]
    return [[a["ip"] for one in subsets_ for a in one.get(name) or ()] for name in ("addresses", "notReadyAddresses")]


@pytest.mark.usefixtures("controlling")
async def test_endpoints_follow_readiness_and_the_number_of_pods(cluster: VirtualCluster) -> None:
    await cluster.client.create(SERVICES, _creatable(_service()))
    await _run(cluster, _pod("a", "10.0.0.1"))
    await _run(cluster, _pod("b", "10.0.0.2", ready=False))
    await _shown(cluster, [("10.0.0.1", True), ("10.0.0.2", False)], lambda: _in_slices(cluster))
    await _shown(cluster, [["10.0.0.1"], ["10.0.0.2"]], lambda: _in_endpoints(cluster))
    await _tell(cluster, "b", _pod("b", "10.0.0.2")["status"])
    await _shown(cluster, [("10.0.0.1", True), ("10.0.0.2", True)], lambda: _in_slices(cluster))
    await cluster.client.delete(PODS, "a", namespace=HERE, grace_period_s=0)
    await _shown(cluster, [("10.0.0.2", True)], lambda: _in_slices(cluster))
    await _shown(cluster, [["10.0.0.2"], []], lambda: _in_endpoints(cluster))
    assert len((await cluster.client.list(SLICES, namespace=HERE)).items) == 1


@pytest.mark.usefixtures("controlling")
async def test_a_slice_that_is_deleted_comes_back_and_endpoints_go_with_their_service(cluster: VirtualCluster) -> None:
    await cluster.client.create(SERVICES, _creatable(_service()))
    await _run(cluster, _pod("a", "10.0.0.1"))
    await _shown(cluster, [("10.0.0.1", True)], lambda: _in_slices(cluster))
    (one,) = (await cluster.client.list(SLICES, namespace=HERE)).items
    await cluster.client.delete(SLICES, meta.name(one), namespace=HERE)
    await _shown(cluster, [("10.0.0.1", True)], lambda: _in_slices(cluster))
    await cluster.client.delete(SERVICES, "web", namespace=HERE)
    await cluster.gone(ENDPOINTS, "web", HERE)


@pytest.mark.usefixtures("controlling")
async def test_endpoints_of_a_service_without_a_selector_are_those_that_people_make(cluster: VirtualCluster) -> None:
    service = _creatable(_service())
    del service["spec"]["selector"]
    await cluster.client.create(SERVICES, service)
    own = {"metadata": {"name": "web", "namespace": HERE}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]}
    await cluster.client.create(ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", **own})
    await _run(cluster, _pod("a", "10.0.0.1"))
    await cluster.clock.advance(30)
    assert await _in_endpoints(cluster) == [["192.0.2.1"], []]
    assert await _in_slices(cluster) == []
