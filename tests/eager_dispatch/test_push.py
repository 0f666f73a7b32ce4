"""The leader's calls to workers, over TLS: they arrive, or the watch does without them."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from aiohttp import web
from tests.eager_dispatch.test_offers import bind, on, until_phase, until_there, waiting_pod
from tests.worker.endpoint.harness import Endpoint, until

from rota import eager_dispatch
from rota.api import users
from rota.cli import master, master_options, up
from rota.client.verbs import Client
from rota.eager_dispatch import EagerDispatch
from rota.kit import system
from rota.pki import contexts
from rota.pki.authorities import Purpose
from rota.pki.certificates import Names, Subject
from rota.scheduler.binding import dispatch_mode
from rota.scheduler.binding.dispatch_mode import ANNOTATION, PULL, PUSH
from rota.worker.endpoint import endpoint_server
from rota.worker.node import NODES

MASTER = Subject(common_name="kube-apiserver-kubelet-client", organizations=(users.MASTERS,))
NODE = Subject(common_name="system:node:w2", organizations=("system:nodes",))


class Nobody:
    """No worker runs in this process."""

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        return False


class Here:
    """Every worker runs in this process."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        self.taken += [(node, one["spec"]["nodeName"]) for one in pods]
        return True


@contextlib.asynccontextmanager
async def pushing(tls: ssl.SSLContext, custom: str = PUSH) -> AsyncIterator[EagerDispatch]:
    made = EagerDispatch(default_mode=custom, local=Nobody(), tls=tls, clock=system.SystemClock())
    try:
        yield made
    finally:
        await made.close()


async def raw_node(client: Client) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(await client.get(NODES, "w1")))


async def until_quiet(push: EagerDispatch) -> None:
    async def so() -> bool:
        return not push._calls

    await until(so)


async def pulled(client: Client, pod: dict[str, Any], ran: Path) -> None:
    """The pod is bound, and runs once without having been pushed."""
    assert not ran.exists()
    await bind(client, pod)
    await until_phase(client, "Succeeded")
    assert ran.read_text() == "x\n"


@pytest.mark.parametrize(
    ("custom", "said", "pushed"),
    [
        (PUSH, None, True),
        (PULL, None, False),
        (PUSH, PULL, False),
        (PULL, PUSH, True),
        (PUSH, "by hand", True),
        (PULL, "by hand", False),
    ],
)
def test_a_task_goes_before_the_custom_of_its_cluster(custom: str, said: str | None, pushed: bool) -> None:
    pod = {"metadata": {"annotations": {} if said is None else {ANNOTATION: said}}, "spec": {}}
    assert dispatch_mode.is_pushed(pod, custom) is pushed
    here = Here()
    EagerDispatch(default_mode=custom, local=here, tls=None, clock=system.SystemClock()).bound(pod, "n", None)
    assert here.taken == ([("n", "n")] if pushed else [])


@pytest.mark.parametrize("command", [up.command, master.command])
@pytest.mark.parametrize(
    ("said", "custom"), [([], PUSH), (["--dispatch", "push"], PUSH), (["--dispatch", "pull"], PULL)]
)
def test_an_operator_says_what_the_custom_is(
    command: click.Command, said: list[str], custom: str, tmp_path: Path
) -> None:
    context = command.make_context("rota", [*said, "--store", "memory://", "--data", str(tmp_path)])
    assert master_options.settings(context.params, data=tmp_path).dispatch == custom


