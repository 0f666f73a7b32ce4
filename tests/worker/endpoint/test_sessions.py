"""Commands in containers, over the worker's endpoint, in the channel protocol."""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from tests.worker.endpoint.harness import PATIENCE_S, Endpoint, serving_worker, start_pod, until

from rota.client.verbs import Client

pytestmark = pytest.mark.slow
_EXEC = "/exec/default/p/c"


class Conversation:
    """A client's end."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.streams = {1: b"", 2: b"", 3: b""}

    async def send(self, channel: int, data: bytes) -> None:
        await self.socket.send_bytes(bytes((channel,)) + data)

    async def said(self, text: bytes, channel: int = 1) -> None:
        """Wait for some output."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.streams[channel]:
                await self._next()

    async def end(self) -> dict[str, Any]:
        """Everything up to the end; how it ended."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.socket.closed:
                await self._next()
        found: dict[str, Any] = json.loads(self.streams[3])
        return found

    async def code(self) -> int:
        """The exit code that is told at the end."""
        status = await self.end()
        if status["status"] == "Success":
            return 0
        assert status["reason"] == "NonZeroExitCode", status
        return int(status["details"]["causes"][0]["message"])

    async def _next(self) -> None:
        message = await self.socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            self.streams[message.data[0]] += message.data[1:]


@contextlib.asynccontextmanager
async def talking(
    endpoint: Endpoint, *command: str, path: str = _EXEC, protocol: str = "v5.channel.k8s.io", **query: int
) -> AsyncIterator[Conversation]:
    asked = {"output": 1, "error": 1, **query}
    text = urlencode([*asked.items(), *(("command", one) for one in command)])
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            endpoint.url(f"{path}?{text}"), ssl=endpoint.tls(), protocols=(protocol,), max_msg_size=0
        ) as socket,
    ):
        assert socket.protocol == protocol
        yield Conversation(socket)


async def test_a_command_says_what_it_says_and_ends_with_its_code(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300", container={"env": [{"name": "COLOUR", "value": "green"}]})
    async with talking(endpoint, "sh", "-c", 'echo "$COLOUR $0"; echo bad >&2; pwd; exit 3', "a b") as talk:
        assert await talk.code() == 3
    home = endpoint.worker.runtime.home(next(iter(endpoint.worker.agent.machine.pods)).uid)
    assert talk.streams[1] == f"green a b\n{home}\n".encode()
    assert talk.streams[2] == b"bad\n"


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_input_reaches_the_command(client: Client, endpoint: Endpoint, protocol: str) -> None:
    await start_pod(client, "sleep", "300")
    async with talking(endpoint, "head", "-n", "2", protocol=protocol, input=1) as talk:
        await talk.send(0, b"one\ntw")
        await talk.socket.send_str("\0o\n")
        assert await talk.code() == 0
    assert talk.streams[1] == b"one\ntwo\n"


async def test_protocol_version_five_signals_the_end_of_input(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    data = os.urandom(3 << 20)
    async with talking(endpoint, "cat", input=1) as talk:

        async def feed() -> None:
            for start in range(0, len(data), 32 << 10):
                await talk.send(0, data[start : start + (32 << 10)])
            await talk.send(255, b"\0")

        feeding = asyncio.create_task(feed())
        assert await talk.code() == 0
        await feeding
    assert talk.streams[1] == data


async def test_a_terminal_has_a_size_and_passes_signals_on(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    script = (
        'trap "echo caught; exit 5" INT; while ! stty size | grep -q "33 77"; do sleep 0.05; done; stty size; read line'
    )
    async with talking(endpoint, "sh", "-c", script, tty=1, input=1) as talk:
        await talk.send(4, json.dumps({"Width": 77, "Height": 33}).encode())
        await talk.said(b"33 77\r\n")
        await talk.send(4, b"not a size")
        await talk.send(0, b"\x03")
        assert await talk.code() == 5
    assert b"caught" in talk.streams[1]
    assert talk.streams[2] == b""


async def test_a_command_ends_when_its_client_goes(client: Client, endpoint: Endpoint, tmp_path: Path) -> None:
    await start_pod(client, "sleep", "300")
    for tty in (0, 1):
        async with talking(endpoint, "sh", "-c", "echo pid $$; exec sleep 1000", tty=tty) as talk:
            await talk.said(b"\n")
            pid = int(talk.streams[1].split()[1])
            assert Path(f"/proc/{pid}").exists()

        async def gone(pid: int = pid) -> bool:
            return not Path(f"/proc/{pid}").exists()

        await until(gone)


async def test_a_command_is_inside_the_limits_of_its_container(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300", container={"resources": {"limits": {"memory": "64Mi"}}})
    (place,) = endpoint.worker.runtime.places().values()
    if not place.cgroups:
        pytest.skip("this machine gives no control groups")
    async with talking(endpoint, "cat", "/proc/self/cgroup") as talk:
        assert await talk.code() == 0
    inside = talk.streams[1].decode()
    container = Path(f"/proc/{place.pid}/cgroup").read_text()
    assert inside == container


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
async def test_a_containers_variables_do_not_reach_what_runs_as_root_for_it(
    client: Client, endpoint: Endpoint, request: pytest.FixtureRequest
) -> None:
    # The loader complains of this one in every program that sees it.
    variables = [{"name": "LD_PRELOAD", "value": "/no/such.so"}, {"name": "PATH", "value": "/bin:/nowhere"}]
    security = {"runAsUser": 65534}
    # Open to others, which a test's own folder is not.
    folder = Path(tempfile.mkdtemp(prefix="rota-", dir="/tmp"))
    folder.chmod(0o755)
    request.addfinalizer(folder.rmdir)
    mounts = [{"name": "v", "mountPath": str(folder)}]
    container = {"env": variables, "securityContext": security, "volumeMounts": mounts}
    volumes: list[Any] = [{"name": "v", "emptyDir": {}}]
    await start_pod(client, "/bin/sleep", "300", container=container, volumes=volumes)
    async with talking(endpoint, "/bin/sh", "-c", "echo $PATH $LD_PRELOAD; exec test -d $0", str(folder)) as talk:
        assert await talk.code() == 0, talk.streams
    assert talk.streams[1] == b"/bin:/nowhere /no/such.so\n"
    assert talk.streams[2].count(b"cannot be preloaded") == 2, "of sh and of test, and of nobody before them"
    code, said = await endpoint.get("/containerLogs/default/p/c")
    assert (code, said.count("cannot be preloaded")) == (200, 1)


async def test_a_command_ends_with_its_container(client: Client, endpoint: Endpoint) -> None:
    pod = await start_pod(client, "sleep", "300")
    async with talking(endpoint, "sh", "-c", "echo here; exec sleep 1000") as talk:
        await talk.said(b"here")
        await endpoint.worker.runtime.stop(f"{pod['metadata']['uid']}.c.0", 0)
        assert await talk.code() == 137


async def test_a_container_is_talked_to_after_the_agent_was_away(client: Client, tmp_path: Path) -> None:
    async with serving_worker(client, tmp_path / "worker", leave_running=True):
        await start_pod(client, "sleep", "300", container={"env": [{"name": "COLOUR", "value": "green"}]})
    async with serving_worker(client, tmp_path / "worker") as endpoint:

        async def known() -> bool:
            return any(one.containers["c"].live for one in endpoint.worker.agent.machine.pods)

        await until(known)
        async with talking(endpoint, "sh", "-c", "echo $COLOUR") as talk:
            assert await talk.code() == 0
        assert talk.streams[1] == b"green\n"


async def test_a_failed_start_is_reported_as_the_exit(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    async with talking(endpoint, "true", path="/exec/default/p/d") as talk:
        assert (await talk.end())["message"] == 'container not found ("d")'
    async with talking(endpoint, "true", path="/exec/default/q/c") as talk:
        assert (await talk.end())["reason"] == "NotFound"
    async with talking(endpoint) as talk:
        assert "at least one command" in (await talk.end())["message"]
    async with talking(endpoint, "no-such-program") as talk:
        assert await talk.code() == 127
    assert b"no-such-program" in talk.streams[2]


async def test_what_a_command_leaves_behind_does_not_hold_its_client(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    async with talking(endpoint, "sh", "-c", "sleep 1000 & echo done") as talk:
        assert await talk.code() == 0
    assert talk.streams[1] == b"done\n"


async def test_attaching_shows_what_comes_from_now_on(client: Client, endpoint: Endpoint, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pod = await start_pod(client, "sh", "-c", f"echo before; read x < {gate}; echo after; echo oh >&2; sleep 300")

    async def wrote() -> bool:
        return "before" in (await endpoint.get("/containerLogs/default/p/c"))[1]

    await until(wrote)
    async with talking(endpoint, path="/attach/default/p/c") as talk:
        await talk.socket.receive()
        await asyncio.to_thread(gate.write_text, "go\n")
        await talk.said(b"after\n")
        await talk.said(b"oh\n", channel=2)
        await endpoint.worker.runtime.stop(f"{pod['metadata']['uid']}.c.0", 0)
        assert await talk.code() == 0
    assert (talk.streams[1], talk.streams[2]) == (b"after\n", b"oh\n")


_ATTACH = "/attach/default/p/c"


async def test_input_reaches_a_container_and_ends_with_its_only_writer(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sh", "-c", "cat; echo over", container={"stdin": True, "stdinOnce": True})
    data = os.urandom(1 << 20).hex().encode() + b"\n"
    async with talking(endpoint, path=_ATTACH, input=1) as talk:
        feeding = asyncio.create_task(_feed(talk, data))
        assert await talk.code() == 0
        await feeding
    assert talk.streams[1] == data + b"over\n"


async def _feed(talk: Conversation, data: bytes) -> None:
    for start in range(0, len(data), 32 << 10):
        await talk.send(0, data[start : start + (32 << 10)])
    await talk.send(255, b"\0")


async def test_input_that_is_for_many_outlives_each_of_them(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sh", "-c", "read a; read b; echo $a $b", container={"stdin": True})
    async with talking(endpoint, path=_ATTACH, input=1) as first:
        await first.send(0, b"one\n")
        await first.send(255, b"\0")
        await first.said(b"")
    async with talking(endpoint, path=_ATTACH, input=1) as second:
        await second.send(0, b"two\n")
        assert await second.code() == 0
    assert second.streams[1] == b"one two\n"


async def test_a_container_without_input_takes_nothing_in(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sh", "-c", "sleep 1; read x || echo nothing")
    async with talking(endpoint, path=_ATTACH, input=1) as talk:
        await talk.send(0, b"ignored\n")
        assert await talk.code() == 0
    assert talk.streams[1] == b"nothing\n"


async def test_a_container_at_a_terminal_is_talked_to_as_at_a_terminal(client: Client, endpoint: Endpoint) -> None:
    interactive = {"stdin": True, "stdinOnce": True, "tty": True}
    await start_pod(
        client, "sh", "-c", 'tty; while read -p "? " x; do eval "$x"; done; echo over', container=interactive
    )
    async with talking(endpoint, path=_ATTACH, input=1, tty=1) as talk:
        await talk.send(4, b'{"Width": 91, "Height": 17}')
        await talk.send(0, b"stty size\n")
        await talk.said(b"17 91\r\n")
        await talk.send(0, b"trap 'echo caught' INT; kill -INT $$\n")
        await talk.said(b"caught\r\n? ")
        await talk.send(255, b"\0")
        assert await talk.code() == 0
    assert talk.streams[1].endswith(b"over\r\n")
    assert talk.streams[2] == b""


async def test_other_protocols_are_refused(endpoint: Endpoint) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with talking(endpoint, "true", protocol="v1.channel.k8s.io"):
            pass
    assert refused.value.status == 400


async def test_messages_without_end_are_not_taken_in(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sleep", "300")
    async with talking(endpoint, "cat", input=1) as talk:
        await talk.said(b"")
        with contextlib.suppress(ConnectionError):
            await talk.send(0, bytes(9 << 20))
        async with asyncio.timeout(PATIENCE_S):
            while not talk.socket.closed:
                await talk.socket.receive()
        assert talk.socket.close_code in {1009, 1006}
