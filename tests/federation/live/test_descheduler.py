"""Replicas that a member cannot schedule move to another one, if that one has room for them."""

import pytest
from tests.federation.live import live_place as live

from rota.api import meta
from rota.client.verbs import Object
from rota.testing.federations import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODES = ("", "v1", "nodes")
DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


async def test_replicas_without_a_node_move_to_a_member_that_runs_them(fed: live.Place) -> None:
    namespace = await fed.namespace("stuck")
    node = (await fed.members["m2"].list(NODES)).items[0]
    await fed.members["m2"].patch(NODES, meta.name(node), {"metadata": {"labels": {"disk": "fast"}}})
    await fed.submit(
        live.policy(
            namespace, "apps/v1", "Deployment", placement={**live.only("m1", "m2"), "replicaScheduling": DYNAMIC}
        ),
        live.deployment("picky", namespace, 4, nodeSelector={"disk": "fast"}),
    )
    # the summary of m1 says that it has room, its scheduler says that it has no such node
    await fed.binding("picky-deployment", namespace, live.targets({"m2": 4}))

    def runs(template: Object | None) -> bool:
        return ((template or {}).get("status") or {}).get("readyReplicas") == 4

    await until(fed.control, live.DEPLOYMENTS, "picky", runs, namespace=namespace)
