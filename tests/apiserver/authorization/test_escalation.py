"""No user grants permissions that the user does not have."""

from typing import Any

import pytest

from rota.testing import access
from rota.testing.access import PATH, binding, rule
from rota.testing.api import Answer, ApiServer

_ROLES = f"{PATH}/namespaces/dev/roles"
_BINDINGS = f"{PATH}/namespaces/dev/rolebindings"
_MANAGER = rule(
    "create,update,patch,delete,get,list", "roles,rolebindings,clusterroles,clusterrolebindings", access.GROUP
)


def _refused(answer: Answer) -> str:
    assert answer.code == 403, answer
    return str(answer.json["message"])


async def _manager(api: ApiServer, *more: dict[str, Any]) -> ApiServer:
    """A user who may write roles and bindings everywhere, and what else is given."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "dev"}})
    await access.grant(api, "manager", _MANAGER, *more)
    return api.acting_as("manager", "managers")


async def test_a_role_with_more_than_its_writer_has_is_refused_with_what_is_missing(api: ApiServer) -> None:
    manager = await _manager(api, rule("get", "pods"))
    role = {"metadata": {"name": "r"}, "rules": [rule("get,list,delete", "pods,secrets")]}
    answer = await manager.post(_ROLES, role)
    assert _refused(answer) == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "manager" (groups=["managers" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "delete"]}'
    )
    assert answer.json["details"] == {"name": "r", "group": access.GROUP, "kind": "roles"}
    assert (await manager.post(_ROLES, {"metadata": {"name": "r"}, "rules": [rule("get", "pods")]})).code == 201


async def test_a_role_cannot_grow_beyond_its_writer_but_can_shrink_and_be_collected(api: ApiServer) -> None:
    manager = await _manager(api, rule("get,list", "pods"))
    big = [rule("get,list,delete", "pods")]
    assert (await api.post(_ROLES, {"metadata": {"name": "r"}, "rules": big})).code == 201
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert "not currently held" in _refused(await manager.patch(f"{_ROLES}/r", labelled))
    collected = {"metadata": {"finalizers": ["example.com/x"]}}
    assert (await manager.patch(f"{_ROLES}/r", collected)).code == 200
    assert (await manager.patch(f"{_ROLES}/r", {"rules": [rule("get", "pods")]})).code == 200
    assert "not currently held" in _refused(await manager.patch(f"{_ROLES}/r", {"rules": big}))
    applied = {"apiVersion": f"{access.GROUP}/v1", "kind": "Role", "metadata": {"name": "new"}, "rules": big}
    answer = await manager.patch(f"{_ROLES}/new", applied, kind="apply", fieldManager="m")
    assert "not currently held" in _refused(answer)


async def test_the_escalate_verb_allows_any_role(api: ApiServer) -> None:
    manager = await _manager(api, rule("escalate", "roles", access.GROUP))
    assert (await manager.post(_ROLES, {"metadata": {"name": "r"}, "rules": [rule("*", "*", "*")]})).code == 201
    cluster_wide = {"metadata": {"name": "r"}, "rules": [rule("*", "*", "*")]}
    assert "not currently held" in _refused(await manager.post(f"{PATH}/clusterroles", cluster_wide))


async def test_a_binding_needs_the_rights_that_it_gives(api: ApiServer) -> None:
    manager = await _manager(api)
    answer = await manager.post(_BINDINGS, binding("friend", "view"))
    message = _refused(answer)
    assert message.startswith(
        'rolebindings.rbac.authorization.k8s.io "friend-view" is forbidden: user "manager" (groups=["managers" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
    )
    assert '{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list" "watch"]}' in message
    await access.bind(api, "manager", "view", namespace="dev")
    assert (await manager.post(_BINDINGS, binding("friend", "view"))).code == 201
    assert "not currently held" in _refused(await manager.post(f"{PATH}/clusterrolebindings", binding("f", "view")))


async def test_the_bind_verb_allows_binding_the_role_in_its_scope(api: ApiServer) -> None:
    manager = await _manager(api, rule("bind", "clusterroles", access.GROUP, resourceNames=["admin"]))
    assert (await manager.post(_BINDINGS, binding("friend", "admin"))).code == 201
    assert (await manager.post(f"{PATH}/clusterrolebindings", binding("friend", "admin"))).code == 201
    assert "not currently held" in _refused(await manager.post(_BINDINGS, binding("friend", "cluster-admin")))


async def test_a_missing_role_can_only_be_bound_with_the_permission_bind(api: ApiServer) -> None:
    manager = await _manager(api)
    answer = await manager.post(_BINDINGS, binding("friend", "none"))
    assert answer.code == 404
    assert answer.json["message"] == 'rolebindings.rbac.authorization.k8s.io "none" not found'
    assert (await api.post(_BINDINGS, binding("friend", "none"))).code == 201


async def test_a_subject_is_added_only_with_the_permission_to_bind(api: ApiServer) -> None:
    manager = await _manager(api)
    await access.bind(api, "friend", "edit", namespace="dev")
    more = {"subjects": [{"kind": "User", "name": "manager", "apiGroup": access.GROUP}]}
    assert "not currently held" in _refused(await manager.patch(f"{_BINDINGS}/friend-edit", more))


async def test_aggregation_can_grant_anything_so_only_a_user_with_all_permissions_sets_it_up(api: ApiServer) -> None:
    manager = await _manager(api, rule("get", "pods"))
    gathering = {
        "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        "rules": [],
    }
    answer = await manager.post(f"{PATH}/clusterroles", gathering)
    assert _refused(answer) == (
        'clusterroles.rbac.authorization.k8s.io "all" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )
    await access.bind(api, "chief", "cluster-admin")
    assert (await api.acting_as("chief").post(f"{PATH}/clusterroles", gathering)).code == 201


@pytest.mark.parametrize("path", ["nodes/proxy", "pods/exec"])
async def test_a_rule_for_a_resource_does_not_cover_its_subresources(api: ApiServer, path: str) -> None:
    manager = await _manager(api, rule("*", path.partition("/")[0]))
    answer = await manager.post(_ROLES, {"metadata": {"name": "r"}, "rules": [rule("get", path)]})
    assert f'Resources:["{path}"]' in _refused(answer)


async def test_non_resource_paths_are_granted_only_by_users_who_have_them(api: ApiServer) -> None:
    manager = await _manager(api, {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]})

    def role(path: str) -> dict[str, Any]:
        return {"metadata": {"name": "p"}, "rules": [{"verbs": ["get"], "nonResourceURLs": [path]}]}

    answer = await manager.post(f"{PATH}/clusterroles", role("/metrics"))
    assert _refused(answer).endswith('\n{NonResourceURLs:["/metrics"], Verbs:["get"]}')
    assert (await manager.post(f"{PATH}/clusterroles", role("/logs/a/*"))).code == 201
