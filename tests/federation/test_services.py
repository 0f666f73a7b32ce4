"""MultiClusterServices: which clusters take part, what they get, and when that is removed again."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors, fields, meta
from rota.client.informers.shared_informers import SharedInformers
from rota.client.verbs import Object
from rota.federation import gates, kinds, object_names
from rota.federation.control import federation
from rota.federation.control.accounts import role_name
from rota.federation.control.fences import Fences
from rota.federation.control.scheduler_loop import SchedulingLoop
from rota.federation.control.service_loop import ServiceLoop
from rota.federation.control.works_loop import WorksLoop
from rota.federation.customization.interpreter import NATIVE
from rota.federation.member import connections
from rota.federation.member.engine import Engine
from rota.federation.member.served_kinds import Types
from rota.federation.services import exposure, slices, validation
from rota.federation_admission import PolicyValidation
from rota.kit.metrics import Metrics
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.virtual_api import VirtualCluster

HERE = "default"
SLICES = ("discovery.k8s.io", "v1", "endpointslices")
ON = gates.parse("MultiClusterService=true")


def _exposed(*, providers: tuple[str, ...] = (), consumers: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    named = {"providerClusters": providers, "consumerClusters": consumers}
    return {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {
            "types": ["CrossCluster"],
            **{member: [{"name": one} for one in names] for member, names in named.items() if names},
            **spec,
        },
    }


def _service(*ports: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {"selector": {"app": "web"}, "ports": list(ports or ({"name": "http", "port": 80},))},
    }


def _slice(name: str, address: str, service: str = "web", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": HERE, "labels": {slices.SERVICE: service, **labels}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def _cluster(name: str, *, ready: bool = True, serves: bool = True) -> dict[str, Any]:
    served = [
        {"groupVersion": "v1", "resources": [{"name": "services", "kind": "Service"}]},
        *(
            [{"groupVersion": exposure.SLICE[0], "resources": [{"name": "endpointslices", "kind": "EndpointSlice"}]}]
            if serves
            else ()
        ),
    ]
    return {
        "metadata": {"name": name},
        "status": {"apiEnablements": served, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


# --- decisions --------------------------------------------------------------------------------------------------------


def test_all_clusters_take_part_unless_some_are_named() -> None:
    clusters = [_cluster("a"), _cluster("b"), _cluster("down", ready=False), _cluster("old", serves=False)]
    assert exposure.providers(_exposed(), clusters) == ["a", "b"]
    assert exposure.consumers(_exposed(), clusters) == ["a", "b", "down"]
    named = _exposed(providers=("a", "down", "nowhere"), consumers=("b",))
    assert exposure.providers(named, clusters) == ["a"]
    assert exposure.consumers(named, clusters) == ["b"]
    assert exposure.targets(named, clusters) == ["a", "b", "down", "nowhere"]
    assert exposure.targets(_exposed(providers=("a",)), clusters) == ["a", "b", "down", "old"]
    assert exposure.unknown(named, clusters) == ["nowhere"]
    # An agent may report a group without resources.
    clusters[1]["status"]["apiEnablements"] = [{"groupVersion": exposure.SLICE[0]}]
    assert exposure.providers(_exposed(), clusters) == ["a"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [([], None), ([{"port": 80}], {"http"}), ([{"port": 443, "name": "http"}], set()), ([{"port": 90}], set())],
    ids=["all", "by number", "another name", "no such port"],
)
def test_ports_of_the_service_are_exposed_as_they_are_listed(wanted: list[Object], names: set[str] | None) -> None:
    service = _service({"name": "http", "port": 80}, {"name": "https", "port": 443})
    assert exposure.ports(_exposed(ports=wanted), service) == names


def test_a_consumer_gets_a_slice_named_after_its_provider_with_exposed_ports_only() -> None:
    found = slices.collected([_slice("web-x", "10.0.0.1")])["endpointSlices"][0]
    found["ports"] = [*found["ports"], {"name": "admin", "port": 9}]
    work = slices.imported_work(found, _exposed(), "m1", "m2", {"http"}, {})
    (manifest,) = work["spec"]["workload"]["manifests"]
    assert work["metadata"]["namespace"] == "karmada-es-m2"
    assert manifest["metadata"]["name"] == "m1.web-x"
    assert manifest["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
        "karmada.io/managed": "true",
    }
    assert manifest["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"] == "m1"
    assert [one["name"] for one in manifest["ports"]] == ["http"]
    assert manifest["endpoints"] == found["endpoints"]


def test_slices_of_providers_with_related_names_have_different_names() -> None:
    given = (("a", "b-c"), ("a-b", "c"), ("a", "b.c"))
    works = [
        slices.imported_work({"name": name, "addressType": "IPv4"}, _exposed(), provider, "m2", None, {})
        for provider, name in given
    ]
    assert len({work["spec"]["workload"]["manifests"][0]["metadata"]["name"] for work in works}) == len(given)
    assert len({meta.name(work) for work in works}) == len(given)


def _reporting(given: Any) -> Object:
    done = {"type": slices.COLLECTED, "status": "True"}
    return {"status": {"conditions": [done], "manifestStatuses": [{"status": {"endpointSlices": given}}]}}


@pytest.mark.parametrize(
    "given",
    [
        "slices",
        ["web"],
        [{"name": 7}],
        [{"name": "../web"}],
        [{"name": "x" * 200}],
        [{"name": "web", "ports": ["http"]}],
        [{"name": "web", "endpoints": {}}],
    ],
)
def test_what_a_member_reports_in_another_form_is_left_out(given: Any) -> None:
    assert slices.reported(_reporting(given)) == []


def test_slices_beyond_the_most_are_counted() -> None:
    many = slices.collected([_slice(f"web-{number:03}", "10.0.0.1") for number in range(slices.MOST + 2)])
    assert len(many["endpointSlices"]) == slices.MOST
    assert slices.left_out({"status": {"manifestStatuses": [{"status": many}]}}) == 2


def test_slices_that_do_not_fit_in_one_object_are_counted() -> None:
    large = [_slice(f"web-{number}", "10.0.0.1") for number in range(3)]
    for one in large:
        one["endpoints"] = [{"addresses": ["10.0.0.1"], "hostname": "x" * 50}] * 5000
    found = slices.collected(large)
    assert 0 < len(found["endpointSlices"]) < 3
    assert found["leftOut"] == 3 - len(found["endpointSlices"])


@pytest.mark.parametrize(
    ("spec", "field", "word"),
    [
        ({"types": ["LoadBalancer"]}, "spec.types[0]", "LoadBalancer is not supported"),
        ({"types": ["Ingress"]}, "spec.types[0]", "use CrossCluster"),
        ({"types": []}, "spec.types", "CrossCluster"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port", "65535"),
        ({"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}, "spec.ports[1].name", "named a"),
        ({"ports": [{"port": 1, "name": "A_"}]}, "spec.ports[0].name", "lower"),
        ({"providerClusters": [{"name": "M_1"}]}, "spec.providerClusters[0].name", "lower"),
        ({"consumerClusters": [{"name": "m" * 49}]}, "spec.consumerClusters[0].name", "48"),
        ({"range": {"clusterNames": ["m1"]}}, "spec.range", "providerClusters"),
        ({"serviceProvisionClusters": ["m1"]}, "spec.serviceProvisionClusters", "use providerClusters"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(spec: dict[str, Any], field: str, word: str) -> None:
    problems = validation.validate(_exposed(**spec))
    assert [one.field for one in problems] == [field]
    assert word in problems[0].message
    fields.ErrorType(problems[0].type)


def test_types_do_not_change_and_names_are_those_of_services() -> None:
    assert validation.validate(_exposed(), _exposed()) == []
    changed = validation.validate(_exposed(), _exposed(types=["LoadBalancer"]))
    assert [one.field for one in changed] == ["spec.types"]
    wrong = _exposed()
    wrong["metadata"]["name"] = "1web"
    assert [one.field for one in validation.validate(wrong)] == ["metadata.name"]


# --- the loop, with members -------------------------------------------------------------------------------------------


class Place:
    """A control plane with two members, in virtual time."""

    def __init__(self, control: VirtualCluster, members: dict[str, VirtualCluster]) -> None:
        self.control = control
        self.client = control.client
        self.members = members

    async def names(self, member: str) -> list[str]:
        """The slices of a member."""
        return sorted(meta.name(one) for one in (await self.members[member].client.list(SLICES, namespace=HERE)).items)

    async def sees(self, member: str, *wanted: str) -> None:
        """Wait until a member has these slices and no others."""

        async def condition() -> bool:
            return await self.names(member) == sorted(wanted)

        await self.control.until(condition)

    async def condition(self, kind: str, status: str) -> Object:
        """Wait for a condition of the MultiClusterService."""
        found: Object = {}

        async def reached() -> bool:
            nonlocal found
            service = await self.client.get(kinds.MULTI_CLUSTER_SERVICES, "web", namespace=HERE)
            found = dict(meta.condition(service, kind) or {})
            return bool(found.get("status") == status)

        await self.control.until(reached)
        return found

    async def ready(self, member: str, ready: bool) -> None:
        """Publish the readiness of a member."""
        status = _cluster(member, ready=ready)["status"]
        for one in status["conditions"]:
            one |= {"reason": "Tested", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await self.client.patch(kinds.CLUSTERS, member, {"status": status}, subresource="status")


@contextlib.asynccontextmanager
async def _place(enabled: gates.Gates = ON) -> AsyncIterator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        clock = FakeClock()
        control = VirtualCluster(
            await stack.enter_async_context(ApiServer(clock=clock, admission=(PolicyValidation(),))), clock
        )
        stack.push_async_callback(control.close)
        install = functools.partial(federation.install, control.client, clock=control.clock)
        await stack.enter_async_context(control.running(install))

        async def installed() -> bool:
            return await control.exists(("rbac.authorization.k8s.io", "v1", "clusterroles"), role_name("namespaces"))

        await control.until(installed)
        members = {}
        for name in ("m1", "m2"):
            server = await stack.enter_async_context(ApiServer(clock=control.clock))
            members[name] = VirtualCluster(server, control.clock)
            stack.push_async_callback(members[name].close)
            cluster = {**_cluster(name), "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
            await control.client.create(kinds.CLUSTERS, {**cluster, "spec": {"syncMode": "Pull"}})
            await connections.ensure_namespace(control.client, object_names.execution_space(name))
            await connections.ensure_namespace(members[name].client, HERE)
        place = Place(control, members)
        for name in members:
            await place.ready(name, True)
        await control.client.create(kinds.SERVICES, _service(), namespace=HERE)
        client, rng = control.client, control.rng
        fences = Fences(client, clock=clock)
        seen = {kinds.CLUSTERS, kinds.BINDINGS, kinds.WORKS}
        shared = SharedInformers(client, seen, clock=clock, rng=rng, metrics=Metrics("federation"))
        # the loop under test has the rights that it has in a control plane
        account = control.acting_as(role_name("services")).with_settings(informers=shared)
        loops: list[Callable[[], Any]] = [
            ServiceLoop(account, enabled, clock=clock, rng=rng).run,
            SchedulingLoop(client, enabled, clock=clock, rng=rng).run,
            WorksLoop(client, Types(client), enabled, NATIVE, fences, clock=clock, rng=rng).run,
            shared.run,
            *(Engine(client, one.client, name, clock=clock, rng=rng).run for name, one in members.items()),
        ]
        for loop in loops:
            await stack.enter_async_context(control.running(loop))
        yield place


async def test_slices_follow_providers_and_leave_with_slice_provider_and_service() -> None:
    async with _place() as place:
        first, second = (place.members[name].client for name in ("m1", "m2"))
        await first.create(SLICES, _slice("web-1", "10.1.0.1"))
        await first.create(SLICES, _slice("other-1", "10.1.0.9", "other"))
        await place.client.create(kinds.MULTI_CLUSTER_SERVICES, _exposed(providers=("m1",)))
        # the Service goes to both, and the slice from the provider to the other cluster only
        await place.sees("m2", "m1.web-1")
        for client in (first, second):
            assert meta.labels(await client.get(kinds.SERVICES, "web", namespace=HERE))[exposure.CLAIMED_BY]
        assert await place.names("m1") == ["other-1", "web-1"]
        await place.condition("EndpointSliceDispatched", "True")
        await place.condition("ServiceApplied", "True")
        copy = await second.get(SLICES, "m1.web-1", namespace=HERE)
        assert copy["endpoints"][0]["addresses"] == ["10.1.0.1"]
        # a change and another slice arrive, a slice that is gone goes
        changed = {"endpoints": [{"addresses": ["10.1.0.2"], "conditions": {"ready": True}}]}
        await first.patch(SLICES, "web-1", changed, namespace=HERE)
        await first.create(SLICES, _slice("web-2", "10.1.0.3"))
        await place.sees("m2", "m1.web-1", "m1.web-2")

        async def moved() -> bool:
            one: Object = await second.get(SLICES, "m1.web-1", namespace=HERE)
            return bool(one["endpoints"][0]["addresses"] == ["10.1.0.2"])

        await place.control.until(moved)
        await first.delete(SLICES, "web-2", namespace=HERE)
        await place.sees("m2", "m1.web-1")
        # what a consumer got is not collected from there: with both as providers nothing comes back
        await second.create(SLICES, _slice("web-9", "10.2.0.1"))
        await place.client.patch(
            kinds.MULTI_CLUSTER_SERVICES, "web", {"spec": {"providerClusters": None}}, namespace=HERE
        )
        await place.sees("m1", "other-1", "web-1", "m2.web-9")
        await place.sees("m2", "m1.web-1", "web-9")
        # a provider that is not ready gives no backends, until it is ready again
        await place.ready("m1", False)
        await place.sees("m2", "web-9")
        await place.ready("m1", True)
        await place.sees("m2", "m1.web-1", "web-9")
        # the object goes: slices leave, the Service stays and is free for policies
        await place.client.delete(kinds.MULTI_CLUSTER_SERVICES, "web", namespace=HERE)
        await place.control.gone(kinds.MULTI_CLUSTER_SERVICES, "web", HERE)
        await place.sees("m1", "other-1", "web-1")
        await place.sees("m2", "web-9")
        template = await place.client.get(kinds.SERVICES, "web", namespace=HERE)
        assert not exposure.is_claimed(template)
        assert exposure.NAME not in meta.annotations(template)
        bound = await place.client.get(kinds.BINDINGS, "web-service", namespace=HERE)
        assert exposure.MANAGED_BY not in meta.labels(bound)
        assert [one["name"] for one in bound["spec"]["clusters"]] == ["m1", "m2"]


async def test_the_object_of_the_page_exposes_what_the_page_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "run-a-federation.md").read_text()
    block = page.partition("```yaml web-service.yaml\n")[2].partition("```")[0]
    exposed = yaml.safe_load(block)
    async with _place() as place:
        first = place.members["m1"].client
        await first.create(SLICES, _slice("web-1", "10.1.0.1"))
        await place.members["m2"].client.create(SLICES, _slice("web-2", "10.2.0.1"))
        await place.client.create(kinds.MULTI_CLUSTER_SERVICES, exposed, namespace=HERE)
        await place.sees("m2", "m1.web-1", "web-2")
        await place.condition("EndpointSliceDispatched", "True")
        assert await place.names("m1") == ["web-1"]
        copy = await place.members["m2"].client.get(SLICES, "m1.web-1", namespace=HERE)
        assert copy["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


async def test_conditions_say_what_is_missing() -> None:
    async with _place() as place:
        await place.client.delete(kinds.SERVICES, "web", namespace=HERE)
        await place.client.create(kinds.MULTI_CLUSTER_SERVICES, _exposed(consumers=("m1", "m7")))
        assert "create it" in (await place.condition("ServiceApplied", "False"))["message"]
        await place.client.create(kinds.SERVICES, _service(), namespace=HERE)

        async def named() -> bool:
            return "m7" in (await place.condition("ServiceApplied", "False"))["message"]

        await place.control.until(named)


async def test_without_its_gate_nothing_is_done_and_what_is_not_supported_is_refused() -> None:
    async with _place(gates.DEFAULT) as place:
        await place.client.create(kinds.MULTI_CLUSTER_SERVICES, _exposed())
        found = await place.condition("ServiceApplied", "False")
        assert "MultiClusterService=true" in found["message"]
        assert not (await place.client.list(kinds.WORKS)).items
        refused = _exposed(types=["LoadBalancer"])
        refused["metadata"]["name"] = "other"
        with pytest.raises(errors.Invalid, match="LoadBalancer is not supported"):
            await place.client.create(kinds.MULTI_CLUSTER_SERVICES, refused)
