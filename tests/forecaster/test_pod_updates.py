"""Which pods are updated: bounds, age, pace, requirements, and what stops a workload's updates."""

from dataclasses import replace
from typing import Any

import pytest

from rota.api import errors, times
from rota.forecaster import pod_updates
from rota.forecaster.pod_updater import PodUpdater
from rota.forecaster.pod_updates import LONG_S, MARK, Evictions
from rota.kit.metrics import Metrics
from rota.kit.system import SystemClock
from rota.testing.clocks import FakeClock
from rota.testing.clusters import Document, make_pod

NOW = 2_000_000.0


def autoscaler(mode: str = "Recreate", lower: str = "400m", target: str = "500m", **policy: Any) -> Document:
    each = {
        "containerName": "c",
        "target": {"cpu": target},
        "lowerBound": {"cpu": lower},
        "upperBound": {"cpu": "600m"},
    }
    return {
        "metadata": {"name": "vpa", "namespace": "default", "uid": "a"},
        "spec": {"targetRef": {"kind": "StatefulSet", "name": "db"}, "updatePolicy": {"updateMode": mode, **policy}},
        "status": {"recommendation": {"containerRecommendations": [each]}},
    }


def replica(number: int, cpu: str = "100m", *, ready: bool = True, age_s: float = 60.0, **more: Any) -> Document:
    made = make_pod(f"db-{number}", cpu=cpu)
    created = times.format_time(NOW - age_s)
    made["metadata"] |= {
        "creationTimestamp": created,
        "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}],
        **more.pop("metadata", {}),
    }
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}, *more.pop("conditions", ())]
    made["status"] = {"phase": "Running", "startTime": created, "conditions": conditions}
    return made


def due(given: Document, pods: list[Document], **more: Any) -> list[str]:
    found = pod_updates.decide(given, pods, (), now_s=NOW, **more)
    return [update.pod["metadata"]["name"] for update in found.updates]


def test_half_of_the_pods_at_a_time_those_that_need_most_first() -> None:
    pods = [replica(0, "300m"), replica(1, "100m"), replica(2, "900m"), replica(3, "500m"), replica(4, "200m")]
    assert due(autoscaler(), pods) == ["db-1", "db-4"]
    # A pod that is not ready is one of those that may be missing, and so is one that ends.
    pods[3] = replica(3, "500m", ready=False)
    assert due(autoscaler(), pods) == ["db-1"]
    pods[0] = replica(0, "300m", metadata={"deletionTimestamp": times.format_time(NOW)})
    assert due(autoscaler(), pods) == []


def test_a_single_pod_needs_the_consent_of_its_policy() -> None:
    assert due(autoscaler(), [replica(0)]) == []
    assert due(autoscaler(minReplicas=1), [replica(0)]) == ["db-0"]


@pytest.mark.parametrize("mode", ["Off", "Initial"])
def test_these_modes_leave_running_pods(mode: str) -> None:
    assert due(autoscaler(mode), [replica(0), replica(1)]) == []


def test_within_the_bounds_only_old_pods_with_a_significant_difference_are_due() -> None:
    within, near = replica(0, "420m"), replica(1, "460m")
    assert due(autoscaler(), [within, near]) == []
    old = [replica(0, "420m", age_s=LONG_S + 1), replica(1, "460m", age_s=LONG_S + 1)]
    assert due(autoscaler(), old) == ["db-0"]
    assert due(autoscaler(), [old[1], replica(2, "500m")]) == []


@pytest.mark.parametrize(
    ("change", "expected"), [("TargetHigherThanRequests", ["db-0"]), ("TargetLowerThanRequests", [])]
)
def test_eviction_requirements(change: str, expected: list[str]) -> None:
    requirement = {"resources": ["cpu", "memory"], "changeRequirement": change}
    given = autoscaler(evictionRequirements=[requirement])
    assert due(given, [replica(0, "100m"), replica(1, "500m")]) == expected