def test_a_node_that_does_not_say_where_it_listens_is_not_called() -> None:
    info = {"nodeInfo": {"systemUUID": "i", "containerRuntimeVersion": "rota://process"}}
    stock = {"nodeInfo": {"systemUUID": "i", "containerRuntimeVersion": "containerd://2.1"}}
    address = {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    assert eager_dispatch.endpoint_of(None) is None
    assert eager_dispatch.endpoint_of({"status": info}) is None
    assert eager_dispatch.endpoint_of({"status": address}) is None
    assert eager_dispatch.endpoint_of({"status": {**stock, **address}}) is None
    door = eager_dispatch.endpoint_of(
        {"status": {**info, **address, "daemonEndpoints": {"kubeletEndpoint": {"Port": 7}}}}
    )
    assert door is not None
    assert (door.url, door.incarnation) == ("https://10.0.0.1:7/rota/v1/pods", "i")


@pytest.mark.slow
async def test_a_push_starts_what_the_watch_does_not_show_yet(
    client: Client, endpoint: Endpoint, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    async with pushing(endpoint.tls(MASTER)) as push:
        for _ in range(3):
            push.bound(pod, "w1", await raw_node(client))
        await until_there(ran)
        await until_quiet(push)
    await bind(client, pod)
    await until_phase(client, "Succeeded")
    assert ran.read_text() == "x\n"


@pytest.mark.slow
@pytest.mark.parametrize("subject", [NODE, None])
async def test_a_push_of_anybody_else_is_refused(
    client: Client, endpoint: Endpoint, tmp_path: Path, subject: Subject | None
) -> None:
    ran = tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    async with pushing(endpoint.tls(subject)) as push:
        push.bound(pod, "w1", await raw_node(client))
        await until_quiet(push)
    assert endpoint.worker.agent.machine.pod(pod["metadata"]["uid"]) is None
    await pulled(client, pod, ran)


@pytest.mark.slow
async def test_a_push_to_a_worker_that_was_started_since_is_refused(
    client: Client, endpoint: Endpoint, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    node = await client.get(NODES, "w1")
    node["status"]["nodeInfo"]["systemUUID"] = "the one before"
    async with pushing(endpoint.tls(MASTER)) as push:
        push.bound(pod, "w1", node)
        await until_quiet(push)
    assert endpoint.worker.agent.machine.pod(pod["metadata"]["uid"]) is None
    await pulled(client, pod, ran)


@pytest.mark.slow
async def test_tasks_are_pulled_where_no_endpoint_listens(client: Client, endpoint: Endpoint, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    node = await client.get(NODES, "w1")
    free = endpoint_server.listen("127.0.0.1", 0)
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = free.getsockname()[1]
    free.close()
    async with pushing(endpoint.tls(MASTER)) as push:
        push.bound(pod, "w1", node)
        await until_quiet(push)
        push.bound(pod, "w1", await raw_node(client))
        assert not push._calls, "a worker that could not be called is left alone for a while"
    await pulled(client, pod, ran)


@pytest.mark.slow
async def test_a_push_whose_answer_is_lost_starts_nothing_twice(
    client: Client, endpoint: Endpoint, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    worker, authority = endpoint.worker, endpoint.authority
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")

    async def take(request: web.Request) -> web.Response:
        offer = msgspec.json.decode(await request.read())
        assert worker.offer(offer["incarnation"], offer["pods"]) == [""]
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    application = web.Application()
    application.router.add_post(eager_dispatch.PATH, take)
    identity = authority.issue(
        Subject(common_name="w1"),
        purpose=Purpose.SERVER,
        now=system.SystemClock().now(),
        lifetime_s=3600.0,
        names=Names.of(("127.0.0.1",)),
    )
    runner = web.AppRunner(application)
    await runner.setup()
    listener = endpoint_server.listen("127.0.0.1", 0)
    tls = contexts.server(identity, client_authorities=authority.certificate_pem)
    await web.SockSite(runner, listener, ssl_context=tls).start()
    node = await client.get(NODES, "w1")
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = listener.getsockname()[1]
    try:
        async with pushing(endpoint.tls(MASTER)) as push:
            push.bound(pod, "w1", node)
            await until_quiet(push)
            # The leader that comes next does not know either, and tells the worker itself.
            push._rests_until.clear()
            push.bound(pod, "w1", await raw_node(client))
            await until_quiet(push)
    finally:
        await runner.cleanup()
    assert worker.offer(worker.incarnation, [on(pod)]) == ["it is here"]
    await bind(client, pod)
    await until_phase(client, "Succeeded")
    assert ran.read_text() == "x\n"
