"""Reading configuration text: strict about keys and types, forgiving about notation."""

import pytest

from rota.scheduler.config import documents, durations
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.wire import LeaderElectionConfiguration, WireStruct


class Sample(WireStruct, frozen=True):
    some_count: int = 0
    inner: LeaderElectionConfiguration | None = None
    entries: tuple[int, ...] = ()


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        documents.convert(documents.parse(text), Sample)
    return str(caught.value)


def test_yaml_and_json_read_alike() -> None:
    as_yaml = documents.convert(documents.parse("someCount: 3\nentries: [1, 2]"), Sample)
    as_json = documents.convert(documents.parse('{"someCount": 3, "entries": [1, 2]}'), Sample)
    assert as_yaml == as_json == Sample(some_count=3, entries=(1, 2))


def test_null_counts_as_absent_at_any_depth() -> None:
    text = "someCount:\ninner: {leaseDuration: null}"
    assert documents.convert(documents.parse(text), Sample) == Sample(inner=LeaderElectionConfiguration())


def test_a_stream_of_documents_leaves_empty_ones_out() -> None:
    assert documents.parse_all("a: 1\n---\n---\nb: 2") == [{"a": 1}, {"b": 2}]
    with pytest.raises(ConfigurationError, match="not readable as YAML or JSON"):
        documents.parse_all("a: [")


def test_a_date_stays_a_string() -> None:
    assert documents.parse("2026-01-01") == "2026-01-01"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("someCount: 1\nsomeCount: 2", 'key "someCount" is written twice; keep one of them (line 2, column 1)'),
        ("1: 2", "key 1 is not a string; put it in quotes (line 1, column 1)"),
        ("a: [1", "not readable as YAML or JSON"),
        ("a: 1\n---\na: 2", "not readable as YAML or JSON"),
        ("sumCount: 1", "sumCount: unknown field; remove it or correct its spelling"),
        ("inner: {lock: x}", "inner.lock: unknown field"),
        ("someCount: many", "someCount: Expected int, got str"),
        ("entries: [1, x]", "entries[1]: Expected int, got str"),
        ("inner: {leaseDuration: 15}", 'inner.leaseDuration: expected a duration such as "15s", got 15'),
        ("inner: {leaseDuration: 15 s}", 'inner.leaseDuration: "15 s" is not a duration'),
        ("- 1", "Expected object, got array"),
    ],
)
def test_a_refusal_names_the_place(text: str, expected: str) -> None:
    assert expected in refusal(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("15s", 15), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("-2s", -2), ("3us", 3e-6), (".5s", 0.5)],
)
def test_go_durations_are_understood(text: str, seconds: float) -> None:
    assert durations.parse(text).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1s2", "--1s", "1 s"])
def test_what_go_would_not_read_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        durations.parse(text)
