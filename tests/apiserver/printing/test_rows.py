"""Rows against those that kube-apiserver's own printers (Kubernetes 1.36.3) made of the same objects.

`rows.jsonl.xz` begins with the time of the recording. Each further line has an object as the API server stores it and
the cells, column definitions (`name|type|format|priority`) and row conditions that upstream shows; custom objects come
with the printer columns of their definition.
"""

import functools
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from rota.api import identifiers, scheme
from rota.api.kinds import ResourceType
from rota.apiserver.printing import tables

RECORDED = Path(__file__).parent / "rows.jsonl.xz"
SCHEME = scheme.builtin()
WIDGETS = ResourceType(group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True)


@functools.cache
def recorded() -> tuple[float, list[dict[str, Any]]]:
    with lzma.open(RECORDED, "rt", encoding="utf-8") as lines:
        head, *rows = map(json.loads, lines)
    return head["now"], rows


def resource_of(obj: dict[str, Any]) -> tuple[ResourceType, str]:
    if obj["kind"] == "Widget":
        return WIDGETS, ""
    group_version = identifiers.parse_api_version(obj["apiVersion"])
    assert group_version is not None
    if obj["kind"] == "Scale":
        deployments = SCHEME.find("deployments")
        assert deployments is not None
        return deployments, "scale"
    found = SCHEME.by_group_kind(identifiers.GroupKind(group_version.group, obj["kind"]))
    assert found is not None
    return found, ""


def kinds() -> list[str]:
    return sorted({row["object"]["kind"] for row in recorded()[1]})


def typed(cells: list[Any]) -> list[tuple[type, Any]]:
    """Cells of which also the types are compared: true is not 1."""
    return [(type(cell), cell) for cell in cells]


@pytest.mark.parametrize("kind", kinds())
def test_the_rows_of_a_kind_are_those_of_upstream(kind: str) -> None:
    now, rows = recorded()
    for row in (row for row in rows if row["object"]["kind"] == kind):
        resource, subresource = resource_of(row["object"])
        table = tables.table(
            resource,
            [row["object"]],
            now=now,
            include_object="None",
            printer_columns=row.get("columns"),
            subresource=subresource,
        )
        assert typed(table["rows"][0]["cells"]) == typed(row["cells"]), row
        if "columnDefinitions" in row:
            heads = [f"{c['name']}|{c['type']}|{c['format']}|{c['priority']}" for c in table["columnDefinitions"]]
            assert heads == row["columnDefinitions"]
        reasons = [condition["reason"] for condition in table["rows"][0].get("conditions", [])]
        assert reasons == row.get("conditions", [])


def test_the_recording_has_every_kind_that_has_columns_of_its_own() -> None:
    assert len(kinds()) >= 60
    assert len(recorded()[1]) > 700
