"""Ends a process that ends when its standard input does, and by force if it takes too long."""

import contextlib
from asyncio.subprocess import Process

from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)


async def end(process: Process, *, patience_s: float, clock: Clock, what: str) -> None:
    """Close its input and wait for it; `what` it is, for the log, should that be in vain."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await clock.wait_for(process.wait(), patience_s)
    except TimeoutError:
        log.warning("a process does not end by itself and is killed", process=what, pid=process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
