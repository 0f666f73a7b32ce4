"""Rows about resources that a queue takes back from others."""

from tests.scheduler.batch_scenarios.stage import Stage

from rota.api import errors


async def reclaim_1(on: Stage) -> None:
    """Jobs of two queues fit: nothing is evicted."""
    half = on.size // 2
    await on.queue("q1", deserved=on.size // 2)
    await on.job("one", half, least=1, preemptable=True)
    await on.job("two", half, least=1, queue="q1", preemptable=True)
    await on.settles(one=half, two=half)
    assert not await on.evictions()


async def reclaim_2(on: Stage) -> None:
    """A new queue gets its share from one that has more than its own."""
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", on.size, least=1, queue="q2", preemptable=True)
    await on.settles(one=on.size // 2, two=on.size // 2)


async def reclaim_3(on: Stage) -> None:
    """The job of a new queue is not let in: nothing is evicted."""
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", capability=1, deserved=1)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", 2, queue="q2")
    await on.waits("two", "Pending", one=on.size)
    assert not await on.evictions()


async def reclaim_4(on: Stage) -> None:
    """A job for a queue that does not exist is refused."""
    try:
        await on.job("lost", 1, queue="none")
    except errors.ApiError as refused:
        assert "queue" in str(refused)  # noqa: PT017 - rows run without pytest's help
    else:
        raise AssertionError("a job without a queue was accepted")


async def reclaim_5(on: Stage) -> None:
    """A job whose pods may not preempt takes nothing from another queue."""
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", 1, queue="q2", priority="meek")
    await on.waits("two", one=on.size)
    assert not await on.evictions()


async def reclaim_6(on: Stage) -> None:
    """A queue that has more than its share takes nothing for its next job, which is only let in."""
    half = on.size // 2
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", half, queue="q1", preemptable=True)
    await on.job("two", half, queue="q2", preemptable=True)
    await on.has(one=half, two=half)
    await on.job("waiting", half, least=1, queue="q1")
    await on.job("more", 1, queue="q2")
    await on.until(lambda: on.phase("more") == "Inqueue")
    await on.waits("more", "Inqueue", one=half, two=half)
    assert not await on.evictions()


async def reclaim_7(on: Stage) -> None:
    """No node satisfies the job: nothing is evicted."""
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", 1, queue="q2", nodeSelector={"scenarios.test/none": "here"})
    await on.waits("two", one=on.size)
    assert not await on.evictions()


async def reclaim_8(on: Stage) -> None:
    """A pod larger than its queue's share is not worth an eviction."""
    await on.queue("q1", deserved=on.size // 2)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", 1, each=on.size // 2 + 1, queue="q2")
    await on.until(lambda: bool(on.phase("two")))
    await on.settles(one=on.size, two=0)
    assert not await on.evictions()


async def reclaim_9(on: Stage) -> None:
    """A queue that is not reclaimable keeps what it has."""
    await on.queue("q1", deserved=on.size // 2, reclaimable=False)
    await on.queue("q2", deserved=on.size // 2)
    await on.job("one", on.size, least=1, queue="q1", preemptable=True)
    await on.has(one=on.size)
    await on.job("two", 1, queue="q2")
    await on.waits("two", one=on.size)
    assert not await on.evictions()


async def reclaim_10(on: Stage) -> None:
    """Several queues have more than their shares; each new one gets its own."""
    for name in ("q1", "q2", "q3"):
        await on.queue(name)
    await on.job("one", on.size // 2, least=1, queue="q1", preemptable=True)
    await on.job("two", on.size // 2, least=1, queue="q2", preemptable=True)
    await on.has(one=on.size // 2, two=on.size // 2)
    third = on.size // 3
    await on.job("three", third, least=1, queue="q3", preemptable=True)
    await on.settles(one=third, two=third, three=third)


async def reclaim_11(on: Stage) -> None:
    """Queues with amounts that they deserve: what is above them goes back."""
    for name in ("q1", "q2", "q3"):
        await on.queue(name, deserved=on.size // 3)
    await on.job("one", on.size // 2, least=1, queue="q1", preemptable=True)
    await on.job("two", on.size // 2, least=1, queue="q2", preemptable=True)
    await on.has(one=on.size // 2, two=on.size // 2)
    third = on.size // 3
    await on.job("three", third, least=1, queue="q3", preemptable=True)
    await on.settles(one=third, two=third, three=third)


async def reclaim_12(on: Stage) -> None:
    """Nested queues: the nearest relative pays, the distant one keeps what it borrowed."""
    quarter = on.size // 4
    await on.queue("near", deserved=2 * quarter)
    await on.queue("far", deserved=2 * quarter)
    await on.queue("a", parent="near", deserved=quarter)
    await on.queue("b", parent="near", deserved=quarter)
    await on.queue("c", parent="far", deserved=quarter)
    await on.job("brother", 2 * quarter, least=1, queue="a", preemptable=True)
    await on.job("cousin", 2 * quarter, least=1, queue="c", preemptable=True)
    await on.has(brother=2 * quarter, cousin=2 * quarter)
    await on.job("new", quarter, least=1, queue="b")
    await on.settles(brother=quarter, new=quarter, cousin=2 * quarter)


async def reclaim_last(on: Stage) -> None:
    """A job of high priority in a new queue gets half; a gang of twice the cluster's size waits."""
    half = on.size // 2
    await on.queue("q1")
    await on.queue("q2")
    await on.job("low", on.size, least=1, queue="q1", priority="low", preemptable=True)
    await on.has(low=on.size)
    await on.job("high", on.size, least=1, queue="q2", priority="high", preemptable=True)
    await on.settles(low=half, high=half)
    await on.job("vast", 2 * on.size, queue="q2")
    await on.waits("vast", low=half, high=half)
