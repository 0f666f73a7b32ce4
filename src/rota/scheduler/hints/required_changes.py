"""The changes by which a pod would fit: shortages, taints and labels, summed over nodes. Pure.

Every refusal of every node goes to the describer of its plugin, which returns a `_Matter`: the obstacle, in a form in
which equal obstacles of several nodes can be summed. Refusals of plugins without a describer are quoted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rota.api import amounts, resources
from rota.columns import affinities, objects, requirements, taints
from rota.columns.affinities import clause_of
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.status import Status
from rota.scheduler.hints.explanation_report import Change
from rota.scheduler.plugins import inter_pod_affinity

#: How many nodes are named per change.
EXAMPLES: Final = 3
_INSUFFICIENT: Final = "Insufficient "


@dataclass(frozen=True, slots=True)
class _Matter:
    """An obstacle; equal ones are summed. `{nodes}` in the text becomes "3 nodes"."""

    text: str
    #: The resources that are short, if that is the obstacle.
    short_of: tuple[str, ...] = ()
    #: The resource of which even the empty node has too little.
    beyond: str = ""


@dataclass(slots=True)
class _Tally:
    """The nodes with the same obstacle."""

    names: list[str] = field(default_factory=list)
    #: Those of them where it is the only obstacle.
    opened: list[str] = field(default_factory=list)
    #: By node, how much of each resource is missing, or (`beyond`) its whole capacity.
    amounts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: The pods that are the obstacle there, in the order in which they were found.
    pods: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Found:
    matter: _Matter
    amounts: tuple[int, ...] = ()
    #: The pods that are the obstacle, if pods are.
    pods: tuple[str, ...] = ()


class Shortage(NamedTuple):
    """The shortage of nodes that lack the same resources and have no other obstacle."""

    names: tuple[str, ...]
    #: The node where the least is missing, and how much.
    nearest: str
    least: tuple[int, ...]
    #: The largest amount of each that is missing on any node.
    most: tuple[int, ...]
    nodes: int


class Conflicts:
    """The placed pods that conflict by required anti-affinity, by topology domain; computed on demand."""

    def __init__(self, pod: PodInfo, cluster: Cluster) -> None:
        self._pod = pod
        self._cluster = cluster
        self._by_domain: dict[tuple[str, str], dict[str, None]] | None = None
        self._by_others: dict[tuple[str, str], dict[str, None]] = {}

    def at(self, node: NodeInfo, *, of_others: bool) -> dict[str, list[str]]:
        """The conflicting pods around a node, by topology key: by the pod's own terms, or by those of the others."""
        if self._by_domain is None:
            self._by_domain = {}
            self._look()
        known = self._by_others if of_others else self._by_domain
        found: dict[str, list[str]] = {}
        for (key, value), pods in known.items():
            if node.labels.get(key) == value:
                found.setdefault(key, []).extend(pods)
        return found

    def _look(self) -> None:
        assert self._by_domain is not None
        catalog, shape = self._cluster.catalog, self._pod.shape
        own = [(term.topology_key, clause_of(term, catalog)) for term in shape.required_anti_affinity]
        for info in self._cluster.node_infos():
            for other in info.pods.values():
                for key, clause in own:
                    if key in info.labels and clause.matches(other.shape.group):
                        self._by_domain.setdefault((key, info.labels[key]), {})[other.key] = None
                for term in other.shape.required_anti_affinity:
                    key = term.topology_key
                    if key in info.labels and clause_of(term, catalog).matches(shape.group):
                        self._by_others.setdefault((key, info.labels[key]), {})[other.key] = None


Describer = Callable[[PodInfo, NodeInfo, Status, Conflicts], Iterable[_Found]]


