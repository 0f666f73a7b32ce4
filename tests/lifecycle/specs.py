"""Files of clusters for the tests of this folder."""

from typing import Any

from rota.lifecycle import cluster_spec
from rota.lifecycle.cluster_spec import ClusterSpec


def document(masters: int = 1, workers: int = 1, /, **spec: Any) -> dict[str, Any]:
    """A file with masters m1, m2 and workers w1, w2, each on a machine of its own."""
    return {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "lab"},
        "spec": {
            "store": "sqlite" if masters == 1 else "etcd://10.0.0.9:2379",
            "manager": "processes",
            "program": "/opt/rota/bin/rota",
            "masters": [{"name": f"m{n}", "address": f"10.0.0.{n}"} for n in range(1, masters + 1)],
            "workers": [{"name": f"w{n}", "address": f"10.0.1.{n}"} for n in range(1, workers + 1)],
            **spec,
        },
    }


def parsed(masters: int = 1, workers: int = 1, /, **spec: Any) -> ClusterSpec:
    return cluster_spec.parse(document(masters, workers, **spec))
