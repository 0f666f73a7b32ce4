"""DaemonSets have one pod on every node that should have one, of the template as it is."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.controllers.workloads import NODE, NODES, PODS, Ending, Kubelet, listed, reaches, reasons, status

from rota.api import meta
from rota.client.verbs import PatchType
from rota.controllers import pod_states
from rota.controllers.controller_revisions import HASH_LABEL
from rota.controllers.daemon_sets import placement, plan
from rota.controllers.daemon_sets.controller import DAEMON_SETS, DaemonSetController
from rota.controllers.daemon_sets.placement import Fit, Placement
from rota.controllers.daemon_sets.plan import State
from rota.controllers.revision_history import REVISIONS
from rota.testing.virtual_api import VirtualCluster

USER = "rota:controller:daemon-sets"
UNWELL = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
RESERVED = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as(USER)
    async with cluster.running(DaemonSetController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster)
    async with cluster.running(it.run), running(cluster):
        yield it


def daemon_set(pod: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    labels = {"app": "agent"}
    container = {"name": "main", "image": "app:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **(pod or {})}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def add_node(cluster: VirtualCluster, name: str) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"disk": name}
    await cluster.client.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}})


async def create(cluster: VirtualCluster, *nodes: str, pod: Mapping[str, Any] | None = None, **spec: Any) -> None:
    """A DaemonSet, and nodes besides the one that is there."""
    for name in nodes:
        await add_node(cluster, name)
    await cluster.client.create(DAEMON_SETS, daemon_set(pod, **spec))


async def set_image(cluster: VirtualCluster, image: str) -> None:
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    await cluster.client.patch(DAEMON_SETS, "agent", change, namespace="default", type=PatchType.JSON)


async def done(cluster: VirtualCluster, pods: int, generation: int = 1) -> Any:
    """The set, once all its pods are of its template and available."""
    return await reaches(
        cluster,
        DAEMON_SETS,
        "agent",
        observedGeneration=generation,
        desiredNumberScheduled=pods,
        updatedNumberScheduled=pods,
        numberAvailable=pods,
        numberMisscheduled=0,
        numberUnavailable=0,
    )


async def active(cluster: VirtualCluster) -> dict[str, str]:
    """The images that run, by node."""
    pods = [one for one in await listed(cluster, PODS) if pod_states.is_active(one)]
    found = {placement.node_of(one): str(one["spec"]["containers"][0]["image"]) for one in pods}
    assert len(found) == len(pods)
    return found


@pytest.mark.slow
async def test_every_node_has_one_pod_and_new_nodes_get_theirs(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, "a", "b")
    await done(cluster, 3)
    assert set(await active(cluster)) == {NODE, "a", "b"}
    await add_node(cluster, "c")
    await done(cluster, 4)
    (pod, *_others) = await listed(cluster, PODS)
    assert placement.GENERATION_LABEL in meta.labels(pod)
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"][
        "tolerations"
    ]
    assert await reasons(cluster, "agent") == {"SuccessfulCreate": 4}


async def test_pods_follow_the_labels_and_taints_of_nodes(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, "a", "b", pod={"nodeSelector": {"disk": "b"}})
    await done(cluster, 1)
    await cluster.client.patch(NODES, "a", {"metadata": {"labels": {"disk": "b"}}})
    await done(cluster, 2)
    await cluster.client.patch(NODES, "b", {"spec": {"taints": [RESERVED]}})
    # It should not be there, but may stay.
    await reaches(cluster, DAEMON_SETS, "agent", desiredNumberScheduled=1, numberMisscheduled=1)
    assert set(await active(cluster)) == {"a", "b"}
    await cluster.client.patch(NODES, "b", {"spec": {"taints": [{**RESERVED, "effect": "NoExecute"}]}})
    await done(cluster, 1)
    assert set(await active(cluster)) == {"a"}
    await cluster.client.patch(NODES, "a", {"metadata": {"labels": {"disk": "a"}}})
    await done(cluster, 0)
    assert await active(cluster) == {}


async def test_a_pod_that_was_made_for_a_node_that_is_gone_goes(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await create(cluster, "a")
        await reaches(cluster, DAEMON_SETS, "agent", currentNumberScheduled=1)
        await cluster.client.delete(NODES, "a")
        await reaches(cluster, DAEMON_SETS, "agent", desiredNumberScheduled=0)
        await cluster.until(lambda: _no_pods(cluster))


async def _no_pods(cluster: VirtualCluster) -> bool:
    return not await listed(cluster, PODS)


@pytest.mark.slow
async def test_a_pod_that_fails_is_made_again_less_and_less_often(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: Ending(1, after_s=0.1)
    await create(cluster)
    await cluster.clock.advance(100)
    failures = len(kubelet.ended)
    assert 6 <= failures <= 9  # after 1, 2, 4, ... seconds
    assert (await reasons(cluster, "agent"))["FailedDaemonPod"] >= failures - 1
    kubelet.ends = lambda _: None
    await set_image(cluster, "app:2")  # another template is another matter
    await done(cluster, 1, 2)
    assert await active(cluster) == {NODE: "app:2"}


@pytest.mark.slow
async def test_old_pods_go_no_faster_than_new_ones_come(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, "a", "b", "c", minReadySeconds=5)
    await done(cluster, 4)
    kubelet.broken = lambda pod: pod["spec"]["containers"][0]["image"] == "app:2"
    await set_image(cluster, "app:2")
    await reaches(cluster, DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=3)
    await cluster.clock.advance(60)
    assert sorted((await active(cluster)).values()) == ["app:1", "app:1", "app:1", "app:2"]
    # The way back mends the broken one first, and leaves the others alone.
    before = {meta.uid(one) for one in await listed(cluster, PODS)}
    await set_image(cluster, "app:1")
    await done(cluster, 4, 3)
    assert set((await active(cluster)).values()) == {"app:1"}
    assert len(before & {meta.uid(one) for one in await listed(cluster, PODS)}) == 3


@pytest.mark.slow
async def test_with_a_surge_successors_come_before_the_old_go(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}
    await create(cluster, "a", "b", "c", updateStrategy=strategy)
    await done(cluster, 4)
    await set_image(cluster, "app:2")
    for _ in range(200):
        said = await status(cluster, DAEMON_SETS, "agent")
        assert said["numberAvailable"] == 4
        assert len([one for one in await listed(cluster, PODS) if pod_states.is_active(one)]) <= 6
        await cluster.clock.advance(0.05)
        if said.get("updatedNumberScheduled") == 4 and said["observedGeneration"] == 2:
            break
    await done(cluster, 4, 2)
    await cluster.clock.advance(2)
    assert set((await active(cluster)).values()) == {"app:2"}


async def test_on_delete_a_pod_is_replaced_once_it_is_deleted(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, "a", updateStrategy={"type": "OnDelete"})
    await done(cluster, 2)
    await set_image(cluster, "app:2")
    await reaches(cluster, DAEMON_SETS, "agent", observedGeneration=2, updatedNumberScheduled=0)
    await cluster.clock.advance(30)
    assert await active(cluster) == {NODE: "app:1", "a": "app:1"}
    doomed = next(one for one in await listed(cluster, PODS) if placement.node_of(one) == "a")
    await cluster.client.delete(PODS, meta.name(doomed), namespace="default")
    await reaches(cluster, DAEMON_SETS, "agent", updatedNumberScheduled=1, numberAvailable=2)
    assert await active(cluster) == {NODE: "app:1", "a": "app:2"}


@pytest.mark.slow
async def test_templates_are_kept_as_revisions_and_come_back_as_newest(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await create(cluster, revisionHistoryLimit=2)
    await done(cluster, 1)
    for number in range(2, 6):
        await set_image(cluster, f"app:{number}")
        await done(cluster, 1, number)
    await cluster.clock.advance(2)
    held = {one["revision"]: _image(one) for one in await listed(cluster, REVISIONS)}
    assert held == {3: "app:3", 4: "app:4", 5: "app:5"}
    await set_image(cluster, "app:3")
    await done(cluster, 1, 6)
    await cluster.clock.advance(2)
    held = {one["revision"]: _image(one) for one in await listed(cluster, REVISIONS)}
    assert held == {4: "app:4", 5: "app:5", 6: "app:3"}
    (pod,) = await listed(cluster, PODS)
    newest = next(one for one in await listed(cluster, REVISIONS) if one["revision"] == 6)
    assert meta.labels(pod)[HASH_LABEL] == meta.labels(newest)[HASH_LABEL]


async def test_anothers_revision_of_the_same_name_is_no_obstacle(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with running(cluster):
        await create(cluster)
        await done(cluster, 1)
        (own,) = await listed(cluster, REVISIONS)
        await cluster.client.delete(DAEMON_SETS, "agent", namespace="default")
        await cluster.client.delete(REVISIONS, meta.name(own), namespace="default")
        await cluster.client.create(
            REVISIONS, {"metadata": {"name": meta.name(own), "namespace": "default"}, "data": {}, "revision": 1}
        )
        await cluster.client.create(DAEMON_SETS, daemon_set())
        found = await reaches(cluster, DAEMON_SETS, "agent", collisionCount=1, numberAvailable=1)
        assert meta.uid(found) in {(meta.controller_of(one) or {}).get("uid") for one in await listed(cluster, PODS)}


def _image(revision: Any) -> str:
    return str(revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"])


def node(name: str, *taints: Any, **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("pod", "where", "wanted"),
    [
        ({}, node("a"), (True, True)),
        ({}, node("a", UNWELL), (True, True)),
        ({}, node("a", {**UNWELL, "key": "node.kubernetes.io/unschedulable"}), (False, False)),
        ({}, node("a", RESERVED), (False, True)),
        ({}, node("a", {**RESERVED, "effect": "NoExecute"}), (False, False)),
        ({}, node("a", {**RESERVED, "effect": "PreferNoSchedule"}), (True, True)),
        ({"tolerations": [{"operator": "Exists"}]}, node("a", RESERVED), (True, True)),
        ({"nodeName": "b"}, node("a"), (False, False)),
        ({"nodeSelector": {"x": "1"}}, node("a", x="1"), (True, True)),
        ({"nodeSelector": {"x": "1"}}, node("a", x="2"), (False, False)),
        (required(matchExpressions=[{"key": "x", "operator": "Exists"}]), node("a", x=""), (True, True)),
        (required(matchExpressions=[{"key": "x", "operator": "Exists"}]), node("a"), (False, False)),
        ({}, node("a", {**RESERVED, "key": "node.kubernetes.io/network-unavailable"}), (False, True)),
        (
            {"hostNetwork": True},
            node("a", {**RESERVED, "key": "node.kubernetes.io/network-unavailable"}),
            (True, True),
        ),
    ],
)
def test_a_node_runs_keeps_or_loses_a_pod(pod: Any, where: Any, wanted: tuple[bool, bool]) -> None:
    fit = Placement(daemon_set(pod)).fit(where)
    assert (fit.runs, fit.keeps) == wanted


def test_a_toleration_with_an_end_loses_its_end() -> None:
    given = {"key": UNWELL["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    found = placement.tolerations({"tolerations": [given]})
    assert [one for one in found if one["key"] == UNWELL["key"]] == [
        {"key": UNWELL["key"], "operator": "Exists", "effect": "NoExecute"}
    ]


_POD = st.tuples(st.sampled_from("abc"), st.sampled_from(["new", "old"]), st.booleans(), st.booleans())


@pytest.mark.slow
@given(st.lists(_POD, max_size=7), st.integers(0, 3), st.integers(0, 3))
@example([("a", "old", False, False), ("b", "old", True, False), ("c", "new", True, False)], 0, 1)
def test_no_step_makes_more_pods_unavailable_than_allowed(pods: Any, surge: int, unavailable: int) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    owner = daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    made = [_pod(str(number), *one) for number, one in enumerate(pods)]
    fits = {name: Fit(runs=True, keeps=True) for name in "abc"}
    state = State(owner=owner, hashed="new", fits=fits, pods=made, now=0.0)
    step = plan.upkeep(state)
    for name in step.create:
        assert not any(placement.node_of(one) == name for one in made)
    if step:
        return
    step = plan.rolled(state)
    kept = [one for one in made if one not in step.delete and not meta.is_deleting(one)]
    lost = [one for one in step.delete if state.is_available(one)]
    missing = {name for name in "abc" if not any(placement.node_of(p) == name and state.is_available(p) for p in kept)}
    assert not lost or len(missing) <= plan.limits(owner, 3)[1]
    assert all(not state.is_current(one) for one in step.delete)
    living = [[one for one in made if placement.node_of(one) == name and not meta.is_deleting(one)] for name in "abc"]
    before = sum(len(here) > 1 for here in living)
    free = [name for name, here in zip("abc", living, strict=True) if name in step.create and _any_good(state, here)]
    assert not free or before + len(free) <= surge


def _any_good(state: State, pods: list[Any]) -> bool:
    return any(map(state.is_available, pods))


def _pod(name: str, where: str, hashed: str, ready: bool, leaving: bool) -> Any:
    metadata: dict[str, Any] = {"name": name, "uid": name, "labels": {HASH_LABEL: hashed}}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    spec = {"nodeName": where}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "conditions": conditions}}
