"""The agent as a process beside an API server, between a fake cloud and a spot controller's eyes."""

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest
from tests.notices.fake_clouds import LATER, FakeAws
from tests.notices.processes import PATIENCE_S, line, running, taints, wait

from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = pytest.mark.slow


@pytest.fixture
def metadata() -> Iterator[tuple[FakeAws, str]]:
    """Amazon's endpoint, in a thread of its own."""
    fake, url, ending = FakeAws(), "", threading.Event()
    started = threading.Event()

    async def serve() -> None:
        nonlocal url
        async with fake.serving() as address:
            url = address
            started.set()
            await asyncio.to_thread(ending.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        yield fake, url
    finally:
        ending.set()
        thread.join()


@pytest.mark.timeout(180)
def test_an_agent_marks_its_node_and_stops_when_asked(metadata: tuple[FakeAws, str]) -> None:
    fake, url = metadata
    with LiveServer() as server:
        made = manifests.node("n1")
        made["spec"] = {**made.get("spec", {}), "providerID": "aws:///us-east-1a/i-0abc"}
        server.create("/api/v1/nodes", made)
        options = ["--node", "n1", "--server", server.url, "--metadata", url, "--every", "1s", "--http", "0"]
        with running("spot", "agent", *options) as agent:
            assert line(agent, "Asking ").startswith(f"{url} (aws) whether node n1")
            line(agent, "Metrics at http://127.0.0.1:")
            fake.action = {"action": "terminate", "time": LATER}
            wait(lambda: taints(server, "n1") == {"rota.dev/terminating": "aws"})
            agent.send_signal(signal.SIGINT)
            rest, _ = agent.communicate(timeout=PATIENCE_S)
            assert rest.endswith("The spot agent has stopped.\n")
            assert agent.returncode == 0
