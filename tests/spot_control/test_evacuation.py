"""Leaving machines that go: who goes when, what budgets say, what is left alone."""

import asyncio
from typing import Any, NoReturn

import pytest
from tests.controllers.workloads import NODES, PODS
from tests.spot_control.worlds import CAPACITY, World

from rota.api import errors, meta
from rota.client import pods
from rota.client.verbs import Client
from rota.controllers.disruption import BUDGETS
from rota.spot_control import placement
from rota.spot_control.departures import CALM_S
from rota.spot_control.node_state import EXCLUDED, LEAVING, LEAVING_FOR
from rota.testing import manifests

pytestmark = pytest.mark.slow


async def _asked(world: World, code: int) -> float:
    return world.figure("eviction_requests_total", code=str(code))


async def test_a_node_that_goes_gets_no_pods_and_no_traffic_in_one_moment(world: World) -> None:
    await world.node("s1")
    versions: list[tuple[bool, bool]] = []
    async with world.controlled():
        await world.notice("s1")
        for _ in range(50):
            node = await world.client.get(NODES, "s1")
            tainted = any(one["key"] == LEAVING for one in node["spec"]["taints"])
            versions.append((tainted, EXCLUDED in node["metadata"]["labels"]))
            await asyncio.sleep(0)
    assert set(versions) <= {(False, False), (True, True)}
    assert versions[-1] == (True, True)
    node = await world.client.get(NODES, "s1")
    assert node["metadata"]["annotations"][LEAVING_FOR] == "rota.dev/terminating"
    assert (await world.reasons(about="s1"))["SpotNotice"] == 1
    assert world.figure("notices_total", provider="", kind="rota.dev/terminating") == 1


async def test_pods_go_as_soon_as_there_are_places_and_a_budget_is_never_undercut(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 3, on="s1")
    await world.budget("b", 2, app="web")
    await world.node("d1", "on-demand")
    began = world.clock.now()

    async def moved() -> bool:
        return len(await world.pods("web", on="d1")) == 3 and await world.ready("web") == 3

    async with world.controlled(), world.counting_ready("web") as counts:
        await world.notice("s1", lead=120)
        await world.cluster.until(moved)
        assert world.clock.now() < began + 60
        assert min(counts) == 2
        said = await world.reasons()
    assert said["SpotEvicted"] == 3
    assert said["SpotNodeEvacuated"] == 1
    assert "SpotDeletedAtDeadline" not in said
    assert world.figure("notice_to_last_pod_gone_seconds_count") == 1


async def test_without_a_place_pods_stay_to_their_last_moment(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1", terminationGracePeriodSeconds=20)
    async with world.controlled():
        await world.notice("s1", lead=100)
        await world.clock.advance(75)
        assert await world.ready("web") == 2
        await world.clock.advance(5)
        assert not [pod for pod in await world.pods("web", on="s1") if not meta.is_deleting(pod)]
    assert await _asked(world, 201) == 2


async def test_a_failed_plan_does_not_block_evictions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise ValueError("a plugin's fault")

    monkeypatch.setattr(placement, "places", broken)
    await world.node("s1")
    await world.replicas("web", 1, on="s1", terminationGracePeriodSeconds=10)
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=60)
        await world.clock.advance(46)
        assert await world.ready("web") == 1
        await world.clock.advance(4)
        assert await _asked(world, 201) == 1


async def test_the_most_important_go_first(world: World) -> None:
    await world.priority("high", 1000)
    await world.node("s1")
    await world.replicas("a-low", 2, on="s1")
    await world.replicas("z-high", 2, on="s1", priorityClassName="high")
    await world.budget("b", 3, all="yes")
    await world.node("d1", "on-demand")
    order: list[str] = []

    async def gone() -> bool:
        there = {meta.name(pod) for pod in await world.pods(on="s1") if not meta.is_deleting(pod)}
        order.extend(name for name in before if name not in there and name not in order)
        return not there

    before = [meta.name(pod) for pod in await world.pods(on="s1")]
    async with world.controlled():
        await world.notice("s1")
        await world.cluster.until(gone)
    # in between a budget may come free just when somebody less important asks
    assert [order[at].rpartition("-")[0] for at in (0, -1)] == ["z-high", "a-low"]


