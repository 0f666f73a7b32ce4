"""HyperNodes: how many nodes one has, and those that labels of nodes describe. Pure.

Discovery reads, for each topology type, labels from the widest domain to the narrowest. Nodes with the same values of a
label and of the wider ones form a HyperNode. The narrowest has tier 1; a wider one has HyperNodes as members. A label
`kubernetes.io/hostname` at the end means single nodes, which form no domain of their own.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import meta, re2_matcher, selectors
from rota.api.batch import kinds
from rota.api.meta import Object

#: On HyperNodes that were discovered: by which source.
SOURCE: Final = "volcano.sh/network-topology-source"
LABEL_SOURCE: Final = "label"
_HOSTNAME: Final = "kubernetes.io/hostname"
_DIGITS: Final = 10


def node_count(name: str, hyper_nodes: Mapping[str, Object], nodes: Mapping[str, Object]) -> int:
    """The number of nodes in a HyperNode and in those below it."""
    return len(_nodes_of(name, hyper_nodes, nodes, frozenset()))


def _nodes_of(
    name: str, hyper_nodes: Mapping[str, Object], nodes: Mapping[str, Object], above: frozenset[str]
) -> set[str]:
    found: set[str] = set()
    if name in above or name not in hyper_nodes:
        return found
    for member in (hyper_nodes[name].get("spec") or {}).get("members") or ():
        of_nodes = member.get("type") == "Node"
        for one in _selected(member.get("selector") or {}, nodes if of_nodes else hyper_nodes):
            found |= {one} if of_nodes else _nodes_of(one, hyper_nodes, nodes, above | {name})
    return found


def _selected(selector: Mapping[str, Any], candidates: Mapping[str, Object]) -> Iterable[str]:
    exact = (selector.get("exactMatch") or {}).get("name")
    if exact is not None:
        return [exact] if exact in candidates else []
    pattern = (selector.get("regexMatch") or {}).get("pattern")
    if pattern is not None:
        try:
            matches = re2_matcher.compile_pattern(pattern).search
        except re2_matcher.PatternError:
            return []
        return [name for name in candidates if matches(name)]
    if selector.get("labelMatch") is not None:
        wanted = selectors.from_object(selector["labelMatch"])
        return [name for name, one in candidates.items() if wanted.matches(meta.labels(one))]
    return []


def discovered(types: Mapping[str, Sequence[str]], nodes: Iterable[Object]) -> list[dict[str, Any]]:
    """The HyperNodes that labels describe; `types` has the labels of each topology type, widest first."""
    found: dict[str, dict[str, Any]] = {}
    everything = sorted(nodes, key=meta.name)
    for kind, labels in sorted(types.items()):
        levels = [label for label in labels if label != _HOSTNAME]
        for node in everything:
            values = [meta.labels(node).get(label, "") for label in levels]
            if not all(values):
                continue
            below: dict[str, Any] = {"type": "Node", "name": meta.name(node)}
            for depth in range(len(levels), 0, -1):
                tier = len(levels) - depth + 1
                name = _name(kind, tier, values[:depth])
                made = found.setdefault(name, _hyper_node(name, tier, levels[depth - 1], values[depth - 1]))
                member = {"type": below["type"], "selector": {"exactMatch": {"name": below["name"]}}}
                if member not in made["spec"]["members"]:
                    made["spec"]["members"].append(member)
                below = {"type": "HyperNode", "name": name}
    return list(found.values())


def types_of(configuration: Any) -> dict[str, list[str]]:
    """The labels of each topology type, from `networkTopologyDiscovery` of the controller's configuration."""
    found: dict[str, list[str]] = {}
    for source in (configuration or {}).get("networkTopologyDiscovery") or ():
        if source.get("source") != LABEL_SOURCE or not source.get("enabled"):
            continue
        for kind, levels in ((source.get("config") or {}).get("networkTopologyTypes") or {}).items():
            found[kind] = [level["nodeLabel"] for level in levels]
    return found


def _name(kind: str, tier: int, values: Sequence[str]) -> str:
    digest = hashlib.sha256("/".join(values).encode()).hexdigest()[:_DIGITS]
    return f"hypernode-{kind.lower()}-tier{tier}-{digest}"


def _hyper_node(name: str, tier: int, label: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{kinds.TOPOLOGY}/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": {SOURCE: LABEL_SOURCE, label: value}},
        "spec": {"tier": tier, "tierName": label, "members": []},
    }
