"""Times on the wire: seconds and microseconds, always in UTC."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import times
from rota.api.times import TimeError


def test_times_are_written_with_seconds_and_micro_times_with_six_digits() -> None:
    assert times.format_time(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert times.format_micro_time(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert times.format_micro_time(0) == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "time", "micro"),
    [
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000000Z"),
        ("2024-01-01T01:00:00.5+02:00", "2023-12-31T23:00:00Z", "2023-12-31T23:00:00.500000Z"),
        ("2024-01-01T01:00:00.123456789Z", "2024-01-01T01:00:00Z", "2024-01-01T01:00:00.123456Z"),
    ],
)
def test_any_rfc3339_time_is_brought_into_form(text: str, time: str, micro: str) -> None:
    assert times.normalise(text) == time
    assert times.normalise_micro(text) == micro


@pytest.mark.parametrize(
    "text", ["", "now", "2024-01-01", "2024-01-01T00:00:00", "2024-13-01T00:00:00Z", "2024-02-30T00:00:00Z"]
)
def test_anything_else_is_refused_as_go_refuses_it(text: str) -> None:
    with pytest.raises(TimeError, match=r'parsing time ".*" as "2006-01-02T15:04:05Z07:00"'):
        times.parse(text)


@given(st.integers(0, 10**15))
def test_microseconds_survive_writing_and_reading(microseconds: int) -> None:
    written = times.format_micro_time(microseconds / 1_000_000)
    assert times.format_micro_time(times.parse(written)) == written
    assert abs(times.parse(written) - microseconds / 1_000_000) < 1e-6


@given(st.integers(0, 253402300799))
def test_seconds_survive_writing_and_reading(seconds: int) -> None:
    assert times.parse(times.format_time(seconds)) == seconds
    assert times.normalise(times.format_time(seconds)) == times.format_time(seconds)
