"""The local terminal for a remote command: raw mode, size changes and input."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

_PIECE: Final = 32 * 1024


@contextlib.contextmanager
def raw(file: int) -> Iterator[None]:
    """A terminal that hands every key on as it is, and is as it was afterwards."""
    before = termios.tcgetattr(file)
    tty.setraw(file, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextlib.contextmanager
def sizes(changed: Callable[[int, int], None]) -> Iterator[None]:
    """Tell the terminal's columns and rows, now and whenever they change."""
    loop = asyncio.get_running_loop()

    def tell() -> None:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(sys.stdout.fileno())
            changed(size.columns, size.lines)

    tell()
    loop.add_signal_handler(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def chunks(file: int) -> AsyncIterator[bytes]:
    """What can be read from a file, whatever it is: a terminal, a pipe, a file on a disk.

    Read by a thread that dies with the process: a thread that waits for a key cannot be asked to stop.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes] = asyncio.Queue(1)

    def read() -> None:
        # A loop that has ended takes nothing any more, and then nobody wants it.
        with contextlib.suppress(OSError, RuntimeError):
            while True:
                chunk = os.read(file, _PIECE)
                asyncio.run_coroutine_threadsafe(ready.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, name="input", daemon=True).start()
    while chunk := await ready.get():
        yield chunk
