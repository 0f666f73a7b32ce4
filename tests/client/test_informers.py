"""Informers against an API that misbehaves on demand."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.api import codec
from rota.client.informers import cache
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.kit.metrics import Metrics
from rota.testing.clocks import FakeClock
from rota.testing.scripted_api import CUT, GONE, Reply, ScriptedApi

TARGET = ("", "v1", "configmaps")
Object = dict[str, Any]


class Witness:
    """Believes only what it is told, and must end up with what the cache holds."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.state: dict[Key, Object] = {}

    def __call__(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None:
            assert new is not None
            assert key not in self.state
            self.seen.append(f"+{key.name}")
        elif new is None:
            assert self.state[key]["metadata"]["uid"] == old["metadata"]["uid"]
            self.seen.append(f"-{key.name}")
        else:
            assert self.state[key] == old
            self.seen.append(f"~{key.name}")
        if new is None:
            del self.state[key]
        else:
            self.state[key] = new

    async def first(self, everything: Collection[tuple[Key, Object]]) -> None:
        """Takes the first list as a whole."""
        assert not self.seen
        await asyncio.sleep(0)
        self.seen.append(f"first {len(everything)}")
        self.state = dict(everything)


class Rig:
    """An informer that runs, and everything around it."""

    def __init__(self, api: ScriptedApi, clock: FakeClock, page_size: int = 500, *, whole: bool = False) -> None:
        self.api = api
        self.clock = clock
        self.metrics = Metrics("client")
        self.transport = InProcessTransport(api, clock=clock)
        self.informer = Informer(
            Source(client=Client(self.transport), target=TARGET, page_size=page_size),
            decode=codec.decode,
            clock=clock,
            rng=random.Random(0),
            indexers={"namespace": cache.by_namespace, "owner": cache.by_owner},
            metrics=self.metrics,
        )
        self.witness = Witness()
        self.informer.add_handler(self.witness, first=self.witness.first if whole else None)
        self._task = asyncio.create_task(self.informer.run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.transport.close()

    def lists(self) -> int:
        return sum(not asked.is_watch for asked in self.api.asked)

    def check(self) -> None:
        """The cache, what the handlers were told, and the truth are one."""
        held = dict(self.informer.cache.items())
        assert held == self.witness.state
        assert held == {Key(*key): obj for key, obj in self.api.objects.items()}
        for namespace in {key.namespace for key in held} | {"default"}:
            expected = [obj for key, obj in held.items() if key.namespace == namespace]
            found = self.informer.cache.indexed("namespace", namespace)
            assert sorted(map(str, found)) == sorted(map(str, expected))


@pytest.fixture
async def rig(api: ScriptedApi, clock: FakeClock) -> AsyncIterator[Rig]:
    api.put("old")
    made = Rig(api, clock)
    await clock.settle()
    yield made
    await made.close()


async def test_the_initial_list_and_changes_are_delivered_in_order(rig: Rig) -> None:
    assert rig.informer.synced
    rig.api.put("new")
    rig.api.put("old", data={"a": "b"})
    rig.api.remove("new")
    await rig.clock.settle()
    assert rig.witness.seen == ["+old", "+new", "~old", "-new"]
    rig.check()


async def test_items_of_lists_and_events_look_the_same(rig: Rig) -> None:
    rig.api.put("new")
    await rig.clock.settle()
    kinds = {(obj["apiVersion"], obj["kind"]) for obj in rig.informer.cache.values()}
    assert kinds == {("v1", "ConfigMap")}


async def test_it_is_not_synced_before_the_list_is_complete(api: ScriptedApi, clock: FakeClock) -> None:
    api.open.clear()
    rig = Rig(api, clock)
    waiting = asyncio.create_task(rig.informer.wait_synced())
    await clock.advance(1)
    assert not waiting.done()
    api.open.set()
    await clock.settle()
    assert waiting.done()
    await rig.close()


@pytest.mark.parametrize("how", ["cut", "end"])
async def test_a_watch_that_ends_is_resumed_where_it_was(rig: Rig, how: str) -> None:
    rig.api.put("seen")
    await rig.clock.settle()
    getattr(rig.api, how)()
    rig.api.put("missed")
    await rig.clock.advance(60)
    assert rig.lists() == 1
    assert rig.witness.seen == ["+old", "+seen", "+missed"]
    rig.check()


async def test_a_bookmark_moves_the_place_to_resume_from(rig: Rig) -> None:
    rig.api.revision += 100
    rig.api.bookmark()
    await rig.clock.settle()
    rig.api.compact()
    rig.api.cut()
    await rig.clock.advance(60)
    assert rig.api.asked[-1].query["resourceVersion"] == str(rig.api.revision)
    assert rig.lists() == 1


async def test_an_expired_watch_leads_to_a_list_and_its_difference(rig: Rig) -> None:
    rig.api.put("gone")
    rig.api.put("changed")
    rig.api.put("same")
    await rig.clock.settle()
    same = rig.informer.cache.get("same", "default")
    rig.api.cut()
    rig.api.remove("gone")
    rig.api.put("changed", data={"a": "b"})
    rig.api.put("new")
    rig.api.compact()
    rig.witness.seen.clear()
    await rig.clock.advance(60)
    assert rig.lists() == 2
    assert rig.witness.seen == ["-gone", "~changed", "+new"]
    assert rig.informer.cache.get("same", "default") is same
    assert rig.metrics.value("informer_lists_total", resource="configmaps", reason="expired") == 1
    rig.check()


async def test_a_410_in_the_middle_of_a_stream_leads_to_a_list(rig: Rig) -> None:
    rig.api.expire()
    rig.api.put("new")
    await rig.clock.advance(60)
    assert rig.lists() == 2
    rig.check()


async def test_a_410_as_an_answer_leads_to_a_list(rig: Rig) -> None:
    rig.api.replies.append(GONE)
    rig.api.end()
    await rig.clock.advance(60)
    assert rig.lists() == 2


async def test_an_object_that_was_made_anew_unseen_is_another_one(rig: Rig) -> None:
    rig.api.cut()
    rig.api.remove("old")
    rig.api.put("old")
    rig.api.compact()
    await rig.clock.advance(60)
    assert rig.witness.seen == ["+old", "-old", "+old"]
    rig.check()


async def test_repeated_events_are_delivered_once(rig: Rig) -> None:
    rig.api.copies = 2
    rig.api.put("new")
    rig.api.put("new", data={"a": "b"})
    rig.api.remove("new")
    await rig.clock.settle()
    assert rig.witness.seen == ["+old", "+new", "~new", "-new"]
    rig.check()


async def test_events_that_never_come_are_made_up_for_by_the_next_list(rig: Rig) -> None:
    rig.api.copies = 0
    rig.api.put("new")
    rig.api.remove("old")
    rig.api.copies = 1
    rig.api.put("later")
    await rig.clock.settle()
    assert rig.witness.seen == ["+old", "+later"]
    rig.api.expire()
    await rig.clock.advance(60)
    rig.check()


async def test_lists_are_read_in_pages(api: ScriptedApi, clock: FakeClock) -> None:
    for number in range(25):
        api.put(f"object-{number:02}")
    rig = Rig(api, clock, page_size=10)
    await rig.informer.wait_synced()
    assert rig.lists() == 3
    rig.check()
    await rig.close()


async def test_a_list_whose_pages_expire_is_read_again_at_once_and_whole(api: ScriptedApi, clock: FakeClock) -> None:
    for number in range(25):
        api.put(f"object-{number:02}")
    rig = Rig(api, clock, page_size=10)
    while rig.lists() < 2:  # noqa: ASYNC110 - the moment between two pages has no event
        await asyncio.sleep(0)
    api.remove("object-00")
    api.compact()
    await clock.advance(60)
    assert "limit" not in [asked for asked in api.asked if not asked.is_watch][-1].query
    rig.check()
    await rig.close()


async def test_a_server_that_fails_is_asked_again_later(api: ScriptedApi, clock: FakeClock) -> None:
    api.put("a")
    api.replies.extend([Reply(code=500, reason="InternalError"), CUT, Reply(code=403, reason="Forbidden")])
    rig = Rig(api, clock)
    await clock.advance(0)
    assert not rig.informer.synced
    await clock.advance(60)
    assert rig.informer.synced
    rig.check()
    await rig.close()


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(rig: Rig) -> None:
    for _ in range(100):
        rig.api.end()
        await rig.clock.advance(0.5)
    assert len(rig.api.asked) < 30


async def test_the_lag_grows_while_there_is_no_watch(rig: Rig) -> None:
    assert rig.informer.lag_s == 0
    rig.api.open.clear()
    rig.api.cut()
    await rig.clock.advance(20)
    assert rig.metrics.value("informer_lag_seconds", resource="configmaps") == pytest.approx(20)
    rig.api.open.set()
    await rig.clock.settle()
    assert rig.informer.lag_s == 0


async def test_a_late_handler_gets_the_present_objects(rig: Rig) -> None:
    late = Witness()
    leave = rig.informer.add_handler(late)
    rig.api.put("new")
    await rig.clock.settle()
    assert late.seen == ["+old", "+new"]
    leave()
    rig.api.remove("new")
    await rig.clock.settle()
    assert late.seen == ["+old", "+new"]


async def test_a_handler_that_fails_costs_the_others_nothing(rig: Rig) -> None:
    def broken(key: Key, old: Object | None, new: Object | None) -> None:
        raise RuntimeError("boom")

    rig.informer.add_handler(broken)
    late = Witness()
    rig.informer.add_handler(late)
    rig.api.put("new")
    await rig.clock.settle()
    assert late.seen == ["+old", "+new"]


async def test_indexes_follow_their_objects(rig: Rig) -> None:
    rig.api.put("child", metadata={"ownerReferences": [{"uid": "u1"}, {"uid": "u2"}]})
    await rig.clock.settle()
    assert [obj["metadata"]["name"] for obj in rig.informer.cache.indexed("owner", "u2")] == ["child"]
    rig.api.put("child", metadata={"ownerReferences": [{"uid": "u1"}]})
    await rig.clock.settle()
    assert rig.informer.cache.indexed("owner", "u2") == []
    assert rig.informer.cache.index_values("owner") == ["u1"]


async def test_a_bulk_handler_gets_the_first_list_then_every_change(api: ScriptedApi, clock: FakeClock) -> None:
    for name in ("a", "b", "c"):
        api.put(name)
    rig = Rig(api, clock, whole=True)
    await clock.settle()
    assert rig.informer.synced
    assert rig.witness.seen == ["first 3"]
    api.put("a", data={"x": "y"})
    await clock.settle()
    # A list that is not the first is told as what it changed.
    api.remove("b")
    api.put("d")
    api.expire()
    await clock.advance(60)
    assert rig.witness.seen[1] == "~a"
    assert {"-b", "+d"} <= set(rig.witness.seen)
    rig.check()
    await rig.close()


async def test_a_first_list_is_delivered_one_by_one_to_plain_handlers(api: ScriptedApi, clock: FakeClock) -> None:
    api.put("a")
    rig, other = Rig(api, clock, whole=True), Witness()
    rig.informer.add_handler(other)
    await clock.settle()
    assert rig.witness.seen == other.seen == ["+a"]
    await rig.close()


async def test_a_handler_that_fails_with_the_first_list_costs_the_others_nothing(
    api: ScriptedApi, clock: FakeClock
) -> None:
    api.put("a")
    rig = Rig(api, clock, whole=True)

    async def fail(_: object) -> None:
        raise RuntimeError("broken")

    rig.informer.add_handler(lambda *_: None, first=fail)
    await clock.settle()
    assert rig.informer.synced
    assert rig.witness.seen == ["first 1"]
    await rig.close()


_NAMES = st.sampled_from(["a", "b", "c"])
_STEPS = st.one_of(
    st.tuples(st.just("put"), _NAMES),
    st.tuples(st.just("remove"), _NAMES),
    st.tuples(st.sampled_from(["cut", "end", "compact", "expire", "bookmark", "settle", "wait", "fail"]), st.just("")),
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(_STEPS, max_size=40), st.integers(1, 3), st.booleans())
@example([("fail", "")] * 20 + [("put", "a")], 1, False)
def test_the_cache_equals_the_server_after_any_interleaving(
    steps: list[tuple[str, str]], page_size: int, whole: bool
) -> None:
    async def run() -> None:
        api, clock = ScriptedApi(), FakeClock()
        rig = Rig(api, clock, page_size, whole=whole)
        for step, name in steps:
            match step:
                case "put":
                    api.put(name)
                case "remove":
                    if ("default", name) in api.objects:
                        api.remove(name)
                case "settle":
                    await clock.settle()
                case "wait":
                    await clock.advance(1)
                case "fail":
                    api.replies.append(Reply(code=503, reason="ServiceUnavailable"))
                case _:
                    getattr(api, step)()
        for _ in range(len(steps) + 3):
            # The longest pause after a failure is shorter, so each round takes one of the failures that are left. An
            # event is a chain of tasks that wake each other, and there may be as many events as steps.
            await clock.advance(60)
            for _ in steps:
                await clock.settle()
            if not api.replies and not rig.informer.lag_s:
                break
        rig.check()
        await rig.close()

    asyncio.run(run())
