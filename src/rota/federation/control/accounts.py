"""The accounts of a federation's loops: each has a user of its own, and a role with what it needs.

The loops run in the process of the API server and call it there, without a socket. The API server authorizes each call
as that of the loop's user. Templates may be of any kind, so the loops that read or mark them have those verbs for every
resource, but they create and delete nothing but bindings. Credentials of members are readable in the namespace of
clusters only, and by loops that connect to members only.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from rota.api.users import AUTHENTICATED, User
from rota.client.paths import Target
from rota.federation import kinds

_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = "get list watch"
_SYSTEM: Final = "kube-system"


class Grant(NamedTuple):
    """Verbs on resources of a group, separated by spaces; without a namespace, everywhere."""

    verbs: str
    resources: str
    group: str = ""
    namespace: str = ""
    name: str = ""


_WORK: Final = "work.karmada.io"
_POLICY: Final = "policy.karmada.io"
_CLUSTERS: Final = "cluster.karmada.io"
_CONFIG: Final = "config.karmada.io"
_AUTOSCALING: Final = "autoscaling.karmada.io"
_NETWORKING: Final = "networking.karmada.io"
_OWN: Final = "federation.rota.dev"
_COORDINATION: Final = "coordination.k8s.io"
_BINDINGS: Final = "resourcebindings clusterresourcebindings"
_BINDING_STATUSES: Final = "resourcebindings/status clusterresourcebindings/status"
_INTERPRETERS: Final = "resourceinterpretercustomizations resourceinterpreterwebhookconfigurations"

_CHANGE_BINDINGS: Final = Grant("get patch", _BINDINGS, _WORK)
_REPORT_ON_BINDINGS: Final = Grant("patch", _BINDING_STATUSES, _WORK)
_SEE_TEMPLATES: Final = Grant(_READ, "*", "*")
_OWN_WORKS: Final = Grant("create update delete", "works", _WORK)
_CREDENTIALS: Final = Grant("get", "secrets", namespace=kinds.CLUSTER_NAMESPACE)

#: What each loop may do, besides reading what loops share.
GRANTS: Final[Mapping[str, tuple[Grant, ...]]] = {
    "reader": (
        Grant(_READ, f"{_BINDINGS} works", _WORK),
        Grant(_READ, "clusters", _CLUSTERS),
        Grant(_READ, "memberreports", _OWN),
        Grant(_READ, _INTERPRETERS, _CONFIG),
        Grant(_READ, "customresourcedefinitions", "apiextensions.k8s.io"),
    ),
    "leader": (
        Grant("create", "leases", _COORDINATION, _SYSTEM),
        Grant("get update", "leases", _COORDINATION, _SYSTEM, "rota-federation"),
        Grant("get create patch", "configmaps", namespace=kinds.CLUSTER_NAMESPACE),
    ),
    "clusters": (
        Grant("get patch", "clusters", _CLUSTERS),
        # what agents of pull members may do is granted by this loop, so it holds all of that
        Grant("get patch update", "clusters/status", _CLUSTERS),
        Grant(f"{_READ} patch update", "works", _WORK),
        Grant("get patch update", "works/status", _WORK),
        Grant(_READ, _INTERPRETERS, _CONFIG),
        Grant("get list", "capacitysources", _OWN),
        Grant(f"{_READ} create delete", "memberreports", _OWN),
        Grant("get patch update", "memberreports/status", _OWN),
        Grant(f"{_READ} create patch update delete", "leases", _COORDINATION, kinds.CLUSTER_NAMESPACE),
        Grant("create", "serviceaccounts/token", namespace=kinds.CLUSTER_NAMESPACE),
        Grant("get create delete", "serviceaccounts", namespace=kinds.CLUSTER_NAMESPACE),
        Grant("get create patch delete", "roles rolebindings clusterroles clusterrolebindings", _RBAC),
        Grant("get create delete", "namespaces"),
        Grant("delete", "secrets", namespace=kinds.CLUSTER_NAMESPACE),
        Grant(_READ, "clustertaintpolicies", _POLICY),
        _CREDENTIALS,
    ),
    "detector": (
        Grant(f"{_READ} patch", "*", "*"),
        Grant("create update", _BINDINGS, _WORK),
    ),
    "scheduling": (
        _CHANGE_BINDINGS,
        _REPORT_ON_BINDINGS,
        Grant(_READ, "federatedresourcequotas", _POLICY),
    ),
    "works": (
        Grant("get", "*", "*"),
        Grant("patch", "*/status", "*"),
        Grant("list create update delete", "works", _WORK),
        Grant(_READ, "overridepolicies clusteroverridepolicies", _POLICY),
        _CHANGE_BINDINGS,
    ),
    "evictions": (_CHANGE_BINDINGS, _REPORT_ON_BINDINGS),
    "failback": (_CHANGE_BINDINGS, Grant(_READ, "failbackpolicies", _OWN)),
    "rebalancers": (
        _CHANGE_BINDINGS,
        Grant(f"{_READ} delete", "workloadrebalancers", "apps.karmada.io"),
        Grant("patch", "workloadrebalancers/status", "apps.karmada.io"),
    ),
    "descheduler": (_CHANGE_BINDINGS,),
    "members": (Grant(f"{_READ} patch", "works", _WORK), Grant("patch", "works/status", _WORK), _CREDENTIALS),
    "dependencies": (_SEE_TEMPLATES, Grant("create update delete", "resourcebindings", _WORK)),
    "capacity": (Grant("patch", "clusters/status", _CLUSTERS), Grant(_READ, "capacitysources", _OWN), _CREDENTIALS),
    "quotas": (
        _OWN_WORKS,
        Grant(_READ, "federatedresourcequotas", _POLICY),
        Grant("patch", "federatedresourcequotas/status", _POLICY),
    ),
    "queues": (
        _CHANGE_BINDINGS,
        _REPORT_ON_BINDINGS,
        Grant(_READ, "federatedqueues", _OWN),
        Grant("patch", "federatedqueues/status", _OWN),
    ),
    "replica sync": (
        Grant(f"{_READ} patch", "deployments", "apps"),
        Grant(_READ, "horizontalpodautoscalers", "autoscaling"),
    ),
    "autoscalers": (
        Grant("get patch", "*", "*"),
        Grant(_READ, "federatedhpas", _AUTOSCALING),
        Grant("patch", "federatedhpas/status", _AUTOSCALING),
        Grant("create patch delete", "memberreports", _OWN),
        _CREDENTIALS,
    ),
    "cron autoscalers": (
        Grant("get patch", "*", "*"),
        Grant(_READ, "cronfederatedhpas", _AUTOSCALING),
        Grant("patch", "cronfederatedhpas/status", _AUTOSCALING),
    ),
    "services": (
        _OWN_WORKS,
        Grant(f"{_READ} patch", "services"),
        Grant(f"{_READ} patch", "multiclusterservices", _NETWORKING),
        Grant("patch", "multiclusterservices/status", _NETWORKING),
        Grant("create update patch", "resourcebindings", _WORK),
    ),
    "namespaces": (_OWN_WORKS, Grant(_READ, "namespaces")),
}


def user(loop: str) -> User:
    """The user of a loop."""
    return User(name=role_name(loop), groups=(AUTHENTICATED,))


def role_name(loop: str) -> str:
    """The name of a loop's user and roles."""
    return f"rota:federation:{loop.replace(' ', '-')}"


def roles() -> Iterable[tuple[Target, dict[str, Any]]]:
    """The roles of all loops, and their bindings."""
    for loop, grants in GRANTS.items():
        for namespace in sorted({one.namespace for one in grants}):
            kind = "Role" if namespace else "ClusterRole"
            metadata = {"name": role_name(loop), **({"namespace": namespace} if namespace else {})}
            rules = [_rule(one) for one in grants if one.namespace == namespace]
            yield _target(kind), {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
            yield (
                _target(f"{kind}Binding"),
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": f"{kind}Binding",
                    "metadata": metadata,
                    "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role_name(loop)},
                    "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": role_name(loop)}],
                },
            )


def _target(kind: str) -> Target:
    return (_RBAC, "v1", f"{kind.lower()}s")


def _rule(grant: Grant) -> dict[str, Any]:
    return {
        "apiGroups": [grant.group],
        "resources": grant.resources.split(),
        "verbs": grant.verbs.split(),
        **({"resourceNames": [grant.name]} if grant.name else {}),
    }
