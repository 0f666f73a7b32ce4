"""Leaving a machine in time: facts and times in, steps out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.spot import evacuation
from rota.spot.evacuation import SAFETY_S, Act, EvictedPod
from rota.spot.node_readings import Notice
from rota.spot.policies import AtDeadline

NOTICE = Notice(node="n", uid="u", provider="aws", mark="m", since=1000.0, deadline=1120.0)


def guest(
    key: str = "ns/a",
    priority: int = 0,
    grace_s: float = 30.0,
    at_deadline: AtDeadline = AtDeadline.DELETE,
    *,
    reserved: bool = False,
    refusals: int = 0,
    refused_at: float = -math.inf,
    going: bool = False,
) -> EvictedPod:
    return EvictedPod(
        key=key,
        uid=key,
        priority=priority,
        grace_s=grace_s,
        at_deadline=at_deadline,
        reserved=reserved,
        refusals=refusals,
        refused_at=refused_at,
        going=going,
    )


def acts(*guests: EvictedPod, now: float) -> list[tuple[Act, str]]:
    return [(step.act, step.guest.key) for step in evacuation.plan(guests, NOTICE, now=now).steps]


def test_a_pod_stays_until_there_is_a_place_for_its_successor() -> None:
    assert evacuation.plan([guest()], NOTICE, now=1000.0) == evacuation.Plan([], 1120.0 - SAFETY_S - 30)
    assert acts(guest(reserved=True), now=1000.0) == [(Act.EVICT, "ns/a")]


def test_at_its_latest_moment_it_goes_without_one() -> None:
    assert acts(guest(), now=1088.0) == [(Act.EVICT, "ns/a")]


def test_a_budget_is_asked_again_more_and_more_slowly() -> None:
    waits = []
    for refusals in range(1, 6):
        plan = evacuation.plan([guest(reserved=True, refusals=refusals, refused_at=1010.0)], NOTICE, now=1010.0)
        assert not plan.steps
        waits.append(plan.wake_at - 1010.0)
    assert waits == [1, 2, 4, 5, 5]


def test_at_the_latest_moment_the_policy_decides_over_the_budget() -> None:
    assert acts(guest(refusals=3, refused_at=1088.0), now=1089.0) == [(Act.DELETE, "ns/a")]
    strict = guest(at_deadline=AtDeadline.STRICT, refusals=3, refused_at=1088.0)
    assert acts(strict, now=1089.0) == []
    assert acts(strict, now=1092.0) == [(Act.EVICT, "ns/a")]


def test_no_budget_is_overridden_that_was_not_asked() -> None:
    assert acts(guest(), now=1119.0) == [(Act.EVICT, "ns/a")]


def test_critical_pods_go_first_and_then_those_that_need_longest() -> None:
    guests = [
        guest("ns/slow", grace_s=60, reserved=True),
        guest("ns/quick", grace_s=1, reserved=True),
        guest("ns/critical", priority=2_000_000_000, reserved=True),
    ]
    assert [key for _, key in acts(*guests, now=1000.0)] == ["ns/critical", "ns/slow", "ns/quick"]


def test_what_is_going_already_is_left_alone() -> None:
    assert evacuation.plan([guest(going=True, reserved=True)], NOTICE, now=1100.0) == evacuation.Plan([], math.inf)


GUESTS = st.lists(
    st.builds(
        guest,
        key=st.uuids().map(str),
        priority=st.integers(-10, 10),
        grace_s=st.floats(0, 300),
        at_deadline=st.sampled_from(AtDeadline),
        reserved=st.booleans(),
        refusals=st.integers(0, 6),
        refused_at=st.floats(1000, 1120),
    ),
    max_size=8,
)


@given(GUESTS, st.floats(1000, 1200))
def test_every_pod_is_acted_on_or_looked_at_again(guests: list[EvictedPod], now: float) -> None:
    plan = evacuation.plan(guests, NOTICE, now=now)
    acted = {step.guest.key for step in plan.steps}
    waiting = [one for one in guests if one.key not in acted]
    assert all(plan.wake_at < math.inf for _ in waiting)
    assert plan.wake_at > now
    for one in waiting:
        # nothing that could go waits longer than until its latest moment, or a budget's next turn
        assert one.refusals or plan.wake_at <= evacuation.latest(one, NOTICE)
    for step in plan.steps:
        assert step.guest.reserved or now >= evacuation.latest(step.guest, NOTICE)
        assert step.act is Act.EVICT or (step.guest.refusals and step.guest.at_deadline is AtDeadline.DELETE)


@pytest.mark.parametrize(
    ("pod", "leaves"),
    [
        ({"metadata": {"name": "a"}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}}, False),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"metadata": {}, "status": {"phase": "Succeeded"}}, False),
        ({"metadata": {}, "status": {"phase": "Running"}}, True),
    ],
)
def test_daemons_mirrors_and_finished_pods_are_left_alone(pod: dict[str, object], leaves: bool) -> None:
    assert evacuation.must_leave(pod) is leaves


def test_a_higher_priority_pod_is_retried_before_lower_ones() -> None:
    high = guest("ns/high", 10, reserved=True, refusals=3, refused_at=1010.0)
    low = guest("ns/low", 1, reserved=True)
    asking = evacuation.plan([high, low], NOTICE, now=1011.0).steps
    assert [step.guest.key for step in asking] == ["ns/low"]
    assert [step.guest.key for step in evacuation.overtaken([high, low], asking, now=1011.0)] == ["ns/high"]
    assert evacuation.overtaken([high, low], asking, now=1010.1) == []
    assert evacuation.overtaken([high], [], now=1011.0) == []
    going = guest("ns/high", 10, reserved=True, refusals=3, refused_at=1010.0, going=True)
    assert evacuation.overtaken([going, low], asking, now=1011.0) == []
