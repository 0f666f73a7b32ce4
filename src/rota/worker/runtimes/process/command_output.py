"""Runs a command in a container for its answer: whether it went well, and the beginning of what it said."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

from rota.worker.runtimes.runtime_interface import Inside

_MOST_OUTPUT: Final = 10 * 1024
_PIECE: Final = 64 * 1024
#: How long output may still come when the command is over: others may hold the other end for ever.
_REST_S: Final = 0.1


async def output(how: Inside, *, on_cut_off: Callable[[], None] = lambda: None) -> tuple[int, bytes]:
    """The exit code and the beginning of the output. Whoever loses patience cancels: the command is ended then.

    `on_cut_off` ends what is part of the command and not of its process group.
    """
    # A pipe of our own: asyncio's processes are not over before everybody has let go of theirs.
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
    """Take in everything, so that nobody waits for room, and keep the beginning."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while piece := await reader.read(_PIECE):
            said += piece[: _MOST_OUTPUT - len(said)]
    finally:
        transport.close()
