"""The result of a task, from its pod. Pure.

A task leaves a few signed lines in its pod's status: a value, an exception, or why it could not run. Without them, the
pod's status says how it ended. Only `raised` unpickles, and only what was
authenticated before.
"""

import hmac
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.api.meta import Object
from rota.python import task_runner
from rota.python.failures import (
    Evicted,
    NoResult,
    OutOfMemory,
    RemoteError,
    RemoteTraceback,
    TaskDied,
    TaskLost,
    TimedOut,
    WrongEnvironment,
)

_KINDS: Final = ("result", "error", "problem")
_BY_SIGNAL: Final = 128
#: Exceptions by the exit codes of a task that reports itself why it has no result.
_KIND_OF_PROBLEM: Final[Mapping[int | None, type[TaskLost]]] = {
    0: NoResult,
    task_runner.HOPELESS: WrongEnvironment,
    task_runner.UNSENDABLE: NoResult,
}


@dataclass(frozen=True, slots=True)
class Returned:
    """It returned the value that the text encodes."""

    text: str


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised an exception: the text encodes its record; and a summary in one line."""

    text: str
    message: str


Outcome: TypeAlias = Returned | Raised | TaskLost


def of_pod(pod: Object, *, task: str, key: str) -> Outcome:
    """The result of a task whose pod has ended; `key` is that of its signature."""
    status = pod.get("status") or {}
    ended = _ended(status)
    left = _left(str(ended.get("message") or ""))
    more: dict[str, Any] = {"task": task, "node": (pod.get("spec") or {}).get("nodeName") or ""}
    code = ended.get("exitCode")
    more["exit_code"] = code if isinstance(code, int) else None
    kind = next((one for one in _KINDS if isinstance(left.get(one), str)), "")
    if not kind:
        return _by_its_end(pod, status, ended, more)
    if not hmac.compare_digest(task_runner.sign(key, kind, left[kind]), str(left.get("mac") or "")):
        return NoResult(f"what {task} has left was not written by it: its signature is wrong", **more)
    if kind == "result":
        return Returned(left["result"])
    if kind == "error":
        return Raised(left["error"], str(left.get("message") or ""))
    return _KIND_OF_PROBLEM.get(code, TaskDied)(f"{task}: {left['problem']}", **more)


def why_waiting(pod: Object) -> str:
    """Why a pod does not run yet; empty if there is no message."""
    scheduled = meta.condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return str(waiting["message"])
    return ""


def _by_its_end(pod: Object, status: Mapping[str, Any], ended: Mapping[str, Any], more: Mapping[str, Any]) -> TaskLost:
    task, code = more["task"], more["exit_code"]
    on = f" on {more['node']}" if more["node"] else ""
    reason = str(ended.get("reason") or "")
    said = str(ended.get("message") or status.get("message") or "").strip()
    tail = f": {said[-500:]}" if said else ""
    if reason == "OOMKilled":
        return OutOfMemory(f"{task} used more memory than it asked for{on}; give it more with memory=...", **more)
    if status.get("reason") == "DeadlineExceeded":
        return TimedOut(f"{task} ran for longer than its timeout{on}", **more)
    if disruption := _disruption(pod, status):
        return Evicted(f"{task} was taken from its node{on}: {disruption}", **more)
    if code == task_runner.HOPELESS:
        return WrongEnvironment(f"{task}{on}{tail}", **more)
    if code == 0:
        return NoResult(
            f"{task} ended{on} with code 0 and there is no result: either the function ended its process by os._exit, "
            f"or its result was lost; submit it again, or see `rota logs job/{task}`",
            **more,
        )
    if code is None or reason == "StartError":
        return TaskDied(f"{task} was not started{on}{tail}", **more)
    return TaskDied(f"{task} ended {_how(code)}{on} before its function returned{tail}", **more)


def _how(code: int) -> str:
    if code > _BY_SIGNAL:
        try:
            return f"by {signal.Signals(code - _BY_SIGNAL).name}"
        except ValueError:
            pass
    return f"with code {code}"


def _disruption(pod: Object, status: Mapping[str, Any]) -> str:
    found = meta.condition(pod, "DisruptionTarget")
    if found is not None and found.get("status") == "True":
        return str(found.get("message") or found.get("reason") or "a disruption")
    return str(status.get("message") or "Evicted") if status.get("reason") == "Evicted" else ""


def _ended(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for one in status.get("containerStatuses") or ():
        found: Mapping[str, Any] = (one.get("state") or {}).get("terminated") or {}
        if found:
            return found
    return {}


def _left(message: str) -> dict[str, Any]:
    if not message.startswith("{"):
        return {}
    try:
        found = json.loads(message)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def raised(record: Mapping[str, str]) -> BaseException:
    """A task's exception, with the remote traceback as its cause. Unpickles: only for an authenticated record."""
    problem: BaseException
    try:
        if "exception_state" in record:
            problem = task_runner.rebuilt(task_runner.read(record["exception_state"]))
        else:
            problem = task_runner.read(record["exception"])
    except Exception:  # noqa: BLE001 - it was not sent, or its type is not here
        problem = RemoteError(f"{record['type']}: {record['message']}", type_name=record["type"])
    problem.__cause__ = RemoteTraceback(record["traceback"])
    return problem
