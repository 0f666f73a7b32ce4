"""What of a node is sold: the figures that decisions rest on, in a form that people can check.

As in Kubernetes, allocatable is all that a node has for pods, taken or not; requested is the sum over the pods that
were placed there, whether the API server has said so (bound) or this scheduler expects it to (assumed). What is free is
the difference, and may be less than zero where somebody else oversold the node or it shrank.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rota.api import resources
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAccount:
    """What one pod takes."""

    pod: str
    uid: str
    requests: Amounts
    assumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccount:
    """A node's figures by resource: cpu in thousandths, pods as a number, all else in units."""

    node: str
    unschedulable: bool
    allocatable: Amounts
    bound: Amounts
    assumed: Amounts
    shares: tuple[ResourceAccount, ...]

    @property
    def requested(self) -> Amounts:
        """All that was promised: bound and assumed."""
        return _sum((self.bound, self.assumed))

    @property
    def free(self) -> Amounts:
        """What is left of everything that the node has or owes."""
        offered, requested = self.allocatable, self.requested
        return {name: offered.get(name, 0) - requested.get(name, 0) for name in {**offered, **requested}}


def account(node: NodeInfo, assumed: Collection[str] = ()) -> NodeAccount:
    """Draw up the account of a node; `assumed` holds the uids of pods that have not been seen bound."""
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
