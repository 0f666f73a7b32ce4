"""Sets of indexes behave as sets do."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rota.controllers.jobs.indexes import Indexes

_NUMBERS = st.frozensets(st.integers(0, 40))


@given(_NUMBERS, _NUMBERS)
def test_a_set_of_indexes_is_a_set(one: frozenset[int], other: frozenset[int]) -> None:
    mine, theirs = Indexes.of(one), Indexes.of(other)
    assert len(mine) == len(one)
    assert [number for number in range(45) if number in mine] == sorted(one)
    assert mine | theirs == Indexes.of(one | other)
    assert mine & theirs == Indexes.of(one & other)
    assert list(mine.missing(below=30)) == [number for number in range(30) if number not in one]


@given(_NUMBERS, st.integers(0, 45))
def test_what_is_written_is_read_again_up_to_a_limit(numbers: frozenset[int], below: int) -> None:
    written = str(Indexes.of(numbers))
    assert Indexes.parse(written, below=50) == Indexes.of(numbers)
    assert Indexes.parse(written, below=below) == Indexes.of(one for one in numbers if one < below)


def test_intervals_are_written_as_upstream_does() -> None:
    assert str(Indexes.of([1, 3, 4, 5, 7])) == "1,3-5,7"
    assert str(Indexes.of([0, 1])) == "0,1"
    assert str(Indexes.of([])) == ""


def test_what_cannot_be_understood_is_left_out() -> None:
    assert Indexes.parse("1,x,3-y,5-6", below=10) == Indexes.of([1, 5, 6])


def test_finding_a_few_free_indexes_of_many_is_quick() -> None:
    almost_all = Indexes.parse("0-499999,500001-999999", below=1_000_000)
    assert list(itertools.islice(almost_all.missing(below=1_000_000), 5)) == [500_000]
