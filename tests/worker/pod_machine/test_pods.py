"""A pod's life by the kubelet's rules."""

from typing import Any

import pytest
from tests.worker.pod_machine.stage import NOW, Stage, container, deleted, pod

from rota.api import times
from rota.worker.pod_machine import machine_events


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_pod_is_prepared_started_and_reported(stage: Stage) -> None:
    out = stage.see(pod())
    assert machine_events.PrepareVolumes(uid=stage.uid) in out
    assert (stage.status["phase"], stage.state()["state"]) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
    stage.send(machine_events.VolumesReady, uid=stage.uid)
    assert stage.last(machine_events.Start).run == 0
    stage.started()
    assert stage.status["phase"] == "Running"
    assert stage.condition("Ready") == stage.condition("ContainersReady") == ("True", "")
    assert stage.status["podIP"] == "192.0.2.7"
    assert stage.state()["containerID"] == "rota://c-0"


def test_nothing_is_reported_twice(stage: Stage) -> None:
    stage.begin(pod())
    stage.started()
    told = len([one for one in stage.sent if isinstance(one, machine_events.WriteStatus)])
    stage.passes(100)
    stage.see(pod(status=stage.status))
    stage.see(pod())
    assert len([one for one in stage.sent if isinstance(one, machine_events.WriteStatus)]) == told


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")],
)
def test_a_task_that_is_done_is_done(stage: Stage, policy: str, code: int, phase: str) -> None:
    stage.begin(pod(restartPolicy=policy))
    stage.started()
    stage.now += 5
    out = stage.exited(code=code)
    assert stage.status["phase"] == phase
    ended = stage.state()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, "Error" if code else "Completed")
    assert (ended["startedAt"], ended["finishedAt"]) == (times.format_time(NOW), times.format_time(NOW + 5))
    assert stage.condition("Ready")[1] == ("PodFailed" if code else "PodCompleted")
    assert machine_events.CleanUp(uid=stage.uid, logs=False) in out
    assert stage.starts() == ["c"]


def test_a_container_that_ran_out_of_memory_says_so(stage: Stage) -> None:
    stage.begin(pod(restartPolicy="Never"))
    stage.started()
    stage.exited(code=137, signal=9, oom=True)
    ended = stage.state()["state"]["terminated"]
    assert (ended["reason"], ended["signal"]) == ("OOMKilled", 9)


def test_one_container_of_several_may_end_before_the_others(stage: Stage) -> None:
    stage.begin(pod(container("a"), container("b"), restartPolicy="Never"))
    stage.started("a")
    assert stage.status["phase"] == "Pending"
    stage.started("b")
    stage.exited("a", 1)
    assert stage.status["phase"] == "Running"
    stage.exited("b", 0)
    assert stage.status["phase"] == "Failed"


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
def test_restarts_wait_longer_each_time_and_begin_anew_after_a_long_run(stage: Stage, policy: str, code: int) -> None:
    stage.begin(pod(restartPolicy=policy))
    waits = []
    for _ in range(8):
        stage.started()
        ended = stage.now
        stage.exited(code=code)
        if (stage.uid, "c") not in stage.running:
            assert stage.state()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            stage.passes(400)
            begun = stage.now - 400
            assert begun == ended
        waits.append(stage.last(machine_events.Start).run)
    assert waits == list(range(1, 9))
    assert "BackOff" in stage.told()
    stage.started()
    assert stage.state()["restartCount"] == 8
    assert stage.state()["lastState"]["terminated"]["exitCode"] == code
    stage.now += 700
    stage.exited(code=code)
    assert (stage.uid, "c") in stage.running, "a long run is forgiven"


def test_the_pauses_are_ten_seconds_doubling_to_five_minutes(stage: Stage) -> None:
    stage.begin(pod())
    pauses = []
    for _ in range(8):
        stage.started()
        stage.exited(code=1)
        wake = stage.machine.wake_at()
        pauses.append(0 if wake is None else wake - stage.now)
        if wake is not None:
            assert stage.state()["state"]["waiting"]["message"].startswith(
                f"back-off {['10s', '20s', '40s', '1m20s', '2m40s', '5m0s', '5m0s'][len(pauses) - 2]} restarting"
            )
            stage.passes(wake - stage.now)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_init_containers_run_one_after_the_other_before_the_rest(stage: Stage) -> None:
    stage.begin(pod(init=[container("i1"), container("i2")], restartPolicy="Never"))
    assert stage.starts() == ["i1"]
    assert stage.state("c")["state"] == {"waiting": {"reason": "PodInitializing"}}
    stage.started("i1")
    assert stage.condition("Initialized") == ("False", "ContainersNotInitialized")
    stage.exited("i1")
    stage.started("i2")
    assert stage.status["phase"] == "Pending"
    stage.exited("i2")
    assert stage.starts() == ["i1", "i2", "c"]
    assert stage.condition("Initialized") == ("True", "")


