"""Standard input and terminals of processes. Only the standard library, for the shim.

A process without stdin reads nothing and writes to pipes. One with stdin has a pipe for it. One with a terminal has it
for all streams and leads its session, so that Ctrl-C reaches its foreground processes.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from typing import Final

#: Ctrl-D.
END_OF_INPUT: Final = b"\x04"
#: A session leader that opens a terminal makes it its controlling terminal.
OWN: Final = ("sh", "-c", 'exec <>/proc/self/fd/0 >&0 2>&0; exec "$@"', "sh")
_MOST_CELLS: Final = 1 << 16


class Ends:
    """Both ends of the streams of a process before its start."""

    def __init__(self, *, stdin: bool, tty: bool, user: int | None = None) -> None:
        #: The writing end of its input, if it has any; at a terminal also the reading end of its output.
        self.into: int | None = None
        self.stdin, self.output = subprocess.DEVNULL, subprocess.PIPE
        self._its: int | None = None
        if tty:
            self.into, self._its = os.openpty()
            # The default size; a client sends its own.
            resize(self.into, columns=80, rows=24)
            self.stdin = self.output = self._its
            if user:
                try:
                    os.fchown(self._its, user, -1)
                except OSError:
                    self.close()
                    raise
        elif stdin:
            self._its, self.into = os.pipe()
            self.stdin = self._its

    def let_go(self) -> None:
        """Close the process's ends after the start."""
        if self._its is not None:
            os.close(self._its)
            self._its = None

    def close(self) -> None:
        """Close everything: no process was started."""
        self.let_go()
        if self.into is not None:
            os.close(self.into)
            self.into = None


def resize(terminal: int, *, columns: int, rows: int) -> None:
    """Set the size of a terminal; invalid sizes are ignored."""
    if 0 < columns < _MOST_CELLS and 0 < rows < _MOST_CELLS:
        with contextlib.suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
