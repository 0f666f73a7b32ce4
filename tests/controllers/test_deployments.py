"""Deployments go from one template to the next within their limits, and back."""

import contextlib
import math
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.controllers.workloads import PODS, Kubelet, a_few_steps, listed, reaches, reasons

from rota.api import meta
from rota.client.verbs import Object
from rota.controllers import pod_states
from rota.controllers.deployments import revisions, sizes
from rota.controllers.deployments.controller import DEPLOYMENTS, REPLICA_SETS, DeploymentController
from rota.controllers.deployments.revisions import Sets
from rota.controllers.replica_sets import ReplicaSetController
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster

QUOTAS = ("", "v1", "resourcequotas")


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    deployments = DeploymentController(
        cluster.acting_as("rota:controller:deployments"), clock=cluster.clock, rng=cluster.rng
    )
    sets = ReplicaSetController(cluster.acting_as("rota:controller:replica-sets"), clock=cluster.clock, rng=cluster.rng)
    async with cluster.running(deployments.run), cluster.running(sets.run):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster)
    async with cluster.running(it.run), running(cluster):
        yield it


def deployment(replicas: int = 3, **spec: Any) -> Object:
    made = manifests.deployment("web", replicas=replicas)
    del made["spec"]["template"]["spec"]["containers"][0]["ports"]
    made["spec"] |= spec
    return made


def rolling(surge: Any, unavailable: Any) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


async def create(cluster: VirtualCluster, obj: Object) -> None:
    await cluster.client.create(DEPLOYMENTS, obj, namespace="default")


async def change(cluster: VirtualCluster, **spec: Any) -> None:
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": spec}, namespace="default")


async def set_image(cluster: VirtualCluster, image: str) -> None:
    await change(cluster, template={"spec": {"containers": [{"name": "main", "image": image}]}})


async def done(cluster: VirtualCluster, replicas: int, generation: int) -> Object:
    return await reaches(
        cluster,
        DEPLOYMENTS,
        "web",
        observedGeneration=generation,
        replicas=replicas,
        updatedReplicas=replicas,
        availableReplicas=replicas,
    )


def condition(obj: Object, kind: str) -> tuple[str, str]:
    found = meta.condition(obj, kind)
    assert found is not None
    return found["status"], found["reason"]


async def images(cluster: VirtualCluster) -> set[str]:
    pods = [one for one in await listed(cluster, PODS) if pod_states.is_active(one)]
    return {one["spec"]["containers"][0]["image"] for one in pods}


