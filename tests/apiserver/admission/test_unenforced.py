"""Objects that are stored and not enforced get a warning."""

from collections.abc import Mapping
from typing import Any

import pytest

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.apiserver.admission import unenforced
from rota.apiserver.admission.unenforced import Row
from rota.testing.api import ApiServer

_PORTS: list[dict[str, Any]] = [{"name": "p", "port": 80}]


#: For every row, in the table's order, a matching object.
EXAMPLES: list[dict[str, Any]] = [
    {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    {"spec": {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 1}},
    {"spec": {"type": "Exempt", "exempt": {}}},
    {"handler": "kata"},
    {"spec": {"type": "NodePort", "ports": _PORTS}},
    {"spec": {"type": "ExternalName", "externalName": "example.com"}},
    {"spec": {"ports": [{**_PORTS[0], "protocol": "UDP"}]}},
    {"spec": {"ports": _PORTS, "sessionAffinity": "ClientIP"}},
    {"spec": {"ports": _PORTS, "externalIPs": ["192.0.2.1"]}},
    {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    {
        "spec": {
            "selector": {"app": "x"},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
    {"spec": {"cidrs": ["192.0.2.0/24"]}},
    {"metadata": {"name": "192.0.2.1"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}},
]


def _resource(row: Row) -> ResourceType:
    found = scheme.builtin().preferred(row.resource)
    assert found is not None, row.resource
    return found


def _path(resource: ResourceType) -> str:
    group = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{group}/namespaces/default/{resource.plural}" if resource.namespaced else f"{group}/{resource.plural}"


def _named(example: Mapping[str, Any]) -> dict[str, Any]:
    return {**example, "metadata": {"name": "x", **(example.get("metadata") or {})}}


#: Those of kinds that only newer versions of the API have have no fields that matter here.
_GIVEN = [*zip(unenforced.ROWS, EXAMPLES, strict=False)]


def _name(value: Any) -> str:
    return str(value.resource) if isinstance(value, Row) else ""


def test_every_row_is_about_a_kind_that_there_is_and_all_but_simple_ones_have_an_example() -> None:
    assert all(_resource(row) for row in unenforced.ROWS)
    without = unenforced.ROWS[len(EXAMPLES) :]
    assert all(row.applies({}) for row in without)


@pytest.mark.parametrize(("row", "example"), _GIVEN, ids=_name)
async def test_it_is_stored_with_a_warning(row: Row, example: dict[str, Any]) -> None:
    async with ApiServer() as api:
        answer = await api.post(_path(_resource(row)), _named(example))
    assert answer.code == 201, answer
    assert any(row.text in warning for warning in answer.warnings), answer.warnings


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/namespaces", {"metadata": {"name": "x"}}),
        ("/api/v1/namespaces/default/services", {"metadata": {"name": "x"}, "spec": {"ports": _PORTS}}),
        ("/apis/apiregistration.k8s.io/v1/apiservices", {
            "metadata": {"name": "v1.example.com"},
            "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        }),
    ],
)  # fmt: skip
async def test_what_promises_nothing_is_stored_without_a_word(path: str, body: dict[str, Any]) -> None:
    async with ApiServer() as api:
        answer = await api.post(path, body)
    assert (answer.code, answer.warnings) == (201, []), answer
