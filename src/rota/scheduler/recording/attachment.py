"""Attaches a recorder to a running scheduler."""

from pathlib import Path

from rota.kit.clock import Clock
from rota.scheduler.recording.recorder import Recorder
from rota.scheduler.service import Scheduler


def attach(scheduler: Scheduler, path: Path, *, clock: Clock) -> Recorder:
    """Record the scheduler's decisions while the recorder runs."""
    recorder = Recorder(
        path,
        cluster=scheduler.cache.cluster,
        interner=scheduler.cache.interner,
        configuration=lambda: scheduler.configuration.settings,
        nominations=lambda: scheduler.queue.nominations(),  # noqa: PLW0108 - the queue may be exchanged
        clock=clock,
        queued=lambda: (each.pod for each in scheduler.queue.entries()),
    )
    scheduler.core.observers.append(recorder.observe)
    scheduler.core.listeners.append(recorder.hear)
    return recorder
