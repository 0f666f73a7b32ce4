"""What a scheduler may do wrong, or what may go wrong between it and the extender; the extender goes on."""

import asyncio
import contextlib
import ipaddress
import json
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.cli import certificates
from rota.client import client_factory
from rota.extender import service
from rota.extender.service import Extender
from rota.extender.view import View
from rota.kit import system
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Identity, Names, Subject
from rota.spot.policies import BASE, WISH
from rota.testing import manifests
from rota.testing.api import PATIENCE_S, ApiServer

NODES = "/api/v1/nodes"
pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def extending(*, tls: ssl.SSLContext | None = None, binds: bool = False) -> AsyncIterator[str]:
    clock, rng = system.SystemClock(), random.Random(0)
    async with ApiServer() as api:
        for name, capacity in (("s1", "spot"), ("d1", "on-demand")):
            await api.post(NODES, manifests.node(name, **{"node.kubernetes.io/capacity": capacity}))
        async with client_factory.to_application(api.app, clock=clock, rng=rng) as client:
            extender = Extender(client, clock=clock, rng=rng, view=View(), binds=binds)
            async with service.serving(extender, host="127.0.0.1", port=0, tls=tls) as url:
                running = asyncio.ensure_future(extender.run())
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        while not extender.synced:  # noqa: ASYNC110 - nothing else tells
                            await asyncio.sleep(0.005)
                    yield url
                finally:
                    running.cancel()
                    await asyncio.wait([running])


async def ask(url: str, verb: str, body: Any, **options: Any) -> tuple[int, Any]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(f"{url}/{verb}", data=sent, **options) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if answer.status == 200 else text


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b"\xff",
    b'{"Pod": null}',
    b'{"Pod": {"metadata": {"name": 7}}}',
    b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": [1], "NodeNameToMetaVictims": 5}',
    b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": {}, "NodeNameToMetaVictims": []}',
    b"[" * 5000,
]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_a_malformed_body_is_refused_and_the_next_one_answered(verb: str) -> None:
    async with extending(binds=True) as url:
        for body in MALFORMED:
            code, text = await ask(url, verb, body)
            assert (code, bool(text)) == (400, True), body
        assert (await ask(url, "filter", {"Pod": manifests.pod("p"), "NodeNames": ["s1"]}))[0] == 200


async def test_unknown_names_pass_and_score_low() -> None:
    async with extending() as url:
        asked = {"Pod": manifests.pod("p"), "NodeNames": ["new", "s1"]}
        assert (await ask(url, "filter", asked))[1]["NodeNames"] == ["new", "s1"]
        scores = {one["Host"]: one["Score"] for one in (await ask(url, "prioritize", asked))[1]}
        assert 0 <= scores["new"] < scores["s1"] <= 10


@pytest.mark.parametrize("none", [{"NodeNames": []}, {"NodeNames": None}, {}, {"Nodes": {"items": []}}])
async def test_no_nodes_get_an_empty_answer(none: dict[str, Any]) -> None:
    async with extending() as url:
        asked = {"Pod": manifests.pod("p"), **none}
        code, answer = await ask(url, "filter", asked)
        found = answer["Nodes"]["items"] if "Nodes" in none else answer["NodeNames"]
        assert (code, found, answer["Error"]) == (200, [], "")
        assert await ask(url, "prioritize", asked) == (200, [])


async def test_both_forms_of_nodes_get_the_same_answer() -> None:
    async with extending() as url:
        pod = manifests.pod("p")
        pod["metadata"]["annotations"] = {WISH: "only"}
        nodes = [
            manifests.node(name, **{"node.kubernetes.io/capacity": capacity})
            for name, capacity in (("s1", "spot"), ("d1", "on-demand"))
        ]
        by_name = (await ask(url, "filter", {"Pod": pod, "NodeNames": ["s1", "d1"]}))[1]
        whole = (await ask(url, "filter", {"Pod": pod, "Nodes": {"items": nodes}}))[1]
        assert by_name["NodeNames"] == [one["metadata"]["name"] for one in whole["Nodes"]["items"]] == ["s1"]
        assert by_name["FailedAndUnresolvableNodes"] == whole["FailedAndUnresolvableNodes"]
        assert (by_name["Nodes"], whole["NodeNames"]) == (None, None)
        forms: list[dict[str, Any]] = [{"NodeNames": ["s1", "d1"]}, {"Nodes": {"items": nodes}}]
        scored = [await ask(url, "prioritize", {"Pod": pod, **form}) for form in forms]
        assert scored[0] == scored[1]


