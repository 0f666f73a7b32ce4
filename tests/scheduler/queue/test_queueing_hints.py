"""What brings a waiting pod back: events by the hints of those who turned it away, its own updates, and insistence."""

import pytest
from tests.scheduler.queue.conftest import CLAIM_ADDED, NODE_ADDED, NODE_TAINTED, POD_DELETED, Waiting

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.cache.scheduler_cache import node_snapshot
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.testing.clusters import ZONE, Document, make_node, make_pod

# --- events ---------------------------------------------------------------------------------------------------------


def test_an_event_moves_only_those_whose_rejectors_hope() -> None:
    waiting = Waiting()
    for name in ("a", "b"):
        waiting.refuse(name, "Picky")
    waiting.refuse("c", "Easy")
    assert waiting.move(NODE_ADDED, "b", "c") == 1
    assert waiting.place("b") is QueueState.BACKOFF
    assert waiting.place("a") is waiting.place("c") is QueueState.UNSCHEDULABLE


def test_one_event_helps_pods_of_several_plugins_and_shapes() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    waiting.refuse("b", "Eager")
    waiting.refuse("c", "Easy", "Eager", priority=1)
    waiting.refuse("d", "Easy", labels={"app": "x"})
    waiting.refuse("e", "Deaf")
    assert waiting.move(POD_DELETED) == 4
    assert waiting.place("e") is QueueState.UNSCHEDULABLE


def test_one_hopeful_rejector_of_several_is_enough() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Picky", "Deaf", "Easy")
    assert waiting.move(NODE_ADDED) == 0
    assert waiting.move(POD_DELETED) == 1


def test_an_event_without_a_subscription_moves_no_pod() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Picky", "Easy", "Deaf")
    assert waiting.move(NODE_TAINTED, "a") == 0


def test_a_plugin_that_did_not_say_what_wakes_its_pods_is_woken_by_everything() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Eager")
    assert waiting.move(NODE_TAINTED) == 1


def test_a_rejector_that_is_no_plugin_such_as_an_extender_is_woken_by_everything() -> None:
    waiting = Waiting()
    waiting.refuse("a", "some-extender")
    assert waiting.move(NODE_TAINTED) == 1


def test_a_hint_that_raises_is_taken_for_hope() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Picky")
    assert waiting.queue.move(NODE_ADDED, None, None, now=waiting.now) == 1


def test_a_pod_whose_rest_is_over_goes_straight_to_the_ready_ones() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    waiting.now += 2
    waiting.move(POD_DELETED)
    assert waiting.place("a") is QueueState.ACTIVE


def test_what_only_waited_for_something_outside_goes_on_without_a_rest() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    assert waiting.fail("a", "Deaf", pending=["Picky"]) is QueueState.UNSCHEDULABLE
    waiting.move(NODE_ADDED, "a")
    assert waiting.place("a") is QueueState.ACTIVE


def test_an_event_that_only_helps_another_rejector_does_not_spare_a_pending_pod_its_rest() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    waiting.fail("a", "Easy", pending=["Picky"])
    waiting.move(POD_DELETED)
    assert waiting.place("a") is QueueState.BACKOFF


def test_a_nomination_taken_back_concerns_only_pods_that_had_to_respect_it() -> None:
    waiting = Waiting()
    waiting.refuse("low", "Easy", priority=1)
    waiting.refuse("equal", "Easy", priority=5)
    waiting.refuse("high", "Easy", priority=9)
    gone = waiting.pod("gone", priority=5, nominated="n")
    assert waiting.queue.move(POD_DELETED, gone, None, now=waiting.now, up_to_priority=5) == 2
    assert waiting.place("high") is QueueState.UNSCHEDULABLE


def test_profiles_are_woken_by_their_own_plugins() -> None:
    waiting = Waiting(profiles=("one", "two"))
    waiting.refuse("a", "Easy", schedulerName="one")
    waiting.refuse("b", "Deaf", schedulerName="two")
    assert waiting.move(POD_DELETED) == 1
    assert waiting.place("a") is QueueState.BACKOFF


# --- the pod itself -------------------------------------------------------------------------------------------------


def test_an_update_that_helps_brings_a_pod_back() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Picky")
    waiting.update("a", labels={"app": "new"})
    assert waiting.place("a") is QueueState.BACKOFF
    assert waiting.get("a").pod.labels == {"app": "new"}


def test_an_update_that_does_not_help_leaves_a_pod_waiting_as_it_is_now() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    waiting.update("a", labels={"app": "new"})
    assert waiting.place("a") is QueueState.UNSCHEDULABLE
    assert waiting.get("a").pod.labels == {"app": "new"}
    assert waiting.move(POD_DELETED) == 1


