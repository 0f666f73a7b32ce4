"""The webhook on a real socket beside a real API server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from tests.notices import bodies

from rota.api import times
from rota.client import client_factory
from rota.client.transports.transport import Interrupted
from rota.kit import system
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.notices import webhook
from rota.notices.announcer import Announcer
from rota.notices.node_lookup import Machines
from rota.notices.webhook import Hook, Token, Webhook
from rota.spot.node_signals import TERMINATING, NodeSignals
from rota.testing import manifests
from rota.testing.api import PATIENCE_S, ApiServer

NODES = "/api/v1/nodes"
SECRET = "0123456789abcdef0123"
pytestmark = pytest.mark.slow
POOL = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/3"


@dataclass
class Sender:
    api: ApiServer
    session: aiohttp.ClientSession
    url: str
    metrics: Metrics
    token_file: Path
    hook: Webhook

    async def send(self, body: Any, *, token: str = SECRET, **headers: str) -> tuple[int, Any]:
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["Authorization"] = f"Bearer {token}"
        async with self.session.post(self.url, headers=named, **sent) as answer:
            return answer.status, await answer.json()

    async def taints(self, node: str) -> list[str]:
        found = (await self.api.get(f"{NODES}/{node}")).json
        return [one["key"] for one in found["spec"].get("taints") or ()]

    async def version(self, node: str) -> str:
        return str((await self.api.get(f"{NODES}/{node}")).json["metadata"]["resourceVersion"])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def listening(
    folder: Path, *, synced: bool = True, guarded: bool = True, dry_run: bool = False
) -> AsyncIterator[Sender]:
    clock, rng = system.SystemClock(), random.Random(0)
    secret = folder / "token"
    secret.write_text(f"{SECRET}\n")
    async with (
        ApiServer() as api,
        client_factory.to_application(api.app, clock=clock, rng=rng) as client,
        aiohttp.ClientSession() as session,
    ):
        for name, provider_id in (
            ("n1", "aws:///us-east-1a/i-0abc"),
            ("n2", "gce://p/europe-west1-b/gke-1"),
            ("n3", POOL),
            ("n4", "aws:///us-east-1b/twin"),
            ("n5", "aws:///us-east-1c/twin"),
        ):
            made = manifests.node(name)
            made["spec"] = {**made.get("spec", {}), "providerID": provider_id}
            assert (await api.post(NODES, made)).code == 201
        table, metrics = NodeSignals(), Metrics("spot")
        machines = Machines(client, clock=clock, rng=rng)
        hook = Webhook(
            Announcer(client, table, clock=clock, metrics=metrics, dry_run=dry_run),
            machines,
            table,
            clock=clock,
            token=Token(secret) if guarded else None,
            metrics=metrics,
        )
        following = asyncio.ensure_future(machines.run()) if synced else None
        try:
            if synced:
                await until(lambda: machines.synced)
            async with webhook.serving(hook, Hook(address=("127.0.0.1", 0), token=None, tls=None)) as url:
                yield Sender(api, session, url, metrics, secret, hook)
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait([following])


def soon() -> str:
    return times.format_time(system.SystemClock().now() + 100)


async def test_a_notice_marks_its_node_once_however_often_it_is_sent(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        body = {"node": "n1", "kind": "termination", "provider": "aws", "deadline": soon()}
        code, answer = await sender.send(body)
        assert (code, answer) == (200, {"notices": [{"machine": "n1", "node": "n1", "outcome": "marked"}]})
        assert TERMINATING in await sender.taints("n1")
        version = await sender.version("n1")
        answers = await asyncio.gather(*(sender.send(body) for _ in range(10)))
        assert {answer["notices"][0]["outcome"] for _, answer in answers} == {"known"}
        assert await sender.version("n1") == version
        heard = {"source": "webhook", "provider": "aws", "kind": "termination"}
        assert sender.metrics.value("notices_heard_total", **heard, outcome="marked") == 1
        assert sender.metrics.value("notices_heard_total", **heard, outcome="known") == 10


async def test_what_is_sent_at_the_same_time_is_written_once(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        body = {"node": "n1", "kind": "termination", "deadline": soon()}
        answers = await asyncio.gather(*(sender.send(body) for _ in range(8)))
        assert sorted(answer["notices"][0]["outcome"] for _, answer in answers) == ["known"] * 7 + ["marked"]


async def test_machines_are_found_by_what_their_clouds_call_them(tmp_path: Path) -> None:
    now = soon()
    async with listening(tmp_path) as sender:
        for body, node in (
            (bodies.interruption(time=now), "n1"),
            ({**bodies.preempted(), "timestamp": now}, "n2"),
            (bodies.scheduled("Preempt", NotBefore=now), "n3"),
        ):
            code, answer = await sender.send(body)
            assert code == 200, answer
            assert answer["notices"][0]["node"] == node
            assert TERMINATING in await sender.taints(node)


async def test_an_unknown_machine_is_not_found(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        for body in (
            {"node": "n9", "kind": "termination", "in": 30},
            {"instance": "i-9", "kind": "termination", "in": 30},
            bodies.interruption("i-9"),
        ):
            code, answer = await sender.send(body)
            assert code == 404
            assert "no node is the machine" in answer["error"]
        code, answer = await sender.send({"instance": "twin", "kind": "termination", "in": 30})
        assert (code, "n4, n5; name the providerID" in answer["error"]) == (409, True)
        assert await sender.taints("n4") == []


async def test_some_unknown_machines_do_not_hide_the_others(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        both = [{"node": name, "kind": "termination", "in": 30} for name in ("n9", "n2")]
        code, answer = await sender.send({"notices": both})
        assert code == 200
        assert [one.get("outcome") for one in answer["notices"]] == ["unknown", "marked"]


async def test_two_hundred_notices_at_once_are_all_written(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        names = [f"m{number}" for number in range(200)]
        for name in names:
            assert (await sender.api.post(NODES, manifests.node(name))).code == 201
        sent = {"notices": [{"node": name, "kind": "termination", "in": 60, "id": "wave"} for name in names]}
        code, answer = await sender.send(sent)
        assert code == 200
        assert [one["outcome"] for one in answer["notices"]] == ["marked"] * 200
        found = (await sender.api.get(NODES)).json["items"]
        marked = {one["metadata"]["name"] for one in found if one.get("spec", {}).get("taints")}
        assert marked == set(names)
        _, again = await sender.send(sent)
        assert {one["outcome"] for one in again["notices"]} == {"known"}


async def test_headers_that_are_no_text_are_refused_and_not_stumbled_over(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        parts = urlsplit(sender.url)
        for header in (
            b"Authorization: Bearer \xff\xfe",
            f"Authorization: Bearer {SECRET}\r\nce-specversion: 1.0\r\nce-id: ".encode() + b"\xff",
        ):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            head = b"POST /notices HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + header + b"\r\n\r\n{}"
            writer.write(head)
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            assert int(line.split()[1]) in {200, 400, 401}


async def test_a_notice_can_be_taken_back(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        await sender.send({"node": "n1", "kind": "termination", "in": 30})
        code, answer = await sender.send({"node": "n1", "kind": "withdrawn"})
        assert (code, answer["notices"][0]["outcome"]) == (200, "withdrawn")
        assert await sender.taints("n1") == []


async def test_the_webhook_requires_its_token_which_can_be_replaced(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        body = {"node": "n1", "kind": "termination", "in": 30}
        for token in ("", "wrong", SECRET[:-1], SECRET + "x"):
            code, answer = await sender.send(body, token=token)
            assert (code, "Bearer" in answer["error"]) == (401, True)
        assert await sender.taints("n1") == []
        sender.token_file.write_text("another-token-0123456789")
        assert (await sender.send(body))[0] == 401
        assert (await sender.send(body, token="another-token-0123456789"))[0] == 200
        sender.token_file.unlink()
        assert (await sender.send(body, token="another-token-0123456789"))[0] == 401
        assert sender.metrics.value("webhook_requests_total", code="401") == 6


async def test_what_is_malformed_or_too_large_is_refused(tmp_path: Path) -> None:
    async with listening(tmp_path, guarded=False) as sender:
        code, answer = await sender.send(b"{", token="")
        assert code == 400
        assert answer["error"]
        assert (await sender.send(b" " * 300_000, token=""))[0] == 413
        code, answer = await sender.send({"node": "n1", "kind": "termination", "provider": "nobody"}, token="")
        assert (code, "unknown provider 'nobody'" in answer["error"]) == (400, True)
        async with sender.session.get(sender.url) as answered:
            assert answered.status == 405


async def test_before_the_nodes_are_known_a_sender_is_asked_to_come_again(tmp_path: Path) -> None:
    async with listening(tmp_path, synced=False) as sender:
        answer = await sender.session.post(sender.url, json={}, headers={"Authorization": f"Bearer {SECRET}"})
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


async def test_a_server_that_fails_is_no_answer_to_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise Interrupted("cut off")

    async with listening(tmp_path) as sender:
        with monkeypatch.context() as patched:
            patched.setattr(Announcer, "_write", broken)
            code, answer = await sender.send({"node": "n1", "kind": "termination", "in": 30})
        assert (code, "send it again" in answer["error"]) == (503, True)
        assert (await sender.send({"node": "n1", "kind": "termination", "in": 30}))[0] == 200


async def test_a_dry_run_answers_the_same_and_writes_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path, dry_run=True) as sender:
        code, answer = await sender.send({"node": "n1", "kind": "termination", "in": 30})
        assert (code, answer["notices"][0]["outcome"]) == (200, "marked")
        assert await sender.taints("n1") == []


def test_a_token_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        Token(tmp_path / "none")
    short = tmp_path / "short"
    short.write_text("secret\n")
    with pytest.raises(UserError, match="at least 16 characters; try 'openssl rand -hex 32'"):
        Token(short)


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with listening(tmp_path) as sender:
        taken = int(sender.url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UserError, match=f"cannot listen on port {taken}"):
            async with webhook.serving(sender.hook, Hook(address=("127.0.0.1", taken), token=None, tls=None)):
                pass
