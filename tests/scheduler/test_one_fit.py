"""One answer to whether a pod fits: of the scheduler, in both forms, of the binding transaction and of the worker."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.api import resources
from rota.apiserver.node_allocations import pod_shares
from rota.columns.pod_interner import PodInterner
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.testing import clusters, schedulers
from rota.testing.clusters import LAW, Document, build

LOADED = schedulers.configured()
FRAMEWORK = Framework(LOADED.configuration.first, LOADED.registry)
NAMES = ("n0", "n1", "n2")
#: Amounts around the sizes of the drawn nodes, so that some pods fit just and some just not.
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["1m", "500m", "1", "1999m", "2", "4"]),
        "memory": st.sampled_from(["1", "1Gi", "2Gi", "16Gi", "0.5"]),
        "ephemeral-storage": st.sampled_from(["1Gi", "10Gi"]),
        "example.com/gpu": st.sampled_from(["1", "2"]),
        "hugepages-2Mi": st.sampled_from(["2Mi", "4Mi"]),
        "unknown": st.just("3"),
    },
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Document], list[Document], Document]:
    nodes = [draw(clusters.nodes(name)) for name in NAMES]
    for node in nodes:
        node["status"]["allocatable"] |= draw(AMOUNTS)
        node["status"]["allocatable"]["pods"] = draw(st.sampled_from(["0", "1", "2", "10"]))
    pods = [draw(clusters.pods(f"p{number}", on=NAMES)) for number in range(draw(st.integers(0, 5)))]
    wanting = draw(clusters.pods("wanting"))
    for pod in (*pods, wanting):
        container = pod["spec"]["containers"][0]
        container.setdefault("resources", {})["requests"] = draw(AMOUNTS)
    return nodes, pods, wanting


def scheduler_says(nodes: list[Document], pods: list[Document], wanting: Document) -> tuple[dict[str, Any], Any]:
    """The reasons of both plugins by node, in the scalar and in the vector form."""
    interner = PodInterner()
    cluster = build(nodes, pods, interner)
    pod, state = interner.pod(wanting), CycleState(cluster)
    fit, ports = FRAMEWORK.plugins["NodeResourcesFit"], FRAMEWORK.plugins["NodePorts"]
    fit.pre_filter(state, pod, cluster)
    scalar = {
        node.name: (_sorted(fit.filter(state, pod, node)), ports.filter(state, pod, node).ok)
        for node in cluster.node_infos()
    }
    codes = fit.filter_nodes(state, pod, cluster, cluster.rows)
    found = np.zeros(cluster.size, dtype=np.int64) if codes is None else codes
    taken = ports.filter_nodes(state, pod, cluster, cluster.rows)
    vector = {
        node.name: (
            _sorted(fit.explain(state, pod, int(found[node.row]))) if found[node.row] else [],
            not taken[node.row],
        )
        for node in cluster.node_infos()
    }
    return scalar, vector


def server_says(nodes: list[Document], pods: list[Document], wanting: Document) -> dict[str, Any]:
    """The same by the code of the binding transaction, which reads stored bytes."""
    share, said = pod_shares.wanted(msgspec.json.encode(wanting)), {}
    for node in nodes:
        name = node["metadata"]["name"]
        stored = [pod_shares.of_stored(msgspec.json.encode(pod)) for pod in pods]
        usage = pod_shares.total(held[1] for held in stored if held is not None and held[0] == name)
        found = pod_shares.collisions(share, resources.node_allocatable(node), usage)
        lacking = sorted(one.message.partition(":")[0] for one in found if one.kind == "InsufficientResource")
        said[name] = lacking, not any(one.kind == "PortConflict" for one in found)
    return said


def worker_says(nodes: list[Document], pods: list[Document], wanting: Document) -> dict[str, list[str]]:
    """The resources alone, as a worker adds them up."""
    said = {}
    for node in nodes:
        name = node["metadata"]["name"]
        left = resources.node_allocatable(node)
        for pod in pods:
            if pod["spec"].get("nodeName") == name:
                left = resources.subtract(left, {**resources.pod_requests(pod, use_status=True), resources.PODS: 1})
        said[name] = sorted(one.reason for one in resources.fits(left, resources.pod_requests(wanting)))
    return said


def _sorted(status: Status) -> list[str]:
    return sorted(status.reasons)


@LAW
@given(situations())
def test_the_scheduler_in_both_forms_the_binding_transaction_and_the_worker_agree(
    situation: tuple[list[Document], list[Document], Document],
) -> None:
    scalar, vector = scheduler_says(*situation)
    assert vector == scalar
    assert server_says(*situation) == scalar
    assert worker_says(*situation) == {name: reasons for name, (reasons, _) in scalar.items()}
