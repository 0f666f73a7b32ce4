"""Placement beyond the recorded situations: what is kept between bindings must not change any decision."""

import random
from typing import Any

from rota.bench import federation as bench
from rota.federation.clusters import Cluster
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.requests import Placement
from rota.federation.placement.scheduler import Scheduler


def test_what_is_kept_between_bindings_changes_no_decision() -> None:
    rng = random.Random(7)  # the same bindings every time
    clusters = [Cluster(bench.cluster(number)) for number in range(40)]
    kept = Scheduler(Fleet(clusters))
    compiled = {name: Placement(placement) for name, placement in bench.PLACEMENTS.items()}
    for number in range(300):
        name = rng.choice(sorted(bench.PLACEMENTS))
        obj = bench.binding(number, bench.PLACEMENTS[name], held=rng.choice([0, 0, 2]))
        alone = Scheduler(Fleet(clusters)).schedule(obj)
        together = kept.schedule(obj, compiled[name])
        assert (together.clusters, together.reason) == (alone.clusters, alone.reason)


def test_a_cluster_that_is_being_removed_gets_nothing() -> None:
    objects: list[dict[str, Any]] = [bench.cluster(number) for number in range(3)]
    objects[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    outcome = Scheduler(Fleet(map(Cluster, objects))).schedule(bench.binding(1, bench.PLACEMENTS["dynamic weights"]))
    assert outcome.scheduled
    assert "member-000" not in {target["name"] for target in outcome.clusters}
