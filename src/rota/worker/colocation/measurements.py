"""What a machine uses apart from its batch pods, and how much memory it has left.

A sample costs four small files, however many pods there are. Rates are means since the sample before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.kit.clock import Clock
from rota.worker.runtimes.batch_tier import BatchTier
from rota.worker.usage import parse_machine_cpu, parse_meminfo

_NANOS_PER_MILLI: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The use of a machine since the sample before."""

    elapsed_s: float
    #: The cpu time per second of all processes outside of the batch tier, in thousandths of a core.
    others_milli: float
    batch_milli: float
    memory_total: int
    memory_available: int
    batch_memory: int
    #: The part of the last ten seconds in which all tasks stalled for memory; 0 where the kernel does not say.
    stalled: float

    @property
    def others_memory(self) -> int:
        """The memory in use outside of the batch tier."""
        return max(self.memory_total - self.memory_available - self.batch_memory, 0)


class Measurements:
    """Samples of one machine; each reader of rates has its own."""

    def __init__(self, tier: Callable[[], BatchTier | None], *, clock: Clock, proc: Path = Path("/proc")) -> None:
        self._tier: Final = tier
        self._clock: Final = clock
        self._proc: Final = proc
        self._last: tuple[float, int, int] | None = None

    def take(self) -> Sample | None:
        """A sample; None at the first call, which has no rates. OSError if a counter cannot be read."""
        tier = self._tier()
        now = self._clock.monotonic()
        busy, _ = parse_machine_cpu((self._proc / "stat").read_text())
        batch, batch_memory = (0, 0) if tier is None else (tier.used_nanos(), tier.memory_bytes())
        last, self._last = self._last, (now, busy, batch)
        if last is None or now <= last[0]:
            return None
        elapsed_s = now - last[0]
        scale = _NANOS_PER_MILLI * elapsed_s
        # A tier that was removed and made again counts from zero.
        batch_milli = max(batch - last[2], 0) / scale
        memory = parse_meminfo((self._proc / "meminfo").read_text())
        return Sample(
            elapsed_s=elapsed_s,
            others_milli=max((busy - last[1]) / scale - batch_milli, 0.0),
            batch_milli=batch_milli,
            memory_total=memory["MemTotal"],
            memory_available=memory.get("MemAvailable", memory.get("MemFree", 0)),
            batch_memory=batch_memory,
            stalled=self._stalled(),
        )

    def _stalled(self) -> float:
        try:
            return parse_pressure((self._proc / "pressure/memory").read_text())
        except OSError:
            return 0.0


def parse_pressure(text: str) -> float:
    """/proc/pressure/memory: the part of the last ten seconds in which all tasks stalled."""
    for line in text.splitlines():
        kind, *values = line.split()
        found = dict(value.split("=", 1) for value in values)
        if kind == "full":
            return float(found.get("avg10", 0.0)) / 100
    return 0.0
