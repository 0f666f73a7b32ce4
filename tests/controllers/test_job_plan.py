"""Laws of what a Job does next, whatever its pods are like."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import meta, times
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.jobs import plan
from rota.controllers.jobs.indexes import Indexes
from rota.controllers.jobs.job_accounting import FINALIZER, INDEX, account, accounted_uids, index_of, is_tracked, tally
from rota.controllers.jobs.plan import Backoff

NOW = 1_700_000_000.0


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Object, list[Object]]:
    """A Job in the middle of its life, with pods in all states."""
    indexed = draw(st.booleans())
    completions = draw(st.integers(1, 6)) if indexed or draw(st.booleans()) else None
    spec: dict[str, Any] = {
        "parallelism": draw(st.integers(0, 6)),
        "completions": completions,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "backoffLimit": draw(st.integers(0, 6)),
        "suspend": draw(st.sampled_from([False, False, True])),
        "podReplacementPolicy": draw(st.sampled_from(["Failed", "TerminatingOrFailed"])),
        "template": {"spec": {"restartPolicy": "Never"}},
    }
    if indexed and draw(st.booleans()):
        spec["backoffLimitPerIndex"] = draw(st.integers(0, 2))
    pods = [draw(_pods(number, completions if indexed else None)) for number in range(draw(st.integers(0, 8)))]
    tracked = [meta.uid(one) for one in pods if is_tracked(one)]
    status: dict[str, Any] = {"uncountedTerminatedPods": {}}
    if tracked and not indexed:
        ended = [one for one in pods if is_tracked(one) and pod_states.phase(one) == "Succeeded"]
        status["uncountedTerminatedPods"] = {"succeeded": [meta.uid(one) for one in ended[:1]]}
    if indexed and completions is not None:
        done = Indexes.of(draw(st.frozensets(st.integers(0, completions - 1))))
        status |= {"completedIndexes": str(done), "succeeded": len(done)}
    return {"metadata": {"name": "j", "uid": "job"}, "spec": spec, "status": status}, pods


@st.composite
def _pods(draw: st.DrawFn, number: int, completions: int | None) -> Object:
    phase = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
    metadata: dict[str, Any] = {
        "name": f"p{number}",
        "uid": f"u{number}",
        "creationTimestamp": times.format_time(NOW - draw(st.integers(0, 1000))),
        "finalizers": draw(st.sampled_from([[FINALIZER], [FINALIZER], []])),
    }
    if draw(st.sampled_from([False, False, True])):
        metadata["deletionTimestamp"] = times.format_time(NOW)
    if completions is not None:
        metadata["annotations"] = {INDEX: str(draw(st.integers(0, completions)))}
    conditions = [{"type": "DisruptionTarget", "status": draw(st.sampled_from(["True", "False"]))}]
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": conditions}}


@pytest.mark.slow
@given(jobs())
def test_no_more_pods_run_than_may_and_no_index_twice(drawn: tuple[Object, list[Object]]) -> None:
    job, pods = drawn
    view = tally(job, pods)
    changes = plan.changes(view, Backoff(), now=NOW)
    after = len(view.active) - len(changes.given_up) + len(changes.made)
    assert not (changes.made and changes.given_up)
    if job["spec"]["suspend"]:
        assert after == 0
        return
    seen_success = job["spec"]["completions"] is None and view.succeeded
    assert seen_success or after <= max(job["spec"]["parallelism"], len(view.active) if changes.given_up else 0)
    if job["spec"]["completionMode"] == "Indexed":
        made = [index for index in changes.made if index is not None]
        assert len(set(made)) == len(made) == len(changes.made)
        running = {index_of(one) for one in view.active}
        assert not set(made) & running
        assert all(one not in view.succeeded_indexes and one not in view.failed_indexes for one in made)
        assert all(one < job["spec"]["completions"] for one in made)


@pytest.mark.slow
@given(jobs(), st.sampled_from(["", "FailureTarget", "SuccessCriteriaMet"]))
def test_every_end_is_written_down_once_before_its_pod_may_go(drawn: tuple[Object, list[Object]], ending: str) -> None:
    job, pods = drawn
    view = tally(job, pods)
    accounts = account(view, job["status"], ending=ending)
    uncounted = accounts.status["uncountedTerminatedPods"]
    written = [*uncounted.get("succeeded", ()), *uncounted.get("failed", ())]
    assert len(set(written)) == len(written)
    released = {meta.uid(one) for one in accounts.released}
    assert released <= {meta.uid(one) for one in pods if is_tracked(one)}
    for one in accounts.released:
        ended_well = pod_states.phase(one) == "Succeeded"
        if job["spec"]["completionMode"] == "NonIndexed":
            assert (meta.uid(one) in uncounted.get("succeeded", ())) == ended_well
        elif ended_well and (index := index_of(one)) is not None and index < job["spec"]["completions"]:
            assert index in Indexes.parse(accounts.status.get("completedIndexes", ""), below=100)
    # Who comes back after the pods were let go, or some of them, finds the same sum.
    for gone in (released, set(sorted(released)[::2]), set[str]()):
        left = {meta.uid(one) for one in pods if is_tracked(one)} - gone
        booked = accounted_uids(accounts.status, left)
        for name in ("succeeded", "failed"):
            before = accounts.status.get(name, 0) + len(uncounted.get(name, ()))
            assert booked.get(name, 0) + len(booked["uncountedTerminatedPods"].get(name, ())) == before


@pytest.mark.slow
@given(jobs())
def test_a_round_after_a_round_finds_nothing_new_to_write_down(drawn: tuple[Object, list[Object]]) -> None:
    job, pods = drawn
    first = account(tally(job, pods), job["status"], ending="")
    released = {meta.uid(one) for one in first.released}
    status = accounted_uids(first.status, {meta.uid(one) for one in pods if is_tracked(one)} - released)
    later = [
        {**one, "metadata": {**one["metadata"], "finalizers": []}} if meta.uid(one) in released else one for one in pods
    ]
    again = account(tally({**job, "status": status}, later), status, ending="")
    assert again.status == status
    assert again.released == ()
