"""What wakes a pod that a plugin turned away, plugin by plugin."""

from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.framework import queueing_hints
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.queueing_hints import QueueingHintMap
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin
from rota.testing import schedulers
from rota.testing.clusters import HOSTNAME, ZONE, Document, make_node, make_pod

REGISTRY = builtin.registry()
FRAMEWORK = Framework(resolution.default(specs_of(REGISTRY)).first, REGISTRY)
WAKE_UPS = QueueingHintMap(FRAMEWORK)

NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD)
POD_DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
POD_ADDED = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)

TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
ZONED = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}


def required(kind: str) -> Document:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [ZONED]}}}


def node(*, taints: list[Document] | None = None, cordoned: bool = False, gpus: str = "0", **fields: Any) -> Any:
    document = make_node("a", **fields)
    document["status"]["allocatable"]["example.com/gpu"] = gpus
    document["spec"] = {"taints": taints or [], "unschedulable": cordoned}
    return Cluster().set_node(read_node(document))


def pod(name: str = "other", **fields: Any) -> Any:
    return PodInterner().pod(make_pod(name, **fields))


def port(number: int) -> list[Document]:
    return [{"name": "c", "ports": [{"containerPort": 80, "hostPort": number}]}]


SPREAD = [
    {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
]
TAINT_CHANGED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
LABEL_CHANGED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
GREW = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)


@pytest.mark.parametrize(
    ("plugin", "spec", "event", "old", "new", "helps"),
    [
        ("NodeUnschedulable", {}, NODE_ADDED, None, node(), True),
        ("NodeUnschedulable", {}, NODE_ADDED, None, node(cordoned=True), False),
        ("NodeUnschedulable", {}, TAINT_CHANGED, node(cordoned=True), node(), True),
        ("NodeUnschedulable", {}, TAINT_CHANGED, node(), node(taints=[TAINT]), False),
        ("TaintToleration", {}, TAINT_CHANGED, node(taints=[TAINT]), node(), True),
        ("TaintToleration", {}, NODE_ADDED, None, node(taints=[TAINT]), False),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, NODE_ADDED, None, node(labels={"disk": "ssd"}), True),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, NODE_ADDED, None, node(), False),
        (
            "NodeAffinity",
            {"nodeSelector": {"disk": "ssd"}},
            LABEL_CHANGED,
            node(labels={"disk": "ssd"}),
            node(labels={"disk": "ssd", "x": "y"}),
            False,
        ),
        ("NodePorts", {"containers": port(80)}, POD_DELETED, pod(on="a", containers=port(80)), None, True),
        ("NodePorts", {"containers": port(80)}, POD_DELETED, pod(on="a", containers=port(81)), None, False),
        ("NodeResourcesFit", {}, POD_DELETED, pod(on="a"), None, True),
        ("NodeResourcesFit", {}, POD_DELETED, pod(), None, False),
        ("NodeResourcesFit", {}, POD_ADDED, None, pod(on="a"), False),
        ("NodeResourcesFit", {}, NODE_ADDED, None, node(), True),
        ("NodeResourcesFit", {}, NODE_ADDED, None, node(cpu="10m"), False),
        ("NodeResourcesFit", {}, GREW, node(cpu="1"), node(cpu="2"), True),
        ("NodeResourcesFit", {}, GREW, node(), node(gpus="1"), False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, POD_ADDED, None, pod(labels={"app": "db"}), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, POD_ADDED, None, pod(labels={"app": "x"}), False),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, NODE_ADDED, None, node(labels={ZONE: "z"}), True),
        ("PodTopologySpread", {"topologySpreadConstraints": SPREAD}, NODE_ADDED, None, node(), False),
        ("InterPodAffinity", required("podAffinity"), POD_ADDED, None, pod(labels={"app": "db"}), True),
        ("InterPodAffinity", required("podAffinity"), POD_DELETED, pod(labels={"app": "db"}), None, False),
        ("InterPodAffinity", required("podAntiAffinity"), POD_DELETED, pod(labels={"app": "db"}), None, True),
        ("InterPodAffinity", required("podAntiAffinity"), POD_DELETED, pod(labels={"app": "x"}), None, False),
        ("InterPodAffinity", required("podAffinity"), NODE_ADDED, None, node(labels={ZONE: "z"}), True),
        ("InterPodAffinity", required("podAffinity"), NODE_ADDED, None, node(), False),
    ],
)
def test_an_event_wakes_only_pods_it_can_help(
    plugin: str, spec: Document, event: ClusterEvent, old: Any, new: Any, helps: bool
) -> None:
    refused = PodInterner().pod(make_pod("refused", **spec))
    assert WAKE_UPS.worth_trying(refused, [plugin], event, old, new) == ([plugin] if helps else [])


def test_an_existing_pod_whose_anti_affinity_ends_helps() -> None:
    hostile = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [hostile]}}
    refused = PodInterner().pod(make_pod("refused", labels={"app": "web"}))
    leaving = pod(on="a", affinity=affinity)
    assert WAKE_UPS.worth_trying(refused, ["InterPodAffinity"], POD_DELETED, leaving, None)


def test_a_hint_that_raises_and_a_plugin_that_is_gone_count_as_hope() -> None:
    refused = PodInterner().pod(make_pod("refused"))
    assert WAKE_UPS.worth_trying(refused, ["NodeResourcesFit"], POD_DELETED, "nonsense", None) == ["NodeResourcesFit"]
    assert WAKE_UPS.worth_trying(refused, ["Gone"], POD_DELETED, None, None) == ["Gone"]


def test_events_without_a_subscription_interest_no_plugin() -> None:
    assert WAKE_UPS.interested(NODE_ADDED)
    assert not WAKE_UPS.interested(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD))


def test_a_gated_pod_is_not_admitted() -> None:
    gated = PodInterner().pod(make_pod("gated", schedulingGates=[{"name": "wait"}]))
    assert queueing_hints.admit(FRAMEWORK, gated).plugin == "SchedulingGates"
    assert queueing_hints.admit(FRAMEWORK, PodInterner().pod(make_pod("free"))).ok


def test_more_important_pods_come_first_and_then_those_that_waited_longer() -> None:
    low, high = pod("low", priority=1), pod("high", priority=9)
    keys = [queueing_hints.sort_key(FRAMEWORK, who, at) for who, at in ((high, 5.0), (low, 1.0), (low, 2.0))]
    assert keys == sorted(keys)


DEFAULTS = """
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{topologyKey: %s, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]
"""


@pytest.mark.parametrize(
    ("event", "old", "new", "helps"),
    [
        (POD_ADDED, None, pod(labels={"app": "db"}), True),
        (POD_DELETED, pod(labels={"app": "db"}), None, True),
        (NODE_ADDED, None, node(labels={ZONE: "z"}), True),
        (NODE_ADDED, None, node(), False),
    ],
)
def test_a_pod_that_default_constraints_refused_wakes_when_pods_come_and_go(
    event: ClusterEvent, old: Any, new: Any, helps: bool
) -> None:
    framework = Framework(schedulers.configured(DEFAULTS % ZONE).configuration.first, REGISTRY)
    refused = PodInterner().pod(make_pod("refused", labels={"app": "db"}))
    plugin = "PodTopologySpread"
    assert QueueingHintMap(framework).worth_trying(refused, [plugin], event, old, new) == ([plugin] if helps else [])
