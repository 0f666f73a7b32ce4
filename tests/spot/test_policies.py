"""What workloads want of spot machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.spot import policies
from rota.spot.node_readings import Capacity
from rota.spot.policies import AtDeadline, Policy, PolicyError, SpotPreference, Spread


def test_without_a_word_spot_is_preferred_and_everything_allowed() -> None:
    policy = policies.parse({"example.com/other": "x"})
    assert policy == Policy()
    assert not any(policies.refusal(policy, Spread(5, 5), one) for one in Capacity)


def test_all_of_it_can_be_said() -> None:
    said = {
        policies.BASE: "3",
        policies.MAX_SHARE: "70%",
        policies.AT_DEADLINE: "Strict",
        policies.WISH: "prefer",
    }
    assert policies.parse(said) == Policy(base=3, max_share=70, at_deadline=AtDeadline.STRICT)


@pytest.mark.parametrize(
    "said",
    [
        {policies.WISH: "sometimes"},
        {policies.BASE: "-1"},
        {policies.BASE: "three"},
        {policies.BASE: "9999999999"},
        {policies.MAX_SHARE: "101"},
        {policies.AT_DEADLINE: "never"},
        {policies.WISH: "only", policies.BASE: "1"},
        {policies.WISH: "only", policies.MAX_SHARE: "50"},
        {policies.WISH: "never", policies.MAX_SHARE: "50"},
    ],
)
def test_what_is_wrong_or_contradicts_itself_is_refused_by_name(said: dict[str, str]) -> None:
    with pytest.raises(PolicyError, match=r"rota\.dev/spot"):
        policies.parse(said)


def test_only_and_never_are_kept_to() -> None:
    only, never = Policy(preference=SpotPreference.ONLY), Policy(preference=SpotPreference.NEVER)
    assert policies.refusal(only, Spread(), Capacity.ON_DEMAND)
    assert policies.refusal(only, Spread(), Capacity.UNKNOWN)
    assert not policies.refusal(only, Spread(), Capacity.SPOT)
    assert policies.refusal(never, Spread(), Capacity.SPOT)
    assert not policies.refusal(never, Spread(), Capacity.UNKNOWN)


@given(st.integers(0, 10), st.integers(0, 100), st.integers(0, 60))
def test_pods_placed_one_after_the_other_keep_base_and_share(base: int, share: int, pods: int) -> None:
    policy, spread = Policy(base=base, max_share=share), Spread()
    for _ in range(pods):
        if policies.refusal(policy, spread, Capacity.SPOT):
            assert not policies.refusal(policy, spread, Capacity.ON_DEMAND)
            spread = Spread(spread.spot, spread.staying + 1)
        else:
            spread = Spread(spread.spot + 1, spread.staying)
    assert spread.staying >= min(base, pods)
    beyond = pods - min(base, pods)
    assert spread.spot * 100 <= share * beyond
    # and as much of the share is used as whole pods allow
    assert (spread.spot + 1) * 100 > share * beyond


def test_what_a_policy_allows_is_a_part_of_all_pods() -> None:
    assert policies.allowed(policies.parse({}), 4) == 1.0
    assert policies.allowed(policies.parse({"rota.dev/spot": "never"}), 4) == 0.0
    assert policies.allowed(policies.parse({"rota.dev/spot-base": "2", "rota.dev/spot-max-share": "50"}), 6) == 2 / 6
    assert policies.allowed(policies.parse({"rota.dev/spot-base": "9"}), 4) == 0.0
    assert policies.allowed(policies.parse({}), 0) == 0.0
