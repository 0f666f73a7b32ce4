"""Runs the real kubectl in tests, with separate settings and caches.

kubectl = Kubectl(program, url=live.url, namespace="wire", home=tmp_path)
assert kubectl("get", "pods") == "..."
refused = kubectl.run("delete", "pod", "nobody")
"""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Final

import yaml

#: How long a command may take; kubectl waits for slow servers without end.
_PATIENCE_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str


class Lines:
    """The output of a running command."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        threading.Thread(target=self._read, args=(stream,), name="kubectl", daemon=True).start()

    def next(self) -> str:
        """The next line; fails the test if none comes."""
        try:
            line = self._lines.get(timeout=_PATIENCE_S)
        except Empty:
            raise AssertionError(f"kubectl said nothing within {_PATIENCE_S:.0f} s") from None
        assert line is not None, "kubectl ended"
        return line

    def until(self, wanted: str) -> str:
        """The first line from here on that contains `wanted`."""
        while wanted not in (line := self.next()):
            pass
        return line

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


class Kubectl:
    """One kubectl, pointed at one server and namespace. Called, it returns what was printed, or fails the test."""

    def __init__(
        self, program: Path, *, namespace: str, home: Path, url: str = "", kubeconfig: Path | None = None
    ) -> None:
        """The server is that of the `url`, or that of the `kubeconfig`."""
        self.program: Final = program
        self.namespace: Final = namespace
        self._command: Final = [str(program), *([f"--server={url}"] if url else [])]
        # no kubeconfig, cache or aliases of the user, and no proxy for loopback
        self._environment: Final = {
            "HOME": str(home),
            "KUBECONFIG": os.devnull if kubeconfig is None else str(kubeconfig),
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
        }

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """What the command printed; AssertionError if it failed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.code}\n{done.out}{done.err}"
        return done.out

    def run(self, *arguments: str, stdin: str | None = None) -> Done:
        """The result of the command, also if it failed."""
        done = subprocess.run(
            self._line(arguments),
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    def json(self, *arguments: str) -> Any:
        """What `--output=json` printed."""
        return json.loads(self(*arguments, "--output=json"))

    def apply(self, *objects: Any, arguments: tuple[str, ...] = ()) -> str:
        """`kubectl apply -f -` of objects."""
        return self("apply", *arguments, "--filename=-", stdin=documents(*objects))

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[Lines]:
        """A command that runs until the block ends."""
        with subprocess.Popen(
            self._line(arguments), env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield Lines(process.stdout)
            finally:
                process.kill()

    def _line(self, arguments: tuple[str, ...]) -> list[str]:
        chosen = any(one in {"-n", "-A", "--all-namespaces"} or one.startswith("--namespace") for one in arguments)
        return [*self._command, *([] if chosen else [f"--namespace={self.namespace}"]), *arguments]


def documents(*objects: Any) -> str:
    """Objects as one YAML stream; text is taken as it is."""
    return "\n---\n".join(one if isinstance(one, str) else yaml.safe_dump(one) for one in objects)