def test_an_update_without_a_change_wakes_no_pod() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Eager")
    waiting.update("a")
    assert waiting.place("a") is QueueState.UNSCHEDULABLE


def test_an_update_of_an_unknown_pod_adds_it_and_an_addition_of_a_known_one_updates_it() -> None:
    waiting = Waiting()
    waiting.update("a")
    waiting.add("a", priority=7)
    assert len(waiting.queue) == 1
    assert waiting.get("a").pod.priority == 7


# --- insistence -----------------------------------------------------------------------------------------------------


def test_activation_cuts_waits_and_rests_short() -> None:
    waiting = Waiting()
    waiting.refuse("waits", "Deaf")
    waiting.refuse("faulty")
    waiting.refuse("rests", "Easy")
    waiting.move(POD_DELETED)
    assert waiting.activate("waits", "rests", "faulty", "unknown") == 3
    assert waiting.queue.count(QueueState.ACTIVE) == 3


def test_activation_does_not_lift_a_gate() -> None:
    waiting = Waiting()
    waiting.add("a", gates=["wait"])
    assert waiting.activate("a") == 0
    assert waiting.place("a") is QueueState.GATED


def test_activation_of_a_pod_that_is_being_tried_counts_when_it_comes_back() -> None:
    waiting = Waiting()
    waiting.add("a")
    waiting.pop()
    assert waiting.activate("a") == 0
    assert waiting.fail("a", "Deaf") is QueueState.BACKOFF


# --- gates ----------------------------------------------------------------------------------------------------------


def test_a_gated_pod_is_not_tried_until_its_gates_are_gone() -> None:
    waiting = Waiting()
    waiting.add("a", gates=["wait"])
    assert (waiting.place("a"), waiting.get("a").gate) == (QueueState.GATED, "Gate")
    assert waiting.pop() == ""
    waiting.update("a", gates=["wait"], labels={"x": "y"})
    assert waiting.place("a") is QueueState.GATED
    waiting.update("a")
    assert (waiting.place("a"), waiting.get("a").gate, waiting.get("a").attempts) == (QueueState.ACTIVE, "", 0)


def test_a_gated_pod_is_woken_only_by_events_of_its_gate() -> None:
    waiting = Waiting()
    waiting.add("a", gates=["wait"])
    for event in (NODE_ADDED, NODE_TAINTED, POD_DELETED, CLAIM_ADDED):
        assert waiting.move(event, "a") == 0
    assert waiting.place("a") is QueueState.GATED


def test_an_event_of_the_gate_is_also_put_to_the_plugins_that_refused_the_pod_before() -> None:
    waiting = Waiting()
    waiting.refuse("a", "Easy")
    waiting.update("a", gates=["again"])  # no API server allows that; an external plugin may gate a pod any time
    waiting.move(POD_DELETED)
    assert waiting.place("a") is QueueState.GATED
    incoming = waiting.queue.incoming[QueueState.GATED, "PersistentVolumeClaimAdd"]
    waiting.move(CLAIM_ADDED)
    assert waiting.place("a") is QueueState.GATED
    assert waiting.queue.incoming[QueueState.GATED, "PersistentVolumeClaimAdd"] == incoming + 1
    waiting.move(POD_DELETED)
    assert waiting.queue.incoming[QueueState.GATED, "AssignedPodDelete"] == 1


def test_time_looks_after_gated_pods_too() -> None:
    waiting = Waiting()
    waiting.add("a", gates=["wait"])
    assert waiting.after(400) == 0
    assert waiting.queue.incoming[QueueState.GATED, "UnschedulableTimeout"] == 1


# --- the plugins that come with the scheduler, on real objects ------------------------------------------------------

_REGISTRY = builtin.registry()
_FRAMEWORK = Framework(resolution.default(specs_of(_REGISTRY)).first, _REGISTRY)
_TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
_APART = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
_SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_APART}
_PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
_CLAIMS = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
_DISK = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]


def _event(resource: Resource, action: Action) -> ClusterEvent:
    return ClusterEvent(resource, action)


def _node(name: str = "n", *, taints: list[Document] | None = None, cordoned: bool = False, **fields: str) -> Document:
    document = make_node(name, labels={ZONE: "z", "disk": "ssd"}, **fields)
    document["spec"] = {"taints": taints or [], "unschedulable": cordoned}
    return document


def _claim(name: str) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {}}


