"""A separate process on a store, driven by the tests in `test_processes`. Writes JSON lines to standard output."""

import asyncio
import json
import sys

from rota import assembly
from rota.store.store_interface import Committed, Put, Transaction


def say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


async def write(url: str, name: str, count: int) -> None:
    """Write pairs of keys, each pair one transaction, and report each acknowledgement; count 0 is without end."""
    store = await assembly.open_store(url)
    say(ready=True)
    number = 0
    while not count or number < count:
        pair = (Put(f"/w/{name}/{number}/a", b"a" * 200), Put(f"/w/{name}/{number}/b", b"b" * 200))
        outcome = await store.commit(Transaction(pair))
        assert isinstance(outcome, Committed)
        say(number=number, revision=outcome.revision)
        number += 1
    await store.close()


async def watch(url: str, after: int, count: int) -> None:
    """Report every event, up to `count` of them."""
    store = await assembly.open_store(url)
    async with store.watch("/w/", after=after) as events:
        say(ready=True)
        seen = 0
        while seen < count:
            for event in (await anext(events)).events:
                say(revision=event.revision, key=event.key)
                seen += 1
    await store.close()


def main() -> None:
    match sys.argv[1:]:
        case ["write", url, name, count]:
            asyncio.run(write(url, name, int(count)))
        case ["watch", url, after, count]:
            asyncio.run(watch(url, int(after), int(count)))


if __name__ == "__main__":
    main()
