"""Ends a child process by closing its standard input, and kills it if it takes too long."""

import contextlib
from asyncio.subprocess import Process

from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)


async def end(process: Process, *, patience_s: float, clock: Clock, what: str) -> None:
    """Close its input and wait for it; `what` names the process in the log if it must be killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await clock.wait_for(process.wait(), patience_s)
    except TimeoutError:
        log.warning("process did not exit, killing it", process=what, pid=process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
