"""shuffle: evicts the pods that plugins select, independent of any preemptor."""

from typing import ClassVar, Final

from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus


class Shuffle:
    """Evictions without a preemptor."""

    name: ClassVar[str] = "shuffle"
    arguments: ClassVar[dict[str, Argument]] = {}

    def __init__(self, session: Session) -> None:
        self._session: Final = session

    def run(self) -> None:
        """Ask plugins, and evict."""
        session = self._session
        running = [task for job in session.jobs.values() for task in job.of(TaskStatus.RUNNING).values()]
        for task in session.victim_tasks(running):
            session.send_eviction(task, self.name)
            session.release(task, room=False)
        session.committed()
