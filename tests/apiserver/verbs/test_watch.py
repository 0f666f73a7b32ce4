"""Watches: initial events, changes, bookmarks, and how they end."""

import asyncio
import contextlib
from typing import Any, Self

import pytest

from rota.store import errors
from rota.store.store_interface import Batch
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
END = {"k8s.io/initial-events-end": "true"}


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"n": "0"}}


def told(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_without_a_version_begins_with_what_there_is(api: ApiServer) -> None:
    await api.post(MAPS, config("a"))
    async with api.watch(MAPS) as events:
        assert told(await events.next()) == ("ADDED", "a")
        await api.post(MAPS, config("b"))
        assert told(await events.next()) == ("ADDED", "b")


async def test_a_watch_from_a_version_tells_what_came_after_it(api: ApiServer) -> None:
    first = (await api.post(MAPS, config("a"))).json
    await api.patch(f"{MAPS}/a", {"data": {"n": "1"}})
    await api.delete(f"{MAPS}/a")
    async with api.watch(MAPS, resourceVersion=first["metadata"]["resourceVersion"]) as events:
        modified, deleted = await events.take(2)
    assert told(modified) == ("MODIFIED", "a")
    assert told(deleted) == ("DELETED", "a")
    assert deleted["object"]["data"] == {"n": "1"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(
        modified["object"]["metadata"]["resourceVersion"]
    )


async def test_only_events_of_the_watched_namespace_are_sent(api: ApiServer) -> None:
    async with api.watch(MAPS) as here, api.watch("/api/v1/configmaps") as everywhere:
        await api.post("/api/v1/namespaces/kube-system/configmaps", config("there"))
        await api.post(MAPS, config("here"))
        assert told(await here.next()) == ("ADDED", "here")
        assert [told(event)[1] for event in await everywhere.take(2)] == ["there", "here"]


async def test_a_selector_turns_changes_into_comings_and_goings(api: ApiServer) -> None:
    async with api.watch(MAPS, labelSelector="color=red") as events:
        await api.post(MAPS, config("a", color="blue"))
        await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"color": "red"}}})
        await api.patch(f"{MAPS}/a", {"data": {"n": "1"}})
        await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"color": "blue"}}})
        await api.patch(f"{MAPS}/a", {"data": {"n": "2"}})
        await api.post(MAPS, config("end", color="red"))
        seen = await events.take(4)
    assert [told(event) for event in seen] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "end")]
    assert seen[2]["object"]["metadata"]["labels"] == {"color": "red"}


async def test_fields_select_too(api: ApiServer) -> None:
    async with api.watch(MAPS, fieldSelector="metadata.name=b") as events:
        for name in ("a", "b"):
            await api.post(MAPS, config(name))
        assert told(await events.next()) == ("ADDED", "b")
    async with api.watch(f"{MAPS}/b") as events:
        assert told(await events.next()) == ("ADDED", "b")


async def test_initial_events_end_with_a_bookmark_that_says_so(api: ApiServer) -> None:
    await api.post(MAPS, config("a"))
    wish: dict[str, Any] = {
        "sendInitialEvents": True,
        "allowWatchBookmarks": True,
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watch(MAPS, **wish) as events:
        added, bookmark = await events.take(2)
        assert told(added) == ("ADDED", "a")
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "ConfigMap"
        assert bookmark["object"]["metadata"]["annotations"] == END
        version = bookmark["object"]["metadata"]["resourceVersion"]
        assert int(version) >= int(added["object"]["metadata"]["resourceVersion"])
        await api.post(MAPS, config("b"))
        assert told(await events.next()) == ("ADDED", "b")


async def test_initial_events_can_be_declined(api: ApiServer) -> None:
    await api.post(MAPS, config("a"))
    async with api.watch(MAPS, sendInitialEvents=False, resourceVersionMatch="NotOlderThan") as events:
        await api.post(MAPS, config("b"))
        assert told(await events.next()) == ("ADDED", "b")


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, 'Unsupported value: "Exact"'),
        ({"resourceVersionMatch": "NotOlderThan"}, "is forbidden for watch unless sendInitialEvents is provided"),
    ],
)
async def test_conflicting_watch_options_are_refused(api: ApiServer, query: dict[str, str], complaint: str) -> None:
    answer = await api.get(MAPS, watch="true", **query)
    assert answer.code == 422
    assert complaint in answer.json["message"]


