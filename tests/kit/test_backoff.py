"""The properties of backoff."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.backoff import Backoff, Jitter, Policy


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    initial = draw(st.floats(1e-3, 10))
    return Policy(
        initial_s=initial,
        cap_s=draw(st.floats(initial, 1e4)),
        factor=draw(st.floats(1, 10)),
        jitter=draw(st.sampled_from(Jitter)),
    )


@given(policies(), st.integers(1, 10_000), st.randoms(use_true_random=False))
def test_a_delay_lies_between_what_its_jitter_allows_and_the_cap(
    policy: Policy, failures: int, rng: random.Random
) -> None:
    ceiling = policy.ceiling(failures)
    floor = {Jitter.NONE: ceiling, Jitter.EQUAL: ceiling / 2, Jitter.FULL: 0}[policy.jitter]
    assert floor <= policy.delay(failures, rng) <= ceiling <= policy.cap_s


@given(policies(), st.integers(1, 10_000))
def test_the_ceiling_never_shrinks(policy: Policy, failures: int) -> None:
    assert policy.ceiling(failures) <= policy.ceiling(failures + 1)


@given(policies().filter(lambda policy: policy.factor > 1.01))
def test_the_ceiling_begins_at_the_initial_delay_and_reaches_the_cap(policy: Policy) -> None:
    assert policy.ceiling(1) == policy.initial_s
    assert policy.ceiling(1_000_000) == policy.cap_s


@given(policies(), st.integers(0, 20), st.integers(0, 2**32))
def test_after_a_reset_the_delays_start_over(policy: Policy, failures: int, seed: int) -> None:
    backoff = Backoff(policy, random.Random(seed))
    for _ in range(failures):
        backoff.next()
    assert backoff.failures == failures
    backoff.reset()
    assert backoff.next() <= policy.ceiling(1)
    assert backoff.failures == 1


def test_without_jitter_the_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(Policy(initial_s=1, cap_s=10, factor=2, jitter=Jitter.NONE), random.Random(0))
    assert [backoff.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_callers_that_failed_together() -> None:
    policy = Policy(initial_s=1, cap_s=60)
    delays = {policy.delay(3, random.Random(seed)) for seed in range(20)}
    assert len(delays) == 20


def test_a_policy_that_makes_no_sense_is_refused() -> None:
    for initial, cap in itertools.product((0.0, -1.0, 2.0, math.nan, math.inf), (1.0,)):
        with pytest.raises(ValueError, match="0 < initial_s <= cap_s"):
            Policy(initial_s=initial, cap_s=cap)
    for factor in (0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="factor of at least 1"):
            Policy(factor=factor)
