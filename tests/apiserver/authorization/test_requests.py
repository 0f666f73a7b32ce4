"""Refusals of users with few permissions, and their messages."""

import pytest

from rota.api.users import ANONYMOUS
from rota.testing import access
from rota.testing.api import Answer, ApiServer


def _refused(answer: Answer) -> str:
    assert answer.code == 403, answer
    assert answer.json["reason"] == "Forbidden"
    return str(answer.json["message"])


@pytest.mark.parametrize(
    ("method", "path", "message", "details"),
    [
        (
            "GET",
            "/api/v1/namespaces/default/pods",
            'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?watch=true",
            'pods is forbidden: User "x" cannot watch resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/a",
            'pods "a" is forbidden: User "x" cannot get resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods", "name": "a"},
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/dev/deployments",
            'deployments.apps is forbidden: User "x" cannot create resource "deployments" in API group "apps" '
            'in the namespace "dev"',
            {"kind": "deployments", "group": "apps"},
        ),
        (
            "DELETE",
            "/api/v1/nodes",
            'nodes is forbidden: User "x" cannot deletecollection resource "nodes" in API group "" '
            "at the cluster scope",
            {"kind": "nodes"},
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/a/log",
            'pods "a" is forbidden: User "x" cannot get resource "pods/log" in API group "" in the namespace "default"',
            {"kind": "pods", "name": "a"},
        ),
        (
            "PATCH",
            "/api/v1/namespaces/dev",
            'namespaces "dev" is forbidden: User "x" cannot patch resource "namespaces" in API group "" '
            'in the namespace "dev"',
            {"kind": "namespaces", "name": "dev"},
        ),
        (
            "PUT",
            "/api/v1/namespaces/dev/finalize",
            'namespaces "dev" is forbidden: User "x" cannot update resource "namespaces/finalize" in API group "" '
            'in the namespace "dev"',
            {"kind": "namespaces", "name": "dev"},
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Da",
            'pods "a" is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope',
            {"kind": "pods", "name": "a"},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Da",
            'pods is forbidden: User "x" cannot deletecollection resource "pods" in API group "" '
            'in the namespace "default"',
            {"kind": "pods"},
        ),
        # an unauthorized user does not learn what exists
        (
            "GET",
            "/api/v1/namespaces/default/things/a/parts",
            'things "a" is forbidden: User "x" cannot get resource "things/parts" in API group "" '
            'in the namespace "default"',
            {"kind": "things", "name": "a"},
        ),
        (
            "GET",
            "/apis/none.example.com/v1/things",
            'things.none.example.com is forbidden: User "x" cannot list resource "things" '
            'in API group "none.example.com" at the cluster scope',
            {"kind": "things", "group": "none.example.com"},
        ),
        ("GET", "/metrics", 'forbidden: User "x" cannot get path "/metrics"', {}),
        ("POST", "/version", 'forbidden: User "x" cannot post path "/version"', {}),
        ("GET", "/nowhere", 'forbidden: User "x" cannot get path "/nowhere"', {}),
    ],
)
async def test_a_refusal_names_user_verb_resource_and_namespace(
    api: ApiServer, method: str, path: str, message: str, details: dict[str, str]
) -> None:
    answer = await api.acting_as("x").request(method, path, body={})
    assert _refused(answer) == message
    assert answer.json["details"] == details


async def test_a_right_counts_as_soon_as_it_is_granted_and_ends_when_it_is_taken_away(api: ApiServer) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await access.grant(api, "x", access.rule("list,watch", "pods"), namespace="default")
    x = api.acting_as("x")
    assert (await x.get(pods)).code == 200
    assert _refused(await x.get("/api/v1/pods")).endswith("at the cluster scope")
    assert _refused(await x.get("/api/v1/namespaces/kube-system/pods")).endswith('in the namespace "kube-system"')
    assert (await api.delete(f"{access.PATH}/namespaces/default/rolebindings/x-for-x")).code == 200
    # the next refusal makes the server catch up, so it is not the one that could be late
    _refused(await x.get("/api/v1/pods"))
    _refused(await x.get(pods))


