"""Rows about allocation, gates, guarantees, gangs, placement and fair shares."""

from tests.scheduler.batch_scenarios.stage import Stage


async def allocate_1(on: Stage) -> None:
    """A small job and a larger one, with room for both."""
    await on.job("small", 1)
    await on.has(small=1)
    await on.job("large", on.size - 1)
    await on.settles(small=1, large=on.size - 1)


async def allocate_2(on: Stage) -> None:
    """Two jobs fill the cluster; a third one that is larger than the rest waits."""
    await on.job("mid", on.size // 2, priority="mid")
    await on.job("low", on.size // 2 - 1, priority="low")
    await on.has(mid=on.size // 2, low=on.size // 2 - 1)
    await on.job("more", 2, priority="low")
    await on.waits("more", mid=on.size // 2, low=on.size // 2 - 1)


async def allocate_3(on: Stage) -> None:
    """A job fills the cluster; the queue does not let the next one in, so it has no pods."""
    await on.job("first", on.size)
    await on.has(first=on.size)
    await on.job("second", on.size)
    await on.waits("second", "Pending", first=on.size)
    assert not on.pods_of("second")


async def allocate_4(on: Stage) -> None:
    """A job whose affinity no node satisfies waits, beside one that runs."""
    nowhere = {"matchExpressions": [{"key": "scenarios.test/none", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [nowhere]}}}
    await on.job("plain", 1)
    await on.job("picky", 1, affinity=affinity)
    await on.has(plain=1)
    await on.waits("picky", plain=1)


async def allocate_5(on: Stage) -> None:
    """Of two queues of equal weight one has its share; its next job waits, although the other has not."""
    half = on.size // 2
    await on.queue("q1", weight=1)
    await on.queue("q2", weight=1)
    await on.job("one", half, queue="q1")
    await on.job("two", half - 1, queue="q2")
    await on.has(one=half, two=half - 1)
    # The second queue asks for the rest of its half, for a node that is not there: it could lend that.
    await on.job("rest", 1, queue="q2", nodeSelector={"scenarios.test/none": "here"})
    await on.until(lambda: len(on.pods_of("rest")) == 1)
    await on.job("more", 1, queue="q1")
    await on.waits("more", "Inqueue", one=half, two=half - 1)


async def gates(on: Stage) -> None:
    """A job and a Deployment with scheduling gates of another party wait until these are removed."""
    await on.job("gated", 2, gated=True)
    await on.replicas("Deployment", "web", 1, scheduler="volcano", gated=True)
    await on.until(lambda: len(on.pods_of("gated")) == 2 and len(on.pods_of("web")) == 1)
    await on.settles(gated=0, web=0)
    await on.ungate("gated")
    await on.ungate("web")
    await on.settles(gated=2, web=1)


async def gated_enqueue(on: Stage) -> None:
    """Gated pods that would fill the cluster keep two other jobs neither out of the queue nor from the nodes."""
    half = on.size // 2
    await on.job("gated", on.size, gated=True)
    await on.until(lambda: len(on.pods_of("gated")) == on.size)
    await on.job("one", half)
    await on.job("two", half)
    await on.settles(gated=0, one=half, two=half)


async def guarantee(on: Stage) -> None:
    """What one queue is guaranteed, all or a part, a job of another queue does not get."""
    await on.queue("kept", guarantee=on.size - 1)
    await on.queue("other")
    await on.job("large", 2, queue="other")
    await on.waits("large", "Pending")
    await on.job("small", 1, queue="other")
    await on.settles(small=1, large=0)


async def guarantee_all(on: Stage) -> None:
    """One queue is guaranteed everything: a job of another queue waits, and one of its own runs."""
    await on.queue("kept", guarantee=on.size)
    await on.queue("other")
    await on.job("outside", 1, queue="other")
    await on.waits("outside", "Pending")
    await on.job("inside", on.size, queue="kept")
    await on.settles(inside=on.size, outside=0)


async def gang(on: Stage) -> None:
    """A ReplicaSet holds a part of the cluster; a gang of all of it waits, and starts when the ReplicaSet is gone."""
    await on.replicas("ReplicaSet", "held", 1, scheduler="default-scheduler")
    await on.has(held=1)
    await on.job("gang", on.size)
    await on.waits("gang", held=1)
    await on.delete("held", ("apps", "v1", "replicasets"))
    await on.settles(gang=on.size)


async def gang_full(on: Stage) -> None:
    """Of two gangs of the cluster's size the first keeps it; the second waits as a whole."""
    await on.job("first", on.size)
    await on.has(first=on.size)
    await on.job("second", on.size)
    await on.waits("second", first=on.size)


async def statement(on: Stage) -> None:
    """A second gang of the same priority is refused without a single eviction."""
    await on.job("first", on.size, priority="mid", preemptable=True)
    await on.has(first=on.size)
    await on.job("second", on.size, priority="mid")
    await on.waits("second", first=on.size)
    assert not await on.evictions()


async def binpack(on: Stage) -> None:
    """The pods of a job go where the first job runs, as long as they fit there."""
    await on.job("base", 1, nodeSelector={"kubernetes.io/hostname": on.nodes[1]})
    await on.has(base=1)
    await on.job("more", 3)
    await on.settles(base=1, more=3)
    assert on.nodes_of("more") == {on.nodes[1]: 3}


async def mixed(on: Stage) -> None:
    """A job with pods that ask for nothing runs beside a full cluster."""
    await on.job("full", on.size)
    await on.has(full=on.size)
    await on.job("idle", 2, each=0)
    await on.settles(full=on.size, idle=2)


async def fair_share(on: Stage) -> None:
    """The cluster becomes free while two queues hold many gangs of two: each queue gets half."""
    await on.queue("q1", weight=1)
    await on.queue("q2", weight=1)
    await on.job("all", on.size)
    await on.has(all=on.size)
    names = [f"{queue}-{number}" for number in range(on.size // 2) for queue in ("q1", "q2")]
    for name in names:
        await on.job(name, 2, queue=name[:2])
    await on.until(lambda: all(on.refusal(name) for name in names[2:]))
    await on.delete("all")

    def share(queue: str) -> int:
        return sum(len(on.running(name)) for name in names if name.startswith(queue))

    await on.until(lambda: share("q1") + share("q2") == on.size)
    assert abs(share("q1") - on.size // 2) <= 1


async def enqueue_off(on: Stage) -> None:
    """Without the action enqueue, jobs are let in all the same."""
    await on.job("one", 1)
    await on.job("two", on.size - 1)
    await on.settles(one=1, two=on.size - 1)
