"""Laws of queues: guarantees, deserved shares, strict order, and evictions that serve a purpose."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.scheduler.batch.situations import QUEUE
from tests.scheduler.batch.test_laws import CAPABILITY, CONFIGURATION, GANGS, GUARANTEE, QUEUES, Live, play
from tests.scheduler.batch.timelines import RUNS, Run, Timeline, fresh

from rota.scheduler.batch import passes
from rota.scheduler.batch.states import Commit

#: A random search, without the slow search for an explanation.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
FIFO = {**QUEUE, "spec": {"weight": 1, "dequeueStrategy": "fifo"}}
PLAIN = """
actions: "enqueue, allocate"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
"""
CORES = 4
DESERVED = 4


def used(live: Live, queue: str) -> int:
    return round(sum(job.allocated.cpu for job in live.mirror.jobs.values() if job.queue == queue) / 1000)


class Watched(Live):
    """Checks every eviction: the queue that loses keeps its guarantee, and the place is used in the next pass."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self.expected: set[str] = set()

    def run(self) -> int:
        self.mirror.apply(self.mirror.take())
        commits: list[Commit] = []
        result = passes.run(self.mirror, CONFIGURATION, now=0.0, transition="1", on_commit=commits.append)
        bound = {task.job for commit in commits for task, _ in commit.bindings}
        assert self.expected <= bound, "pods were evicted for a group that then found no place"
        evicted = [task for commit in commits for task, _ in commit.evictions]
        self.expected = self._awaited(result) if evicted else set()
        for task in evicted:
            self.evicted.append(task.uid)
            where = self.mirror.jobs[task.job].queue
            self.delete(task.uid)
            assert used(self, where) >= GUARANTEE, "a queue lost what it is guaranteed"
        for commit in commits:
            for task, node in commit.bindings:
                assert self.cache.assume(task.info, node)
                self.placed(task.uid, node, "Running")
        self.mirror.apply(self.mirror.take())
        return sum(len(commit.bindings) + len(commit.evictions) for commit in commits)

    def _awaited(self, result: passes.PassResult) -> set[str]:
        """The groups that pods were evicted for.

        As in Volcano, pods of a group that could not start are nominated, too: by the attempt that was undone.
        """
        nominated = {f"default/{note.pod.name.partition('-')[0]}" for note in result.notes if note.nominated}
        return nominated & (self.mirror.state(0.0).made_room or {}).keys()


@pytest.mark.slow
@given(st.integers(1, 3), st.lists(st.one_of(GANGS, st.tuples(st.just("pass"))), min_size=1, max_size=10))
@example(
    nodes=2,
    events=[
        ("gang", "b", 4, 1, False),
        ("pass",),
        ("gang", "a", 1, 1, False),
        ("gang", "a", 1, 1, False),
        ("gang", "a", 2, 1, True),
        ("gang", "b", 1, 2, False),
        ("gang", "b", 1, 1, False),
    ],
)
@settings(deadline=None, max_examples=50, phases=PHASES)
def test_evictions_keep_guarantees_and_make_room_for_a_group_that_starts(nodes: int, events: list[Any]) -> None:
    live = Watched(nodes)
    play(live, events)
    live.settle()
    total = nodes * CORES
    for name in QUEUES:
        # What the other queue is guaranteed is kept free for it, unless it is the queue's own guarantee.
        assert used(live, name) <= max(min(CAPABILITY, total - GUARANTEE), GUARANTEE)


def test_the_law_on_evictions_sees_evictions() -> None:
    live = Watched(2)
    for _ in range(3):
        live.add_gang("a", 2, 1, preemptable=True)
    live.run()
    live.add_gang("b", 4, 4, preemptable=True)
    live.run()
    assert live.evicted
    assert live.expected == {"default/g3"}
    live.settle()


def test_room_that_was_made_for_a_group_goes_to_it_and_to_no_group_of_the_queue_that_lost_it() -> None:
    live = Watched(2)
    live.add_gang("a", 5, 5, preemptable=False)
    live.add_gang("b", 4, 1, preemptable=True)
    live.add_gang("a", 1, 1, preemptable=False)
    live.settle()
    assert len(live.evicted) == 1
    assert {name: used(live, name) for name in QUEUES} == {"a": 6, "b": 2}


def test_a_group_that_lost_the_room_of_its_victims_evicts_again() -> None:
    live = Live(2)
    live.mirror.put_other("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    live.add_gang("a", 6, 1, preemptable=True)
    live.settle()
    live.add_gang("a", 2, 2, preemptable=False)
    live.mirror.put_group(
        {**live.groups["default/g1"], "spec": {**live.groups["default/g1"]["spec"], "priorityClassName": "high"}}
    )
    for uid in ("g1-w-0", "g1-w-1"):
        # The nomination of an earlier eviction, which others have used since.
        pod = live.pods[uid]
        live._put(
            {**pod, "spec": {**pod["spec"], "priority": 1000}, "status": {**pod["status"], "nominatedNodeName": "n0"}}
        )
    live.settle()
    assert len(live.evicted) == 2
    assert {uid.partition("-")[0] for uid in live.bound()} == {"g0", "g1"}
    assert {"g1-w-0", "g1-w-1"} <= set(live.bound())


@pytest.mark.slow
@given(st.permutations([*QUEUES] * 5), st.lists(st.booleans(), min_size=10, max_size=10))
# A group that has begun in room that was made for it waits for its turn with its other pods.
@example(order=list("babbabaaba"), passes_between=[turn == "1" for turn in "0110011000"])
@settings(deadline=None, max_examples=30, phases=PHASES)
def test_with_work_in_every_queue_each_gets_what_it_deserves(order: list[str], passes_between: list[bool]) -> None:
    """Two queues deserve half of eight cores each; whichever comes first, both end with four."""
    live = Live(2)
    for where, now in zip(order, passes_between, strict=True):
        live.add_gang(where, 2, 1, preemptable=True)
        if now:
            live.run()
    live.settle()
    assert {name: used(live, name) for name in QUEUES} == dict.fromkeys(QUEUES, DESERVED)


@pytest.mark.slow
@given(runs=RUNS, machines=st.integers(1, 3))
@settings(deadline=None, max_examples=30, phases=PHASES)
def test_in_a_strict_queue_no_group_overtakes_an_older_one_and_all_start(runs: list[Run], machines: int) -> None:
    timeline = Timeline(machines, CORES, fresh(runs, machines, CORES), PLAIN, queue=FIFO)
    timeline.play()
    started = sorted(timeline.runs, key=lambda run: (run.arrives, run.name))
    assert all(run.started is not None for run in started)
    for older, younger in pairwise(started):
        assert (older.started or 0.0) <= (younger.started or 0.0)
