"""Simulated machines on a network: each has its own network namespace and process namespace.

    with Network() as network:
        host = network.host("w1")
        subprocess.Popen([*host.inside, "program"])     # on that machine
        network.cut(host)                               # what it sends is lost without a word
        network.heal(host)
        network.block(host, other)                      # only what it sends to one other machine is lost
        host.power_off()                                # all its processes end at once

They are kernel namespaces, connected by a bridge in another one. So nothing is left of them when their first
processes end, even if the test is killed. They share the file system. Needs root and iproute2; `missing` names what
is not installed. This process has an address on the network as well: `Network.own_address`.
"""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.kit import system

_PROGRAMS: Final = ("ip", "unshare", "nsenter", "setpriv")
_BRIDGE: Final = "switch"
#: For the kernel to make namespaces, or to end what runs in them; long, since machines of tests are busy.
_START_S: Final = 60.0
#: A MAC address that no machine has.
_NOBODY: Final = "02:00:00:00:ff:ff"


def missing() -> str:
    """What this machine lacks for namespaces; empty if nothing."""
    if os.geteuid() != 0:
        return "separate hosts need root"
    absent = [one for one in _PROGRAMS if shutil.which(one) is None]
    if absent:
        return f"{', '.join(absent)} missing: apt-get install iproute2 util-linux"
    tried = _tried("unshare", "--net", "--pid", "--fork", "true")
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Host:
    """One machine."""

    def __init__(self, name: str, address: str) -> None:
        self.name: Final = name
        self.address: Final = address
        #: The bridge's end of its veth pair.
        self.port: Final = f"p{secrets.token_hex(4)}"
        self._process = _first_process("--net", "--pid", "--mount-proc")
        self.pid = _child(self._process.pid)

    @property
    def inside(self) -> Sequence[str]:
        """The prefix of command lines that run on it."""
        return ("nsenter", "--target", str(self.pid), "--net", "--pid", "--mount", "--")

    def power_off(self) -> None:
        """End everything that runs on it at once. It stays off."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait(_START_S)


class Network:
    """A bridge and its machines."""

    def __init__(self) -> None:
        # One of 16,000 networks, so that concurrent tests do not collide.
        self._prefix: Final = f"10.{192 + secrets.randbelow(63)}.{secrets.randbelow(256)}"
        self.own_address: Final = f"{self._prefix}.1"
        self.hosts: Final[dict[str, Host]] = {}
        self._switch = _first_process("--net")
        self._switch_pid = _child(self._switch.pid)
        self._own_link: Final = f"rota{secrets.token_hex(4)}"
        self._numbers: Final[dict[str, int]] = {}

    def __enter__(self) -> Self:
        try:
            self._at_switch("ip", "link", "add", _BRIDGE, "type", "bridge")
            self._at_switch("ip", "link", "set", _BRIDGE, "up")
            _run("ip", "link", "add", self._own_link, "type", "veth", "peer", "own", "netns", str(self._switch_pid))
            _run("ip", "addr", "add", f"{self.own_address}/24", "dev", self._own_link)
            _run("ip", "link", "set", self._own_link, "up")
            self._plug("own")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove all namespaces."""
        for host in self.hosts.values():
            host.power_off()
        if self._switch.poll() is None:
            os.kill(self._switch_pid, signal.SIGKILL)
            self._switch.wait(_START_S)
        # Its other end is removed with the bridge, which the kernel does asynchronously.
        _tried("ip", "link", "delete", self._own_link)

    def host(self, name: str) -> Host:
        """Start a machine; one that was off starts again with its former address."""
        number = self._numbers.setdefault(name, len(self._numbers) + 2)
        made = self.hosts[name] = Host(name, f"{self._prefix}.{number}")
        target = str(made.pid)
        # It keeps its MAC address as well, since others cache it.
        card = ("address", f"02:00:00:00:00:{number:02x}")
        self._at_switch("ip", "link", "add", made.port, "type", "veth", "peer", "eth0", *card, "netns", target)
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "addr", "add", f"{made.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            _run("nsenter", "--target", target, "--net", "--", *command)
        self._plug(made.port)
        return made

    def cut(self, host: Host) -> None:
        """Disconnect a machine from the bridge; its own interface stays up."""
        self._at_switch("ip", "link", "set", host.port, "nomaster")

    def heal(self, host: Host) -> None:
        """Connect it again."""
        self._at_switch("ip", "link", "set", host.port, "master", _BRIDGE)

    def block(self, source: Host, destination: Host) -> None:
        """Lose what one machine sends to another; the other direction works. It stays so until `unblock`."""
        _at_host(
            source, "ip", "neigh", "replace", destination.address, "lladdr", _NOBODY, "dev", "eth0", "nud", "permanent"
        )

    def unblock(self, source: Host, destination: Host) -> None:
        """Let a machine reach another one again."""
        _at_host(source, "ip", "neigh", "del", destination.address, "dev", "eth0")

    def _plug(self, port: str) -> None:
        self._at_switch("ip", "link", "set", port, "master", _BRIDGE, "up")

    def _at_switch(self, *command: str) -> None:
        _run("nsenter", "--target", str(self._switch_pid), "--net", "--", *command)


def _at_host(host: Host, *command: str) -> None:
    _run("nsenter", "--target", str(host.pid), "--net", "--", *command)


def _first_process(*namespaces: str) -> "subprocess.Popen[bytes]":
    """An idle process in its own namespaces that ends with this process."""
    command = ("setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "--fork", "--kill-child=KILL")
    return subprocess.Popen(_found(*command, "sleep", "infinity"), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _child(pid: int) -> int:
    """The only child of a process, after its exec."""
    clock = system.SystemClock()
    deadline = clock.monotonic() + _START_S
    while clock.monotonic() < deadline:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found and Path(f"/proc/{found[0]}/comm").read_text().strip() == "sleep":
            return int(found[0])
        clock.block(0.005)
    raise AssertionError("no namespaces were made")


def _run(*command: str) -> None:
    done = _tried(*command)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def _tried(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(_found(*command), check=False, capture_output=True, text=True)


def _found(program: str, *arguments: str) -> list[str]:
    return [shutil.which(program) or program, *arguments]
