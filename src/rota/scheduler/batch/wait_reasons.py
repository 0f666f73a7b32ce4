"""Why a queue does not let a group in, in one sentence: Volcano leaves such a group Pending without a reason."""

from collections.abc import Mapping

from rota.scheduler.batch.amounts import MEMORY, PODS, Amounts
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.sessions import Session

_MIB = 2**20


def of(session: Session, job: Job) -> str:
    """Give the reason; "" if the group was let in or not asked about."""
    plugin = session.kept_out.get(job.key)
    if plugin is None:
        return ""
    if not session.queues[job.queue].open:
        return f"waits for queue {job.queue}, which is not open"
    if plugin == "overcommit":
        return f"waits for idle resources: groups that were let in before need those that are left (plugin {plugin})"
    figures = session.plugins[plugin].report().get(job.queue)
    lacking = [] if figures is None else _lacking(job.minimum(), figures)
    if not lacking:
        return f"plugin {plugin} does not let it into queue {job.queue}"
    return f"waits in queue {job.queue} for {'; '.join(lacking)}"


def _lacking(wanted: Amounts, figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    found = []
    for name in wanted.names():
        if name == PODS:
            continue
        taken = figures["allocated"].get(name, 0.0) + figures["inqueue"].get(name, 0.0)
        taken -= figures["elastic"].get(name, 0.0)
        limit = figures["limit"].get(name, 0.0)
        if (more := wanted.get(name) + taken - limit) > 0:
            found.append(f"{_shown(name, more)} more {name}: {_shown(name, taken)} of {_shown(name, limit)} in use")
    return found


def _shown(name: str, amount: float) -> str:
    if name == MEMORY:
        return f"{amount / _MIB:g} MiB"
    return f"{amount / 1000:g}"
