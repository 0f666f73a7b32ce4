"""Which requests share a priority level."""

import pytest

from rota.api import scheme
from rota.apiserver import routing
from rota.apiserver.flow_control import priority_levels
from rota.apiserver.flow_control.priority_levels import PriorityLevel
from rota.apiserver.interfaces import User

ADMIN = User(name="admin", groups=("system:masters", "system:authenticated"))
NODE = User(name="system:node:n1", groups=("system:nodes", "system:authenticated"))
SCHEDULER = User(name="system:kube-scheduler", groups=("system:authenticated",))
COLLECTOR = User(name="rota:controller:garbage", groups=("system:authenticated",))
COREDNS = User(
    name="system:serviceaccount:kube-system:coredns",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
POD = User(
    name="system:serviceaccount:default:app",
    groups=("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
)
PERSON = User(name="ann", groups=("system:authenticated",))
NOBODY = User(name="system:anonymous", groups=("system:unauthenticated",))

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
ELECTION = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rota-controllers"
STATUS = "/api/v1/nodes/n1/status"
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("user", "method", "path", "level"),
    [
        (ADMIN, "GET", PODS, PriorityLevel.EXEMPT),
        (NODE, "PUT", LEASE, PriorityLevel.HEARTBEATS),
        (SCHEDULER, "PUT", LEASE, PriorityLevel.HEARTBEATS),
        (COLLECTOR, "PUT", ELECTION, PriorityLevel.HEARTBEATS),
        (COREDNS, "PUT", ELECTION, PriorityLevel.HEARTBEATS),
        (POD, "PUT", LEASE, PriorityLevel.WORKLOADS),
        (PERSON, "PUT", ELECTION, PriorityLevel.OTHERS),
        (NOBODY, "GET", LEASE, PriorityLevel.OTHERS),
        (NODE, "PATCH", STATUS, PriorityLevel.HEARTBEATS),
        (POD, "PATCH", STATUS, PriorityLevel.WORKLOADS),
        (NODE, "GET", PODS, PriorityLevel.SYSTEM),
        (PERSON, "GET", "/apis/coordination.k8s.io/v1/leases", PriorityLevel.OTHERS),
        (SCHEDULER, "GET", PODS, PriorityLevel.SYSTEM),
        (COLLECTOR, "GET", PODS, PriorityLevel.SYSTEM),
        (COREDNS, "GET", PODS, PriorityLevel.SYSTEM),
        (POD, "GET", PODS, PriorityLevel.WORKLOADS),
        (PERSON, "GET", PODS, PriorityLevel.OTHERS),
        (NOBODY, "GET", "/version", PriorityLevel.OTHERS),
        (POD, "GET", "/version", PriorityLevel.WORKLOADS),
    ],
)
def test_a_request_belongs_to_one_level(user: User, method: str, path: str, level: PriorityLevel) -> None:
    assert priority_levels.level_of(user, routing.match(scheme.builtin(), method, path)) is level


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/", "/livez/store"])
def test_health_checks_are_never_queued(path: str) -> None:
    assert priority_levels.level_of(NOBODY, None, path) is PriorityLevel.EXEMPT


@pytest.mark.parametrize("path", ["", "/", "/healthz-anything", "/livezz/store", "healthz", "//healthz", "/a/healthz"])
def test_a_path_that_resembles_one_of_health_waits_with_the_others(path: str) -> None:
    assert priority_levels.level_of(NOBODY, None, path) is PriorityLevel.OTHERS


def test_lists_take_more_seats() -> None:
    assert priority_levels.width_of(routing.match(scheme.builtin(), "GET", PODS)) > 1
    assert priority_levels.width_of(routing.match(scheme.builtin(), "GET", PODS, watch=True)) == 1
    assert priority_levels.width_of(None) == 1


@pytest.mark.parametrize("seats", [1, 2, 10, 100, 600, 5000])
def test_shares_add_up(seats: int) -> None:
    allotments = priority_levels.allot(seats)
    assert all(1 <= one.own <= one.nominal for one in allotments.values())
    assert sum(share.nominal for share in priority_levels.SHARES.values()) == 100
    if seats >= 10:
        assert sum(one.own for one in allotments.values()) <= seats * 6 // 10
