"""extender: a program outside answers over HTTP for the methods whose verbs are configured.

A request is a POST of a JSON object to `extender.urlPrefix`/verb. Names in requests and answers are those of Volcano's
extenders, for the fields that a session has. A failed request is a refusal (no node, no victim, not let in), unless
`extender.ignorable` says that the extender counts as absent. `extender.managedResources` limits the calls about nodes
to pods that ask for one of these resources.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import CPU, MEMORY, PODS, Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Victims, Vote
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

_URL: Final = "extender.urlPrefix"
_TIMEOUT: Final = "extender.httpTimeout"
_IGNORABLE: Final = "extender.ignorable"
_RESOURCES: Final = "extender.managedResources"
#: By method of this plugin, the argument with its verb.
VERBS: Final = {
    "open": "extender.onSessionOpenVerb",
    "close": "extender.onSessionCloseVerb",
    "predicate": "extender.predicateVerb",
    "node_order": "extender.prioritizeVerb",
    "preemptable": "extender.preemptableVerb",
    "reclaimable": "extender.reclaimableVerb",
    "overused": "extender.queueOverusedVerb",
    "job_enqueueable": "extender.jobEnqueueableVerb",
    "job_ready": "extender.jobReadyVerb",
    "on_allocate": "extender.allocateFuncVerb",
    "on_deallocate": "extender.deallocateFuncVerb",
}
#: Answers about victims and admission: above 0 is a permission, below 0 a rejection, 0 an abstention.
_ABSTAINS: Final = 0


def address(value: Any) -> str:
    """Read an address of a program."""
    text = args.text(value)
    if not text.startswith(("http://", "https://")):
        raise ValueError("expected an address that begins with http:// or https://")
    return text.rstrip("/")


def verb(value: Any) -> str:
    """Read the last part of an address."""
    return args.text(value).strip("/")


class Extender(BatchPlugin):
    """Ask a program outside."""

    name: ClassVar[str] = "extender"
    arguments: ClassVar[Mapping[str, Argument]] = {
        _URL: Argument(address, ""),
        _TIMEOUT: Argument(args.seconds, 1.0),
        _IGNORABLE: Argument(args.boolean, False),
        _RESOURCES: Argument(args.text, ""),
        **{argument: Argument(verb, "") for argument in VERBS.values()},
    }
    required: ClassVar[tuple[str, ...]] = (_URL,)

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session: Final = session
        self._url: Final[str] = arguments[_URL]
        self._timeout: Final[float] = arguments[_TIMEOUT]
        self._ignorable: Final[bool] = arguments[_IGNORABLE]
        self._managed: Final = frozenset(filter(None, (one.strip() for one in arguments[_RESOURCES].split(","))))
        self._verbs: Final = {method: arguments[argument] for method, argument in VERBS.items()}

    def offers(self, method: str) -> bool:
        """Whether the method has a verb."""
        return bool(self._verbs.get(method))

    # --- sessions ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Announce the session, if a verb is configured."""
        session = self._session
        if self._verbs["open"]:
            self._tell(
                "open",
                {
                    "jobs": {key: _job(job) for key, job in session.jobs.items()},
                    "nodes": {name: self._node(row) for name, row in session.nodes.rows.items()},
                    "queues": {name: _queue(queue) for name, queue in session.queues.items()},
                },
            )

    def close(self) -> None:
        """Announce the end of the session, if a verb is configured."""
        if self._verbs["close"]:
            self._tell("close", {})

    # --- nodes ------------------------------------------------------------------------------------------------------

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Ask about each node."""
        if not self._manages(task):
            return None
        verdicts = Verdicts(len(rows))
        for row in np.flatnonzero(rows).tolist():
            said = self._answer("predicate", {"task": _task(task), "node": self._node(row)})
            reason = "the extender gave no answer" if said is None else str(said.get("errorMessage") or "")
            if reason and not (said is None and self._ignorable):
                mask = np.zeros(len(rows), dtype=np.bool_)
                mask[row] = True
                verdicts.refuse(mask, Code.UNSCHEDULABLE, reason)
        return verdicts if verdicts.reasons else None

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Ask about all nodes at once; without an answer, they are equal."""
        names = [self._session.nodes.names[row] for row in rows.tolist()]
        if not self._manages(task):
            return np.zeros(len(rows))
        said = self._answer("node_order", {"task": _task(task), "nodes": [self._node(row) for row in rows.tolist()]})
        scores = (said or {}).get("nodeScore")
        if not isinstance(scores, dict):
            return np.zeros(len(rows))
        return np.array([_number(scores.get(name)) for name in names])

    def _manages(self, task: Task) -> bool:
        return not self._managed or not self._managed.isdisjoint(task.request.names())

    # --- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Ask which pods may be evicted for a pod of their queue."""
        return self._victims("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """Ask which pods may be evicted for a pod of another queue."""
        return self._victims("reclaimable", reclaimer, candidates)

    def _victims(self, method: str, evictor: Task, candidates: list[Task]) -> Victims:
        said = self._answer(method, {"evictor": _task(evictor), "evictees": [_task(each) for each in candidates]})
        if said is None:
            return None if self._ignorable else []
        if said.get("status", 0) == _ABSTAINS:
            return None
        named = {_uid(each) for each in said.get("victims") or ()}
        return [task for task in candidates if task.uid in named]

    # --- groups and queues ------------------------------------------------------------------------------------------

    def job_enqueueable(self, job: Job) -> Vote:
        """Ask whether a group is let in."""
        said = self._answer("job_enqueueable", {"job": _job(job)})
        if said is None:
            return Vote.PERMIT if self._ignorable else Vote.REJECT
        status = _number(said.get("status"))
        return Vote.PERMIT if status > 0 else Vote.REJECT if status < 0 else Vote.ABSTAIN

    def job_ready(self, job: Job) -> bool:
        """Ask whether a group may be bound."""
        said = self._answer("job_ready", {"job": _job(job)})
        return self._ignorable if said is None else bool(said.get("status"))

    def overused(self, queue: Queue) -> bool:
        """Ask whether a queue has its share."""
        said = self._answer("overused", {"queue": _queue(queue)})
        return not self._ignorable if said is None else bool(said.get("overused"))

    def on_allocate(self, task: Task) -> None:
        """Report a place."""
        self._tell("on_allocate", {"task": _task(task)})

    def on_deallocate(self, task: Task) -> None:
        """Report that a place was given up."""
        self._tell("on_deallocate", {"task": _task(task)})

    # --- requests ---------------------------------------------------------------------------------------------------

    def _tell(self, method: str, body: Mapping[str, Any]) -> None:
        """Send a report; the answer may be empty."""
        self._post(method, body)

    def _answer(self, method: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Give the answer; None if there was none that can be read."""
        raw = self._post(method, body)
        try:
            said = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            return None
        return said if isinstance(said, dict) else None

    def _post(self, method: str, body: Mapping[str, Any]) -> bytes:
        ask = self._session.state.ask
        if ask is None:
            return b""
        try:
            return ask(f"{self._url}/{self._verbs[method]}", msgspec.json.encode(body), self._timeout)
        except OSError:
            return b""

    def _node(self, row: int) -> dict[str, Any]:
        nodes = self._session.nodes
        tables = {
            "Idle": nodes.idle,
            "Used": nodes.used,
            "Releasing": nodes.releasing,
            "Pipelined": nodes.pipelined,
            "Allocatable": nodes.allocatable,
        }
        name = nodes.names[row]
        return {
            "Name": name,
            **{field: _resource(nodes.amounts(table, row)) for field, table in tables.items()},
            "Node": {"metadata": {"name": name, "labels": dict(nodes.labels[row])}},
        }


def _task(task: Task) -> dict[str, Any]:
    request = _resource(task.request)
    metadata = {
        "name": task.name,
        "namespace": task.namespace,
        "uid": task.uid,
        "labels": dict(task.labels),
        "annotations": dict(task.annotations),
    }
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node,
        "Status": task.status.value,
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.best_effort,
        "RevocableZone": task.revocable_zone,
        "Pod": {"metadata": metadata},
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "UID": job.key,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "Allocated": _resource(job.allocated),
        "Tasks": {task.uid: _task(task) for task in job.members.values()},
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {"UID": queue.name, "Name": queue.name, "Weight": queue.weight}


def _resource(amounts: Amounts) -> dict[str, Any]:
    scalars = {name: amount for name, amount in amounts.items() if name not in (CPU, MEMORY, PODS)}
    found: dict[str, Any] = {"MilliCPU": amounts.cpu, "Memory": amounts.memory}
    if scalars:
        found["ScalarResources"] = scalars
    return found


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _uid(task: Any) -> str:
    return str(task.get("UID") or "") if isinstance(task, dict) else ""
