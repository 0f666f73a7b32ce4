"""Cluster IPs and node ports are unique, and none leaks."""

import asyncio
import ipaddress
from typing import Any

import pytest

from rota.api import errors
from rota.apiserver.admission import service_addresses
from rota.client.verbs import Client, PatchType
from rota.testing.virtual_api import VirtualCluster, cluster

SERVICES = ("", "v1", "services")


@pytest.fixture
async def client() -> Any:
    async with cluster() as made:
        assert isinstance(made, VirtualCluster)
        yield made.client


def _service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": name}, **spec},
    }


async def test_a_service_gets_an_address_of_the_network(client: Client) -> None:
    made = (await client.create(SERVICES, _service("web")))["spec"]
    assert ipaddress.ip_address(made["clusterIP"]) in service_addresses.NETWORK
    assert made["clusterIPs"] == [made["clusterIP"]]
    assert (made["ipFamilies"], made["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_headless_and_external_services_get_none(client: Client) -> None:
    headless = (await client.create(SERVICES, _service("h", clusterIP="None")))["spec"]
    assert headless["clusterIP"] == "None"
    external = await client.create(SERVICES, _service("e", type="ExternalName", externalName="example.com"))
    assert "clusterIP" not in external["spec"]


async def test_many_at_once_all_get_different_ones(client: Client) -> None:
    made = await asyncio.gather(
        *(client.create(SERVICES, _service(f"s{number}", type="NodePort")) for number in range(40))
    )
    assert len({one["spec"]["clusterIP"] for one in made}) == 40
    assert len({one["spec"]["ports"][0]["nodePort"] for one in made}) == 40


async def test_neighbours_by_chance_do_not_collide(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlib.crc32", lambda _: 7)
    made = await asyncio.gather(*(client.create(SERVICES, _service(f"s{number}")) for number in range(5)))
    assert len({one["spec"]["clusterIP"] for one in made}) == 5


async def test_an_address_that_is_asked_for_is_given_once(client: Client) -> None:
    await client.create(SERVICES, _service("first", clusterIP="10.96.7.7"))
    with pytest.raises(errors.Invalid, match="provided IP is already allocated"):
        await client.create(SERVICES, _service("second", clusterIP="10.96.7.7"))
    with pytest.raises(errors.Invalid, match=r"is not in the valid range"):
        await client.create(SERVICES, _service("second", clusterIP="192.168.0.1"))
    await client.delete(SERVICES, "first", namespace="default")
    await client.create(SERVICES, _service("second", clusterIP="10.96.7.7"))


async def test_a_node_port_that_is_asked_for_is_given_once(client: Client) -> None:
    def ports(number: int) -> list[dict[str, int]]:
        return [{"port": 80, "nodePort": number}]

    await client.create(SERVICES, _service("first", type="NodePort", ports=ports(30080)))
    with pytest.raises(errors.Invalid, match="provided port is already allocated"):
        await client.create(SERVICES, _service("second", type="NodePort", ports=ports(30080)))
    with pytest.raises(errors.Invalid, match="The range of valid ports is 30000-32767"):
        await client.create(SERVICES, _service("second", type="NodePort", ports=ports(80)))
    await client.delete(SERVICES, "first", namespace="default")
    await client.create(SERVICES, _service("second", type="NodePort", ports=ports(30080)))


async def test_an_update_without_cluster_ips_keeps_them(client: Client) -> None:
    made = await client.create(SERVICES, _service("web", type="NodePort"))
    again = _service("web", type="NodePort", selector={"app": "other"})
    again["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    updated = await client.update(SERVICES, again)
    assert updated["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert updated["spec"]["ports"] == made["spec"]["ports"]
    grown = await client.patch(
        SERVICES,
        "web",
        [{"op": "add", "path": "/spec/ports/-", "value": {"name": "b", "port": 81}},
         {"op": "add", "path": "/spec/ports/0/name", "value": "a"}],
        type=PatchType.JSON,
        namespace="default",
    )  # fmt: skip
    first, second = grown["spec"]["ports"]
    assert first["nodePort"] == made["spec"]["ports"][0]["nodePort"] != second["nodePort"]


async def test_the_api_has_a_service_of_its_own(client: Client) -> None:
    own = await client.get(SERVICES, "kubernetes", namespace="default")
    assert own["spec"]["clusterIP"] == str(service_addresses.NETWORK[1])
