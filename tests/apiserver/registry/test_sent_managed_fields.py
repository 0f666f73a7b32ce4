"""managedFields that a client sends: entries that cannot be read are dropped, as the stock server does."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
ENTRY: dict[str, Any] = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {}},
}
MALFORMED = {
    "operation": {**ENTRY, "operation": "Steal"},
    "no version": {**ENTRY, "apiVersion": ""},
    "type": {**ENTRY, "fieldsType": "FieldsV2"},
    "no type": {name: value for name, value in ENTRY.items() if name != "fieldsType"},
    "no fields": {**ENTRY, "fieldsV1": "x"},
    "a list": {**ENTRY, "fieldsV1": [1]},
    "no path": {**ENTRY, "fieldsV1": {"data": {}}},
    "no key": {**ENTRY, "fieldsV1": {"k:{": {}}},
}
TOO_LONG = "Too long: may not be more than"


def config(value: str, entries: Any = None) -> dict[str, Any]:
    metadata = {"name": "a"} if entries is None else {"name": "a", "managedFields": entries}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": value}}


def owners(obj: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(one["manager"], one["fieldsV1"]) for one in obj["metadata"]["managedFields"]]


OWN: list[tuple[str, Any]] = [("me", {"f:data": {".": {}, "f:x": {}}})]


@pytest.mark.parametrize("entry", MALFORMED.values(), ids=MALFORMED)
async def test_a_new_object_belongs_to_its_creator(api: ApiServer, entry: dict[str, Any]) -> None:
    made = await api.post(MAPS, config("1", [entry]), fieldManager="me")
    assert made.code == 201
    assert owners(made.json) == OWN
    assert owners((await api.get(f"{MAPS}/a")).json) == OWN


@pytest.mark.parametrize("entry", MALFORMED.values(), ids=MALFORMED)
async def test_an_update_keeps_the_recorded_owners(api: ApiServer, entry: dict[str, Any]) -> None:
    """All entries are dropped because of one, so that the readable one does not take the field over either."""
    await api.post(MAPS, config("1"), fieldManager="me")
    changed = await api.put(f"{MAPS}/a", config("1", [ENTRY, entry]), fieldManager="me")
    assert changed.code == 200
    assert owners(changed.json) == OWN
    patched = await api.patch(f"{MAPS}/a", {"metadata": {"managedFields": [entry]}}, fieldManager="me")
    assert (patched.code, owners(patched.json)) == (200, OWN)


async def test_entries_that_can_be_read_are_taken_over(api: ApiServer) -> None:
    await api.post(MAPS, config("1"), fieldManager="me")
    changed = await api.put(f"{MAPS}/a", config("1", [ENTRY]), fieldManager="me")
    assert owners(changed.json) == [("m", {"f:data": {}})]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**ENTRY, "manager": "m" * 129}, f"metadata.managedFields[0].manager: {TOO_LONG} 128 bytes"),
        (
            {**ENTRY, "manager": "m\u0001"},
            'metadata.managedFields[0].manager: Invalid value: "m\\x01": should only contain printable characters',
        ),
        ({**ENTRY, "subresource": "s" * 257}, f"metadata.managedFields[0].subresource: {TOO_LONG} 256 bytes"),
    ],
)
async def test_names_in_entries_are_limited(api: ApiServer, entry: dict[str, Any], message: str) -> None:
    await api.post(MAPS, config("1"), fieldManager="me")
    refused = await api.put(f"{MAPS}/a", config("1", [entry]), fieldManager="me")
    assert refused.code == 422
    assert refused.json["message"] == f'ConfigMap "a" is invalid: {message}'


@pytest.mark.parametrize("entries", ["x", ["x"], [{**ENTRY, "manager": 1}], [{**ENTRY, "time": "yesterday"}]])
async def test_what_is_no_list_of_entries_is_refused(api: ApiServer, entries: Any) -> None:
    assert (await api.post(MAPS, config("1", entries))).code == 400
