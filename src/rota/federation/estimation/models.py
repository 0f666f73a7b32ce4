"""Resource models: a cluster's free nodes counted by grade, each worth the least of its grade."""

from rota.federation.clusters import Cluster
from rota.federation.estimation import amounts, simulation

PODS_PER_NODE = 110


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
    return [
        simulation.Room({**least[grade], amounts.PODS: PODS_PER_NODE}, simulation.everyone)
        for grade in sorted(least)
        for _ in range(counts.get(grade, 0))
    ]