async def test_a_compacted_version_is_gone_before_the_stream_begins(api: ApiServer) -> None:
    first = (await api.post(MAPS, config("a"))).json["metadata"]["resourceVersion"]
    await api.post(MAPS, config("b"))
    await api.store.compact((await api.store.revision_range()).revision)
    answer = await api.get(MAPS, watch="true", resourceVersion=first)
    assert (answer.code, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"].startswith(f"too old resource version: {first} (")


async def test_the_first_event_of_a_table_brings_the_columns(api: ApiServer) -> None:
    async with api.watch(MAPS, accept=TABLE) as events:
        await api.post(MAPS, config("a"))
        await api.post(MAPS, config("b"))
        first, second = await events.take(2)
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]


async def test_a_watch_ends_when_its_time_is_over_and_bookmarks_come_before() -> None:
    clock = FakeClock()
    async with ApiServer(clock=clock) as api:
        await api.post(MAPS, config("a"))
        newest = (await api.get(MAPS)).json["metadata"]["resourceVersion"]
        wish: dict[str, Any] = {"allowWatchBookmarks": True, "timeoutSeconds": 150, "resourceVersion": newest}
        async with api.watch(MAPS, **wish) as events:
            # a change that this watch does not see moves its bookmark
            await api.post("/api/v1/namespaces/kube-system/configmaps", config("there"))
            await clock.advance(61)
            bookmark = await events.next()
            assert bookmark["type"] == "BOOKMARK"
            assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(newest)
            await clock.advance(61)
            assert not events.pending()
            await clock.advance(61)
            with pytest.raises(StopAsyncIteration):
                await events.next()


async def test_the_end_of_the_server_ends_its_watches(api: ApiServer) -> None:
    async with api.watch(MAPS) as events:
        api.app.close()
        with pytest.raises(StopAsyncIteration):
            await events.next()


async def test_an_abandoned_watch_leaves_nothing_behind(api: ApiServer) -> None:
    before = len(asyncio.all_tasks())
    for _ in range(5):
        async with api.watch(MAPS) as events:
            await api.post(MAPS, {**config("x"), "metadata": {"generateName": "x-"}})
            await events.next()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    assert b"rota_apiserver_streams 0.0" in (await api.get("/metrics")).body


async def test_two_servers_on_one_store_tell_each_other_s_changes() -> None:
    async with (
        ApiServer(store_url="memory://two-servers") as one,
        ApiServer(store_url="memory://two-servers", seed=1) as two,
    ):
        async with two.watch(MAPS) as events:
            await one.post(MAPS, config("a"))
            assert told(await events.next()) == ("ADDED", "a")
        assert (await two.get(f"{MAPS}/a")).code == 200
        assert (await two.post(MAPS, config("a"))).code == 409


class Broken:
    """A watch that loses its position after it has begun."""

    revision = 1

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        raise self._error


@pytest.mark.parametrize("error", [errors.Expired(5, 9), errors.SlowWatcher(1000)])
async def test_a_watch_that_loses_its_place_says_so_in_the_stream_and_ends(
    api: ApiServer, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.store, "watch", lambda prefix, after: Broken(error))
    async with api.watch(MAPS, resourceVersion="5") as events:
        told_last = await events.next()
        assert told_last["type"] == "ERROR"
        assert (told_last["object"]["code"], told_last["object"]["reason"]) == (410, "Expired")
        assert told_last["object"]["message"].startswith("too old resource version")
        with pytest.raises(StopAsyncIteration):
            await events.next()


async def test_watchers_that_ask_for_the_same_and_for_other_things_each_get_theirs(api: ApiServer) -> None:
    asked = [
        {},
        {},
        {"labelSelector": "side=left"},
        {"labelSelector": "side=left"},
        {"labelSelector": "side=right"},
        {"fieldSelector": "metadata.name=m1"},
        {"fieldSelector": "metadata.name!=m1"},
    ]
    expected = [["m0", "m1", "m2"]] * 2 + [["m0", "m2"]] * 2 + [["m1"], ["m1"], ["m0", "m2"]]
    async with contextlib.AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(api.watch(MAPS, **one)) for one in asked]
        table = await stack.enter_async_context(api.watch(MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
        for number, side in enumerate(("left", "right", "left")):
            await api.post(MAPS, {"metadata": {"name": f"m{number}", "labels": {"side": side}}})
        for events, names in zip(watches, expected, strict=True):
            assert [(await events.next())["object"]["metadata"]["name"] for _ in names] == names
        assert [(await table.next())["object"]["kind"] for _ in range(3)] == ["Table"] * 3


async def test_workers_watch_the_pods_of_their_node(api: ApiServer) -> None:
    pods = "/api/v1/namespaces/default/pods"
    async with (
        api.watch(pods, fieldSelector="spec.nodeName=n1") as one,
        api.watch(pods, fieldSelector="spec.nodeName=n2") as two,
    ):
        for node in ("n1", "n2", "n1"):
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}
            assert (await api.post(pods, {"metadata": {"generateName": f"{node}-"}, "spec": spec})).code == 201
        assert [(await one.next())["object"]["spec"]["nodeName"] for _ in range(2)] == ["n1", "n1"]
        assert (await two.next())["object"]["spec"]["nodeName"] == "n2"


async def test_an_event_is_selected_by_the_fields_of_the_version_that_is_asked_for(api: ApiServer) -> None:
    """One stored object has other fields in each of its versions; the cache must not mix them up."""
    body = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default"}, "reason": "Why"}
    async with (
        api.watch("/api/v1/namespaces/default/events", fieldSelector="involvedObject.kind=Pod") as core,
        api.watch("/apis/events.k8s.io/v1/namespaces/default/events", fieldSelector="reason=Why") as own,
    ):
        assert (await api.post("/api/v1/namespaces/default/events", body)).code == 201
        assert (await core.next())["object"]["involvedObject"]["kind"] == "Pod"
        assert (await own.next())["object"]["regarding"]["kind"] == "Pod"
