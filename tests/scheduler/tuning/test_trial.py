"""Proposals at work: a server, a scheduler, the controllers and a follower, in virtual time."""

import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.client.verbs import Object, PatchType
from rota.forecaster.cluster_states import ClusterStateController
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration
from rota.scheduler.service import Scheduler
from rota.scheduler.tuning import parameters
from rota.scheduler.tuning.parameters import Parameter
from rota.scheduler.tuning.proposals import PROPOSALS
from rota.scheduler.tuning.tuning_controller import TuningController
from rota.scheduler.tuning.tuning_follower import TuningFollower
from rota.testing import schedulers
from rota.testing.schedulers import HEAD, SchedulingCluster

FIT = Parameter("NodeResourcesFit")
NAME = "spread-more"


class Tuned:
    """A cluster whose scheduler follows proposals."""

    def __init__(self, cluster: SchedulingCluster, configuration: LiveConfiguration, scheduler: Scheduler) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.scheduler = scheduler

    async def propose(self, name: str = NAME, *, to: float = 9, **spec: Any) -> None:
        changes = [{"plugin": FIT.plugin, "from": 1, "to": to}]
        pace = {"steps": 2, "stepSeconds": 40, "watchSeconds": 60, "intervalSeconds": 10}
        await self.cluster.client.create(
            PROPOSALS, {"metadata": {"name": name}, "spec": {"changes": changes, **pace, **spec}}
        )

    async def change(self, **spec: Any) -> None:
        await self.cluster.client.patch(PROPOSALS, NAME, {"spec": spec}, type=PatchType.MERGE)

    async def proposal(self, name: str = NAME) -> Object:
        return await self.cluster.client.get(PROPOSALS, name)

    async def reached(self, phase: str, name: str = NAME) -> Object:
        async def condition() -> bool:
            return ((await self.proposal(name)).get("status") or {}).get("phase") == phase

        await self.cluster.until(condition)
        return (await self.proposal(name))["status"]  # type: ignore[no-any-return]

    async def reason(self, reason: str, name: str = NAME) -> str:
        async def message() -> str | None:
            conditions = ((await self.proposal(name)).get("status") or {}).get("conditions") or ()
            return next((one["message"] for one in conditions if one["reason"] == reason), None)

        async def condition() -> bool:
            return await message() is not None

        await self.cluster.until(condition)
        return await message() or ""

    async def weighs(self, weight: float) -> None:
        """Wait until the scheduler decides by this weight."""

        async def condition() -> bool:
            return parameters.value_of(self.scheduler.configuration.first, FIT) == weight

        await self.cluster.until(condition)

    async def place(self, name: str) -> str:
        """Where a pod goes that prefers node b."""
        preferred = {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["b"]}]},
        }
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        await self.cluster.add_pod(name, affinity=affinity)
        return await self.cluster.bound(name)


