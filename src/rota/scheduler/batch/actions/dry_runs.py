"""Trials of evictions on one node, and the choice among nodes by what their victims are worth."""

from collections.abc import Callable, Mapping
from typing import Final

from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.times import seconds

_PRIORITY_OFFSET: Final = 2**31


def candidates_wanted(nodes: int, *, percentage: int, least: int, most: int) -> int:
    """Give how many nodes with victims are enough to choose from."""
    return min(max(nodes * percentage // 100, least), most, nodes)


def victims_on(session: Session, preemptor: Task, row: int, eligible: Callable[[Task], bool]) -> list[Task]:
    """Find the fewest pods that would have to leave a node; none if that would not help, or is not needed."""
    nodes = session.nodes
    queue = session.queues[session.jobs[preemptor.job].queue]
    chosen = session.preemptable(preemptor, [task for task in nodes.tasks[row].values() if eligible(task)])
    room = nodes.future_of(row)
    for victim in chosen:
        room.add(victim.request)
    if not preemptor.request.fits(room):
        return []
    trial, room = session.trial(preemptor, row), nodes.future_of(row)

    def fits() -> bool:
        allowed = trial.allocatable(queue, preemptor) and preemptor.request.fits(room)
        return allowed and trial.fits(preemptor)

    ordered = session.victims_in_order(chosen, preemptor)
    removed: list[Task] = []
    while len(ordered):
        victim = ordered.pop()
        removed.append(victim)
        if not trial.remove(victim):
            return []
        room.add(victim.request)
        if fits():
            break
    if not removed or not trial.fits(preemptor):
        return []
    victims = []
    for victim in reversed(removed):
        if not trial.add(victim):
            return []
        room.sub(victim.request)
        if not fits():
            if not trial.remove(victim):
                return []
            room.add(victim.request)
            victims.append(victim)
    return victims


def cheapest(found: Mapping[int, list[Task]], now: float) -> int:
    """Choose the node: lowest priority of the first victim, lowest sum, fewest victims, youngest of the highest."""
    criteria: tuple[Callable[[list[Task]], float], ...] = (
        lambda victims: -victims[0].info.priority,
        lambda victims: -sum(task.info.priority + _PRIORITY_OFFSET for task in victims),
        lambda victims: -len(victims),
        lambda victims: _earliest_start(victims, now),
    )
    left = sorted(found)
    for criterion in criteria:
        scores = {row: criterion(found[row]) for row in left}
        best = max(scores.values())
        left = [row for row in left if scores[row] == best]
        if len(left) == 1:
            break
    return left[0]


def _earliest_start(victims: list[Task], now: float) -> float:
    highest = max(task.info.priority for task in victims)
    return min(
        seconds(task.info.start_time) if task.info.start_time else now
        for task in victims
        if task.info.priority == highest
    )