def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(stage: Stage) -> None:
    stage.begin(pod(init=[container("i")], restartPolicy="Never"))
    stage.started("i")
    stage.exited("i", 1)
    assert stage.status["phase"] == "Failed"
    assert stage.starts() == ["i"]


def test_a_failed_init_container_is_tried_again_otherwise(stage: Stage) -> None:
    stage.begin(pod(init=[container("i")], restartPolicy="OnFailure"))
    stage.started("i")
    stage.exited("i", 1)
    stage.started("i")
    stage.exited("i", 1)
    assert stage.state("i")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    stage.passes(10)
    stage.started("i")
    stage.exited("i", 0)
    assert stage.starts() == ["i", "i", "i", "c"]


def test_sidecars_start_first_come_back_and_go_last_in_reverse_order(stage: Stage) -> None:
    sidecars = [container("s1", restartPolicy="Always"), container("s2", restartPolicy="Always")]
    stage.begin(pod(init=sidecars, restartPolicy="Never"))
    stage.started("s1")
    stage.started("s2")
    stage.started("c")
    stage.exited("s1", 1)
    assert stage.starts()[-1] == "s1"
    stage.started("s1")
    out = stage.exited("c")
    assert [one.container for one in out if isinstance(one, machine_events.Stop)] == ["s2"]
    assert stage.status["phase"] == "Running"
    out = stage.exited("s2", 143)
    assert [one.container for one in out if isinstance(one, machine_events.Stop)] == ["s1"]
    stage.exited("s1", 143)
    assert stage.status["phase"] == "Succeeded"


def test_a_sidecar_holds_the_rest_until_its_startup_probe_succeeds(stage: Stage) -> None:
    probe = {"exec": {"command": ["true"]}, "failureThreshold": 2}
    stage.begin(pod(init=[container("s", restartPolicy="Always", startupProbe=probe)]))
    stage.started("s")
    assert stage.starts() == ["s"]
    stage.probed("startup", True, "s")
    assert stage.starts() == ["s", "c"]


def test_readiness_follows_its_probe_and_never_restarts(stage: Stage) -> None:
    stage.begin(pod(container("c", readinessProbe={"successThreshold": 2, "failureThreshold": 2})))
    stage.started()
    assert stage.condition("Ready") == ("False", "ContainersNotReady")
    stage.probed("readiness", True)
    assert stage.condition("Ready")[0] == "False"
    stage.probed("readiness", True)
    assert stage.condition("Ready")[0] == "True"
    stage.probed("readiness", False, times=2)
    assert stage.condition("Ready")[0] == "False"
    assert not [one for one in stage.sent if isinstance(one, machine_events.Stop)]


def test_a_container_that_fails_its_liveness_probe_is_stopped_and_started_again(stage: Stage) -> None:
    probe = {"failureThreshold": 3, "terminationGracePeriodSeconds": 4}
    stage.begin(pod(container("c", livenessProbe=probe)))
    stage.started()
    stage.probed("liveness", False, times=2)
    stage.probed("liveness", True)
    stage.probed("liveness", False, times=3)
    assert stage.last(machine_events.Stop).grace_s == 4
    assert stage.told().count("Unhealthy") == 5
    stage.exited(code=137)
    assert stage.starts() == ["c", "c"]


def test_other_probes_wait_for_the_startup_probe(stage: Stage) -> None:
    probes = {"startupProbe": {"failureThreshold": 5}, "livenessProbe": {}, "readinessProbe": {}}
    stage.begin(pod(container("c", **probes)))
    stage.started()
    begun = [one.kind for one in stage.sent if isinstance(one, machine_events.BeginProbe)]
    assert begun == ["startup"]
    assert stage.state()["started"] is False
    stage.probed("startup", True)
    begun = [one.kind for one in stage.sent if isinstance(one, machine_events.BeginProbe)]
    assert begun == ["startup", "liveness", "readiness"]
    assert stage.state()["started"] is True


