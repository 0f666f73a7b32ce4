"""The state of a queue: open, closing while it still holds groups, closed. Pure.

Closing a queue closes those below it; they remember that, and open again with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.api import meta
from rota.api.batch import kinds, policies
from rota.api.batch.queue_rules import CLOSED, CLOSING, OPEN
from rota.api.meta import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a queue."""

    state: str
    #: Annotations to set, or with None to remove.
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    #: Commands for the queues below.
    below: Mapping[str, str] = field(default_factory=dict)
    #: Why a command was not carried out.
    refusal: str = ""


def state_of(queue: Object | None) -> str:
    """The state of a queue; a new one is open."""
    return str(((queue or {}).get("status") or {}).get("state") or OPEN)


def change(queue: Object, action: str, queues: Mapping[str, Object], *, groups: int, by_parent: bool) -> Change:
    """What follows from a command, or without one from the number of groups.

    `by_parent` says that the command came with one for the parent.
    """
    name, state = meta.name(queue), state_of(queue)
    mark = meta.annotations(queue).get(kinds.CLOSED_BY_PARENT) == "true"
    children = [one for one in queues.values() if (one.get("spec") or {}).get("parent") == name]
    if action == policies.OPEN_QUEUE:
        parent = (queue.get("spec") or {}).get("parent") or ""
        if parent and state_of(queues.get(parent)) != OPEN:
            why = f"queue {parent} above it is {state_of(queues.get(parent))}: open that first"
            return Change(state=state, refusal=why)
        opened = {
            meta.name(one): action for one in children if meta.annotations(one).get(kinds.CLOSED_BY_PARENT) == "true"
        }
        return Change(state=OPEN, annotations={kinds.CLOSED_BY_PARENT: None} if mark else {}, below=opened)
    if action == policies.CLOSE_QUEUE:
        if name == kinds.ROOT_QUEUE:
            return Change(state=state, refusal="the root queue cannot be closed")
        closed = {meta.name(one): action for one in children if state_of(one) == OPEN}
        marks = {kinds.CLOSED_BY_PARENT: "true"} if by_parent and not mark else {}
        return Change(state=CLOSING if groups else CLOSED, annotations=marks, below=closed)
    if state == CLOSING and not groups:
        return Change(state=CLOSED)
    return Change(state=CLOSING if state == CLOSED and groups else state)


def counts(groups: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Groups by phase, in the names of upstream's metrics."""
    found = dict.fromkeys(("pending", "inqueue", "running", "unknown", "completed"), 0)
    for one in groups:
        phase = str((one.get("status") or {}).get("phase") or "Pending").lower()
        found[phase if phase in found else "unknown"] += 1
    return found