async def test_requests_of_other_versions_are_understood() -> None:
    async with extending() as url:
        pod = manifests.pod("p")
        for asked in (
            {"pod": pod, "nodes": None, "nodenames": ["s1"]},
            {"POD": pod, "NODENAMES": ["s1"]},
            {"Pod": pod, "NodeNames": ["s1"], "PodGroup": {"Name": "g"}, "Nodes": None},
            {"Pod": {**pod, "spec": {**pod["spec"], "newField": [1]}}, "nodeNames": ["s1"]},
        ):
            code, answer = await ask(url, "filter", asked)
            assert (code, answer["NodeNames"]) == (200, ["s1"])
            assert answer.keys() == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}


async def test_preemption_with_nodes_that_are_gone_or_without_victims() -> None:
    async with extending() as url:
        pod = manifests.pod("p")
        victims = {"s1": {"Pods": None, "NumPDBViolations": 0}, "gone": {"Pods": [{"UID": "1"}]}}
        code, answer = await ask(url, "preempt", {"Pod": pod, "NodeNameToMetaVictims": victims})
        assert (code, answer["NodeNameToMetaVictims"].keys()) == (200, {"s1", "gone"})
        assert (await ask(url, "preempt", {"Pod": pod}))[1] == {"NodeNameToMetaVictims": {}}
        pod["metadata"]["annotations"] = {WISH: "only", BASE: "1"}
        asked = {"Pod": pod, "NodeNameToMetaVictims": victims}
        assert (await ask(url, "preempt", asked))[1] == {"NodeNameToMetaVictims": {}}


async def test_binding_is_there_only_where_it_was_asked_for_and_tells_what_is_wrong() -> None:
    args = {"PodName": "nobody", "PodNamespace": "default", "PodUID": "", "Node": "s1"}
    async with extending() as url:
        assert (await ask(url, "bind", args))[0] == 404
    async with extending(binds=True) as url:
        code, answer = await ask(url, "bind", args)
        assert (code, "not found" in answer["Error"]) == (200, True)
        assert (await ask(url, "bind", {"PodName": "p"}))[0] == 400


async def test_a_scheduler_that_gives_up_halfway_does_not_affect_others() -> None:
    async with extending() as url:
        host, port = url.removeprefix("http://").split(":")
        for sent in (
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
            b"POST /fil",
            b"\x16\x03\x01",
        ):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        asked = {"Pod": manifests.pod("p"), "NodeNames": ["s1"]}
        waiting = [asyncio.ensure_future(ask(url, "filter", asked)) for _ in range(5)]
        await asyncio.sleep(0)
        for one in waiting[:-1]:
            one.cancel()
        assert (await waiting[-1])[0] == 200
        await asyncio.wait(waiting)


def identity(authority: Authority, purpose: Purpose) -> Identity:
    names = Names(addresses=(ipaddress.ip_address("127.0.0.1"),))
    now = system.SystemClock().now()
    return authority.issue(Subject(common_name="x"), purpose=purpose, now=now, lifetime_s=3600, names=names)


def written(folder: Path, name: str, made: Identity) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.certificate)
    key.write_bytes(made.key)
    return certificate, key


async def test_tls_requires_trust_on_both_sides(tmp_path: Path) -> None:
    now = system.SystemClock().now()
    ours, another = Authority.create(now=now), Authority.create(now=now, name="another")
    (tmp_path / "ca.crt").write_bytes(ours.certificate_pem)
    tls = certificates.context(
        *written(tmp_path, "server", identity(ours, Purpose.SERVER)), client_ca=tmp_path / "ca.crt"
    )
    asked = {"Pod": manifests.pod("p"), "NodeNames": ["s1"]}

    def client(trusts: Authority, shows: Authority | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=trusts.certificate_pem.decode())
        if shows is not None:
            context.load_cert_chain(*written(tmp_path, "client", identity(shows, Purpose.CLIENT)))
        return context

    async with extending(tls=tls) as url:
        assert url.startswith("https://")
        assert (await ask(url, "filter", asked, ssl=client(ours, ours)))[0] == 200
        for wrong in (client(another, ours), client(ours, None), client(ours, another)):
            with pytest.raises((aiohttp.ClientError, OSError)):
                await ask(url, "filter", asked, ssl=wrong)
        with pytest.raises((aiohttp.ClientError, OSError)):
            await ask(url.replace("https", "http"), "filter", asked)
        assert (await ask(url, "filter", asked, ssl=client(ours, ours)))[0] == 200
