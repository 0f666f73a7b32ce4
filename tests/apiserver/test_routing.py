import pytest

from rota.api import errors, scheme
from rota.apiserver import routing
from rota.apiserver.routing import Route

SCHEME = scheme.builtin()


def match(method: str, path: str, *, watch: bool = False) -> Route | None:
    return routing.match(SCHEME, method, path, watch=watch)


def found(method: str, path: str, *, watch: bool = False) -> tuple[str, str, str, str, str]:
    route = match(method, path, watch=watch)
    assert route is not None
    return route.verb, route.resource.plural, route.namespace, route.name, route.subresource


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods", ("list", "pods", "a", "", "")),
        ("POST", "/api/v1/namespaces/a/pods", ("create", "pods", "a", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/b", ("get", "pods", "a", "b", "")),
        ("HEAD", "/api/v1/namespaces/a/pods/b", ("get", "pods", "a", "b", "")),
        ("PUT", "/api/v1/namespaces/a/pods/b", ("update", "pods", "a", "b", "")),
        ("PATCH", "/api/v1/namespaces/a/pods/b/status", ("patch", "pods", "a", "b", "status")),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", ("create", "pods", "a", "b", "binding")),
        ("DELETE", "/api/v1/namespaces/a/pods/b", ("delete", "pods", "a", "b", "")),
        ("DELETE", "/api/v1/namespaces/a/pods", ("deletecollection", "pods", "a", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "namespaces", "", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "namespaces", "", "a", "finalize")),
        ("PUT", "/api/v1/namespaces/a/status", ("update", "namespaces", "", "a", "status")),
        ("GET", "/apis/apps/v1/deployments", ("list", "deployments", "", "", "")),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", ("get", "deployments", "a", "b", "scale")),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab", ("get", "clusterroles", "", "a:b", "")),
    ],
)
def test_a_path_names_verb_resource_and_object(
    method: str, path: str, expected: tuple[str, str, str, str, str]
) -> None:
    assert found(method, path) == expected


@pytest.mark.parametrize(
    ("path", "name", "tail"),
    [
        ("/api/v1/nodes/n/proxy", "n", ""),
        ("/api/v1/nodes/n/proxy/", "n", "/"),
        ("/api/v1/nodes/n/proxy/api/v1/pods/a%2Fb//c", "n", "/api/v1/pods/a%2Fb//c"),
        ("/api/v1/namespaces/a/services/s/proxy/proxy/x", "s", "/proxy/x"),
        ("/api/v1/namespaces/a/pods/proxy/proxy/..", "proxy", "/.."),
    ],
)
def test_what_follows_a_proxy_is_kept_as_it_was_sent(path: str, name: str, tail: str) -> None:
    route = match("POST", path)
    assert route is not None
    assert (route.verb, route.name, route.subresource, route.tail) == ("create", name, "proxy", tail)


@pytest.mark.parametrize("path", ["/api/v1/namespaces/proxy/pods/proxy", "/api/v1/namespaces/a/pods/proxy/log"])
def test_an_object_may_be_called_proxy(path: str) -> None:
    route = match("GET", path)
    assert route is not None
    assert route.tail == ""
    assert route.name == "proxy"


def test_a_watch_is_asked_for_by_parameter_or_by_the_old_path() -> None:
    assert found("GET", "/api/v1/pods", watch=True)[0] == "watch"
    assert found("GET", "/api/v1/watch/namespaces/a/pods") == ("watch", "pods", "a", "", "")
    assert found("GET", "/api/v1/namespaces/a/pods/b", watch=True)[0] == "watch"


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/api/v2/pods", "/apis/x.y/v1/z"])
def test_what_is_no_resource_path_has_no_route(path: str) -> None:
    assert match("GET", path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nope",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/pods/b",
        "/api/v1/namespaces/a/pods/b/nope",
        "/api/v1/namespaces/a/pods/b/status/c",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a/pods//",
        "/api/v1/namespaces/a/pods/b%2Fc",
    ],
)
def test_an_unknown_place_in_a_known_group_version_is_not_found(path: str) -> None:
    with pytest.raises(errors.NotFound, match="the server could not find the requested resource"):
        match("GET", path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/a/pods/b"),
        ("GET", "/api/v1/namespaces/a/bindings"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/a/pods/b/eviction"),
        ("OPTIONS", "/api/v1/namespaces/a/pods"),
    ],
)
def test_a_verb_that_a_place_does_not_offer_is_refused(method: str, path: str) -> None:
    with pytest.raises(errors.MethodNotAllowed):
        match(method, path)
