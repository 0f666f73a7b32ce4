"""The agent was away: what still runs goes on, what ended is known, and nothing runs twice."""

from typing import Any

import msgspec
from tests.worker.pod_machine.stage import NOW, Stage, container, deleted, pod

from rota.worker.pod_machine import machine_events
from rota.worker.pod_machine.machine_events import FoundRun


def _found(name: str = "c", run: int = 0, **fields: Any) -> FoundRun:
    return FoundRun(container=name, run=run, id=f"{name}-{run}", started_at=NOW - 100, **fields)


def test_what_still_runs_is_not_started_again() -> None:
    stage = Stage()
    stage.send(machine_events.Adopted, pod=pod(), runs=(_found(),))
    stage.running[stage.uid, "c"] = 0
    stage.see(pod())
    stage.send(machine_events.Synced)
    assert stage.starts() == []
    assert stage.status["phase"] == "Running"
    stage.exited(code=0)
    assert stage.starts() == ["c"]


def test_a_run_that_ended_meanwhile_is_reported_with_its_exit_code() -> None:
    stage = Stage()
    ended = _found(run=2, code=3, finished_at=NOW - 50)
    stage.send(machine_events.Adopted, pod=pod(restartPolicy="Never"), runs=(ended,))
    stage.see(pod(restartPolicy="Never"))
    assert stage.status["phase"] == "Failed"
    assert stage.state()["state"]["terminated"]["exitCode"] == 3
    assert stage.state()["restartCount"] == 2
    assert stage.starts() == []


def test_init_containers_that_had_succeeded_are_not_repeated() -> None:
    stage = Stage()
    whole = pod(init=[container("i")])
    runs = (_found("i", code=0, finished_at=NOW - 90), _found("c"))
    stage.send(machine_events.Adopted, pod=whole, runs=runs)
    stage.running[stage.uid, "c"] = 0
    stage.see(whole)
    assert stage.starts() == []
    assert stage.condition("Initialized")[0] == "True"


def test_a_run_without_a_pod_is_stopped_and_not_reported() -> None:
    stage = Stage()
    stage.send(machine_events.Adopted, pod=pod(), runs=(_found(),))
    stage.running[stage.uid, "c"] = 0
    out = stage.send(machine_events.Synced)
    assert [type(one) for one in out if not isinstance(one, machine_events.Tell)] == [machine_events.Stop]
    out = stage.exited(code=143)
    assert machine_events.CleanUp(uid=stage.uid, logs=True) in out


def test_what_was_deleted_meanwhile_is_stopped_and_confirmed() -> None:
    stage = Stage()
    stage.send(machine_events.Adopted, pod=pod(), runs=(_found(),))
    stage.running[stage.uid, "c"] = 0
    stage.see(deleted(pod(), at=stage.now - 5, grace=30))
    assert stage.last(machine_events.Stop).grace_s == 25
    assert machine_events.ConfirmDeletion(uid=stage.uid) in stage.exited(code=143)


def _lost(policy: str) -> dict[str, Any]:
    statuses = [{"name": "c", "restartCount": 1, "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}}}]
    return pod(restartPolicy=policy, status={"phase": "Running", "containerStatuses": statuses})


def test_an_unknown_run_is_lost_and_not_a_success() -> None:
    stage = Stage()
    stage.see(_lost("Never"))
    stage.send(machine_events.VolumesReady, uid=stage.uid)
    assert stage.status["phase"] == "Failed"
    ended = stage.state()["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)
    assert stage.starts() == []
    disrupted = {one["type"]: one for one in stage.status["conditions"]}["DisruptionTarget"]
    assert (disrupted["status"], disrupted["reason"]) == ("True", "WorkerLost")


def test_a_run_that_ended_with_its_machine_was_disrupted() -> None:
    stage = Stage()
    found = msgspec.structs.replace(_found(), code=137, signal=9, lost=True, finished_at=stage.now)
    stage.send(machine_events.Adopted, pod=pod(restartPolicy="Never"), runs=(found,))
    stage.see(pod(restartPolicy="Never"))
    assert stage.status["phase"] == "Failed"
    disrupted = {one["type"]: one for one in stage.status["conditions"]}["DisruptionTarget"]
    assert disrupted["status"] == "True"


def test_a_lost_run_is_repeated_where_the_policy_says_so() -> None:
    stage = Stage()
    stage.see(_lost("Always"))
    stage.send(machine_events.VolumesReady, uid=stage.uid)
    assert stage.last(machine_events.Start).run == 2
    assert stage.state()["restartCount"] == 2
    assert stage.state()["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_pod_that_had_finished_stays_finished() -> None:
    stage = Stage()
    finished = pod(status={"phase": "Succeeded"})
    assert stage.see(finished) == []
    out = stage.see(deleted(finished, at=stage.now, grace=0))
    assert out == [machine_events.ConfirmDeletion(uid=stage.uid)]


def test_an_end_that_the_api_knows_is_not_disputed() -> None:
    stage = Stage()
    stage.send(machine_events.Adopted, pod=pod(restartPolicy="Never"), runs=())
    assert stage.see(pod(restartPolicy="Never", status={"phase": "Failed"})) == [
        machine_events.CleanUp(uid=stage.uid, logs=False)
    ]
    other = Stage()
    other.send(machine_events.Adopted, pod=pod(), runs=(_found(),))
    other.running[other.uid, "c"] = 0
    out = other.see(pod(status={"phase": "Failed", "reason": "NodeLost"}))
    assert [type(one) for one in out if not isinstance(one, machine_events.Tell)] == [machine_events.Stop]
    out = other.exited(code=143)
    assert not [one for one in out if isinstance(one, machine_events.WriteStatus)]


def test_the_termination_message_of_a_run_that_ended_meanwhile_is_reported() -> None:
    stage = Stage()
    runs = (
        _found(run=1, code=1, finished_at=NOW - 60, message="why the run before failed"),
        _found(run=2, code=0, finished_at=NOW - 50, message="the result"),
    )
    stage.send(machine_events.Adopted, pod=pod(restartPolicy="OnFailure"), runs=runs)
    stage.see(pod(restartPolicy="OnFailure"))
    assert stage.status["phase"] == "Succeeded"
    assert stage.state()["state"]["terminated"]["message"] == "the result"
    assert stage.state()["lastState"]["terminated"]["message"] == "why the run before failed"
    assert stage.state()["restartCount"] == 2


def test_a_final_status_is_not_written_again() -> None:
    stage = Stage()
    stage.send(machine_events.Adopted, pod=pod(restartPolicy="Never"), runs=(_found(code=0, finished_at=NOW - 50),))
    ended = {"name": "c", "state": {"terminated": {"exitCode": 0, "message": "the result"}}}
    out = stage.see(pod(restartPolicy="Never", status={"phase": "Succeeded", "containerStatuses": [ended]}))
    assert not [one for one in out if isinstance(one, machine_events.WriteStatus)]
