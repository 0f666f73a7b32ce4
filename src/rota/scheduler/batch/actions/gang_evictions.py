"""What gangpreempt and gangreclaim share: victims in bundles that break few gangs, and trials of a whole group.

A safe bundle is what a group has beyond its minimum; a whole bundle is the rest, and taking it ends the group.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cmp_to_key, partial
from typing import Final

import numpy as np

from rota.scheduler.batch import amounts
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.actions import worksheets
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.hypernodes import HyperNode
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.plugin import Purpose
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statements import Operation, Statement, save
from rota.scheduler.batch.statuses import READY
from rota.scheduler.batch.tasks import PREEMPTABLE, Task
from rota.scheduler.batch.verdicts import ErrorCache

ARGUMENTS: Final = {
    "maxDomains": Argument(args.integer, 8),
    "allowWholeBundle": Argument(args.boolean, True),
    # Rota's own: evict no bundle that is not needed, and break as few gangs as a bounded search finds.
    "fewestGangs": Argument(args.boolean, False),
}
#: The number of placements that a search for the fewest gangs tries in one domain.
_MOST_TRIALS: Final = 64


class Kind(IntEnum):
    """Whether a group survives the loss."""

    SAFE = 0
    WHOLE = 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pods of one group that leave together."""

    kind: Kind
    job: Job
    tasks: list[Task]
    #: What leaving frees here, and what the group has everywhere.
    local: Amounts
    everywhere: Amounts


def evictable_job(job: Job) -> bool:
    """Whether pods of a group may be chosen; a group that says nothing agrees."""
    said = PREEMPTABLE in job.annotations or PREEMPTABLE in job.labels
    return job.preemptable if said else True


def bundles_of(job: Job, tasks: list[Task]) -> list[Bundle]:
    """Split a group's pods into what it can do without and the rest; the lowest pods go first."""
    tasks = sorted(tasks, key=lambda task: (task.priority, task.uid))
    surplus = job.ready - job.min_available
    if surplus < 0:
        return [Bundle(Kind.SAFE, job, tasks, _sum(tasks), Amounts())]
    roles: dict[str, int] = {}
    if job.enforces_roles:
        counts = job.by_role(READY, best_effort=True)
        roles = {role: counts.get(role, 0) - minimum for role, minimum in job.minimum_by_role.items()}
    spare: dict[str, int] = {}
    broken: set[str] = set()
    for subjob in job.subjobs.values() if job.min_subjobs else ():
        if subjob.is_ready:
            spare[subjob.group] = spare.get(subjob.group, 0) + 1
        else:
            broken.add(subjob.uid)
    for group, minimum in job.min_subjobs.items():
        spare[group] = spare.get(group, 0) - minimum
    safe: list[Task] = []
    whole: list[Task] = []
    for task in tasks:
        group = job.subjobs[task.subjob].group
        role_safe = roles.get(task.role, 1) > 0
        group_safe = not job.min_subjobs or task.subjob in broken or spare.get(group, 0) > 0
        if not (surplus > 0 and role_safe and group_safe):
            whole.append(task)
            continue
        safe.append(task)
        surplus -= 1
        if task.role in roles:
            roles[task.role] -= 1
        if job.min_subjobs and task.subjob not in broken:
            broken.add(task.subjob)
            spare[group] = spare.get(group, 0) - 1
    found = []
    if safe:
        found.append(Bundle(Kind.SAFE, job, safe, _sum(safe), Amounts()))
    if whole:
        found.append(Bundle(Kind.WHOLE, job, whole, _sum(whole), _sum(job.members.values())))
    return found


def allowed_bundles(bundles: Iterable[Bundle], allowed: set[str]) -> list[Bundle]:
    """Leave out what plugins protect; a whole bundle goes as a whole or not at all."""
    found = []
    for bundle in bundles:
        tasks = [task for task in bundle.tasks if task.uid in allowed]
        if bundle.kind is Kind.WHOLE:
            if len(tasks) == len(bundle.tasks):
                found.append(bundle)
        elif tasks:
            found.append(replace(bundle, tasks=tasks, local=_sum(tasks)))
    return found