def test_new_pods_without_the_mark_stop_the_updates() -> None:
    """Without the webhook a replacement would have the requests of its template, and would be evicted again."""
    pods = [replica(0), replica(1), replica(2)]
    assert not pod_updates.decide(autoscaler(), pods, (), now_s=NOW).unreached
    last = Evictions(NOW - 60, 1, frozenset({"uid-db-0", "uid-db-1", "evicted"}))
    assert pod_updates.decide(autoscaler(), pods, (), now_s=NOW, evictions=last).unreached
    assert due(autoscaler(), pods, evictions=last) == []
    pods[2]["metadata"]["annotations"] = {MARK: "c"}
    assert due(autoscaler(), pods, evictions=last) == ["db-0"]


def test_a_workload_whose_replacements_do_not_come_loses_no_more_pods() -> None:
    """Otherwise it would lose half of what is left at each turn."""
    pods = [replica(number) for number in range(4)]
    assert due(autoscaler(), pods) == ["db-0", "db-1"]
    last = Evictions(NOW - 60, 2, frozenset(f"uid-db-{number}" for number in range(4)))
    assert due(autoscaler(), pods[2:], evictions=last) == []
    came = [replica(number, "500m", metadata={"uid": f"new-{number}", "annotations": {MARK: "c"}}) for number in (0, 1)]
    assert due(autoscaler(), [*pods[2:], came[0]], evictions=last) == []
    assert due(autoscaler(), [*pods[2:], *came], evictions=last) == ["db-2", "db-3"]
    # After so long, the workload has been made smaller.
    assert due(autoscaler(), pods[2:], evictions=replace(last, at_s=NOW - LONG_S)) == ["db-2"]


def test_resizes_in_place_are_tried_waited_for_and_given_up() -> None:
    def pending(reason: str, age_s: float) -> list[Document]:
        since = times.format_time(NOW - age_s)
        return [{"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": since}]

    given = autoscaler("InPlaceOrRecreate")

    def ways(*conditions: Document) -> list[bool]:
        pods = [replica(0, conditions=conditions), replica(1, "500m")]
        return [update.in_place for update in pod_updates.decide(given, pods, (), now_s=NOW).updates]

    assert ways() == [True]
    assert ways(*pending("Deferred", 10)) == []
    assert ways({"type": "PodResizeInProgress", "status": "True"}) == []
    assert ways(*pending("Deferred", 1000)) == [False]
    assert ways(*pending("Infeasible", 1)) == [False]


class Busy:
    """A client whose server resizes no pod now, and evicts every one."""

    def __init__(self) -> None:
        self.evicted: list[str] = []

    async def patch(self, *_: Any, subresource: str, **__: Any) -> None:
        if subresource == "resize":
            raise errors.ServiceUnavailable("try again")

    async def create(self, _: Any, obj: Document, **__: Any) -> Any:
        self.evicted.append(obj["metadata"]["name"])
        return obj


async def test_a_server_that_fails_to_resize_ends_neither_the_pod_nor_the_turn() -> None:
    client = Busy()
    updater = PodUpdater(client, clock=SystemClock(), metrics=Metrics("test"))  # type: ignore[arg-type]
    recreated = autoscaler("Recreate")
    recreated["metadata"]["uid"] = "b"
    pods = [replica(number) for number in range(2)]
    assert await updater.turn([autoscaler("InPlaceOrRecreate"), recreated], pods, ()) == set()
    assert client.evicted == ["db-0"]
    assert list(updater._evicted) == [("b", 0)]


def remembering(count: int, *, at_s: float, generation: int = 1) -> Document:
    made = autoscaler()
    made["metadata"]["generation"] = generation
    condition = pod_updates.evicted_condition(made, count, at_s)
    made["status"]["conditions"] = [{**condition, "lastTransitionTime": times.format_time(at_s)}]
    return made


