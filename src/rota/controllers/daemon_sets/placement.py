"""Which nodes are eligible for a DaemonSet, and how a pod is tied to its node. Pure.

A pod is made for one node and names it in its node affinity (`for_node`), so the scheduler binds it to that node or not
at all. The default tolerations keep daemons on nodes with problems; they are upstream's (`pkg/controller/daemon/util`,
1.36).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, nodeselectors
from rota.api.nodeselectors import NAME_FIELD
from rota.controllers.controller_revisions import HASH_LABEL
from rota.controllers.tolerations import tolerates

GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_STAYS: Final = ("not-ready", "unreachable")
_COMES: Final = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
_REPELS: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A node's eligibility for a DaemonSet."""

    #: Whether the node should get a pod.
    runs: bool
    #: Whether an existing pod may stay on the node.
    keeps: bool


_NO: Final = Fit(runs=False, keeps=False)


class Placement:
    """The node constraints of a DaemonSet, compiled for many nodes."""

    def __init__(self, owner: Mapping[str, Any]) -> None:
        spec = owner["spec"]["template"].get("spec") or {}
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
        self._node: Final = str(spec.get("nodeName") or "")
        self._labels: Final[Mapping[str, str]] = spec.get("nodeSelector") or {}
        self._affinity: Final = None if affinity is None else nodeselectors.compile_selector(affinity)
        self._tolerations: Final = tolerations(spec)

    def fit(self, node: Mapping[str, Any]) -> Fit:
        """A node's eligibility for the DaemonSet."""
        name, labels = meta.name(node), meta.labels(node)
        if self._node and self._node != name:
            return _NO
        if not self._labels.items() <= labels.items():
            return _NO
        if self._affinity is not None and not self._affinity.matches(labels, name):
            return _NO
        effects = {taint.get("effect") for taint in (node.get("spec") or {}).get("taints") or () if self._minds(taint)}
        return Fit(runs=not effects & _REPELS, keeps="NoExecute" not in effects)

    def _minds(self, taint: Mapping[str, Any]) -> bool:
        return not any(tolerates(one, taint) for one in self._tolerations)


def tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A pod spec's tolerations and the default ones of daemons."""
    found = [dict(one) for one in spec.get("tolerations") or ()]
    comes = (*_COMES, "network-unavailable") if spec.get("hostNetwork") else _COMES
    wanted = [_toleration(name, "NoExecute") for name in _STAYS] + [_toleration(name, "NoSchedule") for name in comes]
    for one in wanted:
        alike = [at for at, present in enumerate(found) if {**present, "tolerationSeconds": None} == _endless(one)]
        for at in alike:
            found[at] = one
        if not alike:
            found.append(one)
    return found


def template(owner: Mapping[str, Any], hashed: str) -> dict[str, Any]:
    """The pod template of a DaemonSet, without a node."""
    given = owner["spec"]["template"]
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    if generation := meta.annotations(owner).get(GENERATION):
        labels[GENERATION_LABEL] = generation
    return {"metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": tolerations(spec)}}


def for_node(made: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The template for one node; its node affinity replaces the required one, which was already evaluated."""
    named = {"nodeSelectorTerms": [{"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}]}
    affinity = made["spec"].get("affinity") or {}
    tied = {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), _REQUIRED: named}}
    return {**made, "spec": {**made["spec"], "affinity": tied}}


def node_of(pod: Mapping[str, Any]) -> str:
    """The node that a pod is bound to or was made for; empty if unknown."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return next(_names(affinity.get("nodeSelectorTerms") or ()), "")


def is_current(pod: Mapping[str, Any], owner: Mapping[str, Any], hashed: str) -> bool:
    """Whether a pod has the current template, by hash or by generation."""
    generation = meta.annotations(owner).get(GENERATION)
    labels = meta.labels(pod)
    by_number = generation is not None and labels.get(GENERATION_LABEL) == generation
    return by_number or (bool(hashed) and labels.get(HASH_LABEL) == hashed)


def _names(terms: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for term in terms:
        for one in term.get("matchFields") or ():
            values = list(one.get("values") or ())
            if one.get("key") == NAME_FIELD and one.get("operator") == "In" and len(values) == 1:
                yield str(values[0])


def _toleration(name: str, effect: str) -> dict[str, Any]:
    return {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}


def _endless(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {**toleration, "tolerationSeconds": None}
