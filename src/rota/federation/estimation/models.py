"""Resource models: a cluster's free nodes counted by grade, each worth the least of its grade."""

from typing import Final

from rota.federation.clusters import Cluster
from rota.federation.estimation import amounts, simulation

PODS_PER_NODE: Final = 110
#: A member says how many nodes it has. More than any cluster has are not believed: each is counted by itself.
MOST_NODES: Final = 20_000


def rooms(cluster: Cluster) -> list[simulation.Room] | None:
    """Virtual nodes by rising grade, or None where models cannot be used."""
    summary = cluster.summary
    if summary is None or not cluster.models:
        return None
    counts: dict[int, int] = {}
    for counted in summary.get("allocatableModelings") or ():
        count = int(counted.get("count") or 0)
        if count < 0:
            return None
        grade = int(counted.get("grade") or 0)
        counts[grade] = counts.get(grade, 0) + count
    least = {
        int(model.get("grade") or 0): amounts.read(
            {one.get("name", ""): one.get("min") for one in model.get("ranges") or ()}
        )
        for model in cluster.models
    }
    found: list[simulation.Room] = []
    for grade in sorted(least):
        free = {**least[grade], amounts.PODS: PODS_PER_NODE}
        count = min(counts.get(grade, 0), MOST_NODES - len(found))
        found += [simulation.Room(dict(free), simulation.everyone) for _ in range(count)]
    return found
