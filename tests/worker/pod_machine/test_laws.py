"""Whatever happens in whatever order: nothing runs twice, what is deleted ends, and what is over stays over."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worker.pod_machine.stage import Stage, container, deleted, pod

from rota.worker.pod_machine import machine_events


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    def some(prefix: str, most: int, **fields: Any) -> list[dict[str, Any]]:
        found = []
        for number in range(draw(st.integers(0, most))):
            extra: dict[str, Any] = dict(fields)
            if draw(st.booleans()):
                extra["lifecycle"] = {draw(st.sampled_from(["preStop", "postStart"])): {"exec": {}}}
            if draw(st.booleans()):
                extra[draw(st.sampled_from(["startupProbe", "livenessProbe", "readinessProbe"]))] = {
                    "failureThreshold": draw(st.integers(1, 2))
                }
            found.append(container(f"{prefix}{number}", **extra))
        return found

    first = some("s", 2, restartPolicy="Always") + some("i", 2)
    main = some("m", 2) or [container("c")]
    spec: dict[str, Any] = {"restartPolicy": draw(st.sampled_from(["Always", "OnFailure", "Never"]))}
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = draw(st.integers(1, 60))
    return pod(*main, init=first, **spec)


def _happen(stage: Stage, rng: random.Random, found: dict[str, Any], *, doomed: bool) -> None:
    """Something that could happen now."""
    live = [name for uid, name in stage.running if uid == stage.uid]
    choices = ["time", "see", *["evict"] * (rng.random() < 0.05)] + [
        "start",
        "exit",
        "exit",
        "probe",
        "hook",
        "refuse",
    ] * bool(live)
    match rng.choice(choices):
        case "time":
            stage.passes(rng.choice([0.5, 3, 20, 400]))
        case "see":
            stage.see(found if not doomed else deleted(found, at=stage.now, grace=rng.choice([0, 5, 30])))
        case "start":
            stage.started(rng.choice(live))
        case "evict":
            stage.send(machine_events.Exceeded, uid=stage.uid, message="too much")
        case "exit":
            stage.exited(rng.choice(live), rng.choice([0, 1, 137]))
        case "probe":
            stage.probed(rng.choice(["startup", "liveness", "readiness"]), rng.random() < 0.5, rng.choice(live))
        case "hook":
            stage.hooked(rng.choice(["preStop", "postStart"]), rng.random() < 0.7, rng.choice(live))
        case "refuse":
            name = rng.choice(live)
            pod_now = stage.machine.pod(stage.uid)
            assert pod_now is not None
            if pod_now.containers[name].id and pod_now.containers[name].stage.name == "RUNNING":
                return
            run = stage.running.pop((stage.uid, name))
            fields: dict[str, Any] = {"container": name, "run": run, "reason": "RunContainerError", "message": "no"}
            stage.send(machine_events.StartFailed, uid=stage.uid, **fields)


@settings(max_examples=200, deadline=None)
@given(pods(), st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_history_ends_well(found: dict[str, Any], rng: random.Random, length: int) -> None:
    stage = Stage()  # asserts by itself that nothing is started that runs
    stage.begin(found)
    for _ in range(length):
        _happen(stage, rng, found, doomed=False)
    over = stage.machine.pod(stage.uid)
    assert over is not None
    if over.over:
        assert not stage.running
        assert stage.status["phase"] in {"Succeeded", "Failed"}
        before = list(stage.sent)
        stage.passes(1000)
        stage.see(found)
        assert stage.sent == before, "what is over stays over"
    stage.see(deleted(found, at=stage.now, grace=30))
    for _ in range(rng.randrange(10)):
        _happen(stage, rng, found, doomed=True)
    # From here on the runtime does as it is told: everything that was stopped ends.
    for _ in range(20):
        stage.passes(31)
        stops = {(one.uid, one.container): one.run for one in stage.sent if isinstance(one, machine_events.Stop)}
        for uid, name in list(stage.running):
            run = stage.running[uid, name]
            if stops.get((uid, name)) == run:
                stage.exited(name, 143)
            else:
                stage.started(name)
    assert not stage.running
    assert machine_events.ConfirmDeletion(uid=stage.uid) in stage.sent
    stage.send(machine_events.PodGone, uid=stage.uid)
    assert stage.machine.pod(stage.uid) is None
    assert stage.machine.wake_at() is None
