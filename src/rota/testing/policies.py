"""Pytest fixtures for tests of one's own policies: nodes in a line, a pod in a line, a decision, a simulation.

pytest_plugins = ["rota.testing.policies"]

def test_a_pod_goes_to_the_larger_node(nodes, pod, decide):
    assert decide(nodes("1xcpu=2", "1xcpu=8"), pod("cpu=4")) == "node-1"
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.runtime import Framework
from rota.simulator import clusters, policies, python_api

Document = Mapping[str, Any]


@pytest.fixture
def nodes() -> Callable[..., list[dict[str, Any]]]:
    """`nodes("3xcpu=8,memory=32Gi")`: nodes as objects, named node-0, node-1, and so on."""
    return lambda *lines: clusters.nodes(lines)


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    """`pod("cpu=1,memory=2Gi", name="web")`: a pod as an object."""
    return clusters.pod


@pytest.fixture
def decide() -> Callable[..., str | None]:
    """`decide(nodes, pod, policy="sched.yaml", pods=[...])`: the node that the pod gets, or None."""
    return _decide


@pytest.fixture
def simulate() -> Callable[..., python_api.SimulationResult]:
    """`rota.simulate`."""
    return python_api.simulate


def _decide(
    nodes: Sequence[Document],
    pod: Document,
    *,
    policy: str | Path = policies.DEFAULT,
    pods: Sequence[Document] = (),
    plugins: Sequence[str | Path] = (),
) -> str | None:
    """Decide on a cluster of these nodes; `pods` are those that have a node."""
    cluster, interner = Cluster(), PodInterner()
    for node in nodes:
        cluster.set_node(read_node(node))
    for each in pods:
        cluster.add_pod(interner.pod(each))
    loaded = policies.named(str(policy), [Path(each) for each in plugins]).load({})
    return Decider(Framework(loaded.configuration.first, loaded.registry), cluster).decide(interner.pod(pod)).node_name
