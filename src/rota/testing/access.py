"""Grants rights to users, for tests of authorization.

await access.grant(api, "alice", access.rule("get,list", "pods"), namespace="dev")
alice = api.acting_as("alice")
"""

from typing import Any, Final

from rota.testing.api import ApiServer

GROUP: Final = "rbac.authorization.k8s.io"
PATH: Final = f"/apis/{GROUP}/v1"


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> dict[str, Any]:
    """A rule about the resources of one group."""
    return {"verbs": verbs.split(","), "resources": resources.split(","), "apiGroups": [group], **more}


def binding(user: str, role: str, *, kind: str = "ClusterRole", name: str = "") -> dict[str, Any]:
    """A binding of a user to a role."""
    return {
        "metadata": {"name": name or f"{user}-{role}".replace(":", "-")},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}],
    }


async def bind(api: ApiServer, user: str, role: str, *, namespace: str = "", kind: str = "ClusterRole") -> None:
    """Bind a user to an existing role, in all namespaces or in one."""
    place = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    answer = await api.post(f"{PATH}/{place}", binding(user, role, kind=kind))
    assert answer.code == 201, answer


async def grant(api: ApiServer, user: str, *rules: dict[str, Any], namespace: str = "") -> None:
    """Grant rules to a user by a new role, in all namespaces or in one."""
    place = f"namespaces/{namespace}/roles" if namespace else "clusterroles"
    answer = await api.post(f"{PATH}/{place}", {"metadata": {"name": f"for-{user}"}, "rules": list(rules)})
    assert answer.code == 201, answer
    await bind(api, user, f"for-{user}", namespace=namespace, kind="Role" if namespace else "ClusterRole")