def in_order(bundles: list[Bundle], need: Amounts, worse: Callable[[Bundle, Bundle], int]) -> list[Bundle]:
    """Order bundles: safe ones first, then by who should lose, then by what is gained for what is lost."""

    def compare(left: Bundle, right: Bundle) -> int:
        if left.kind is not right.kind:
            return left.kind - right.kind
        difference = worse(left, right)
        if difference:
            return difference
        gains = _gain(left, need), _gain(right, need)
        if gains[0] != gains[1]:
            return -1 if gains[0] > gains[1] else 1
        one, other = ((each.job.key, each.tasks[0].uid, len(each.tasks)) for each in (left, right))
        return (one > other) - (one < other)

    return sorted(bundles, key=cmp_to_key(compare))


def _gain(bundle: Bundle, need: Amounts) -> float:
    lost = _against(bundle.everywhere, need, capped=False)
    return float("inf") if lost == 0 else _against(bundle.local, need, capped=True) / lost


def _against(figures: Amounts, need: Amounts, *, capped: bool) -> float:
    score = 0.0
    for name in need.names():
        wanted, amount = need.get(name), figures.get(name)
        score += (min(amount, wanted) if capped else amount) / wanted
    return score


def _sum(tasks: Iterable[Task]) -> Amounts:
    return amounts.total(task.request for task in tasks)


class _Search:
    """Which bundles leave one domain for a group."""

    def __init__(self, plan: Callable[[list[Task]], list[Operation] | None], need: Amounts, free: Amounts) -> None:
        """`plan` tries to place the group without some pods; `free` is what the domain will have without victims."""
        self._plan: Final = plan
        self._need: Final = need
        self._free: Final = free
        self._left = _MOST_TRIALS

    def in_turn(self, bundles: Sequence[Bundle]) -> list[Operation] | None:
        """Add bundle after bundle until the group has its places, as Volcano does."""
        for number in range(1, len(bundles) + 1):
            if self._enough(bundles[:number]) and (plan := self._plan(_tasks(bundles[:number]))) is not None:
                return plan
        return None

    def fewest(self, bundles: Sequence[Bundle]) -> list[Operation] | None:
        """Break as few gangs as possible: none, any one, any two, then those that free the most; keep what is not
        needed."""
        safe = [bundle for bundle in bundles if bundle.kind is Kind.SAFE]
        whole = [bundle for bundle in bundles if bundle.kind is Kind.WHOLE]
        largest = sorted(whole, key=lambda each: -_against(each.local, self._need, capped=True))
        more = (largest[:number] for number in range(3, len(largest) + 1))
        for broken in itertools.chain([()], itertools.combinations(whole, 1), itertools.combinations(whole, 2), more):
            chosen = [*safe, *broken]
            if chosen and (plan := self._tried(chosen)) is not None:
                return plan
        return None

    def _tried(self, chosen: list[Bundle]) -> list[Operation] | None:
        """Try a choice; if it suffices, leave out one bundle after the other that is not needed."""
        best = self._trial(chosen)
        if best is None:
            return None
        for bundle in reversed(chosen):
            if any(each.job is bundle.job and each is not bundle for each in chosen):
                continue  # a broken gang leaves nothing behind
            rest = [each for each in chosen if each is not bundle]
            if rest and (plan := self._trial(rest)) is not None:
                chosen, best = rest, plan
        return best

    def _trial(self, chosen: Sequence[Bundle]) -> list[Operation] | None:
        if self._left <= 0 or not self._enough(chosen):
            return None
        self._left -= 1
        return self._plan(_tasks(chosen))

    def _enough(self, chosen: Sequence[Bundle]) -> bool:
        return self._need.fits(self._free.copy().add(_sum(_tasks(chosen))))


def _tasks(bundles: Sequence[Bundle]) -> list[Task]:
    return [task for bundle in bundles for task in bundle.tasks]


