"""The handover between maps: never two deciders, whatever is seen in whatever order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.scheduler.sharding.ownership import Ownership
from rota.scheduler.sharding.shard_map import Member, ShardMap

_KEYS = [f"owner/{number}" for number in range(40)]


def _map(epoch: int, *names: str) -> ShardMap:
    return ShardMap(epoch=epoch, members=tuple(Member(name=name) for name in names))


def _owned(one: Ownership) -> set[str]:
    return {key for key in _KEYS if one.owns_key(key)}


def test_a_new_member_decides_nothing_until_all_others_have_acknowledged() -> None:
    a, b = Ownership("a"), Ownership("b")
    first = _map(1, "a")
    a.take(first)
    assert a.settle({})
    assert _owned(a) == set(_KEYS)
    second = _map(2, "a", "b")
    b.take(second)
    assert not b.settle({"a": 1})
    assert _owned(b) == set()
    a.take(second)
    lost = set(_KEYS) - _owned(a)
    assert lost  # lost at once
    assert not b.settle({"a": 1})
    assert b.settle({"a": 2})
    assert _owned(b) == lost


def test_an_acknowledgement_of_a_later_map_is_not_one_of_this() -> None:
    b = Ownership("b")
    b.take(_map(2, "a", "b"))
    # a never obeyed map 2: it may decide pods that map 2 gives to b, and map 3 to a.
    assert not b.settle({"a": 3})
    assert not b.settled


def test_old_maps_are_ignored_and_a_reset_member_decides_nothing() -> None:
    a = Ownership("a")
    assert a.take(_map(5, "a"))
    assert a.settle({})
    assert not a.take(_map(4, "a", "b"))
    a.reset()
    assert _owned(a) == set()


@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=2, max_size=8), st.integers(0, 2**32))
def test_no_key_ever_has_two_deciders(memberships: list[set[str]], seed: int) -> None:
    """Members see maps late, skip some, and read acknowledgements late; removed members are fenced before the map."""
    rng = random.Random(seed)
    maps = [_map(epoch, *sorted(names)) for epoch, names in enumerate(memberships, 1)]
    members = {name: Ownership(name) for name in "abcd"}
    acknowledged = dict.fromkeys("abcd", 0)
    seen_acknowledgements = {name: dict(acknowledged) for name in "abcd"}
    written = 0
    for _ in range(120):
        name = rng.choice("abcd")
        member = members[name]
        action = rng.randrange(4)
        if action == 0 and written < len(maps):
            # The coordinator ends the terms of members that it removes, and only then writes the map.
            following = {one.name for one in maps[written].members}
            for other in set("abcd") - following:
                members[other].reset()
            written += 1
        elif action == 1 and written:
            newest = maps[written - 1]
            # A member that has no term does not take part.
            if name in {one.name for one in newest.members} and member.take(newest):
                acknowledged[name] = newest.epoch
        elif action == 2:
            seen_acknowledgements[name] = dict(acknowledged)
        else:
            member.settle(seen_acknowledgements[name])
        for key in _KEYS[:10]:
            deciders = [one.name for one in members.values() if one.owns_key(key)]
            assert len(deciders) <= 1


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_when_all_have_settled_every_key_has_a_decider(members: int) -> None:
    names = [f"s{number}" for number in range(members)]
    shards = _map(1, *names)
    owners = [Ownership(name) for name in names]
    for one in owners:
        one.take(shards)
    for one in owners:
        assert one.settle(dict.fromkeys(names, 1))
    for key in _KEYS:
        assert sum(one.owns_key(key) for one in owners) == 1
