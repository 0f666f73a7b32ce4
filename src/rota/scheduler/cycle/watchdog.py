"""Interrupts plugins that hang.

Plugins run on the event loop's thread, so a plugin that does not return would block everything. While plugins run, a
second thread checks the clock. After the limit it sends a signal to the first thread, whose handler raises `Overrun`
inside the plugin, even in a blocking system call. The framework turns that into an Error status with the plugin's name,
as with any exception of a plugin. Code that must not be interrupted is left alone: everything outside of the guard, the
guard itself, and the cluster's columns, which an exception could leave half changed. There the signal does nothing and
is sent again soon.

Python runs signal handlers on the main thread only. On another thread (in tests) overruns are logged, not interrupted.
"""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Final

from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

#: Far above the duration of any normal attempt.
LIMIT_S: Final = 5.0


def limit_s(renew_deadline_s: float | None) -> float:
    """Time limit for plugins of a scheduler that must renew its Lease within this time; None without a Lease.

    Half of the deadline is left for the renewal, which waits while plugins run.
    """
    return LIMIT_S if renew_deadline_s is None else min(LIMIT_S, renew_deadline_s / 2)


#: Not used elsewhere in this program. Its default action ends the process, so the default is never restored.
_SIGNAL: Final = signal.SIGVTALRM
#: Modules that are never interrupted. The last one enters and leaves guarded sections of others.
_SHIELDED: Final = ("rota.columns", "rota.scheduler.cycle.watchdog", "contextlib")


class Overrun(Exception):
    """A plugin took too long."""


class Watchdog:
    """A guard for the thread on which it is started: `with watchdog: call plugins`."""

    def __init__(self, *, clock: Clock, limit_s: float = LIMIT_S) -> None:
        self._clock: Final = clock
        self._limit_s: Final = limit_s
        self._began: float | None = None
        self._stopping: Final = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._interrupts = False
        #: How many plugin runs were interrupted.
        self.overruns = 0

    def start(self) -> None:
        """Watch the calling thread."""
        self._watched = threading.get_ident()
        self._interrupts = threading.current_thread() is threading.main_thread()
        if self._interrupts:
            signal.signal(_SIGNAL, self._interrupt)
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
            if self._interrupts and signal.getsignal(_SIGNAL) == self._interrupt:
                # Another watchdog of this process may have taken over the signal; then it is left alone.
                signal.signal(_SIGNAL, signal.SIG_IGN)

    def __enter__(self) -> None:
        self._began = self._clock.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._began = None

    def _watch(self) -> None:
        told: float | None = None
        while not self._stopping.wait(self._limit_s / 4):
            began = self._began
            if began is None or self._clock.monotonic() - began <= self._limit_s:
                continue
            if told != began:
                told = began
                log.error("plugins take too long", limit_s=self._limit_s, interrupted=self._interrupts)
            if self._interrupts:
                # Sent repeatedly, in case a plugin catches the exception.
                signal.pthread_kill(self._watched, _SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        began = self._began
        if began is not None and self._clock.monotonic() - began > self._limit_s and not _is_shielded(frame):
            self.overruns += 1
            raise Overrun(f"cut off after {self._limit_s:g} s")


def _is_shielded(frame: FrameType | None) -> bool:
    """Whether protected code is running, directly or through the standard library."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_SHIELDED):
            return True
        if module.partition(".")[0] not in sys.stdlib_module_names:
            return False
        frame = frame.f_back
    return False
