"""managedFields between the wire and the record of owners."""

from __future__ import annotations

from typing import Any

import pytest

from rota.api.patches import errors, managed
from rota.api.patches.field_paths import path
from rota.api.patches.managed import Manager, Ownership

ENTRY = {
    "manager": "kubectl",
    "operation": "Update",
    "apiVersion": "apps/v1",
    "time": "2024-05-01T10:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
    "subresource": "scale",
}


def test_an_entry_round_trips() -> None:
    record = managed.decode([ENTRY])
    assert record == {
        Manager(name="kubectl", operation="Update", api_version="apps/v1", subresource="scale"): Ownership(
            fields=frozenset({path("spec", "replicas")}), api_version="apps/v1", time="2024-05-01T10:00:00Z"
        )
    }
    assert managed.encode(record) == [ENTRY]


def test_an_applier_is_the_same_in_every_version_and_an_updater_is_not() -> None:
    def known(operation: str, version: str) -> Manager:
        [manager] = managed.decode([{**ENTRY, "operation": operation, "apiVersion": version}])
        return manager

    assert known("Apply", "apps/v1") == known("Apply", "apps/v2")
    assert known("Update", "apps/v1") != known("Update", "apps/v2")


def test_entries_are_sorted_by_operation_time_and_name() -> None:
    entries = [
        {**ENTRY, "manager": "b"},
        {**ENTRY, "manager": "a"},
        {**ENTRY, "manager": "c", "time": "2024-01-01T00:00:00Z"},
        {**ENTRY, "manager": "d", "operation": "Apply", "time": "2030-01-01T00:00:00Z"},
    ]
    assert [entry["manager"] for entry in managed.encode(managed.decode(entries))] == ["d", "c", "a", "b"]


def test_times_are_normalised_to_utc_seconds() -> None:
    [entry] = managed.encode(managed.decode([{**ENTRY, "time": "2024-05-01T12:00:00.75+02:00"}]))
    assert entry["time"] == "2024-05-01T10:00:00Z"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operation": "Merge"}, "operation must be `Apply` or `Update`"),
        ({"operation": None}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "FieldsV2"}, 'invalid fieldsType "FieldsV2" in managed fields entry 0'),
        ({"time": "yesterday"}, "time must be an RFC 3339 time"),
        ({"time": "2024-05-01T10:00:00"}, "time must name its zone"),
        ({"time": 5}, "time must be an RFC 3339 time"),
        ({"manager": 5}, "manager must be a string"),
        ({"fieldsV1": {"spec": {}}}, "is not a field path element"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.MalformedPatch) as raised:
        managed.decode([{**ENTRY, **change}])
    assert message in raised.value.message


@pytest.mark.parametrize("entries", ["x", {}, [1], [None]])
def test_managed_fields_are_a_list_of_objects(entries: Any) -> None:
    with pytest.raises(errors.MalformedPatch):
        managed.decode(entries)


@pytest.mark.parametrize(
    ("manager", "text"),
    [
        (Manager(name="hpa", operation="Update", api_version="apps/v1"), '"hpa" using apps/v1'),
        (
            Manager(name="k", operation="Update", api_version="v1", subresource="status"),
            '"k" with subresource "status" using v1',
        ),
        (Manager(name="kubectl", operation="Apply"), '"kubectl"'),
        (Manager(name="k", operation="Apply", subresource="status"), '"k" with subresource "status"'),
    ],
)
def test_managers_are_named_as_conflict_messages_name_them(manager: Manager, text: str) -> None:
    assert str(manager) == text


def _updaters(count: int, *, version: str = "v1") -> managed.ManagedFields:
    return {
        Manager(name=f"m{n:02}", operation="Update", api_version=version): Ownership(
            fields=frozenset({path(f"f{n}")}), api_version=version, time=f"2024-01-01T00:00:{n:02}Z"
        )
        for n in range(count)
    }


def test_ten_updaters_are_remembered_by_name() -> None:
    assert managed.fold_updaters(_updaters(10)) == _updaters(10)


def test_beyond_ten_the_oldest_updaters_are_folded_into_one_entry() -> None:
    folded = managed.fold_updaters(_updaters(12))
    bucket = Manager(name="ancient-changes", operation="Update", api_version="v1")
    assert len(folded) == 10
    assert folded[bucket].fields == {path("f0"), path("f1"), path("f2")}
    assert folded[bucket].time == "2024-01-01T00:00:02Z"


def test_updaters_of_different_versions_are_not_folded_together() -> None:
    both = {**_updaters(6), **_updaters(6, version="v2")}
    folded = managed.fold_updaters(both)
    assert len(folded) == 10
    for version in ("v1", "v2"):
        bucket = Manager(name="ancient-changes", operation="Update", api_version=version)
        assert folded[bucket].fields == {path("f0"), path("f1")}


def test_folding_again_loses_nothing_of_what_was_folded_before() -> None:
    record = managed.fold_updaters(_updaters(12))
    late = {
        Manager(name=f"z{n}", operation="Update", api_version="v1"): Ownership(
            fields=frozenset({path(f"z{n}")}), api_version="v1", time=f"2025-01-01T00:00:0{n}Z"
        )
        for n in range(3)
    }
    folded = managed.fold_updaters({**record, **late})
    before = frozenset().union(*(own.fields for own in {**record, **late}.values()))
    assert frozenset().union(*(own.fields for own in folded.values())) == before
    assert len(folded) == 10


def test_appliers_are_never_folded() -> None:
    appliers = {
        Manager(name=f"a{n}", operation="Apply"): Ownership(fields=frozenset({path("f")}), api_version="v1")
        for n in range(20)
    }
    assert managed.fold_updaters(appliers) == appliers
