"""What is to be placed: a binding and its placement, read once for all clusters."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.federation import bindings
from rota.federation.affinities import Affinity
from rota.federation.gates import DEFAULT, Gates

Object: TypeAlias = Mapping[str, Any]

STATIC = "StaticWeight"
DYNAMIC = "DynamicWeight"


class Term:
    """One of several affinities to be tried in order, with those that take what does not fit."""

    __slots__ = ("affinity", "name", "overflow", "overflows")

    def __init__(self, term: Object) -> None:
        self.name: str = term.get("affinityName") or ""
        self.affinity = Affinity(term)
        overflow = term.get("overflowAffinities")
        #: Whether overflow is asked for, even if with an empty list.
        self.overflows = overflow is not None
        self.overflow = tuple(Affinity(one) for one in overflow or ())


class Placement:
    """A Placement, compiled; one may serve many bindings."""

    __slots__ = ("affinity", "constraints", "raw", "strategy", "strategy_type", "terms", "tolerations", "weights")

    def __init__(self, placement: Object) -> None:
        self.raw = placement
        given = placement.get("clusterAffinity")
        self.affinity = None if given is None else Affinity(given)
        terms = placement.get("clusterAffinities")
        self.terms = None if terms is None else tuple(Term(term) for term in terms)
        self.tolerations: tuple[Object, ...] = tuple(placement.get("clusterTolerations") or ())
        self.constraints: tuple[Object, ...] = tuple(placement.get("spreadConstraints") or ())
        self.strategy: Object | None = placement.get("replicaScheduling")
        self.strategy_type = _strategy_type(self.strategy)
        preference = (self.strategy or {}).get("weightPreference")
        #: Static weights with the clusters they are for; None where no preference is given.
        self.weights = (
            None
            if preference is None
            else tuple(
                (Affinity(one.get("targetCluster") or {}), int(one.get("weight") or 0))
                for one in preference.get("staticWeightList") or ()
            )
        )

    @property
    def duplicated(self) -> bool:
        """Whether every cluster gets all replicas."""
        return self.strategy is None or self.strategy.get("replicaSchedulingType") == bindings.DUPLICATED

    @property
    def ignores_constraints(self) -> bool:
        """Whether spread constraints do not count: with a list of static weights, or with no preference at all."""
        strategy = self.strategy
        if strategy is None or strategy.get("replicaSchedulingType") != bindings.DIVIDED:
            return False
        if strategy.get("replicaDivisionPreference") != bindings.WEIGHTED:
            return False
        preference = strategy.get("weightPreference")
        return preference is None or bool(preference.get("staticWeightList") and not preference.get("dynamicWeight"))

    def constraint(self, field: str) -> Object | None:
        """The last spread constraint over a field."""
        found = None
        for one in self.constraints:
            if (one.get("spreadByField") or "") == field:
                found = one
        return found

    def term(self, name: str) -> Term | None:
        """The affinity term of a name."""
        return next((term for term in self.terms or () if term.name == name), None)


class Request:
    """A binding that is to be placed."""

    __slots__ = (
        "affinity_group",
        "anti_affinity_group",
        "api",
        "assigned",
        "components",
        "evicting",
        "fresh",
        "gates",
        "is_workload",
        "kind",
        "name",
        "namespace",
        "placement",
        "replicas",
        "requirements",
        "spec",
        "uid",
    )

    def __init__(self, spec: Object, status: Object, placement: Placement, gates: Gates = DEFAULT) -> None:
        self.spec = spec
        self.placement = placement
        self.gates = gates
        self.replicas = bindings.replicas(spec)
        self.requirements: Object | None = spec.get("replicaRequirements")
        self.components: tuple[Object, ...] = tuple(spec.get("components") or ())
        self.is_workload = bindings.is_workload(spec)
        self.assigned = bindings.assigned(spec)
        self.evicting = bindings.evicting(spec) if spec.get("gracefulEvictionTasks") else set()
        self.fresh = bindings.reschedule_requested(spec, status)
        resource: Object = spec.get("resource") or {}
        self.kind: str = resource.get("kind") or ""
        self.name: str = resource.get("name") or ""
        self.namespace: str = resource.get("namespace") or ""
        self.uid: str = resource.get("uid") or ""
        self.api = (resource.get("apiVersion") or "", self.kind)
        groups: Object = spec.get("workloadAffinityGroups") or {}
        self.affinity_group: str = groups.get("affinityGroup") or ""
        self.anti_affinity_group: str = groups.get("antiAffinityGroup") or ""

    @property
    def in_one_piece(self) -> bool:
        """Whether components go to one cluster together, as a set."""
        return (
            self.gates.multiple_pod_templates_scheduling
            and bool(self.components)
            and any(
                one.get("spreadByField") == "cluster" and one.get("minGroups") == 1 and one.get("maxGroups") == 1
                for one in self.placement.constraints
            )
        )


def _strategy_type(strategy: Object | None) -> str:
    if strategy is None or strategy.get("replicaSchedulingType") == bindings.DUPLICATED:
        return bindings.DUPLICATED
    if strategy.get("replicaSchedulingType") != bindings.DIVIDED:
        return ""
    preference = strategy.get("replicaDivisionPreference")
    if preference == bindings.AGGREGATED:
        return bindings.AGGREGATED
    if preference != bindings.WEIGHTED:
        return ""
    return DYNAMIC if (strategy.get("weightPreference") or {}).get("dynamicWeight") else STATIC
