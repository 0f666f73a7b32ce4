"""The assignment of pods to schedulers: exactly one decider, and only the movement that a change needs."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.sharding.map_planning import LiveScheduler, next_map
from rota.scheduler.sharding.shard_map import Member, ShardMap, Together, routing_key

_names = st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=8, unique=True)
_KEYS = [f"owner/{number}" for number in range(200)]


@st.composite
def _maps(draw: st.DrawFn) -> ShardMap:
    members = tuple(
        Member(name=name, weight=draw(st.integers(1, 400)), selector=draw(st.sampled_from([None, None, SELECTOR])))
        for name in draw(_names)
    )
    return ShardMap(epoch=1, members=members)


SELECTOR: Mapping[str, Any] = {"matchLabels": {"team": "blue"}}
_labels = st.sampled_from([{}, {"team": "blue"}, {"team": "red"}])


@given(_maps(), _labels)
def test_every_pod_has_exactly_one_decider_whatever_the_order_of_the_members(
    shards: ShardMap, labels: dict[str, str]
) -> None:
    turned = ShardMap(epoch=1, members=shards.members[::-1])
    for key in _KEYS[:50]:
        decider = shards.decider(key, labels)
        assert decider in {member.name for member in shards.members}
        assert turned.decider(key, labels) == decider


@given(_maps(), st.data())
def test_a_member_that_leaves_moves_only_its_own_pods(shards: ShardMap, data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(shards.members))
    members = tuple(one for one in shards.members if one is not gone)
    fewer = ShardMap(epoch=2, members=members)
    had_selectors = any(one.selector is None for one in shards.members)
    if had_selectors != any(one.selector is None for one in members):
        return  # without general members, those with selectors take all pods
    for key in _KEYS:
        before = shards.decider(key, {})
        if before != gone.name:
            assert fewer.decider(key, {}) == before


@given(_maps(), st.integers(1, 400))
def test_a_member_that_comes_only_takes_pods(shards: ShardMap, weight: int) -> None:
    if all(one.selector is not None for one in shards.members):
        return
    more = ShardMap(epoch=2, members=(*shards.members, Member(name="NEW", weight=weight)))
    for key in _KEYS:
        assert more.decider(key, {}) in {shards.decider(key, {}), "NEW"}


@given(_maps(), st.data())
def test_more_weight_only_takes_pods_and_less_only_gives(shards: ShardMap, data: st.DataObject) -> None:
    changed = data.draw(st.sampled_from(shards.members))
    heavier = Member(name=changed.name, weight=changed.weight * 2, selector=changed.selector)
    other = ShardMap(epoch=2, members=tuple(heavier if one is changed else one for one in shards.members))
    for key in _KEYS:
        assert other.decider(key, {}) in {shards.decider(key, {}), changed.name}


def test_pods_are_divided_by_weight() -> None:
    shards = ShardMap(epoch=1, members=(Member(name="a", weight=100), Member(name="b", weight=300)))
    found = Counter(shards.decider(f"pod/{number}", {}) for number in range(8000))
    assert 0.22 < found["a"] / 8000 < 0.28


def test_pods_with_policy_labels_go_to_members_with_that_selector_and_others_to_general_ones() -> None:
    shards = ShardMap(epoch=1, members=(Member(name="a"), Member(name="blue", selector=SELECTOR), Member(name="c")))
    for key in _KEYS:
        assert shards.decider(key, {"team": "blue"}) == "blue"
        assert shards.decider(key, {"team": "red"}) in {"a", "c"}


def _pod(uid: str, **more: Any) -> PodInfo:
    metadata = {"name": uid, "namespace": "shop", "uid": uid, **more.pop("metadata", {})}
    spec = {"containers": [{"name": "c", "image": "i"}], **more}
    return PodInterner().pod({"metadata": metadata, "spec": spec}, keep=True)


def _anti(topology: str) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_of_one_owner_stay_together() -> None:
    owned = {
        "ownerReferences": [{"uid": "job-1", "kind": "Job", "name": "j", "apiVersion": "batch/v1", "controller": True}]
    }
    assert routing_key(_pod("a", metadata=owned)) == routing_key(_pod("b", metadata=owned)) == "owner/job-1"
    assert routing_key(_pod("a")) == "pod/a"
    assert routing_key(_pod("a"), Together.NAMESPACE) == "namespace/shop"


@pytest.mark.parametrize(
    ("spec", "together"),
    [
        ({"affinity": _anti("topology.kubernetes.io/zone")}, True),
        # Checked by the binding transaction.
        ({"affinity": _anti("kubernetes.io/hostname")}, False),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
                ]
            },
            True,
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
                ]
            },
            False,
        ),
    ],
)
def test_pods_with_constraints_over_domains_of_nodes_have_one_decider_in_their_namespace(
    spec: dict[str, Any], together: bool
) -> None:
    keys = {routing_key(_pod("a", **spec)), routing_key(_pod("b", **spec))}
    assert keys == ({"domain/shop"} if together else {"pod/a", "pod/b"})


def test_domain_wide_keys_ignore_policy_labels() -> None:
    shards = ShardMap(epoch=1, members=(Member(name="a"), Member(name="blue", selector=SELECTOR)))
    assert shards.decider("domain/shop", {"team": "blue"}) == shards.decider("domain/shop", {}) == "a"


def test_the_next_map_has_the_live_schedulers_and_is_none_if_nothing_changes() -> None:
    live = [LiveScheduler(name="b"), LiveScheduler(name="a", term=2)]
    first = next_map(ShardMap(), live)
    assert first is not None
    assert [(one.name, one.term) for one in first.members] == [("a", 2), ("b", 0)]
    assert first.epoch == 1
    assert next_map(first, live) is None
    # A process that came again under the same name is another member: the others acknowledge once more.
    again = next_map(first, [live[0], LiveScheduler(name="a", term=3)])
    assert again is not None
    assert again.epoch == 2


def test_a_long_queue_lowers_the_weight_and_a_short_one_restores_it() -> None:
    full = [LiveScheduler(name="a", queued=5000), LiveScheduler(name="b"), LiveScheduler(name="c")]
    first = next_map(ShardMap(), full)
    assert first is not None
    assert next_map(first, full) is None  # not before the interval has passed
    lowered = next_map(first, full, may_balance=True)
    assert lowered is not None
    assert {one.name: one.weight for one in lowered.members} == {"a": 80, "b": 100, "c": 100}
    now = lowered
    for _ in range(20):
        now = next_map(now, full, may_balance=True) or now
    assert {one.weight for one in now.members if one.name == "a"} == {25}  # never below a quarter
    empty = [LiveScheduler(name="a"), LiveScheduler(name="b", queued=90), LiveScheduler(name="c", queued=90)]
    for _ in range(20):
        now = next_map(now, empty, may_balance=True) or now
    assert {one.weight for one in now.members} == {100}
