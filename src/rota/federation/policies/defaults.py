"""What an API server fills in where a policy says nothing."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta
from rota.federation.interpreters import trees

GRACE_PERIOD_S: Final = 600
#: Numbers for which zero is the same as absence.
_NUMBERS: Final = frozenset({"minGroups", "maxGroups"})
#: Texts that stand in the object even if they are empty.
_KEPT: Final = frozenset(
    {
        "affinityName",
        "aliasLabelName",
        "apiVersion",
        "component",
        "containerName",
        "fieldPath",
        "groupByLabelKey",
        "jsonPath",
        "key",
        "kind",
        "operator",
        "path",
        "subPath",
    }
)


def defaulted(policy: Mapping[str, Any]) -> dict[str, Any] | None:
    """The policy with its defaults; None for kinds that have none."""
    kind = policy.get("kind")
    if kind not in ("PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy"):
        return None
    new = trees.changed(policy)
    spec = new.setdefault("spec", {})
    namespace = meta.namespace(policy)
    if namespace:
        for selector in spec.get("resourceSelectors") or ():
            selector["namespace"] = selector.get("namespace") or namespace
    if kind != "OverridePolicy":
        _propagation(spec)
    compact: dict[str, Any] = _compact(new)
    return compact


def _propagation(spec: dict[str, Any]) -> None:
    placement = spec.setdefault("placement", {})
    for constraint in placement.get("spreadConstraints") or ():
        if not constraint.get("spreadByLabel") and not constraint.get("spreadByField"):
            constraint["spreadByField"] = "cluster"
        constraint["minGroups"] = constraint.get("minGroups") or 1
    if any(
        (one.get("apiVersion"), one.get("kind")) == ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")
        for one in spec.get("resourceSelectors") or ()
    ):
        spec["propagateDeps"] = True
    for term in placement.get("clusterAffinities") or ():
        for one in (term, *(term.get("overflowAffinities") or ())):
            one.setdefault("affinityName", "")
    strategy = placement.get("replicaScheduling")
    if strategy is not None and strategy.get("replicaSchedulingType") == "Divided":
        strategy["replicaDivisionPreference"] = strategy.get("replicaDivisionPreference") or "Weighted"
    application = (spec.get("failover") or {}).get("application") or {}
    if application.get("purgeMode") in ("Gracefully", "Graciously") and application.get("gracePeriodSeconds") is None:
        application["gracePeriodSeconds"] = GRACE_PERIOD_S


def _compact(value: Any) -> Any:
    """Without members that mean the same as their absence."""
    if isinstance(value, dict):
        kept = {name: _compact(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if not _is_absent(name, one)}
    return [_compact(one) for one in value] if isinstance(value, list) else value


def _is_absent(name: str, value: Any) -> bool:
    if value is None or value == [] or (value == "" and name not in _KEPT):
        return True
    return (name in _NUMBERS and value == 0) or (name == "propagateDeps" and value is False)
