"""Keeps a member running on a machine without systemd: `python supervisor.py HOME`.

`on_host` writes this file beside `service.json`, which has the command. A process that ends is started again, after a
pause that grows to a minute. SIGTERM stops the process and then this program; if this program is killed, the process
gets SIGTERM from the kernel. A worker's tasks are not its children: they go on. Needs the standard library only.
"""

import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_STOP_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
#: A process that ran for so long has been started well.
_WELL_S = 60.0
_LOOK_S = 0.2
_LOG_BYTES = 16 * 1024 * 1024
_VARIABLE = re.compile(r'([A-Z_]+)="(.*)"')


def environment(home: Path) -> dict[str, str]:
    """The variables of this process, then those of the service, then those of a worker that joins."""
    found = dict(os.environ)
    for name in ("service.env", "join.env"):
        path = home / name
        if path.exists():
            for line in path.read_text().splitlines():
                match = _VARIABLE.fullmatch(line)
                if match is not None:
                    found[match[1]] = match[2].replace('\\"', '"').replace("\\\\", "\\")
    return found


def command(home: Path, variables: dict[str, str]) -> list[str]:
    """The command line of the service."""
    service = json.loads((home / "service.json").read_text())
    return [*service["command"], *shlex.split(variables.pop("ROTA_JOIN", ""))]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Supervisor:
    """One service."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _stop(self, _signal: int, _frame: Any) -> None:
        self._stopping = True

    def run(self) -> None:
        """Run the service until stopped."""
        pause = _FIRST_PAUSE_S
        while not self._stopping:
            began = time.monotonic()  # noqa: TID251 - this program has no clock to be given
            self._run_once()
            if time.monotonic() - began > _WELL_S:  # noqa: TID251
                pause = _FIRST_PAUSE_S
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _run_once(self) -> None:
        variables = environment(self._home)
        words = command(self._home, variables)
        with (self._home / "output.log").open("ab") as output:
            try:
                process = subprocess.Popen(
                    words, env=variables, cwd=self._home, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509 - this program has one thread
                )  # fmt: skip
            except OSError as problem:
                output.write(f"cannot start {words[0]}: {problem.strerror}\n".encode())
                return
        while process.poll() is None and not self._stopping:
            self._wait(_LOOK_S)
            self._limit_log()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds  # noqa: TID251
        while not self._stopping and (left := deadline - time.monotonic()) > 0:  # noqa: TID251
            time.sleep(min(left, _LOOK_S))  # noqa: TID251

    def _limit_log(self) -> None:
        log = self._home / "output.log"
        if log.stat().st_size > _LOG_BYTES:
            # The process appends to the file, so it goes on at the new end.
            descriptor = os.open(self._home / "output.log.1", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as former:
                former.write(log.read_bytes())
            os.truncate(log, 0)


if __name__ == "__main__":
    Supervisor(Path(sys.argv[1])).run()
