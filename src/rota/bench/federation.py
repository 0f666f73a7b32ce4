"""Benchmark of a federation: placement for 100 clusters on one core without I/O, then processes (`federation_live.py`).

Bindings are wire objects, each with a new name, uid and number of replicas; placements are compiled once, as in a
control plane, where many bindings share the placement of one policy. The reference has the same clusters but caches
nothing between bindings. Rates are per second of processor time.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.bench import federation_live, processor
from rota.bench.report import Result, median, rate
from rota.federation.clusters import Cluster
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.requests import Placement
from rota.federation.placement.scheduler import Scheduler

Object = dict[str, Any]

CLUSTERS: Final = 100
AGAINST: Final = "nothing kept between bindings"

_DYNAMIC: Final = {"dynamicWeight": "AvailableReplicas"}
PLACEMENTS: Final[Mapping[str, Object]] = {
    "duplicated": {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}},
    "static weights": {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {
                "staticWeightList": [
                    {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}}, "weight": 3},
                    {
                        "targetCluster": {
                            "fieldSelector": {
                                "matchExpressions": [{"key": "region", "operator": "In", "values": ["r1"]}]
                            }
                        },
                        "weight": 2,
                    },
                ]
            },
        }
    },
    "dynamic weights": {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": _DYNAMIC,
        }
    },
    "aggregated": {
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
        "clusterTolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
    "3 clusters": {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": _DYNAMIC,
        },
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3}],
    },
    "2 regions": {
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
        "spreadConstraints": [
            {"spreadByField": "region", "minGroups": 2, "maxGroups": 2},
            {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 6},
        ],
    },
}


#: Names, placements, and how many clusters have one replica of each binding already.
WORKLOADS: Final = (
    *((name, placement, 0) for name, placement in PLACEMENTS.items()),
    ("dynamic weights, scaled up", PLACEMENTS["dynamic weights"], 2),
)


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure placement, and a federation with its own stores."""
    rounds, bindings = (1, 1_000) if quick else (5, 4_000)
    return [*_placed(rounds, bindings), *federation_live.measure(quick=quick)]


def _placed(rounds: int, bindings: int) -> Iterable[Result]:
    clusters = [cluster(number) for number in range(CLUSTERS)]
    read = [Cluster(obj) for obj in clusters]
    numbers = itertools.count()
    for name, placement, held in WORKLOADS:
        compiled = Placement(placement)
        rates = []
        for _ in range(rounds):
            scheduler = Scheduler(Fleet(read))
            objects = [binding(next(numbers), placement, held=held) for _ in range(bindings)]
            rates.append(bindings / processor.spent_s(lambda: _place(scheduler, objects, compiled)))  # noqa: B023 - called at once
        few = [binding(next(numbers), placement, held=held) for _ in range(50)]
        reference = len(few) / processor.spent_s(lambda: _place_anew(read, few))  # noqa: B023 - called at once
        yield rate(f"{name}, {CLUSTERS} clusters", median(rates), reference, against=AGAINST)


def _place(scheduler: Scheduler, objects: Iterable[Object], placement: Placement) -> None:
    for obj in objects:
        if not scheduler.schedule(obj, placement).scheduled:
            raise RuntimeError("a benchmark binding found no clusters")


def _place_anew(clusters: list[Cluster], objects: Iterable[Object]) -> None:
    for obj in objects:
        Scheduler(Fleet(clusters)).schedule(obj)


def cluster(number: int) -> Object:
    """A member cluster with capacity for some hundred replicas."""
    return {
        "metadata": {
            "name": f"member-{number:03}",
            "labels": {"tier": "gold" if number % 3 == 0 else "silver", "number": str(number)},
        },
        "spec": {
            "region": f"r{number % 8}",
            "provider": f"p{number % 3}",
            "zones": [f"z{number % 5}"],
            "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if number % 10 == 9 else [],
        },
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}],
            "resourceSummary": {
                "allocatable": {"cpu": f"{100 + number}", "memory": "512Gi", "pods": "1100"},
                "allocated": {"cpu": "20", "memory": "64Gi", "pods": "150"},
            },
        },
    }


def binding(number: int, placement: Object, *, held: int = 0) -> Object:
    """A new binding, or one that is already placed on some clusters."""
    clusters = [{"name": f"member-{(number + at) % CLUSTERS:03}", "replicas": 1} for at in range(held)]
    return {
        "metadata": {"name": f"web-{number}-deployment", "namespace": "default", "generation": 1},
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": "default",
                "name": f"web-{number}",
                "uid": f"uid-{number}",
            },
            "replicas": 3 + number % 29,
            "replicaRequirements": {"resourceRequest": {"cpu": f"{100 * (1 + number % 5)}m", "memory": "256Mi"}},
            "placement": placement,
            "clusters": clusters,
        },
        "status": {},
    }