def needed(pod: PodInfo, refused: Iterable[tuple[NodeInfo, Sequence[Status]]], cluster: Cluster) -> tuple[Change, ...]:
    """Sum the obstacles of all nodes that refuse the pod, the most promising first."""
    tallies: dict[tuple[str, _Matter], _Tally] = {}
    conflicts = Conflicts(pod, cluster)
    for node, refusals in refused:
        found = [(refusal.plugin, each) for refusal in refusals for each in _described(pod, node, refusal, conflicts)]
        for plugin, each in found:
            tally = tallies.setdefault((plugin, each.matter), _Tally())
            tally.names.append(node.name)
            tally.amounts[node.name] = each.amounts
            tally.pods.update(dict.fromkeys(each.pods))
            if len(found) == 1:
                tally.opened.append(node.name)
    told = [(matter.beyond, _change(plugin, matter, tally)) for (plugin, matter), tally in tallies.items()]
    # Nodes that are too small even when empty come last.
    told.sort(key=lambda each: (bool(each[0]), -each[1].opens, -each[1].nodes, each[1].plugin, each[1].text))
    return tuple(change for _, change in told)


def sentence(changes: Sequence[Change], *, most: int = 3) -> str:
    """The required changes in one line."""
    told = [change.text for change in changes[:most]]
    if left := len(changes) - len(told):
        told.append(f"and {left} more")
    return "; ".join(told)


