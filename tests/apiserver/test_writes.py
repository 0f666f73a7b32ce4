"""Heartbeats: writes of which history may keep the latest only."""

from dataclasses import replace
from typing import Any

import pytest

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.api.users import ADMINISTRATOR
from rota.apiserver.interfaces import Attributes
from rota.apiserver.registry import writes

SCHEME = scheme.builtin()


def attributes(group: str, plural: str, subresource: str = "") -> Attributes:
    resource = SCHEME.preferred(GroupResource(group, plural))
    assert resource is not None
    return Attributes(user=ADMINISTRATOR, verb="update", resource=resource, now=0.0, subresource=subresource)


LEASES = attributes("coordination.k8s.io", "leases")
NODE_STATUS = attributes("", "nodes", "status")


def lease(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "resourceVersion": "1"}, "spec": {"holderIdentity": "n1", **spec}}


def node(time: str, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": time}]
    return {"metadata": {"name": "n1", **metadata}, "status": {"conditions": conditions, "capacity": {"cpu": "1"}}}


def test_a_renewed_lease_is_a_heartbeat() -> None:
    before, after = lease(renewTime="1"), lease(renewTime="2", leaseTransitions=1)
    after["metadata"] |= {"managedFields": [{"time": "2"}], "resourceVersion": "2"}
    assert writes.is_heartbeat(after, before, LEASES)


def test_a_lease_in_other_hands_is_none() -> None:
    assert not writes.is_heartbeat(lease(renewTime="2", holderIdentity="n2"), lease(renewTime="1"), LEASES)


def test_a_node_that_reports_the_same_again_is_a_heartbeat() -> None:
    assert writes.is_heartbeat(node("2"), node("1"), NODE_STATUS)


@pytest.mark.parametrize("after", [node("2", ready="False"), node("2", labels={"a": "b"})])
def test_a_node_that_has_news_is_none(after: dict[str, Any]) -> None:
    assert not writes.is_heartbeat(after, node("1"), NODE_STATUS)


def test_other_kinds_and_subresources_have_no_heartbeats() -> None:
    assert not writes.is_heartbeat(node("2"), node("1"), replace(NODE_STATUS, subresource=""))
    assert not writes.is_heartbeat(lease(renewTime="2"), lease(renewTime="1"), attributes("", "configmaps"))
