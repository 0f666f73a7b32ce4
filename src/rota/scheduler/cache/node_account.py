"""The resource account of a node: allocatable, requested and free.

As in Kubernetes, allocatable is all that a node offers to pods. Requested is the sum over the pods placed there: bound
(confirmed by the API server) or assumed (expected by this scheduler). Free is the difference. It is negative if another
component overcommitted the node or the node shrank.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rota.api import resources
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAccount:
    """The requests of one pod."""

    pod: str
    uid: str
    requests: Amounts
    assumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccount:
    """A node's amounts by resource: cpu in millicores, pods as a count, everything else in units."""

    node: str
    unschedulable: bool
    allocatable: Amounts
    bound: Amounts
    assumed: Amounts
    shares: tuple[ResourceAccount, ...]

    @property
    def requested(self) -> Amounts:
        """The sum of all requests, bound and assumed."""
        return _sum((self.bound, self.assumed))

    @property
    def free(self) -> Amounts:
        """Allocatable minus requested, for every resource that occurs in either."""
        offered, requested = self.allocatable, self.requested
        return {name: offered.get(name, 0) - requested.get(name, 0) for name in {**offered, **requested}}


def account(node: NodeInfo, assumed: Collection[str] = ()) -> NodeAccount:
    """Compute the account of a node; `assumed` holds the uids of pods that are not seen as bound yet."""
    shares = tuple(_share(pod, assumed=pod.uid in assumed) for pod in node.pods.values())
    return NodeAccount(
        node=node.name,
        unschedulable=node.unschedulable,
        allocatable={**node.allocatable, resources.PODS: node.allowed_pods},
        bound=_sum(share.requests for share in shares if not share.assumed),
        assumed=_sum(share.requests for share in shares if share.assumed),
        shares=shares,
    )


def _share(pod: PodInfo, *, assumed: bool) -> ResourceAccount:
    return ResourceAccount(
        pod=pod.key, uid=pod.uid, requests={**pod.shape.requests, resources.PODS: 1}, assumed=assumed
    )


def _sum(amounts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total