def test_a_new_process_waits_for_the_replacements_of_evictions_by_the_former_one() -> None:
    given, left = remembering(1, at_s=NOW - 30), [replica(0), replica(1)]
    for number, pod in enumerate(left):
        pod["metadata"]["uid"] = f"u{number}"
    remembered = pod_updates.remembered(given, left, now_s=NOW)
    assert remembered == Evictions(NOW - 30, 1, frozenset({"u0", "u1"}))
    assert due(given, left, evictions=remembered) == []
    marked = replica(2, age_s=10.0, metadata={"annotations": {MARK: "c"}, "uid": "u2"})
    there = [*left, marked]
    assert due(given, there, evictions=pod_updates.remembered(given, there, now_s=NOW))


def test_evictions_by_a_former_spec_are_no_reason_to_wait() -> None:
    given = remembering(1, at_s=NOW - 30)
    given["metadata"]["generation"] = 2
    assert pod_updates.remembered(given, [replica(0)], now_s=NOW) is None


@pytest.mark.parametrize(
    "message", ["", "1 pods", "x pods at 2026-01-01T00:00:00Z by generation 1", "1 pods at noon by generation 1"]
)
def test_a_condition_that_cannot_be_read_remembers_nothing(message: str) -> None:
    given = remembering(1, at_s=NOW)
    given["status"]["conditions"][0]["message"] = message
    assert pod_updates.remembered(given, [replica(0)], now_s=NOW) is None


class Unwritable(Busy):
    """A client whose server takes no status."""

    async def patch(self, *_: Any, **__: Any) -> None:
        raise errors.ServiceUnavailable("try again")


async def test_an_eviction_that_cannot_be_recorded_is_not_made() -> None:
    client = Unwritable()
    updater = PodUpdater(client, clock=SystemClock(), metrics=Metrics("test"))  # type: ignore[arg-type]
    assert await updater.turn([autoscaler()], [replica(number) for number in range(2)], ()) == set()
    assert client.evicted == []


def test_evictions_of_a_former_process_do_not_stop_updates_for_ever() -> None:
    """A pod that came while no process served the webhook has no mark, and never gets one."""
    given, pods = remembering(1, at_s=NOW - LONG_S), [replica(0), replica(1, age_s=60.0)]
    assert due(given, pods, evictions=pod_updates.remembered(given, pods, now_s=NOW - 1)) == []
    assert due(given, pods, evictions=pod_updates.remembered(given, pods, now_s=NOW))


class Slow(Busy):
    """A client whose server takes seconds for an eviction, and keeps the status that it gets."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.status: Document = {}

    async def patch(self, _: Any, __: str, patch: Document, **___: Any) -> None:  # type: ignore[override]
        self.status = patch["status"]

    async def create(self, _: Any, obj: Document, **more: Any) -> Any:
        await self.clock.advance(5)
        return await super().create(_, obj, **more)


async def test_a_replacement_that_comes_before_the_last_eviction_of_a_turn_counts_after_a_restart() -> None:
    clock = FakeClock(NOW)
    client = Slow(clock)
    updater = PodUpdater(client, clock=clock, metrics=Metrics("test"))  # type: ignore[arg-type]
    given, pods = autoscaler(), [replica(number) for number in range(4)]
    await updater.turn([given], pods, ())
    assert len(client.evicted) == 2
    left = [pod for pod in pods if pod["metadata"]["name"] not in client.evicted]
    marked = {"annotations": {MARK: "c"}}
    came = [replica(number, metadata={**marked, "uid": f"new-{number}"}) for number in (4, 5)]
    for pod, after_s in zip(came, (3, 8), strict=True):
        pod["metadata"]["creationTimestamp"] = times.format_time(NOW + after_s)
    successor = {**given, "status": {**given["status"], **client.status}}
    found = pod_updates.remembered(successor, [*left, *came], now_s=clock.now())
    assert found is not None
    assert (found.count, found.known & {"new-4", "new-5"}) == (2, frozenset())