@pytest.mark.parametrize(
    ("plugin", "spec", "resource", "action", "helpful", "useless"),
    [
        ("NodeName", {}, Resource.NODE, Action.ADD, _node(), None),
        ("NodeUnschedulable", {}, Resource.NODE, Action.ADD, _node(), _node(cordoned=True)),
        ("TaintToleration", {}, Resource.NODE, Action.ADD, _node(), _node(taints=[_TAINT])),
        ("NodeAffinity", {"nodeSelector": {"disk": "ssd"}}, Resource.NODE, Action.ADD, _node(), make_node("m")),
        ("NodeResourcesFit", {}, Resource.NODE, Action.ADD, _node(), _node(cpu="50m")),
        ("NodeResourcesFit", {}, Resource.ASSIGNED_POD, Action.DELETE, make_pod("o", on="n"), make_pod("o")),
        (
            "NodePorts",
            {"containers": _PORT},
            Resource.ASSIGNED_POD,
            Action.DELETE,
            make_pod("o", on="n", containers=_PORT),
            make_pod("o", on="n"),
        ),
        (
            "PodTopologySpread",
            {"topologySpreadConstraints": [_SPREAD]},
            Resource.ASSIGNED_POD,
            Action.ADD,
            make_pod("o", on="n", labels={"app": "db"}),
            make_pod("o", on="n"),
        ),
        (
            "InterPodAffinity",
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_APART]}}},
            Resource.ASSIGNED_POD,
            Action.ADD,
            make_pod("o", on="n", labels={"app": "db"}),
            make_pod("o", on="n"),
        ),
        (
            "InterPodAffinity",
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_APART]}}},
            Resource.ASSIGNED_POD,
            Action.DELETE,
            make_pod("o", on="n", labels={"app": "db"}),
            make_pod("o", on="n"),
        ),
        (
            "VolumeRestrictions",
            {"volumes": _DISK},
            Resource.ASSIGNED_POD,
            Action.DELETE,
            make_pod("o", on="n", volumes=_DISK),
            make_pod("o", on="n"),
        ),
        (
            "VolumeRestrictions",
            {"volumes": _CLAIMS},
            Resource.PERSISTENT_VOLUME_CLAIM,
            Action.ADD,
            _claim("data"),
            _claim("other"),
        ),
        (
            "VolumeBinding",
            {"volumes": _CLAIMS},
            Resource.PERSISTENT_VOLUME_CLAIM,
            Action.ADD,
            _claim("data"),
            _claim("other"),
        ),
        ("VolumeZone", {"volumes": _CLAIMS}, Resource.PERSISTENT_VOLUME, Action.ADD, {"metadata": {"name": "v"}}, None),
        (
            "NodeVolumeLimits",
            {"volumes": _CLAIMS},
            Resource.PERSISTENT_VOLUME_CLAIM,
            Action.ADD,
            _claim("data"),
            _claim("other"),
        ),
    ],
)
def test_a_pod_turned_away_by_a_plugin_is_woken_by_what_helps_and_not_by_what_does_not(
    plugin: str, spec: Document, resource: Resource, action: Action, helpful: Document, useless: Document | None
) -> None:
    interner = PodInterner()
    queue = SchedulingQueue({_FRAMEWORK.profile_name: _FRAMEWORK})
    for name in ("one", "two"):
        queue.add(interner.pod(make_pod(name, **spec)), 0.0)
        assert queue.pop(0.0) is not None
        queue.requeue(f"uid-{name}", now=0.0, unschedulable_plugins={plugin})
    event = _event(resource, action)
    for other, woken in ((useless, 0), (helpful, 2)):
        if other is None:
            continue
        thing: object = other
        if resource is Resource.NODE:
            thing = node_snapshot(Cluster().set_node(read_node(other)))
        elif resource is Resource.ASSIGNED_POD:
            thing = interner.pod(other)
        old, new = (thing, None) if action is Action.DELETE else (None, thing)
        assert queue.move(event, old, new, now=10.0) == woken
    assert queue.count(QueueState.ACTIVE) == 2
    assert queue.move(_event(Resource.DEVICE_CLASS, Action.ADD), None, None, now=10.0) == 0


def test_any_event_retries_a_pod_that_an_extender_refused() -> None:
    queue = SchedulingQueue({_FRAMEWORK.profile_name: _FRAMEWORK})
    queue.add(PodInterner().pod(make_pod("a")), 0.0)
    assert queue.pop(0.0) is not None
    queue.requeue("uid-a", now=0.0, unschedulable_plugins={"https://extender.example"})
    assert queue.move(_event(Resource.DEVICE_CLASS, Action.ADD), None, None, now=10.0) == 1
