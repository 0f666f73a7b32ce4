"""Runs Lua scripts side by side, so that a slow script delays only its own calls.

The calls of one script run one after the other, those of different scripts in different processes. A script that used
up its processor time is not run again for a while, and its calls fail at once: objects of that kind that wait for it
would otherwise occupy the workers of every loop. A script that was corrected is another script, and runs at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from rota.federation.customization.lua_scripts import LuaProcess, OutOfTime
from rota.federation.customization.operations import CannotInterpret
from rota.kit.clock import Clock

#: How many scripts run at the same time.
_AT_ONCE: Final = 4
#: For how long a script is not run after it was too slow: the first time, and at most.
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
#: How many scripts are remembered before those that have been replaced are forgotten.
_REMEMBERED: Final = 1000


class _Lane:
    """The calls of one script."""

    __slots__ = ("lock", "overruns", "paused_until")

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.overruns = 0
        self.paused_until = float("-inf")


class LuaProcesses:
    """A few child processes, started when they are needed."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock: Final = clock
        self._lanes: Final[dict[str, _Lane]] = {}
        self._places: Final = asyncio.Semaphore(_AT_ONCE)
        self._processes: Final[list[LuaProcess]] = []
        self._idle: Final[list[LuaProcess]] = []

    async def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            await process.close()

    async def call(
        self, script: str, function: str, arguments: Sequence[Any], *, returns: int, like_arguments: bool
    ) -> list[Any]:
        """See `LuaProcess.call`."""
        lane = self._lane(script)
        async with lane.lock:
            remaining_s = lane.paused_until - self._clock.monotonic()
            if remaining_s > 0:
                raise CannotInterpret(
                    f"{function}: the script was too slow and is not run for {remaining_s:.0f} s; make it faster"
                )
            async with self._places:
                process = self._taken()
                try:
                    found = await process.call(
                        script, function, arguments, returns=returns, like_arguments=like_arguments
                    )
                except OutOfTime:
                    lane.overruns += 1
                    pause_s = min(_PAUSE_S * 2 ** (lane.overruns - 1), _LONGEST_PAUSE_S)
                    lane.paused_until = self._clock.monotonic() + pause_s
                    raise
                finally:
                    self._idle.append(process)
            lane.overruns = 0
            return found

    def _lane(self, script: str) -> _Lane:
        found = self._lanes.get(script)
        if found is None:
            if len(self._lanes) >= _REMEMBERED:
                for other in [text for text, lane in self._lanes.items() if not lane.lock.locked()]:
                    del self._lanes[other]
            found = self._lanes[script] = _Lane()
        return found

    def _taken(self) -> LuaProcess:
        if self._idle:
            return self._idle.pop()
        process = LuaProcess()
        self._processes.append(process)
        return process