async def test_a_budget_that_says_no_gives_way_at_the_last_moment_unless_it_is_strict(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1", terminationGracePeriodSeconds=10)
    strict = {"rota.dev/spot-at-deadline": "strict"}
    await world.replicas("db", 1, on="s1", annotations=strict, terminationGracePeriodSeconds=10)
    await world.budget("b", 2, app="web")
    await world.budget("c", 1, app="db")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=60)
        await world.clock.advance(46)
        assert await world.ready("web") == 2
        assert await _asked(world, 429) > 3 * 5
        assert world.figure("pods_deleted_at_deadline_total") == 0
        await world.clock.advance(4)
        assert world.figure("pods_deleted_at_deadline_total") == 2
        await world.clock.advance(30)
        assert len(await world.pods("db", on="s1")) == 1
        said = await world.reasons()
    assert said["SpotEvictionRefused"] == 3
    assert said["SpotDeletedAtDeadline"] == 2


async def test_where_an_autoscaler_empties_a_machine_no_budget_gives_way(world: World) -> None:
    """Nobody knows when such a machine ends: it waits for budgets."""
    await world.node("d0", "on-demand")
    await world.replicas("web", 2, on="d0", terminationGracePeriodSeconds=10)
    await world.budget("b", 2, app="web")
    await world.node("d1", "on-demand")
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    async with world.controlled():
        await world.client.patch(NODES, "d0", {"spec": {"taints": [taint]}})
        await world.clock.advance(300)
        assert await world.ready("web") == 2
        assert await _asked(world, 429) > 2
        # somebody tells an end: then it is one
        await world.notice("d0", lead=60)
        await world.clock.advance(55)
    assert world.figure("pods_deleted_at_deadline_total") == 2


async def test_two_budgets_on_one_pod_are_reported_and_not_retried(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", terminationGracePeriodSeconds=10)
    await world.budget("b", 0, app="web")
    await world.budget("c", 0, all="yes")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=60)
        await world.clock.advance(45)
        assert await _asked(world, 500) == 1
        assert (await world.reasons())["SpotTwoBudgets"] == 1
        assert await world.ready("web") == 1
        await world.clock.advance(5)
        assert world.figure("pods_deleted_at_deadline_total") == 1


