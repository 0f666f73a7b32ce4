"""Processes of Rota that a benchmark starts, measures and ends."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

START_S: Final = 120.0
_LOOK_S: Final = 0.05
_END_S: Final = 30.0


def start(processes: contextlib.ExitStack, arguments: list[str], log: Path) -> int:
    """Start `rota` with these arguments; `processes` ends it, unless it has ended. The process id."""
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "rota", *arguments], stdout=output, stderr=output)

    def end() -> None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_S)

    processes.callback(end)
    return process.pid


def await_line(log: Path, text: str) -> None:
    """Wait until a log has this text."""
    until = time.monotonic() + START_S
    while text not in log.read_text():
        if time.monotonic() > until:
            raise TimeoutError(f"no line with {text!r} in {START_S:.0f} s: {log.read_text()}")
        time.sleep(_LOOK_S)
