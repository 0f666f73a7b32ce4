"""Laws of passes on a mirror, for random clusters and random orders of events.

The events of a run are those of a live scheduler: groups, pods, queues and nodes come and go, pods start and end,
bindings fail, and passes run in between. Commits are carried out at once.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.columns import members
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.batch import conf, outcomes, passes, quiet_groups, registry, snapshots
from rota.scheduler.batch.mirror import Mirror
from rota.scheduler.batch.quiet_groups import QuietSums
from rota.scheduler.batch.states import Commit, State
from rota.scheduler.batch.statuses import ALLOCATED
from rota.scheduler.cache.scheduler_cache import SchedulerCache

CONF = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""
CONFIGURATION = conf.parse(CONF, registry.KNOWN)
QUEUES = ("a", "b")
CAPABILITY = 6
GUARANTEE = 2


def queue(name: str) -> dict[str, Any]:
    spec = {
        "weight": 1,
        "capability": {"cpu": str(CAPABILITY), "memory": "100Gi"},
        "deserved": {"cpu": "4", "memory": "50Gi"},
        "guarantee": {"resource": {"cpu": str(GUARANTEE)}},
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}


class Live:
    """A cache, a mirror that follows it, and the objects as the API server would have them."""

    def __init__(self, nodes: int) -> None:
        self.cache = SchedulerCache()
        self.mirror = Mirror(self.cache.cluster)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        for name in QUEUES:
            self.mirror.put_queue(queue(name))
        for _ in range(nodes):
            self.add_node()
        self.counter = 0
        self.failing = False
        self.evicted: list[str] = []
        self.done: set[str] = set()

    def add_node(self) -> None:
        name = f"n{len(self.nodes)}"
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
        }
        self.nodes[name] = document
        self.cache.set_node(read_node(document))

    def add_gang(self, where: str, pods: int, least: int, *, preemptable: bool) -> None:
        name = f"g{self.counter}"
        self.counter += 1
        resources = {"cpu": str(least), "memory": f"{least}Gi"}
        created = f"2026-01-01T00:{self.counter // 60:02d}:{self.counter % 60:02d}Z"
        group = {
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
            "spec": {"minMember": least, "queue": where, "minResources": resources},
            "status": {"phase": "Pending"},
        }
        self.groups[f"default/{name}"] = group
        self.mirror.put_group(group)
        for number in range(pods):
            annotations = {members.GROUPS[0]: name, "volcano.sh/preemptable": str(preemptable).lower()}
            uid = f"{name}-w-{number}"
            self._put(
                {
                    "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations},
                    "spec": {
                        "schedulerName": "volcano",
                        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                    },
                    "status": {"phase": "Pending"},
                }
            )

    def _put(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        self.pods[uid] = pod
        info = self.cache.interner.pod(pod)
        member = members.of_document(pod)
        if member.over:
            self.cache.remove_pod(uid)
        elif info.node_name:
            self.cache.add_or_update_pod(info)
        self.mirror.put_member(info, member)

    def placed(self, uid: str, node: str, phase: str) -> None:
        pod = self.pods[uid]
        self._put({**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": phase}})

    def bound(self) -> list[str]:
        return [
            uid
            for uid, pod in self.pods.items()
            if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
        ]

    def end(self, uid: str) -> None:
        self.placed(uid, self.pods[uid]["spec"]["nodeName"], "Succeeded")

    def delete(self, uid: str) -> None:
        del self.pods[uid]
        self.cache.remove_pod(uid)
        self.mirror.remove_pod(uid)

    def run(self) -> int:
        """Run a pass and carry it out; how much it did."""
        return sum(len(commit.bindings) + len(commit.evictions) for commit in self._pass())

    def _pass(self) -> list[Commit]:
        self.mirror.apply(self.mirror.take())
        commits: list[Commit] = []
        passes.run(self.mirror, CONFIGURATION, now=0.0, transition="1", on_commit=commits.append)
        for commit in commits:
            for task, _ in commit.evictions:
                self.evicted.append(task.uid)
                self.delete(task.uid)
            for task, node in commit.bindings:
                if self.failing:
                    self.mirror.unbind(task.uid)
                else:
                    assert self.cache.assume(task.info, node)
                    assert not self.cache.insufficient(task.info, node), "a node was given more than it has"
                    self.placed(task.uid, node, "Running")
        self.mirror.apply(self.mirror.take())
        return commits

    def decided(self) -> list[tuple[str, str, str]]:
        """Run a pass, carry it out, and give its bindings and evictions; groups that they change are `done`."""
        commits = self._pass()
        found = [("bind", task.key, node) for commit in commits for task, node in commit.bindings]
        found += [("evict", task.key, "") for commit in commits for task, _ in commit.evictions]
        self.done = {task.job for commit in commits for task, _ in (*commit.bindings, *commit.evictions)}
        return found

    def settle(self) -> None:
        """Run passes until nothing is left to do."""
        self.failing = False
        for _ in range(30):
            if not self.run():
                return
        raise AssertionError("passes do not come to an end")

    def scratch(self) -> State:
        groups = [{**job.group, "status": {"phase": job.phase.value}} for job in self.mirror.jobs.values()]
        state = snapshots.build(
            nodes=list(self.nodes.values()),
            pods=list(self.pods.values()),
            groups=groups,
            queues=[queue(name) for name in QUEUES],
            interner=PodInterner(),
        )
        # No object says which groups pods were evicted for: passes remember it.
        state.made_room = dict(self.mirror._made_room)
        return state


GANGS = st.tuples(st.just("gang"), st.sampled_from(QUEUES), st.integers(1, 5), st.integers(1, 5), st.booleans())
EVENTS = st.lists(
    st.one_of(
        GANGS,
        st.tuples(st.sampled_from(["pass", "node", "failing"])),
        st.tuples(st.sampled_from(["end", "delete"]), st.integers(0, 50)),
    ),
    max_size=14,
)


def play(live: Live, events: list[Any]) -> None:
    for event in events:
        match event:
            case ("gang", where, pods, least, preemptable):
                live.add_gang(where, max(pods, least), least, preemptable=preemptable)
            case ("pass",):
                live.run()
            case ("node",):
                live.add_node()
            case ("failing",):
                live.failing = not live.failing
            case ("end", number) if live.bound():
                live.end(live.bound()[number % len(live.bound())])
            case ("delete", number) if live.pods:
                live.delete(list(live.pods)[number % len(live.pods)])


@pytest.mark.slow
@given(st.integers(1, 3), EVENTS)
@settings(deadline=None)
def test_the_state_that_is_kept_equals_one_that_is_built_from_scratch(nodes: int, events: list[Any]) -> None:
    live = Live(nodes)
    play(live, events)
    live.mirror.apply(live.mirror.take())
    kept, built = live.mirror.state(0.0), live.scratch()
    assert kept.nodes.dimensions.keys() == built.nodes.dimensions.keys()
    for name, row in built.nodes.rows.items():
        mine = kept.nodes.rows[name]
        for dimension, index in built.nodes.dimensions.items():
            other = kept.nodes.dimensions[dimension]
            for table in ("allocatable", "idle", "used", "releasing", "pipelined"):
                assert np.isclose(getattr(kept.nodes, table)[other, mine], getattr(built.nodes, table)[index, row])
        assert kept.nodes.tasks[mine].keys() == built.nodes.tasks[row].keys()
    assert kept.jobs.keys() == built.jobs.keys()
    for key, job in built.jobs.items():
        mine_job = kept.jobs[key]
        assert {status: set(tasks) for status, tasks in mine_job.tasks.items()} == {
            status: set(tasks) for status, tasks in job.tasks.items()
        }
        assert (
            mine_job.ready
            == job.ready
            == job.count(ALLOCATED)
            + sum(pod["status"]["phase"] == "Succeeded" for uid, pod in live.pods.items() if uid in job.members)
        )
        assert (mine_job.allocated.cpu, mine_job.requested.cpu) == (job.allocated.cpu, job.requested.cpu)
    active, quiet = quiet_groups.split(built.jobs)
    assert kept.active is not None
    assert list(kept.active) == list(active), "the groups that passes look at, in order"
    assert figures(kept.quiet) == figures(quiet), "what the others count for"


SMALL_GANGS = st.tuples(st.just("gang"), st.sampled_from(QUEUES), st.integers(1, 2), st.just(1), st.booleans())


@pytest.mark.slow
@given(st.lists(SMALL_GANGS, min_size=3, max_size=7), EVENTS)
@settings(deadline=None)
def test_sums_of_groups_that_run_follow_every_change(gangs: list[Any], events: list[Any]) -> None:
    """Several groups run before anything happens to them; `EVENTS` alone seldom come that far."""
    live = Live(3)
    play(live, gangs)
    live.settle()
    live.run()
    play(live, events)
    live.run()
    kept = live.mirror.state(0.0)
    active, quiet = quiet_groups.split(live.scratch().jobs)
    assert list(kept.active or ()) == list(active)
    assert figures(kept.quiet) == figures(quiet)


def figures(quiet: Mapping[str, QuietSums]) -> dict[str, Any]:
    return {
        name: (sums.groups, sums.allocated.amounts, sums.inqueue.amounts, sums.elastic.amounts)
        for name, sums in quiet.items()
    }


@pytest.mark.slow
@given(st.integers(1, 3), EVENTS)
@settings(deadline=None)
def test_a_pass_decides_what_a_session_from_scratch_decides(nodes: int, events: list[Any]) -> None:
    """The pass runs on what is kept and looks at few groups, the session looks at everything."""
    live = Live(nodes)
    play(live, events)
    for _ in range(3):
        live.mirror.apply(live.mirror.take())
        session = registry.run(live.scratch(), CONFIGURATION)
        wanted = sorted((kind, pod, node if kind == "bind" else "") for kind, pod, node in session.sent)
        phases = outcomes.of(session).phases
        assert sorted(live.decided()) == wanted
        assert {key: job.phase.value for key, job in live.mirror.jobs.items() if key not in live.done} == {
            key: phase for key, phase in phases.items() if key not in live.done
        }


@pytest.mark.slow
@given(st.integers(1, 3), st.lists(GANGS, min_size=1, max_size=10), st.integers(0, 5))
@settings(deadline=None)
def test_settled_gangs_are_whole_and_queues_within_their_bounds(nodes: int, gangs: list[Any], ends: int) -> None:
    live = Live(nodes)
    play(live, gangs)
    live.settle()
    for number in range(ends):
        if live.bound():
            live.end(live.bound()[number % len(live.bound())])
        live.settle()
    for name in QUEUES:
        used = sum(job.allocated.cpu for job in live.mirror.jobs.values() if job.queue == name)
        assert used <= CAPABILITY * 1000, "a queue is above its capability"
    for job in live.mirror.jobs.values():
        assert not job.count(ALLOCATED) or job.ready >= job.min_available or live.evicted, "a gang is bound in part"
        if job.phase.value in ("", "Pending"):
            assert not job.count(ALLOCATED)


@pytest.mark.slow
@given(st.integers(1, 3), st.lists(GANGS, min_size=1, max_size=8))
@settings(deadline=None)
def test_nothing_is_decided_twice(nodes: int, gangs: list[Any]) -> None:
    live = Live(nodes)
    play(live, gangs)
    live.settle()
    assert live.run() == 0
