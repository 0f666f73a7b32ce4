"""The plan of draining a node: the pods to evict, the pods that stay, and the refusals.

Pure: pods and the operator's options in, a plan out; the rules are kubectl's (`kubectl drain`, 1.37). DaemonSet pods
would return at once, mirror pods belong to the node, and ended pods use no resources. Pods without a controller would
not be recreated, and the data in an emptyDir is lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rota.api import meta
from rota.client.verbs import Object

_MIRROR: Final = "kubernetes.io/config.mirror"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The operator's options."""

    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    #: Also pods that no controller would recreate.
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan. With a refusal, nothing is done at all."""

    evict: tuple[Object, ...] = ()
    #: Pods that stay, and the reason.
    stay: tuple[tuple[Object, str], ...] = ()
    #: Pods that are evicted, and what is lost with them.
    lost: tuple[tuple[Object, str], ...] = ()
    #: Pods that block the drain, and the option that would allow their eviction.
    refused: tuple[tuple[Object, str, str], ...] = ()


def plan(pods: Iterable[Object], allowance: Allowance) -> Plan:
    """Decide about the pods of a node."""
    evict: list[Object] = []
    stay: list[tuple[Object, str]] = []
    lost: list[tuple[Object, str]] = []
    refused: list[tuple[Object, str, str]] = []
    for pod in pods:
        if _MIRROR in meta.annotations(pod):
            stay.append((pod, "belongs to the node itself"))
            continue
        over = (pod.get("status") or {}).get("phase") in _FINISHED
        owner = meta.controller_of(pod)
        if owner is not None and owner.get("kind") == "DaemonSet" and not over:
            if allowance.ignore_daemonsets:
                stay.append((pod, "of a DaemonSet, which would start it again"))
            else:
                refused.append((pod, "is of a DaemonSet, which would start it again", "--ignore-daemonsets"))
            continue
        faults = [] if over else _faults(pod, owner, allowance)
        refused += [(pod, why, option) for why, option, allowed in faults if not allowed]
        lost += [(pod, why) for why, _, allowed in faults if allowed]
        evict.append(pod)
    return Plan(evict=tuple(evict), stay=tuple(stay), lost=tuple(lost), refused=tuple(refused))


def _faults(pod: Object, owner: meta.Object | None, allowance: Allowance) -> list[tuple[str, str, bool]]:
    """What would be lost with a pod: the reason, the option that allows it, and whether it is allowed."""
    found = []
    if any("emptyDir" in one for one in (pod.get("spec") or {}).get("volumes") or ()):
        found.append(("has data in an emptyDir", "--delete-emptydir-data", allowance.delete_emptydir_data))
    if owner is None:
        found.append(("has no controller that would start it elsewhere", "--force", allowance.force))
    return found
