"""A core, and the parts of it that a configuration determines."""

from collections.abc import Mapping

from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.config.resolution import Configuration
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.core.waiting_pods import WaitingPods
from rota.scheduler.cycle.scheduling_cycle import SchedulingCycle
from rota.scheduler.framework.registry import Registry
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.queue.pod_backoff import PodBackoff
from rota.scheduler.queue.scheduling_queue import SchedulingQueue, Timings


def make_core(
    configuration: Configuration, registry: Registry, *, start: int = 0, cache: SchedulerCache | None = None
) -> SchedulerCore:
    """A core for a driver that binds pods itself: no plugin gets a binder, and extenders are not asked."""
    known, waiting = SchedulerCache() if cache is None else cache, WaitingPods()
    cycles = {
        name: SchedulingCycle(Framework(profile, registry, waiting_pods=waiting), known.cluster)
        for name, profile in configuration.profiles.items()
    }
    return SchedulerCore(known, make_queue(configuration, cycles), cycles, start=start, waiting=waiting)


def make_queue(configuration: Configuration, cycles: Mapping[str, SchedulingCycle]) -> SchedulingQueue:
    """An empty queue for the pods of these profiles."""
    settings = configuration.settings
    rests = PodBackoff(
        initial_s=float(settings.pod_initial_backoff_seconds), longest_s=float(settings.pod_max_backoff_seconds)
    )
    return SchedulingQueue({name: cycle.framework for name, cycle in cycles.items()}, Timings(rests=rests))
