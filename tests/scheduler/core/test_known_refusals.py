"""Waiting pods of equal shape cost one search for room until something changes, and decisions stay the same."""

from typing import Any

import numpy as np
import pytest

from rota.scheduler.core.attempts import Attempt
from rota.scheduler.plugins.default_preemption import DefaultPreemption
from rota.simulator import arrivals, clusters, policies
from rota.simulator.engine import Engine
from rota.simulator.traces import Trace


def crowd(pods: int, shapes: tuple[tuple[str, int], ...]) -> Trace:
    """More pods than four nodes have room for; pods end, so that others start."""
    rng = arrivals.generator(3)
    return Trace(
        name="crowd",
        nodes=clusters.nodes(["4xcpu=8,memory=32Gi"]),
        templates=[clusters.pod(shape, priority=priority) for shape, priority in shapes],
        at=np.cumsum(rng.standard_exponential(pods)),
        duration=rng.standard_exponential(pods) * 60 + 1,
        template=rng.integers(0, len(shapes), pods),
        names=[f"p{number}" for number in range(pods)],
    )


def decisions(trace: Trace) -> list[Any]:
    engine = Engine(trace, policies.named("default").load({}), seed=1)
    found: list[Any] = []

    def observe(attempt: Attempt) -> None:
        why = (attempt.refusal.message, attempt.refusal.hint) if attempt.refusal is not None else None
        found.append((attempt.pod.uid, attempt.node_name, attempt.now, why))

    engine.observe(observe)
    engine.run()
    return found


@pytest.mark.parametrize("priorities", [(0, 0), (0, 100)])
def test_decisions_are_those_of_a_scheduler_that_asks_every_time(
    priorities: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = crowd(120, (("cpu=2,memory=1Gi", priorities[0]), ("cpu=3,memory=2Gi", priorities[1])))
    shared = decisions(trace)
    assert sum(node is None for _, node, _, _ in shared) > 100, "the cluster is too large for the test"
    monkeypatch.setattr(DefaultPreemption, "refuses_by_shape", False)
    assert decisions(trace) == shared


def test_equal_pods_cost_one_search_for_room_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    search = DefaultPreemption.post_filter

    def counted(self: Any, state: Any, pod: Any, cluster: Any, statuses: Any) -> Any:
        asked.append(pod.uid)
        return search(self, state, pod, cluster, statuses)

    monkeypatch.setattr(DefaultPreemption, "post_filter", counted)
    filling, waiting = clusters.pod("cpu=8", name="filling"), clusters.pod("cpu=8", name="waiting")
    trace = Trace(
        name="full",
        nodes=clusters.nodes(["1xcpu=8"]),
        templates=[filling, waiting],
        at=np.array([0.0, *([1.0] * 50)]),
        duration=np.array([100.0, *([np.inf] * 50)]),
        template=np.array([0, *([1] * 50)]),
        names=[f"p{number}" for number in range(51)],
    )
    engine = Engine(trace, policies.named("default").load({}), seed=1)
    refused: list[str] = []
    engine.observe(lambda attempt: None if attempt.node_name else refused.append(attempt.pod.uid))
    engine.run()
    assert len(refused) >= 50 + 49, "all of them at first, and all but one when the place was free"
    assert len(asked) <= 3
