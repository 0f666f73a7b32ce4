"""The rules of Volcano's kinds as webhooks: what they ask the API server before they allow a request."""

from typing import Any

import pytest

from rota.controllers.batch.webhooks import Webhooks
from rota.testing.virtual_api import VirtualCluster


def review(kind: str, action: str, user: dict[str, Any]) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": kind, "name": "default", "uid": ""}
    return {
        "uid": "1",
        "resource": {"group": "bus.volcano.sh", "version": "v1alpha1", "resource": "commands"},
        "namespace": "default",
        "userInfo": user,
        "object": {"metadata": {"name": "c", "namespace": "default"}, "action": action, "target": target},
    }


@pytest.mark.parametrize(
    ("kind", "action", "user", "allowed"),
    [
        ("Queue", "CloseQueue", {"username": "ann", "groups": ["system:authenticated"]}, False),
        ("Queue", "CloseQueue", {"username": "eve", "groups": ["system:masters"]}, True),
        ("Job", "AbortJob", {"username": "ann", "groups": ["system:authenticated"]}, True),
    ],
)
async def test_a_command_for_a_queue_needs_the_permission_to_update_it(
    cluster: VirtualCluster, kind: str, action: str, user: dict[str, Any], allowed: bool
) -> None:
    answer = await Webhooks(cluster.client).validate(review(kind, action, user))
    assert answer["allowed"] is allowed
    if not allowed:
        assert answer["status"]["code"] == 403
        assert "permission to update that queue" in answer["status"]["message"]
