"""The cache against plain recomputation: whatever news come in whatever order, its figures are the sums of its pods."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rota.api import resources
from rota.columns.pod_interner import read_node
from rota.columns.snapshots import Snapshot
from rota.scheduler.cache.comparer import Truth, compare
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.testing.clusters import Document, make_node, make_pod

PODS = st.sampled_from([f"p{number}" for number in range(6)])
NODES = st.sampled_from(["n1", "n2", "n3"])
FIELDS = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["0", "100m", "2"]), "labels": st.sampled_from([{}, {"app": "web"}])},
    optional={
        "hostNetwork": st.just(True),
        "priority": st.integers(0, 1),
        "affinity": st.just(
            {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
                    ]
                }
            }
        ),
    },
)


class AgainstRecomputation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = SchedulerCache()
        self.snapshot = Snapshot(self.cache.cluster)
        #: What the API server has told.
        self.nodes: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        #: Where pods were assumed that have not been seen bound, and as what.
        self.assumed: dict[str, tuple[str, Document]] = {}

    def tell(self, name: str, document: Document) -> None:
        self.pods[name] = document
        self.cache.add_or_update_pod(self.cache.interner.pod(document))
        if document["spec"].get("nodeName"):
            self.assumed.pop(name, None)
        elif name in self.assumed:
            self.assumed[name] = self.assumed[name][0], document

    @rule(name=NODES, cpu=st.sampled_from(["2", "4"]), labels=st.sampled_from([{}, {"zone": "z"}]))
    def node(self, name: str, cpu: str, labels: dict[str, str]) -> None:
        self.nodes[name] = make_node(name, labels=labels, cpu=cpu)
        self.cache.set_node(read_node(self.nodes[name]))

    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    @rule(name=PODS, fields=FIELDS)
    def pod_comes_or_changes(self, name: str, fields: dict[str, Any]) -> None:
        known = self.pods.get(name)
        self.tell(name, make_pod(name, on=known["spec"].get("nodeName") if known else None, **fields))

    @rule(name=PODS, node=NODES, fields=FIELDS)
    def pod_is_bound(self, name: str, node: str, fields: dict[str, Any]) -> None:
        known = self.pods.get(name)
        if known is None:
            known = make_pod(name, **fields)
        there = known["spec"].get("nodeName") or node
        self.tell(name, {**known, "spec": {**known["spec"], "nodeName": there}})

    @rule(name=PODS)
    def pod_goes(self, name: str) -> None:
        self.cache.remove_pod(f"uid-{name}")
        self.pods.pop(name, None)
        self.assumed.pop(name, None)

    @rule(name=PODS, node=NODES)
    def assume(self, name: str, node: str) -> None:
        document = self.pods.get(name)
        if document is None:
            return
        free = name not in self.assumed and not document["spec"].get("nodeName")
        unplaced = {**document, "spec": {key: value for key, value in document["spec"].items() if key != "nodeName"}}
        assert self.cache.assume(self.cache.interner.pod(unplaced), node) is free
        if free:
            self.assumed[name] = node, document

    @rule(name=PODS)
    def binding_ends_well(self, name: str) -> None:
        self.cache.finish_binding(f"uid-{name}")

    @rule(name=PODS)
    def forget(self, name: str) -> None:
        taken_back = self.cache.forget(f"uid-{name}")
        assert (taken_back is not None) is (self.assumed.pop(name, None) is not None)

    @rule()
    def look(self) -> None:
        self.snapshot.catch_up()

    def expected(self, node: str) -> dict[str, Document]:
        placed = {name: pod for name, pod in self.pods.items() if pod["spec"].get("nodeName") == node}
        return placed | {name: pod for name, (where, pod) in self.assumed.items() if where == node}

    @invariant()
    def figures_are_sums(self) -> None:
        cluster = self.cache.cluster
        assert cluster.by_name.keys() == self.nodes.keys()
        assert {uid.removeprefix("uid-") for uid in self.cache.assumed} == self.assumed.keys()
        for name, info in cluster.by_name.items():
            expected = self.expected(name)
            assert {pod.name for pod in info.pods.values()} == expected.keys()
            cpu = sum(resources.pod_requests(pod).get("cpu", 0) for pod in expected.values())
            assert info.requested.get("cpu", 0) == cluster.requested[0, info.row] == cpu
            assert cluster.pod_count[info.row] == len(expected)

    @invariant()
    def the_comparer_finds_nothing(self) -> None:
        waiting = {
            f"uid-{name}"
            for name, pod in self.pods.items()
            if not pod["spec"].get("nodeName") and name not in self.assumed
        }
        truth = Truth(nodes=self.nodes.values(), pods=self.pods.values(), others={})
        assert compare(self.cache, truth, waiting=waiting, profiles=("default-scheduler",)) == []

    def teardown(self) -> None:
        # A snapshot that followed at its own pace ends up with the same pods on the same nodes.
        self.snapshot.catch_up()
        for name, info in self.cache.cluster.by_name.items():
            twin = self.snapshot.cluster.by_name[name]
            assert (twin.row, list(twin.pods), twin.requested) == (info.row, list(info.pods), info.requested)


AgainstRecomputation.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_cache_equals_its_recomputation = pytest.mark.slow(AgainstRecomputation.TestCase)