def test_an_answer_about_a_former_run_changes_nothing(stage: Stage) -> None:
    stage.begin(pod(container("c", livenessProbe={"failureThreshold": 1})))
    stage.started()
    stage.exited(code=1)
    stage.started()
    late: dict[str, Any] = {"uid": stage.uid, "container": "c", "run": 0}
    assert stage.send(machine_events.Probed, kind="liveness", success=False, **late) == []
    assert stage.send(machine_events.Exited, code=0, **late) == []
    assert stage.send(machine_events.Started, id="x", **late) == []
    assert "running" in stage.state()["state"]


def test_the_first_hook_delays_readiness_and_its_failure_ends_the_container(stage: Stage) -> None:
    hooks = {"postStart": {"exec": {"command": ["x"]}}}
    stage.begin(pod(container("c", lifecycle=hooks), restartPolicy="Never"))
    stage.started()
    assert stage.last(machine_events.RunHook).hook == "postStart"
    assert stage.condition("Ready")[0] == "False"
    stage.hooked("postStart")
    assert stage.condition("Ready")[0] == "True"
    other = Stage()
    other.begin(pod(container("c", lifecycle=hooks), restartPolicy="Never"))
    other.started()
    other.hooked("postStart", success=False)
    assert other.last(machine_events.Stop).container == "c"
    assert "FailedPostStartHook" in other.told()


def test_a_deleted_pod_is_stopped_within_its_grace_and_confirmed(stage: Stage) -> None:
    found = pod()
    stage.begin(found)
    stage.started()
    stage.see(deleted(found, at=stage.now, grace=30))
    assert stage.last(machine_events.Stop).grace_s == 30
    out = stage.exited(code=143)
    kinds = [type(one) for one in out]
    assert kinds.index(machine_events.WriteStatus) < kinds.index(machine_events.ConfirmDeletion)
    assert stage.starts() == ["c"], "what is deleted is not restarted"
    out = stage.send(machine_events.PodGone, uid=stage.uid)
    assert machine_events.CleanUp(uid=stage.uid, logs=True) in out
    assert stage.machine.pod(stage.uid) is None


def test_a_second_deletion_with_less_grace_hastens_the_end(stage: Stage) -> None:
    found = pod()
    stage.begin(found)
    stage.started()
    stage.see(deleted(found, at=stage.now, grace=30))
    stage.now += 5
    stage.see(deleted(found, at=stage.now, grace=0))
    assert stage.last(machine_events.Stop).grace_s == 0
    stage.see(deleted(found, at=stage.now, grace=0))
    assert len([one for one in stage.sent if isinstance(one, machine_events.Stop)]) == 2


def test_the_hook_before_the_end_takes_its_time_from_the_grace(stage: Stage) -> None:
    found = pod(container("c", lifecycle={"preStop": {"exec": {"command": ["x"]}}}))
    stage.begin(found)
    stage.started()
    stage.see(deleted(found, at=stage.now, grace=30))
    assert stage.last(machine_events.RunHook).hook == "preStop"
    assert not [one for one in stage.sent if isinstance(one, machine_events.Stop)]
    stage.now += 10
    stage.hooked("preStop")
    assert stage.last(machine_events.Stop).grace_s == 20


def test_a_hook_that_takes_all_the_grace_leaves_two_seconds(stage: Stage) -> None:
    found = pod(container("c", lifecycle={"preStop": {"exec": {"command": ["x"]}}}))
    stage.begin(found)
    stage.started()
    stage.see(deleted(found, at=stage.now, grace=30))
    stage.passes(31)
    assert stage.last(machine_events.Stop).grace_s == 2
    stage.hooked("preStop")
    assert len([one for one in stage.sent if isinstance(one, machine_events.Stop)]) == 1


def test_a_pod_deleted_while_it_starts_is_stopped_as_soon_as_it_runs(stage: Stage) -> None:
    found = pod()
    stage.begin(found)
    stage.see(deleted(found, at=stage.now, grace=10))
    assert not [one for one in stage.sent if isinstance(one, machine_events.Stop)]
    stage.now += 2
    stage.started()
    assert stage.last(machine_events.Stop).grace_s == 8


def test_a_pod_deleted_before_anything_ran_is_confirmed_at_once(stage: Stage) -> None:
    found = pod()
    stage.see(found)
    out = stage.see(deleted(found, at=stage.now, grace=30))
    assert machine_events.ConfirmDeletion(uid=stage.uid) in out
    assert stage.starts() == []


