"""What the resolver approves: never more than fits, counting approvals that have not arrived."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.api import conflict_reasons
from rota.resolver.binding_ledger import BindingLedger
from rota.testing.clusters import make_node, make_pod


def _ledger(cpu: str = "4", pods: str = "10") -> BindingLedger:
    made = BindingLedger()
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
