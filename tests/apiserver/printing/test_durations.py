import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import times
from rota.apiserver.printing import durations

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (120, "2m"),
        (5 * MINUTE + 30, "5m30s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 30, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR + MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 5 * HOUR, "2d5h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
        (100 * YEAR, "100y"),
    ],
)
def test_a_duration_is_shown_as_coarsely_as_upstream_does(seconds: float, text: str) -> None:
    assert durations.human(seconds) == text


def test_a_missing_time_is_unknown() -> None:
    assert durations.since(None, 1000) == "<unknown>"
    assert durations.since("", 1000) == "<unknown>"


@given(st.integers(0, 4_000_000_000), st.integers(0, 100 * YEAR))
def test_the_age_of_a_timestamp_is_the_duration_since_then(moment: int, seconds: int) -> None:
    assert durations.since(times.format_time(moment), moment + seconds) == durations.human(seconds)
