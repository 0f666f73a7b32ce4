"""Runs a command in a container for its exit code and the beginning of its output."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

from rota.worker.runtimes.runtime_interface import Inside

_MOST_OUTPUT: Final = 10 * 1024
_PIECE: Final = 64 * 1024
#: How long output is read after the command has ended: another process may hold the pipe open for ever.
_REST_S: Final = 0.1


async def output(how: Inside, *, on_cut_off: Callable[[], None] = lambda: None) -> tuple[int, bytes]:
    """The exit code and the beginning of the output. The caller cancels on a timeout, which kills the command.

    `on_cut_off` kills processes of the command outside of its process group.
    """
    # A pipe of our own: asyncio's processes do not end before all their pipes are closed.
    ours, its = os.pipe()
    pipe = os.fdopen(ours, "rb", buffering=0)
    try:
        process = await asyncio.create_subprocess_exec(
            *how.argv,
            env=dict(how.env),
            cwd=how.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=its,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(its)
    said = bytearray()
    reading = asyncio.create_task(_read(pipe, said))
    try:
        code = await process.wait()
        await asyncio.wait([reading], timeout=_REST_S)
        return code, bytes(said)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            on_cut_off()
            await process.wait()
        reading.cancel()
        await asyncio.wait([reading])


async def _read(pipe: object, said: bytearray) -> None:
    """Read everything, so that the writer does not block, and keep the beginning."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while piece := await reader.read(_PIECE):
            said += piece[: _MOST_OUTPUT - len(said)]
    finally:
        transport.close()
