"""Objects that are stored and not enforced get a warning, or are refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.users import ADMINISTRATOR
from rota.apiserver.admission import unenforced
from rota.apiserver.admission.unenforced import Mode, Row
from rota.apiserver.interfaces import Attributes
from rota.testing.api import ApiServer

_EVERYTHING: dict[str, Any] = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
_MUTATION: dict[str, Any] = {
    "matchConstraints": {"resourceRules": [_EVERYTHING]},
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
}
_PORTS: list[dict[str, Any]] = [{"name": "p", "port": 80}]


#: For every row, in the table's order, a matching object.
EXAMPLES: list[dict[str, Any]] = [
    {"spec": {**_MUTATION, "failurePolicy": "Fail"}},
    {"spec": {**_MUTATION, "failurePolicy": "Ignore"}},
    {"spec": {"policyName": "p"}},
    {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    {
        "metadata": {"name": "v1.example.com"},
        "spec": {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
            "service": {"name": "s", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    },
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
    assert all(not row.promise and row.applies({}) for row in without)


@pytest.mark.parametrize(("row", "example"), _GIVEN, ids=_name)
async def test_it_is_stored_with_a_warning(row: Row, example: dict[str, Any]) -> None:
    async with ApiServer(unenforced=Mode.WARN) as api:
        answer = await api.post(_path(_resource(row)), _named(example))
    assert answer.code == 201, answer
    assert any(row.text in warning for warning in answer.warnings), answer.warnings


@pytest.mark.parametrize(("row", "example"), [one for one in _GIVEN if one[0].promise], ids=_name)
async def test_a_promise_is_refused_with_the_remedy(row: Row, example: dict[str, Any]) -> None:
    async with ApiServer(unenforced=Mode.REFUSE) as api:
        path = _path(_resource(row))
        answer = await api.post(path, _named(example))
        assert (answer.code, answer.json["reason"]) == (403, "Forbidden"), answer
        assert row.text in answer.json["message"]
        assert "--unenforced warn" in answer.json["message"]
        assert (await api.get(f"{path}/x")).code == 404


async def test_a_promise_that_came_by_an_update_is_refused_too_and_one_that_stands_may_be_changed() -> None:
    policies = GroupResource("admissionregistration.k8s.io", "mutatingadmissionpolicies")
    resource = scheme.builtin().preferred(policies)
    assert resource is not None
    path = _path(resource)
    open_, closed = ({"spec": {**_MUTATION, "failurePolicy": one}} for one in ("Ignore", "Fail"))
    async with ApiServer(unenforced=Mode.REFUSE) as api:
        assert (await api.post(path, _named(open_))).code == 201
        assert (await api.patch(f"{path}/x", closed)).code == 403
    rule = unenforced.Unenforced(Mode.REFUSE)
    stood = _named(closed)
    at = Attributes(user=ADMINISTRATOR, verb="update", resource=resource, now=0.0)
    await rule.admit(at, stood, stood)
    assert len(at.warnings) == 1


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
    async with ApiServer(unenforced=Mode.REFUSE) as api:
        answer = await api.post(path, body)
    assert (answer.code, answer.warnings) == (201, []), answer
