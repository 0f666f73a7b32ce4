"""One open tab: a page that asks and does not read gets no memory without end."""

from typing import Any, cast

import pytest
from tests.web.test_frames import masked

from rota.client.verbs import Client
from rota.testing.clocks import FakeClock
from rota.web import frames, tabs
from rota.web.feeds import Feeds
from rota.web.tabs import Tab


async def test_a_page_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_MOST_QUEUED_BYTES", 1000)
    received = 0

    async def receive() -> Any:
        nonlocal received
        received += 1
        assert received < 100, "the tab takes everything"
        return {"type": "http.request", "body": masked(frames.PING, b"x" * 100)}

    async def send(_: Any) -> None:
        raise AssertionError("nothing is read")

    tab = Tab(cast(Feeds, None), cast(Client, None), send, clock=FakeClock())
    await tab.read(receive)
    tab.close()
    assert tab.farewell == frames.closing(1008, "the page does not read what it asks for")
