"""The watch cache follows the store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec
import pytest
import pytest_asyncio

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.cache.watch_cache import WatchCache
from rota.kit import system
from rota.store import errors, store_factory
from rota.store.store_interface import Batch, Committed, Store

_PATIENCE_S = 60.0


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = await store_factory.open_store("memory://", time=system.SystemClock(), rng=system.rng())
    yield opened
    await opened.close()


def _resource(plural: str) -> ResourceType:
    found = scheme.builtin().preferred(GroupResource("", plural))
    assert found is not None
    return found


CONFIGS, NAMESPACES = _resource("configmaps"), _resource("namespaces")


async def _put(store: Store, name: str, *, namespace: str = "default", data: str = "") -> int:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"is": data}}
    key = stored_form.key(CONFIGS, namespace, name)
    found = await store.get(key)
    outcome = await store.update(key, msgspec.json.encode(obj), expected=found.revision if found else 0)
    assert isinstance(outcome, Committed)
    return outcome.revision


async def _delete(store: Store, name: str) -> int:
    key = stored_form.key(CONFIGS, "default", name)
    found = await store.get(key)
    assert found is not None
    outcome = await store.delete(key, expected=found.revision)
    assert isinstance(outcome, Committed)
    return outcome.revision


@contextlib.asynccontextmanager
async def _following(followed: WatchCache) -> AsyncIterator[None]:
    task = asyncio.create_task(followed.run())
    try:
        await asyncio.wait_for(followed.ready(), _PATIENCE_S)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _followed(store: Any, resource: ResourceType = CONFIGS) -> WatchCache:
    return WatchCache(store, resource, system.SystemClock())


class _Story:
    """The calls of a listener."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None, str | None]] = []

    def __call__(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        self.told.append((name, old["data"]["is"] if old else None, new["data"]["is"] if new else None))


class _Stumbling:
    """A store whose first watch raises instead of delivering changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.slow = asyncio.Event()
        self.watches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, prefix: str, *, after: int) -> Any:
        self.watches += 1
        return self._store.watch(prefix, after=after) if self.watches > 1 else _SlowWatch(self.slow, after)


class _SlowLists:
    """A store whose lists wait for the test."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list(self, prefix: str, **options: Any) -> Any:
        self.asked.set()
        await self.go_on.wait()
        return await self._store.list(prefix, **options)


class _SlowWatch:
    def __init__(self, slow: asyncio.Event, revision: int) -> None:
        self._slow = slow
        self.revision = revision

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        await self._slow.wait()
        raise errors.SlowWatcher(1)


async def test_it_knows_what_there_was_before_it_came(store: Store) -> None:
    revision = await _put(store, "a", data="1")
    await _put(store, "b", namespace="other")
    followed = _followed(store)
    assert followed.revision == -1
    async with _following(followed):
        found = followed.get("default", "a")
        assert found is not None
        assert found["metadata"]["resourceVersion"] == str(revision)
        assert followed.get("other", "a") is None
        assert [one["metadata"]["name"] for one in followed.all("other")] == ["b"]
        assert len(list(followed.all())) == 2
        assert followed.revision > revision


async def test_it_follows_changes_and_removals(store: Store) -> None:
    followed = _followed(store)
    async with _following(followed):
        revision = await _put(store, "a", data="1")
        assert await followed.reach(revision)
        found = followed.find("default", "a")
        assert found is not None
        assert (found.revision, found.created, found.object["data"]) == (revision, revision, {"is": "1"})
        assert await followed.reach(await _delete(store, "a"))
        assert followed.get("default", "a") is None
        assert list(followed.all("default")) == []


async def test_it_moves_on_with_changes_of_other_kinds(store: Store) -> None:
    followed = _followed(store, NAMESPACES)
    async with _following(followed):
        assert await followed.reach(await _put(store, "a"))
        assert list(followed.all()) == []


async def test_a_listener_gets_every_object_and_then_every_change_with_the_old_object(store: Store) -> None:
    await _put(store, "a", data="1")
    followed, early, late = _followed(store), _Story(), _Story()
    followed.subscribe(early)
    assert early.told == []
    async with _following(followed):
        await _put(store, "a", data="2")
        assert await followed.reach(await _delete(store, "a"))
        await followed.reach(await _put(store, "b", data="3"))
        followed.subscribe(late)
    assert early.told == [("a", None, "1"), ("a", "1", "2"), ("a", "2", None), ("b", None, "3")]
    assert late.told == [("b", None, "3")]


async def test_missed_changes_are_reported_after_the_next_list(store: Store) -> None:
    for name in ("kept", "changed", "gone"):
        await _put(store, name, data="1")
    followed, state_history = _followed(store), _Story()
    async with _following(followed):
        kept = followed.get("default", "kept")
    followed.subscribe(state_history)
    state_history.told.clear()
    await _put(store, "changed", data="2")
    await _put(store, "new", data="2")
    await _delete(store, "gone")
    assert followed.revision == -1
    # between two runs what was known last is handed out
    assert followed.get("default", "gone") is not None
    last = asyncio.Event()
    followed.subscribe(
        lambda old, new: last.set() if old is None and new and new["metadata"]["name"] == "new" else None
    )
    task = asyncio.create_task(followed.run())
    await asyncio.wait_for(last.wait(), _PATIENCE_S)
    assert sorted(state_history.told) == [("changed", "1", "2"), ("gone", "1", None), ("new", None, "2")]
    assert followed.get("default", "kept") is kept
    task.cancel()
    await asyncio.wait([task])


async def test_a_reader_that_falls_behind_lists_again_and_misses_nothing(store: Store) -> None:
    stumbling = _Stumbling(store)
    followed, state_history = _followed(stumbling), _Story()
    followed.subscribe(state_history)
    await _put(store, "a", data="1")
    async with _following(followed):
        stumbling.slow.set()
        assert await followed.reach(await _put(store, "a", data="2"))
        assert await followed.reach(await _put(store, "b", data="3"))
    assert stumbling.watches == 2
    assert state_history.told == [("a", None, "1"), ("a", "1", "2"), ("b", None, "3")]


async def test_waiting_for_a_revision_that_never_comes_times_out(store: Store) -> None:
    followed = _followed(store)
    assert not await followed.reach(1)


async def test_a_list_that_is_under_way_is_waited_for(store: Store) -> None:
    revision = await _put(store, "a", data="1")
    slow = _SlowLists(store)
    followed = _followed(slow)
    running = asyncio.create_task(followed.run())
    async with asyncio.timeout(_PATIENCE_S):
        await slow.asked.wait()
        reaching = asyncio.create_task(followed.reach(revision))
        await asyncio.sleep(0.05)
        assert not reaching.done()
        slow.go_on.set()
        assert await reaching
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.slow
async def test_waiting_for_a_revision_of_the_future_comes_to_an_end(store: Store) -> None:
    followed = _followed(store)
    async with _following(followed):
        assert not await followed.reach((await store.revision_range()).revision + 1)


async def test_it_ends_with_the_store(store: Store) -> None:
    followed = _followed(store)
    task = asyncio.create_task(followed.run())
    await followed.ready()
    await store.close()
    await asyncio.wait_for(task, _PATIENCE_S)
    assert followed.revision == -1
