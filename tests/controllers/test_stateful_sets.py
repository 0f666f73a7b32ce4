"""StatefulSets have numbered pods that come, go and change in order, with claims that stay."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.workloads import PODS, Ending, Kubelet, listed, reaches, reasons, status

from rota.api import meta
from rota.client.verbs import PatchType
from rota.controllers.controller_revisions import HASH_LABEL
from rota.controllers.revision_history import REVISIONS
from rota.controllers.stateful_sets import identity, plan
from rota.controllers.stateful_sets.controller import STATEFUL_SETS, VOLUME_CLAIMS, StatefulSetController
from rota.controllers.stateful_sets.plan import State
from rota.testing.virtual_api import VirtualCluster

USER = "rota:controller:stateful-sets"
DATA = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as(USER)
    async with cluster.running(StatefulSetController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster)
    async with cluster.running(it.run), running(cluster):
        yield it


def stateful_set(replicas: int = 3, **spec: Any) -> dict[str, Any]:
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


async def create(cluster: VirtualCluster, replicas: int = 3, **spec: Any) -> None:
    await cluster.client.create(STATEFUL_SETS, stateful_set(replicas, **spec))


async def patch(cluster: VirtualCluster, **spec: Any) -> None:
    await cluster.client.patch(STATEFUL_SETS, "db", {"spec": spec}, namespace="default")


async def set_image(cluster: VirtualCluster, image: str) -> None:
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    await cluster.client.patch(STATEFUL_SETS, "db", change, namespace="default", type=PatchType.JSON)


async def done(cluster: VirtualCluster, replicas: int, generation: int = 1) -> Any:
    """The set, once all its pods are of its template and available."""
    found = await reaches(
        cluster,
        STATEFUL_SETS,
        "db",
        observedGeneration=generation,
        replicas=replicas,
        availableReplicas=replicas,
        updatedReplicas=replicas,
        currentReplicas=replicas,
    )
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    return found


async def images(cluster: VirtualCluster) -> dict[str, str]:
    """What runs, by the names of pods."""
    return {meta.name(one): str(one["spec"]["containers"][0]["image"]) for one in await listed(cluster, PODS)}


async def test_pods_come_one_after_the_other_and_go_the_other_way(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.broken = lambda pod: meta.name(pod) == "db-1"
    await create(cluster)
    await reaches(cluster, STATEFUL_SETS, "db", replicas=2, readyReplicas=1)
    await cluster.clock.advance(30)
    assert set(await images(cluster)) == {"db-0", "db-1"}
    kubelet.broken = lambda _: False
    await cluster.client.patch(PODS, "db-1", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
    found = await done(cluster, 3)
    pod = await cluster.client.get(PODS, "db-2", namespace="default")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-2", "db")
    assert meta.labels(pod)[identity.NAME_LABEL] == "db-2"
    assert meta.labels(pod)[identity.INDEX_LABEL] == "2"
    assert meta.labels(pod)[HASH_LABEL] == found["status"]["currentRevision"]
    kubelet.farewell_s = 5.0
    await patch(cluster, replicas=0)
    seen: list[set[str]] = []
    while not seen or seen[-1]:
        there = set(await images(cluster))
        seen += [there] if not seen or seen[-1] != there else []
        await cluster.clock.advance(1)
    assert seen == [{"db-0", "db-1", "db-2"}, {"db-0", "db-1"}, {"db-0"}, set()]
    assert await reasons(cluster, "db") == {"SuccessfulCreate": 3, "SuccessfulDelete": 3}


async def test_parallel_pod_management_waits_for_no_pod(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.broken = lambda pod: meta.name(pod) == "db-5"
    await create(cluster, podManagementPolicy="Parallel", ordinals={"start": 5})
    await reaches(cluster, STATEFUL_SETS, "db", replicas=3, readyReplicas=2)
    assert set(await images(cluster)) == {"db-5", "db-6", "db-7"}
    await patch(cluster, replicas=0)
    await reaches(cluster, STATEFUL_SETS, "db", replicas=0)


async def test_pods_that_end_or_are_taken_away_are_made_again(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster)
    await done(cluster, 3)
    before = {meta.name(one): meta.uid(one) for one in await listed(cluster, PODS)}
    for name, phase in (("db-0", "Failed"), ("db-1", "Succeeded")):
        change = {"status": {"phase": phase, "conditions": []}}
        await cluster.client.patch(PODS, name, change, namespace="default", subresource="status")
    await cluster.client.delete(PODS, "db-2", namespace="default")
    await cluster.clock.advance(5)
    await done(cluster, 3)
    after = {meta.name(one): meta.uid(one) for one in await listed(cluster, PODS)}
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())


async def test_a_template_is_changed_from_the_highest_number_down_to_the_partition(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await create(cluster, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    await done(cluster, 3)
    await set_image(cluster, "app:2")
    await reaches(cluster, STATEFUL_SETS, "db", observedGeneration=2, updatedReplicas=1, readyReplicas=3)
    await cluster.clock.advance(10)
    assert await images(cluster) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    # Below the partition a pod comes back as it was.
    await cluster.client.delete(PODS, "db-0", namespace="default")
    await cluster.clock.advance(5)
    await reaches(cluster, STATEFUL_SETS, "db", readyReplicas=3, currentReplicas=2, updatedReplicas=1)
    assert (await images(cluster))["db-0"] == "app:1"
    await patch(cluster, updateStrategy={"rollingUpdate": {"partition": 0}})
    await done(cluster, 3, 3)
    assert set((await images(cluster)).values()) == {"app:2"}


async def test_a_template_that_does_not_work_stops_at_its_first_pod_and_is_taken_back(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await create(cluster, minReadySeconds=2)
    await done(cluster, 3)
    kubelet.broken = lambda pod: pod["spec"]["containers"][0]["image"] == "app:2"
    await set_image(cluster, "app:2")
    await reaches(cluster, STATEFUL_SETS, "db", observedGeneration=2, updatedReplicas=1, readyReplicas=2)
    await cluster.clock.advance(60)
    assert await images(cluster) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    await set_image(cluster, "app:1")
    await cluster.clock.advance(10)
    # Upstream leaves a pod that is not ready to somebody's hands, and so do we: it may be at work.
    await cluster.client.delete(PODS, "db-2", namespace="default")
    await done(cluster, 3, 3)
    assert set((await images(cluster)).values()) == {"app:1"}
    assert sorted(one["revision"] for one in await listed(cluster, REVISIONS)) == [2, 3]


async def test_on_delete_a_pod_is_replaced_once_it_is_deleted(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, 2, updateStrategy={"type": "OnDelete"})
    await reaches(cluster, STATEFUL_SETS, "db", readyReplicas=2)
    await set_image(cluster, "app:2")
    await cluster.clock.advance(10)
    assert set((await images(cluster)).values()) == {"app:1"}
    await cluster.client.delete(PODS, "db-1", namespace="default")
    await reaches(cluster, STATEFUL_SETS, "db", updatedReplicas=1, readyReplicas=2)
    assert await images(cluster) == {"db-0": "app:1", "db-1": "app:2"}


async def claims(cluster: VirtualCluster) -> dict[str, list[tuple[str, str]]]:
    """Whom claims belong to."""
    return {
        meta.name(one): [(ref["kind"], ref["name"]) for ref in meta.owner_references(one)]
        for one in await listed(cluster, VOLUME_CLAIMS)
    }


async def test_volumes_are_claimed_and_stay_with_their_numbers(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, 2, volumeClaimTemplates=[DATA])
    await done(cluster, 2)
    pod = await cluster.client.get(PODS, "db-1", namespace="default")
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}} in pod["spec"]["volumes"]
    await patch(cluster, replicas=1)
    await done(cluster, 1, 2)
    assert await claims(cluster) == {"data-db-0": [], "data-db-1": []}
    claim = await cluster.client.get(VOLUME_CLAIMS, "data-db-0", namespace="default")
    assert meta.labels(claim) == {"app": "db"}
    await patch(cluster, replicas=2)
    await done(cluster, 2, 3)
    assert await reasons(cluster, "db") == {"SuccessfulCreate": 5, "SuccessfulDelete": 1}


async def test_claims_go_with_their_set_or_their_pod_if_it_says_so(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    await create(cluster, 2, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=policy)
    await done(cluster, 2)
    assert await claims(cluster) == {"data-db-0": [("StatefulSet", "db")], "data-db-1": [("StatefulSet", "db")]}
    await patch(cluster, replicas=1)
    await done(cluster, 1, 2)
    assert await claims(cluster) == {"data-db-0": [("StatefulSet", "db")], "data-db-1": [("Pod", "db-1")]}
    # Its successor waits until the garbage collector has taken the claim of the one before.
    await patch(cluster, replicas=2)
    await cluster.clock.advance(10)
    assert set(await images(cluster)) == {"db-0"}
    await cluster.client.delete(VOLUME_CLAIMS, "data-db-1", namespace="default")
    await done(cluster, 2, 3)
    assert (await claims(cluster))["data-db-1"] == [("StatefulSet", "db")]


async def test_a_pod_of_its_own_name_and_labels_is_adopted(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    for name in ("db-0", "db-x"):
        pod = {
            "metadata": {"name": name, "labels": {"app": "db"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
        }
        await cluster.client.create(PODS, pod, namespace="default")
    await create(cluster, 1, updateStrategy={"type": "OnDelete"})
    await reaches(cluster, STATEFUL_SETS, "db", readyReplicas=1)
    adopted = await cluster.client.get(PODS, "db-0", namespace="default")
    assert meta.controller_of(adopted) is not None
    assert meta.labels(adopted)[identity.INDEX_LABEL] == "0"
    assert meta.controller_of(await cluster.client.get(PODS, "db-x", namespace="default")) is None


@pytest.mark.slow
async def test_a_pod_that_always_fails_is_made_again_and_again(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: Ending(1, after_s=1.0)
    await create(cluster, 1)
    await cluster.clock.advance(20)
    assert len(kubelet.ended) > 3
    kubelet.ends = lambda _: None
    await done(cluster, 1)


async def test_former_templates_are_kept_up_to_the_limit(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, 1, revisionHistoryLimit=1)
    await done(cluster, 1)
    for number in range(2, 5):
        await set_image(cluster, f"app:{number}")
        await done(cluster, 1, number)
    await cluster.clock.advance(2)
    held = sorted(one["revision"] for one in await listed(cluster, REVISIONS))
    assert held == [3, 4]
    assert (await status(cluster, STATEFUL_SETS, "db"))["collisionCount"] == 0


_PODS = st.dictionaries(
    st.integers(0, 6),
    st.tuples(
        st.sampled_from(["old", "new"]),
        st.sampled_from(["Pending", "Running", "Failed"]),
        st.booleans(),
        st.booleans(),
    ),
)


@pytest.mark.slow
@given(_PODS, st.integers(0, 5), st.integers(0, 5), st.integers(1, 3), st.booleans())
def test_a_step_touches_no_more_than_it_may(
    there: Any, replicas: int, partition: int, limit: int, parallel: bool
) -> None:
    rolling = {"partition": partition, "maxUnavailable": limit}
    owner = stateful_set(
        replicas,
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling},
        podManagementPolicy="Parallel" if parallel else "OrderedReady",
    )
    pods = {number: _pod(number, *one) for number, one in there.items()}
    state = State(owner=owner, current="old", update="new", pods=list(pods.values()), now=0.0)
    step = plan.step(state)
    doomed = {identity.ordinal(owner, one) for one in step.delete}
    assert not set(step.create) & pods.keys()
    assert set(step.create) <= set(range(replicas))
    assert not any(meta.is_deleting(one) for one in step.delete)
    if not parallel:
        assert len(step.create) + sum(number >= replicas for number in doomed) <= 1
        # Nothing is done for a number while one before it is not well.
        first = min((n for n in range(replicas) if not state.is_well(pods.get(n))), default=replicas)
        if first < replicas and (step.create or doomed) and not doomed & set(range(first + 1)):
            assert step.create == [first]
    rolled = {n for n in doomed if n < replicas and pods[n]["status"]["phase"] != "Failed"}
    assert all(n >= partition and identity.revision(pods[n]) == "old" for n in rolled)
    assert len(rolled) <= limit


def _pod(number: int, revision: str, phase: str, ready: bool, leaving: bool) -> Any:
    name = f"db-{number}"
    metadata: dict[str, Any] = {"name": name, "uid": name, "labels": {HASH_LABEL: revision}}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }
