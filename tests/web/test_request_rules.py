"""Which requests of a browser act as its user."""

import pytest

from rota.web import request_rules

NAMES = request_rules.own_names(["master.example", "10.0.0.7", "fd00::7"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:6480", "localhost", "LOCALHOST:1", "master.example:6443", "10.0.0.7", "[fd00::7]:6443", "[::1]"]
)
def test_a_server_knows_its_names(host: str) -> None:
    assert request_rules.names_server({b"host": host.encode()}, NAMES)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example", "evil.example:127", "master.example.evil"]
)
def test_another_name_was_pointed_here_by_someone_else(host: str) -> None:
    assert not request_rules.names_server({b"host": host.encode()}, NAMES)


@pytest.mark.parametrize(
    ("origin", "site", "expected"),
    [
        (b"http://localhost:6480", b"same-origin", True),
        (b"http://localhost:6480", None, True),
        (None, b"same-origin", True),
        (None, None, False),
        (None, b"same-site", False),
        (None, b"cross-site", False),
        (None, b"none", False),
        (b"http://localhost:9999", b"same-site", False),
        (b"http://localhost:9999", None, False),
        (b"https://localhost:6480", None, False),
        (b"null", b"same-origin", False),
    ],
)
def test_only_a_page_of_the_same_origin_acts_as_the_user(
    origin: bytes | None, site: bytes | None, expected: bool
) -> None:
    headers = {b"host": b"localhost:6480"}
    if origin is not None:
        headers[b"origin"] = origin
    if site is not None:
        headers[b"sec-fetch-site"] = site
    assert request_rules.is_same_origin(headers, "http") is expected


@pytest.mark.parametrize(
    "path",
    [
        "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy",
        "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/secrets",
        "/api/v1/namespaces/a/pods/b/proxy/",
        "/api/v1/namespaces/a/services/b/prox%79/x",
        "/api/v1/nodes/n/proxy/metrics",
    ],
)
def test_a_path_that_goes_on_to_another_server_is_recognized(path: str) -> None:
    assert request_rules.is_proxied(path)


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/a/pods/proxy", "/api/v1/namespaces/proxy/pods", "/api/v1/nodes/proxy", "/version", "/"]
)
def test_an_object_that_is_named_proxy_is_none(path: str) -> None:
    assert not request_rules.is_proxied(path)
