"""What became of a task, as its pod tells it."""

import json
from typing import Any

import pytest

from rota.python import failures, outcomes, task_runner
from rota.python.outcomes import Outcome, Raised, Returned

KEY = "key"


def _pod(*, message: str = "", code: int | None = 0, reason: str = "", **status: Any) -> dict[str, Any]:
    ended = {"message": message, "reason": reason, **({} if code is None else {"exitCode": code})}
    return {
        "metadata": {"name": "add-1"},
        "spec": {"nodeName": "worker-1"},
        "status": {"containerStatuses": [{"name": "main", "state": {"terminated": ended}}], **status},
    }


def _left(kind: str, text: str, key: str = KEY, **more: str) -> str:
    return json.dumps({kind: text, "mac": task_runner.sign(key, kind, text), **more})


def _of(pod: dict[str, Any]) -> Outcome:
    return outcomes.of_pod(pod, task="add-1", key=KEY)


def test_a_signed_value_is_what_it_returned() -> None:
    assert _of(_pod(message=_left("result", "42"))) == Returned("42")


def test_a_signed_error_is_what_it_raised() -> None:
    message = _left("error", "{}", message="ValueError: x")
    assert _of(_pod(message=message, code=1)) == Raised("{}", "ValueError: x")


@pytest.mark.parametrize(
    "message", [_left("result", "42", key="another"), '{"result": "42"}', '{"result":"1","mac":""}']
)
def test_what_is_not_signed_by_the_task_is_never_read(message: str) -> None:
    found = _of(_pod(message=message))
    assert isinstance(found, failures.NoResult)
    assert "its signature is wrong" in str(found)


_DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "message": "the node is drained"}]


@pytest.mark.parametrize(
    ("pod", "kind", "said"),
    [
        (_pod(code=137, reason="OOMKilled"), failures.OutOfMemory, "give it more with memory="),
        (_pod(code=137, reason="Error"), failures.TaskDied, "ended by SIGKILL on worker-1"),
        (_pod(code=3, reason="Error"), failures.TaskDied, "ended with code 3"),
        (_pod(code=200, reason="Error"), failures.TaskDied, "with code 200"),
        (_pod(code=0), failures.NoResult, "or its result was lost"),
        (_pod(code=0, message=_left("problem", "it called sys.exit(0)")), failures.NoResult, "called sys.exit(0)"),
        (_pod(code=3, message=_left("problem", "it called sys.exit(3)")), failures.TaskDied, "called sys.exit(3)"),
        (_pod(code=143, conditions=_DISRUPTED), failures.Evicted, "the node is drained"),
        (_pod(code=78, message="rota: there is no Python at /x"), failures.WrongEnvironment, "no Python at /x"),
        (_pod(code=78, message=_left("problem", "an old Python")), failures.WrongEnvironment, "add-1: an old Python"),
        (_pod(code=79, message=_left("problem", "too large")), failures.NoResult, "too large"),
        (_pod(code=None, message="no such program"), failures.TaskDied, "was not started on worker-1: no such program"),
        (_pod(code=1, message="{broken"), failures.TaskDied, "with code 1"),
    ],
)
def test_every_other_end_has_a_type_and_says_where(pod: dict[str, Any], kind: type, said: str) -> None:
    found = _of(pod)
    assert type(found) is kind
    assert said in str(found)


def test_a_task_that_took_too_long_is_a_timeout() -> None:
    pod = _pod(code=137)
    pod["status"]["reason"] = "DeadlineExceeded"
    found = _of(pod)
    assert isinstance(found, failures.TimedOut)
    assert not isinstance(found, TimeoutError), "a wait that is too short is another thing"
    assert (found.task, found.node, found.exit_code) == ("add-1", "worker-1", 137)
