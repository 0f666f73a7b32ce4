"""Sources of notices work with the rights that they are said to need, and with no others."""

from collections.abc import AsyncIterator, Iterable

import pytest

from rota.api import errors, meta, times
from rota.client.rights import Right
from rota.client.verbs import Client
from rota.notices import rights
from rota.notices.announcements import Announcement, Kind, Verdict
from rota.notices.announcer import NODES, Announcer
from rota.notices.messages import Machine
from rota.notices.node_events import EVENTS, NodeEvents
from rota.notices.node_lookup import Machines
from rota.spot.node_signals import TERMINATING, NodeSignals
from rota.testing import access, manifests, virtual_api
from rota.testing.virtual_api import VirtualCluster

pytestmark = pytest.mark.slow


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster() as made:
        for name in ("n1", "n2"):
            node = manifests.node(name)
            node["spec"] = {**node.get("spec", {}), "providerID": f"aws:///zone/i-{name}"}
            await made.client.create(NODES, node)
        yield made


async def granted(cluster: VirtualCluster, user: str, wanted: Iterable[Right]) -> Client:
    for right in wanted:
        rule = access.rule(right.verb, right.resource, right.group)
        if right.name:
            rule["resourceNames"] = [right.name]
        place = f"namespaces/{right.namespace}/roles" if right.namespace else "clusterroles"
        name = f"{user}-{right.verb}-{right.resource}"
        await cluster.server.post(f"{access.PATH}/{place}", {"metadata": {"name": name}, "rules": [rule]})
        kind = "Role" if right.namespace else "ClusterRole"
        await access.bind(cluster.server, user, name, namespace=right.namespace, kind=kind)
    return cluster.acting_as(user)


async def test_an_agent_marks_its_own_node_and_no_other(cluster: VirtualCluster) -> None:
    client = await granted(cluster, "agent", rights.needed_by_agent("n1"))
    announcer = Announcer(client, NodeSignals(), clock=cluster.clock)
    ends = Announcement(kind=Kind.TERMINATION, source="agent", provider="aws", id="1")
    assert await announcer.announce("n1", ends) is Verdict.MARKED
    over = Announcement(kind=Kind.WITHDRAWN, source="agent", own=True, forgets=True)
    assert await announcer.announce("n1", over) is Verdict.WITHDRAWN
    with pytest.raises(errors.Forbidden):
        await announcer.announce("n2", ends)


async def test_recording_only_needs_nodes_and_their_events(cluster: VirtualCluster) -> None:
    client = await granted(cluster, "hearer", (*rights.MARKING, *rights.EVENTS))
    announcer = Announcer(client, NodeSignals(), clock=cluster.clock)
    events = NodeEvents(client, announcer, NodeSignals(), clock=cluster.clock, rng=cluster.rng)
    machines = Machines(client, clock=cluster.clock, rng=cluster.rng)
    async with cluster.running(events.run), cluster.running(machines.run):
        node, now = await cluster.client.get(NODES, "n1"), times.format_time(cluster.clock.now())
        event = {
            "metadata": {"generateName": "e-", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "n1", "uid": meta.uid(node)},
            "reason": "SpotInterruption",
            "type": "Warning",
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        await cluster.client.create(EVENTS, event, namespace="default")

        async def marked() -> bool:
            found = await cluster.client.get(NODES, "n1")
            return any(one["key"] == TERMINATING for one in found["spec"].get("taints") or ())

        await cluster.until(marked)
        assert machines.find(Machine(instance="i-n2")) == ["n2"]
