"""Standard input and terminals of what a runtime starts. Only the standard library: the nursery needs no more.

A process that nobody talks to reads nothing and writes to pipes. One with an input has a pipe for that; one at a
terminal has the terminal for everything, and leads its session, so that Ctrl-C reaches whatever runs there.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from typing import Final

#: What Ctrl-D sends.
END_OF_INPUT: Final = b"\x04"
#: Whoever leads a session and opens a terminal has it as its own.
OWN: Final = ("sh", "-c", 'exec <>/proc/self/fd/0 >&0 2>&0; exec "$@"', "sh")
_MOST_CELLS: Final = 1 << 16


class Ends:
    """Both ends of the streams of a process that is about to be started."""

    def __init__(self, *, stdin: bool, tty: bool, user: int | None = None) -> None:
        #: Where its input is written to, if it has any; at a terminal also where its output is read.
        self.into: int | None = None
        self.stdin, self.output = subprocess.DEVNULL, subprocess.PIPE
        self._its: int | None = None
        if tty:
            self.into, self._its = os.openpty()
            # What a terminal has that nobody looks at; whoever does tells the size of theirs.
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
        """The process has its ends now, or there is none."""
        if self._its is not None:
            os.close(self._its)
            self._its = None

    def close(self) -> None:
        """No process was started."""
        self.let_go()
        if self.into is not None:
            os.close(self.into)
            self.into = None


def resize(terminal: int, *, columns: int, rows: int) -> None:
    """Tell what runs at a terminal how large it is; sizes that no terminal has are not told."""
    if 0 < columns < _MOST_CELLS and 0 < rows < _MOST_CELLS:
        with contextlib.suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
