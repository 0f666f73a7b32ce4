"""Times as clouds write them."""

import pytest

from rota.api import times
from rota.spot import timestamps

MOMENT = times.parse("2025-02-06T10:13:13Z")


@pytest.mark.parametrize(
    "text",
    [
        "2025-02-06T10:13:13Z",
        "2025-02-06T11:13:13+01:00",
        "Preempt Scheduled: Thu, 06 Feb 2025 10:13:13 GMT. DurationInSeconds: -1.",
        "Thu, 6 Feb 2025 10:13:13 GMT",
        "6 Feb 2025 10:13:13 UTC",
        "it ends at 2025-02-06T10:13:13.000Z, not at 2025-02-07T10:13:13Z",
    ],
)
def test_a_time_is_found_in_any_form(text: str) -> None:
    assert timestamps.find(text) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2025-13-06T10:13:13Z",
        "31 Feb 2025 10:13:13 GMT",
        "6 Foo 2025 10:13:13 GMT",
        "6 Feb 2025 25:13:13 GMT",
        "1 Jan 0000 00:00:00 GMT",
        "2025-02-06",
        "6 Feb 2025 10:13:13 CET",
    ],
)
def test_an_unreadable_time_counts_as_absent(text: str) -> None:
    assert timestamps.find(text) is None
