"""Rows about preemption inside a queue, and about shares by dominant resource."""

from typing import Final

from tests.scheduler.batch_scenarios.stage import Stage


async def preempt_1(on: Stage) -> None:
    """There is room for both: nothing is evicted."""
    half = on.size // 2
    await on.job("low", half, least=1, priority="low", preemptable=True)
    await on.has(low=half)
    await on.job("high", half, priority="high")
    await on.settles(low=half, high=half)
    assert not await on.evictions()


async def preempt_2(on: Stage) -> None:
    """A job of high priority takes what it needs from one of low priority."""
    half = on.size // 2
    await on.job("low", on.size, least=1, priority="low", preemptable=True)
    await on.has(low=on.size)
    await on.job("high", half, priority="high")
    await on.settles(low=half, high=half)


async def preempt_3(on: Stage) -> None:
    """A job that its queue does not let in evicts nothing."""
    await on.job("low", on.size, least=1, priority="low", preemptable=True)
    await on.has(low=on.size)
    await on.job("high", on.size, priority="high")
    await on.waits("high", "Pending", low=on.size)
    assert not await on.evictions()


async def preempt_4(on: Stage) -> None:
    """Only pods of the same queue are evicted."""
    half = on.size // 2
    await on.queue("q1")
    await on.queue("q2")
    await on.job("low", half, least=1, priority="low", queue="q1", preemptable=True)
    await on.job("other", half, least=1, priority="low", queue="q2", preemptable=True)
    await on.has(low=half, other=half)
    await on.job("high", half, priority="high", queue="q1")
    await on.settles(low=0, high=half, other=half)


async def preempt_5(on: Stage) -> None:
    """Free room and all victims together are not enough: nothing is evicted."""
    await on.job("fixed", on.size // 2, priority="high")
    await on.job("low", on.size // 2, least=1, priority="low", preemptable=True)
    await on.has(fixed=on.size // 2, low=on.size // 2)
    await on.job("high", on.size // 2 + 1, priority="high")
    await on.waits("high", low=on.size // 2, fixed=on.size // 2)
    assert not await on.evictions()


async def preempt_6(on: Stage) -> None:
    """Jobs of three priorities push each other out."""
    half = on.size // 2
    await on.job("low", on.size, least=1, priority="low", preemptable=True)
    await on.has(low=on.size)
    await on.job("mid", half, priority="mid", preemptable=True)
    await on.has(low=half, mid=half)
    await on.job("high", on.size, priority="high")
    await on.settles(low=0, mid=0, high=on.size)


async def preempt_7(on: Stage) -> None:
    """A gated job of high priority preempts only after its gates are removed."""
    half = on.size // 2
    await on.job("low", on.size, least=1, priority="low", preemptable=True)
    await on.has(low=on.size)
    await on.job("high", half, priority="high", gated=True)
    await on.until(lambda: len(on.pods_of("high")) == half)
    await on.settles(low=on.size, high=0)
    await on.ungate("high")
    await on.settles(low=half, high=half)


#: Not on a node with a blocker.
_APART: Final = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"role": "blocker"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


async def preempt_8(on: Stage) -> None:
    """A job that may not run beside certain pods evicts as many of those as it must, and no others."""
    await on.job("blocker", 2, least=1, priority="low", preemptable=True, labels={"role": "blocker"}, affinity=_APART)
    await on.has(blocker=2)
    await on.job("bystander", 1, priority="low", preemptable=True)
    await on.has(bystander=1)
    await on.job("high", 1, priority="high", affinity=_APART)
    await on.settles(high=1, bystander=1, blocker=1)


async def drf(on: Stage) -> None:
    """A gang with small pods takes its share from one that holds everything."""
    await on.job("large", on.size // 2, least=1, each=2, preemptable=True)
    await on.has(large=on.size // 2)
    await on.job("small", on.size // 2, each=1)
    await on.settles(large=on.size // 4, small=on.size // 2)
