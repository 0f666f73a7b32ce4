"""The criterion of conflicts and the synchronisation of schedulers that share the pods, chosen while they run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import conflict_reasons, errors
from rota.client.pods import PODS
from rota.client.transports.transport import Call
from rota.client.verbs import PatchType
from rota.columns.pod_interner import PodInterner
from rota.scheduler.core import attempts
from rota.scheduler.core.events import BindingEnded, Event
from rota.scheduler.framework.status import Status
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import SHARD_MAPS, InstanceSettings
from rota.scheduler.sharding.node_knowledge import Change, Choices, Criterion, Synchronisation
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.schedulers import SchedulingCluster


class _Chance:
    def random(self) -> float:
        return 0.5


class _Race:
    """Two schedulers, each for a team of its own."""

    def __init__(self) -> None:
        self.schedulers: list[Scheduler] = []
        self.reasons: list[str] = []
        #: Whether the next bindings wait for each other.
        self.hold = False
        self._arrived = 0
        self._go_on = asyncio.Event()

    def listen(self, event: Event, _: float) -> None:
        if isinstance(event, BindingEnded) and not event.status.ok:
            self.reasons.append(attempts.conflict_reason(event.status))

    async def before(self, call: Call) -> None:
        if self.hold and call.path.endswith("/bindingbatches"):
            self._arrived += 1
            if self._arrived == 2:
                self._go_on.set()
            await self._go_on.wait()


@contextlib.asynccontextmanager
async def _sharing(cluster: SchedulingCluster, **choices: Any) -> AsyncIterator[_Race]:
    race = _Race()
    async with contextlib.AsyncExitStack() as stack:
        for seed, name in enumerate(("one", "two")):
            client, transport = cluster.meddling()
            transport.before = race.before
            selector = {"matchLabels": {"team": name}}
            settings = InstanceSettings(name=name, selector=selector, **choices)
            scheduler = await stack.enter_async_context(cluster.scheduling(seed=seed, shard=settings, client=client))
            scheduler.core.listeners.append(race.listen)
            race.schedulers.append(scheduler)

        async def settled() -> bool:
            return all(
                one.shard is not None and one.shard.active and len(one.shard.ownership.current.members) == 2
                for one in race.schedulers
            )

        await cluster.until(settled)
        yield race


async def _race(cluster: SchedulingCluster, race: _Race) -> list[str]:
    race.hold = True
    for name in ("one", "two"):
        await cluster.add_pod(name, labels={"team": name})
    await cluster.bound("one")
    await cluster.bound("two")
    return [await cluster.node_of("one"), await cluster.node_of("two")]


async def _add_good_and_bad_node(cluster: SchedulingCluster) -> None:
    await cluster.add_node("good", cpu="64", memory="64Gi", pods="100")
    await cluster.add_node("bad", cpu="2", memory="2Gi")


async def test_by_the_fine_criterion_both_pods_get_the_node_that_has_room_for_both(cluster: SchedulingCluster) -> None:
    await _add_good_and_bad_node(cluster)
    async with _sharing(cluster) as race:
        assert await _race(cluster, race) == ["good", "good"]
    assert race.reasons == []


async def test_by_the_coarse_criterion_the_second_takes_another_node(cluster: SchedulingCluster) -> None:
    await _add_good_and_bad_node(cluster)
    async with _sharing(cluster, criterion=Criterion.COARSE) as race:
        assert sorted(await _race(cluster, race)) == ["bad", "good"]
    assert race.reasons == [conflict_reasons.STALE]


async def test_a_scheduler_does_not_conflict_with_itself(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", cpu="64", memory="64Gi", pods="200")
    async with _sharing(cluster, criterion=Criterion.COARSE) as race:
        for number in range(100):
            await cluster.add_pod(f"p{number}", labels={"team": "one"})
        for number in range(100):
            await cluster.bound(f"p{number}", "n1")
    assert race.reasons == []


async def test_gangs_of_a_scheduler_do_not_conflict_with_each_other(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", cpu="64", memory="64Gi", pods="200")
    made = [await cluster.add_pod(name, schedulerName="nobody") for name in ("a", "b")]
    async with _sharing(cluster, criterion=Criterion.COARSE) as race:
        answers: list[Status] = []
        for pod in made:
            race.schedulers[0].bindings.submit_together([(PodInterner().pod(pod), "n1", answers.append)])
            await asyncio.sleep(0)  # its request begins before the next gang is there

        async def answered() -> bool:
            return len(answers) == 2

        await cluster.until(answered)
    assert [one.ok for one in answers] == [True, True]


def _knows(scheduler: Scheduler, uid: str) -> bool:
    return uid in scheduler.cache.cluster.pods


@pytest.mark.parametrize("mode", [Synchronisation.ROUND_ROBIN, Synchronisation.FRESHEST_FIRST])
async def test_what_others_bind_is_learned_part_by_part(cluster: SchedulingCluster, mode: Synchronisation) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}", pods="2")
    async with _sharing(cluster, synchronisation=mode) as race:
        one, two = race.schedulers
        made = [await cluster.add_pod(f"p{number}", labels={"team": "two"}) for number in range(8)]
        uids = [pod["metadata"]["uid"] for pod in made]
        knew = []
        for _ in range(300):
            await cluster.clock.advance(0.01)
            knew.append(sum(_knows(one, uid) for uid in uids))
            if knew[-1] == 8:
                break
        assert all(_knows(two, uid) for uid in uids)
        # It knew nothing at first, then the pods of one half of the nodes, then all.
        assert set(knew) == {0, 4, 8}


async def test_a_round_that_fails_does_not_end_the_learning(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add_node("n1")
    async with _sharing(cluster, synchronisation=Synchronisation.ROUND_ROBIN) as race:
        sharded = race.schedulers[0]._sharded
        assert sharded is not None
        working, failures = sharded.knowledge.next_round, [RuntimeError("a defect")]

        def next_round(number: int) -> tuple[list[Change], int]:
            if failures:
                raise failures.pop()
            return working(number)

        monkeypatch.setattr(sharded.knowledge, "next_round", next_round)
        await cluster.clock.advance(1.0)
        assert not failures
        made = await cluster.add_pod("p", labels={"team": "two"})

        async def learned() -> bool:
            return _knows(race.schedulers[0], made["metadata"]["uid"])

        await cluster.until(learned)


async def test_without_partial_synchronisation_it_is_learned_at_once(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with _sharing(cluster) as race:
        made = await cluster.add_pod("p", labels={"team": "two"})
        await cluster.clock.advance(0.1)
        assert _knows(race.schedulers[0], made["metadata"]["uid"])


async def test_the_operator_chooses_for_all_schedulers_of_a_map_while_they_run(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with _sharing(cluster) as race:
        spec = {"spec": {"conflictCriterion": "Coarse", "synchronisation": "RoundRobin"}}
        await cluster.client.patch(SHARD_MAPS, "default", spec, type=PatchType.MERGE)
        wanted = Choices(Criterion.COARSE, Synchronisation.ROUND_ROBIN)

        async def chosen() -> bool:
            return all(one.shard is not None and one.shard.choices == wanted for one in race.schedulers)

        await cluster.until(chosen)
        with pytest.raises(errors.Invalid, match="conflictCriterion"):
            await cluster.client.patch(
                SHARD_MAPS, "default", {"spec": {"conflictCriterion": "Rough"}}, type=PatchType.MERGE
            )


@pytest.mark.parametrize("criterion", list(Criterion))
@pytest.mark.parametrize("synchronisation", list(Synchronisation))
async def test_a_cluster_is_filled_and_not_oversold_whatever_is_chosen(
    cluster: SchedulingCluster, criterion: Criterion, synchronisation: Synchronisation
) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}", cpu="1", pods="50")
    observer = AllocationObserver()
    async with contextlib.AsyncExitStack() as stack:
        following = observer.following(cluster.client, clock=cluster.clock, rng=_Chance())
        entering = asyncio.ensure_future(stack.enter_async_context(following))

        async def entered() -> bool:
            return entering.done()

        await cluster.until(entered)
        await stack.enter_async_context(_sharing(cluster, criterion=criterion, synchronisation=synchronisation))
        for number in range(44):
            await cluster.add_pod(f"p{number}", labels={"team": ("one", "two")[number % 2]})

        async def full() -> bool:
            found = (await cluster.client.list(PODS)).items
            return sum(bool(one["spec"].get("nodeName")) for one in found) == 40 == observer.bindings

        await cluster.until(full)
    assert observer.violations == []


async def test_a_version_that_is_none_is_refused(cluster: SchedulingCluster) -> None:
    batch = {"apiVersion": "rota.dev/v1alpha1", "kind": "BindingBatch", "bindings": [], "seen": {"n1": "new"}}
    with pytest.raises(errors.Invalid, match="must be a resourceVersion"):
        await cluster.client.create(("rota.dev", "v1alpha1", "bindingbatches"), batch)