async def test_rights_on_one_name_are_enough_to_list_and_watch_that_name(api: ApiServer) -> None:
    await access.grant(
        api, "x", access.rule("get,list,watch,update", "configmaps", resourceNames=["a"]), namespace="default"
    )
    x, maps = api.acting_as("x"), "/api/v1/namespaces/default/configmaps"
    assert (await api.post(maps, {"metadata": {"name": "a"}})).code == 201
    assert (await x.get(f"{maps}/a")).code == 200
    assert (await x.get(maps, fieldSelector="metadata.name=a")).code == 200
    async with x.watch(maps, fieldSelector="metadata.name=a") as events:
        assert (await events.next())["object"]["metadata"]["name"] == "a"
    for query in ({}, {"fieldSelector": "metadata.name=b"}, {"fieldSelector": "metadata.name!=a"}):
        _refused(await x.get(maps, **query))
    _refused(await x.post(maps, {"metadata": {"name": "a"}}))


async def test_the_old_watch_path_needs_the_same_rights(api: ApiServer) -> None:
    answer = await api.acting_as("x").get("/api/v1/watch/namespaces/default/pods")
    assert " cannot watch " in _refused(answer)


async def test_anonymous_gets_health_readiness_and_version_only(api: ApiServer) -> None:
    anonymous = api.acting_as("system:anonymous")
    anonymous.user = ANONYMOUS
    for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
        assert (await anonymous.get(path)).code == 200, path
    closed = ("/", "/api", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/metrics", "/api/v1/pods")
    for path in closed:
        assert 'User "system:anonymous" cannot' in _refused(await anonymous.get(path)), path
    for path in ("/healthz", "/version"):
        _refused(await anonymous.post(path, {}))


@pytest.mark.slow  # OpenAPI is made when it is first asked for
async def test_authenticated_users_may_use_discovery_and_nothing_else(api: ApiServer) -> None:
    x = api.acting_as("x")
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"):
        assert (await x.get(path)).code == 200, path
    for path in ("/metrics", "/healthz/ping", "/api/v1/namespaces", "/apis/apps/v1/deployments"):
        _refused(await x.get(path))


async def test_masters_may_do_everything_whatever_the_roles_say(api: ApiServer) -> None:
    master = api.acting_as("m", "system:masters")
    assert (await master.delete(f"{access.PATH}/clusterrolebindings/cluster-admin")).code == 200
    _refused(await api.acting_as("x").get("/api/v1/nodes"))  # makes the server catch up
    assert (await master.get("/api/v1/nodes")).code == 200
    assert (await master.get("/metrics")).code == 200


async def test_an_update_that_creates_needs_the_right_to_create(api: ApiServer) -> None:
    group, leases = "coordination.k8s.io", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await access.grant(api, "x", access.rule("get,update,patch", "leases", group), namespace="default")
    x = api.acting_as("x")
    lease = {"apiVersion": f"{group}/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}
    message = (
        'leases.coordination.k8s.io "l" is forbidden: User "x" cannot create resource "leases" '
        'in API group "coordination.k8s.io" in the namespace "default"'
    )
    assert _refused(await x.put(f"{leases}/l", lease)) == message
    assert _refused(await x.patch(f"{leases}/l", lease, kind="apply", fieldManager="m")) == message
    assert (await x.patch(f"{leases}/l", lease)).code == 404
    made = await api.post(leases, lease)
    assert (await x.put(f"{leases}/l", made.json)).code == 200
    assert (await x.patch(f"{leases}/l", lease, kind="apply", fieldManager="m", force=True)).code == 200
    await access.bind(api, "x", "edit", namespace="default")
    other = {**lease, "metadata": {"name": "m"}}
    assert (await x.put(f"{leases}/m", other)).code == 201
