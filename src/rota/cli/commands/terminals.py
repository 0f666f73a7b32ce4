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
    """The terminal in raw mode, restored afterwards."""
    before = termios.tcgetattr(file)
    tty.setraw(file, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextlib.contextmanager
def sizes(changed: Callable[[int, int], None]) -> Iterator[None]:
    """Send the terminal's columns and rows, now and whenever they change."""
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
    """The content of a file descriptor in chunks: a terminal, a pipe, or a file.

    A daemon thread reads, because a blocking read of a terminal cannot be cancelled.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes] = asyncio.Queue(1)

    def read() -> None:
        # A closed loop takes no more chunks; they are dropped.
        with contextlib.suppress(OSError, RuntimeError):
            while True:
                chunk = os.read(file, _PIECE)
                asyncio.run_coroutine_threadsafe(ready.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, name="input", daemon=True).start()
    while chunk := await ready.get():
        yield chunk
