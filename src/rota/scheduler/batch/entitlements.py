"""What a queue may reclaim before any of its pods exists.

A Job's pods are created when its group is let in. With enqueue's usual rule the group of a queue that others have taken
everything from is not let in, because nothing is idle, and reclaim does not help it, because it has no pods. With
`letInToReclaim` such a group is let in as far as its queue is entitled to the resources.
"""

from rota.scheduler.batch.amounts import EPSILON, PODS
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.sessions import Session


def covers(session: Session, job: Job) -> bool:
    """Whether a queue stays within what it is entitled to if a group is let in.

    With capacity that is its deserved amount. With proportion, which computes shares from requests of pods, it is the
    queue's part of the cluster by weight among the queues that have groups.
    """
    plugin = next((session.plugins[name] for name in ("capacity", "proportion") if name in session.plugins), None)
    figures = None if plugin is None else plugin.report().get(job.queue)
    if plugin is None or figures is None or not session.queues[job.queue].open:
        return False
    wanted = job.minimum()
    for name in wanted.names():
        if name == PODS:
            continue
        if plugin.name == "capacity":
            entitled = figures["deserved"].get(name, 0.0)
        else:
            entitled = min(session.total.get(name) * _part(session, job.queue), figures["limit"].get(name, 0.0))
        taken = figures["allocated"].get(name, 0.0) + figures["inqueue"].get(name, 0.0)
        if taken + wanted.get(name) - entitled >= EPSILON:
            return False
    return True


def _part(session: Session, queue: str) -> float:
    weights = {name: session.queues[name].weight for name in session.queues_in_use()}
    whole = sum(weights.values())
    return weights.get(queue, 0) / whole if whole else 0.0
