"""The tables as API objects: all default roles and bindings, in the order in which they are created.

The namespaced roles are those of Kubernetes 1.36, and those for the leader elections of Rota's components.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

from rota.api import roles
from rota.apiserver.authorization.policy import controllers, general, notation, own
from rota.apiserver.interfaces import Object

TABLE: Final = """
kube-public/system:controller:bootstrap-signer: ServiceAccount/kube-system/bootstrap-signer
    read  core  configmaps
    update  core  configmaps  cluster-info
    record-events
kube-system/extension-apiserver-authentication-reader: User/system:kube-controller-manager User/system:kube-scheduler
    read  core  configmaps  extension-apiserver-authentication
kube-system/system::leader-locking-kube-controller-manager: User/system:kube-controller-manager
        ServiceAccount/kube-system/kube-controller-manager ServiceAccount/kube-system/leader-election-controller
    read,create,update  coordination.k8s.io  leases
    read,create,update  coordination.k8s.io  leasecandidates
kube-system/system::leader-locking-kube-scheduler: User/system:kube-scheduler ServiceAccount/kube-system/kube-scheduler
    read,create,update  coordination.k8s.io  leases
    read,create,update  coordination.k8s.io  leasecandidates
kube-system/system:controller:bootstrap-signer: ServiceAccount/kube-system/bootstrap-signer
    read  core  secrets
kube-system/system:controller:cloud-provider: ServiceAccount/kube-system/cloud-provider
    read,create  core  configmaps
kube-system/system:controller:token-cleaner: ServiceAccount/kube-system/token-cleaner
    read,delete  core  secrets
    record-events
kube-system/rota:controller:join-tokens: User/rota:controller:join-tokens
    read,delete  core  secrets
kube-system/rota:controller:spot-places: User/rota:controller:spot
    create  core  pods
kube-system/rota:leader-election-controllers: User/rota:controllers
    create  coordination.k8s.io  leases
    get,update,patch  coordination.k8s.io  leases  rota-controllers
kube-system/rota:masters: User/rota:masters
    read,create,update,patch,delete  coordination.k8s.io  leases
kube-system/rota:masters-view: Group/system:nodes
    read  coordination.k8s.io  leases
kube-system/rota:leader-election-scheduler: User/rota:scheduler
    create  coordination.k8s.io  leases
    get,update,patch  coordination.k8s.io  leases  kube-scheduler
kube-system/rota:scheduler-shards: User/rota:scheduler
    read,create,update,delete  coordination.k8s.io  leases
"""

#: A binding whose name is not its role's.
BINDING_NAMES: Final = {
    "extension-apiserver-authentication-reader": "system::extension-apiserver-authentication-reader"
}


_GROUP: Final = "rbac.authorization.k8s.io"
_API_VERSION: Final = f"{_GROUP}/v1"
#: With the value "false", a server does not update the object when it starts.
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
#: Aggregated roles, and the role that each is aggregated to itself.
_AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
_SUMMAND: Final = "system:aggregate-to-"
_CONTROLLER: Final = "system:controller:"


@functools.cache
def all_defaults() -> tuple[Object, ...]:
    """Every default role and binding; not to be changed."""
    cluster_roles = list(_cluster_roles())
    for role in cluster_roles:
        if "aggregationRule" in role:
            role["rules"] = roles.aggregated_rules(role, cluster_roles)
    return (*cluster_roles, *_cluster_bindings(), *_namespaced())


def _cluster_roles() -> Iterator[Object]:
    for grant in _grants():
        summand = (
            grant.name.removeprefix(_SUMMAND) if grant.name.startswith(_SUMMAND) else own.PART_OF.get(grant.name, "")
        )
        yield _object("ClusterRole", grant.name, labels=_into(summand), rules=list(grant.rules))
    # the smaller ones first, since the larger ones are built from them
    for name, greater in reversed(_AGGREGATED.items()):
        selectors = [{"matchLabels": _into(name)}]
        yield _object(
            "ClusterRole", name, labels=_into(greater), aggregationRule={"clusterRoleSelectors": selectors}, rules=[]
        )


def _cluster_bindings() -> Iterator[Object]:
    for grant in _grants():
        if grant.subjects:
            yield _binding("ClusterRoleBinding", grant.name, "ClusterRole", grant.name, list(grant.subjects))
    yield _binding("ClusterRoleBinding", general.UNBOUND, "ClusterRole", general.UNBOUND, [])
    for name, (role, who) in own.BINDINGS.items():
        yield _binding("ClusterRoleBinding", name, "ClusterRole", role, [notation.subject(who)])


def _namespaced() -> Iterator[Object]:
    grants = list(notation.read(TABLE))
    for grant in grants:
        namespace, _, name = grant.name.partition("/")
        yield _object("Role", name, namespace=namespace, rules=list(grant.rules))
    for grant in grants:
        namespace, _, name = grant.name.partition("/")
        bound = BINDING_NAMES.get(name, name)
        yield _binding("RoleBinding", bound, "Role", name, list(grant.subjects), namespace=namespace)


def _grants() -> Iterator[notation.Grant]:
    yield from notation.read(general.TABLE)
    yield from notation.read(own.TABLE)
    for grant in notation.read(controllers.TABLE):
        account = notation.subject(f"ServiceAccount/kube-system/{grant.name}")
        yield notation.Grant(_CONTROLLER + grant.name, grant.rules, (account,))


def _into(name: str) -> dict[str, str]:
    return {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"} if name else {}


def _binding(
    kind: str, name: str, role_kind: str, role: str, subjects: list[dict[str, str]], *, namespace: str = ""
) -> Object:
    reference = {"apiGroup": _GROUP, "kind": role_kind, "name": role}
    content: Object = {"roleRef": reference} | ({"subjects": subjects} if subjects else {})
    return _object(kind, name, namespace=namespace, **content)


def _object(
    kind: str, name: str, *, namespace: str = "", labels: dict[str, str] | None = None, **content: Any
) -> Object:
    metadata: Object = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": _LABELS | (labels or {}),
        "annotations": {AUTO_UPDATE: "true"},
    }
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, **content}
