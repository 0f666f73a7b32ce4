"""Which claims a quota with the scope VolumeAttributesClass is about."""

from typing import Any

import pytest

from rota.api import quotas

_MATCHING: tuple[tuple[dict[str, Any], dict[str, Any], bool], ...] = (
    ({"operator": "Exists"}, {"spec": {"volumeAttributesClassName": "gold"}}, True),
    ({"operator": "Exists"}, {"spec": {}}, False),
    ({"operator": "DoesNotExist"}, {"spec": {}}, True),
    ({"operator": "In", "values": ["gold"]}, {"spec": {"volumeAttributesClassName": "gold"}}, True),
    ({"operator": "In", "values": ["gold"]}, {"spec": {"volumeAttributesClassName": "tin"}}, False),
    (
        {"operator": "In", "values": ["gold"]},
        {"spec": {"volumeAttributesClassName": "tin"}, "status": {"currentVolumeAttributesClassName": "gold"}},
        True,
    ),
    (
        {"operator": "In", "values": ["gold"]},
        {"spec": {}, "status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}}},
        True,
    ),
    ({"operator": "NotIn", "values": ["gold"]}, {"spec": {}}, True),
    ({"operator": "NotIn", "values": ["gold"]}, {"spec": {"volumeAttributesClassName": "gold"}}, False),
)


@pytest.mark.parametrize(("selector", "claim", "matches"), _MATCHING)
def test_claims(selector: dict[str, Any], claim: dict[str, Any], *, matches: bool) -> None:
    spec = {"scopeSelector": {"matchExpressions": [{"scopeName": "VolumeAttributesClass", **selector}]}}
    assert quotas.matches(spec, quotas.CLAIMS, claim) is matches
    assert not quotas.matches(spec, quotas.SERVICES, {"spec": {}})


def test_scopes_of_pods_are_not_about_claims() -> None:
    assert not quotas.matches({"scopes": ["BestEffort"]}, quotas.CLAIMS, {"spec": {}})
    assert quotas.matches({}, quotas.CLAIMS, {"spec": {}})
