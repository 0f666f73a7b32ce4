"""Objects that the server stores but does not enforce: it warns about them. The table is `ROWS`.

A warning goes into the `Warning` header of the response, which kubectl and `rota` print.

Security contexts that processes do not have are in `process_security`.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object

_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
#: The runtimes of workers; see `rota.worker.container_config.chosen`.
_RUNTIMES: Final = frozenset({"process", "container"})

#: Whether a row applies to an object.
Applies: TypeAlias = Callable[[Mapping[str, Any]], bool]


class Row(NamedTuple):
    """A kind, or some objects of it, that is not enforced."""

    resource: GroupResource
    text: str
    applies: Applies = lambda _: True


def _spec(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("spec") or {}


def _is_of_type(*types: str) -> Applies:
    return lambda obj: _spec(obj).get("type") in types


def _has_other_protocols(obj: Mapping[str, Any]) -> bool:
    return any(one.get("protocol", "TCP") != "TCP" for one in _spec(obj).get("ports") or ())


_NO_CONTROLLER: Final = "no controller of Rota acts on it"

ROWS: Final = (
    Row(
        GroupResource(_NETWORKING, "networkpolicies"),
        "network policies are not enforced: pods share the network of their machine",
    ),
    Row(
        GroupResource(_NETWORKING, "ingresses"),
        "nothing in Rota serves Ingresses: it takes an ingress controller of your own",
    ),
    Row(
        GroupResource(_FLOW, "flowschemas"),
        "requests are limited by the server's options (--max-requests, --requests-per-second), not by FlowSchemas",
    ),
    Row(
        GroupResource(_FLOW, "prioritylevelconfigurations"),
        "requests are limited by the server's options (--max-requests, --requests-per-second), "
        "not by PriorityLevelConfigurations",
    ),
    Row(
        GroupResource("node.k8s.io", "runtimeclasses"),
        "Rota's workers know the runtime classes process and container: pods of this one do not start there",
        lambda obj: (obj.get("metadata") or {}).get("name") not in _RUNTIMES,
    ),
    Row(
        GroupResource("", "services"),
        "nothing in Rota provides load balancers or opens node ports: the service is reached inside the cluster only",
        _is_of_type("NodePort", "LoadBalancer"),
    ),
    Row(
        GroupResource("", "services"),
        "services of type ExternalName do not resolve for tasks: use the external name itself",
        _is_of_type("ExternalName"),
    ),
    Row(
        GroupResource("", "services"),
        "Rota's workers forward TCP only: ports of other protocols are not reached by the service's address",
        _has_other_protocols,
    ),
    Row(
        GroupResource("", "services"),
        "sessionAffinity is not honoured by Rota's workers: connections go to any ready pod",
        lambda obj: _spec(obj).get("sessionAffinity") == "ClientIP",
    ),
    Row(
        GroupResource("", "services"),
        "externalIPs are not served by Rota's workers",
        lambda obj: bool(_spec(obj).get("externalIPs")),
    ),
    Row(
        GroupResource("", "persistentvolumeclaims"),
        "Rota's workers mount no claims: a pod that uses it does not start there",
    ),
    Row(
        GroupResource("", "replicationcontrollers"),
        f"{_NO_CONTROLLER}, so it has no pods: use a Deployment",
    ),
    Row(
        GroupResource(_NETWORKING, "servicecidrs"),
        "addresses of services come from the server's own network, not from ServiceCIDRs",
    ),
    Row(
        GroupResource(_NETWORKING, "ipaddresses"),
        "addresses of services come from the server's own network, not from IPAddresses",
    ),
    Row(GroupResource("certificates.k8s.io", "podcertificaterequests"), f"{_NO_CONTROLLER}: no certificate is issued"),
    Row(GroupResource("storagemigration.k8s.io", "storageversionmigrations"), f"{_NO_CONTROLLER}: nothing is migrated"),
    Row(GroupResource("lifecycle.k8s.io", "evictionrequests"), f"{_NO_CONTROLLER}: use the eviction of the pod itself"),
    Row(GroupResource("coordination.k8s.io", "leasecandidates"), f"{_NO_CONTROLLER}: no leader is chosen by it"),
    Row(GroupResource("resource.k8s.io", "resourcepoolstatusrequests"), f"{_NO_CONTROLLER}: it gets no answer"),
)  # fmt: skip


class Unenforced:
    """Warns of unenforced objects. Runs after validation: invalid objects are refused for that."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self) -> None:
        self._rows: Final[dict[GroupResource, list[Row]]] = {}
        for row in ROWS:
            self._rows.setdefault(row.resource, []).append(row)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit the request, perhaps with a warning."""
        if new is None or at.subresource:
            return
        for row in self._rows.get(at.resource.group_resource, ()):
            if row.applies(new):
                at.warn(row.text)
