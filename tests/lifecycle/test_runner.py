"""The runner: what an interrupt ends, which members it knows, and which machines it trusts."""

import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from tests.lifecycle.specs import parsed

from rota.cli.commands import cluster_lifecycle
from rota.client import masters
from rota.kit import levels
from rota.kit.system import SystemClock
from rota.lifecycle.cluster_spec import Member
from rota.lifecycle.cluster_view import AT_ONCE, ClusterView, Report
from rota.lifecycle.journal import Journal
from rota.lifecycle.observed import MemberState, NodeState, Observed
from rota.lifecycle.reach import Reach, StepFailed, Unreachable
from rota.lifecycle.runner import Runner
from rota.lifecycle.steps import Action, Plan, Step


class Hanging:
    """Machines of which the first answers, and the others hang until the connections are ended."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.abandoned = threading.Event()

    def ask(self, member: Member, request: Any, **_: Any) -> None:
        self.asked.append(member.name)
        if member.name != "w1":
            self.abandoned.wait(100)
            raise Unreachable(f"{member.name} was abandoned")

    def abandon(self) -> None:
        self.abandoned.set()


def test_an_interrupt_begins_no_further_step(tmp_path: Path) -> None:
    spec, machines = parsed(1, 5 * AT_ONCE), Hanging()
    steps = tuple(Step(stage=1, action=Action.PREPARE, member=one.name) for one in spec.workers)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    runner = Runner(spec, cast(Reach, machines))
    with Journal(tmp_path / "journal", "lab") as kept, pytest.raises(KeyboardInterrupt):
        runner.run(Plan(steps=steps), kept, verb="create", say=interrupt, clock=SystemClock())
    assert len(machines.asked) <= AT_ONCE + 1


def test_members_that_run_are_known_again_after_the_loss_of_the_journal(tmp_path: Path) -> None:
    spec = parsed(1, 2)
    states = {"m1": MemberState(placed=True, cluster="lab"), "w1": MemberState(placed=True, cluster="lab")}
    with Journal(tmp_path / "journal", "lab") as kept:
        found = cluster_lifecycle._adopted(kept, spec, Observed(members=states))
        assert set(found.inventory) == set(kept.record.inventory) == {"m1", "w1"}


def test_a_machine_with_an_unknown_key_is_not_trusted_whatever_the_users_configuration_says(tmp_path: Path) -> None:
    spec = parsed(1, 0)
    words = Reach(spec, folder=tmp_path).command(spec.masters[0])
    assert "StrictHostKeyChecking=yes" in words[: words.index("--")]


def test_a_look_that_fails_does_not_end_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """While masters are upgraded one after the other, a look can meet the one that is being restarted."""
    spec = parsed(1, 1)
    runner = Runner(spec, cast(Reach, Hanging()))
    ready = Report(nodes={"w1": NodeState(ready=True, version="1")}, renewals={"w1": 10.0})
    faults = [StepFailed("no master serves"), Unreachable("m1 does not answer")]

    def report() -> Report:
        if faults:
            raise faults.pop()
        return ready

    monkeypatch.setattr(runner._view, "report", report)
    monkeypatch.setattr("rota.lifecycle.runner._LOOK_AGAIN_S", 0.0)
    runner._wait_node(spec.workers[0], after=5.0)
    assert not faults


def test_a_wait_that_ends_says_why_the_last_look_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parsed(1, 1)
    runner = Runner(spec, cast(Reach, Hanging()))

    def report() -> Report:
        raise StepFailed("no master serves")

    monkeypatch.setattr(runner._view, "report", report)
    monkeypatch.setattr("rota.lifecycle.runner._READY_S", -1.0)
    with pytest.raises(StepFailed, match=r"w1 does not become ready .*the last look failed: no master serves"):
        runner._wait_node(spec.workers[0], after=5.0)


def test_masters_are_those_of_the_system_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a namespace of their own must not decide about upgrades."""

    def lease(namespace: str, level: str, renewed: str) -> dict[str, Any]:
        notes = {masters.ADDRESS: "https://m1:6443", masters.LEVEL: level, levels.ANNOTATION: f"1-{level}"}
        metadata = {"name": "m", "namespace": namespace, "labels": {masters.LABEL: "true"}, "annotations": notes}
        return {"kind": "Lease", "metadata": metadata, "spec": {"renewTime": renewed}}

    items = [
        lease(masters.NAMESPACE, "2", "2026-01-01T00:00:00.000000Z"),
        lease("mine", "99", "2036-01-01T00:00:00.000000Z"),
    ]
    monkeypatch.setattr(ClusterView, "rota", lambda *_, **__: json.dumps({"items": items}))
    found = ClusterView(parsed(1, 0), cast(Reach, Hanging())).report()
    assert (found.level, str(found.master_levels)) == (2, "1-2")
