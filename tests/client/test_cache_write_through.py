"""What an informer's owner has written himself, known before the news of it."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import codec
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Identity, Source
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.testing.clocks import FakeClock
from rota.testing.scripted_api import ScriptedApi

Object = dict[str, Any]


class Rig:
    """An informer that runs, and what it told."""

    def __init__(self, api: ScriptedApi, transport: InProcessTransport, clock: FakeClock) -> None:
        self.api = api
        self.clock = clock
        self.told: list[str] = []
        source = Source(client=Client(transport), target=("", "v1", "configmaps"))
        self.informer = Informer[Object](source, decode=codec.decode, clock=clock, rng=random.Random(0))
        self.informer.add_handler(self._tell)

    def _tell(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.told.append(f"{'+' if old is None else '-' if new is None else '~'}{key.name}")

    def learn(self, obj: Object) -> None:
        metadata = obj["metadata"]
        identity = Identity(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )
        self.informer.learn(obj, identity)

    def known(self, name: str) -> Object | None:
        return self.informer.cache.get(name, "default")


@pytest.fixture
async def rig(api: ScriptedApi, clock: FakeClock) -> AsyncIterator[Rig]:
    api.put("old")
    transport = InProcessTransport(api, clock=clock)
    made = Rig(api, transport, clock)
    running = asyncio.create_task(made.informer.run())
    await clock.settle()
    yield made
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await transport.close()


async def test_a_response_is_cached_at_once_and_its_watch_event_ignored(rig: Rig) -> None:
    answer = rig.api.put("new")
    rig.learn(answer)
    assert (rig.known("new"), rig.told) == (answer, ["+old", "+new"])
    await rig.clock.settle()
    assert rig.told == ["+old", "+new"]


async def test_an_answer_that_comes_after_its_news_changes_nothing(rig: Rig) -> None:
    first = rig.api.put("new")
    second = rig.api.put("new", data={"a": "b"})
    await rig.clock.settle()
    rig.learn(first)
    assert (rig.known("new"), rig.told) == (second, ["+old", "+new", "~new"])


async def test_an_answer_does_not_bring_back_what_is_gone_by_now(rig: Rig) -> None:
    answer = rig.api.put("new")
    rig.api.remove("new")
    await rig.clock.settle()
    rig.learn(answer)
    assert (rig.known("new"), rig.told) == (None, ["+old", "+new", "-new"])


async def test_what_was_learnt_is_gone_when_the_news_of_that_comes(rig: Rig) -> None:
    rig.learn(rig.api.put("new"))
    rig.api.remove("new")
    await rig.clock.settle()
    assert (rig.known("new"), rig.told) == (None, ["+old", "+new", "-new"])


async def test_older_news_does_not_undo_what_was_learnt(rig: Rig) -> None:
    rig.api.put("new")
    answer = rig.api.put("new", data={"a": "b"})
    rig.learn(answer)
    await rig.clock.settle()
    assert (rig.known("new"), rig.told) == (answer, ["+old", "+new"])
