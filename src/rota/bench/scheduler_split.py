"""Where the processor time of a scheduler goes: a sampling profile by what the scheduler does.

A timer of processor time interrupts the process a thousand times a second and looks at the stack. The innermost frame
of a known module says what the time was spent on, so that time in columns or in the client counts for what called it.
"""

import signal
from collections import Counter
from types import FrameType
from typing import Final, Self

#: Parts of file names, and what time below them is spent on; the first match from the innermost frame outwards.
_PLACES: Final = (
    ("/rota/client/events/", "events"),
    ("/rota/scheduler/status/pod_status", "events"),
    ("/rota/scheduler/binding/", "binding"),
    ("/rota/scheduler/core/scheduler_core", ""),
    ("/rota/client/informers/", "following"),
    ("/rota/scheduler/ingest/", "following"),
    ("/rota/scheduler/sharding/", "sharing"),
    ("/rota/client/elections/", "sharing"),
    ("/rota/scheduler/cycle/", "deciding"),
    ("/rota/scheduler/scheduling_loop", "deciding"),
    ("/rota/bench/", "bench"),
)
_STEP_S: Final = 0.001


class Sampler:
    """Samples this process, on its main thread, while it is entered."""

    def __init__(self) -> None:
        self.samples: Final[Counter[str]] = Counter()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _STEP_S, _STEP_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self.samples[_place(frame)] += 1

    def shares(self) -> dict[str, float]:
        """The share of each activity in all samples but those of the benchmark itself."""
        counted = {name: count for name, count in self.samples.items() if name != "bench"}
        total = sum(counted.values()) or 1
        return {name: count / total for name, count in sorted(counted.items())}


def _place(frame: FrameType | None) -> str:
    while frame is not None:
        file = frame.f_code.co_filename
        for part, name in _PLACES:
            if name and part in file:
                return name
        frame = frame.f_back
    return "event loop"