async def test_a_pod_of_two_budgets_leaves_when_one_of_them_is_taken_away(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", annotations={"rota.dev/spot-at-deadline": "strict"})
    await world.budget("b", 0, app="web")
    await world.budget("c", 0, all="yes")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(130)
        assert await _asked(world, 500) == 3
        assert (await world.reasons())["SpotTwoBudgets"] == 1
        await world.client.delete(BUDGETS, "c", namespace="default")
        await world.left("s1")
    assert world.figure("pods_evicted_total") == 1


async def test_a_budget_that_many_change_at_once_is_asked_again_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stock server gives up with a conflict about the budget then: nobody has gone."""
    await world.node("s1")
    await world.replicas("web", 1, on="s1")
    await world.node("d1", "on-demand")
    evict, asked = pods.evict, 0

    async def contended(client: Client, pod: str, **more: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise errors.Conflict(
                f'Operation cannot be fulfilled on poddisruptionbudgets "b": {errors.OBJECT_MODIFIED}'
            )
        await evict(client, pod, **more)

    monkeypatch.setattr(pods, "evict", contended)
    began = world.clock.now()
    async with world.controlled():
        await world.notice("s1", lead=120)
        await world.cluster.until(lambda: _is_told(world, 1))
        assert world.clock.now() < began + 5
        assert (await world.reasons())["SpotEvictionRefused"] == 1
    assert (await _asked(world, 409), await _asked(world, 201)) == (1, 1)


@pytest.mark.parametrize(
    "words",
    [
        "Precondition failed: UID in precondition: a, UID in object meta: b",
        "the UID in the precondition (a) does not match the UID in record (b). It might have been made again",
    ],
)
async def test_a_conflict_about_another_pod_of_that_name_is_no_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    async def replaced(*_: object, **__: object) -> NoReturn:
        raise errors.Conflict(words)

    monkeypatch.setattr(pods, "evict", replaced)
    await world.node("s1")
    await world.replicas("web", 1, on="s1")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=120)
        await world.clock.advance(8)
        assert await _asked(world, 409) == 1
        assert "SpotEvictionRefused" not in await world.reasons()


async def _is_told(world: World, count: int) -> bool:
    return world.figure("pods_evicted_total") == count


async def test_withdrawing_a_notice_stops_further_evictions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.node("s1")
    await world.replicas("web", 12, on="s1", cpu="100m")
    await world.node("d1", "on-demand")
    evict, asked = pods.evict, 0

    async def slow(client: Client, pod: str, **more: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await world.withdraw("s1")
        await world.clock.sleep(1.0)
        await evict(client, pod, **more)

    monkeypatch.setattr(pods, "evict", slow)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(30)
    # those that were asked for already
    assert 0 < asked <= 4


async def test_daemons_mirrors_and_the_finished_are_left_alone(world: World) -> None:
    await world.node("s1")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    kinds: dict[str, dict[str, object]] = {
        "daemon": {"ownerReferences": [owner]},
        "mirror": {"annotations": {"kubernetes.io/config.mirror": "x"}},
        "done": {},
    }
    for name, more in kinds.items():
        pod = manifests.pod(name, on="s1")
        pod["metadata"] |= {"namespace": "default", **more}
        await world.client.create(PODS, pod)
    await world.clock.advance(1)
    await world.client.patch(
        PODS, "done", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
    )
    async with world.controlled():
        await world.notice("s1", lead=10)
        await world.clock.advance(20)
    assert {meta.name(pod) for pod in await world.pods(on="s1")} == {"daemon", "mirror", "done"}
    assert [pod for pod in await world.pods(on="s1") if meta.is_deleting(pod)] == []
    assert await _asked(world, 201) == 0


async def test_a_contradictory_policy_is_reported_and_the_budget_holds(world: World) -> None:
    await world.node("s1")
    wrong = {"rota.dev/spot": "only", "rota.dev/spot-base": "2"}
    await world.replicas("web", 1, on="s1", annotations=wrong, terminationGracePeriodSeconds=0)
    await world.budget("b", 1, app="web")
    async with world.controlled():
        await world.notice("s1", lead=10)
        await world.clock.advance(30)
        assert (await world.reasons())["SpotPolicyUnusable"] == 1
    assert await world.ready("web") == 1


async def test_places_keep_to_the_policy_of_the_workload(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", annotations={"rota.dev/spot": "only"})
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=120)
        await world.clock.advance(20)
        assert await world.ready("web") == 1
        await world.node("s2")
        await world.left("s1")


async def test_a_notice_that_is_withdrawn_gives_the_node_back_after_a_while(world: World) -> None:
    await world.node("s1")
    await world.node("s2", **{EXCLUDED: "mine"})
    await world.replicas("web", 1, on="s1")
    await world.client.patch(NODES, "s2", {"spec": {"unschedulable": True}})
    async with world.controlled():
        await world.notice("s1", "s2", lead=300)
        await world.clock.advance(5)
        for name in ("s1", "s2"):
            await world.withdraw(name)
        await world.clock.advance(CALM_S - 5)
        assert await world.taints("s1") == [LEAVING]
        await world.clock.advance(10)
        assert LEAVING not in await world.taints("s1")
        assert EXCLUDED not in await world.labels("s1")
        assert LEAVING not in await world.taints("s2")
        assert (await world.labels("s2"))[EXCLUDED] == "mine"
        said = await world.reasons(about="s1")
        await world.clock.advance(400)
    assert (said["SpotNoticeWithdrawn"], said["SpotNodeStays"]) == (1, 1)
    assert world.figure("notices_withdrawn_total") == 2
    assert await world.ready("web") == 1
    assert LEAVING_FOR not in ((await world.client.get(NODES, "s1"))["metadata"].get("annotations") or {})


async def test_a_notice_that_comes_back_is_a_new_one(world: World) -> None:
    await world.node("s1")
    async with world.controlled():
        for _ in range(2):
            await world.notice("s1", lead=100)
            await world.clock.advance(5)
            await world.withdraw("s1")
            await world.clock.advance(5)
    assert world.figure("notices_total", provider="", kind="rota.dev/terminating") == 2


async def test_a_new_machine_under_the_name_of_an_old_one_is_left_alone(world: World) -> None:
    await world.node("s1")
    async with world.controlled():
        await world.notice("s1", lead=30)
        await world.clock.advance(5)
        await world.client.delete(NODES, "s1")
        await world.node("s1")
        await world.replicas("web", 2, on="s1")
        await world.clock.advance(90)
        assert await world.taints("s1") == []
        assert await world.ready("web") == 2
    assert await _asked(world, 201) == 0


async def test_a_restart_in_between_changes_nothing(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 3, on="s1", terminationGracePeriodSeconds=10)
    await world.budget("b", 2, app="web")
    world.machines.farewell_s = 8
    await world.node("d1", "on-demand")
    before = {meta.uid(pod) for pod in await world.pods("web")}
    await world.notice("s1", lead=120)
    for seconds in (0.0, 1.0, 3.0, 7.0, 20.0):
        async with world.controlled():
            await world.clock.advance(seconds)
    async with world.controlled():
        await world.left("s1")
        await world.clock.advance(5)
    assert await world.ready("web") == 3
    assert not before & {meta.uid(pod) for pod in await world.pods("web")}
    # one that is stopped in the middle of a request may not have counted it, but nobody was sent away twice
    assert await _asked(world, 201) <= 3
    assert await world.made("web") == 6
    assert world.figure("notices_total", provider="", kind="rota.dev/terminating") == 1


async def test_after_a_restart_the_places_of_successors_that_wait_are_not_given_away(world: World) -> None:
    for name in ("s1", "s2"):
        await world.node(name)
        await world.replicas(f"on-{name}", 1, on=name, cpu="4")
    await world.node("d1", "on-demand")
    world.machines.places = False
    async with world.controlled():
        await world.notice("s1", lead=600)
        await world.clock.advance(10)
        assert await _asked(world, 201) == 1
    async with world.controlled():
        await world.notice("s2", lead=600)
        await world.clock.advance(20)
        assert await _asked(world, 201) == 1
        await world.node("d2", "on-demand")
        await world.clock.advance(10)
        assert await _asked(world, 201) == 2


async def test_a_notice_without_a_time_counts_from_when_it_was_acted_on_also_after_a_restart(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", terminationGracePeriodSeconds=10)
    condition = {"type": "Terminating", "status": "True"}
    await world.client.patch(NODES, "s1", {"status": {"conditions": [condition]}}, subresource="status")
    async with world.controlled():
        await world.clock.advance(60)
    async with world.controlled():
        await world.clock.advance(44)
        assert await world.ready("web") == 1
        await world.clock.advance(6)
        assert await world.ready("web") == 0


async def test_a_lost_spot_node_is_counted_and_reported_a_drained_one_is_not(world: World) -> None:
    for name in ("s1", "s2", "s3"):
        await world.node(name)
    await world.node("d1", "on-demand")
    for name, node in (("one", "s1"), ("two", "s2")):
        await world.client.create(
            PODS, {**manifests.pod(name, on=node)} | {"metadata": {"name": name, "namespace": "default"}}
        )
    async with world.controlled():
        await world.client.delete(NODES, "s1")
        await world.client.delete(NODES, "s3")
        await world.client.delete(NODES, "d1")
        silent = {"type": "Ready", "status": "Unknown"}
        await world.client.patch(NODES, "s2", {"status": {"conditions": [silent]}}, subresource="status")
        await world.clock.advance(1)
        await world.client.patch(NODES, "s2", {"metadata": {"labels": {CAPACITY: "spot", "x": "y"}}})
        said = await world.reasons()
    assert said == {"SpotLostWithoutNotice": 2}
    assert world.figure("node_losses_unnoticed_total", how="vanished") == 1
    assert world.figure("node_losses_unnoticed_total", how="unreachable") == 1
    assert world.figure("pods_lost_ungraceful_total") == 1


async def test_a_dry_run_asks_and_changes_nothing(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1")
    await world.node("d1", "on-demand")
    async with world.controlled(dry_run=True):
        await world.notice("s1", lead=40)
        await world.clock.advance(60)
    assert LEAVING not in await world.taints("s1")
    assert await world.ready("web") == 2
    assert await world.reasons() == {}
    assert await _asked(world, 201) == 2


async def test_thirty_notices_at_once_are_all_heeded_and_no_place_is_given_twice(world: World) -> None:
    names = [f"s{number}" for number in range(30)]
    for name in names:
        await world.node(name)
    await world.replicas("web", 30, cpu="4")
    for number in range(24):
        await world.node(f"d{number}", "on-demand")

    async def asked(count: int) -> None:
        async def so() -> bool:
            return await _asked(world, 201) >= count

        await world.cluster.until(so)

    async with world.controlled():
        # successors are made, but nobody places them yet: only the controller knows what is taken
        world.machines.places = False
        await world.notice(*names[:12], lead=600)
        await asked(12)
        await world.notice(*names[12:], lead=600)
        await asked(24)
        await world.clock.advance(20)
        assert await _asked(world, 201) == 24
        assert world.figure("pods_without_place") == 6
        world.machines.places = True
        for number in range(6):
            await world.node(f"e{number}", "on-demand")
        await world.left(*names)
        await world.clock.advance(10)
    assert await _asked(world, 201) == 30
    assert world.figure("notices_total", provider="", kind="rota.dev/terminating") == 30
    assert await world.ready("web") == 30
