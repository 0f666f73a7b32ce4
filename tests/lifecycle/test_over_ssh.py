"""A cluster on machines of their own, reached by real ssh servers: created, cut off, scaled, hurt and deleted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.kit import system
from rota.testing import hosts
from rota.testing.hosts import Network
from rota.testing.servers.etcd import EtcdServer
from rota.testing.ssh_hosts import SshHosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.etcd,
    pytest.mark.sshd,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing() or "-"),
]
PATIENCE_S = 600.0
CLOCK = system.SystemClock()


class Site:
    """Machines, a store, and the file of a cluster on them."""

    def __init__(self, folder: Path, network: Network, machines: SshHosts, store_url: str) -> None:
        self.network = network
        self.machines = machines
        self.folder = folder / "cluster"
        self.file = folder / "cluster.yaml"
        self.journal = folder / "cluster.yaml.journal"
        self._store_url = store_url

    def write(self, masters: list[str], workers: list[str]) -> None:
        """Write the file, and start the machines that are new in it."""
        for name in (*masters, *workers):
            if name not in self.network.hosts:
                self.machines.start(name)
        address = {name: host.address for name, host in self.network.hosts.items()}
        resources = {"cpu": 4, "memory": "1Gi"}
        options = ["--lease=8", "--run-as=root"]
        document = {
            "apiVersion": "rota.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "lab"},
            "spec": {
                "store": self._store_url,
                "folder": str(self.folder),
                "manager": "processes",
                "program": str(Path(sys.executable).with_name("rota")),
                "python": sys.executable,
                "ssh": self.machines.ssh,
                "masters": [{"name": name, "address": address[name]} for name in masters],
                "workers": [
                    {"name": name, "address": address[name], "resources": resources, "options": options}
                    for name in workers
                ],
            },
        }
        self.file.write_text(yaml.safe_dump(document))

    def begin(self, verb: str) -> "subprocess.Popen[str]":
        """Start `rota cluster VERB`."""
        command = [sys.executable, "-m", "rota", "cluster", verb, "-f", str(self.file)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, verb: str, *, code: int = 0) -> str:
        """The output of `rota cluster VERB`."""
        process = self.begin(verb)
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, f"{verb}: {out}\n{self.logs()}"
        return out

    def rota(self, verb: str, *arguments: str) -> str:
        """The output of a `rota` command on the machine of the first master."""
        config = self.folder / "m1" / "data" / "kubeconfig"
        done = subprocess.run(
            [sys.executable, "-m", "rota", verb, "--kubeconfig", str(config), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ready(self) -> list[str]:
        """The names of the ready nodes."""
        found: dict[str, Any] = json.loads(self.rota("get", "nodes", "-o", "json"))
        return sorted(
            one["metadata"]["name"]
            for one in found["items"]
            if any(each["type"] == "Ready" and each["status"] == "True" for each in one["status"]["conditions"])
        )

    def is_done(self, step: str) -> bool:
        """Whether the journal has a step as done."""
        return self.journal.exists() and f'"done", "step": "{step}"' in self.journal.read_text()

    def logs(self) -> str:
        """The last output of every member."""
        return "\n".join(f"{one}: {one.read_text()[-2000:]}" for one in sorted(self.folder.glob("*/output.log")))

    def processes(self) -> list[str]:
        """The command lines that name the cluster's folder, on all machines."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if str(self.folder) in line:
                    found.append(line)
        return found


def until(holds: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    deadline = CLOCK.monotonic() + PATIENCE_S
    while not holds():
        assert CLOCK.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        CLOCK.block(0.02)


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill a runner with its ssh processes, as a power failure of the operator's machine does."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with (
        Network() as network,
        EtcdServer(address=network.own_address) as store,
        SshHosts(network, tmp_path / "ssh") as machines,
    ):
        yield Site(tmp_path, network, machines, store.url)


def test_a_cluster_is_created_cut_off_scaled_hurt_and_deleted(site: Site) -> None:
    masters = ["m1", "m2", "m3"]
    site.write(masters, ["w1", "w2", "w3"])

    # The runner is killed while the other masters start; the second run goes on.
    first = site.begin("create")
    until(lambda: site.is_done("start/m1"), first)
    kill(first)
    assert "an earlier 'create' was cut off" in site.run("status", code=1)
    resumed = site.run("create")
    assert "start m1" not in resumed
    assert site.ready() == ["w1", "w2", "w3"]
    task = site.rota("run", "--detach", "--", "sleep", "1000").strip()

    # A machine is lost in the middle of a step: the other new worker joins, and nothing else is disturbed.
    site.write(masters, ["w1", "w2", "w3", "w4", "w5"])
    second = site.begin("scale")
    until(lambda: site.is_done("prepare/w5"), second)
    site.network.hosts["w5"].power_off()
    out, _ = second.communicate(timeout=PATIENCE_S)
    assert second.returncode in {1, 2}, out
    assert "w5" in out.splitlines()[-1]
    site.machines.start("w5")
    site.run("scale")
    assert site.ready() == ["w1", "w2", "w3", "w4", "w5"]

    # A killed worker process is started again by its supervisor, or by repair if the supervisor is dead as well.
    site.network.hosts["w4"].power_off()
    site.machines.start("w4")
    assert "start w4" in site.run("repair")

    # Back to three workers and down to one master: the task of the remaining worker goes on.
    node = json.loads(site.rota("get", "pod", task, "-o", "json"))["spec"]["nodeName"]
    kept = sorted({node, "w1", "w2"})
    site.write(["m1"], kept)
    site.run("scale")
    assert sorted(site.network.hosts) == ["m1", "m2", "m3", "w1", "w2", "w3", "w4", "w5"]
    assert site.ready() == kept
    pod = json.loads(site.rota("get", "pod", task, "-o", "json"))["status"]
    assert pod["phase"] == "Running"
    assert pod["containerStatuses"][0]["restartCount"] == 0
    assert sorted(one.name for one in site.folder.iterdir()) == sorted(["m1", *kept])

    # Nothing is left: no process, no file, no control group, no journal.
    assert site.processes()
    site.run("delete")
    assert site.processes() == []
    assert not site.folder.exists()
    assert not site.journal.exists()
