"""Calls in leased workers whose address the client cannot reach: they go through the API server."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.python.conftest import Cluster

import rota
from rota.api import errors
from rota.client import port_forward
from rota.client.endpoints import Endpoint
from rota.kit import system
from rota.python import lease_keys, lease_manager, lease_tunnel
from rota.python.lease import LeaseFuture
from rota.python.lease_connection import NoWay

PATIENCE_S = 60.0
#: The workers listen at 127.0.0.1; here nothing does.
REFUSES = "127.0.0.77"
#: There is no way to this one: connecting fails at once.
UNREACHABLE = "255.255.255.255"


def place_pods_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients believe that all pods have this address."""
    told = LeaseFuture.progressed

    def progressed(self: LeaseFuture, *, phase: str, node: str, pod: str, why: str = "", **more: str) -> None:
        told(self, phase=phase, node=node, pod=pod, why=why, address=address if more.get("address") else "")

    monkeypatch.setattr(LeaseFuture, "progressed", progressed)


def connections_of_worker() -> list[str]:
    """The peers of the process that keeps the connection of the worker that runs this."""
    return [peer for _, peer in connections(os.getppid())]


def connections(process: int) -> list[tuple[str, str]]:
    """The addresses of both ends of a process's connections."""
    sockets = set()
    for one in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(one.readlink()))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [(row[1], row[2]) for row in rows if row[3] == "01" and f"socket:[{row[9]}]" in sockets]


def local_ends() -> set[str]:
    return {local for local, _ in connections(os.getpid())}


@pytest.mark.slow
@pytest.mark.parametrize("address", [REFUSES, UNREACHABLE])
def test_calls_go_through_the_api_server_where_there_is_no_direct_way(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    place_pods_at(address, monkeypatch)
    monkeypatch.setattr(lease_manager, "_ATTEMPTS", 50)
    with rota.Client(cluster.kubeconfig) as client:
        assert rota.results(client.map(abs, range(-500, 0))) == list(range(500, 0, -1))
        array = np.arange(3_000_000)
        assert (client.submit(np.negative, array).result(PATIENCE_S) == -array).all(), "also much data, both ways"
        (peer,) = client.submit(connections_of_worker).result(PATIENCE_S)
        assert peer not in local_ends(), "its peer is another process"


@pytest.mark.slow
def test_a_direct_way_is_preferred_if_the_worker_listens_late(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_manager, "_ATTEMPTS", 0)
    with rota.Client(cluster.kubeconfig) as client:
        (peer,) = client.submit(connections_of_worker).result(PATIENCE_S)
        assert peer in local_ends()


async def test_a_client_without_the_right_to_forward_ports_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise errors.Forbidden("pods is forbidden")

    monkeypatch.setattr(port_forward, "to_pod", refused)
    target = lease_tunnel.Target(
        endpoint=Endpoint(server="https://127.0.0.1:1"),
        namespace="default",
        pod="p",
        address="10.0.0.1",
        ports=[20_000],
        keys=lease_keys.fresh(1_700_000_000.0),
    )
    with pytest.raises(NoWay, match=r"10\.0\.0\.1 is away; and no right .* grant 'create pods/portforward'"):
        await lease_tunnel.carry(
            target,
            NoWay("10.0.0.1 is away"),
            connected=lambda _: None,
            stop=threading.Event(),
            clock=system.SystemClock(),
        )