async def test_a_deployment_has_one_set_and_says_when_it_is_there(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, deployment())
    found = await done(cluster, 3, 1)
    await cluster.clock.advance(2)
    found = await cluster.client.get(DEPLOYMENTS, "web", namespace="default")
    assert condition(found, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(found, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert meta.annotations(found)[revisions.REVISION] == "1"
    (only,) = await listed(cluster, REPLICA_SETS)
    hashed = meta.labels(only)[revisions.HASH_LABEL]
    assert meta.name(only) == f"web-{hashed}"
    assert only["spec"]["selector"] == {"matchLabels": {"app": "web", revisions.HASH_LABEL: hashed}}
    assert meta.annotations(only) == {revisions.REVISION: "1", revisions.DESIRED: "3", revisions.MAXIMUM: "4"}
    assert {meta.labels(pod)[revisions.HASH_LABEL] for pod in await listed(cluster, PODS)} == {hashed}
    assert await reasons(cluster, "web") == {"ScalingReplicaSet": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "fewest"), [(1, 0, 6, 5), (0, 2, 5, 3), ("50%", "20%", 8, 4), ("1%", "1%", 6, 5)]
)
async def test_a_rolling_update_keeps_within_its_limits(
    cluster: VirtualCluster, kubelet: Kubelet, surge: Any, unavailable: Any, most: int, fewest: int
) -> None:
    await create(cluster, deployment(5, strategy=rolling(surge, unavailable), minReadySeconds=2))
    await done(cluster, 5, 1)
    await set_image(cluster, "app:2")
    for _ in range(60):
        await cluster.clock.advance(0.5)
        pods = [one for one in await listed(cluster, PODS) if pod_states.is_active(one)]
        waits = [pod_states.available_in_s(one, min_ready_s=2, now=cluster.clock.now()) for one in pods]
        assert len(pods) <= most
        assert sum(wait == 0.0 for wait in waits) >= fewest
    await done(cluster, 5, 2)
    assert await images(cluster) == {"app:2"}
    assert sorted(sizes.replicas(one) for one in await listed(cluster, REPLICA_SETS)) == [0, 5]


async def test_recreate_waits_until_the_last_old_pod_is_gone(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.farewell_s = 3.0
    await create(cluster, deployment(2, strategy={"type": "Recreate"}))
    await done(cluster, 2, 1)
    await set_image(cluster, "app:2")
    seen: set[frozenset[str]] = set()
    for _ in range(20):
        await cluster.clock.advance(0.5)
        pods = [one for one in await listed(cluster, PODS) if not pod_states.is_finished(one)]
        seen.add(frozenset(one["spec"]["containers"][0]["image"] for one in pods))
    assert frozenset({"app:1", "app:2"}) not in seen
    await done(cluster, 2, 2)
    assert await images(cluster) == {"app:2"}


async def test_going_back_brings_the_old_set_to_life_with_a_new_revision(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await create(cluster, deployment(2))
    await done(cluster, 2, 1)
    await set_image(cluster, "app:2")
    await done(cluster, 2, 2)
    await set_image(cluster, "app:1")
    found = await done(cluster, 2, 3)
    await cluster.clock.advance(1)
    assert await images(cluster) == {"app:1"}
    assert meta.annotations(found)[revisions.REVISION] == "3"
    sets = sorted(await listed(cluster, REPLICA_SETS), key=revisions.revision)
    assert [revisions.revision(one) for one in sets] == [2, 3]
    assert meta.annotations(sets[1])[revisions.HISTORY] == "1"


async def test_only_so_many_old_sets_are_kept(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, deployment(1, revisionHistoryLimit=2))
    for number in range(2, 7):
        await done(cluster, 1, number - 1)
        await set_image(cluster, f"app:{number}")
    await done(cluster, 1, 6)
    await cluster.clock.advance(2)
    assert sorted(map(revisions.revision, await listed(cluster, REPLICA_SETS))) == [4, 5, 6]


async def test_a_paused_deployment_is_scaled_and_not_rolled_out(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, deployment(2))
    await done(cluster, 2, 1)
    await change(cluster, paused=True)
    await set_image(cluster, "app:2")
    await change(cluster, replicas=4)
    found = await reaches(cluster, DEPLOYMENTS, "web", observedGeneration=4, availableReplicas=4)
    assert condition(found, "Progressing") == ("Unknown", "DeploymentPaused")
    assert await images(cluster) == {"app:1"}
    await change(cluster, paused=False)
    await done(cluster, 4, 5)
    assert await images(cluster) == {"app:2"}


async def test_without_progress_for_too_long_a_deployment_says_so_and_goes_on_when_it_can(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await create(cluster, deployment(2, progressDeadlineSeconds=30))
    await done(cluster, 2, 1)
    kubelet.broken = lambda pod: pod["spec"]["containers"][0]["image"] == "app:2"
    await set_image(cluster, "app:2")

    async def late() -> bool:
        found = await cluster.client.get(DEPLOYMENTS, "web", namespace="default")
        return condition(found, "Progressing") == ("False", "ProgressDeadlineExceeded")

    await cluster.clock.advance(25)
    assert not await late()
    await cluster.until(late)
    found = await cluster.client.get(DEPLOYMENTS, "web", namespace="default")
    assert condition(found, "Available") == ("True", "MinimumReplicasAvailable")
    await set_image(cluster, "app:3")
    found = await done(cluster, 2, 3)
    await cluster.clock.advance(1)
    found = await cluster.client.get(DEPLOYMENTS, "web", namespace="default")
    assert condition(found, "Progressing") == ("True", "NewReplicaSetAvailable")


async def test_why_pods_cannot_be_made_is_said_on_the_deployment(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}, namespace="default"
    )
    figures = {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    await cluster.client.patch(QUOTAS, "q", figures, namespace="default", subresource="status")
    await create(cluster, deployment(2))
    found = await reaches(cluster, DEPLOYMENTS, "web", availableReplicas=1, unavailableReplicas=1)
    assert condition(found, "ReplicaFailure") == ("True", "FailedCreate")
    assert condition(found, "Available") == ("False", "MinimumReplicasUnavailable")


async def test_a_set_of_another_with_the_same_name_is_stepped_around(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    # The template as the server completes it, and so the name that its set would get.
    made = await cluster.client.create(DEPLOYMENTS, deployment(1), namespace="default", dry_run=True)
    owner = {**made, "apiVersion": "apps/v1", "kind": "Deployment"}
    taken = dict(revisions.new_set(owner, replicas=0, annotations={}))
    taken["metadata"] = {"name": meta.name(taken), "namespace": "default"}
    taken["spec"]["selector"] = {"matchLabels": {"app": "another"}}
    taken["spec"]["template"]["metadata"]["labels"] = {"app": "another"}
    await cluster.client.create(REPLICA_SETS, taken)
    await create(cluster, deployment(1))
    found = await done(cluster, 1, 1)
    assert found["status"]["collisionCount"] == 1
    assert len(await listed(cluster, REPLICA_SETS)) == 2


async def test_a_deployment_adopts_the_set_that_another_left(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, deployment(2))
    await done(cluster, 2, 1)
    (before,) = await listed(cluster, REPLICA_SETS)
    await cluster.client.delete(DEPLOYMENTS, "web", namespace="default")
    await cluster.client.patch(
        REPLICA_SETS, meta.name(before), {"metadata": {"ownerReferences": None}}, namespace="default"
    )
    await create(cluster, deployment(2))
    found = await done(cluster, 2, 1)
    (after,) = await listed(cluster, REPLICA_SETS)
    assert meta.uid(after) == meta.uid(before)
    assert meta.controller_of(after)["uid"] == meta.uid(found)  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
async def test_controllers_that_die_at_any_moment_change_nothing_about_the_end(
    cluster: VirtualCluster, seed: int
) -> None:
    rng, replicas, number = random.Random(seed), 3, 1
    kubelet = Kubelet(cluster)
    async with cluster.running(kubelet.run):
        await create(cluster, deployment(3))
        for _ in range(25):
            if rng.random() < 0.3:
                replicas, number = rng.randrange(1, 6), rng.randrange(1, 4)
                await set_image(cluster, f"app:{number}")
                await change(cluster, replicas=replicas)
            async with running(cluster):
                await a_few_steps(rng)
            await cluster.clock.advance(0.5)
        async with running(cluster):
            generation = meta.metadata(await cluster.client.get(DEPLOYMENTS, "web", namespace="default"))["generation"]
            found = await done(cluster, replicas, generation)
    assert await images(cluster) == {f"app:{number}"}
    sets = await listed(cluster, REPLICA_SETS)
    assert sorted(sizes.replicas(one) for one in sets) == [0] * (len(sets) - 1) + [replicas]
    newest = max(sets, key=revisions.revision)
    assert sizes.replicas(newest) == replicas
    assert meta.annotations(found)[revisions.REVISION] == str(revisions.revision(newest))


def made_set(name: str, size: int, *, available: int | None = None, maximum: int = 0, desired: int = 0) -> Object:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z",
            "annotations": {revisions.MAXIMUM: str(maximum), revisions.DESIRED: str(desired)},
        },
        "spec": {"replicas": size},
        "status": {"availableReplicas": size if available is None else available},
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (3, 0, "10%", (0, 1)),
        (4, 2, 1, (2, 1)),
        (2, 0, 5, (0, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_shares_of_surge_are_rounded_up_and_of_absence_down(
    replicas: int, surge: Any, unavailable: Any, limits: tuple[int, int]
) -> None:
    it = deployment(replicas, strategy=rolling(surge, unavailable))
    assert (sizes.surge(it), sizes.unavailable(it)) == limits


def test_old_pods_that_are_no_good_go_before_good_ones() -> None:
    it = deployment(10, strategy=rolling(3, 2))
    sets = Sets(made_set("new", 5, available=0), (made_set("a", 4, available=1), made_set("bb", 4)))
    # 13 pods, 8 of which have to be available, 5 new ones that are not: nothing may go.
    assert sizes.smaller_old(it, sets) == {}
    sets = Sets(made_set("new", 5, available=5), (made_set("a", 4, available=1), made_set("bb", 4)))
    # Three of the old ones are no good and go; of the ten that are good two are more than needed.
    assert sizes.smaller_old(it, sets) == {"a": 0, "bb": 3}


def test_a_deployment_that_grows_in_the_middle_of_a_rollout_grows_in_proportion() -> None:
    it = deployment(20, strategy=rolling(3, 2))
    sets = Sets(made_set("new", 5, maximum=13), (made_set("old", 8, maximum=13),))
    assert sizes.scaled(it, sets) == {"old": 14, "new": 9}
    assert sizes.scaled(deployment(0, strategy=rolling(3, 2)), sets) == {"old": 0, "new": 0}


_SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@given(_SIZES, st.integers(0, 30), st.integers(0, 4), st.integers(1, 4))
@example([1, 1, 1, 1], 1, 1, 1)
def test_whatever_the_sizes_scaling_fills_what_is_allowed_and_no_more(
    before: list[int], replicas: int, surge: int, maximum_off: int
) -> None:
    maximum = max(sum(before) + maximum_off - 1, 1)
    old = tuple(made_set("o" * (number + 1), size, maximum=maximum) for number, size in enumerate(before[1:]))
    sets = Sets(made_set("new", before[0], available=0, maximum=maximum), old)
    it = deployment(replicas, strategy=rolling(surge, 1))
    after = sizes.scaled(it, sets)
    allowed = replicas + surge if replicas else 0
    if sum(size > 0 for size in before) > 1:
        # Where shares are rounded up, the largest makes up for it, with no more than it has: the rest goes next time.
        assert sum(after.values()) == allowed or (sum(after.values()) > allowed and min(after.values()) == 0)
    assert all(size >= 0 for size in after.values())


@given(
    old=st.lists(st.tuples(st.integers(0, 8), st.floats(0, 1)), max_size=3),
    new=st.tuples(st.integers(0, 8), st.floats(0, 1)),
    replicas=st.integers(1, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(1, 3),
)
def test_no_step_of_a_rollout_breaks_its_limits(
    old: list[tuple[int, float]], new: tuple[int, float], replicas: int, surge: int, unavailable: int
) -> None:
    def some(name: str, size: int, share: float) -> Object:
        return made_set(name, size, available=math.floor(size * share))

    it = deployment(replicas, strategy=rolling(surge, unavailable))
    sets = Sets(some("new", *new), tuple(some("o" * (n + 1), *one) for n, one in enumerate(old)))
    assert sets.new is not None
    total, good = sum(map(sizes.replicas, sets.every)), sum(map(sizes.available, sets.every))
    grown = sizes.new_size(it, sets.every, sets.new)
    assert total - new[0] + grown <= max(total, replicas + surge)
    least = replicas - sizes.unavailable(it)
    smaller = sizes.smaller_old(it, sets)
    # What goes of a set are its worst pods first.
    lost = sum(max(sizes.available(one) - smaller[meta.name(one)], 0) for one in sets.old if meta.name(one) in smaller)
    assert good - lost >= min(good, least)


def test_a_hash_is_short_and_depends_on_the_template_and_on_collisions() -> None:
    one, other = {"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2, "a": 1}}
    assert revisions.template_hash(one, None) == revisions.template_hash(other, None)
    hashes = {revisions.template_hash(one, collisions) for collisions in (None, 0, 1)}
    assert len(hashes) == 3
    assert all(len(text) <= 10 and set(text) <= set("bcdfghjklmnpqrstvwxz2456789") for text in hashes)


def test_a_history_of_revisions_forgets_the_oldest_rather_than_grow_too_long() -> None:
    history = ",".join(str(number) for number in range(1, 500))
    present = {revisions.REVISION: "500", revisions.HISTORY: history}
    found = revisions.annotated({"metadata": {}}, present, 600)
    assert found[revisions.REVISION] == "600"
    assert found[revisions.HISTORY].endswith(",499,500")
    assert len(found[revisions.HISTORY]) <= 2000