@pytest.fixture
async def tuned(tmp_path: Path) -> AsyncIterator[Tuned]:
    """Node a is empty, node b is three quarters full."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEAD)
    async with schedulers.cluster() as cluster, contextlib.AsyncExitStack() as parts:
        configuration = LiveConfiguration(ConfigurationSource(file), clock=cluster.clock)
        scheduler = await parts.enter_async_context(cluster.scheduling())
        scheduler.follow(configuration)
        follower = TuningFollower(
            cluster.acting_as("rota:scheduler"), configuration, clock=cluster.clock, rng=random.Random(1)
        )
        await parts.enter_async_context(cluster.running(follower.run))
        await cluster.add_node("b", labels={"name": "b"})
        await cluster.add_pod("load", cpu="3")
        await cluster.bound("load", "b")
        await cluster.add_node("a", labels={"name": "a"})
        states = ClusterStateController(
            cluster.acting_as("rota:controller:cluster-states"), clock=cluster.clock, rng=random.Random(2)
        )
        controller = TuningController(
            cluster.acting_as("rota:controller:tuning"), configuration, clock=cluster.clock, rng=random.Random(3)
        )
        await parts.enter_async_context(cluster.running(states.run))
        await parts.enter_async_context(cluster.running(controller.run))
        yield Tuned(cluster, configuration, scheduler)


async def test_nothing_changes_before_the_approval(tuned: Tuned) -> None:
    await tuned.propose()
    assert await tuned.reason("NotApproved") == "waits for spec.approved"
    assert await tuned.place("web") == "b"


async def test_an_approved_proposal_comes_into_force_step_by_step_and_is_kept(tuned: Tuned) -> None:
    assert await tuned.place("before") == "b"
    await tuned.propose()
    await tuned.change(approved=True)
    await tuned.reached("Measuring")
    assert parameters.value_of(tuned.scheduler.configuration.first, FIT) == 1
    status = await tuned.reached("Applying")
    assert (status["step"], status["values"][0]["value"]) == (1, 5)
    await tuned.weighs(5)
    status = await tuned.reached("Watching")
    assert (status["step"], status["values"][0]["value"]) == (2, 9)
    await tuned.weighs(9)
    # The same pod goes elsewhere now: the free node counts more than the preference.
    assert await tuned.place("after") == "a"
    status = await tuned.reached("Kept")
    assert [one["phase"] for one in status["history"]][-4:] == ["Measuring", "Applying", "Watching", "Kept"]
    assert status["before"]["pendingPods"] == 0
    assert parameters.value_of(tuned.scheduler.configuration.first, FIT) == 9


async def test_a_figure_that_gets_worse_freezes_and_then_rolls_back(tuned: Tuned) -> None:
    await tuned.propose(bounds=[{"figure": "pendingPods", "percent": 0, "amount": 1}], stepSeconds=1200)
    await tuned.change(approved=True)
    await tuned.weighs(5)
    for number in range(2):
        await tuned.cluster.add_pod(f"big-{number}", cpu="64")
    assert "reading 1 of 3" in await tuned.reason("Frozen")
    status = await tuned.reached("RolledBack")
    assert (status["values"], status["worse"]) == ([], 3)
    assert await tuned.reason("Worse") == "pendingPods is 2, it was 0"
    await tuned.weighs(1)
    assert await tuned.place("after") == "b"


async def test_a_figure_that_recovers_lets_the_proposal_go_on(tuned: Tuned) -> None:
    await tuned.propose(bounds=[{"figure": "pendingPods", "amount": 1}], patience=10)
    await tuned.change(approved=True)
    await tuned.weighs(5)
    for number in range(2):
        await tuned.cluster.add_pod(f"big-{number}", cpu="64")
    await tuned.reason("Frozen")
    assert (await tuned.proposal())["status"]["step"] == 1
    for number in range(2):
        await tuned.cluster.client.delete(("", "v1", "pods"), f"big-{number}", namespace="default")
    status = await tuned.reached("Kept")
    assert status["worse"] == 0


async def test_a_withdrawn_approval_rolls_back_also_a_kept_proposal(tuned: Tuned) -> None:
    await tuned.propose(approved=True)
    await tuned.reached("Kept")
    await tuned.weighs(9)
    await tuned.change(approved=False)
    await tuned.reached("RolledBack")
    await tuned.weighs(1)


async def test_a_deleted_proposal_is_out_of_force(tuned: Tuned) -> None:
    await tuned.propose(approved=True)
    await tuned.weighs(9)
    await tuned.cluster.client.delete(PROPOSALS, NAME)
    await tuned.weighs(1)


async def test_evidence_approves_what_nothing_speaks_against(tuned: Tuned) -> None:
    better = {"figure": "energy_kwh", "verdict": "better"}
    await tuned.propose(approve="auto", evidence={"goal": "energy_kwh", "comparisons": [better]})
    await tuned.weighs(9)


async def test_evidence_with_a_worse_figure_waits_for_a_user(tuned: Tuned) -> None:
    compared = [{"figure": "energy_kwh", "verdict": "better"}, {"figure": "wait_p99_s", "verdict": "worse"}]
    await tuned.propose(approve="auto", evidence={"goal": "energy_kwh", "comparisons": compared})
    assert (await tuned.reason("NotApproved")).startswith("wait_p99_s would get worse; set spec.approved")
    await tuned.change(approved=True)
    await tuned.weighs(9)


async def test_a_proposal_about_another_configuration_is_refused(tuned: Tuned) -> None:
    changes = [{"plugin": FIT.plugin, "from": 3, "to": 4}]
    await tuned.propose(approved=True, changes=changes)
    await tuned.reached("Refused")
    assert await tuned.reason("OtherConfiguration") == "NodeResourcesFit is 1 and no longer 3; propose again"


async def test_a_bound_on_a_figure_that_is_not_measured_is_refused(tuned: Tuned) -> None:
    await tuned.propose(approved=True, bounds=[{"figure": "powerWatts"}])
    await tuned.reached("Refused")
    assert (await tuned.reason("NoFigure")).startswith("the ClusterState of all nodes has no powerWatts")


async def test_one_proposal_of_a_profile_is_on_trial_and_the_next_begins_from_it(tuned: Tuned) -> None:
    await tuned.propose(approved=True)
    await tuned.reached("Measuring")
    await tuned.propose("second", approved=True, changes=[{"plugin": FIT.plugin, "from": 9, "to": 3}])
    assert await tuned.reason("AnotherOnTrial", "second") == f"waits for the end of {NAME}"
    await tuned.reached("Kept")
    await tuned.reached("Kept", "second")
    await tuned.weighs(3)


async def test_tuned_values_stay_when_the_file_changes(tuned: Tuned, tmp_path: Path) -> None:
    await tuned.propose(approved=True)
    await tuned.reached("Kept")
    (tmp_path / "scheduler.yaml").write_text(HEAD + "podMaxBackoffSeconds: 20\n")
    tuned.configuration.reload()
    assert tuned.scheduler.configuration.settings.pod_max_backoff_seconds == 20
    assert parameters.value_of(tuned.scheduler.configuration.first, FIT) == 9
    assert parameters.value_of(tuned.configuration.base.configuration.first, FIT) == 1
