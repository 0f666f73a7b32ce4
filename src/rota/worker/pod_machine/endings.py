"""How a run of a container ended: by the runtime's event, by a run that was found, or by a stored status. Pure."""

from typing import Any

from rota.api import times
from rota.worker.pod_machine import containers as parts
from rota.worker.pod_machine import machine_events
from rota.worker.pod_machine.containers import Container, Ending
from rota.worker.pod_machine.machine_events import Object


def of_exit(event: machine_events.Exited, container: Container | None) -> Ending:
    """The ending of a run, from the runtime's event."""
    return Ending(
        code=event.code,
        signal=event.signal,
        reason=_reason(event.code, oom=event.oom, lost=event.lost),
        message=event.message,
        id=container.id if container is not None else "",
        started_at=container.started_at if container is not None and container.started_at else event.now,
        finished_at=event.now,
    )


def of_found_run(found: machine_events.FoundRun) -> Ending | None:
    """The ending of a run that was found; None while it runs."""
    if found.code is None:
        return None
    return Ending(
        code=found.code,
        signal=found.signal,
        reason=_reason(found.code, oom=found.oom, lost=found.lost),
        message=found.message,
        id=found.id,
        started_at=found.started_at,
        finished_at=found.finished_at,
    )


def of_status(status: Object) -> Ending | None:
    """The ending of a container's last run by its stored status; None if it has not run.

    A container that was running when its worker went away, and was not found again, ended in an unknown way.
    """
    state = status.get("state") or {}
    ended = state.get("terminated")
    if ended is None and state.get("running") is not None:
        message = "The container could not be located when its worker came back."
        ended = {"exitCode": parts.UNKNOWN_CODE, "reason": parts.UNKNOWN, "message": message}
    if ended is None:
        return None
    return Ending(
        code=ended.get("exitCode", parts.UNKNOWN_CODE),
        signal=ended.get("signal") or 0,
        reason=ended.get("reason") or parts.ERROR,
        message=ended.get("message") or "",
        started_at=time_of(ended.get("startedAt")),
        finished_at=time_of(ended.get("finishedAt")),
    )


def _reason(code: int, *, oom: bool, lost: bool) -> str:
    if lost:
        return parts.UNKNOWN
    if oom:
        return parts.OOM_KILLED
    return parts.COMPLETED if code == 0 else parts.ERROR


def time_of(text: Any) -> float | None:
    """A time of the API in seconds; None if there is none."""
    return times.parse(text) if text else None
