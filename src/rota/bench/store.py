"""Benchmark of a store, compared with its database used directly.

Everything is written under a separate prefix and removed at the end, so a store in use can be measured, too.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable

import numpy as np
from msgspec import Struct

from rota import assembly
from rota.bench import raw
from rota.bench.report import Result, duration, median, rate
from rota.store.store_interface import Batch, Committed, Delete, Store, Transaction

#: About the size of a Pod as JSON.
VALUE_BYTES = 2048
LISTED = 10_000
WRITERS = 64
PAGE = 100


class Effort(Struct, frozen=True, kw_only=True):
    """How much to measure."""

    rounds: int = 5
    single_writes: int = 400
    group_writes: int = 6400
    watchers: int = 500
    writes_per_s: int = 2000
    watch_s: float = 10.0


QUICK = Effort(rounds=3, single_writes=150, group_writes=1920, watch_s=3.0)


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """Measure the store at `store_url`; see `rota bench`."""
    return assembly.run(_measure(store_url, quick))


async def _measure(url: str, quick: bool) -> list[Result]:
    effort = QUICK if quick else Effort()
    reference = await raw.open_reference(url)
    store = await assembly.open_store(url)
    try:
        async with _own_prefix(store) as prefix:
            return [
                *await _writes(store, reference, prefix, effort),
                *await _lists(store, reference, prefix, effort),
                *await _watches(store, prefix, effort),
            ]
    finally:
        await store.close()
        await reference.close()


@contextlib.asynccontextmanager
async def _own_prefix(store: Store) -> AsyncIterator[str]:
    """A unique prefix, emptied at the end."""
    prefix = f"/rota-bench/{secrets.token_hex(4)}/"
    try:
        yield prefix
    finally:
        while (page := await store.list(prefix, limit=PAGE)).entries:
            await store.commit(Transaction(tuple(Delete(entry.key) for entry in page.entries)))


async def _writes(store: Store, reference: raw.Reference, prefix: str, effort: Effort) -> list[Result]:
    """Creates by one writer and by many; rounds of the store and of the reference alternate."""
    value = secrets.token_bytes(VALUE_BYTES)
    rounds: dict[str, list[float]] = {"one": [], "raw one": [], "many": [], "raw many": []}
    single, group = effort.single_writes, effort.group_writes
    for number in range(effort.rounds):
        at = f"{prefix}writes/{number}/"
        rounds["raw one"].append(await _per_s(single, reference.singly(single, value)))
        rounds["one"].append(await _per_s(single, _create(store, at, single, value)))
        rounds["raw many"].append(await _per_s(group, reference.grouped(group, WRITERS, value)))
        rounds["many"].append(await _per_s(group, _create_together(store, f"{at}many/", group, value)))
    one, raw_one, many_, raw_many = (median(rounds[key]) for key in ("one", "raw one", "many", "raw many"))
    return [
        rate("creates, 1 writer", one, raw_one, against=reference.singly_is),
        rate(f"creates, {WRITERS} writers", many_, raw_many, against=reference.grouped_is),
        rate(f"creates, {WRITERS} writers together", many_, one, against="the same with 1 writer"),
    ]


async def _per_s(count: int, work: Awaitable[None]) -> float:
    start = time.perf_counter()
    await work
    return count / (time.perf_counter() - start)


async def _create(store: Store, prefix: str, count: int, value: bytes) -> None:
    for number in range(count):
        assert isinstance(await store.create(f"{prefix}{number}", value), Committed)


async def _create_together(store: Store, prefix: str, count: int, value: bytes) -> None:
    each = count // WRITERS
    await asyncio.gather(*(_create(store, f"{prefix}{writer}/", each, value) for writer in range(WRITERS)))


async def _lists(store: Store, reference: raw.Reference, prefix: str, effort: Effort) -> list[Result]:
    """A list of many objects, and reads of one."""
    value = secrets.token_bytes(VALUE_BYTES)
    await _create_together(store, f"{prefix}list/", LISTED // WRITERS * WRITERS, value)
    for number in range(LISTED % WRITERS):
        await store.create(f"{prefix}list/rest/{number}", value)
    await reference.fill(LISTED, value)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(effort.rounds):
        theirs.append(1000 / await _per_s(1, reference.read_all()))
        ours.append(1000 / await _per_s(1, _list(store, f"{prefix}list/")))
    gets = 2000
    key = (await store.list(f"{prefix}list/", limit=1)).entries[0].key
    raw_rate = median([await _per_s(gets, reference.read_one(gets)) for _ in range(effort.rounds)])
    get_rate = median([await _per_s(gets, _get(store, key, gets)) for _ in range(effort.rounds)])
    return [
        duration(f"list of {LISTED:,} objects of 2 KB", median(ours), median(theirs), against=reference.read_all_is),
        rate("gets, one after the other", get_rate, raw_rate, against=reference.read_one_is),
    ]


async def _list(store: Store, prefix: str) -> None:
    assert len((await store.list(prefix)).entries) == LISTED


async def _get(store: Store, key: str, count: int) -> None:
    for _ in range(count):
        assert await store.get(key)


async def _watches(store: Store, prefix: str, effort: Effort) -> list[Result]:
    """The time from the commit of a change until each of many watchers gets it."""
    bare_ms = await _bare_wakeup_ms(effort.watchers)
    lag = await _lag(store, f"{prefix}watch/", effort.watchers, effort)
    what = f"{effort.watchers} watchers at {lag.writes_per_s:,.0f} writes/s"
    bare = f"waking {effort.watchers} bare tasks"
    return [
        rate(f"{what}: delivered", lag.delivered, 1.0, against="every event at every watcher", unit="of 1"),
        duration(f"{what}: lag, median", lag.median_ms, bare_ms, against=bare),
        duration(f"{what}: lag, p99", lag.p99_ms, bare_ms, against=bare),
    ]


async def _bare_wakeup_ms(tasks: int) -> float:
    """The time of the event loop to wake as many empty tasks, a lower bound of any fan-out."""
    took: list[float] = []
    for _ in range(20):
        event = asyncio.Event()
        waiting = [asyncio.create_task(event.wait()) for _ in range(tasks)]
        await asyncio.sleep(0)
        start = time.perf_counter()
        event.set()
        await asyncio.gather(*waiting)
        took.append(1000 * (time.perf_counter() - start))
    return median(took)


class _Lag(Struct, frozen=True, kw_only=True):
    median_ms: float
    p99_ms: float
    writes_per_s: float
    #: The part of all events that reached all watchers, counted: 1.0 when none is missing and none came twice.
    delivered: float


async def _lag(store: Store, prefix: str, watchers: int, effort: Effort) -> _Lag:
    start_revision = (await store.revision_range()).revision
    total = int(effort.writes_per_s * effort.watch_s)
    received: list[list[tuple[float, Batch]]] = [[] for _ in range(watchers)]
    ready = [asyncio.Event() for _ in range(watchers)]

    async def follow(number: int) -> None:
        async with store.watch(prefix, after=start_revision) as watch:
            ready[number].set()
            seen = 0
            while seen < total:
                batch = await anext(watch)
                received[number].append((time.perf_counter(), batch))
                seen += len(batch.events)

    following = [asyncio.create_task(follow(number)) for number in range(watchers)]
    await asyncio.gather(*(event.wait() for event in ready))
    begin = time.perf_counter()
    committed = await _paced_writes(store, prefix, total, effort.writes_per_s)
    took = time.perf_counter() - begin
    await asyncio.wait_for(asyncio.gather(*following), 60)

    lags = np.concatenate(
        [
            at - np.array([committed[event.revision] for event in batch.events])
            for batches in received
            for at, batch in batches
        ]
    )
    # A watcher may be woken before the writer is: that is no lag, not a negative one.
    lags_ms = np.maximum(lags, 0.0) * 1000
    return _Lag(
        median_ms=float(np.median(lags_ms)),
        p99_ms=float(np.percentile(lags_ms, 99)),
        writes_per_s=total / took,
        delivered=len(lags) / (total * watchers),
    )


async def _paced_writes(store: Store, prefix: str, total: int, per_s: int) -> dict[int, float]:
    """Write at a steady rate; when each revision was acknowledged."""
    committed: dict[int, float] = {}
    value = secrets.token_bytes(VALUE_BYTES)

    async def write(number: int) -> None:
        outcome = await store.create(f"{prefix}{number}", value)
        assert isinstance(outcome, Committed)
        committed[outcome.revision] = time.perf_counter()

    begin = time.perf_counter()
    under_way: set[asyncio.Task[None]] = set()
    for number in range(total):
        ahead = begin + number / per_s - time.perf_counter()
        if ahead > 0.002:
            await asyncio.sleep(ahead)
        task = asyncio.create_task(write(number))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return committed
