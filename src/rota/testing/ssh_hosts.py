"""Simulated machines (`rota.testing.hosts`) with an ssh server each, for tests of `rota cluster`.

    with Network() as network, SshHosts(network, folder) as machines:
        machines.start("m1")                            # a machine that root's key opens
        machines.ssh                                    # spec.ssh of the cluster's file

Needs root and Debian's openssh-server (the part `sshd` of `rota.testing.parts`).
"""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rota.kit import system
from rota.testing.hosts import Host, Network
from rota.testing.servers import binaries

_START_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05
#: /run is the machine's own: sshd needs a folder there, and no systemd runs on it.
_START: Final = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'


class SshHosts:
    """Machines of a network that ssh reaches."""

    def __init__(self, network: Network, folder: Path) -> None:
        self._network: Final = network
        self._folder: Final = folder
        self._servers: Final[list[subprocess.Popen[bytes]]] = []
        folder.mkdir(mode=0o700)
        for name in ("host", "client"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        shutil.copy(folder / "client.pub", folder / "authorized")
        (folder / "sshd_config").write_text(
            "\n".join(
                (
                    f"HostKey {folder}/host",
                    f"AuthorizedKeysFile {folder}/authorized",
                    "PidFile none",
                    "UsePAM no",
                    "StrictModes no",
                    "PasswordAuthentication no",
                    "PermitRootLogin prohibit-password",
                    "MaxStartups 100",
                    "",
                )
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.kill()
            server.wait()

    @property
    def ssh(self) -> dict[str, str]:
        """`spec.ssh` of a cluster of these machines."""
        return {
            "user": "root",
            "identityFile": str(self._folder / "client"),
            "knownHostsFile": str(self._folder / "known"),
        }

    def start(self, name: str) -> Host:
        """Start a machine, or one that was off; returns when it accepts connections."""
        host = self._network.host(name)
        command = (str(binaries.sshd()), "-D", "-e", "-f", str(self._folder / "sshd_config"))
        with (self._folder / f"{name}.log").open("ab") as log:
            self._servers.append(
                subprocess.Popen([*host.inside, "sh", "-c", _START, "sh", *command], stdout=log, stderr=log)
            )
        kind, key, *_ = (self._folder / "host.pub").read_text().split()
        known = self._folder / "known"
        lines = set(known.read_text().splitlines()) if known.exists() else set()
        known.write_text("\n".join(sorted({*lines, f"{host.address} {kind} {key}"})) + "\n")
        self._wait(host)
        return host

    def _wait(self, host: Host) -> None:
        clock = system.SystemClock()
        deadline = clock.monotonic() + _START_S
        log = self._folder / f"{host.name}.log"
        while not _listens(host):
            assert clock.monotonic() < deadline, log.read_text()
            clock.block(_LOOK_AGAIN_S)


def _listens(host: Host) -> bool:
    """Whether port 22 (0016 in the kernel's table) has a listener (state 0A) on the machine."""
    command = (*host.inside, "cat", "/proc/net/tcp")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return any(line.split()[1].endswith(":0016") and line.split()[3] == "0A" for line in done.stdout.splitlines()[1:])


def _run(*command: str) -> None:
    done = subprocess.run([shutil.which(command[0]) or command[0], *command[1:]], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
