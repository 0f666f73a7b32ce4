"""Why a group waits, in one sentence with figures, and what would let it start.

Volcano leaves a group that its queue does not let in without a reason, and names refusals of nodes for the others. Here
the obstacles are looked at in the order in which a group meets them: the queue's admission, an older group of a strict
queue, the queue's share, the idle resources of all nodes, the idle resources of one node. The figures are those of the
end of a session. "Could start if" compares sums, so it is a hint and no promise: nodes may still refuse a pod.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from rota.api import times
from rota.scheduler.batch.amounts import EPSILON, MEMORY, PODS, UNLIMITED, Amounts
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task

_MIB: Final = 2**20
#: The plugins that limit queues, with the figure that a queue may not exceed when it places pods, and its name.
_SHARES: Final = {"proportion": ("deserved", "deserved share"), "capacity": ("limit", "limit")}
_PLANS: Final = "planned-start"
#: So many groups are looked at for one whose end would help.
_MOST_GROUPS: Final = 1000

#: By resource: how much more is needed, what is in use, and the bound.
_Lacking = dict[str, tuple[float, float, float]]


class WaitReasons:
    """The reasons of one session; figures that several groups need are computed once."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._figures: Final[dict[str, Mapping[str, Any]]] = {}
        self._first: Final[dict[str, str]] = {}
        self._running: Final[dict[str, list[tuple[str, Amounts]]]] = {}
        self._helpful: Final[dict[tuple[str, tuple[tuple[str, float], ...]], str]] = {}
        self._idle: Amounts | None = None

    def of(self, job: Job) -> str:
        """Give the reason; "" if the group runs, or if refusals of nodes are all that is known."""
        if job.is_ready:
            return ""
        if job.key in self._session.kept_out:
            return self._kept_out(job, self._session.kept_out[job.key])
        waiting = [task for task in job.of(TaskStatus.PENDING).values() if not task.gated and not task.best_effort]
        if not waiting:
            return ""
        reason = self._behind(job) or self._beyond_share(job, waiting) or self._without_room(job, waiting)
        plans = self._figures_of(_PLANS) if _PLANS in self._session.plugins else {}
        if job.key not in plans:
            return reason
        planned = f"planned to start at {times.format_time(plans[job.key]['start'])} at the latest"
        return f"{reason}; {planned}" if reason else f"waits, {planned}"

    # --- admission --------------------------------------------------------------------------------------------------

    def _kept_out(self, job: Job, plugin: str) -> str:
        if not self._session.queues[job.queue].open:
            return f"waits for queue {job.queue}, which is not open"
        if plugin == "overcommit":
            return (
                f"waits for idle resources: groups that were let in before need those that are left (plugin {plugin})"
            )
        for queue in self._path(job.queue):
            figures = self._figures_of(plugin).get(queue)
            lacking = {} if figures is None else _admission(job.minimum(), figures)
            if lacking:
                return self._in_queue(queue, lacking, "limit", "")
        return f"plugin {plugin} does not let it into queue {job.queue}"

    # --- queues -----------------------------------------------------------------------------------------------------

    def _behind(self, job: Job) -> str:
        queue = self._session.queues[job.queue]
        if not queue.fifo:
            return ""
        if queue.name not in self._first:
            before, first = self._session.order_in(queue), None
            for each in self._session.active.values():
                waits = each.queue == queue.name and not each.pending and not each.is_ready
                if waits and each.of(TaskStatus.PENDING) and (first is None or before(each, first)):
                    first = each
            self._first[queue.name] = job.key if first is None else first.key
        first_key = self._first[queue.name]
        return "" if first_key == job.key else f"waits behind {first_key}, the first in strict queue {queue.name}"

    def _beyond_share(self, job: Job, waiting: list[Task]) -> str:
        need = _need(job, waiting)
        for plugin, (figure, words) in _SHARES.items():
            if plugin not in self._session.plugins:
                continue
            for queue in self._path(job.queue):
                figures = self._figures_of(plugin).get(queue)
                lacking = {} if figures is None else self._own(_above(need, figures["allocated"], figures[figure]))
                if lacking:
                    return self._in_queue(queue, lacking, words, " deserved" if figure == "deserved" else "")
        return ""

    def _own(self, lacking: _Lacking) -> _Lacking:
        """Leave out what the whole cluster lacks: that is not up to the queue."""
        total = self._session.total
        return {name: figures for name, figures in lacking.items() if figures[2] < total.get(name) - EPSILON}

    def _in_queue(self, queue: str, lacking: _Lacking, words: str, adjective: str) -> str:
        said = "; ".join(
            f"{_shown(name, more)} more {name}: {_shown(name, taken)} of {_shown(name, bound)}{adjective} in use"
            for name, (more, taken, bound) in lacking.items()
        )
        helpful = self._whose_end_helps(queue, lacking)
        name, (more, _, bound) = next(iter(lacking.items()))
        hint = (
            f"{helpful} ended" if helpful else f"the {words} of queue {queue} were {_shown(name, bound + more)} {name}"
        )
        return f"waits in queue {queue} for {said}; could start if {hint}"

    def _path(self, queue: str) -> Iterable[str]:
        """Give a queue and those above it."""
        seen: set[str] = set()
        while queue in self._session.queues and queue not in seen:
            seen.add(queue)
            yield queue
            queue = self._session.queues[queue].parent

    def _figures_of(self, plugin: str) -> Mapping[str, Any]:
        if plugin not in self._figures:
            self._figures[plugin] = self._session.plugins[plugin].report()
        return self._figures[plugin]

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _without_room(self, job: Job, waiting: list[Task]) -> str:
        nodes = self._session.nodes
        if self._idle is None:
            self._idle = nodes.sum_over(np.maximum(nodes.idle, 0.0), np.flatnonzero(nodes.usable).tolist())
        lacking = _above(_need(job, waiting), {}, dict(self._idle.items()))
        if lacking:
            said = "; ".join(
                f"{_shown(name, more)} more {name}: {_shown(name, bound)} idle of {_shown(name, bound + more)} needed"
                for name, (more, _, bound) in lacking.items()
            )
            helpful = self._whose_end_helps("", lacking)
            return f"waits for {said}" + (f"; could start if {helpful} ended" if helpful else "")
        for task in waiting:
            for name in task.request.names():
                index = nodes.dimensions.get(name)
                most = 0.0 if index is None else float(nodes.idle[index].max(initial=0.0))
                if name != PODS and task.request.get(name) - most >= EPSILON:
                    wanted, left = _shown(name, task.request.get(name)), _shown(name, most)
                    return f"waits for a node with {wanted} {name} idle: the most on one node is {left}"
        return ""

    def _whose_end_helps(self, queue: str, lacking: _Lacking) -> str:
        """Give the smallest group, of a queue and those below it or of all, that has what is lacking; "" if none."""
        wanted = tuple((name, more) for name, (more, _, _) in lacking.items())
        key = queue, wanted
        if key not in self._helpful:
            first = wanted[0][0]
            enough = [
                (has.get(first), name)
                for name, has in self._groups_of(queue)
                if all(has.get(resource) - more > -EPSILON for resource, more in wanted)
            ]
            self._helpful[key] = min(enough)[1] if enough else ""
        return self._helpful[key]

    def _groups_of(self, queue: str) -> list[tuple[str, Amounts]]:
        if queue not in self._running:
            found = []
            for job in self._session.jobs.values():
                if not job.allocated.empty and (not queue or queue in self._path(job.queue)):
                    found.append((job.key, job.allocated))
                    if len(found) == _MOST_GROUPS:
                        break
            self._running[queue] = found
        return self._running[queue]


def _need(job: Job, waiting: list[Task]) -> Amounts:
    """What the pods ask for that a group still lacks to run."""
    need = Amounts()
    for task in waiting[: max(job.min_available - job.ready, 1)]:
        need.add(task.request)
    return need


def _above(need: Amounts, taken: Mapping[str, float], bound: Mapping[str, float]) -> _Lacking:
    found: _Lacking = {}
    for name in need.names():
        used, most = taken.get(name, 0.0), bound.get(name, 0.0)
        if name != PODS and most < UNLIMITED and (more := need.get(name) + used - most) >= EPSILON:
            found[name] = more, used, most
    return found


def _admission(wanted: Amounts, figures: Mapping[str, Mapping[str, float]]) -> _Lacking:
    """What a queue lacks to let a group in: what is allocated or promised, less what may be taken back, counts."""
    taken = {
        name: figures["allocated"].get(name, 0.0)
        + figures["inqueue"].get(name, 0.0)
        - figures["elastic"].get(name, 0.0)
        for name in wanted.names()
    }
    return _above(wanted, taken, figures["limit"])


def _shown(name: str, amount: float) -> str:
    if name == MEMORY:
        return f"{amount / _MIB:g} MiB"
    return f"{amount / 1000:g}"
