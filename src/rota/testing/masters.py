"""`rota up` as a process without workers, which a test can kill and start again.

    with Master(folder, store_url=url) as master:
        endpoint = master.endpoint()        # the administrator's, over TLS
        master.kill()                       # SIGKILL
        master.start()

Masters on one store share a key file and, through the store, a CA, so the credentials of one are valid for all.
"""

import re
import resource
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import system

_START_S: Final = 60.0
_STOP_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.05
_READY: Final = "Rota is up."


class Master:
    """A process that serves the API over TLS, and on loopback without."""

    def __init__(
        self,
        folder: Path,
        *,
        store_url: str,
        keys: Path,
        options: tuple[str, ...] = (),
        files: tuple[int, int] | None = None,
    ) -> None:
        """`folder` is this master's own; `keys` all masters of a store have in common.

        `files` are the soft and the hard limit on its open files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder: Final = folder
        self._log: Final = folder / "output.log"
        # as a module, so that the interpreter is the test's own
        self._command: Final = (
            *(sys.executable, "-m", "rota", "up", "--data", str(folder), "--store", store_url),
            *("--port", "0", "--http", "0", "--workers", "0", "--encryption-keys", str(keys), *options),
        )
        self._files: Final = files
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    def start(self) -> None:
        """Start, and return once it serves; AssertionError with its output if it does not."""
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)
        if self._files is not None:
            # before it reads them
            resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self._files)
        clock = system.SystemClock()
        deadline = clock.monotonic() + _START_S
        while _READY not in self.output:
            assert self._process.poll() is None, self.output
            assert clock.monotonic() < deadline, self.output
            clock.block(_LOOK_AGAIN_S)

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOP_S)
        self._process = None

    def stop(self) -> None:
        """Ask it to end, and wait for that; AssertionError if it cannot."""
        assert self._process is not None
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)
            raise AssertionError(f"it does not stop: {self.output}") from None
        self._process = None
        assert code == 0, self.output

    @property
    def output(self) -> str:
        """Its output since the start."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def memory_bytes(self) -> int:
        """Its resident memory."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    @property
    def http(self) -> tuple[str, int]:
        """Its URL without TLS and authentication."""
        found = re.search(r"^ *http +http://([\d.]+):(\d+)", self.output, re.MULTILINE)
        assert found is not None, self.output
        return found[1], int(found[2])

    def endpoint(self) -> Endpoint:
        """The administrator's endpoint, over TLS."""
        return kubeconfig.load(self._folder / "kubeconfig", clock=system.SystemClock())
