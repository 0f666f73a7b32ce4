"""The category `estimate`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.federation import gates
from rota.federation.clusters import Cluster
from rota.federation.estimation import nodes, summary

Object: TypeAlias = Mapping[str, Any]


def estimate(scenario: Object) -> dict[str, Any]:
    """How many replicas or sets fit a cluster."""
    on = gates.from_names(scenario.get("featureGates"))
    assumed = tuple(scenario.get("assumed") or ()) if on.scheduling_overcommit_protection else ()
    kind = scenario["kind"]
    if kind == "summary":
        cluster = Cluster(scenario["cluster"])
        return {"replicas": summary.replicas(cluster, scenario.get("requirements"), on, assumed)}
    if kind == "sets":
        return {"sets": summary.sets(Cluster(scenario["cluster"]), scenario["components"], on, assumed)}
    rooms = nodes.rooms(scenario["nodes"], scenario["pods"])
    if kind == "nodes":
        return {"ok": True, "replicas": nodes.replicas(rooms, scenario.get("requirements"), assumed)}
    if kind == "nodesets":
        found = nodes.sets(rooms, scenario["components"], assumed)
        return {"ok": found > 0, "sets": found}
    raise ValueError(f"the kind {kind!r} of an estimate is not known; use summary, sets, nodes or nodesets")
