"""Rows about evictions that keep gangs whole: gangpreempt (GP) and gangreclaim (GR)."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.scheduler.batch_scenarios.stage import Stage


def _fillers(on: Stage, **more: Any) -> Callable[..., Awaitable[None]]:
    """Creates jobs that can be evicted."""

    async def fill(name: str, pods: int, least: int, **other: Any) -> None:
        await on.job(name, pods, least=least, priority="low", preemptable=True, **more, **other)
        await on.has(**{name: pods})

    return fill


async def gp_1(on: Stage) -> None:
    """A job above its minimum gives pods away, and keeps its minimum."""
    await _fillers(on)("victim", 4, 2)
    await on.job("urgent", 2, priority="high")
    await on.settles(victim=2, urgent=2)


async def gp_2(on: Stage) -> None:
    """Two jobs give one pod each before either is broken."""
    fill = _fillers(on)
    await fill("one", 2, 1)
    await fill("two", 2, 1)
    await on.job("urgent", 2, priority="high")
    await on.settles(one=1, two=1, urgent=2)


async def gp_3(on: Stage) -> None:
    """Of two gangs at their minimum one goes completely, the other stays whole."""
    fill = _fillers(on)
    await fill("one", 2, 2)
    await fill("two", 2, 2)
    await on.job("urgent", 2, priority="high")
    await on.until(lambda: len(on.running("urgent")) == 2)
    await on.settles(urgent=2)
    assert sorted((len(on.running("one")), len(on.running("two")))) == [0, 2]


async def gp_4(on: Stage) -> None:
    """A gang that needs everything breaks both."""
    fill = _fillers(on)
    await fill("one", 2, 2)
    await fill("two", 2, 2)
    await on.job("urgent", 4, priority="high")
    await on.settles(one=0, two=0, urgent=4)


async def gp_5(on: Stage) -> None:
    """One gang fills the cluster; it gives way to one of high priority."""
    await _fillers(on)("one", 4, 4)
    await on.job("urgent", 2, priority="high")
    await on.settles(one=0, urgent=2)


async def gp_6(on: Stage) -> None:
    """Pods of another queue are not preempted."""
    await on.queue("q1", reclaimable=False)
    await _fillers(on, queue="q1")("other", 4, 2)
    await on.job("urgent", 2, priority="high")
    await on.waits("urgent", other=4)
    assert not await on.evictions()


async def gp_7(on: Stage) -> None:
    """Pods of the same priority are not preempted."""
    await _fillers(on)("equal", 4, 2)
    await on.job("second", 2, priority="low")
    await on.waits("second", equal=4)
    assert not await on.evictions()


async def gp_8(on: Stage) -> None:
    """Too few pods are of lower priority: nothing is evicted."""
    await _fillers(on)("low", 2, 2)
    await on.job("high", 2, priority="high", preemptable=True)
    await on.has(high=2)
    await on.job("urgent", 3, priority="high")
    await on.waits("urgent", low=2, high=2)
    assert not await on.evictions()


async def gp_r1(on: Stage) -> None:
    """A role at its minimum keeps its pods; the other one gives its surplus."""
    tasks = [
        on.task("ps", 1, least=1, preemptable=True, priority="low"),
        on.task("worker", 3, least=1, preemptable=True, priority="low"),
    ]
    await on.job("training", least=2, tasks=tasks, priority="low", preemptable=True)
    await on.has(training=4)
    await on.job("urgent", 2, priority="high")
    await on.settles(training=2, urgent=2)
    assert (len(on.running("training", "ps")), len(on.running("training", "worker"))) == (1, 1)


async def gp_s1(on: Stage) -> None:
    """A job needs one of its two sub-groups: one of them goes as a whole."""
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    tasks = [on.task("w", 4, least=2, preemptable=True, priority="low", partitions=partitions)]
    await on.job("parts", least=2, tasks=tasks, priority="low", preemptable=True)
    await on.has(parts=4)
    await on.job("urgent", 2, priority="high")
    await on.settles(parts=2, urgent=2)
    kept = {one["metadata"]["labels"]["volcano.sh/partition-id"] for one in on.running("parts")}
    assert len(kept) == 1, kept


def _tier(highest: int) -> dict[str, Any]:
    return {"networkTopology": {"mode": "hard", "highestTierAllowed": highest}}


async def _one_gang_per_domain(on: Stage, fill: Callable[..., Awaitable[None]]) -> None:
    for name, nodes in zip(("first", "second"), on.domains, strict=True):
        inside = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": sorted(nodes)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [inside]}}
        await fill(name, 2, 2, affinity={"nodeAffinity": required})


async def gp_t1(on: Stage) -> None:
    """A gang that must stay in one domain evicts in one domain."""
    await _fillers(on)("victim", on.size, 1)
    await on.job("urgent", 2, priority="high", spec=_tier(1))
    await on.settles(urgent=2, victim=on.size - 2)
    assert set(on.nodes_of("urgent")) in on.domains


async def gp_t2(on: Stage) -> None:
    """Three pods of five do not fit a domain of twice eight, whatever is evicted."""
    await _fillers(on)("victim", 4, 1, each=8)
    await on.job("urgent", 3, each=5, priority="high", spec=_tier(1))
    await on.waits("urgent", victim=4)
    assert not await on.evictions()


async def gp_t3(on: Stage) -> None:
    """The same gang fits a wider domain, if it allows for that."""
    await _fillers(on)("victim", 4, 1, each=8)
    await on.job("urgent", 3, each=5, priority="high", spec=_tier(2))
    await on.settles(urgent=3, victim=1)
    assert len(on.nodes_of("urgent")) == 3


async def gp_t4(on: Stage) -> None:
    """A wider domain is allowed; a narrow one that fits is chosen, and only the gang in it goes."""
    await _one_gang_per_domain(on, _fillers(on))
    await on.job("urgent", 2, priority="high", spec=_tier(2))
    await on.settles(urgent=2)
    assert {len(on.running("first")), len(on.running("second"))} == {0, 2}
    assert set(on.nodes_of("urgent")) in on.domains


async def _two_queues(on: Stage, **first: Any) -> Callable[..., Awaitable[None]]:
    """A queue that holds more than it deserves, and one that has nothing yet."""
    await on.queue("q1", **{"deserved": on.size // 2, **first})
    await on.queue("q2", deserved=on.size // 2)
    return _fillers(on, queue="q1")


async def gr_1(on: Stage) -> None:
    """Reclaim from a job above its minimum, which keeps it."""
    fill = await _two_queues(on)
    await fill("victim", 4, 2)
    await on.job("new", 2, queue="q2")
    await on.settles(victim=2, new=2)


async def gr_2(on: Stage) -> None:
    """Reclaim one pod from each of two jobs before either is broken."""
    fill = await _two_queues(on)
    await fill("one", 2, 1)
    await fill("two", 2, 1)
    await on.job("new", 2, queue="q2")
    await on.settles(one=1, two=1, new=2)


async def gr_3(on: Stage) -> None:
    """Of two gangs at their minimum one is reclaimed completely."""
    fill = await _two_queues(on)
    await fill("one", 2, 2)
    await fill("two", 2, 2)
    await on.job("new", 2, queue="q2")
    await on.settles(new=2)
    assert sorted((len(on.running("one")), len(on.running("two")))) == [0, 2]


async def gr_4(on: Stage) -> None:
    """Nothing is reclaimed from a queue within what it deserves."""
    fill = await _two_queues(on, deserved=on.size)
    await fill("victim", on.size, 1)
    await on.job("new", 2, queue="q2")
    await on.waits("new", victim=on.size)
    assert not await on.evictions()


async def gr_5(on: Stage) -> None:
    """Nothing is reclaimed that a queue is guaranteed."""
    fill = await _two_queues(on, guarantee=on.size - 1, deserved=on.size - 1)
    await fill("victim", on.size, 1)
    await on.job("new", 2, queue="q2")
    await on.waits("new", victim=on.size)
    assert not await on.evictions()


async def gr_6(on: Stage) -> None:
    """Nothing is reclaimed from a queue that is not reclaimable."""
    fill = await _two_queues(on, reclaimable=False)
    await fill("victim", 4, 2)
    await on.job("new", 2, queue="q2")
    await on.waits("new", victim=4)
    assert not await on.evictions()


async def gr_7(on: Stage) -> None:
    """A queue that has more than it deserves reclaims nothing."""
    half = on.size // 2
    fill = await _two_queues(on)
    await on.queue("q3", deserved=1)
    await fill("victim", half + 1, 1)
    await on.job("have", half - 1, least=1, queue="q3")
    await on.has(victim=half + 1, have=half - 1)
    await on.job("more", 1, queue="q3")
    await on.waits("more", victim=half + 1, have=half - 1)
    assert not await on.evictions()


async def gr_r1(on: Stage) -> None:
    """Reclaim keeps a role at its minimum."""
    await _two_queues(on)
    tasks = [
        on.task("ps", 1, least=1, preemptable=True, priority="low"),
        on.task("worker", 3, least=1, preemptable=True, priority="low"),
    ]
    await on.job("training", least=2, queue="q1", tasks=tasks, priority="low", preemptable=True)
    await on.has(training=4)
    await on.job("new", 2, queue="q2")
    await on.settles(training=2, new=2)
    assert (len(on.running("training", "ps")), len(on.running("training", "worker"))) == (1, 1)


async def gr_s1(on: Stage) -> None:
    """Reclaim takes one sub-group as a whole."""
    await _two_queues(on)
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    tasks = [on.task("w", 4, least=2, preemptable=True, priority="low", partitions=partitions)]
    await on.job("parts", least=2, queue="q1", tasks=tasks, priority="low", preemptable=True)
    await on.has(parts=4)
    await on.job("new", 2, queue="q2")
    await on.settles(parts=2, new=2)
    assert len({one["metadata"]["labels"]["volcano.sh/partition-id"] for one in on.running("parts")}) == 1


async def gr_t1(on: Stage) -> None:
    """Reclaim for a gang that must stay in one domain."""
    fill = await _two_queues(on)
    await fill("victim", on.size, 1)
    await on.job("new", 2, queue="q2", spec=_tier(1))
    await on.settles(new=2, victim=on.size - 2)
    assert set(on.nodes_of("new")) in on.domains


async def gr_t2(on: Stage) -> None:
    """A gang that fits no domain reclaims nothing."""
    fill = await _two_queues(on)
    await fill("victim", 4, 1, each=8)
    await on.job("new", 3, each=5, queue="q2", spec=_tier(1))
    await on.waits("new", victim=4)
    assert not await on.evictions()


async def gr_t3(on: Stage) -> None:
    """The same gang reclaims in a wider domain, if it allows for that."""
    fill = await _two_queues(on, deserved=on.size // 4)
    await fill("victim", 4, 1, each=8)
    await on.job("new", 3, each=5, queue="q2", spec=_tier(2))
    await on.settles(new=3, victim=1)


async def gr_t4(on: Stage) -> None:
    """A wider domain is allowed; a narrow one that fits is chosen, and only the gang in it goes."""
    await _one_gang_per_domain(on, await _two_queues(on))
    await on.job("new", 2, queue="q2", spec=_tier(2))
    await on.settles(new=2)
    assert {len(on.running("first")), len(on.running("second"))} == {0, 2}
    assert set(on.nodes_of("new")) in on.domains
