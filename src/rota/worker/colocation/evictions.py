"""Which batch pods have to go. Pure; pods of other classes are not arguments here, so none of them can be chosen.

Memory: below a threshold of available memory, or when tasks stall for memory, batch pods are evicted until enough is
expected to be free, before the kernel kills a process. The next eviction waits until the memory of the last one can be
free. Cpu: if the quota has been below a part of what the pods requested for a while, one pod is evicted, so that it
can run elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPod:
    """A running batch pod."""

    uid: str
    priority: int
    begun_s: float
    cpu_milli: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings:
    """Parts of the machine's memory, and times in seconds."""

    #: Evict below this part of available memory, until this part is expected to be available.
    memory_below: float = 0.05
    memory_until: float = 0.08
    #: Evict if all tasks stalled for memory during this part of the last ten seconds (PSI, full).
    stalled: float = 0.1
    pause_s: float = 10.0
    #: Evict if batch gets less than this part of its requests for this long.
    starved: float = 0.2
    starved_s: float = 300.0


#: Memory that is kept available at least, however small the machine.
LEAST_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a decision is based on."""

    memory_total: int
    memory_available: int
    #: The part of time in which all tasks stalled for memory; 0 where the kernel does not say.
    stalled: float
    quota_milli: float


class Evictions:
    """Decides at each step; keeps when it last evicted, and since when batch starves."""

    def __init__(self, settings: EvictionSettings) -> None:
        self._settings = settings
        self._evicted_s = float("-inf")
        self._starved_since: float | None = None

    def step(self, pods: Sequence[BatchPod], found: Condition, now_s: float) -> list[tuple[BatchPod, str]]:
        """The pods to evict now, with the reason."""
        settings = self._settings
        wanted = sum(pod.cpu_milli for pod in pods)
        starves = wanted > 0 and found.quota_milli < settings.starved * wanted
        self._starved_since = None if not starves else now_s if self._starved_since is None else self._starved_since
        if not pods or now_s - self._evicted_s < settings.pause_s:
            return []
        chosen = self._for_memory(pods, found)
        if not chosen and self._starved_since is not None and now_s - self._starved_since >= settings.starved_s:
            text = f"batch pods get {found.quota_milli:.0f}m of cpu, less than {settings.starved:.0%} of their requests"
            chosen = [(_order(pods)[0], text)]
            self._starved_since = None
        if chosen:
            self._evicted_s = now_s
        return chosen

    def wants_memory(self, found: Condition) -> bool:
        """Whether the next step may evict for memory, so that it needs the memory of each pod."""
        return self._is_short(found) or found.stalled >= self._settings.stalled

    def _is_short(self, found: Condition) -> bool:
        return found.memory_available < max(self._settings.memory_below * found.memory_total, LEAST_BYTES)

    def _for_memory(self, pods: Sequence[BatchPod], found: Condition) -> list[tuple[BatchPod, str]]:
        settings, available = self._settings, found.memory_available
        if self._is_short(found):
            text = f"the node has {available // 1024**2}Mi of memory left, which latency-sensitive pods need"
        elif found.stalled >= settings.stalled:
            text = f"tasks of the node stall for memory {found.stalled:.0%} of the time"
        else:
            return []
        until = max(settings.memory_until * found.memory_total, 2 * LEAST_BYTES)
        chosen = []
        for pod in _order(pods):
            chosen.append((pod, text))
            available += pod.memory_bytes
            if available >= until:
                break
        return chosen


def _order(pods: Iterable[BatchPod]) -> list[BatchPod]:
    """Low priority first; among equals those with much memory, then the youngest: they lose the least work."""
    return sorted(pods, key=lambda pod: (pod.priority, -pod.memory_bytes, -pod.begun_s, pod.uid))