class GangEviction:
    """A search for places for a whole group, with victims."""

    def __init__(self, session: Session, name: str) -> None:
        self._session: Final = session
        self._name: Final = name
        configured = session.configuration.arguments[name]
        self._most: Final[int] = configured["maxDomains"]
        self._allows_whole: Final[bool] = configured["allowWholeBundle"]
        self._fewest: Final[bool] = configured["fewestGangs"]
        self._cached: Final[bool] = session.configuration.arguments["allocate"]["predicateErrorCacheEnable"]

    def pending(self, job: Job) -> list[Task]:
        """Give the pods to place: all of a group that has not started, the first sub-group's of one that has."""
        session = self._session
        sheet = worksheets.organize(session, job, _placeable)
        found: list[Task] = []
        subjobs = sheet.subjobs.copy()
        while len(subjobs):
            tasks = sheet.tasks[subjobs.pop().uid].copy()
            while len(tasks):
                found.append(tasks.pop())
            if session.ready(job):
                break
        return found

    def domains(self, job: Job) -> list[str]:
        """Give the domains to look at, the widest first."""
        session = self._session
        top = session.hypernodes.top
        found: list[str] = []
        for gradient in session.job_gradients(job, top, Purpose.EVICT):
            for domain in gradient:
                if domain.name not in found:
                    found.append(domain.name)
                    if self._most > 0 and len(found) >= self._most:
                        return found
        if not found and not job.hard_topology:
            found.append(top.name)
        return found

    def seek(
        self, statement: Statement, queue: Queue, job: Job, pending: list[Task], choose: Callable[[str], list[Bundle]]
    ) -> bool:
        """Try domain by domain with ever more victims, until the group has its places."""
        session, nodes = self._session, self._session.nodes
        need = _sum(pending)
        for name in self.domains(job):
            if not session.starving(job):
                return False
            domain = session.hypernodes[name]
            bundles = [each for each in choose(name) if each.kind is Kind.SAFE or self._allows_whole]
            if not domain.nodes or not bundles:
                continue
            free = nodes.sum_over(nodes.idle, domain.nodes).add(nodes.sum_over(nodes.releasing, domain.nodes))
            search = _Search(partial(self._plan, queue, job, domain), need, free)
            plan = search.fewest(bundles) if self._fewest else search.in_turn(bundles)
            if plan is not None:
                statement.replay(plan)
                return True
        return False

    def _plan(self, queue: Queue, job: Job, domain: HyperNode, victims: list[Task]) -> list[Operation] | None:
        """Try a whole group on a domain without its victims; gives the moves, all taken back."""
        session = self._session
        started = session.ready(job)
        evictions = session.statement()
        for victim in victims:
            evictions.evict(victim, self._name)
        chain = [evictions]
        complete = False
        sheet = worksheets.organize(session, job, _placeable)
        while not sheet.empty:
            subjob = sheet.subjobs.pop()
            statement = self._place(queue, job, subjob, sheet.tasks[subjob.uid], domain, evicted=bool(victims))
            if statement is None:
                complete = False
                break
            chain.append(statement)
            complete = session.pipelined(job)
            if started or complete:
                break
        plan = save(chain) if complete else None
        for statement in reversed(chain):
            statement.discard()
        return plan

    def _place(
        self, queue: Queue, job: Job, subjob: SubJob, tasks: PriorityQueue[Task], domain: HyperNode, *, evicted: bool
    ) -> Statement | None:
        session = self._session
        if not job.hard_topology:
            return self._place_in(queue, job, subjob, tasks, domain, evicted=evicted)
        for gradient in session.subjob_gradients(subjob, domain, Purpose.EVICT):
            for candidate in gradient:
                statement = self._place_in(queue, job, subjob, tasks, candidate, evicted=evicted)
                if statement is not None:
                    return statement
        return None

    def _place_in(
        self, queue: Queue, job: Job, subjob: SubJob, tasks: PriorityQueue[Task], domain: HyperNode, *, evicted: bool
    ) -> Statement | None:
        """Hold places for all waiting pods of a sub-group in one domain."""
        session, nodes = self._session, self._session.nodes
        statement, cache, waiting = session.statement(), ErrorCache(), tasks.copy()
        inside = np.zeros(len(nodes), dtype=np.bool_)
        inside[domain.nodes] = True
        while len(waiting):
            task = waiting.pop()
            rows = inside & session.open_rows(task)
            if not session.allocatable(queue, task) or not rows.any() or session.pre_predicate(task) is not None:
                break
            feasible, errors = session.search(task, rows, cache, session.judge_final_room, cached=self._cached)
            if errors is not None:
                break
            candidates = np.flatnonzero(feasible)
            free = nodes.fits(task.request, nodes.idle, candidates)
            row = session.best(task, candidates[free] if free.any() else candidates)
            statement.pipeline(task, nodes.names[row], evicted=evicted)
        else:
            if len(statement) and (session.subjob_ready(job, subjob) or session.subjob_pipelined(job, subjob)):
                return statement
        statement.discard()
        return None


def _placeable(task: Task) -> bool:
    return not task.gated and not task.best_effort
