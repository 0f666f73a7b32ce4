"""What services come to on a machine."""

from typing import Any

import pytest

from rota.worker import addresses
from rota.worker.services import hosts
from rota.worker.services.catalog import Backend, Catalog, may_need_later

ADDRESS = "127.64.1.1"


def _service(name: str = "web", namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    usual = {"clusterIP": ADDRESS, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {**usual, **spec}}


def _endpoint(address: str, *, ready: bool = True, serving: bool = True, **more: Any) -> dict[str, Any]:
    return {"addresses": [address], "conditions": {"ready": ready, "serving": serving}, **more}


def _slice(*endpoints: dict[str, Any], name: str = "web", port: str = "http", number: int = 8080) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}-x", "namespace": "shop", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": port, "port": number, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def _catalog(services: list[dict[str, Any]], *slices: dict[str, Any]) -> Catalog:
    return Catalog(services, slices, node="here")


def _backends(catalog: Catalog) -> list[Backend]:
    (route,) = catalog.routes()
    return list(route.backends)


def test_connections_go_to_pods_that_are_ready() -> None:
    catalog = _catalog([_service()], _slice(_endpoint("127.0.0.2"), _endpoint("127.0.0.3", ready=False, serving=False)))
    (route,) = catalog.routes()
    assert (route.address, route.port, route.backends) == (ADDRESS, 80, (Backend("127.0.0.2", 8080),))


def test_pods_that_end_serve_while_there_are_no_others() -> None:
    leaving = _endpoint("127.0.0.3", ready=False)
    assert _backends(_catalog([_service()], _slice(leaving))) == [Backend("127.0.0.3", 8080)]
    assert _backends(_catalog([_service()], _slice(leaving, _endpoint("127.0.0.2")))) == [Backend("127.0.0.2", 8080)]


def test_ports_are_matched_by_name_and_slices_by_service() -> None:
    others = [_slice(_endpoint("127.0.0.9"), port="metrics"), _slice(_endpoint("127.0.0.8"), name="other")]
    assert _backends(_catalog([_service()], *others)) == []


def test_a_local_policy_keeps_connections_on_the_node() -> None:
    slices = _slice(_endpoint("127.0.0.2", nodeName="there"), _endpoint("127.0.0.3", nodeName="here"))
    assert _backends(_catalog([_service(internalTrafficPolicy="Local")], slices)) == [Backend("127.0.0.3", 8080)]


@pytest.mark.parametrize(
    "service",
    [
        _service(ports=[{"port": 53, "protocol": "UDP"}]),
        _service(clusterIP="None"),
        _service(clusterIP="10.96.0.7"),
        _service("kubernetes", "default"),
        _service(type="ExternalName", clusterIP=None),
    ],
    ids=["udp", "headless", "not on loopback", "the api", "external name"],
)
def test_what_cannot_be_served_here_has_no_route(service: dict[str, Any]) -> None:
    assert _catalog([service]).routes() == []


def test_a_foreign_address_is_reported() -> None:
    (one,) = _catalog([_service(clusterIP="10.96.0.7")]).unserved()
    assert (one.namespace, one.name) == ("shop", "web")
    assert one.why == "10.96.0.7 is not a loopback address: delete the service and create it anew"
    assert _catalog([_service(), _service(clusterIP="None")]).unserved() == []


def test_a_service_has_its_short_name_in_its_own_namespace_only() -> None:
    full = ["web.shop", "web.shop.svc", "web.shop.svc.cluster.local"]
    catalog = _catalog([_service()])
    assert list(catalog.hosts("shop")) == [(ADDRESS, ["web", *full])]
    assert list(catalog.hosts("elsewhere")) == [(ADDRESS, full)]


def test_a_headless_service_is_its_pods_and_names_each_of_them() -> None:
    endpoints = [_endpoint("127.0.0.2", hostname="db-0"), _endpoint("127.0.0.3", ready=False, hostname="db-1")]
    found = list(_catalog([_service("db", clusterIP="None")], _slice(*endpoints, name="db")).hosts("shop"))
    names = ["db", "db.shop", "db.shop.svc", "db.shop.svc.cluster.local"]
    assert found == [("127.0.0.2", [*names, *(f"db-0.{one}" for one in names)])]


def test_variables_are_those_of_the_kubelet() -> None:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    catalog = _catalog([_service("my-web", ports=ports), _service("headless", clusterIP="None")])
    assert catalog.variables("shop") == {
        "MY_WEB_SERVICE_HOST": ADDRESS,
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_DNS_UDP": "53",
        "MY_WEB_PORT": f"tcp://{ADDRESS}:80",
        "MY_WEB_PORT_80_TCP": f"tcp://{ADDRESS}:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": ADDRESS,
        "MY_WEB_PORT_53_UDP": f"udp://{ADDRESS}:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": ADDRESS,
    }
    assert catalog.variables("elsewhere") == {}


# --- hosts files ------------------------------------------------------------------------------------------------------


def test_names_of_the_machine_stay_the_machines() -> None:
    text = hosts.text("127.0.0.1 localhost # and so on\n10.0.0.1 db", [("127.64.0.9", ["localhost", "db", "db.shop"])])
    assert text.splitlines() == [
        "127.0.0.1 localhost # and so on",
        "10.0.0.1 db",
        "# Services of the cluster, kept by Rota.",
        "127.64.0.9\tdb.shop",
    ]


def test_a_file_is_changed_in_place(tmp_path: Any) -> None:
    path = tmp_path / "hosts"
    assert hosts.write(path, "a long line\nanother\n")
    before = path.stat().st_ino
    assert hosts.write(path, "short\n")
    assert (path.read_text(), path.stat().st_ino, path.stat().st_mode & 0o777) == ("short\n", before, 0o644)
    assert not hosts.write(path, "short\n")


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, True),
        ({"restartPolicy": "Always"}, True),
        ({"restartPolicy": "Never"}, False),
        ({"restartPolicy": "Never", "subdomain": "gang"}, True),
    ],
)
def test_pods_that_run_on_and_pods_of_a_gang_may_need_services_that_come_later(
    spec: dict[str, Any], *, needed: bool
) -> None:
    assert may_need_later({"spec": spec}) is needed


# --- addresses of pods ------------------------------------------------------------------------------------------------


def _pod(uid: str, *, own: bool) -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": uid, "annotations": {addresses.ANNOTATION: "own"} if own else {}}}


def test_a_pod_that_wants_an_address_of_its_own_gets_one_where_the_machine_is_its_own_network() -> None:
    first, second = (addresses.of(_pod(uid, own=True), "127.0.0.1") for uid in ("a", "b"))
    assert first != second
    assert all(addresses.is_loopback(one) and one.startswith("127.") for one in (first, second))
    assert addresses.of(_pod("a", own=True), "127.0.0.1") == first
    assert addresses.of(_pod("a", own=True), "10.0.0.1") == "10.0.0.1"
    assert addresses.of(_pod("a", own=False), "127.0.0.1") == "127.0.0.1"
