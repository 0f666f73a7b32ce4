"""Eviction tasks: how a cluster leaves a binding's targets and becomes one to be cleared."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import jsonpaths
from rota.federation import bindings

Object: TypeAlias = Mapping[str, Any]
Spec: TypeAlias = dict[str, Any]

GRACEFULLY: Final = "Gracefully"
DIRECTLY: Final = "Directly"
NEVER: Final = "Never"


class StateNotKept(ValueError):
    """The state that should be kept cannot be read; the eviction waits."""


def evicted(spec: Object, cluster: str, task: Object) -> Spec:
    """The spec without a target, and with a task for it; a cluster that has a task already gets no second one."""
    new = dict(spec)
    targets = list(bindings.targets(spec))
    place = next((at for at, target in enumerate(targets) if target.get("name") == cluster), None)
    if place is None:
        return new
    target = targets.pop(place)
    new["clusters"] = targets
    if cluster in bindings.evicting(spec):
        return new
    replicas = int(target.get("replicas") or 0)
    made = {"fromCluster": cluster, **task, **({"replicas": replicas} if replicas > 0 else {})}
    present = {name: value for name, value in made.items() if value is not None and value != ""}
    new["gracefulEvictionTasks"] = [*(spec.get("gracefulEvictionTasks") or ()), present]
    return new


def preserved_state(rules: Sequence[Object], items: Sequence[Object], cluster: str) -> dict[str, str]:
    """Labels made of the status of the cluster that is left."""
    status = next((item.get("status") for item in items if item.get("clusterName") == cluster), None)
    if status is None:
        raise StateNotKept(f"the application status has not yet been collected from Cluster({cluster})")
    return {rule.get("aliasLabelName", ""): _read(rule.get("jsonPath") or "", status) for rule in rules}


def _read(template: str, status: Object) -> str:
    """A template of JSONPaths in braces, with what they find put in."""
    written = []
    rest = template
    while rest:
        before, brace, after = rest.partition("{")
        written.append(before)
        if not brace:
            break
        path, brace, rest = after.partition("}")
        if not brace:
            raise StateNotKept(f"jsonpath {template!r} lacks a closing brace")
        try:
            found = jsonpaths.find(path, status)
        except jsonpaths.PathError as error:
            raise StateNotKept(f"jsonpath {template!r}: {error}") from error
        if not found:
            raise StateNotKept(f"jsonpath {template!r}: {path.strip()} is not found")
        written.append(" ".join(jsonpaths.text(value) for value in found))
    return "".join(written)
