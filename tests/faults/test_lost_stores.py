"""The store fails or fills up: the server reports it, keeps acknowledged writes, and continues when it can."""

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.kit import system
from rota.testing import manifests
from rota.testing.masters import Master

pytestmark = pytest.mark.slow

MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE_S = 60.0


def ask(master: Master, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    host, port = master.http
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{host}:{port}{path}", data, {"content-type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            code, text = answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            code, text = refusal.code, refusal.read()
    return code, json.loads(text) if text.startswith(b"{") else text.decode()


def until(condition: Callable[[], bool]) -> None:
    clock = system.SystemClock()
    deadline = clock.monotonic() + PATIENCE_S
    while not condition():
        assert clock.monotonic() < deadline
        clock.block(0.1)


async def watched(master: Master, version: str, until_name: str) -> list[str]:
    """The names in the events of one watch, up to a certain one."""
    reader, writer = await asyncio.open_connection(*master.http, limit=2**20)
    writer.write(f"GET {MAPS}?watch=true&resourceVersion={version} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    names: list[str] = []
    try:
        while until_name not in names:
            line = await reader.readline()
            assert line, "the watch was cut"
            if line.startswith(b'{"type"'):
                names.append(json.loads(line)["object"]["metadata"]["name"])
    finally:
        writer.close()
    return [name for name in names if name.startswith("m")]


@pytest.mark.parametrize(
    "kind", [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("etcd", marks=pytest.mark.etcd)]
)
async def test_a_store_that_is_lost_and_comes_back(
    start: Callable[..., Master], kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(f"private_{kind}")()
    master = start(server.create_database() if kind == "postgres" else server.url)
    _, listed = await asyncio.to_thread(ask, master, "GET", MAPS)
    watching = asyncio.create_task(watched(master, listed["metadata"]["resourceVersion"], "m-last"))
    for number in range(5):
        code, answer = await asyncio.to_thread(ask, master, "POST", MAPS, manifests.config_map(f"m{number}"))
        assert code == 201, answer
    await asyncio.to_thread(server.kill)
    lost = asyncio.create_task(asyncio.to_thread(ask, master, "POST", MAPS, manifests.config_map("m-lost")))
    # alive, but not ready: a supervisor does not restart it, a load balancer does not use it
    assert (await asyncio.to_thread(ask, master, "GET", "/livez"))[0] == 200
    assert (await asyncio.to_thread(ask, master, "GET", "/readyz"))[0] == 500
    await asyncio.to_thread(server.start)
    code, answer = await lost
    assert code in {201, 500, 503, 504}, answer
    await asyncio.to_thread(until, lambda: ask(master, "GET", "/readyz")[0] == 200)
    code, answer = await asyncio.to_thread(ask, master, "POST", MAPS, manifests.config_map("m-last"))
    assert code == 201, answer
    _, listed = await asyncio.to_thread(ask, master, "GET", MAPS)
    there = {name for item in listed["items"] if (name := item["metadata"]["name"]).startswith("m")}
    assert {f"m{number}" for number in range(5)} <= there
    seen = await asyncio.wait_for(watching, PATIENCE_S)
    assert sorted(seen) == sorted(there), "the watch that ran all the while saw each change once"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes; needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_named_and_loses_nothing(small_disk: Path, start: Callable[..., Master]) -> None:
    master = start(f"sqlite:///{small_disk}/store.db")
    confirmed = []
    refusal: Any = None
    for number in range(1000):
        code, answer = ask(master, "POST", MAPS, manifests.config_map(f"m{number}", text="x" * 100_000))
        if code != 201:
            refusal = answer
            break
        confirmed.append(f"m{number}")
    assert confirmed
    assert refusal["code"] == 500
    assert "full" in refusal["message"]
    # reads go on, and so do writes once there is space
    assert ask(master, "GET", f"{MAPS}/{confirmed[-1]}")[0] == 200
    assert ask(master, "GET", "/livez")[0] == 200
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    until(lambda: ask(master, "POST", MAPS, manifests.config_map("m-again"))[0] in {201, 409})
    _, listed = ask(master, "GET", MAPS)
    there = {item["metadata"]["name"] for item in listed["items"]}
    assert {*confirmed, "m-again"} <= there
    master.kill()
    master.start()
    _, listed = ask(master, "GET", MAPS)
    assert {item["metadata"]["name"] for item in listed["items"]} == there
