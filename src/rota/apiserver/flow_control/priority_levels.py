"""Priority levels: a compact form of upstream's flow schemas and priority levels. Pure.

A level has a share of the seats; other levels may borrow what it does not use, except for a guaranteed part. Within a
level the users take turns. So many requests of one kind slow down only themselves: nodes keep renewing their leases,
controllers keep working, and members of `system:masters` can always get in. The object of a request alone never raises
its level: the higher levels are for users who run the cluster, since any user can request a lease, and be refused, many
times.
"""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rota.apiserver.interfaces import User
from rota.apiserver.routing import Route

_MASTERS: Final = "system:masters"
_NODES: Final = "system:nodes"
_WORKLOADS: Final = "system:serviceaccounts"
_SYSTEM_WORKLOADS: Final = "system:serviceaccounts:kube-system"
#: Prefixes of the names of users that run the cluster: upstream's components and Rota's own.
_COMPONENTS: Final = ("system:kube-", "rota:")
_HEALTH: Final = frozenset({"healthz", "livez", "readyz"})
_BEATS: Final = frozenset({"get", "create", "update", "patch"})
_STREAMED: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
#: Lists hold many objects in memory at once, and send them.
_WIDTHS: Final = {"list": 4, "deletecollection": 4}


class PriorityLevel(enum.IntEnum):
    """Requests that share seats; a number, since it is looked up with every request."""

    #: Never queued or refused.
    EXEMPT = 0
    #: Leases of users who run the cluster, and node statuses: without them a healthy cluster looks dead.
    HEARTBEATS = 1
    #: Schedulers, controllers, nodes, and service accounts of kube-system.
    SYSTEM = 2
    #: Service accounts: clients in pods.
    WORKLOADS = 3
    #: People and anonymous users.
    OTHERS = 4

    @property
    def label(self) -> str:
        """Its name in metrics."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Share:
    """A level's share of the seats."""

    #: In percent of all seats.
    nominal: int
    #: The part of it, in percent, that other levels cannot borrow.
    own: int


SHARES: Final[Mapping[PriorityLevel, Share]] = {
    PriorityLevel.HEARTBEATS: Share(nominal=20, own=100),
    PriorityLevel.SYSTEM: Share(nominal=30, own=50),
    PriorityLevel.WORKLOADS: Share(nominal=30, own=20),
    PriorityLevel.OTHERS: Share(nominal=20, own=20),
}


@dataclass(frozen=True, slots=True)
class Allotment:
    """A level's share in seats."""

    nominal: int
    own: int


def allot(seats: int) -> dict[PriorityLevel, Allotment]:
    """The seats of each level that has any; at least one of them is guaranteed."""
    allotments = {}
    for level, share in SHARES.items():
        nominal = max(1, seats * share.nominal // 100)
        allotments[level] = Allotment(nominal, max(1, math.ceil(nominal * share.own / 100)))
    return allotments


def level_of(user: User, route: Route | None, path: str = "") -> PriorityLevel:
    """The level of a request; `route` is None for non-resource paths."""
    groups = user.groups
    if _MASTERS in groups or (route is None and _is_health(path)):
        return PriorityLevel.EXEMPT
    if _NODES in groups or _SYSTEM_WORKLOADS in groups or user.name.startswith(_COMPONENTS):
        return PriorityLevel.HEARTBEATS if route is not None and _is_beat(groups, route) else PriorityLevel.SYSTEM
    return PriorityLevel.WORKLOADS if _WORKLOADS in groups else PriorityLevel.OTHERS


def _is_beat(groups: tuple[str, ...], route: Route) -> bool:
    if route.verb not in _BEATS:
        return False
    plural, group = route.resource.plural, route.resource.group
    return (plural == "leases" and group == "coordination.k8s.io") or (
        plural == "nodes" and route.subresource == "status" and _NODES in groups
    )


def _is_health(path: str) -> bool:
    """Whether a path is a health check, or below one."""
    return path.startswith("/") and path[1:].partition("/")[0] in _HEALTH


def is_long_running(route: Route) -> bool:
    """Whether the response may last as long as the client wants."""
    return route.verb == "watch" or route.subresource in _STREAMED


def width_of(route: Route | None) -> int:
    """How many seats a request takes."""
    return 1 if route is None else _WIDTHS.get(route.verb, 1)
