"""Requests to the machines of a cluster: on this machine, or by the system's `ssh`.

A request runs `on_host` there. Its text, the request and an optional file are standard input, the answer is one line of
standard output.
"""

import json
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rota.kit import errors, logs
from rota.lifecycle import on_host
from rota.lifecycle.cluster_spec import LOCAL, ClusterSpec, Member

_BOOTSTRAP: Final = (
    "import json,sys;d=json.loads(sys.stdin.buffer.readline());g={'__name__':'rota_on_host'};"
    "exec(compile(d['program'],'rota_on_host','exec'),g);g['main'](d['request'])"
)
#: A machine that does not answer for 15 seconds is lost.
_ALIVE: Final = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10")
#: ssh's exit code for its own errors.
_SSH_FAILED: Final = 255
_LONGEST_S: Final = 900.0


class Unreachable(errors.UserError):
    """The machine does not answer, or has no Python."""


class StepFailed(errors.UserError):
    """The machine answers, and something could not be done there."""


class Reach:
    """Sends requests to members."""

    def __init__(self, spec: ClusterSpec, *, folder: Path) -> None:
        """`folder` is that of the cluster's file: paths of keys are relative to it."""
        self._spec: Final = spec
        self._folder: Final = folder
        self._program: Final = Path(on_host.__file__).read_text()
        self._children: Final[set[subprocess.Popen[bytes]]] = set()
        self._lock: Final = threading.Lock()

    def command(self, member: Member) -> list[str]:
        """The command line that runs the program on a member's machine."""
        there = [self._spec.python, "-c", _BOOTSTRAP]
        if member.address == LOCAL:
            return there
        ssh = self._spec.ssh
        if ssh.sudo:
            there = ["sudo", "-n", "--", *there]
        # Whatever the user's configuration says: the keys of the cluster go to these machines.
        options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", *_ALIVE]
        if ssh.port:
            options += ["-p", str(ssh.port)]
        if ssh.identity_file:
            options += ["-i", str(self._folder / ssh.identity_file), "-o", "IdentitiesOnly=yes"]
        if ssh.known_hosts_file:
            options += ["-o", f"UserKnownHostsFile={self._folder / ssh.known_hosts_file}"]
        if ssh.user:
            options += ["-l", ssh.user]
        return [shutil.which("ssh") or "ssh", *options, "--", member.address, shlex.join(there)]

    def ask(
        self, member: Member, request: Mapping[str, Any], *, payload: Path | None = None, timeout_s: float = _LONGEST_S
    ) -> Any:
        """Carry out a request on the member's machine; `payload` is a file to send with it."""
        whole = {"home": f"{self._spec.folder}/{member.name}", **request}
        head = json.dumps({"program": self._program, "request": whole}).encode() + b"\n"
        command = self.command(member)
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as problem:
            raise Unreachable(f"cannot run {command[0]}: {problem.strerror}") from None
        with self._lock:
            self._children.add(process)
        try:
            body = head + (payload.read_bytes() if payload is not None else b"")
            out, err = process.communicate(body, timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Unreachable(f"{member.address} has not answered for {timeout_s:g} s") from None
        finally:
            with self._lock:
                self._children.discard(process)
        return _answer(member, process.returncode, out, err)

    def abandon(self) -> None:
        """End all connections: an interrupted command must not wait for machines."""
        with self._lock:
            for process in self._children:
                process.kill()


def _answer(member: Member, code: int, out: bytes, err: bytes) -> Any:
    lines = out.decode(errors="replace").splitlines()
    try:
        # A login shell may print before the program does.
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        found = {}
    if isinstance(found, dict) and "ok" in found:
        return found["ok"]
    if isinstance(found, dict) and "failed" in found:
        raise StepFailed(str(found["failed"]))
    said = _last(err.decode(errors="replace").splitlines()) or f"exit code {code}"
    if code == _SSH_FAILED:
        raise Unreachable(f"ssh to {member.address} fails: {logs.redact(said)}")
    raise Unreachable(f"{member.address} does not run the program: {logs.redact(said)}")


def _last(lines: Sequence[str]) -> str:
    return next((one.strip() for one in reversed(lines) if one.strip()), "")