def test_a_pod_that_vanished_is_stopped_and_forgotten(stage: Stage) -> None:
    stage.begin(pod(terminationGracePeriodSeconds=7))
    stage.started()
    out = stage.send(machine_events.PodGone, uid=stage.uid)
    assert stage.last(machine_events.Stop).grace_s == 7
    assert not [one for one in out if isinstance(one, machine_events.WriteStatus)]
    out = stage.exited(code=143)
    assert machine_events.CleanUp(uid=stage.uid, logs=True) in out
    assert stage.machine.pod(stage.uid) is None


def test_a_pod_past_its_deadline_fails(stage: Stage) -> None:
    stage.begin(pod(activeDeadlineSeconds=60))
    stage.started()
    stage.passes(59)
    assert stage.status["phase"] == "Running"
    stage.passes(1)
    assert stage.last(machine_events.Stop).grace_s == 30
    stage.exited(code=143)
    assert (stage.status["phase"], stage.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_failed_volumes_are_retried_and_reported(stage: Stage) -> None:
    stage.see(pod())
    stage.send(machine_events.VolumesFailed, uid=stage.uid, message='configmap "x" not found')
    assert "FailedMount" in stage.told()
    stage.passes(10)
    assert len([one for one in stage.sent if isinstance(one, machine_events.PrepareVolumes)]) == 2
    stage.send(machine_events.VolumesReady, uid=stage.uid)
    assert stage.starts() == ["c"]


def test_a_container_that_cannot_be_started_says_why_and_is_tried_again(stage: Stage) -> None:
    stage.begin(pod())
    run = stage.running.pop((stage.uid, "c"))
    reason, message = "CreateContainerConfigError", 'secret "s" not found'
    stage.send(machine_events.StartFailed, uid=stage.uid, container="c", run=run, reason=reason, message=message)
    assert stage.state()["state"]["waiting"] == {"reason": reason, "message": message}
    stage.passes(10)
    assert stage.starts() == ["c", "c"]


def test_a_pod_that_does_not_fit_is_refused_without_having_run() -> None:
    stage = Stage(allocatable={"cpu": 1000, "memory": 2**30, "pods": 10})
    big = container("c", resources={"requests": {"cpu": "600m"}})
    stage.begin(pod(big))
    stage.uid = "uid-q"
    out = stage.see(pod(big, name="q"))
    assert (stage.status["phase"], stage.status["reason"]) == ("Failed", "OutOfcpu")
    assert not [one for one in out if isinstance(one, machine_events.PrepareVolumes)]


@pytest.mark.parametrize(("resource", "phase"), [("example.com/dongle", "Pending"), ("rota.dev/batch-cpu", "Failed")])
def test_a_resource_that_a_client_advertised_on_the_node_is_counted_by_the_scheduler(resource: str, phase: str) -> None:
    stage = Stage(allocatable={"cpu": 1000, "memory": 2**30, "pods": 10})
    stage.see(pod(container("c", resources={"requests": {resource: "1"}, "limits": {resource: "1"}})))
    assert stage.status.get("phase", "Pending") == phase


def test_readiness_gates_of_others_hold_the_pod_back(stage: Stage) -> None:
    found = pod(readinessGates=[{"conditionType": "example.com/open"}])
    stage.begin(found)
    stage.started()
    assert stage.condition("Ready") == ("False", "ReadinessGatesNotReady")
    assert stage.condition("ContainersReady") == ("True", "")
    opened = {"conditions": [{"type": "example.com/open", "status": "True"}]}
    stage.see({**found, "status": opened})
    assert stage.condition("Ready") == ("True", "")
    assert stage.condition("example.com/open") == ("True", "")


def test_a_pod_that_takes_too_much_has_to_go(stage: Stage) -> None:
    stage.begin(pod(restartPolicy="Always"))
    stage.started()
    stage.send(machine_events.Exceeded, uid=stage.uid, message="too much")
    assert stage.last(machine_events.Stop).grace_s <= 1
    stage.exited(code=143)
    assert (stage.status["phase"], stage.status["reason"], stage.status["message"]) == ("Failed", "Evicted", "too much")
    assert "Evicted" in stage.told()
    stage.send(machine_events.Exceeded, uid=stage.uid, message="again")
    assert stage.told().count("Evicted") == 1


def test_a_task_that_is_over_before_anybody_could_say_so_was_started_all_the_same(stage: Stage) -> None:
    stage.begin(pod(restartPolicy="Never"))
    run = stage.running[stage.uid, "c"]
    stage.exited()
    stage.send(machine_events.Started, uid=stage.uid, container="c", run=run, id=f"c-{run}")
    assert stage.told().count("Started") == 1
    assert stage.status["phase"] == "Succeeded"
