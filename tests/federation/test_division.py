"""Replicas are divided as Webster's method says: all of them, by weight, and the same way every time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.federation.placement import division
from rota.federation.placement.division import divide

INITIAL = st.dictionaries(st.sampled_from("abcdz"), st.integers(0, 400))
WEIGHTS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.integers(0, 50), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("replicas", "weights", "expected"),
    [
        (9, {"a": 1, "b": 2}, {"a": 3, "b": 6}),
        (9, {"a": 1, "b": 3}, {"a": 2, "b": 7}),
        (12, {"a": 6, "b": 12, "c": 18}, {"a": 2, "b": 4, "c": 6}),
        (7, {"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2, "c": 2}),
        (0, {"a": 1}, {"a": 0}),
        (5, {"a": 0}, {}),
    ],
)
def test_known_divisions(replicas: int, weights: dict[str, int], expected: dict[str, int]) -> None:
    assert divide(replicas, weights) == expected


@pytest.mark.parametrize(("uid", "first"), [("", 3), ("uid-1", 2), ("uid-2", 3)])
def test_the_uid_decides_between_equals(uid: str, first: int) -> None:
    assert divide(5, {"m1": 1, "m2": 1}, uid=uid) == {"m1": first, "m2": 5 - first}


@given(st.integers(0, 200), WEIGHTS, st.text(max_size=5))
def test_nothing_is_lost_and_more_weight_never_means_fewer(replicas: int, weights: dict[str, int], uid: str) -> None:
    found = divide(replicas, weights, uid=uid)
    if not any(weights.values()):
        assert found == {}
        return
    assert sum(found.values()) == replicas
    assert set(found) == set(weights)
    for name, weight in weights.items():
        assert all(found[name] >= found[other] for other, less in weights.items() if less < weight)


@given(st.integers(0, 100), WEIGHTS, st.integers(0, 20))
def test_what_is_there_stays(replicas: int, weights: dict[str, int], held: int) -> None:
    initial = dict.fromkeys(weights, held)
    found = divide(replicas, weights, initial)
    assert all(found[name] >= held for name in weights)


@given(
    st.integers(0, 3000), WEIGHTS, st.dictionaries(st.sampled_from("abcdz"), st.integers(0, 400)), st.text(max_size=3)
)
def test_many_replicas_are_divided_as_one_by_one(
    replicas: int, weights: dict[str, int], initial: dict[str, int], uid: str
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(division, "_MANY", 10**9)
        expected = divide(replicas, weights, initial, uid)
        patched.setattr(division, "_MANY", 0)
        assert divide(replicas, weights, initial, uid) == expected


@pytest.mark.parametrize("weights", [{"a": 1, "b": 2, "c": 0}, {"a": 2**31, "b": 1}, {"a": 7}], ids=str)
def test_the_largest_number_of_replicas_takes_no_time(weights: dict[str, int]) -> None:
    found = divide(2**31 - 1, weights)
    assert sum(found.values()) == 2**31 - 1
    assert found["a"] == pytest.approx((2**31 - 1) * weights["a"] / sum(weights.values()), abs=2)
