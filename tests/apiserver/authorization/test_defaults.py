"""The default roles: installed and reconciled at every start, and left alone if so annotated."""

import random
from typing import Any

import pytest

from rota.apiserver.authorization import rules
from rota.apiserver.authorization.policy import installer, notation, objects
from rota.testing.access import PATH, rule
from rota.testing.api import ApiServer

_AUTO_UPDATE = {"annotations": {objects.AUTO_UPDATE: "false"}}


async def _start_again(api: ApiServer) -> None:
    await installer.install(api.app.registry, random.Random(1))


async def test_all_defaults_are_there_from_the_start_and_are_valid(api: ApiServer) -> None:
    plurals = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
    for one in objects.all_defaults():
        name, namespace = one["metadata"]["name"], one["metadata"].get("namespace", "")
        plural = plurals.get(one["kind"]) or f"namespaces/{namespace}/{one['kind'].lower()}s"
        stored = (await api.get(f"{PATH}/{plural}/{name}")).json
        assert stored["metadata"]["uid"]
        assert stored["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        again = await api.put(f"{PATH}/{plural}/{name}", stored)
        assert again.code == 200, again
        assert again.json["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


async def test_a_start_adds_what_is_missing_and_keeps_what_was_added(api: ApiServer) -> None:
    path = f"{PATH}/clusterroles/system:node-proxier"
    own = rule("get", "widgets", "example.com")
    assert (await api.patch(path, {"rules": [own], "metadata": {"labels": {"team": "net"}}})).code == 200
    binding = f"{PATH}/clusterrolebindings/system:node-proxier"
    other = [{"kind": "User", "name": "other", "apiGroup": "rbac.authorization.k8s.io"}]
    assert (await api.patch(binding, {"subjects": other})).code == 200
    assert (await api.delete(f"{PATH}/clusterroles/system:kube-dns")).code == 200
    await _start_again(api)
    role = (await api.get(path)).json
    assert role["rules"][0] == own
    wanted = next(one for one in objects.all_defaults() if one["metadata"]["name"] == "system:node-proxier")
    assert not rules.uncovered(rules.from_role(role), rules.from_role(wanted))
    assert role["metadata"]["labels"] == {"team": "net", "kubernetes.io/bootstrapping": "rbac-defaults"}
    names = [one["name"] for one in (await api.get(binding)).json["subjects"]]
    assert names == ["other", "system:kube-proxy"]
    assert (await api.get(f"{PATH}/clusterroles/system:kube-dns")).code == 200


async def test_a_start_leaves_alone_what_says_so(api: ApiServer) -> None:
    path = f"{PATH}/clusterroles/system:discovery"
    assert (await api.patch(path, {"rules": [], "metadata": _AUTO_UPDATE})).code == 200
    await _start_again(api)
    assert not (await api.get(path)).json["rules"]


async def test_a_start_that_finds_all_as_it_should_be_writes_nothing(api: ApiServer) -> None:
    before = (await api.store.revision_range()).revision
    await _start_again(api)
    assert (await api.store.revision_range()).revision == before


async def test_two_servers_may_start_at_once_on_one_store(api: ApiServer) -> None:
    for one in (await api.get(f"{PATH}/clusterroles")).json["items"]:
        await api.delete(f"{PATH}/clusterroles/{one['metadata']['name']}")
    racing = _Racing(api)
    await installer.install(racing, random.Random(2))
    listed = (await api.get(f"{PATH}/clusterroles")).json["items"]
    expected = {one["metadata"]["name"] for one in objects.all_defaults() if one["kind"] == "ClusterRole"}
    assert {one["metadata"]["name"] for one in listed} == expected


class _Racing:
    """A registry where another server installs the defaults between the first look and the first write."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api.app.registry, name)

    async def list(self, resource: Any, namespace: Any = None) -> Any:
        found = await self._api.app.registry.list(resource, namespace)
        self._lists += 1
        if self._lists == 4:
            await _start_again(self._api)
        return found


def test_a_binding_that_binds_another_role_is_put_right() -> None:
    wanted = next(one for one in objects.all_defaults() if one["kind"] == "ClusterRoleBinding")
    existing = {**wanted, "roleRef": {**wanted["roleRef"], "name": "other"}, "subjects": []}
    right = installer.reconciled(wanted, existing)
    assert right is not None
    assert (right["roleRef"], right["subjects"]) == (wanted["roleRef"], wanted["subjects"])


def test_tables_are_read_as_they_are_meant() -> None:
    table = """
first: Group/some:group User/u
        ServiceAccount/ns/name
    read,delete  core,apps  pods,
        deployments  a,b
    get  paths  /x,/y/*
second
    record-events
"""
    first, second = notation.read(table)
    assert first.rules == (
        {
            "apiGroups": ["", "apps"],
            "resources": ["pods", "deployments"],
            "verbs": ["delete", "get", "list", "watch"],
            "resourceNames": ["a", "b"],
        },
        {"nonResourceURLs": ["/x", "/y/*"], "verbs": ["get"]},
    )
    assert first.subjects == (
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "some:group"},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"},
        {"kind": "ServiceAccount", "name": "name", "namespace": "ns"},
    )
    assert (second.name, second.subjects) == ("second", ())
    assert second.rules == (
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    )


@pytest.mark.parametrize(("name", "contains"), [("view", "pods"), ("edit", "pods/exec"), ("admin", "rolebindings")])
async def test_aggregated_roles_are_complete_before_any_controller_runs(
    api: ApiServer, name: str, contains: str
) -> None:
    role = (await api.get(f"{PATH}/clusterroles/{name}")).json
    assert any(contains in one["resources"] for one in role["rules"])
