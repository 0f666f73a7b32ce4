"""Two schedulers that race for a claim, the volumes of a node, a queue and the room of a gang; clients for a quota.

More rows of the table in docs/howto/run-many-schedulers.md; see test_racing_schedulers.py.
"""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import Any

import pytest
from tests.scheduler.process.racing import race, racing

from rota.api import conflict_reasons, errors
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard, View
from rota.apiserver.node_allocations.queue_index import QueueIndex, QueueState
from rota.apiserver.subresources import binder
from rota.client.pods import PODS
from rota.client.transports.transport import Call
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.testing import batches
from rota.testing.batches import BatchCluster
from rota.testing.schedulers import SchedulingCluster

CLAIMS = ("", "v1", "persistentvolumeclaims")
VOLUMES = ("", "v1", "persistentvolumes")
CSI_NODES = ("storage.k8s.io", "v1", "csinodes")
DRIVER = "disks.example.com"


@pytest.fixture
async def batch_cluster() -> AsyncIterator[BatchCluster]:
    async with batches.cluster() as made:
        yield made


async def _add_claim(cluster: SchedulingCluster, name: str, mode: str = "ReadWriteOnce") -> None:
    """A claim that is bound to a volume of the driver."""
    size, modes = {"storage": "1Gi"}, [mode]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{name}"},
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": modes,
            "storageClassName": "",
            "volumeName": f"disk-{name}",
            "resources": {"requests": size},
        },
    }
    await cluster.client.create(VOLUMES, volume)
    await cluster.client.create(CLAIMS, claim)


async def _limit_volumes(cluster: SchedulingCluster, node: str, most: int) -> None:
    drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": [], "allocatable": {"count": most}}]
    csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}}
    await cluster.client.create(CSI_NODES, {**csi_node, "spec": {"drivers": drivers}})


