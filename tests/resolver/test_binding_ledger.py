"""What the resolver approves: never more than fits, counting approvals that have not arrived."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rota.api import conflict_reasons
from rota.apiserver.node_allocations import queue_index
from rota.apiserver.node_allocations.queue_index import QueueState
from rota.resolver.binding_ledger import BindingLedger
from rota.testing.clusters import make_node, make_pod


class _Storage:
    """Claims of the access mode that their name begins with, volumes of driver d, and a limit of two of them."""

    def claim(self, name: str, /) -> dict[str, Any] | None:
        namespace, _, own = name.partition("/")
        mode = "ReadWriteOncePod" if own.startswith("one") else "ReadWriteMany"
        metadata = {"namespace": namespace, "name": own}
        return {"metadata": metadata, "spec": {"accessModes": [mode], "volumeName": f"v-{own}"}}

    def volume(self, name: str, /) -> dict[str, Any] | None:
        return {"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}}

    def storage_class(self, name: str, /) -> dict[str, Any] | None:
        return None

    def csi_node(self, name: str, /) -> dict[str, Any] | None:
        return {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}}


def _queues(**capability: str) -> QueueState:
    made = QueueState()
    for queue, spec in {"root": {}, "q": {"capability": capability}, "below": {"parent": "q"}}.items():
        made.put(f"{queue_index.PREFIX}queues/{queue}", msgspec.json.encode({"spec": spec}))
    for group, queue in {"g": "q", "h": "below", "free": "default"}.items():
        made.put(f"{queue_index.PREFIX}podgroups/default/{group}", msgspec.json.encode({"spec": {"queue": queue}}))
    return made


def _ledger(cpu: str = "4", pods: str = "10", queues: QueueState | None = None) -> BindingLedger:
    made = BindingLedger(_Storage(), queues or QueueState())
    made.set_node("n1", make_node("n1", cpu=cpu, pods=pods))
    return made


def _reason(ledger: BindingLedger, pod: dict[str, Any], node: str = "n1", now: float = 0.0) -> str:
    refusal = ledger.approve(pod, node, now)
    return "" if refusal is None else refusal.reason


def test_an_approved_binding_holds_its_resources_until_the_watch_shows_it() -> None:
    ledger = _ledger(cpu="1")
    first, second = make_pod("a", cpu="700m"), make_pod("b", cpu="700m")
    assert _reason(ledger, first) == ""
    assert _reason(ledger, second) == conflict_reasons.CAPACITY
    ledger.set_pod("uid-a", make_pod("a", cpu="700m", on="n1"))
    assert len(ledger) == 0
    assert _reason(ledger, second) == conflict_reasons.CAPACITY
    ledger.set_pod("uid-a", None)
    assert _reason(ledger, second) == ""


def test_a_hold_ends_when_the_pod_was_read_without_a_node_after_the_request_timed_out() -> None:
    ledger = _ledger(cpu="1")
    assert _reason(ledger, make_pod("a", cpu="700m"), now=10.0) == ""
    ledger.set_pod("uid-a", make_pod("a", cpu="700m"))  # an update without a node ends nothing
    assert ledger.overdue(before=10.0) == []
    assert ledger.overdue(before=11.0) == [("default", "a")]
    ledger.release("uid-a", before=11.0)
    assert _reason(ledger, make_pod("b", cpu="700m"), now=80.0) == ""


def test_a_pod_that_two_schedulers_bind_holds_both_nodes() -> None:
    ledger = _ledger(cpu="1")
    ledger.set_node("n2", make_node("n2", cpu="1"))
    pod = make_pod("a", cpu="700m")
    assert _reason(ledger, pod, "n1") == _reason(ledger, pod, "n2") == ""
    other = make_pod("b", cpu="700m")
    assert _reason(ledger, other, "n1") == _reason(ledger, other, "n2") == conflict_reasons.CAPACITY
    ledger.set_pod("uid-a", make_pod("a", cpu="700m", on="n2"))
    assert _reason(ledger, other, "n1") == ""


def test_ports_anti_affinity_and_missing_nodes_are_refused_by_name() -> None:
    ledger = _ledger()
    port = [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    assert _reason(ledger, make_pod("a", containers=port)) == ""
    assert _reason(ledger, make_pod("b", containers=port)) == conflict_reasons.PORT
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert _reason(ledger, make_pod("c", labels={"app": "db"}, affinity=apart)) == ""
    assert _reason(ledger, make_pod("d", labels={"app": "web"})) == conflict_reasons.ANTI_AFFINITY
    assert _reason(ledger, make_pod("e"), "n9") == conflict_reasons.UNSCHEDULABLE
    assert _reason(ledger, make_pod("f", on="n1")) == conflict_reasons.POD_MOVED


def _mounting(name: str, *claims: str, **more: Any) -> dict[str, Any]:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return make_pod(name, volumes=volumes, **more)


def test_a_claim_for_one_pod_is_held_by_an_approval_and_by_a_bound_pod() -> None:
    ledger = _ledger()
    ledger.set_node("n2", make_node("n2"))
    assert _reason(ledger, _mounting("a", "one")) == ""
    assert _reason(ledger, _mounting("a", "one"), "n2") == ""  # the same pod, bound by a second scheduler
    assert _reason(ledger, _mounting("b", "one"), "n2") == conflict_reasons.VOLUME
    ledger.set_pod("uid-a", _mounting("a", "one", on="n1"))
    refusal = ledger.approve(_mounting("b", "one"), "n2", 0.0)
    assert refusal is not None
    assert refusal.message == "claim default/one is for one pod, and pod default/a uses it"
    elsewhere = _mounting("c", "one")
    elsewhere["metadata"]["namespace"] = "other"
    assert _reason(ledger, elsewhere, "n2") == ""
    ledger.set_pod("uid-a", None)
    assert _reason(ledger, _mounting("b", "one"), "n2") == ""


def test_a_driver_attaches_no_more_volumes_than_its_limit_and_shared_ones_once() -> None:
    ledger = _ledger()
    assert _reason(ledger, _mounting("a", "x")) == ""
    ledger.set_pod("uid-b", _mounting("b", "y", on="n1"))
    assert _reason(ledger, _mounting("c", "z")) == conflict_reasons.VOLUME
    assert _reason(ledger, _mounting("d", "x", "y")) == ""
    assert _reason(ledger, make_pod("e")) == ""


def test_pods_of_a_queue_do_not_exceed_its_capability_with_those_of_queues_below_it() -> None:
    ledger = _ledger(queues=_queues(cpu="1"))

    def member(name: str, group: str, on: str = "") -> dict[str, Any]:
        return make_pod(name, cpu="400m", annotations={"scheduling.k8s.io/group-name": group}, on=on)

    assert _reason(ledger, member("a", "g")) == ""
    ledger.set_pod("uid-b", member("b", "h", on="n1"))
    refusal = ledger.approve(member("c", "h"), "n1", 0.0)
    assert refusal is not None
    assert (refusal.reason, "queue q has" in refusal.message) == (conflict_reasons.QUOTA, True)
    assert _reason(ledger, member("d", "free")) == ""
    ledger.set_pod("uid-b", None)
    assert _reason(ledger, member("c", "h")) == ""


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    ledger = _ledger()
    node = make_node("n1")
    ledger.set_node("n1", {**node, "spec": {"unschedulable": True}})
    assert _reason(ledger, make_pod("a")) == conflict_reasons.UNSCHEDULABLE
    tolerating = make_pod("b", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert _reason(ledger, tolerating) == ""
    ledger.set_node("n1", node)
    assert _reason(ledger, make_pod("a")) == ""


def test_a_dry_run_holds_nothing() -> None:
    ledger = _ledger(cpu="1")
    assert ledger.approve(make_pod("a", cpu="700m"), "n1", 0.0, dry_run=True) is None
    assert len(ledger) == 0


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from(["bind", "show", "gone"]), st.integers(100, 900))))
def test_what_is_approved_always_fits(steps: list[tuple[int, str, int]]) -> None:
    ledger = _ledger(cpu="2", pods="6")
    there: dict[int, int] = {}
    shown: set[int] = set()
    for number, action, cpu in steps:
        if action == "bind" and number not in there:
            if ledger.approve(make_pod(f"p{number}", cpu=f"{cpu}m"), "n1", 0.0) is None:
                there[number] = cpu
        elif action == "show" and number in there and number not in shown:
            ledger.set_pod(f"uid-p{number}", make_pod(f"p{number}", cpu=f"{there[number]}m", on="n1"))
            shown.add(number)
        elif action == "gone" and number in there:
            ledger.set_pod(f"uid-p{number}", None)
            del there[number]
            shown.discard(number)
        assert sum(there.values()) <= 2000
        assert len(there) <= 6
