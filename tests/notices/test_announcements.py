"""What becomes of what is said about a machine, on its node."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import times
from rota.api.patches import merge
from rota.notices import announcements
from rota.notices.announcements import HEARD, SAID_BY, Announcement, Decision, Kind, Verdict
from rota.spot import node_readings
from rota.spot.node_signals import AT_RISK, TERMINATES_AT, NodeSignals

NOW = times.parse("2026-03-01T12:00:00Z")
ENDS = Announcement(kind=Kind.TERMINATION, source="webhook", provider="aws", deadline=NOW + 100, id="1")


def node(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n1",
            "uid": "u1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-03-01T10:00:00Z",
            **metadata,
        },
        "spec": {"taints": [{"key": "theirs", "effect": "NoExecute"}]},
    }


def patched(before: dict[str, Any], decision: Decision) -> dict[str, Any]:
    if decision.patch is None:
        return before
    after: dict[str, Any] = merge.apply(copy.deepcopy(before), decision.patch)
    return after


def decided(before: dict[str, Any], said: Announcement, now: float = NOW) -> tuple[Verdict, dict[str, Any]]:
    decision = announcements.decide(before, said, now=now, lead=120)
    return decision.verdict, patched(before, decision)


def ends_at(marked: dict[str, Any]) -> float:
    notice = node_readings.read(marked, NodeSignals(), now=NOW).notice
    assert notice is not None
    return notice.deadline


def test_what_is_said_in_the_future_is_said_now() -> None:
    _, marked = decided(node(), replace(ENDS, deadline=None, said_at=NOW + 9e8))
    assert ends_at(marked) == NOW + 120


def test_a_termination_is_read_from_the_node_as_it_was_said() -> None:
    verdict, marked = decided(node(), ENDS)
    assert verdict is Verdict.MARKED
    notice = node_readings.read(marked, NodeSignals(), now=NOW + 50).notice
    assert notice is not None
    assert (notice.provider, notice.since, notice.deadline) == ("aws", NOW, NOW + 100)
    assert marked["metadata"]["annotations"][SAID_BY] == "webhook"
    assert marked["spec"]["taints"][0] == {"key": "theirs", "effect": "NoExecute"}


def test_a_patch_holds_only_for_the_node_as_it_was_read() -> None:
    patch = announcements.decide(node(), ENDS, now=NOW, lead=120).patch
    assert patch is not None
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("u1", "7")


def test_what_is_repeated_is_known_even_after_it_was_withdrawn() -> None:
    _, marked = decided(node(), ENDS)
    assert announcements.decide(marked, ENDS, now=NOW + 5, lead=120) == Decision(Verdict.KNOWN)
    verdict, calm = decided(marked, Announcement(kind=Kind.WITHDRAWN, source="webhook"))
    assert verdict is Verdict.WITHDRAWN
    assert node_readings.read(calm, NodeSignals(), now=NOW).notice is None
    assert TERMINATES_AT not in calm["metadata"]["annotations"]
    assert decided(calm, ENDS) == (Verdict.KNOWN, calm)


def test_a_time_is_only_made_tighter() -> None:
    _, marked = decided(node(), ENDS)
    verdict, same = decided(marked, replace(ENDS, deadline=NOW + 300, id="2"))
    assert verdict is Verdict.KNOWN
    assert ends_at(same) == NOW + 100
    verdict, tighter = decided(same, replace(ENDS, deadline=NOW + 30, id="3"))
    assert verdict is Verdict.MARKED
    assert ends_at(tighter) == NOW + 30


def test_a_missing_deadline_is_the_providers_lead_time_after_the_notice() -> None:
    _, marked = decided(node(), replace(ENDS, deadline=None, said_at=NOW - 20))
    assert ends_at(marked) == NOW + 100


def test_what_is_long_over_is_not_written() -> None:
    verdict, same = decided(node(), replace(ENDS, deadline=NOW - 61))
    assert (verdict, same) == (Verdict.LATE, node())
    assert decided(node(), replace(ENDS, deadline=NOW - 59))[0] is Verdict.MARKED


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (replace(ENDS, uid="u0"), Verdict.FORMER),
        (replace(ENDS, uid="u1"), Verdict.MARKED),
        (replace(ENDS, said_at=times.parse("2026-03-01T09:59:00Z")), Verdict.FORMER),
        (replace(ENDS, said_at=times.parse("2026-03-01T09:59:00Z"), uid="u1"), Verdict.MARKED),
        # a machine may hear of its end before it has joined
        (replace(ENDS, said_at=times.parse("2026-03-01T09:59:00Z"), exact=True), Verdict.MARKED),
        (replace(ENDS, said_at=times.parse("2026-03-01T10:00:01Z")), Verdict.MARKED),
    ],
)
def test_a_new_machine_under_an_old_name_has_nothing_to_do_with_the_old_one(
    said: Announcement, verdict: Verdict
) -> None:
    assert decided(node(), said)[0] is verdict


def test_a_risk_is_no_notice_and_does_not_hide_one() -> None:
    risk = Announcement(kind=Kind.RISK, source="agent", provider="aws", id="r")
    verdict, marked = decided(node(), risk)
    reading = node_readings.read(marked, NodeSignals(), now=NOW)
    assert (verdict, reading.notice, reading.risky) == (Verdict.MARKED, None, AT_RISK)
    assert marked["spec"]["taints"][-1]["effect"] == "PreferNoSchedule"
    assert decided(marked, replace(risk, id="s"))[0] is Verdict.KNOWN
    verdict, both = decided(marked, ENDS)
    assert verdict is Verdict.MARKED
    assert ends_at(both) == NOW + 100


def test_a_withdrawal_of_nothing_changes_no_marks() -> None:
    assert decided(node(), Announcement(kind=Kind.WITHDRAWN, source="webhook")) == (Verdict.KNOWN, node())


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(Kind), st.integers(-100, 300), st.integers(0, 30)), max_size=40))
def test_whatever_is_said_in_whatever_order_nodes_stay_small_and_repetitions_change_nothing(
    state_history: list[tuple[Kind, int, int]],
) -> None:
    now = node()
    for kind, left, number in state_history:
        said = Announcement(kind=kind, source="webhook", provider="gcp", deadline=NOW + left, id=str(number))
        _, now = decided(now, said)
        decision = announcements.decide(now, said, now=NOW, lead=30)
        assert decision.patch is None
    keys = [one["key"] for one in now["spec"]["taints"]]
    assert keys[0] == "theirs"
    assert len(keys) == len(set(keys))
    heard = (now["metadata"].get("annotations") or {}).get(HEARD) or ""
    assert len(heard) < 600
