"""allocate: groups get places, and are bound as soon as they can start.

Queues take turns, and so do the groups of a queue: a group that has its minimum and wants more goes back into line. A
group that asks for nearness is tried in every domain that comes into question, and the best trial is made again.
"""

from collections import Counter
from typing import ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray
from rota.columns.pods import PodShape
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.actions import worksheets
from rota.scheduler.batch.actions.worksheets import Worksheet
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.batch.heaps import KeyedQueue, PriorityQueue
from rota.scheduler.batch.hypernodes import CLUSTER, HyperNode
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.plugin import Purpose
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statements import Operation, Statement, save
from rota.scheduler.batch.statuses import PodGroupPhase, TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import ErrorCache

ERROR_CACHE: Final = {"predicateErrorCacheEnable": Argument(args.boolean, True)}


class Allocate:
    """Places for groups that were let in."""

    name: ClassVar[str] = "allocate"
    arguments: ClassVar[dict[str, Argument]] = dict(ERROR_CACHE)

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._cached: Final[bool] = session.configuration.arguments[self.name]["predicateErrorCacheEnable"]
        #: By group and domain of the group, where its sub-groups went.
        self._decisions: dict[tuple[str, str], dict[str, str]] = {}
        #: Shapes of pods that found no node. Nodes only fill up while this action runs, so no pod like them finds one.
        self._hopeless: Final[dict[PodShape, FitErrors]] = {}

    def run(self) -> None:
        """Place what can be placed."""
        session = self._session
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        waiting: dict[str, PriorityQueue[Job] | KeyedQueue[Job]] = {}
        sheets: dict[str, Worksheet] = {}
        admits = "enqueue" in session.configuration.actions
        for job in session.active.values():
            if job.pending:
                if admits:
                    continue
                session.let_in(job)
            queue = session.queues[job.queue]
            holds = queue.fifo and job.phase is PodGroupPhase.INQUEUE and not job.is_ready
            if not session.valid(job) or (job.with_topology and not session.hypernodes.ready):
                if not holds:
                    continue
                sheet = worksheets.nothing(session)
            else:
                sheet = worksheets.organize(session, job, _placeable)
            if sheet.empty and not holds:
                continue
            sheets[job.key] = sheet
        self._serve_expected(sheets)
        for job in map(session.jobs.__getitem__, sheets):
            if job.queue not in waiting:
                queue = session.queues[job.queue]
                waiting[job.queue] = session.line(queue)
                queues.push(queue)
            waiting[job.queue].push(job)
        self._serve_queues(queues, waiting, sheets)

    def _serve_expected(self, sheets: dict[str, Worksheet]) -> None:
        """Let groups begin that pods were evicted for in an earlier pass; otherwise others might take the room.

        In Volcano they can. A queue with a strict order keeps it. A group that has begun gets further pods in its turn.
        """
        session = self._session
        made_room = session.state.made_room or {}
        for key in [key for key in made_room if key in sheets]:
            job = session.jobs[key]
            queue = session.queues[job.queue]
            if session.ready(job) or queue.fifo or session.overused(queue) or self._serve(job, sheets[key]):
                continue
            del sheets[key]
            if not session.ready(job):
                session.refused(job)
                if not job.of(TaskStatus.PIPELINED):  # the room is lost: the group may evict again
                    del made_room[key]

    def _serve_queues(
        self,
        queues: PriorityQueue[Queue],
        waiting: dict[str, PriorityQueue[Job] | KeyedQueue[Job]],
        sheets: dict[str, Worksheet],
    ) -> None:
        """Let one group after the other have its turn; the order of queues is looked at again after each."""
        session = self._session
        while len(queues):
            queue = queues.pop()
            jobs = waiting[queue.name]
            if session.overused(queue) or not len(jobs):
                continue
            job = jobs.pop()
            if self._serve(job, sheets[job.key]):
                jobs.push(job)
            elif not session.ready(job):
                session.refused(job)
                if queue.fifo:  # the first group waits, and so do all behind it
                    continue
            queues.push(queue)

    def _serve(self, job: Job, sheet: Worksheet) -> bool:
        """Place a group as far as it must; whether more of it may be placed in another turn."""
        session = self._session
        if job.hard_topology or job.policies:
            statement, domain = self._place_job(job, sheet)
            if statement is None or not session.ready(job):
                return False
            statement.commit()
            self._settle(job, domain)
            return not sheet.empty
        tasks = sheet.tasks.get(job.key)
        if tasks is None:
            return False
        statement = self._place_tasks(job.subjobs[job.key], tasks, session.hypernodes.top)
        if statement is None or not session.ready(job):
            return False
        statement.commit()
        return bool(len(tasks))

    def _settle(self, job: Job, domain: str) -> None:
        """Remember which domains a group and its sub-groups are spread over now."""
        tree = self._session.hypernodes
        job.topology_node = tree.common(job.topology_node, domain)
        for uid, chosen in self._decisions.get((job.key, domain), {}).items():
            subjob = job.subjobs[uid]
            subjob.topology_node = tree.common(subjob.topology_node, chosen)

    # --- domains ----------------------------------------------------------------------------------------------------

    def _place_job(self, job: Job, sheet: Worksheet) -> tuple[Statement | None, str]:
        """Try a group in every domain, the smallest first; gives the moves of the best trial, made again."""
        session = self._session
        homes = {uid: job.subjobs[uid].topology_node for uid in sheet.tasks}
        for gradient in session.job_gradients(job, session.hypernodes.top, Purpose.ALLOCATE):
            trials: dict[str, tuple[float, list[Operation], Worksheet]] = {}
            for domain in gradient:
                job.forget_errors()
                rest = sheet.copy()
                statements, score = self._try_job(job, rest, domain)
                for uid, home in homes.items():
                    job.subjobs[uid].topology_node = home
                operations = save(statements)
                if operations and (session.ready(job) or session.pipelined(job)):
                    trials[domain.name] = (score, operations, rest)
                for statement in statements:
                    statement.discard()
            if not trials:
                continue
            best = max(sorted(trials), key=lambda name: trials[name][0])
            _, operations, rest = trials[best]
            final = session.statement()
            final.replay(operations)
            sheet.subjobs, sheet.tasks = rest.subjobs, rest.tasks
            return final, best
        return None, ""

    def _try_job(self, job: Job, sheet: Worksheet, domain: HyperNode) -> tuple[list[Statement], float]:
        statements: list[Statement] = []
        score = 0.0
        while not sheet.empty:
            subjob = sheet.subjobs.pop()
            statement, rating = self._place_subjob(job, subjob, sheet, domain)
            if statement is not None and len(statement):
                statements.append(statement)
                score += rating
                if len(sheet.tasks[subjob.uid]):
                    sheet.subjobs.push(subjob)
                if self._session.ready(job):
                    break
        return statements, score

    def _place_subjob(
        self, job: Job, subjob: SubJob, sheet: Worksheet, domain: HyperNode
    ) -> tuple[Statement | None, float]:
        """Try a sub-group in every domain below the group's; gives the moves of the best trial, made again."""
        session = self._session
        for gradient in session.subjob_gradients(subjob, domain, Purpose.ALLOCATE):
            trials: dict[str, tuple[list[Operation], PriorityQueue[Task]]] = {}
            for candidate in gradient:
                job.forget_errors(subjob.uid)
                tasks = sheet.tasks[subjob.uid].copy()
                statement = self._place_tasks(subjob, tasks, candidate)
                if statement is not None and len(statement):
                    trials[candidate.name] = (save([statement]), tasks)
                    statement.discard()
            if not trials:
                continue
            ratings = session.rate_hypernodes(subjob, sorted(trials))
            best = max(sorted(trials), key=lambda name: ratings[name])
            operations, tasks = trials[best]
            final = session.statement()
            final.replay(operations)
            subjob.topology_node = session.hypernodes.common(subjob.topology_node, best)
            sheet.tasks[subjob.uid] = tasks
            self._decisions.setdefault((job.key, domain.name), {})[subjob.uid] = subjob.topology_node
            return final, ratings[best]
        return None, 0.0

    # --- pods -------------------------------------------------------------------------------------------------------

    def _place_tasks(self, subjob: SubJob, tasks: PriorityQueue[Task], domain: HyperNode) -> Statement | None:
        """Place pods one by one until the sub-group can start; gives the moves, or None if they do not suffice."""
        session = self._session
        if not domain.nodes:
            return None
        job = session.jobs[subjob.job]
        queue = session.queues[job.queue]
        rows = self._rows(domain)
        everywhere = None if domain.name == CLUSTER else rows
        statement, cache = session.statement(), ErrorCache()
        home = subjob.topology_node
        while len(tasks):
            task = tasks.pop()
            if not session.allocatable(queue, task) or task.gated or _skipped(job, subjob, task):
                continue
            if subjob.topology is None and self._place_quickly(task, everywhere, statement):
                if session.subjob_ready(job, subjob):
                    break
                continue
            feasible, goes_on = self._searched(job, task, rows, cache, domain, first=not len(statement))
            if feasible is None:
                if goes_on:
                    continue
                break
            task.topology_node = home if subjob.topology is not None else ""
            row = self._choose(task, feasible, statement)
            home = self._home(subjob, home, row)
            if session.subjob_ready(job, subjob):
                break
        if session.subjob_ready(job, subjob):
            if subjob.topology is not None and subjob.topology.soft:
                subjob.topology_node = home
            return statement
        if session.subjob_pipelined(job, subjob):
            return statement
        statement.discard()
        return None

    def _rows(self, domain: HyperNode) -> BoolArray:
        """Give the nodes of a domain as a mask; not to be changed."""
        nodes = self._session.nodes
        if domain.name == CLUSTER:
            return nodes.usable
        rows = np.zeros(len(nodes), dtype=np.bool_)
        rows[domain.nodes] = True
        return rows

    def _home(self, subjob: SubJob, home: str, row: int) -> str:
        """Give the domain of a sub-group after a pod of it was placed in a row."""
        if subjob.topology is None or row < 0:
            return home
        tree = self._session.hypernodes
        return tree.common(tree.leaf_of(row), home)

    def _searched(
        self, job: Job, task: Task, rows: BoolArray, cache: ErrorCache, domain: HyperNode, *, first: bool
    ) -> tuple[BoolArray | None, bool]:
        """Find nodes for a pod; without any, whether other pods can still complete the group.

        `first` says that no other pod of the group is placed by this statement.
        """
        # A group with sub-groups or domains is tried several times, and places of its trials become free again.
        alone = domain.name == CLUSTER and not job.policies and not job.hard_topology
        shared = alone and self._session.shapes_decide(task)
        known = self._hopeless.get(task.info.shape) if shared else None
        if known is not None:
            job.fit_errors[task.uid] = known
            return None, job.may_go_on(task.subjob)
        reason = self._session.pre_predicate(task)
        if reason is not None:
            job.fit_errors[task.uid] = _refused_everywhere(rows, reason)
            return None, False
        feasible, errors = self._feasible(task, rows, cache)
        if errors is None:
            return feasible, True
        job.fit_errors[task.uid] = errors if domain.name == CLUSTER else errors.within(domain.name)
        if shared and first:
            self._hopeless[task.info.shape] = errors
        return None, job.may_go_on(task.subjob)

    def _place_quickly(self, task: Task, rows: BoolArray | None, statement: Statement) -> bool:
        """Place a pod by what is known of its shape, if that suffices."""
        session = self._session
        found = session.quick_best(task, rows)
        if found is None or session.pre_predicate_quickly(task) is not None:
            return False
        if found.idle:
            statement.allocate(task, session.nodes.names[found.row])
        else:
            statement.pipeline(task, session.nodes.names[found.row], evicted=False)
        return True

    def _feasible(self, task: Task, rows: BoolArray, cache: ErrorCache) -> tuple[BoolArray, FitErrors | None]:
        """Find nodes for a pod; the nominated node is tried first."""
        session, nodes = self._session, self._session.nodes
        nominated = nodes.rows.get(task.info.nominated_node) if task.info.nominated_node else None
        if nominated is not None and task.request.fits(nodes.future_of(nominated)):
            there = np.zeros(len(nodes), dtype=np.bool_)
            there[nominated] = True
            feasible, errors = session.search(task, there, cache, session.judge_room, cached=self._cached)
            if errors is None:
                return feasible, None
        return session.search(task, rows, cache, session.judge_room, cached=self._cached)

    def _choose(self, task: Task, feasible: BoolArray, statement: Statement) -> int:
        """Give a pod the best free place, or else hold the best that will be free."""
        session, nodes = self._session, self._session.nodes
        candidates = np.flatnonzero(feasible)
        free = nodes.fits(task.request, nodes.idle, candidates)
        if free.any():
            row = session.best(task, candidates[free])
            statement.allocate(task, nodes.names[row])
            return row
        later = nodes.fits(task.request, nodes.future, candidates)
        if not later.any():
            return -1
        row = session.best(task, candidates[later])
        statement.pipeline(task, nodes.names[row], evicted=False)
        return row


def _skipped(job: Job, subjob: SubJob, task: Task) -> bool:
    """Pass over a pod of a role that found no place before, and say so."""
    if not task.role or task.role not in job.failed_roles(subjob.uid):
        return False
    message = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
    job.fit_errors[task.uid] = FitErrors(message)
    return True


def _placeable(task: Task) -> bool:
    return not task.foreign_gates and not task.best_effort


def _refused_everywhere(rows: BoolArray, reason: str) -> FitErrors:
    number = int(np.count_nonzero(rows))
    return FitErrors(nodes=number, reasons=Counter({reason: number}), unresolvable=np.zeros(len(rows), dtype=np.bool_))