def _mounting(*claims: str) -> dict[str, Any]:
    return {"volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]}


async def test_a_claim_for_one_pod_is_not_used_by_two_on_different_nodes(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", cpu="1")
    await cluster.add_node("n2", cpu="1")
    await _add_claim(cluster, "data", "ReadWriteOncePod")
    async with racing(cluster) as (reasons, _):
        # Each takes most of a node, so that only the claim is contended.
        about = {"cpu": "800m", **_mounting("data")}
        places = await race(cluster, reasons, about, about)
    assert sorted(map(bool, places)) == [False, True]
    assert reasons == [conflict_reasons.VOLUME]


async def test_a_claim_for_one_pod_is_free_again_when_its_pod_has_ended(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await _add_claim(cluster, "data", "ReadWriteOncePod")
    for name in ("one", "two"):
        await cluster.add_pod(name, **_mounting("data"))
    await _bind(cluster, "one")
    with pytest.raises(errors.Conflict, match="claim default/data is for one pod, and pod default/one uses it"):
        await _bind(cluster, "two")
    await cluster.client.patch(PODS, "one", {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
    await _bind(cluster, "two")
    assert await cluster.node_of("two") == "n1"


async def test_a_pod_with_a_node_does_not_take_a_claim_that_another_pod_uses(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await _add_claim(cluster, "data", "ReadWriteOncePod")
    await cluster.add_pod("one", nodeName="n1", **_mounting("data"))
    await cluster.add_pod("two", **_mounting("data"))
    with pytest.raises(errors.Conflict, match="claim default/data is for one pod"):
        await _bind(cluster, "two")
    with pytest.raises(errors.Conflict, match="claim default/data is for one pod"):
        await cluster.add_pod("three", nodeName="n1", **_mounting("data"))


async def test_a_pod_with_a_node_gets_the_place_of_a_volume_whose_pod_has_just_ended(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the index of pods lags: the second look reads the newest state."""
    kept: list[View] = []
    view_now = OvercommitGuard.view

    async def lagging(guard: OvercommitGuard, nodes: Collection[str], *, newest: bool = False) -> View:
        found = await view_now(guard, nodes, newest=newest)
        if newest:
            return found
        residents = {node: dict(found.residents(node)) for node in nodes}
        kept.append(replace(found, residents=residents.__getitem__))
        return kept[0]

    await cluster.add_node("n1")
    await _limit_volumes(cluster, "n1", 1)
    for claim in ("a", "b"):
        await _add_claim(cluster, claim)
    await cluster.add_pod("one", nodeName="n1", **_mounting("a"))
    monkeypatch.setattr(OvercommitGuard, "view", lagging)
    with pytest.raises(errors.Conflict, match=f"driver {DRIVER} attaches at most 1 volumes"):
        await cluster.add_pod("two", nodeName="n1", **_mounting("b"))
    await cluster.client.patch(PODS, "one", {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
    await cluster.add_pod("two", nodeName="n1", **_mounting("b"))
    assert await cluster.node_of("two") == "n1"


async def test_no_node_gets_more_volumes_than_its_driver_attaches(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await _limit_volumes(cluster, "n1", 1)
    for claim in ("a", "b"):
        await _add_claim(cluster, claim)
    async with racing(cluster) as (reasons, _):
        places = await race(cluster, reasons, _mounting("a"), _mounting("b"))
        assert sorted(places) == ["", "n1"]
    assert reasons == [conflict_reasons.VOLUME]


async def test_a_volume_that_two_pods_of_a_node_mount_counts_once(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await _limit_volumes(cluster, "n1", 1)
    await _add_claim(cluster, "a")
    await _add_claim(cluster, "b")
    for name, claim in (("one", "a"), ("two", "a"), ("three", "b")):
        await cluster.add_pod(name, **_mounting(claim))
    await _bind(cluster, "one")
    await _bind(cluster, "two")
    with pytest.raises(errors.Conflict, match="attaches at most 1 volumes to node n1"):
        await _bind(cluster, "three")


async def _bind(cluster: SchedulingCluster, pod: str, node: str = "n1") -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": node}}
    await cluster.client.create(PODS, binding, namespace="default", name=pod, subresource="binding")


async def test_a_queue_does_not_get_more_than_its_capability(batch_cluster: BatchCluster) -> None:
    cluster = batch_cluster
    await cluster.add_node("n1", cpu="8")
    await cluster.add_queue("small", capability={"cpu": "3"})
    for group in ("a", "b"):
        await cluster.client.create(POD_GROUPS, batches.make_group(group, 1, queue="small"))
    async with racing(cluster) as (reasons, _):
        places = await race(
            cluster,
            reasons,
            {"cpu": "2", "annotations": {batches.GROUP: "a"}},
            {"cpu": "2", "annotations": {batches.GROUP: "b"}},
        )
    assert sorted(places) == ["", "n1"]
    assert reasons == [conflict_reasons.QUOTA]


async def test_the_capability_of_a_queue_limits_the_queues_below_it(batch_cluster: BatchCluster) -> None:
    cluster = batch_cluster
    await cluster.add_node("n1", cpu="8")
    await cluster.add_queue("company", capability={"cpu": "3"})
    for name in ("blue", "red"):
        await cluster.add_queue(name, parent="company")
        await cluster.client.create(POD_GROUPS, batches.make_group(name, 1, queue=name))
        await cluster.add_pod(name, cpu="2", annotations={batches.GROUP: name})
    await cluster.add_pod("free", cpu="2")
    await _bind(cluster, "blue")
    with pytest.raises(errors.Conflict, match="queue company has 3 of cpu, 2 taken, 2 requested"):
        await _bind(cluster, "red")
    await _bind(cluster, "free")


async def test_a_group_that_has_just_moved_is_bound_by_the_limits_of_its_new_queue(
    batch_cluster: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = batch_cluster
    await cluster.add_node("n1", cpu="8")
    await cluster.add_queue("small", capability={"cpu": "3"})
    await cluster.add_queue("large")
    for group, queue in (("a", "small"), ("b", "large")):
        await cluster.client.create(POD_GROUPS, batches.make_group(group, 1, queue=queue))
        await cluster.add_pod(group, cpu="2", annotations={batches.GROUP: group})
    newest = QueueIndex.state
    stale: list[QueueState] = []

    async def state(index: QueueIndex, revision: int = 0) -> QueueState:
        """The index lags: it has the move only if a reader waits for it."""
        found = await newest(index, revision)
        if not stale:
            stale.append(copy.deepcopy(found))
        return found if revision else copy.deepcopy(stale[0])

    monkeypatch.setattr(QueueIndex, "state", state)
    await _bind(cluster, "a")
    await cluster.client.patch(POD_GROUPS, "b", {"spec": {"queue": "small"}}, namespace="default")
    assert stale[0].groups["default/b"] == "large"
    with pytest.raises(errors.Conflict, match="queue small has 3 of cpu, 2 taken, 2 requested"):
        await _bind(cluster, "b")


async def test_a_group_with_bound_pods_does_not_move_to_another_queue(batch_cluster: BatchCluster) -> None:
    cluster = batch_cluster
    await cluster.add_node("n1", cpu="8")
    await cluster.add_queue("small", capability={"cpu": "1"})
    await cluster.client.create(POD_GROUPS, batches.make_group("a", 1))
    await cluster.add_pod("a", cpu="2", annotations={batches.GROUP: "a"})
    await _bind(cluster, "a")
    move = {"spec": {"queue": "small"}}
    with pytest.raises(errors.Invalid, match=r"spec.queue: Forbidden: pod a of the group has a node"):
        await cluster.client.patch(POD_GROUPS, "a", move, namespace="default")
    await cluster.client.patch(PODS, "a", {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
    await cluster.client.patch(POD_GROUPS, "a", move, namespace="default")


async def test_of_two_gangs_that_race_for_room_for_one_no_half_is_bound(batch_cluster: BatchCluster) -> None:
    cluster = batch_cluster
    for number in range(4):
        await cluster.add_node(f"n{number}", cpu="1")
    arrived, go_on = 0, asyncio.Event()

    async def hold(call: Call) -> None:
        nonlocal arrived
        if call.path.endswith("/bindingbatches"):
            arrived += 1
            if arrived == 2:
                go_on.set()
            await go_on.wait()

    async with contextlib.AsyncExitStack() as stack:
        for seed in range(2):
            client, transport = cluster.meddling()
            transport.before = hold
            await stack.enter_async_context(cluster.batching(client=client, seed=seed))
        for name in ("a", "b"):
            await cluster.add_gang(name, 3)

        async def one_started() -> bool:
            return 3 in (len(await cluster.placed("a")), len(await cluster.placed("b")))

        await cluster.until(one_started)
        await cluster.clock.advance(3)
        assert sorted([len(await cluster.placed("a")), len(await cluster.placed("b"))]) == [0, 3]
    assert arrived >= 2


async def test_a_batch_that_claims_make_too_large_is_bound_in_two_transactions(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", cpu="100", memory="64Gi", pods="200")
    # With the node and its ledger key as many keys as a batch may have; the claims' ledger key is one too many.
    names = [f"p{number}" for number in range(binder.MOST_KEYS - 2)]
    for name in names:
        claim = {"metadata": {"name": name, "namespace": "default"}, "apiVersion": "v1"}
        spec = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
        await cluster.client.create(CLAIMS, {**claim, "kind": "PersistentVolumeClaim", "spec": spec})
        await cluster.add_pod(name, cpu="1m", **_mounting(name))
    bindings = [{"metadata": {"name": name, "namespace": "default"}, "target": {"name": "n1"}} for name in names]
    batch = {"apiVersion": "rota.dev/v1alpha1", "kind": "BindingBatch", "metadata": {}, "bindings": bindings}
    target = ("rota.dev", "v1alpha1", "bindingbatches")
    refused = await cluster.client.create(target, {**batch, "atomic": True})
    assert refused["bound"] == 0
    assert "bind fewer pods at once" in refused["verdicts"][0]["status"]["message"]
    answer = await cluster.client.create(target, batch)
    assert answer["bound"] == len(names)


async def test_pods_that_are_created_at_once_do_not_share_the_quota_of_their_namespace(
    cluster: SchedulingCluster,
) -> None:
    quotas, hard = ("", "v1", "resourcequotas"), {"pods": "3"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    await cluster.client.create(quotas, {**quota, "spec": {"hard": hard}})
    status = {"status": {"hard": hard, "used": {"pods": "0"}}}
    await cluster.client.patch(quotas, "q", status, namespace="default", subresource="status")
    made = asyncio.gather(*(cluster.add_pod(f"p{number}") for number in range(8)), return_exceptions=True)

    async def done() -> bool:
        return made.done()

    await cluster.until(done)
    refused = [one for one in made.result() if isinstance(one, BaseException)]
    assert all(isinstance(one, errors.Forbidden) and "exceeded quota" in one.message for one in refused)
    assert len(refused) == 5
