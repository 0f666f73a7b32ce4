"""The victims on one node, and the best of several nodes. Pure.

On a node, all pods of lower priority are removed. If the pod then fits, they are put back one by one while it still
fits, those protected by a budget first, the most important first. The pods that cannot be put back are the victims. Of
several nodes, the one where the least is lost is chosen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rota.api import selectors
from rota.api.selectors import Selector, SelectorError
from rota.columns.catalog import Catalog
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import Reprieves
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status, unresolvable

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")

#: Sorts after any time: pods that are not started count as started just now.
_NOT_STARTED = "~"
_OFFSET = 1 << 31


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget as preemption uses it."""

    namespace: str
    selector: Selector
    allowed: int
    #: Pods whose eviction the API server has already granted; they do not count again.
    disrupted: frozenset[str]

    def covers(self, pod: PodInfo) -> bool:
        """Whether evicting the pod is charged to this budget."""
        return (
            pod.namespace == self.namespace
            and bool(pod.labels)
            and not self.selector.empty
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )


class Candidate:
    """A node and its victims, most important first."""

    __slots__ = ("loss", "node_name", "victims", "violations")

    def __init__(self, node_name: str, victims: tuple[PodInfo, ...], violations: int) -> None:
        self.node_name = node_name
        self.victims = victims
        #: How many of the victims are protected by their budgets.
        self.violations = violations
        priorities = [victim.shape.priority for victim in victims]
        #: The loss, for comparison: PDB violations, highest priority, sum of priorities, number of pods.
        self.loss = (violations, max(priorities, default=0), sum(priorities) + _OFFSET * len(victims), len(victims))


def budgets(catalog: Catalog) -> list[Budget]:
    """Read the disruption budgets; one with an invalid selector protects nothing."""
    found = []
    for document in catalog.list("PodDisruptionBudget"):
        spec, status = document.get("spec") or {}, document.get("status") or {}
        try:
            selector = selectors.from_object(spec.get("selector"))
        except SelectorError:
            continue
        found.append(
            Budget(
                namespace=document["metadata"].get("namespace") or "default",
                selector=selector,
                allowed=status.get("disruptionsAllowed") or 0,
                disrupted=frozenset(status.get("disruptedPods") or ()),
            )
        )
    return found


def importance(pod: PodInfo) -> tuple[int, str]:
    """A key that sorts the most important pod first: by priority, then by age."""
    return -pod.shape.priority, pod.start_time or _NOT_STARTED


def split(pods: Iterable[PodInfo], limits: Sequence[Budget]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split pods into those whose eviction would violate a budget, and the others; order is kept."""
    if not limits:
        return [], list(pods)
    left = [budget.allowed for budget in limits]
    breaking: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for position, budget in enumerate(limits):
            if budget.covers(pod):
                left[position] -= 1
                breaks = breaks or left[position] < 0
        (breaking if breaks else others).append(pod)
    return breaking, others


def select_victims(
    handle: Handle, state: CycleState, pod: PodInfo, node: NodeInfo, *, limits: Sequence[Budget]
) -> Candidate | Status:
    """Find the fewest pods that must leave a node; `state` and `node` are copies, and are changed."""
    lower = [other for other in node.pods.values() if other.shape.priority < pod.shape.priority]
    if not lower:
        return NO_VICTIMS
    for other in lower:
        node.remove_pod(other)
        answer = handle.remove_existing_pod(state, pod, other, node)
        if not answer.ok:
            return answer
    answer = handle.filter_node(state, pod, node)
    if not answer.ok:
        return answer
    breaking, others = split(sorted(lower, key=importance), limits)
    victims: list[PodInfo] = []
    protected = {other.uid for other in breaking}
    for other in (*breaking, *others):
        node.add_pod(other)
        answer = handle.add_existing_pod(state, pod, other, node)
        if not answer.ok:
            return answer
        if handle.filter_node(state, pod, node).ok:
            continue
        node.remove_pod(other)
        answer = handle.remove_existing_pod(state, pod, other, node)
        if not answer.ok:
            return answer
        victims.append(other)
    violations = sum(victim.uid in protected for victim in victims)
    if breaking and others:
        victims.sort(key=importance)
    return Candidate(node.name, tuple(victims), violations)


def select_by_sums(
    reprieving: Reprieves, state: CycleState, pod: PodInfo, node: NodeInfo, *, limits: Sequence[Budget]
) -> Candidate | Status:
    """The same for a node whose pods matter to a single filter that works by sums."""
    lower = [other for other in node.pods.values() if other.shape.priority < pod.shape.priority]
    if not lower:
        return NO_VICTIMS
    lower.sort(key=importance)
    breaking, others = split(lower, limits)
    ordered = [*breaking, *others]
    stays = reprieving.reprieve(state, pod, node, ordered)
    if isinstance(stays, Status):
        return stays
    victims = [other for other, stay in zip(ordered, stays, strict=True) if not stay]
    violations = len(breaking) - sum(stays[: len(breaking)])
    if breaking and others:
        victims.sort(key=importance)
    return Candidate(node.name, tuple(victims), violations)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the least loss; of equals, the first."""
    lowest = min([candidate.loss for candidate in candidates])
    return max([candidate for candidate in candidates if candidate.loss == lowest], key=_earliest_start)


def _earliest_start(candidate: Candidate) -> str:
    """When the oldest of the most important victims was started; the later, the smaller the loss."""
    highest = max(victim.shape.priority for victim in candidate.victims)
    return min(victim.start_time or _NOT_STARTED for victim in candidate.victims if victim.shape.priority == highest)
