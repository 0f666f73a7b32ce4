"""On which nodes a DaemonSet's pods belong, and what ties a pod to its node. Pure.

A pod is made for one node and names it in its affinity (`for_node`): the scheduler binds it, to that node or to none.
The tolerations that daemons get, so that a node in trouble keeps them, are upstream's (`pkg/controller/daemon/util`,
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
    """What a node is to a DaemonSet."""

    #: Whether it should have a pod.
    runs: bool
    #: Whether a pod that it has may stay.
    keeps: bool


_NO: Final = Fit(runs=False, keeps=False)


class Placement:
    """A DaemonSet's wishes, compiled to be asked about many nodes."""

    def __init__(self, owner: Mapping[str, Any]) -> None:
        spec = owner["spec"]["template"].get("spec") or {}
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
        self._node: Final = str(spec.get("nodeName") or "")
        self._labels: Final[Mapping[str, str]] = spec.get("nodeSelector") or {}
        self._affinity: Final = None if affinity is None else nodeselectors.compile_selector(affinity)
        self._tolerations: Final = tolerations(spec)

    def fit(self, node: Mapping[str, Any]) -> Fit:
        """What a node is to the DaemonSet."""
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
    """A pod spec's tolerations with those that daemons get."""
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
    """What a DaemonSet's pods are made from, whatever their node."""
    given = owner["spec"]["template"]
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    if generation := meta.annotations(owner).get(GENERATION):
        labels[GENERATION_LABEL] = generation
    return {"metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": tolerations(spec)}}


def for_node(made: Mapping[str, Any], node: str) -> dict[str, Any]:
    """A template that fits one node; whatever affinity to nodes it required has served already."""
    named = {"nodeSelectorTerms": [{"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}]}
    affinity = made["spec"].get("affinity") or {}
    tied = {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), _REQUIRED: named}}
    return {**made, "spec": {**made["spec"], "affinity": tied}}


def node_of(pod: Mapping[str, Any]) -> str:
    """The node that a pod is on or was made for; empty if nobody can tell."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return next(_names(affinity.get("nodeSelectorTerms") or ()), "")


def is_current(pod: Mapping[str, Any], owner: Mapping[str, Any], hashed: str) -> bool:
    """Whether a pod is of the template as it is, by the hash or by the number of changes."""
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