def _described(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    describe = _DESCRIBERS.get(refusal.plugin)
    found = list(describe(pod, node, refusal, conflicts)) if describe is not None else []
    return found or [_Found(_Matter(f"{{nodes}} refused by {refusal.plugin}: {_reasons(refusal)}"))]


def _change(plugin: str, matter: _Matter, tally: _Tally) -> Change:
    opened = set(tally.opened)
    examples = (*tally.opened, *(name for name in tally.names if name not in opened))
    if matter.short_of:
        text = _shortage(matter.short_of, {name: tally.amounts[name] for name in tally.opened or tally.names})
    else:
        text = matter.text.format(nodes=counted(len(tally.names)))
    if matter.beyond:
        most = max(amount for (amount,) in tally.amounts.values())
        text += _beyond(matter.beyond, most, len(tally.names))
    if tally.pods:
        text += f": {_some(list(tally.pods))}"
    return Change(
        plugin=plugin, text=text, nodes=len(tally.names), opens=len(tally.opened), examples=examples[:EXAMPLES]
    )


def _beyond(name: str, most: int, nodes: int) -> str:
    """The capacity where it is too small even on an empty node, and the remedy where there is none at all."""
    have = f"{counted(nodes)} {'has' if nodes == 1 else 'have'}"
    if most:
        return f"; {have} {amounts.human(name, most)} at most, even when empty: request less, or add a larger node"
    return f"; {have} none: add a worker that has it, or declare it there with --resources {name}=AMOUNT"


def _some(names: Sequence[str]) -> str:
    if len(names) <= EXAMPLES:
        return ", ".join(names)
    return f"{', '.join(names[:EXAMPLES])} and {len(names) - EXAMPLES} more"


def _shortage(names: tuple[str, ...], lacks: dict[str, tuple[int, ...]]) -> str:
    nearest = min(lacks, key=lambda node: (lacks[node], node))
    most = tuple(max(column) for column in zip(*lacks.values(), strict=True))
    return shortage(Shortage(names, nearest, lacks[nearest], most, len(lacks)))


def shortage(found: Shortage) -> str:
    """How much more is needed and where; the nearest node first if they differ."""
    anywhere = f"any of {found.nodes} nodes"
    least = _more(found.names, found.least)
    if found.nodes == 1 or found.least == found.most:
        return f"needs {least} on {found.nearest if found.nodes == 1 else anywhere}"
    return f"needs {least} on {found.nearest}, or up to {_more(found.names, found.most)} on {anywhere}"


def _more(names: tuple[str, ...], insufficient: tuple[int, ...]) -> str:
    told = [
        "room for one more pod" if name == resources.PODS else f"{amounts.at_least(name, amount)} more {name}"
        for name, amount in zip(names, insufficient, strict=True)
    ]
    return " and ".join(told)


def counted(number: int) -> str:
    """The number of nodes in words."""
    return "1 node" if number == 1 else f"{number} nodes"


def _reasons(refusal: Status) -> str:
    return ", ".join(refusal.reasons) or "left out by the pod's own choice"


# --- the obstacle behind each plugin's refusal ------------------------------------------------------------------------


def _fit(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    insufficient: dict[str, int] = {}
    for reason in refusal.reasons:
        if reason == resources.TOO_MANY_PODS:
            insufficient[resources.PODS] = 1
        elif reason.startswith(_INSUFFICIENT):
            name = reason.removeprefix(_INSUFFICIENT)
            wanted, whole = pod.shape.requests.get(name, 0), node.allocatable.get(name, 0)
            if wanted > whole:
                text = f"requests {amounts.human(name, wanted)} {name}"
                yield _Found(_Matter(text, beyond=name), (whole,))
            else:
                insufficient[name] = wanted - node.free(name)
    if insufficient:
        yield _Found(_Matter("", short_of=tuple(insufficient)), tuple(insufficient.values()))


def _taints(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    for taint in node.taints:
        if taint.effect != taints.PREFER_NO_SCHEDULE and not taints.tolerated(pod.shape.tolerations, taint):
            yield _Found(_Matter(f"{{nodes}} excluded by taint {taint_name(taint)}"))


def taint_name(taint: objects.Taint) -> str:
    """Write a taint as kubectl does."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _cordoned(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    yield _Found(_Matter("{nodes} cordoned"))


def _affinity(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    demands = requirements.of(pod.shape)
    for key, value in pod.shape.node_selector.items():
        if node.labels.get(key) != value:
            yield _Found(_Matter(f"{{nodes}} without label {key}={value}, which nodeSelector asks for"))
    if demands.terms is not None and not demands.terms.matches(node.labels, node.name):
        yield _Found(_Matter("{nodes} outside of the pod's required node affinity"))


def _named(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    yield _Found(_Matter(f"{{nodes}} other than {pod.node_name}, which the pod names"))


def _ports(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    for port in resources.conflicting_ports(pod.shape.host_ports, node.ports):
        holders = [
            other.key for other in node.pods.values() if resources.conflicting_ports([port], other.shape.host_ports)
        ]
        matter = _Matter(f"host port {port.port}/{port.protocol} taken on {{nodes}}")
        yield _Found(matter, pods=tuple(holders))


def _other_pods(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    """The pods that required affinity and anti-affinity refer to."""
    for code, reason in inter_pod_affinity.REASONS.items():
        if not set(reason.reasons) & set(refusal.reasons):
            continue
        if code == affinities.NO_AFFINITY:
            keys = " and ".join(dict.fromkeys(term.topology_key for term in pod.shape.required_affinity))
            yield _Found(_Matter(f"{{nodes}} with no pod that the required affinity asks for in the same {keys}"))
            continue
        of_others = code == affinities.REFUSED_BY_OTHERS
        whose = "which is in conflict by its own" if of_others else "which the pod avoids by its"
        for key, others in conflicts.at(node, of_others=of_others).items():
            matter = _Matter(f"{{nodes}} in the same {key} as a pod {whose} required anti-affinity")
            yield _Found(matter, pods=tuple(others))


def _spread(pod: PodInfo, node: NodeInfo, refusal: Status, conflicts: Conflicts) -> Iterable[_Found]:
    hard = [each for each in pod.shape.spread_constraints if each.whenUnsatisfiable == "DoNotSchedule"]
    missing = [each.topologyKey for each in hard if each.topologyKey not in node.labels]
    for key in missing:
        yield _Found(_Matter(f"{{nodes}} without label {key}, over which the pod is spread"))
    if not missing:
        keys = " and ".join(dict.fromkeys(f"{each.topologyKey} (maxSkew {each.maxSkew})" for each in hard))
        yield _Found(
            _Matter(f"{{nodes}} would break the spread over {keys}" if keys else f"{{nodes}}: {_reasons(refusal)}")
        )


_DESCRIBERS: Final[dict[str, Describer]] = {
    "InterPodAffinity": _other_pods,
    "NodeAffinity": _affinity,
    "NodeName": _named,
    "NodePorts": _ports,
    "NodeResourcesFit": _fit,
    "NodeUnschedulable": _cordoned,
    "PodTopologySpread": _spread,
    "TaintToleration": _taints,
}
