"""The account of a pull member's agent in the control plane: ServiceAccount, roles and Lease.

An agent may read its own Cluster and write its status, change the Works of its own cluster, answer its MemberReports,
renew its own Lease and request a new token for itself. It may also read interpreter configurations and CapacitySources,
and do nothing else, so a member that is taken over does not reach other members.
"""

import contextlib
from typing import Any, Final

from rota.api import errors
from rota.client.paths import Target
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final[Target] = (_RBAC, "v1", "roles")
ROLE_BINDINGS: Final[Target] = (_RBAC, "v1", "rolebindings")
_CLUSTER_ROLES: Final[Target] = (_RBAC, "v1", "clusterroles")
_CLUSTER_ROLE_BINDINGS: Final[Target] = (_RBAC, "v1", "clusterrolebindings")
_MANAGER: Final = "rota-federation"


def is_pull(cluster: Object) -> bool:
    """Whether an agent serves a cluster."""
    return (cluster.get("spec") or {}).get("syncMode") == "Pull"


def role_of(cluster: str) -> str:
    """The name of the roles of a cluster's agent."""
    return f"rota:federation-agent:{cluster}"


def account_objects(cluster: str) -> list[tuple[Target, dict[str, Any]]]:
    """The account of a cluster's agent: everything that it may do, and the Lease that it renews."""
    space, shared = object_names.execution_space(cluster), kinds.CLUSTER_NAMESPACE
    own_cluster = {"apiGroups": ["cluster.karmada.io"], "resourceNames": [cluster]}
    works = {"apiGroups": ["work.karmada.io"]}
    reports = {"apiGroups": ["federation.rota.dev"]}
    configuration = ["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"]
    return [
        (kinds.SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", **_named(cluster, shared)}),
        (
            kinds.LEASES,
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **_named(cluster, shared), "spec": {}},
        ),
        *_role(
            cluster,
            "",
            [
                {**own_cluster, "resources": ["clusters"], "verbs": ["get"]},
                {**own_cluster, "resources": ["clusters/status"], "verbs": ["get", "patch", "update"]},
                {"apiGroups": ["config.karmada.io"], "resources": configuration, "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["federation.rota.dev"], "resources": ["capacitysources"], "verbs": ["get", "list"]},
            ],
        ),
        *_role(
            cluster,
            space,
            [
                {**works, "resources": ["works"], "verbs": ["get", "list", "watch", "patch", "update"]},
                {**works, "resources": ["works/status"], "verbs": ["get", "patch", "update"]},
                {**reports, "resources": ["memberreports"], "verbs": ["get", "list", "watch"]},
                {**reports, "resources": ["memberreports/status"], "verbs": ["get", "patch", "update"]},
            ],
        ),
        *_role(
            cluster,
            shared,
            [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "resourceNames": [cluster],
                    "verbs": ["get", "patch", "update"],
                },
                {
                    "apiGroups": [""],
                    "resources": ["serviceaccounts/token"],
                    "resourceNames": [cluster],
                    "verbs": ["create"],
                },
            ],
        ),
    ]


async def admit(client: Client, cluster: str) -> None:
    """Create what is missing of an agent's account, and correct its roles; an existing Lease stays as it is."""
    for target, wanted in account_objects(cluster):
        metadata = wanted["metadata"]
        try:
            present = await client.get(target, metadata["name"], namespace=metadata.get("namespace", ""))
        except errors.NotFound:
            with contextlib.suppress(errors.AlreadyExists):
                await client.create(target, wanted)
            continue
        if any(present.get(member) != wanted[member] for member in ("rules", "subjects") if member in wanted):
            await client.apply(target, wanted, field_manager=_MANAGER, force=True)


async def dismiss(client: Client, cluster: str) -> None:
    """Delete the account, so that its tokens are refused from now on; the roles of its namespace go with that."""
    shared, name = kinds.CLUSTER_NAMESPACE, role_of(cluster)
    for target, what, namespace in (
        (kinds.SERVICE_ACCOUNTS, cluster, shared),
        (kinds.LEASES, cluster, shared),
        (ROLE_BINDINGS, name, shared),
        (_ROLES, name, shared),
        (_CLUSTER_ROLE_BINDINGS, name, ""),
        (_CLUSTER_ROLES, name, ""),
    ):
        with contextlib.suppress(errors.NotFound):
            await client.delete(target, what, namespace=namespace)


def _named(name: str, namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}


def _role(cluster: str, namespace: str, rules: list[dict[str, Any]]) -> list[tuple[Target, dict[str, Any]]]:
    kind, version, name = "Role" if namespace else "ClusterRole", f"{_RBAC}/v1", role_of(cluster)
    return [
        (
            _ROLES if namespace else _CLUSTER_ROLES,
            {"apiVersion": version, "kind": kind, **_named(name, namespace), "rules": rules},
        ),
        (
            ROLE_BINDINGS if namespace else _CLUSTER_ROLE_BINDINGS,
            {
                "apiVersion": version,
                "kind": f"{kind}Binding",
                **_named(name, namespace),
                "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": cluster, "namespace": kinds.CLUSTER_NAMESPACE}],
            },
        ),
    ]
